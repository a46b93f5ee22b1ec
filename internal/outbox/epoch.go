package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"oxyd/internal/event"
)

// An epoch is a second and 20 random bits: seconds rise from start to start, and
// the random part keeps two copies of one card apart.
const (
	epochRandomBits = 20
	// epochSecondsEnd keeps epochs below 2^53, which any JSON reader holds exactly.
	// It is in the year 2242.
	epochSecondsEnd = 1 << (53 - epochRandomBits)
	// epochRaiseMax is the greatest second that a confirm can push the epoch to, so
	// that one absurd message leaves room for a million starts.
	epochRaiseMax = epochSecondsEnd - 1<<20
)

// wallKnownFrom is the earliest date that a running node can have.
var wallKnownFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// newEpoch draws an epoch above floor. byTime: the wall clock decided, not floor.
func newEpoch(floor uint64, wall time.Time) (epoch uint64, byTime bool, err error) {
	seconds := floor>>epochRandomBits + 1
	if now := wall.Unix(); !wall.Before(wallKnownFrom) && now < epochRaiseMax && uint64(now) >= seconds {
		seconds, byTime = uint64(now), true
	}
	if seconds >= epochSecondsEnd {
		return 0, false, fmt.Errorf("draw an epoch above %d: none is left", floor)
	}
	var random [4]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	return seconds<<epochRandomBits | uint64(binary.BigEndian.Uint32(random[:])>>(32-epochRandomBits)), byTime, nil
}

// errUnchanged leaves a transaction without a commit.
var errUnchanged = errors.New("unchanged")

// Fresh reports whether the store has never handed anything over: then it may be in the
// place of another that was lost.
func (o *Outbox) Fresh() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.st.sent == 0
}

// RaiseEpoch makes sure that what is appended from now on has an epoch above the
// given one, and that later starts have too. It returns the epoch in force, which
// is the old one where that is above already. An epoch beyond all sense is an
// error and changes nothing.
func (o *Outbox) RaiseEpoch(above uint64) (uint64, error) {
	if above>>epochRandomBits > epochRaiseMax {
		return 0, fmt.Errorf("raise the epoch above %d: beyond any clock", above)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return 0, err
	}
	return o.raiseEpoch(above)
}

// raiseEpoch needs mu.
func (o *Outbox) raiseEpoch(above uint64) (uint64, error) {
	if above > o.st.epoch {
		if err := o.update(func(c *change) error { c.st.epoch = above; return nil }); err != nil {
			return 0, fmt.Errorf("raise the epoch: %w", err)
		}
	}
	if o.epoch <= above {
		epoch, byTime, err := newEpoch(o.st.epoch, o.o.Clock.Now())
		if err != nil {
			return 0, err
		}
		o.epoch, o.byTime = epoch, byTime
	}
	return o.epoch, nil
}

// epochPause is the least time between two epochs that confirmations bring about.
const epochPause = 10 * time.Minute

// leaving is an epoch that is to be left, and why.
type leaving struct {
	above  uint64 // 0: none
	reason string
	ledger string

	left bool          // one was left before
	at   time.Duration // when, by the clock since boot
}

// avoidEpochs takes a new epoch where a confirmation shows that the one in force
// is fenced, that there is a newer one, or that it holds a number which this store
// has not given (strange): then another copy of this store, or this one before it
// was restored, has used them. Rows that exist keep their identity. It needs mu.
func (o *Outbox) avoidEpochs(c *event.Confirm, strange bool) {
	l := leaving{above: o.epoch, ledger: c.Ledger, left: o.leave.left, at: o.leave.at}
	absurd := c.NewestEpoch>>epochRandomBits > epochRaiseMax
	switch {
	case c.NewestEpoch > o.epoch && !absurd:
		l.above, l.reason = c.NewestEpoch, "a newer epoch is in use"
	case slices.Contains(c.Fenced, o.epoch):
		l.reason = "the epoch is fenced"
	case strange:
		l.reason = "the epoch holds a number that was never given here"
	default:
		return
	}
	o.leave = l
	o.leaveEpoch()
}

// leaveEpoch leaves the epoch, unless that was done just before: then Run does it
// when its time has come.
func (o *Outbox) leaveEpoch() {
	l, now := &o.leave, o.o.Clock.Mono()
	if l.above < o.epoch {
		l.above = 0 // it has been left
	}
	if l.above == 0 || l.left && now-l.at < epochPause {
		return
	}
	old := o.epoch
	epoch, err := o.raiseEpoch(l.above)
	if err != nil {
		o.o.Log.Warn().Err(err).Str("ledger", l.ledger).Str("reason", l.reason).Msg("no new epoch")
		return
	}
	o.counters.EpochsLeft++
	o.o.Log.Warn().Str("ledger", l.ledger).Str("reason", l.reason).Uint64("old", old).Uint64("new", epoch).
		Msg("new epoch: another copy of this store may be in use")
	*l = leaving{left: true, at: now}
}

// holdMax is how long a new store without a known time waits for a confirmation.
const holdMax = 30 * time.Second

// hold keeps the rows of a new store that knows no time, and so no epoch above
// those of a store before it, until a ledger may have told which are in use. It
// begins with the first Next, which whoever hands over calls once connected.
type hold struct {
	on, begun bool
	from      time.Duration // by the clock since boot
}

func (o *Outbox) holding() bool {
	h := &o.hold
	if !h.on {
		return false
	}
	now := o.o.Clock.Mono()
	if !h.begun {
		h.begun, h.from = true, now
		o.o.Log.Info().Dur("at_most_ms", holdMax).Msg("new store, clock unknown: nothing is sent before a ledger tells which epochs are in use")
	}
	h.on = !o.confirmed && now-h.from < holdMax
	return h.on
}

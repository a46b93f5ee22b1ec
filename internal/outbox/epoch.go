package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
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

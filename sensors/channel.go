package sensors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"periph.io/x/conn/v3/physic"
)

// State is what a channel's readings are worth. It stands in the node's status.
type State string

// The states of a channel. It starts as StateStale with ReasonStarting.
const (
	StateOK      State = "ok"      // the last reading is good and fresh
	StateSuspect State = "suspect" // it counts, but deserves a look
	StateFault   State = "fault"   // the reads fail
	StateStale   State = "stale"   // no good reading for longer than StaleAfter
	StateMissing State = "missing" // the chip or its bus is not there
)

// Bounds of a channel's behaviour.
const (
	// FaultsBeforeState is how many reads in a row must fail before the state
	// says so, and how many in a row must fail for another reason before a state
	// that says so changes. Before, a failed read is an absent reading and a
	// count. A channel that never gave a reading is not given that patience.
	FaultsBeforeState = 3
	// ReadTimeout is the default bound of one read. It is longer than the second
	// after which most adapters give up by themselves and say why.
	ReadTimeout = 1500 * time.Millisecond
	// RetryMax is the longest pause between reads of a chip that cannot be
	// reached, unless its interval is longer. The pause begins at the interval
	// and doubles, so that a dead chip does not take its bus from the others.
	RetryMax = 30 * time.Second
	// FilterPatience is how many readings in a row a filter may refuse as too far from
	// those before, until that is a fault: twice what a refill or a burst takes to be
	// believed with the widest window.
	FilterPatience = 32
	// maxRemaining is the largest mass that an event can carry.
	maxRemaining = physic.Mass(1e18)
)

// Channel is one measuring channel of a bus, as the poller is told of it.
type Channel struct {
	Tank     string
	Name     string
	Quantity Quantity // that it gives; "" means Content

	Interval   time.Duration // between two reads, > 0
	StaleAfter time.Duration // 0 means three intervals; not below one
	Timeout    time.Duration // of one read; 0 means ReadTimeout
	FaultAfter time.Duration // reads must fail for so long before the state says so; 0: FaultsBeforeState alone
	Optional   bool          // may be absent: then it is logged without alarm

	// Open talks to the hardware once and returns the probe. It runs when the
	// poller starts, and again after the chip could not be reached, was reset or held
	// another setting than ours, always on the goroutine that owns the bus.
	Open func(ctx context.Context) (Probe, error)

	// Refine, which may be nil, sees every good reading in order, once, and may
	// change it or refuse it: an error is a failed read. What it remembers outlives
	// the probe. It never sees a reading that came too late. Rest is asked once, when
	// the poller stops, for what Refine still keeps; ok is false for nothing.
	Refine func(r *Reading) error
	Rest   func(now time.Time) (r Reading, ok bool)
	// Faulted, which may be nil, is told when the state becomes fault, stale or missing.
	Faulted func()
	// Booking, which may be nil, is held from Refine or Rest until OnReading has returned: by
	// channels of one tank whose bookings must not overtake one another.
	Booking *sync.Mutex
}

// complete fills in the defaults and says all that is wrong.
func (c *Channel) complete() error {
	if c.StaleAfter == 0 {
		c.StaleAfter = 3 * c.Interval
	}
	if c.Timeout == 0 {
		c.Timeout = ReadTimeout
	}
	if c.Quantity == "" {
		c.Quantity = Content
	}
	var errs []error
	if c.Interval <= 0 {
		errs = append(errs, fmt.Errorf("interval %s is not above zero", c.Interval))
	}
	if c.StaleAfter < c.Interval {
		errs = append(errs, fmt.Errorf("stale_after %s is shorter than the interval %s", c.StaleAfter, c.Interval))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s is negative", c.Timeout))
	}
	if c.Open == nil {
		errs = append(errs, errors.New("no way to open the probe"))
	}
	return errors.Join(errs...)
}

// ChannelState is a channel as the node's status shows it.
type ChannelState struct {
	Tank     string
	Name     string
	Quantity Quantity
	Bus      string
	Optional bool

	State  State
	Reason Reason // "" while ok
	Detail string // for a human; "" while ok
	Since  time.Time

	// LastGood is the last good reading, whatever the state; its At is zero when
	// there was none yet.
	LastGood Reading
	// Seen is what the last read saw, as far as it came: the chip's number and what
	// stood on the wire are there also where no value came of it. It is for people.
	Seen Reading

	// Counters since the start.
	Reads  uint64 // that ended, well or not
	Faults uint64 // of these, failed
	Late   uint64 // of these, given up before they ended: the bus hung
	Missed uint64 // ticks without a read, because the bus was busy
	InRow  int    // failed reads since the last good one
}

// status is one channel's state machine. It reads no clock and calls nobody: the
// poller tells it what happened and when, and asks what to tell others. Its
// methods report whether the state or its reason changed.
type status struct {
	ChannelState
	started    time.Time
	staleAfter time.Duration
	last       Reason // of the last failed read
	lastInRow  int    // failed reads in a row for that reason

	faultAfter time.Duration
	failing    time.Time // when the first of the failed reads in a row was

	filtered int       // readings in a row that a filter refused
	heard    time.Time // the last of those: the channel is not silent
}

// good takes a good reading. It heals at once.
func (s *status) good(r Reading) (changed bool) {
	s.Reads++
	s.InRow, s.last, s.lastInRow, s.filtered = 0, "", 0, 0
	s.LastGood, s.Seen = r, r
	if r.Suspect {
		return s.enter(StateSuspect, r.Why, "", r.At)
	}
	return s.enter(StateOK, "", "", r.At)
}

// failed takes a failed read, and what it saw.
func (s *status) failed(f *Fault, seen Reading, now time.Time) (changed bool) {
	s.Seen = seen
	s.Reads++
	s.Faults++
	if isFiltered(f.Reason) && s.filtered < FilterPatience {
		s.filtered++
		s.heard = now
		return false
	}
	if s.InRow++; s.InRow == 1 {
		s.failing = now
	}
	if f.Reason != s.last {
		s.last, s.lastInRow = f.Reason, 0
	}
	s.lastInRow++
	if f.Reason == ReasonStarting { // it waits for another: expire says when that is too long
		return false
	}
	failing := s.State == StateFault || s.State == StateMissing
	never := s.LastGood.At.IsZero() && !failing
	if failing && s.lastInRow < FaultsBeforeState || s.InRow < FaultsBeforeState && !never {
		return false
	}
	if !failing && !never && now.Sub(s.failing) < s.faultAfter {
		return false
	}
	state := StateFault
	if unreachable(f.Reason) {
		state = StateMissing
	}
	return s.enter(state, f.Reason, f.Error(), now)
}

// isFiltered reports whether the reason says that a number came, and a filter waits for
// others that agree with it.
func isFiltered(r Reason) bool { return r == ReasonSpike || r == ReasonRate }

// unreachable reports whether the reason says that nothing is there.
func unreachable(r Reason) bool { return r == ReasonNack || r == ReasonNoBus }

// expire takes the passing of time: without a good reading for too long the
// channel is stale, unless its state already says something worse.
func (s *status) expire(now time.Time) (changed bool) {
	at, ok := s.staleAt()
	if !ok || now.Before(at) {
		return false
	}
	reason := s.last
	switch reason {
	case "":
		reason = ReasonNoReading
	case ReasonStarting: // of the probe that it waits for; its own start is over
		reason = ReasonAuxiliary
	}
	return s.enter(StateStale, reason, fmt.Sprintf("no good reading for %s", s.staleAfter), now)
}

// staleAt is when expire will have something to do; ok is false for never.
func (s *status) staleAt() (at time.Time, ok bool) {
	switch {
	case s.State == StateFault, s.State == StateMissing:
		return at, false
	case s.State == StateStale && s.Reason != ReasonStarting:
		return at, false
	case s.LastGood.At.IsZero():
		return s.started.Add(s.staleAfter), true
	}
	if s.heard.After(s.LastGood.At) {
		return s.heard.Add(s.staleAfter), true
	}
	return s.LastGood.At.Add(s.staleAfter), true
}

// enter sets the state. Since moves with the state, and not with the reason.
func (s *status) enter(state State, reason Reason, detail string, now time.Time) (changed bool) {
	if s.State == state && s.Reason == reason {
		s.Detail = detail
		return false
	}
	if s.State != state {
		s.Since = now
	}
	s.State, s.Reason, s.Detail = state, reason, detail
	return true
}

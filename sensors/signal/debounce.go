package signal

import (
	"errors"
	"fmt"
	"time"
)

// Condition is what one sample says of a condition.
type Condition uint8

// What it may say.
const (
	Unknown Condition = iota // no value, so no answer
	False
	True
)

// Below says whether x is below the limit; once it was (active), whether it is
// still below restore, which is at least the limit. What is no number, was
// rejected or is unconfirmed is unknown: it neither raises an alarm nor clears one.
func Below(x float64, v Verdict, limit, restore float64, active bool) Condition {
	if !v.settled() || !finite(x) {
		return Unknown
	}
	if active {
		limit = restore
	}
	if x < limit {
		return True
	}
	return False
}

// Debounce delays a condition: it is on when it was true for On, and off again
// when it was false for Off, by the times that the samples come with. A delay of
// zero is none.
//
// Unknown holds the state. It does not stop an on-delay, so that failing reads
// cannot put off an alarm for ever, though it takes a true sample to end it; and
// it does begin an off-delay anew, so that only good samples clear an alarm.
type Debounce struct {
	on, off time.Duration
	active  bool
	pending bool          // the samples contradict active
	since   time.Duration // from when on
	last    time.Duration
	refused uint64
}

// NewDebounce makes a condition that is off, or says all that is wrong.
func NewDebounce(on, off time.Duration) (*Debounce, error) {
	var errs []error
	if on < 0 {
		errs = append(errs, fmt.Errorf("on-delay %s is negative", on))
	}
	if off < 0 {
		errs = append(errs, fmt.Errorf("off-delay %s is negative", off))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Debounce{on: on, off: off}, nil
}

// Take notes what a sample says, and gives the state. A time before the last one
// is refused: it is counted and changes nothing. Equal times are welcome.
func (d *Debounce) Take(c Condition, at time.Duration) bool {
	if at < d.last {
		d.refused++
		return d.active
	}
	d.last = at
	switch {
	case c == Unknown:
		d.pending = d.pending && !d.active
		return d.active
	case (c == True) == d.active:
		d.pending = false
		return d.active
	case !d.pending:
		d.pending, d.since = true, at
	}
	delay := d.on
	if d.active {
		delay = d.off
	}
	if at-d.since >= delay {
		d.active, d.pending = !d.active, false
	}
	return d.active
}

// Active is the state.
func (d *Debounce) Active() bool { return d.active }

// Refused counts the samples whose time went back.
func (d *Debounce) Refused() uint64 { return d.refused }

package signal

import (
	"fmt"
	"math"
	"time"
)

// Defaults of a Counter.
const (
	DefaultCounterConfirm    = 10
	DefaultCounterConfirmFor = 10 * time.Minute
	counterJitter            = time.Second // how far the times of two totals may be off
)

// Total is what a meter counts in: pulses, or a quantity.
type Total interface{ uint64 | float64 }

// CounterOptions describe a meter that counts up.
type CounterOptions[T Total] struct {
	// MaxRate is the fastest plausible count, in units a second, > 0. What goes up
	// faster is not booked.
	MaxRate float64

	// Wrap is the total at which the source begins again at zero (1<<32 of a 32-bit
	// register); 0 where it does not.
	Wrap T

	// A total that is below the last one, or implausibly far above it, becomes the
	// base of what follows when Confirm totals (> 1; 0 means 10) over at least
	// ConfirmFor (> 0; 0 means ten minutes) count on from it plausibly.
	Confirm    int
	ConfirmFor time.Duration
}

// CounterEvent says that a meter's total has begun anew.
type CounterEvent string

// The events.
const (
	CounterGoesOn  CounterEvent = ""
	CounterReset   CounterEvent = "counter_reset"   // it began again at or near zero
	CounterWrapped CounterEvent = "counter_wrapped" // it passed Wrap
	CounterJumped  CounterEvent = "counter_jumped"  // it was set to another total
)

// Counted is what one total adds.
type Counted[T Total] struct {
	Delta T // >= 0, what was counted since the total before
	Event CounterEvent
	Lost  uint64 // pulses that the source says it did not see; not in Delta
}

// CounterState is what a restart must not forget. It is kept together with what
// the delta became.
type CounterState[T Total] struct {
	Known bool   `json:"known"`
	Base  T      `json:"base"`
	Boot  string `json:"boot"`
}

// Counter turns a meter's total into what was counted. It rather misses than
// invents: no total is booked as new for having come back, and none for having
// been set.
//
//   - A total below the last one is a dip: suspect, nothing booked. When the total
//     comes back, what was counted meanwhile is booked as if there had been no dip.
//   - A total below the last one with a new boot of the source is a reset: what it
//     shows was counted since that boot, and is booked.
//   - A dip from which the meter counts on is a reset too, noticed late: what was
//     counted since its first total is booked then.
//   - A total implausibly far above is suspect, nothing booked. When the meter
//     counts on from there, somebody has set it: only what came after is booked.
//
// Of a meter that began anew unseen and came back above its last total, the
// difference is booked.
type Counter[T Total] struct {
	o       CounterOptions[T]
	pace    pace
	state   CounterState[T]
	at      time.Duration // of Base
	unknown bool          // at is not known
	other   otherBase[T]
	lost    uint64

	dips, jumps uint64
}

// otherBase is a total that does not go on from the base, but may become it.
type otherBase[T Total] struct {
	n           int // 0: none
	below       bool
	first, last T
	since, at   time.Duration
}

// NewCounter makes a counter that knows no total; the first becomes its base. The
// error says all that is wrong with o.
func NewCounter[T Total](o CounterOptions[T]) (*Counter[T], error) {
	o.Confirm = orElse(o.Confirm, DefaultCounterConfirm)
	o.ConfirmFor = orElse(o.ConfirmFor, DefaultCounterConfirmFor)
	var f faults
	f.unless(o.MaxRate > 0 && finite(o.MaxRate), "counter max_rate %g is not above zero", o.MaxRate)
	f.unless(o.Wrap >= 0 && finite(float64(o.Wrap)), "counter wrap %v is not zero or above", o.Wrap)
	f.unless(o.Confirm > 1, "counter confirm %d is not above one", o.Confirm)
	f.unless(o.ConfirmFor > 0, "counter confirm time %s is not above zero", o.ConfirmFor)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Counter[T]{o: o, pace: pace{gap: math.MaxInt64}}, nil
}

// State is what to keep.
func (c *Counter[T]) State() CounterState[T] { return c.state }

// Restore takes up where a State was kept, away ago; 0 where that is not known,
// and then any first increase is plausible. It is called before the first total.
func (c *Counter[T]) Restore(s CounterState[T], away time.Duration) error {
	if !finite(float64(s.Base)) || s.Base < 0 || c.o.Wrap > 0 && s.Base >= c.o.Wrap || away < 0 {
		return fmt.Errorf("restore total %v from %s ago: not a total or not in the past", s.Base, away)
	}
	if c.pace.any {
		return fmt.Errorf("restore total %v: totals came before it", s.Base)
	}
	c.state, c.at, c.unknown = s, -away, away == 0
	return nil
}

// Seed makes total the base, because somebody has set the meter to it. It books
// nothing.
func (c *Counter[T]) Seed(total T, at time.Duration) Verdict {
	if v := c.admit(total, at); v.Grade == Rejected {
		return v
	}
	c.rebase(total, at)
	return Verdict{}
}

// Lose notes that the source has lost n pulses; the next total says so.
func (c *Counter[T]) Lose(n uint64) { c.lost += n }

// Dips and Jumps count the totals below and implausibly far above the last one.
func (c *Counter[T]) Dips() uint64  { return c.dips }
func (c *Counter[T]) Jumps() uint64 { return c.jumps }

// Take takes a total. boot is any word that changes when the source begins anew;
// empty where there is none. A refused total leaves no trace; a suspect one is
// counted, but look at it.
func (c *Counter[T]) Take(total T, boot string, at time.Duration) (Counted[T], Verdict) {
	first := !c.pace.any
	if v := c.admit(total, at); v.Grade == Rejected {
		return Counted[T]{}, v
	}
	if first && c.state.Known {
		c.at += at // Restore has set it to minus the time away
	}
	var k Counted[T]
	var v Verdict
	rebooted := boot != "" && c.state.Boot != "" && boot != c.state.Boot
	if boot != "" {
		c.state.Boot = boot
	}
	if c.state.Known {
		k, v = c.count(total, rebooted, at)
	} else {
		c.rebase(total, at)
	}
	if c.lost > 0 {
		k.Lost, c.lost = c.lost, 0
		v = Worse(v, suspect(WhyLost))
	}
	return k, v
}

// admit refuses what is no total.
func (c *Counter[T]) admit(total T, at time.Duration) Verdict {
	switch {
	case finite(float64(total)) && total < 0:
		return rejected(WhyUnderRange)
	case finite(float64(total)) && c.o.Wrap > 0 && total >= c.o.Wrap:
		return rejected(WhyOverRange)
	}
	if _, _, why := c.pace.step(float64(total), at); why != "" {
		return rejected(why)
	}
	return Verdict{}
}

// count holds a total against the base.
func (c *Counter[T]) count(total T, rebooted bool, at time.Duration) (Counted[T], Verdict) {
	base, dt := c.state.Base, at-c.at
	below := total < base
	switch {
	case below && rebooted:
		k := Counted[T]{Event: CounterReset}
		if c.plausible(total, dt) || c.unknown {
			k.Delta = total
		}
		c.rebase(total, at)
		return k, Verdict{}
	case c.other.n > 0 && c.other.below == below && c.goesOn(total, at):
	case !below && (c.unknown || c.plausible(total-base, dt)):
		c.rebase(total, at)
		return Counted[T]{Delta: total - base}, Verdict{}
	case below && c.o.Wrap > 0 && !c.unknown && c.plausible(c.o.Wrap-base+total, dt):
		c.rebase(total, at)
		return Counted[T]{Delta: c.o.Wrap - base + total, Event: CounterWrapped}, Verdict{}
	default:
		c.other = otherBase[T]{below: below, first: total, since: at}
	}
	return c.stray(total, below, at)
}

// stray notes a total that does not go on from the base, and makes it the base
// once it is confirmed.
func (c *Counter[T]) stray(total T, below bool, at time.Duration) (Counted[T], Verdict) {
	o := &c.other
	o.n++
	o.last, o.at = total, at
	event, v := CounterJumped, suspect(WhyRate)
	if below {
		event, v = CounterReset, suspect(WhyCounterDip)
		c.dips++
	} else {
		c.jumps++
	}
	if o.n < c.o.Confirm || at-o.since < c.o.ConfirmFor {
		return Counted[T]{}, v
	}
	k := Counted[T]{Delta: total - o.first, Event: event}
	c.rebase(total, at)
	return k, Verdict{}
}

// goesOn reports whether total counts on from the other base.
func (c *Counter[T]) goesOn(total T, at time.Duration) bool {
	return total >= c.other.last && c.plausible(total-c.other.last, at-c.other.at)
}

func (c *Counter[T]) plausible(delta T, dt time.Duration) bool {
	return float64(delta) <= c.o.MaxRate*(dt+counterJitter).Seconds()
}

func (c *Counter[T]) rebase(total T, at time.Duration) {
	c.state.Known, c.state.Base, c.at, c.unknown = true, total, at, false
	c.other = otherBase[T]{}
}

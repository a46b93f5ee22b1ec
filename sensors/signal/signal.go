// Package signal judges sequences of samples: whether a number may be believed,
// whether it is worth telling, and what it means for a tank that it has changed.
//
// It owns arithmetic only. Each type is the memory of one channel or one tank,
// belongs to one goroutine, has a fixed size and allocates nothing a sample. It
// has no clock: every sample comes with the time of its measurement on a
// monotonic clock, as a time.Duration since any fixed origin (time.Since(start)
// of a start that the caller keeps), so that steps of the wall clock do nothing
// here. Values are float64 in one unit per instance, the SI unit by custom.
//
// It keeps one invariant: what is not a number, or came before its predecessor,
// is refused by name and leaves no trace. Nothing here makes up a value: a sample
// is taken or it is not, and is never replaced by another.
//
// The order in which a channel is chained, each step refusing or passing on:
//
//	driver → electrical law → physical quantity → tank model → Clamp
//	  → Worse(Hampel.Check, Rate.Check)  both see every value, whatever the other says
//	  → Worse(that, Stuck.Check)         on the chip's raw code, with what is known of flow
//	  → Trend.Take                       is the rate abnormal?
//	  → Ratchet.Take                     what was used or refilled?
//	  → Report.Take                      is this reading an event?
//
// A change of the Ratchet goes out before the reading that includes it, and that
// reading is to follow at once: Report.Demand. Otherwise whoever keeps the account
// takes the change off a reading that had it already.
//
// A meter's total goes to Counter.Take instead. Debounce delays any condition:
// 4 s for a current loop's failure at the electrical step, an alarm's on-delay at
// the end.
//
// Report, Ratchet and Trend take the verdict of the steps before, and leave alone
// what was rejected. Ratchet, Trend and Below also leave alone what is unconfirmed:
// the first reading of a start is told at once, but nothing is booked and no alarm
// is raised by it.
//
// The package does not read chips, keep time, wait, store or publish. What a
// restart must not forget is handed out and taken back as plain structs.
package signal

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Why is the short stable word for why a sample is not simply good. The words
// are those of the sensors package's reasons.
type Why string

// The words.
const (
	WhyNotFinite   Why = "not_finite"   // NaN, infinite, or so large that no quantity is
	WhyOutOfOrder  Why = "out_of_order" // not after the sample before: the caller's clock went back
	WhyUnconfirmed Why = "unconfirmed"  // the first after a start or a gap: nothing yet says that it is right
	WhySpike       Why = "spike"        // far from its neighbours
	WhyRate        Why = "rate"         // rejected: changes faster than it can; suspect: does so for long enough to be real
	WhyStuck       Why = "stuck"        // the same code for too long
	WhyUnderRange  Why = "under_range"  // below the range by more than the slack
	WhyOverRange   Why = "over_range"   // above the range by more than the slack
	WhyCounterDip  Why = "counter_dip"  // a total below the one before, not (yet) a reset
	WhyLost        Why = "lost_pulses"  // pulses were lost since the total before
)

// Grade is what a sample is worth; the greater, the worse.
type Grade uint8

// The grades.
const (
	Good     Grade = iota
	Suspect        // counts, but deserves a look
	Rejected       // must not be used; there is no value
)

// Verdict is what a step says of one sample. The zero Verdict is good.
type Verdict struct {
	Grade Grade
	Why   Why // empty when good
}

// Usable reports whether the sample may be used as a reading.
func (v Verdict) Usable() bool { return v.Grade < Rejected }

// settled reports whether the sample may also be acted on.
func (v Verdict) settled() bool { return v.Usable() && v.Why != WhyUnconfirmed }

// Worse is the worse of two verdicts, the first one if they are of equal grade.
func Worse(a, b Verdict) Verdict {
	if b.Grade > a.Grade {
		return b
	}
	return a
}

func rejected(w Why) Verdict { return Verdict{Rejected, w} }
func suspect(w Why) Verdict  { return Verdict{Suspect, w} }

// DefaultGap is the time without samples after which what came before is no
// neighbour any more. A channel that is read less often than every two or three
// minutes needs a longer one, some five of its intervals.
const DefaultGap = 10 * time.Minute

// maxMagnitude is the largest number that is taken for a quantity. Differences
// and squares of such numbers do not overflow.
const maxMagnitude = 1e100

// finite reports whether x is a number that sums and differences can be made of.
func finite(x float64) bool { return math.Abs(x) <= maxMagnitude } // false for NaN

// pace follows the times of a sequence of samples.
type pace struct {
	gap  time.Duration
	last time.Duration
	any  bool
}

// step admits a sample, or says why not and forgets it. dt is the time since the
// sample before; fresh says that there is none, or none within the gap.
func (p *pace) step(x float64, at time.Duration) (dt time.Duration, fresh bool, why Why) {
	if !finite(x) {
		return 0, false, WhyNotFinite
	}
	if at < 0 || p.any && at <= p.last {
		return 0, false, WhyOutOfOrder
	}
	if p.any {
		dt = at - p.last
	}
	fresh = !p.any || dt > p.gap
	p.last, p.any = at, true
	return dt, fresh, ""
}

// faults collects what is wrong with options.
type faults []error

// unless notes a fault unless ok.
func (f *faults) unless(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// err joins what was noted; nil if nothing.
func (f faults) err() error { return errors.Join(f...) }

// orElse is x, or d where x is the zero value.
func orElse[T comparable](x, d T) T {
	var zero T
	if x == zero {
		return d
	}
	return x
}

// blend is the weight of a new value in an exponential mean of time constant tau
// after a time dt.
func blend(dt, tau time.Duration) float64 { return -math.Expm1(-float64(dt) / float64(tau)) }

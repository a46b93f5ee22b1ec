package signal

import (
	"math"
	"time"
)

// DefaultRatePersist is how many samples must agree before a change that is
// faster than it can be is taken for real.
const DefaultRatePersist = 3

// RateOptions describe a bound of the rate of change.
type RateOptions struct {
	Max   float64 // the fastest change that is normal, in units a second, > 0
	Slack float64 // a change that is always allowed: noise, and the converter's step; >= 0

	// A faster change is taken for real when Persist samples in a row (> 1; 0 means
	// 3) that span at least PersistFor (>= 0) agree with one another.
	Persist    int
	PersistFor time.Duration

	Gap time.Duration // > 0: a longer time without samples forgets the last value; 0 means DefaultGap
}

// Rate rejects values that the quantity cannot have reached since the last value
// accepted, by more than Max times the time plus Slack.
//
// A refill or a burst valve is real, so what persists is accepted: samples that
// each lie within reach of the one before, or that go on in the direction in
// which they left. That acceptance is suspect; and as long as such a movement
// goes on, every sample of it is. Glitches that jump to and fro never agree.
//
// The first value after a start or a gap is suspect, unconfirmed, and two later
// ones that agree outvote it.
type Rate struct {
	o         RateOptions
	pace      pace
	base      float64 // last value accepted
	baseAt    time.Duration
	confirmed bool // base is more than a first value
	run       run

	rejected, persisted uint64
}

// run is a row of values beyond the bound that agree with one another.
type run struct {
	n     int // 0: none
	since time.Duration
	last  float64
	at    time.Duration
	up    bool // they left upwards
}

// NewRate makes a bound, or says all that is wrong with o.
func NewRate(o RateOptions) (*Rate, error) {
	o.Persist = orElse(o.Persist, DefaultRatePersist)
	o.Gap = orElse(o.Gap, DefaultGap)
	var f faults
	f.unless(o.Max > 0 && finite(o.Max), "rate maximum %g is not above zero", o.Max)
	f.unless(o.Slack >= 0 && finite(o.Slack), "rate slack %g is not zero or above", o.Slack)
	f.unless(o.Persist > 1, "rate persist %d is not above one", o.Persist)
	f.unless(o.PersistFor >= 0, "rate persist time %s is negative", o.PersistFor)
	f.unless(o.Gap > 0, "rate gap %s is not above zero", o.Gap)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Rate{o: o, pace: pace{gap: o.Gap}}, nil
}

// Check judges one value.
func (r *Rate) Check(x float64, at time.Duration) Verdict {
	_, fresh, why := r.pace.step(x, at)
	switch {
	case why != "":
		return rejected(why)
	case fresh:
		r.accept(x, at)
		r.confirmed, r.run.n = false, 0
		return suspect(WhyUnconfirmed)
	case r.reaches(x-r.base, at-r.baseAt):
		r.accept(x, at)
		r.confirmed, r.run.n = true, 0
		return Verdict{}
	}
	if !r.goesOn(x, at) {
		r.run = run{since: at, up: x > r.base}
	}
	r.run.n++
	r.run.last, r.run.at = x, at
	switch {
	case !r.confirmed && r.run.n >= 2: // the first value was the wrong one
		r.accept(x, at)
		r.confirmed, r.run.n = true, 0
		return Verdict{}
	case r.run.n >= r.o.Persist && at-r.run.since >= r.o.PersistFor:
		r.accept(x, at)
		r.persisted++
		return suspect(WhyRate)
	}
	r.rejected++
	return rejected(WhyRate)
}

// Rejected counts the values rejected.
func (r *Rate) Rejected() uint64 { return r.rejected }

// Persisted counts the values accepted although too fast, because they lasted.
func (r *Rate) Persisted() uint64 { return r.persisted }

func (r *Rate) accept(x float64, at time.Duration) { r.base, r.baseAt = x, at }

// reaches reports whether a change is possible in a time.
func (r *Rate) reaches(change float64, dt time.Duration) bool {
	return math.Abs(change) <= r.o.Max*dt.Seconds()+r.o.Slack
}

// goesOn reports whether x belongs to the row of values beyond the bound.
func (r *Rate) goesOn(x float64, at time.Duration) bool {
	if r.run.n == 0 || (x > r.base) != r.run.up {
		return false
	}
	return r.reaches(x-r.run.last, at-r.run.at) || (x > r.run.last) == r.run.up
}

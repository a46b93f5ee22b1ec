package signal

import "math"

// Clamp holds a value to the range that it can have: an error of the sensor of
// up to Slack beyond an end is taken for the end, more than that is a fault.
type Clamp struct{ low, high, slack float64 }

// NewClamp makes a range from low to high, either of which may be infinite where
// there is no such end, with a finite slack >= 0. The error says all that is wrong.
func NewClamp(low, high, slack float64) (Clamp, error) {
	var f faults
	f.unless((finite(low) || math.IsInf(low, -1)) && (finite(high) || math.IsInf(high, 1)) && low < high,
		"range from %g to %g is empty or not a range", low, high)
	f.unless(slack >= 0 && finite(slack), "range slack %g is not zero or above", slack)
	if err := f.err(); err != nil {
		return Clamp{}, err
	}
	return Clamp{low, high, slack}, nil
}

// Apply gives x, or the end of the range that it exceeds by no more than the
// slack; the caller keeps x itself as the raw value. Beyond that, and for what is
// not a number, the verdict is Rejected and the value is x as it came, not to be
// used.
func (c Clamp) Apply(x float64) (float64, Verdict) {
	switch {
	case !finite(x):
		return x, rejected(WhyNotFinite)
	case x > c.high+c.slack:
		return x, rejected(WhyOverRange)
	case x < c.low-c.slack:
		return x, rejected(WhyUnderRange)
	}
	return min(max(x, c.low), c.high), Verdict{}
}

package signal

import "time"

// plateau is a level that may be settling.
type plateau struct {
	on        bool
	rising    bool    // lies above the level before it
	level     float64 // a short exponential mean
	low, high float64 // of level since since
	since     time.Duration
	began     time.Duration
}

// add takes a value with its weight; a level that has moved by more than band
// begins to settle anew.
func (p *plateau) add(x, weight, band float64, at time.Duration) {
	p.level += weight * (x - p.level)
	p.low, p.high = min(p.low, p.level), max(p.high, p.level)
	if p.high-p.low > band {
		p.low, p.high, p.since = p.level, p.level, at
	}
}

// recentMax is how many samples a median is made of at most.
const recentMax = 5

// recent holds the last samples of a short time.
type recent struct {
	span   time.Duration
	n      int
	values [recentMax]float64 // oldest first
	times  [recentMax]time.Duration
}

// add takes a sample, forgets those older than span, and gives the median of what
// is left; of an even number the mean of the two in the middle.
func (r *recent) add(x float64, at time.Duration) float64 {
	drop := 0
	for drop < r.n && (at-r.times[drop] > r.span || r.n-drop == recentMax) {
		drop++
	}
	copy(r.values[:], r.values[drop:r.n])
	copy(r.times[:], r.times[drop:r.n])
	r.n -= drop
	r.values[r.n], r.times[r.n] = x, at
	r.n++

	sorted := r.values
	for i := 1; i < r.n; i++ {
		for j := i; j > 0 && sorted[j-1] > sorted[j]; j-- {
			sorted[j-1], sorted[j] = sorted[j], sorted[j-1]
		}
	}
	return (sorted[(r.n-1)/2] + sorted[r.n/2]) / 2
}

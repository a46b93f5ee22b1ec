package signal

import (
	"math"
	"time"
)

// Defaults and bounds of a Hampel filter.
const (
	DefaultHampelWindow = 7
	DefaultHampelSigmas = 3
	MinHampelWindow     = 5
	MaxHampelWindow     = 31
	madToSigma          = 1.4826 // of normally distributed values: 1 / Φ⁻¹(3/4)
)

// HampelOptions describe a Hampel filter.
type HampelOptions struct {
	Window int     // samples, this one included; odd, 5 to 31; 0 means 7
	Sigmas float64 // how many standard deviations are still normal; > 0; 0 means 3

	// Floor is the least standard deviation that is believed, in the values' unit,
	// > 0. Without it a quiet signal, whose values are all equal, would reject the
	// next least significant bit. One step of the converter is the least that makes
	// sense, the channel's own noise is better: the first readings, which are too
	// few to show their noise, are held against it alone.
	Floor float64

	Gap time.Duration // > 0: a longer time without samples empties the window; 0 means DefaultGap
}

// Hampel rejects single values far from their neighbours: those further from the
// median of the last Window values than Sigmas standard deviations, which are
// estimated by the median absolute deviation (Pearson, Neuvo, Astola, Gabbouj,
// "Generalized Hampel Filters", EURASIP J. Adv. Signal Process. 2016:87). Every
// value enters the window, rejected or not. So a genuine step is accepted, with
// its Window/2+1-th value at the latest, as then the new values are the majority.
//
// While the window fills:
//   - The first value is suspect, unconfirmed: it can be had at once, but nothing
//     says that it is right.
//   - The second is good if it agrees with the first, within Sigmas times Floor.
//     Else one of the two is wrong and nobody knows which: it is rejected, and the
//     first stays as it was told.
//   - The third makes a majority of two. Three that all disagree stay unconfirmed,
//     or are rejected, as the filter finds.
//   - With an even number of values known, this one included, there is no majority
//     to rely on, and it is held against the odd number before it.
type Hampel struct {
	o        HampelOptions
	pace     pace
	n        int                      // values known, at most Window
	next     int                      // place in ring of the next value
	ring     [MaxHampelWindow]float64 // in the order of arrival
	sorted   [MaxHampelWindow]float64 // the same, ascending
	rejected uint64
}

// NewHampel makes a filter, or says all that is wrong with o.
func NewHampel(o HampelOptions) (*Hampel, error) {
	o.Window = orElse(o.Window, DefaultHampelWindow)
	o.Sigmas = orElse(o.Sigmas, DefaultHampelSigmas)
	o.Gap = orElse(o.Gap, DefaultGap)
	var f faults
	f.unless(o.Window >= MinHampelWindow && o.Window <= MaxHampelWindow && o.Window%2 == 1,
		"hampel window %d is not an odd number from %d to %d", o.Window, MinHampelWindow, MaxHampelWindow)
	f.unless(o.Sigmas > 0 && finite(o.Sigmas), "hampel sigmas %g is not above zero", o.Sigmas)
	f.unless(o.Floor > 0 && finite(o.Floor), "hampel floor %g is not above zero", o.Floor)
	f.unless(o.Gap > 0, "hampel gap %s is not above zero", o.Gap)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Hampel{o: o, pace: pace{gap: o.Gap}}, nil
}

// Check judges one value.
func (h *Hampel) Check(x float64, at time.Duration) Verdict {
	_, fresh, why := h.pace.step(x, at)
	if why != "" {
		return rejected(why)
	}
	if fresh {
		h.n, h.next = 0, 0
	}
	v := h.judge(x)
	if v.Grade == Rejected {
		h.rejected++
	}
	return v
}

// Rejected counts the values rejected as spikes.
func (h *Hampel) Rejected() uint64 { return h.rejected }

// judge adds x to the window and holds it against an odd number of values.
func (h *Hampel) judge(x float64) Verdict {
	if h.n == 0 {
		h.add(x)
		return suspect(WhyUnconfirmed)
	}
	even := h.n < h.o.Window && h.n%2 == 1 // with x
	if !even {
		h.add(x)
	}
	median, mad := center(h.sorted[:h.n])
	if even {
		h.add(x)
	}
	if math.Abs(x-median) > h.o.Sigmas*max(madToSigma*mad, h.o.Floor) {
		return rejected(WhySpike)
	}
	if h.n == 3 && !h.agrees(x) {
		return suspect(WhyUnconfirmed)
	}
	return Verdict{}
}

// agrees reports whether another value of the window lies near x, which is one.
func (h *Hampel) agrees(x float64) bool {
	near := 0
	for _, y := range h.sorted[:h.n] {
		if math.Abs(x-y) <= h.o.Sigmas*h.o.Floor {
			near++
		}
	}
	return near > 1
}

// add puts x into the window, in the place of the oldest value when it is full.
func (h *Hampel) add(x float64) {
	i := h.n // the free place in sorted
	if h.n == h.o.Window {
		for i = 0; h.sorted[i] != h.ring[h.next]; i++ {
		}
	} else {
		h.n++
	}
	for ; i > 0 && h.sorted[i-1] > x; i-- {
		h.sorted[i] = h.sorted[i-1]
	}
	for ; i < h.n-1 && h.sorted[i+1] < x; i++ {
		h.sorted[i] = h.sorted[i+1]
	}
	h.sorted[i] = x
	h.ring[h.next] = x
	if h.next++; h.next == h.o.Window {
		h.next = 0
	}
}

// center gives the median of an odd number of ascending values, and the median of
// their distances from it: that of the half that is nearest, reached by taking
// the nearer neighbour again and again.
func center(s []float64) (median, mad float64) {
	k := len(s) / 2
	median = s[k]
	lo, hi := k, k
	for range k {
		if hi == len(s)-1 || lo > 0 && median-s[lo-1] <= s[hi+1]-median {
			lo--
			mad = median - s[lo]
		} else {
			hi++
			mad = s[hi] - median
		}
	}
	return median, mad
}

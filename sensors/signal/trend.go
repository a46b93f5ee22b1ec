package signal

import (
	"fmt"
	"math"
	"time"
)

// Defaults and bounds of a Trend.
const (
	DefaultTrendWindow   = 5 * time.Minute
	DefaultTrendBaseline = 12 * time.Hour
	DefaultTrendLearn    = time.Hour
	DefaultTrendFactor   = 3
	DefaultTrendClear    = 0.7
	trendPoints          = 30 // of the window, each the mean of its part
	trendLeast           = 5  // points that a slope is drawn through
	trendSure            = 5  // standard errors of the slope that are held for nothing
)

// TrendOptions describe what an abnormal rate is. The unit is that of the level,
// a second.
type TrendOptions struct {
	// Least is the fall below which nothing is abnormal, > 0: above what the
	// reading does when a vessel cools (a per cent of the content in an hour or
	// two), below the leak that is to be found.
	Least float64
	// Factor times the usual rate is abnormal, >= 1; 0 means 3.
	Factor float64
	// Most is always abnormal, also while the usual rate is not known; 0: nothing is.
	Most float64
	// Clear is the part of the bound that the rate must fall below to be normal
	// again, above 0 and at most 1; 0 means 0.7.
	Clear float64

	Window   time.Duration // over which the rate is taken; 0 means five minutes. It must hold five samples
	Baseline time.Duration // time constant of the usual rate; 0 means twelve hours
	Learn    time.Duration // how much of it must be known before it is used; 0 means an hour
	Gap      time.Duration // > 0: a longer time without samples empties the window; 0 means DefaultGap
}

// TrendState is what a restart must not forget.
type TrendState struct {
	Baseline float64       `json:"baseline"` // the usual rate, units a second
	Learned  time.Duration `json:"learned"`  // how long it was learned
}

// FallRate is how fast a level falls.
type FallRate struct {
	Known     bool    // false while the window holds too little
	PerSecond float64 // units a second, positive when falling
	Baseline  float64 // the usual one
	Abnormal  bool
}

// Trend notices that a tank empties faster than usual, long before it is low.
//
// The rate is the slope of a straight line through the window. It is abnormal
// when it lies, by five standard errors of the slope, above Most or, once the
// usual rate is known, above Least and above Factor times the usual rate. It is
// normal again below Clear times that bound. The usual rate is an exponential
// mean that does not learn while the rate is abnormal: a leak does not become
// usual by lasting. Accept makes it so.
//
// A gap empties the window; what was abnormal stays so until a rate says otherwise.
type Trend struct {
	o    TrendOptions
	pace pace

	points  [trendPoints]point // a ring
	n, next int
	part    point // the mean of the part of the window that is being filled
	count   int   // samples in part
	slot    time.Duration

	state TrendState
	drawn time.Duration // when a rate was last known
	rate  FallRate
}

// point is a level and its time in seconds since the origin.
type point struct{ t, x float64 }

// NewTrend makes a trend, or says all that is wrong with o.
func NewTrend(o TrendOptions) (*Trend, error) {
	o.Factor, o.Clear = orElse(o.Factor, DefaultTrendFactor), orElse(o.Clear, DefaultTrendClear)
	o.Window, o.Baseline = orElse(o.Window, DefaultTrendWindow), orElse(o.Baseline, DefaultTrendBaseline)
	o.Learn, o.Gap = orElse(o.Learn, DefaultTrendLearn), orElse(o.Gap, DefaultGap)
	var f faults
	f.unless(o.Least > 0 && finite(o.Least), "trend least rate %g is not above zero", o.Least)
	f.unless(o.Factor >= 1 && finite(o.Factor), "trend factor %g is not one or above", o.Factor)
	f.unless(o.Most == 0 || o.Most >= o.Least && finite(o.Most), "trend most rate %g is not zero or at least the least rate", o.Most)
	f.unless(o.Clear > 0 && o.Clear <= 1, "trend clear %g is not above zero and at most one", o.Clear)
	f.unless(o.Window >= trendPoints, "trend window %s is too short", o.Window)
	f.unless(o.Baseline >= o.Window, "trend baseline %s is shorter than the window %s", o.Baseline, o.Window)
	f.unless(o.Learn > 0, "trend learning time %s is not above zero", o.Learn)
	f.unless(o.Gap > 0, "trend gap %s is not above zero", o.Gap)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Trend{o: o, pace: pace{gap: o.Gap}}, nil
}

// State is what to keep.
func (t *Trend) State() TrendState { return t.state }

// Restore takes up a usual rate that was kept.
func (t *Trend) Restore(s TrendState) error {
	if !finite(s.Baseline) || s.Baseline < 0 || s.Learned < 0 {
		return fmt.Errorf("restore usual rate %g learned for %s: not a rate", s.Baseline, s.Learned)
	}
	t.state = s
	return nil
}

// Reset empties the window: after a refill or a removal the level before it is of
// another content. The usual rate and the verdict stay.
func (t *Trend) Reset() { t.n, t.next, t.count, t.rate.Known = 0, 0, 0, false }

// Accept makes the present rate the usual one, where it is known.
func (t *Trend) Accept() {
	if t.rate.Known {
		t.state = TrendState{Baseline: max(t.rate.PerSecond, 0), Learned: max(t.state.Learned, t.o.Learn)}
		t.rate.Baseline, t.rate.Abnormal = t.state.Baseline, false
	}
}

// Take takes one level. v is what the steps before have found: what is rejected
// or unconfirmed is left alone. The verdict is v, or why Trend itself refuses it.
func (t *Trend) Take(level float64, v Verdict, at time.Duration) (FallRate, Verdict) {
	if !v.settled() {
		return t.rate, v
	}
	_, fresh, why := t.pace.step(level, at)
	if why != "" {
		return t.rate, rejected(why)
	}
	if fresh {
		t.Reset()
	}
	if slot := at / (t.o.Window / trendPoints); slot != t.slot || t.count == 0 {
		t.close(at)
		t.slot = slot
	}
	t.count++
	t.part.t += (at.Seconds() - t.part.t) / float64(t.count)
	t.part.x += (level - t.part.x) / float64(t.count)
	return t.rate, v
}

// close puts the part that is full into the ring, and judges.
func (t *Trend) close(at time.Duration) {
	if t.count > 0 {
		t.points[t.next] = t.part
		t.next = (t.next + 1) % trendPoints
		t.n = min(t.n+1, trendPoints)
	}
	t.part, t.count = point{}, 0
	oldest := (at - t.o.Window).Seconds()
	for t.n > 0 && t.point(t.n-1).t < oldest {
		t.n--
	}
	slope, stderr, ok := t.slope()
	if t.rate.Known = ok; !ok {
		return
	}
	t.rate.PerSecond = -slope
	t.judge(stderr)
	t.learn(at)
}

// point is the i-th newest of the ring.
func (t *Trend) point(i int) point {
	return t.points[(t.next-1-i+2*trendPoints)%trendPoints]
}

// slope is that of the least-squares line through the ring, with its standard
// error; false where the points are too few, or span less than half of the window.
func (t *Trend) slope() (slope, stderr float64, ok bool) {
	if t.n < trendLeast || t.point(0).t-t.point(t.n-1).t < t.o.Window.Seconds()/2 {
		return 0, 0, false
	}
	origin := t.point(0) // small numbers: nothing is lost in the sums
	var st, sx float64
	for i := range t.n {
		st += t.point(i).t - origin.t
		sx += t.point(i).x - origin.x
	}
	n := float64(t.n)
	var stt, stx, sxx float64
	for i := range t.n {
		dt, dx := t.point(i).t-origin.t-st/n, t.point(i).x-origin.x-sx/n
		stt, stx, sxx = stt+dt*dt, stx+dt*dx, sxx+dx*dx
	}
	slope = stx / stt
	return slope, math.Sqrt(max(sxx-slope*stx, 0) / (n - 2) / stt), true
}

// judge decides whether the rate is abnormal.
func (t *Trend) judge(stderr float64) {
	bound := math.Inf(1)
	if t.state.Learned >= t.o.Learn {
		bound = max(t.o.Least, t.o.Factor*t.state.Baseline)
	}
	if t.o.Most > 0 {
		bound = min(bound, t.o.Most)
	}
	switch r := &t.rate; {
	case r.PerSecond-trendSure*stderr > bound:
		r.Abnormal = true
	case r.PerSecond < t.o.Clear*bound:
		r.Abnormal = false
	}
}

// learn lets the usual rate follow; while it is young it is the plain mean.
func (t *Trend) learn(at time.Duration) {
	dt := min(at-t.drawn, t.o.Window)
	t.drawn = at
	if t.rate.Abnormal {
		return
	}
	t.state.Learned = min(t.state.Learned+dt, t.o.Baseline)
	t.state.Baseline += float64(dt) / float64(t.state.Learned) * (max(t.rate.PerSecond, 0) - t.state.Baseline)
	t.rate.Baseline = t.state.Baseline
}

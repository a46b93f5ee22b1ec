package sensors

import (
	"errors"
	"fmt"
	"time"

	"oxyd/sensors/signal"
)

// RefineSpec says what becomes of a channel's good readings. Masses are in kilograms.
// A nil part is not done: without a filter every value is taken, without a report
// every reading is an event, and without consumption nothing is derived.
type RefineSpec struct {
	Filter      *FilterSpec
	Report      *ReportSpec
	Consumption *ConsumptionSpec
	// AbnormalFrom is the fall, in kilograms a second, below which no rate is abnormal:
	// above what the reading of a vessel that cools does, below the leak that is to be
	// found. 0 means that rates are not looked at. AbnormalAlways, at least that, is
	// abnormal also while the usual rate is not known; 0 means that nothing is.
	AbnormalFrom, AbnormalAlways float64
}

// FilterSpec says what a value must be to be believed.
type FilterSpec struct {
	Window int     // readings that one is held against; 0 means seven
	Sigmas float64 // how far from their median it may lie; 0 means three
	// Floor is the least standard deviation that is believed, in the unit of the
	// channel; 0 means one that fits: see Spec.floor.
	Floor      float64
	MaxRate    float64       // kilograms a second: the fastest change; 0 means no bound
	StuckAfter time.Duration // how long the chip's number may stand still; 0 means for ever
	Coarse     bool          // the chip's step is larger than its noise: standing still is no sign
}

// ReportSpec says which readings become events.
type ReportSpec struct {
	Deadband  float64       // a lesser change is not reported
	Heartbeat time.Duration // the longest time without a report; 0 means five minutes
}

// ConsumptionSpec says how use and refills are derived from the mass.
type ConsumptionSpec struct {
	Deadband    float64       // the fall that is booked
	RefillAbove float64       // the rise that is a refill
	MaxRate     float64       // a faster fall is a removal, in kilograms a second; 0 means that there is none
	Settle      time.Duration // how long a new level must stand; 0 means three minutes
}

// refiner judges the readings of one channel, in the order that package signal names.
// It belongs to the loop of the channel's bus.
type refiner struct {
	start   time.Time
	hampel  *signal.Hampel // nil, as every part that is not asked for
	rate    *signal.Rate
	stuck   *signal.Stuck
	report  *signal.Report
	ratchet *signal.Ratchet
	trend   *signal.Trend
	shared  *shared
	probe   string // the auxiliary probe that it is; "" of a tank's channel
	tank    string
}

// Least deviations that are believed of auxiliary probes, in their SI units.
const (
	temperatureFloor = 0.25
	pressureFloor    = 200.0
	voltageFloor     = 1e-3
)

// Where nothing is known of a tank's noise: this part of its capacity, which is some
// two steps of a 16-bit converter; a gram where that is not known either.
const (
	floorParts = 1e-4
	floorMass  = 1e-3
)

// floor is the least deviation that the channel's filter believes.
func (s *Spec) floor() float64 {
	switch {
	case s.Refine.Filter.Floor > 0:
		return s.Refine.Filter.Floor
	case s.Tank != "" && s.Capacity > 0:
		return floorParts * kilograms(s.Capacity)
	case s.Tank != "":
		return floorMass
	}
	switch s.Measures {
	case Temperature:
		return temperatureFloor
	case Pressure:
		return pressureFloor
	}
	return voltageFloor
}

// refine completes a channel with what happens to its good readings.
func (l *layout) refine(s *Spec, c *Channel) error {
	r := &refiner{start: time.Now(), shared: l.shared, tank: s.Tank}
	if s.Tank == "" {
		r.probe = s.Name
	}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	gap := max(signal.DefaultGap, 5*s.Interval)
	var err error
	if f := s.Refine.Filter; f != nil {
		r.hampel, err = signal.NewHampel(signal.HampelOptions{Window: f.Window, Sigmas: f.Sigmas, Floor: s.floor(), Gap: gap})
		keep(err)
		if f.MaxRate > 0 {
			r.rate, err = signal.NewRate(signal.RateOptions{Max: f.MaxRate, Slack: 3 * s.floor(), Gap: gap})
			keep(err)
		}
		if f.StuckAfter > 0 {
			r.stuck, err = signal.NewStuck(signal.StuckOptions{After: f.StuckAfter, Coarse: f.Coarse, Gap: gap})
			keep(err)
		}
	}
	if p := s.Refine.Report; p != nil {
		r.report, err = signal.NewReport(signal.ReportOptions{Deadband: p.Deadband, Heartbeat: p.Heartbeat})
		keep(err)
	}
	if u := s.Refine.Consumption; u != nil {
		r.ratchet, err = signal.NewRatchet(signal.RatchetOptions{Deadband: u.Deadband, RefillAbove: u.RefillAbove, MaxRate: u.MaxRate, Settle: u.Settle, Gap: gap})
		keep(err)
	}
	if s.Tank != "" && s.Refine.AbnormalFrom > 0 {
		window := max(signal.DefaultTrendWindow, 10*s.Interval)
		r.trend, err = signal.NewTrend(signal.TrendOptions{Least: s.Refine.AbnormalFrom, Most: s.Refine.AbnormalAlways, Window: window,
			Baseline: max(signal.DefaultTrendBaseline, window), Gap: gap})
		keep(err)
	}
	c.Refine, c.Faulted = r.refine, r.faulted
	if t := l.shared.tallies[s.Tank]; t != nil {
		c.Booking = &t.booking
	}
	return errors.Join(errs...)
}

// refine judges one reading; an error refuses it.
func (r *refiner) refine(reading *Reading) error {
	at := reading.At.Sub(r.start)
	verdict, err := r.judge(reading, at)
	if err != nil {
		return err
	}
	reading.suspect(Reason(verdict.Why))
	if r.probe != "" {
		r.shared.set(r.probe, reading.Value, reading.At, reading.Why)
		return nil
	}
	verdict = quality(reading, verdict)
	if r.ratchet != nil {
		r.derive(reading, verdict, at)
		verdict = quality(reading, verdict)
	}
	if r.trend != nil {
		fall, _ := r.trend.Take(reading.Value, verdict, at)
		reading.Falls, reading.Abnormal = fall.PerSecond, fall.Abnormal
		if reading.Refilled+reading.Removed > 0 {
			r.trend.Reset() // a step is no rate
		}
	}
	t := r.shared.tallies[r.tank]
	if r.report != nil {
		if reading.Consumed+reading.Refilled+reading.Removed > 0 || t != nil && t.waits() {
			r.report.Demand() // the snapshot that has it in goes with it
		}
		cause, _ := r.report.Take(reading.Value, verdict, at)
		reading.Report = cause != signal.CauseNone
	}
	if t != nil && reading.Report {
		reading.Consumed += massOf(t.take(reading.At, true)) // before the snapshot that has it in
	}
	return nil
}

// quality is the verdict with what else is known of the reading: that is a change of
// quality too.
func quality(reading *Reading, v signal.Verdict) signal.Verdict {
	if reading.Suspect && v.Why == "" {
		return signal.Verdict{Grade: signal.Suspect, Why: signal.Why(reading.Why)}
	}
	return v
}

// judge says whether the number can be believed.
func (r *refiner) judge(reading *Reading, at time.Duration) (v signal.Verdict, err error) {
	if r.hampel != nil {
		v = r.hampel.Check(reading.Value, at)
	}
	if r.rate != nil {
		v = signal.Worse(v, r.rate.Check(reading.Value, at))
	}
	if !v.Usable() {
		return v, &Fault{Reason: Reason(v.Why), Detail: fmt.Sprintf("%s is far from what came before", reading.Physical)}
	}
	if r.stuck != nil {
		v = signal.Worse(v, r.stuck.Check(reading.Raw, r.flow(reading.At), at))
	}
	return v, nil
}

// flow is what is known of the flow from the tank.
func (r *refiner) flow(at time.Time) signal.Flow {
	if r.tank == "" {
		return signal.FlowUnknown
	}
	if t := r.shared.tallies[r.tank]; t != nil {
		return t.flow(at)
	}
	return signal.FlowUnknown
}

// derive books what was used and what was filled in.
func (r *refiner) derive(reading *Reading, v signal.Verdict, at time.Duration) {
	change, _ := r.ratchet.Take(reading.Value, v, at)
	amount := massOf(change.Amount)
	switch change.Kind {
	case signal.KindConsumed:
		reading.Consumed = amount
	case signal.KindRefilled:
		reading.Refilled = amount
	case signal.KindRemoved:
		reading.Removed = amount
	}
	if change.Gap { // it happened while nobody measured
		reading.suspect(ReasonNoReading)
	}
}

// faulted is told that the channel has left its good states.
func (r *refiner) faulted() {
	if r.report != nil {
		r.report.Fault()
	}
}

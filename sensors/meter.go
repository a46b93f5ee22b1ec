package sensors

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"oxyd/sensors/oxygen"
	"oxyd/sensors/signal"
)

// When a meter's flow becomes an event: once so many kilograms have flowed, or so long
// after the last one. A power cut costs what flowed since: at most MeterEvery's worth,
// and MeterQuantum. Each event is a commit on the disk, which is why they are not less.
const (
	MeterQuantum = 0.050
	MeterEvery   = time.Minute
)

// meterLeast is the least that an event is made of, in kilograms: a milligram.
const meterLeast = 1e-6

// meterDebt is how much may stand against what flows, in kilograms: noise around no flow
// adds up to less in a day. More is an error of the meter's zero: 0.02 slm make 40 g a
// day, and weeks of rest would hide what is drawn after them.
const meterDebt = 1e-3

// MeterSpec says what a pulse of a flow meter is.
type MeterSpec struct {
	PulsesPerLitre  float64 // of gas as it is in the line
	LinePressure    Source  // absolute, Pa
	LineTemperature Source  // K
}

// tally is what has flowed out of one tank and is not booked yet, by all its meters.
type tally struct {
	// booking is held from the taking of an amount until it is an event, so that no
	// snapshot of the tank comes between: it would have the amount in already.
	booking sync.Mutex

	mu     sync.Mutex // guards what follows
	kg     float64    // may be below zero, to -meterDebt: noise around no flow adds up to nothing
	booked time.Time  // when an amount was last taken
	at     time.Time  // of the newest sample
	fresh  time.Duration
	flows  bool      // at that time, more than the noise
	late   time.Time // since when an amount stands that a snapshot may have in; zero: none does
}

// add notes what has flowed since the sample before; late says that this is long ago,
// and the tank may have been reported meanwhile.
func (t *tally) add(kg float64, flows, late bool, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.booked.IsZero() {
		t.booked = at
	}
	t.kg, t.flows, t.at = max(t.kg+kg, -meterDebt), flows, at
	if late && t.late.IsZero() {
		t.late = at
	}
}

// take gives what is to be booked now, in kilograms of whole milligrams; 0 for nothing.
// all takes whatever there is, for a snapshot that follows. A late amount waits for one,
// for MeterEvery: booked by itself it would be subtracted from a snapshot that has it in.
func (t *tally) take(now time.Time, all bool) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case all:
		t.late = time.Time{}
	case !t.late.IsZero() && now.Sub(t.late) < MeterEvery:
		return 0
	}
	if t.kg < meterLeast || !all && t.kg < MeterQuantum && now.Sub(t.booked) < MeterEvery {
		return 0
	}
	kg := math.Floor(t.kg/meterLeast) * meterLeast
	t.kg, t.booked = t.kg-kg, now
	return kg
}

// waits reports whether a late amount waits for a snapshot.
func (t *tally) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.late.IsZero()
}

// flow is what the meters say of the tank.
func (t *tally) flow(now time.Time) signal.Flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.at.IsZero() || now.Sub(t.at) > t.fresh:
		return signal.FlowUnknown
	case t.flows:
		return signal.FlowSome
	}
	return signal.FlowNone
}

// metered reports whether the channel measures a flow.
func (s *Spec) metered() bool { return s.Driver == DriverSFM || s.Driver == DriverPulse }

// meter is the refiner of a flow meter: it makes amounts of its readings. It belongs to
// the loop of the meter's bus.
type meter struct {
	spec   *Spec
	shared *shared
	tally  *tally
	start  time.Time
	gap    time.Duration // a longer time between two reads is not bridged

	pulses *signal.Counter[uint64] // of a pulse meter
	boot   string
	last   float64 // kilograms a second, at lastAt
	lastAt time.Time

	why   Reason // why the next amount deserves a look, since whyAt; "" for nothing
	whyAt time.Time
}

// meter completes a channel with what happens to a flow meter's readings.
func (l *layout) meter(s *Spec, c *Channel) error {
	m := &meter{spec: s, shared: l.shared, tally: l.shared.tallies[s.Tank], start: time.Now(), gap: max(s.StaleAfter, 3*s.Interval)}
	var errs []error
	if s.Driver == DriverPulse {
		var err error
		m.pulses, err = signal.NewCounter[uint64](signal.CounterOptions[uint64]{MaxRate: maxPulseRate})
		m.boot = "process" // the total begins anew with each process, and goes on through everything else
		errs = append(errs, err, l.meterFaults(&s.Meter))
		if err == nil {
			m.pulses.Seed(0, 0) // so that what is counted before the first good reading counts
		}
	}
	c.Refine, c.Rest, c.Booking = m.refine, m.rest, &m.tally.booking
	return errors.Join(errs...)
}

// maxPulseRate is the fastest count that is believed, in pulses a second.
const maxPulseRate = 20_000

// noFlow is a flow that is noise, in kilograms a second: a hundredth of a gram a minute.
const noFlow = 1e-5 / 60

// refine makes a flow of the reading, and an amount where one is due.
func (m *meter) refine(r *Reading) error {
	late := m.lastAt.IsZero() || r.At.Sub(m.lastAt) > m.gap
	m.doubt(r)
	flowed, err := m.flowed(r)
	if err != nil {
		return err
	}
	m.doubt(r)
	m.tally.add(flowed, math.Abs(r.Value) > noFlow, late && flowed > 0, r.At)
	m.last, m.lastAt = r.Value, r.At
	r.Report = false
	r.Consumed = massOf(m.tally.take(r.At, false))
	r.suspect(m.why)
	if r.Consumed > 0 || r.At.Sub(m.whyAt) > 2*MeterEvery { // a late amount may have waited
		m.why = ""
	}
	return nil
}

// doubt keeps why a reading deserves a look until an amount has said so.
func (m *meter) doubt(r *Reading) {
	if r.Suspect {
		m.why, m.whyAt = r.Why, r.At
	}
}

// flowed is what has flowed since the reading before, in kilograms.
func (m *meter) flowed(r *Reading) (float64, error) {
	dt := r.At.Sub(m.lastAt)
	known := !m.lastAt.IsZero() && dt <= m.gap
	if m.pulses != nil {
		return m.pulsed(r, dt, known)
	}
	if !known {
		if !m.lastAt.IsZero() { // what flowed meanwhile nobody knows: it shows in the tank alone
			r.suspect(ReasonNoReading)
		}
		return 0, nil
	}
	return (m.last + r.Value) / 2 * dt.Seconds(), nil
}

// pulsed is what the pulses since the reading before mean. Pulses are counted by the
// kernel, so a gap between two reads loses none.
func (m *meter) pulsed(r *Reading, dt time.Duration, known bool) (float64, error) {
	pressure, why, err := m.shared.get(m.spec.Meter.LinePressure)
	if err != nil {
		return 0, about("pressure in the line", err)
	}
	r.suspect(why)
	temperature, why, err := m.shared.get(m.spec.Meter.LineTemperature)
	if err != nil {
		return 0, about("temperature in the line", err)
	}
	r.suspect(why)
	r.Uncompensated = m.spec.Meter.LineTemperature.Fixed()
	density, err := oxygen.Density(pressure, temperature)
	if err != nil {
		return 0, &Fault{Reason: ReasonModel, Err: err}
	}
	counted, verdict := m.pulses.Take(uint64(r.Raw), m.boot, r.At.Sub(m.start))
	if !verdict.Usable() {
		return 0, &Fault{Reason: Reason(verdict.Why), Detail: fmt.Sprintf("total of %d pulses", r.Raw)}
	}
	r.suspect(Reason(verdict.Why))
	kg := float64(counted.Delta) / m.spec.Meter.PulsesPerLitre / 1e3 * density
	r.Value = 0
	if known && dt > 0 {
		r.Value = kg / dt.Seconds()
	}
	r.Physical = Figure{r.Value * 60e3, "g/min"}
	return kg, nil
}

// rest is what has flowed and is not booked when the poller stops.
func (m *meter) rest(now time.Time) (Reading, bool) {
	kg := m.tally.take(now, true)
	return Reading{Quantity: Flow, At: now, Consumed: massOf(kg)}, kg > 0
}

// meterFaults lists all that is wrong with a pulse meter.
func (l *layout) meterFaults(m *MeterSpec) error {
	var errs []error
	if !(m.PulsesPerLitre > 0) || math.IsInf(m.PulsesPerLitre, 0) {
		errs = append(errs, errors.New("a pulse meter needs its pulses per litre"))
	}
	return errors.Join(append(errs, l.need(m.LinePressure, Pressure), l.need(m.LineTemperature, Temperature))...)
}

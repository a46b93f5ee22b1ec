package sensors

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/sensors/oxygen"
)

// script is an input whose value the test sets.
type script struct {
	value float64
	raw   int64
	why   Reason
	err   error
}

func (s *script) Measure(context.Context) (Measured, error) {
	return Measured{Raw: s.raw, Value: s.value, Why: s.why}, s.err
}

// channelOf makes a channel of a spec with inputs in place of a chip's, on a layout that
// others may be added to.
func channelOf(t *testing.T, l *layout, s Spec, in ...Input) *Channel {
	t.Helper()
	s.complete()
	l.declare([]Spec{s})
	c := &Channel{Tank: s.Tank, Name: s.Name, Interval: s.Interval}
	d := device{signal: SignalVoltage, unit: volts, open: func(context.Context, ...string) ([]Input, error) { return in, nil }}
	if s.metered() {
		d.signal, d.gives = SignalDirect, Flow
	}
	if s.Measures == Temperature {
		d.signal, d.unit, d.gives = SignalDirect, celsius, Temperature
	}
	if err := l.chain(&s, &d, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// bench reads a channel as its loop does, at an instant.
type stand struct {
	t     *testing.T
	c     *Channel
	probe Probe
	start time.Time
}

func standOf(t *testing.T, c *Channel) *stand {
	t.Helper()
	p, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &stand{t, c, p, time.Now()}
}

func (s *stand) read(after time.Duration) (Reading, error) {
	r, err := s.probe.Read(s.t.Context())
	if err != nil {
		return r, err
	}
	r.At, r.Report = s.start.Add(after), true
	return r, s.c.Refine(&r)
}

func newTestLayout() *layout { return newLayout(OpenOptions{}) }

// FC-57 through a whole channel: the outlier gives no reading, the state stays.
func TestFC57OutlierGivesNoReading(t *testing.T) {
	in := &script{}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.Filter = "A", time.Second, &FilterSpec{Floor: 1e-3}
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	state := status{staleAfter: 3 * time.Second}
	for i, tt := range []struct {
		grams float64
		good  bool
	}{{170.8, true}, {170.9, true}, {990, false}, {171.0, true}, {171.1, true}, {0.2, false}, {171.0, true}} {
		in.value = 0.5 + tt.grams/250
		r, err := st.read(time.Duration(i) * time.Second)
		if (err == nil) != tt.good || err != nil && reasonOf(err) != ReasonSpike {
			t.Fatalf("%v g: got %v", tt.grams, err)
		}
		if err != nil {
			state.failed(asFault(err), r, st.start.Add(time.Duration(i)*time.Second))
		} else {
			state.good(r)
		}
		if state.State == StateFault || state.State == StateStale {
			t.Errorf("%v g: state %s", tt.grams, state.State)
		}
	}
	if state.Faults != 2 {
		t.Errorf("counted %d, want the two outliers", state.Faults)
	}
}

// A refill is a step: it is believed after some readings, and until then the channel is
// neither in fault nor stale.
func TestStepIsBelievedWithoutAFault(t *testing.T) {
	in := &script{}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.Filter = "A", time.Second, &FilterSpec{Floor: 1e-3}
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	state := status{staleAfter: 3 * time.Second}
	step := func(i int, grams float64) {
		in.value = 0.5 + grams/250
		now := st.start.Add(time.Duration(i) * time.Second)
		r, err := st.read(time.Duration(i) * time.Second)
		if err != nil {
			state.failed(asFault(err), r, now)
		} else {
			state.good(r)
		}
		state.expire(now)
	}
	believed := -1
	for i := range 20 {
		grams := 200.0
		if i >= 10 {
			grams = 900
		}
		step(i, grams+float64(i%2)/10)
		if state.State == StateFault || state.State == StateStale {
			t.Fatalf("reading %d: %s, %s", i, state.State, state.Reason)
		}
		if believed < 0 && state.LastGood.Remaining > 800*physic.Gram {
			believed = i - 10
		}
	}
	if believed < 1 || believed > 4 {
		t.Errorf("the refill was believed after %d readings, want 1 to 4", believed)
	}
}

// What never agrees with what came before is a fault in the end.
func TestFilterIsNotPatientForEver(t *testing.T) {
	state := status{staleAfter: 3 * time.Second}
	start := time.Now()
	state.good(Reading{At: start})
	for i := range FilterPatience + FaultsBeforeState {
		now := start.Add(time.Duration(i) * time.Second)
		if state.failed(&Fault{Reason: ReasonRate}, Reading{}, now); state.expire(now) {
			t.Fatalf("refusal %d: stale", i)
		}
		if want := i == FilterPatience+FaultsBeforeState-1; (state.State == StateFault) != want {
			t.Fatalf("refusal %d: state %s", i, state.State)
		}
	}
}

// FC-93's first half: a steady tank at 1 Hz says little, and says when it changes.
func TestReportByException(t *testing.T) {
	in := &script{}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.Report = "A", time.Second, &ReportSpec{Deadband: 2e-3, Heartbeat: time.Minute}
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	reported := 0
	for i := range 600 {
		in.value = 2.5 + 0.002*math.Sin(float64(i))
		r, err := st.read(time.Duration(i) * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if r.Report {
			reported++
		}
	}
	if reported < 10 || reported > 12 {
		t.Errorf("%d reports in ten steady minutes, want one a minute", reported)
	}
	in.value = 2.45 // 12.5 g less
	if r, err := st.read(601 * time.Second); err != nil || !r.Report {
		t.Errorf("a change of 12 g: %+v, %v, want a report", r, err)
	}
}

// FC-51: no heartbeat without a reading, and the first reading after a fault is told.
func TestFC51SilentSensorHasNoHeartbeat(t *testing.T) {
	in := &script{value: 2.5}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.Report = "A", time.Second, &ReportSpec{Deadband: 2e-3, Heartbeat: time.Minute}
	c := channelOf(t, newTestLayout(), s, in)
	st := standOf(t, c)
	state := status{staleAfter: 180 * time.Second, started: st.start}
	r, _ := st.read(0)
	state.good(r)
	in.err = &Fault{Reason: ReasonBus}
	for i := 1; i < 300; i++ {
		now := st.start.Add(time.Duration(i) * time.Second)
		r, err := st.read(time.Duration(i) * time.Second)
		if err == nil {
			t.Fatalf("a reading of a dead sensor: %+v", r)
		}
		if i <= 2 {
			state.failed(asFault(err), r, now) // a single lapse, then silence
		}
		if state.expire(now); (state.State == StateStale) != (i >= 180) {
			t.Fatalf("after %d s: %s", i, state.State)
		}
		if !state.LastGood.At.Equal(st.start) {
			t.Fatal("the last good reading has changed its time")
		}
	}
	c.Faulted()
	in.err = nil
	if r, err := st.read(301 * time.Second); err != nil || !r.Report {
		t.Errorf("first after a fault: %+v, %v, want a report", r, err)
	}
}

// Use and refill out of the mass alone: noise books nothing, what went is booked once.
func TestConsumptionOutOfMass(t *testing.T) {
	in := &script{}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval = "A", time.Second
	s.Refine.Consumption = &ConsumptionSpec{Deadband: 20e-3, RefillAbove: 100e-3, Settle: time.Minute}
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	var consumed, refilled physic.Mass
	level := 800.0
	for i := range 7200 {
		switch {
		case i < 3600:
			level -= 300.0 / 3600
		case i == 3600:
			level = 950
		}
		in.value = 0.5 + (level+2*math.Sin(float64(i*i)))/250
		r, err := st.read(time.Duration(i) * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		consumed, refilled = consumed+r.Consumed, refilled+r.Refilled
		if r.Consumed+r.Refilled > 0 && !r.Report {
			t.Errorf("a booking without its snapshot: %+v", r)
		}
	}
	if consumed < 275*physic.Gram || consumed > 305*physic.Gram || refilled < 425*physic.Gram || refilled > 455*physic.Gram {
		t.Errorf("consumed %s, refilled %s, want 300 g and 450 g but for the deadband", consumed, refilled)
	}
}

// A meter's flow is integrated, booked in amounts, and never more than has flowed.
func TestMeterBooksWhatFlows(t *testing.T) {
	in := &script{}
	l := newTestLayout()
	s := Spec{Tank: "A", Name: "flow", Driver: DriverSFM, Interval: time.Second}
	c := channelOf(t, l, s, in)
	st := standOf(t, c)
	var booked physic.Mass
	var events int
	true_ := 0.0
	for i := range 631 {
		in.value = 10e-3 / 60 * (1 + 0.5*math.Sin(float64(i)/20)) // 10 g/min, swinging
		if i > 0 {
			true_ += in.value
		}
		r, err := st.read(time.Duration(i) * time.Second)
		if err != nil || r.Report {
			t.Fatalf("got %+v, %v", r, err)
		}
		if r.Consumed > 0 {
			events++
		}
		booked += r.Consumed
		if kilograms(booked) > true_*1.01+1e-3 {
			t.Fatalf("second %d: %s booked, %v kg flowed", i, booked, true_)
		}
	}
	if events != 10 {
		t.Errorf("%d events in ten minutes and a half, want one a minute", events)
	}
	rest, ok := c.Rest(st.start.Add(631 * time.Second))
	booked += rest.Consumed
	if !ok || math.Abs(kilograms(booked)-true_) > 0.01*true_ {
		t.Errorf("booked %s with the rest (%t), flowed %v kg", booked, ok, true_)
	}
}

// Noise around no flow is no consumption, and a gap between reads is not bridged.
func TestMeterNoiseAndGap(t *testing.T) {
	in := &script{}
	st := standOf(t, channelOf(t, newTestLayout(), Spec{Tank: "A", Name: "flow", Driver: DriverSFM, Interval: time.Second}, in))
	var booked physic.Mass
	for i := range 3600 {
		in.value = 1e-6 * math.Sin(float64(i))
		r, _ := st.read(time.Duration(i) * time.Second)
		booked += r.Consumed
	}
	if booked > 10*physic.MilliGram {
		t.Errorf("%s out of noise", booked)
	}
	in.value = 1e-3
	r, err := st.read(2 * time.Hour)
	if err != nil || r.Consumed > 0 || r.Why != ReasonNoReading {
		t.Errorf("after an hour without reads: %+v, %v, want nothing booked, and said", r, err)
	}
}

// A snapshot that is reported carries what the meters have counted, before itself.
func TestSnapshotTakesTheMeters(t *testing.T) {
	flow, level := &script{value: 1e-3}, &script{value: 2.5}
	l := newTestLayout()
	meter := standOf(t, channelOf(t, l, Spec{Tank: "A", Name: "flow", Driver: DriverSFM, Interval: time.Second}, flow))
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.Report = "A", time.Second, &ReportSpec{Heartbeat: time.Minute, Deadband: 1}
	c := channelOf(t, l, s, level)
	if c.Booking == nil || c.Booking != meter.c.Booking {
		t.Error("the channels of one tank do not share their booking")
	}
	tank := standOf(t, c)
	meter.start = tank.start
	if r, _ := tank.read(0); !r.Report {
		t.Fatal("the first is not reported")
	}
	for i := range 31 {
		if r, err := meter.read(time.Duration(i) * time.Second); err != nil || r.Consumed > 0 {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	r, err := tank.read(60 * time.Second)
	if want := 30 * physic.Gram; err != nil || !r.Report || r.Consumed < want-physic.MilliGram || r.Consumed > want {
		t.Errorf("got %+v, %v, want a report with 30 g consumed", r, err)
	}
	if r, _ := meter.read(61 * time.Second); r.Consumed > 0 {
		t.Errorf("%s is booked twice", r.Consumed)
	}
}

// FC-44 through the chain: a cylinder that cools loses nothing; without a sensor of its
// temperature it is said to be uncompensated.
func TestFC44CoolingIsNotALeakInTheChain(t *testing.T) {
	pressure, skin := &script{}, &script{value: 293.15}
	gas := Spec{Tank: "A", Interval: time.Second, Capacity: 20 * physic.KiloGram, Wire: WireSpec{VoltsMin: 0.3, VoltsMax: 4.7},
		Scale: []ScalePoint{{0.5, 0}, {4.5, 250e5}}, Model: ModelSpec{Kind: ModelGas, Volume: 0.05, Temperature: Source{Probe: "skin"}}}
	l := newTestLayout()
	probe := standOf(t, channelOf(t, l, Spec{Name: "skin", Measures: Temperature, Interval: time.Second}, skin))
	tank := standOf(t, channelOf(t, l, gas, pressure))
	at := func(bar float64) { pressure.value = 0.5 + bar/250*4 }
	at(150)
	if _, err := tank.read(0); reasonOf(err) != ReasonStarting {
		t.Errorf("before the probe has been read: %v, want starting", err)
	}
	if _, err := probe.read(0); err != nil {
		t.Fatal(err)
	}
	warm, err := tank.read(time.Second)
	if err != nil || warm.Uncompensated || warm.Suspect {
		t.Fatalf("got %+v, %v", warm, err)
	}
	density, err := oxygen.Density(150e5, 293.15)
	if err != nil {
		t.Fatal(err)
	}
	after, err := oxygen.Pressure(density, 263.15) // 128 bar; an ideal gas would have 134.6
	if err != nil {
		t.Fatal(err)
	}
	at(after / 1e5)
	skin.value = 263.15
	if _, err := probe.read(time.Second); err != nil {
		t.Fatal(err)
	}
	cold, err := tank.read(2 * time.Second)
	if change := cold.Value/warm.Value - 1; err != nil || math.Abs(change) > 0.01 {
		t.Errorf("cooled: %v, %v kg after %v kg", err, cold.Value, warm.Value)
	}
	gas.Model.Temperature = Source{Value: 293.15}
	if r, err := standOf(t, channelOf(t, newTestLayout(), gas, pressure)).read(0); err != nil || !r.Uncompensated {
		t.Errorf("without a probe: %+v, %v, want uncompensated", r, err)
	}
}

func TestModelsNeedTheirProbes(t *testing.T) {
	l := newTestLayout()
	l.probes["skin"] = Temperature
	s := transducer(0)
	s.Tank = "A"
	s.Model = ModelSpec{Kind: ModelGas, Volume: 0.05, Gauge: true, Temperature: Source{Probe: "nobody"}, Ambient: Source{Probe: "skin"}}
	s.complete()
	err := l.chain(&s, &device{signal: SignalVoltage}, &Channel{})
	for _, want := range []string{`there is no probe "nobody"`, `"skin" measures temperature, not pressure`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// FC-43 through a channel: a fast leak is noticed within ten minutes, far from low, and
// a refill is no rate.
func TestFC43FastLeakIsNoticed(t *testing.T) {
	in := &script{}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval, s.Refine.AbnormalFrom = "A", 10*time.Second, 0.05/3600
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	grams, noticed := 990.0, time.Duration(0)
	for at := time.Duration(0); at < 25*time.Hour; at += 10 * time.Second {
		perHour := 10.0
		if at >= 24*time.Hour {
			perHour = 200
		}
		grams -= perHour / 360
		in.value = 0.5 + (grams+0.5*math.Sin(float64(at)))/250
		r, err := st.read(at)
		if err != nil {
			t.Fatal(err)
		}
		if r.Abnormal && at < 24*time.Hour {
			t.Fatalf("abnormal at %s", at)
		}
		if r.Abnormal && noticed == 0 {
			noticed = at
		}
	}
	if noticed == 0 || noticed > 24*time.Hour+10*time.Minute {
		t.Errorf("noticed at %s, want within ten minutes of 24h", noticed)
	}
}

// TestGapIsToldOnce: what was used while nobody measured is told as suspect; the reading
// after it, which is good, is told too, so that the account does not stay suspect.
func TestGapIsToldOnce(t *testing.T) {
	in := &script{value: 2.5}
	s := transducer(1000 * physic.Gram)
	s.Tank, s.Interval = "A", 10*time.Second
	s.Refine.Report = &ReportSpec{Deadband: 5e-3, Heartbeat: time.Hour}
	s.Refine.Consumption = &ConsumptionSpec{Deadband: 20e-3, RefillAbove: 100e-3, Settle: time.Minute}
	st := standOf(t, channelOf(t, newTestLayout(), s, in))
	told := ""
	for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
		if at >= 10*time.Minute && at < 40*time.Minute {
			in.value = 2.3 // 50 g less
			continue
		}
		r, err := st.read(at)
		if err != nil {
			t.Fatal(err)
		}
		if r.Report {
			told = "good"
			if r.Suspect {
				told = string(r.Why)
			}
		}
	}
	if told != "good" {
		t.Errorf("the last report is %q, and all has been well for half an hour", told)
	}
}

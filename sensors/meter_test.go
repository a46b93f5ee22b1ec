package sensors

import (
	"math"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
)

// pulseRig is a pulse meter whose line is at 4 bar, and whose thermometer is a probe.
func pulseRig(t *testing.T, l *layout, pulses, skin *script) (meter, probe *stand) {
	t.Helper()
	probe = standOf(t, channelOf(t, l, Spec{Name: "line", Measures: Temperature, Interval: time.Second}, skin))
	meter = standOf(t, channelOf(t, l, Spec{Tank: "A", Name: "flow", Driver: DriverPulse, Interval: time.Second,
		Meter: MeterSpec{PulsesPerLitre: 10, LinePressure: Source{Value: 4e5}, LineTemperature: Source{Probe: "line"}}}, pulses))
	meter.start = probe.start
	return meter, probe
}

// gramsAPulse is what a pulse of pulseRig's means: a tenth of a litre at 4 bar and 20 °C.
const gramsAPulse = 0.5265

// TestPulsesBeforeTheFirstReadingCount: the line is counted from its opening. What came
// while the meter's thermometer was not there yet has flowed all the same.
func TestPulsesBeforeTheFirstReadingCount(t *testing.T) {
	pulses, skin := &script{}, &script{value: 293.15}
	meter, probe := pulseRig(t, newTestLayout(), pulses, skin)
	for i := 1; i <= 600; i++ {
		pulses.raw, pulses.value = int64(i), float64(i)
		if _, err := meter.read(time.Duration(i) * time.Second); err == nil {
			t.Fatal("a flow without the temperature that it needs")
		}
	}
	if _, err := probe.read(601 * time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := meter.read(602 * time.Second); err != nil {
		t.Fatal(err)
	}
	r, err := meter.read(602*time.Second + MeterEvery) // no snapshot came for which to wait
	if want := 600 * gramsAPulse / 1e3; err != nil || math.Abs(kilograms(r.Consumed)-want) > 0.01*want {
		t.Errorf("got %s, %v, want %.3f kg of 600 pulses", r.Consumed, err, want)
	}
}

// TestPulsesHaveTheirUnit: a total that could not be made a flow is shown as pulses, not
// as grams a minute.
func TestPulsesHaveTheirUnit(t *testing.T) {
	pulses := &script{raw: 7, value: 7}
	meter, probe := pulseRig(t, newTestLayout(), pulses, &script{value: 293.15})
	if r, err := meter.read(time.Second); err == nil || r.Physical.Unit == gramsAMinute.name {
		t.Errorf("got %s, %v, want no flow", r.Physical, err)
	}
	if _, err := probe.read(time.Second); err != nil {
		t.Fatal(err)
	}
	if r, err := meter.read(2 * time.Second); err != nil || r.Physical.Unit != gramsAMinute.name {
		t.Errorf("got %s, %v, want a flow", r.Physical, err)
	}
}

// TestMeterOffsetIsNoDebt: a meter whose zero is low, by a part of what its maker allows,
// measures a flow into the tank for as long as nothing flows. That must not stand against
// what is drawn in the end.
func TestMeterOffsetIsNoDebt(t *testing.T) {
	in := &script{}
	st := standOf(t, channelOf(t, newTestLayout(), Spec{Tank: "A", Name: "flow", Driver: DriverSFM, Interval: time.Second}, in))
	var booked physic.Mass
	read := func(from, to int, flow float64) {
		in.value = flow
		for i := from; i < to; i++ {
			r, err := st.read(time.Duration(i) * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			booked += r.Consumed
		}
	}
	read(0, 100_000, -0.02*1.3312e-3/60) // 0.02 slm for a day: 44 g
	if booked != 0 {
		t.Fatalf("booked %s of nothing", booked)
	}
	read(100_000, 100_101, 1e-3) // 100 g
	rest, _ := st.c.Rest(st.start.Add(100_101 * time.Second))
	if booked += rest.Consumed; booked < 95*physic.Gram || booked > 100*physic.Gram {
		t.Errorf("booked %s of 100 g", booked)
	}
}

// TestLostPulsesAreToldWithTheirAmount: the one reading that knows of lost pulses may come
// to nothing, or book nothing. The amount that lacks them is suspect all the same, and the
// next one is not.
func TestLostPulsesAreToldWithTheirAmount(t *testing.T) {
	pulses := &script{raw: 1, why: ReasonLost}
	meter, probe := pulseRig(t, newTestLayout(), pulses, &script{value: 293.15})
	if _, err := meter.read(time.Second); err == nil {
		t.Fatal("a flow without the temperature that it needs")
	}
	pulses.why = ""
	var told []Reason
	for i := 2; i <= 200; i++ {
		if _, err := probe.read(time.Duration(i) * time.Second); err != nil {
			t.Fatal(err)
		}
		pulses.raw++
		r, err := meter.read(time.Duration(i) * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if r.Consumed > 0 {
			told = append(told, r.Why)
		}
	}
	if len(told) < 2 || told[0] != ReasonLost || told[1] != "" {
		t.Errorf("amounts are told as %q, want the first alone as lost pulses", told)
	}
}

// TestFlowOfNoTankIsRefused: a list of what is wrong, and no panic.
func TestFlowOfNoTankIsRefused(t *testing.T) {
	for _, driver := range []string{DriverSFM, DriverPulse, DriverADS1115} {
		s := Spec{Name: "flow", Measures: Flow, Driver: driver, Interval: time.Second, Device: DeviceSpec{Bus: "1", GPIOChip: "0", Edge: "rising", Input: "0"}}
		if err := Check([]Spec{s}); err == nil {
			t.Errorf("%s: no tank, and taken", driver)
		}
	}
}

package sensors

import (
	"math"
	"testing"
)

// What models take from a probe of a pressure is absolute, whatever its transducer is
// measured against: a dewar at 1.5 bar gauge whose pressure passed for 1.5 bar absolute
// would be 3 % off, and one without overpressure have none at all.
func TestProbeOfAGaugeGivesAbsolutePressure(t *testing.T) {
	spec := func(gauge bool, ambient Source) Spec {
		return Spec{Name: "ullage", Measures: Pressure, Wire: WireSpec{Signal: SignalLoop, Shunt: 91},
			Scale: []ScalePoint{{0, 0}, {1, 16e5}}, Model: ModelSpec{Gauge: gauge, Ambient: ambient}}
	}
	for _, tt := range []struct {
		name  string
		spec  Spec
		amps  float64
		want  float64
		fault Reason
	}{
		{"absolute", spec(false, Source{}), 5.5e-3, 1.5e5, ""},
		{"gauge", spec(true, Source{Value: 101325}), 5.5e-3, 2.51325e5, ""},
		{"gauge at rest", spec(true, Source{Value: 70e3}), 4e-3, 70e3, ""},
		{"no surroundings", spec(true, Source{}), 5.5e-3, 0, ReasonModel},
	} {
		p, err := probeOf(t, tt.spec, steady{Value: tt.amps * 91})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		r, err := p.Read(t.Context())
		if reasonOf(err) != tt.fault || math.Abs(r.Value-tt.want) > 0.01 {
			t.Errorf("%s: got %.6g Pa, %v, want %.6g Pa, %q", tt.name, r.Value, err, tt.want, tt.fault)
		}
		if want := (tt.amps*1e3 - 4); err == nil && math.Abs(r.Physical.Value-want) > 1e-9 {
			t.Errorf("%s: the transducer shows %v, want %.3g bar", tt.name, r.Physical, want)
		}
	}
	if _, err := probeOf(t, spec(true, Source{Probe: "nobody"})); err == nil {
		t.Error("a gauge whose surroundings nobody measures is taken")
	}
}

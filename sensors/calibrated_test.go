package sensors

import (
	"math"
	"testing"

	"oxyd/sensors/oxygen"
)

// TestCalibrationEndsAreNotTheSensors: two points that somebody could reach make a line.
// A cylinder below the lower one, or above the upper one, holds what the line says: the
// points are not the ends of what the sensor measures.
func TestCalibrationEndsAreNotTheSensors(t *testing.T) {
	two := []ScalePoint{{1, 20e5}, {3.4, 140e5}} // 50 bar a volt, 0 at 0.6 V
	cylinder := ModelSpec{Kind: ModelGas, Volume: 0.05, Temperature: Source{Value: 293.15}}
	for _, bars := range []float64{2, 10, 18, 20, 100, 140, 141, 180} {
		s := Spec{Wire: WireSpec{VoltsMin: 0.4, VoltsMax: 4.7}, Scale: two, Model: cylinder}
		p, err := probeOf(t, s, steady{Value: 0.6 + bars/50})
		if err != nil {
			t.Fatal(err)
		}
		density, err := oxygen.Density(bars*1e5, 293.15)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Read(t.Context()); err != nil || math.Abs(r.Value-density*0.05) > 1e-6 {
			t.Errorf("%v bar: got %v kg, %v, want %v kg", bars, r.Value, err, density*0.05)
		}
	}

	scale := []ScalePoint{{100_000, 50}, {180_000, 70}} // the empty vessel, and 20 kg on it
	s := Spec{Wire: WireSpec{Signal: SignalBridge}, Scale: scale, Model: ModelSpec{Kind: ModelWeighed, Tare: 50}}
	p, err := probeOf(t, s, steady{Raw: 220_000})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Read(t.Context()); err != nil || math.Abs(r.Value-30) > 1e-9 {
		t.Errorf("80 kg on the cell: got %v kg, %v, want 30 kg", r.Value, err)
	}

	part := []ScalePoint{{0.1, 25e5}, {0.6, 150e5}} // of a 250 bar transmitter's span
	s = Spec{Wire: WireSpec{Signal: SignalLoop, Shunt: 100}, Scale: part, Model: cylinder}
	for bars, want := range map[float64]Reason{0: "", 20: "", 200: "", 250: "", -20: ReasonOpen} {
		volts := (4e-3 + 16e-3*bars/250) * 100
		if bars < 0 {
			volts = 0
		}
		p, err := probeOf(t, s, steady{Value: volts})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Read(t.Context()); reasonOf(err) != want || err == nil && math.Abs(r.Physical.Value-bars) > 1e-6 {
			t.Errorf("%v bar in a loop: got %+v, %v, want %q", bars, r, err, want)
		}
	}
}

// TestNoVolumeIsLessThanNone: a sensor that is calibrated in volume may read its error
// below an empty tank, and no more.
func TestNoVolumeIsLessThanNone(t *testing.T) {
	for volts, want := range map[float64]Reason{1: "", 0.97: "", 0.9: ReasonUnderRange} {
		s := Spec{Wire: WireSpec{VoltsMin: 0.4, VoltsMax: 4.7}, Scale: []ScalePoint{{1, 0}, {3, 0.1}}, Model: ModelSpec{Kind: ModelStrapping, Density: 1141}}
		p, err := probeOf(t, s, steady{Value: volts})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Read(t.Context()); reasonOf(err) != want || r.Value != 0 {
			t.Errorf("%v V: got %v kg, %v, want %q", volts, r.Value, err, want)
		}
	}
}

package sensors

import (
	"context"
	"errors"
	"strings"
	"testing"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

const mV = physic.MilliVolt

// transducer is 0.5 V to 4.5 V for 0 to 1000 g, valid from 0.25 V to 4.75 V.
func transducer(t *testing.T, capacity physic.Mass) Linear {
	t.Helper()
	l, err := NewLinear(Point{500 * mV, 0}, Point{4500 * mV, 1000 * physic.Gram}, 250*mV, 4750*mV, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLinearMass(t *testing.T) {
	for _, tt := range []struct {
		volts    physic.ElectricPotential
		capacity physic.Mass
		want     physic.Mass
		fault    Reason
	}{
		{500 * mV, 0, 0, ""},
		{2500 * mV, 0, 500 * physic.Gram, ""},
		{4500 * mV, 0, 1000 * physic.Gram, ""},
		{500*mV + 4*physic.MicroVolt, 0, physic.MilliGram, ""},   // 1 mg
		{500*mV + 1999*physic.NanoVolt, 0, 0, ""},                // 0.49975 mg
		{500*mV + 2001*physic.NanoVolt, 0, physic.MilliGram, ""}, // 0.50025 mg
		{421 * mV, 0, 0, ""},                                     // -19.75 g, within the slack of 20 g
		{419 * mV, 0, 0, ReasonUnderRange},                       // -20.25 g
		{250 * mV, 0, 0, ReasonUnderRange},                       // valid volts, no valid mass
		{249 * mV, 0, 0, ReasonRangeLow},                         // wire at ground
		{0, 0, 0, ReasonRangeLow},                                // wire off
		{-1 * mV, 0, 0, ReasonRangeLow},                          // and noise on it
		{4751 * mV, 0, 0, ReasonRangeHigh},                       // short to supply
		{4750 * mV, 0, 1062_500 * physic.MilliGram, ""},          // capacity unknown: only volts bound
		{4501 * mV, 1000 * physic.Gram, 1000 * physic.Gram, ""},  // a hair above full (FC-67)
		{4579 * mV, 1000 * physic.Gram, 1000 * physic.Gram, ""},  // 1019.75 g
		{4581 * mV, 1000 * physic.Gram, 0, ReasonOverRange},      // 1020.25 g
		{4501 * mV, 2000 * physic.Gram, 1000_250 * physic.MilliGram, ""},
	} {
		got, err := transducer(t, tt.capacity).Mass(tt.volts)
		var fault Reason
		if f, ok := errors.AsType[*Fault](err); ok {
			fault = f.Reason
		}
		if got != tt.want || fault != tt.fault {
			t.Errorf("%s, capacity %s: got %s, %q, want %s, %q", tt.volts, tt.capacity, got, fault, tt.want, tt.fault)
		}
	}
}

func TestNewLinearRefuses(t *testing.T) {
	p, q := Point{500 * mV, 0}, Point{4500 * mV, 1000 * physic.Gram}
	for _, tt := range []struct {
		name       string
		p, q       Point
		min, max   physic.ElectricPotential
		capacity   physic.Mass
		wantInText string
	}{
		{"same volts", p, Point{500 * mV, physic.Gram}, 250 * mV, 4750 * mV, 0, "same voltage"},
		{"same mass", p, Point{4500 * mV, 0}, 250 * mV, 4750 * mV, 0, "same mass"},
		{"0 V is valid", p, q, 0, 4750 * mV, 0, "above 0 V"},
		{"no range given", p, q, 0, 0, 0, "range is empty"},
		{"range upside down", p, q, 4750 * mV, 250 * mV, 0, "range is empty"},
		{"point below", p, q, 501 * mV, 4750 * mV, 0, "valid range"},
		{"point above", p, q, 250 * mV, 4499 * mV, 0, "valid range"},
		{"negative mass", Point{500 * mV, -1}, q, 250 * mV, 4750 * mV, 0, "not between 0"},
		{"beyond an event", p, Point{4500 * mV, maxRemaining + 1}, 250 * mV, 4750 * mV, 0, "not between 0"},
		{"negative capacity", p, q, 250 * mV, 4750 * mV, -1, "not between 0"},
		{"capacity too small", p, q, 250 * mV, 4750 * mV, 999 * physic.Gram, "exceeds the capacity"},
	} {
		_, err := NewLinear(tt.p, tt.q, tt.min, tt.max, tt.capacity)
		if err == nil || !strings.Contains(err.Error(), tt.wantInText) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.wantInText)
		}
	}
}

func TestLinearIsMonotoneAndReturnsItsPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volts := func(from, to int64) *rapid.Generator[physic.ElectricPotential] {
			return rapid.Map(rapid.Int64Range(from, to), func(v int64) physic.ElectricPotential { return physic.ElectricPotential(v) })
		}
		mass := rapid.Map(rapid.Int64Range(0, int64(maxRemaining/physic.MilliGram)), func(m int64) physic.Mass {
			return physic.Mass(m) * physic.MilliGram
		})
		lo := volts(1, 6e9).Draw(t, "voltsMin")
		hi := volts(int64(lo)+1, 6e9+2).Draw(t, "voltsMax")
		p := Point{volts(int64(lo), int64(hi)).Draw(t, "p"), mass.Draw(t, "p mass")}
		q := Point{volts(int64(lo), int64(hi)).Draw(t, "q"), mass.Draw(t, "q mass")}
		var capacity physic.Mass
		if rapid.Bool().Draw(t, "bounded") {
			capacity = max(p.Remaining, q.Remaining)
		}
		l, err := NewLinear(p, q, lo, hi, capacity)
		if p.Volts == q.Volts || p.Remaining == q.Remaining {
			if err == nil {
				t.Fatal("got no error for equal points")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range []Point{p, q} {
			if got, err := l.Mass(point.Volts); err != nil || got != point.Remaining {
				t.Errorf("at %s got %d ng, %v, want %d ng", point.Volts, got, err, point.Remaining)
			}
		}
		rising := (p.Volts < q.Volts) == (p.Remaining < q.Remaining)
		a := volts(int64(lo), int64(hi)).Draw(t, "a")
		b := volts(int64(lo), int64(hi)).Draw(t, "b")
		if (a < b) != rising { // a is now where the mass is smaller
			a, b = b, a
		}
		less, err1 := l.Mass(a)
		more, err2 := l.Mass(b)
		if err1 == nil && err2 == nil && less > more {
			t.Errorf("got %d ng at %s and %d ng at %s", less, a, more, b)
		}
		for _, m := range []physic.Mass{less, more} {
			if m < 0 || m > maxRemaining || m%physic.MilliGram != 0 {
				t.Errorf("got %d ng, want whole milligrams from 0 to %d ng", m, maxRemaining)
			}
		}
	})
}

// TestZeroLinearIsAFault: a calibration that was never made gives no mass.
func TestZeroLinearIsAFault(t *testing.T) {
	for _, v := range []physic.ElectricPotential{-1, 0, 1} {
		if got, err := (Linear{}).Mass(v); err == nil || got != 0 {
			t.Errorf("%s: got %s, %v, want a fault", v, got, err)
		}
	}
}

// fixed is an input that stays at one sample.
type fixed Sample

func (f fixed) Read(context.Context) (Sample, error) { return Sample(f), nil }

func TestGaugeKeepsTheRawValue(t *testing.T) {
	g := gauge{fixed{Raw: 24005, Volts: 4501 * mV}, transducer(t, 1000*physic.Gram)}
	got, err := g.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Reading{Remaining: 1000 * physic.Gram, Raw: 24005, Volts: 4501 * mV}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	g.input = fixed{}
	if got, err := g.Read(t.Context()); err == nil || got != (Reading{}) {
		t.Errorf("wire off: got %+v, %v, want a fault and no reading", got, err)
	}
}

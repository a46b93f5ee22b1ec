package sensors

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

const mV = physic.MilliVolt

// steady is an input that always measures the same.
type steady Measured

func (s steady) Measure(context.Context) (Measured, error) { return Measured(s), nil }

// broken is an input that cannot be read.
type broken struct{}

func (broken) Measure(context.Context) (Measured, error) {
	return Measured{}, &Fault{Reason: ReasonNack}
}

func reasonOf(err error) Reason {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Reason
	}
	return ""
}

// probeOf makes the probe of a tank's channel with inputs in place of a chip's.
func probeOf(t *testing.T, s Spec, in ...Input) (Probe, error) {
	t.Helper()
	l := layout{shared: newShared(time.Now), probes: map[string]Quantity{}}
	if s.Tank == "" && s.Measures == "" {
		s.Tank = "A"
	}
	s.complete()
	var c Channel
	d := device{signal: SignalVoltage, unit: volts, open: func(context.Context, ...string) ([]Input, error) { return in, nil }}
	if err := l.chain(&s, &d, &c); err != nil {
		return nil, err
	}
	return c.Open(t.Context())
}

// transducer is 0.5 V to 4.5 V for 0 to 1000 g, valid from 0.25 V to 4.75 V.
func transducer(capacity physic.Mass) Spec {
	return Spec{Capacity: capacity, Scale: []ScalePoint{{0.5, 0}, {4.5, 1}}, Wire: WireSpec{VoltsMin: 0.25, VoltsMax: 4.75}}
}

func TestLinearMass(t *testing.T) {
	for _, tt := range []struct {
		volts    float64
		capacity physic.Mass
		want     physic.Mass
		fault    Reason
	}{
		{0.5, 0, 0, ""},
		{2.5, 0, 500 * physic.Gram, ""},
		{4.5, 0, 1000 * physic.Gram, ""},
		{0.500004, 0, physic.MilliGram, ""},                 // 1 mg
		{0.500001999, 0, 0, ""},                             // 0.49975 mg
		{0.500002001, 0, physic.MilliGram, ""},              // 0.50025 mg
		{0.421, 0, 0, ""},                                   // -19.75 g, within the slack of 20 g
		{0.419, 0, 0, ReasonUnderRange},                     // -20.25 g
		{0.25, 0, 0, ReasonUnderRange},                      // valid volts, no valid mass
		{0.249, 0, 0, ReasonRangeLow},                       // wire at ground
		{0, 0, 0, ReasonRangeLow},                           // wire off
		{-0.001, 0, 0, ReasonRangeLow},                      // and noise on it
		{math.NaN(), 0, 0, ReasonRangeLow},                  // nothing at all
		{4.751, 0, 0, ReasonRangeHigh},                      // short to supply
		{4.75, 0, 1062_500 * physic.MilliGram, ""},          // capacity unknown: only volts bound
		{4.501, 1000 * physic.Gram, 1000 * physic.Gram, ""}, // a hair above full
		{4.579, 1000 * physic.Gram, 1000 * physic.Gram, ""}, // 1019.75 g
		{4.581, 1000 * physic.Gram, 0, ReasonOverRange},     // 1020.25 g
		{4.501, 2000 * physic.Gram, 1000_250 * physic.MilliGram, ""},
	} {
		p, err := probeOf(t, transducer(tt.capacity), steady{Raw: 7, Value: tt.volts})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Read(t.Context())
		if got.Remaining != tt.want || reasonOf(err) != tt.fault {
			t.Errorf("%v V, capacity %s: got %s, %v, want %s, %q", tt.volts, tt.capacity, got.Remaining, err, tt.want, tt.fault)
		}
	}
}

// What the wire carried stays with the mass, also where the mass was taken for full;
// the fraction 100.003 % is full, 143 % is a fault and no content.
func TestFC67ImpossibleLevel(t *testing.T) {
	s := transducer(1000 * physic.Gram)
	s.Wire.VoltsMax = 6
	p, err := probeOf(t, s, steady{Raw: 24001, Value: 0.5 + 4*1.00003})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Read(t.Context())
	if err != nil || got.Remaining != 1000*physic.Gram || got.Raw != 24001 || math.Abs(got.Physical.Value-1000.03) > 1e-9 || got.Electrical.Unit != "V" {
		t.Errorf("100.003 %%: got %+v, %v, want full, and what was measured beside it", got, err)
	}
	p, _ = probeOf(t, s, steady{Raw: 31000, Value: 0.5 + 4*1.31})
	if got, err := p.Read(t.Context()); reasonOf(err) != ReasonOverRange || got.Remaining != 0 {
		t.Errorf("131 %%: got %+v, %v, want over_range and no content", got, err)
	}
}

func TestChainRefuses(t *testing.T) {
	with := func(change func(*Spec)) Spec {
		s := transducer(0)
		change(&s)
		return s
	}
	points := func(p ...ScalePoint) func(*Spec) { return func(s *Spec) { s.Scale = p } }
	for _, tt := range []struct {
		name, want string
		spec       Spec
	}{
		{"same volts", "two calibration points at 0.5", with(points(ScalePoint{0.5, 0}, ScalePoint{0.5, 1}))},
		{"same mass", "neither rising nor falling", with(points(ScalePoint{0.5, 0}, ScalePoint{4.5, 0}))},
		{"a turn", "neither rising nor falling", with(points(ScalePoint{0.5, 0}, ScalePoint{4.5, 1}, ScalePoint{2, 1.5}))},
		{"one point", "two are the least", with(points(ScalePoint{0.5, 0}))},
		{"none", "no range and no calibration", with(points())},
		{"no number", "not a number", with(points(ScalePoint{0.5, 0}, ScalePoint{4.5, math.Inf(1)}))},
		{"0 V is valid", "above 0 V", with(func(s *Spec) { s.Wire.VoltsMin = 0 })},
		{"upside down", "range is empty", with(func(s *Spec) { s.Wire.VoltsMin, s.Wire.VoltsMax = 4.75, 0.25 })},
		{"point below", "outside of the valid range", with(func(s *Spec) { s.Wire.VoltsMin = 0.501 })},
		{"point above", "outside of the valid range", with(func(s *Spec) { s.Wire.VoltsMax = 4.499 })},
		{"negative mass", "not between 0", with(points(ScalePoint{0.5, -1}, ScalePoint{4.5, 1}))},
		{"beyond an event", "not between 0", with(points(ScalePoint{0.5, 0}, ScalePoint{4.5, 1.1e6}))},
		{"capacity too small", "exceeds the capacity", with(func(s *Spec) { s.Capacity = 999 * physic.Gram })},
		{"negative divider", "divider must be above", with(func(s *Spec) { s.Wire.Divider = -1 })},
		{"supply unmeasured", "its supply measured", with(func(s *Spec) { s.Wire.Signal = SignalRatiometric })},
		{"no shunt", "its shunt", with(func(s *Spec) { s.Wire.Signal = SignalLoop })},
		{"limits fall", "do not rise", with(func(s *Spec) {
			s.Wire.Signal, s.Wire.Shunt, s.Wire.LoopLimits = SignalLoop, 100, LoopLimits{3.8e-3, 3.6e-3, 20.5e-3, 21e-3}
		})},
		{"unknown signal", "unknown signal", with(func(s *Spec) { s.Wire.Signal = "smoke" })},
		{"unknown model", "unknown model", with(func(s *Spec) { s.Model.Kind = "magic" })},
	} {
		if _, err := probeOf(t, tt.spec, steady{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestScaleIsMonotoneAndReturnsItsPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "points")
		rising := rapid.Bool().Draw(t, "rising")
		var points []ScalePoint
		at, is := rapid.Float64Range(-10, 10).Draw(t, "from"), 0.0
		for range n {
			points = append(points, ScalePoint{at, is})
			at += rapid.Float64Range(1e-3, 10).Draw(t, "step")
			step := rapid.Float64Range(1e-6, 1e3).Draw(t, "rise")
			if !rising {
				step = -step
			}
			is += step
		}
		s, err := NewScale(points)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			if got, err := s.Of(p.At); err != nil || math.Abs(got-p.Is) > 1e-9*math.Abs(p.Is) {
				t.Errorf("at %v got %v, %v, want %v", p.At, got, err, p.Is)
			}
		}
		first, last := points[0].At, points[n-1].At
		a := rapid.Float64Range(first, last).Draw(t, "a")
		b := rapid.Float64Range(first, last).Draw(t, "b")
		if (a < b) != rising {
			a, b = b, a
		}
		less, _ := s.Of(a)
		more, _ := s.Of(b)
		if less > more {
			t.Errorf("got %v at %v and %v at %v", less, a, more, b)
		}
		beyond := last + 0.03*(last-first)
		if _, err := s.Of(beyond); (err != nil) != (n > 2) {
			t.Errorf("3 %% beyond the end of %d points: %v", n, err)
		}
	})
}

// FC-63: the currents of the case through 100 Ω, and a raw value that wrapped.
func TestFC63LoopLimits(t *testing.T) {
	s := Spec{Capacity: 1000 * physic.Gram, Scale: []ScalePoint{{0, 0}, {1, 1}},
		Wire: WireSpec{Signal: SignalLoop, Shunt: 100}}
	for _, tt := range []struct {
		milliamps float64
		want      physic.Mass
		why       Reason
		fault     Reason
	}{
		{65.535, 0, "", ReasonRangeHigh},
		{0, 0, "", ReasonOpen},
		{3.5, 0, "", ReasonRangeLow},
		{3.7, 0, ReasonLoopLow, ""},
		{3.9, 0, "", ""},
		{4, 0, "", ""},
		{12, 500 * physic.Gram, "", ""},
		{20, 1000 * physic.Gram, "", ""},
		{20.4, 1000 * physic.Gram, "", ""},
		{20.7, 1000 * physic.Gram, ReasonLoopHigh, ""},
		{21.2, 0, "", ReasonRangeHigh},
		{3.6, 0, "", ReasonRangeLow},
		{21, 0, "", ReasonRangeHigh},
		{math.NaN(), 0, "", ReasonOpen},
	} {
		p, err := probeOf(t, s, steady{Value: tt.milliamps / 1e3 * 100})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Read(t.Context())
		if reasonOf(err) != tt.fault || got.Remaining != tt.want || got.Why != tt.why || got.Suspect != (tt.why != "") {
			t.Errorf("%v mA: got %s, %q, %v; want %s, %q, fault %q", tt.milliamps, got.Remaining, got.Why, err, tt.want, tt.why, tt.fault)
		}
	}
}

// FC-65, as an electrical sensor has it: open, short and what only looks like empty.
func TestFC65RatiometricOpenAndShort(t *testing.T) {
	s := Spec{Capacity: 1000 * physic.Gram, Scale: []ScalePoint{{0, 0}, {1, 1}},
		Wire: WireSpec{Signal: SignalRatiometric, SupplyInput: "3", SupplyDivider: 2, Divider: 2}}
	for _, tt := range []struct {
		rail, part float64
		want       physic.Mass
		why        Reason
		fault      Reason
	}{
		{5, 0.1, 0, "", ""},
		{5, 0.5, 500 * physic.Gram, "", ""},
		{4.6, 0.5, 500 * physic.Gram, "", ""}, // the rail sags, the pressure does not
		{5.4, 0.5, 500 * physic.Gram, "", ""},
		{5, 0.9, 1000 * physic.Gram, "", ""},
		{5, 0.096, 0, "", ""},
		{5, 0.094, 0, ReasonElectrical, ""},
		{5, 0.906, 1000 * physic.Gram, ReasonElectrical, ""},
		{5, 0.049, 0, "", ReasonRangeLow},
		{5, 0, 0, "", ReasonRangeLow},
		{5, 0.951, 0, "", ReasonRangeHigh},
		{5, 1, 0, "", ReasonRangeHigh},
		{4.4, 0.5, 0, "", ReasonSupply},
		{5.6, 0.5, 0, "", ReasonSupply},
		{0, 0, 0, "", ReasonSupply},
	} {
		p, err := probeOf(t, s, steady{Value: tt.rail * tt.part / 2}, steady{Value: tt.rail / 2})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Read(t.Context())
		if reasonOf(err) != tt.fault || got.Remaining != tt.want || got.Why != tt.why {
			t.Errorf("%v of %v V: got %s, %q, %v; want %s, %q, fault %q", tt.part, tt.rail, got.Remaining, got.Why, err, tt.want, tt.why, tt.fault)
		}
	}
	p, err := probeOf(t, s, steady{Value: 1}, broken{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(t.Context()); reasonOf(err) != ReasonNack || !strings.Contains(err.Error(), "supply of the sensor") {
		t.Errorf("supply not read: got %v", err)
	}
}

// A converter that clips hides the current by which a transmitter signals failure.
func TestClippedSignalsAreRefused(t *testing.T) {
	loop := WireSpec{Signal: SignalLoop, Shunt: 100, Divider: 1, LoopLimits: NE43}
	rail := WireSpec{Signal: SignalRatiometric, Divider: 1, SupplyDivider: 1, SupplyMin: 4.5, SupplyMax: 5.5}
	for _, tt := range []struct {
		wire WireSpec
		full float64
		clip bool
	}{{loop, 2.048, true}, {loop, 4.096, false}, {rail, 4.096, true}, {rail, 6.144, false}} {
		if err := tt.wire.clips(tt.full); (err != nil) != tt.clip {
			t.Errorf("%s at ±%v V: got %v", tt.wire.Signal, tt.full, err)
		}
	}
	loop.Shunt = 91
	if err := loop.clips(2.048); err != nil {
		t.Errorf("91 Ω at ±2.048 V: got %v", err)
	}
}

// A second quantity that is late is no fault, one that is old is.
func TestSharedValuesAge(t *testing.T) {
	now := time.Now()
	s := newShared(func() time.Time { return now })
	s.declare("skin", 3*time.Second)
	skin := Source{Probe: "skin"}
	for _, tt := range []struct {
		after time.Duration
		set   bool
		why   Reason
		fault Reason
	}{
		{0, false, "", ReasonStarting},
		{2 * time.Second, false, "", ReasonStarting},
		{time.Second, false, "", ReasonAuxiliary},
		{0, true, "", ""},
		{3 * time.Second, false, "", ""},
		{time.Second, false, ReasonAuxiliary, ""},
		{auxiliaryHold - time.Second, false, ReasonAuxiliary, ""},
		{time.Second, false, "", ReasonAuxiliary},
		{0, true, "", ""},
	} {
		now = now.Add(tt.after)
		if tt.set {
			s.set("skin", 293, now, "")
		}
		v, why, err := s.get(skin)
		if reasonOf(err) != tt.fault || why != tt.why || err == nil && v != 293 {
			t.Errorf("got %v, %q, %v, want %+v", v, why, err, tt)
		}
	}
	if v, _, err := s.get(Source{Value: 288}); v != 288 || err != nil {
		t.Errorf("fixed: got %v, %v", v, err)
	}
	if _, _, err := s.get(Source{Probe: "nobody"}); reasonOf(err) != ReasonAuxiliary {
		t.Errorf("unknown probe: got %v", err)
	}
}

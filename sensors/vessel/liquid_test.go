package vessel

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"oxyd/sensors/oxygen"
)

// dewar is an upright dewar of 160 L with straight walls: its table is a line.
func dewar() StrappingOptions {
	return StrappingOptions{Levels: []Point{{0, 0}, {1, 0.152}}, Slack: 0.02, Volume: 0.160, Purity: 1}
}

func newLOX(t failer, o LOXOptions) LOX {
	t.Helper()
	l, err := NewLOX(o)
	if err != nil {
		t.Fatalf("NewLOX: %v", err)
	}
	return l
}

func newStrapping(t failer, o StrappingOptions) Strapping {
	t.Helper()
	s, err := NewStrapping(o)
	if err != nil {
		t.Fatalf("NewStrapping: %v", err)
	}
	return s
}

// Half a metre at the normal boiling point, and the same liquid at 16 bar, which
// is a fifth lighter.
func TestLOXLevel(t *testing.T) {
	l := newLOX(t, LOXOptions{StrappingOptions: dewar()})
	const differential = 5574.0
	level, err := l.Level(differential, oxygen.Atmosphere)
	if err != nil || math.Abs(level-0.5) > 1e-4 {
		t.Errorf("level of %g Pa at 1 atm = %.5f m, %v, want 0.5", differential, level, err)
	}
	high, err := l.Level(differential, 16*bar)
	if want := differential / ((916.04 - 62.171) * 9.80665); err != nil || math.Abs(high-want) > 1e-4 {
		t.Errorf("level of %g Pa at 16 bar = %.5f m, %v, want %.5f", differential, high, err, want)
	}
	moon := newLOX(t, LOXOptions{StrappingOptions: dewar(), Gravity: 1.625})
	if got, err := moon.Level(differential*1.625/StandardGravity, oxygen.Atmosphere); err != nil || math.Abs(got-level) > 1e-9 {
		t.Errorf("level on the Moon = %g m, %v, want %g", got, err, level)
	}
}

// By the saturation table of the reference, not by our own densities.
func TestLOXContent(t *testing.T) {
	o := LOXOptions{StrappingOptions: dewar()}
	o.Purity, o.Reserve = 0.995, 5
	l := newLOX(t, o)
	for _, c := range []struct{ pressure, liquid, vapour float64 }{
		{oxygen.Atmosphere, 1141.17, 4.467}, {5 * bar, 1042.37, 19.663}, {16 * bar, 916.04, 62.171},
	} {
		const level, volume = 0.5, 0.076
		got, err := l.Content((c.liquid-c.vapour)*StandardGravity*level, c.pressure)
		want := 0.995 * (c.liquid*volume + c.vapour*(0.160-volume))
		if err != nil || math.Abs(got.Total-want) > 1e-4*want || math.Abs(got.Usable-(want-5)) > 1e-4*want || got.Reserve != 5 {
			t.Errorf("half full at %g Pa: %+v, %v, want %.3f kg", c.pressure, got, err, want)
		}
	}
	if got, err := l.Content(0, 3*bar); err != nil || got.Usable != 0 || !(got.Total > 1.9) {
		t.Errorf("no liquid at 3 bar: %+v, %v, want 1.94 kg of gas, none usable", got, err)
	}
}

// With straight walls the differential pressure weighs the liquid: ΔP A/g, and
// gas all over the vessel. No density of the liquid enters.
func TestLOXWithStraightWallsIsWeighed(t *testing.T) {
	l := newLOX(t, LOXOptions{StrappingOptions: dewar()})
	rapid.Check(t, func(t *rapid.T) {
		pressure := rapid.Float64Range(0.5*bar, 20*bar).Draw(t, "pressure")
		differential := rapid.Float64Range(0, 7000).Draw(t, "differential")
		s, err := oxygen.Saturation(pressure)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Content(differential, pressure)
		if want := differential*0.152/StandardGravity + s.Vapour*0.160; err != nil || math.Abs(got.Total-want) > 1e-9*want {
			t.Fatalf("%g Pa at %g Pa: %+v, %v, want %g kg", differential, pressure, got, err, want)
		}
	})
}

// lyingCylinder is the strapping table of a horizontal cylinder with flat ends.
func lyingCylinder(rows int, radius, length float64) (levels []Point) {
	for i := range rows {
		h := 2 * radius * float64(i) / float64(rows-1)
		segment := radius*radius*math.Acos((radius-h)/radius) - (radius-h)*math.Sqrt(max(2*radius*h-h*h, 0))
		levels = append(levels, Point{h, length * segment})
	}
	return levels
}

// More liquid stands higher and presses more; straight and smooth, in vessels of any shape.
func TestLiquidIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := StrappingOptions{Volume: 10, Purity: 1, Smooth: rapid.Bool().Draw(t, "smooth"), Slack: 0.02}
		o.Levels = []Point{{0, 0}}
		for range rapid.IntRange(1, 12).Draw(t, "rows") {
			last := o.Levels[len(o.Levels)-1]
			o.Levels = append(o.Levels, Point{last.X + rapid.Float64Range(0.01, 0.2).Draw(t, "height"), last.Y + rapid.Float64Range(0.001, 0.5).Draw(t, "volume")})
		}
		l := newLOX(t, LOXOptions{StrappingOptions: o})
		pressure := rapid.Float64Range(0.5*bar, 30*bar).Draw(t, "pressure")
		s, err := oxygen.Saturation(pressure)
		if err != nil {
			t.Fatal(err)
		}
		top := o.Levels[len(o.Levels)-1].X
		h1 := rapid.Float64Range(0, 0.999*top).Draw(t, "level")
		h2 := h1 + rapid.Float64Range(1e-4*top, top-h1).Draw(t, "rise")
		weight := (s.Liquid - s.Vapour) * StandardGravity
		a, err1 := l.Content(h1*weight, pressure)
		b, err2 := l.Content(h2*weight, pressure)
		if err1 != nil || err2 != nil || b.Total <= a.Total {
			t.Fatalf("differential pressure of %g m and %g m: %+v, %v, then %+v, %v", h1, h2, a, err1, b, err2)
		}
		c, err := l.tank.Content(h1, pressure)
		if err != nil || math.Abs(c.Total-a.Total) > 1e-6*a.Total {
			t.Fatalf("at a level of %g m: %+v, %v by the gauge, %+v by the differential pressure", h1, c, err, a)
		}
	})
}

// A table of a few rows, read smoothly, follows a lying cylinder closer than straight lines.
func TestSmoothTableFollowsALyingCylinder(t *testing.T) {
	const radius, length = 0.5, 2.0
	exact := lyingCylinder(1001, radius, length)
	worst := func(smooth bool) (w float64) {
		table, err := NewTable(lyingCylinder(11, radius, length), TableOptions{Smooth: smooth})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range exact {
			got, err := table.At(p.X)
			if err != nil {
				t.Fatal(err)
			}
			w = max(w, math.Abs(got-p.Y)/exact[1000].Y)
		}
		return w
	}
	if straight, smooth := worst(false), worst(true); smooth > 0.004 || straight > 0.01 || smooth > straight/2 {
		t.Errorf("worst error in parts of the full volume: %.5f straight, %.5f smooth", straight, smooth)
	}
}

func TestStrappingWithFixedDensity(t *testing.T) {
	o := StrappingOptions{Levels: []Point{{0, 0}, {1, 0.152}}, Density: 1100, Purity: 0.995, Reserve: 10}
	s := newStrapping(t, o)
	got, err := s.Content(0.5, math.NaN()) // no pressure is known, or asked for
	if want := 1100 * 0.076 * 0.995; err != nil || math.Abs(got.Total-want) > 1e-9 || math.Abs(got.Usable-(want-10)) > 1e-9 {
		t.Errorf("half full: %+v, %v, want %g kg", got, err, want)
	}
	if got, err := s.Content(0, 0); err != nil || got.Total != 0 || got.Usable != 0 {
		t.Errorf("empty: %+v, %v", got, err)
	}
}

func TestStrappingWithSaturatedLiquid(t *testing.T) {
	s := newStrapping(t, dewar())
	got, err := s.Content(0.5, 3*bar)
	if want := 1080.06*0.076 + 12.170*0.084; err != nil || math.Abs(got.Total-want) > 1e-4*want {
		t.Errorf("half full at 3 bar: %+v, %v, want %.3f kg", got, err, want)
	}
}

func TestLiquidRefuses(t *testing.T) {
	s, l := newStrapping(t, dewar()), newLOX(t, LOXOptions{StrappingOptions: dewar()})
	phases, err := oxygen.Saturation(3 * bar)
	if err != nil {
		t.Fatal(err)
	}
	weight := (phases.Liquid - phases.Vapour) * StandardGravity
	nan := math.NaN()
	for _, c := range []struct {
		name            string
		level, pressure float64
		want            error
	}{
		{"a little below", -0.02, 3 * bar, nil},
		{"below", -0.021, 3 * bar, ErrUnderRange},
		{"a little above", 1.02, 3 * bar, nil},
		{"above", 1.021, 3 * bar, ErrOverRange},
		{"a pressure without saturation", 0.5, 41 * bar, ErrOutsideModel},
		{"gauge for absolute", 0.5, 0, ErrOutsideModel},
		{"no level", nan, 3 * bar, ErrNotFinite},
		{"no pressure", 0.5, nan, ErrNotFinite},
		{"infinite", math.Inf(1), 3 * bar, ErrNotFinite},
	} {
		got, err := s.Content(c.level, c.pressure)
		if !errors.Is(err, c.want) || err != nil && got != (Content{}) {
			t.Errorf("%s: %+v, %v by the level, want %v", c.name, got, err, c.want)
		}
		// A hair less than the level, so that rounding does not decide at the slack's end.
		got, err = l.Content(c.level*weight*(1-1e-12), c.pressure)
		if !errors.Is(err, c.want) || err != nil && got != (Content{}) {
			t.Errorf("%s: %+v, %v by the differential pressure, want %v", c.name, got, err, c.want)
		}
	}
}

func TestLiquidOptions(t *testing.T) {
	with := func(change func(*StrappingOptions)) StrappingOptions {
		o := dewar()
		change(&o)
		return o
	}
	nan := math.NaN()
	for _, c := range []struct {
		name string
		o    StrappingOptions
		want []string
	}{
		{"zero", StrappingOptions{}, []string{"0 rows", "purity", "volume"}},
		{"no numbers", StrappingOptions{Levels: dewar().Levels, Slack: nan, Density: nan, Purity: nan, Reserve: nan, Volume: 1},
			[]string{"slack", "purity", "reserve", "density"}},
		{"a falling table", with(func(o *StrappingOptions) { o.Levels = []Point{{1, 0.152}, {0, 0}} }), []string{"do not both rise"}},
		{"a table of emptiness", with(func(o *StrappingOptions) { o.Levels = []Point{{0, 0.152}, {1, 0}} }), []string{"do not both rise"}},
		{"a flat part", with(func(o *StrappingOptions) { o.Levels = []Point{{0, 0}, {0.5, 0}, {1, 0.1}} }), []string{"do not both rise"}},
		{"a table larger than the vessel", with(func(o *StrappingOptions) { o.Volume = 0.150 }), []string{"row 2"}},
		{"less than nothing", with(func(o *StrappingOptions) { o.Levels[0].Y = -0.01 }), []string{"row 1"}},
		{"neither density nor volume", with(func(o *StrappingOptions) { o.Volume, o.Levels = 0, []Point{{0, 0}, {1, 0}} }), []string{"both ends", "volume"}},
	} {
		_, err := NewStrapping(c.o)
		checkFaults(t, c.name, err, c.want)
	}
	o := dewar()
	o.Density = 1141
	_, err := NewLOX(LOXOptions{StrappingOptions: o, Gravity: -9.8})
	checkFaults(t, "a dewar with a density", err, []string{"density", "gravity"})
}

// What was handed in stays the caller's: a model does not follow its changes.
func TestModelsAreImmutable(t *testing.T) {
	o := dewar()
	s := newStrapping(t, o)
	before, _ := s.Content(0.5, 3*bar)
	o.Levels[1].Y = 0.08
	if after, err := s.Content(0.5, 3*bar); err != nil || after != before {
		t.Errorf("after a change of the options: %+v, %v, want %+v", after, err, before)
	}
}

// A model that no constructor made is not an empty tank.
func TestZeroModelsRefuse(t *testing.T) {
	for name, content := range map[string]func() (Content, error){
		"gas":       func() (Content, error) { return Gas{}.Content(100*bar, 293) },
		"weighed":   func() (Content, error) { return Weighed{}.Content(10) },
		"strapping": func() (Content, error) { return Strapping{}.Content(0.5, 3*bar) },
		"LOX":       func() (Content, error) { return LOX{}.Content(5000, 3*bar) },
	} {
		if got, err := content(); !errors.Is(err, ErrOutsideModel) || got != (Content{}) {
			t.Errorf("%s: %+v, %v, want a refusal", name, got, err)
		}
	}
}

func BenchmarkLOXMass(b *testing.B) {
	l := newLOX(b, LOXOptions{StrappingOptions: dewar()})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Content(5000, 3*bar); err != nil {
			b.Fatal(err)
		}
	}
}

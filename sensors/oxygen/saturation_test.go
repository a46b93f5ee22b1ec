package oxygen

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The same equation by Maxwell's construction, computed by another program.
// The temperature is printed to a millikelvin, the vapour's density to a gram.
func TestSaturationTable(t *testing.T) {
	for _, row := range []struct{ pressure, temperature, liquid, vapour float64 }{
		{0.101325e6, 90.188, 1141.17, 4.467},
		{0.2e6, 97.236, 1105.40, 8.355},
		{0.3e6, 102.024, 1080.06, 12.170},
		{0.5e6, 108.806, 1042.37, 19.663},
		{0.8e6, 115.913, 999.96, 30.878},
		{1.0e6, 119.621, 976.34, 38.456},
		{1.6e6, 128.234, 916.04, 62.171},
	} {
		s, err := Saturation(row.pressure)
		if err != nil {
			t.Errorf("Saturation(%g): %v", row.pressure, err)
			continue
		}
		if math.Abs(s.Temperature-row.temperature) > 1e-3 || !near(s.Liquid, row.liquid, 1e-4) || !near(s.Vapour, row.vapour, 1e-4) {
			t.Errorf("Saturation(%g) = %+v, want %+v", row.pressure, s, row)
		}
	}
}

// Maxwell's construction as it is drawn: the isotherm between both phases
// encloses equal areas with the line of the pressure. It looks at pressures
// alone, and so checks the energies that the solution uses.
func TestSaturationEnclosesEqualAreas(t *testing.T) {
	for _, pressure := range []float64{SaturationPressureMin, 0.05e6, Atmosphere, 0.5e6, 1e6, 2e6, 3e6, SaturationPressureMax} {
		s, err := Saturation(pressure)
		if err != nil {
			t.Fatal(err)
		}
		i := newIsotherm(s.Temperature)
		// ∫ p dv with v = 1/ρ is ∫ p/ρ d ln ρ, from the vapour to the liquid; Simpson's rule.
		const steps = 20000
		width, area := math.Log(s.Liquid/s.Vapour)/steps, 0.0
		for k := range steps + 1 {
			weight := 2.0 + 2*float64(k%2)
			if k == 0 || k == steps {
				weight = 1
			}
			rho := s.Vapour * math.Exp(float64(k)*width)
			area += weight * i.at(rho).pressure / rho * width / 3
		}
		if want := pressure * (1/s.Vapour - 1/s.Liquid); !near(area, want, 1e-6) {
			t.Errorf("at %g Pa the isotherm's area is %.9g J/kg, the line's %.9g", pressure, area, want)
		}
	}
}

func TestSaturationRange(t *testing.T) {
	for _, c := range []struct {
		name             string
		pressure         float64
		limit            Limit
		below, notFinite bool
	}{
		{"lowest", SaturationPressureMin, "", false, false},
		{"highest", SaturationPressureMax, "", false, false},
		{"gauge for absolute", 0, LimitSaturationPressure, true, false},
		{"below", 9999, LimitSaturationPressure, true, false},
		{"above", 4.0001e6, LimitSaturationPressure, false, false},
		{"no number", math.NaN(), "", false, true},
		{"infinite", math.Inf(1), "", false, true},
	} {
		s, err := Saturation(c.pressure)
		checkLimit(t, c.name, s.Liquid, err, c.limit, c.below, c.notFinite)
	}
}

// Every pressure of the range has its solution, on both phases' own branches, and
// with the pressure the temperature and the vapour's density rise, and the
// liquid's falls.
func TestSaturationIsMonotone(t *testing.T) {
	at := func(t *rapid.T, pressure float64) Saturated {
		s, err := Saturation(pressure)
		if err != nil {
			t.Fatalf("Saturation(%g): %v", pressure, err)
		}
		i := newIsotherm(s.Temperature)
		liquid, vapour := i.at(s.Liquid), i.at(s.Vapour)
		if math.Abs(liquid.pressure-pressure) > 10 || !near(vapour.pressure, pressure, 1e-7) || liquid.rise <= 0 || vapour.rise <= 0 {
			t.Fatalf("Saturation(%g) = %+v has pressures of %g and %g Pa", pressure, s, liquid.pressure, vapour.pressure)
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		p := math.Exp(rapid.Float64Range(math.Log(SaturationPressureMin), math.Log(0.999*SaturationPressureMax)).Draw(t, "ln pressure"))
		a, b := at(t, p), at(t, p+rapid.Float64Range(0.1, SaturationPressureMax-p).Draw(t, "rise"))
		if !(b.Temperature > a.Temperature && b.Liquid < a.Liquid && b.Vapour > a.Vapour) {
			t.Fatalf("%g Pa: %+v, then %+v", p, a, b)
		}
	})
}

func BenchmarkSaturation(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Saturation(3e5); err != nil {
			b.Fatal(err)
		}
	}
}

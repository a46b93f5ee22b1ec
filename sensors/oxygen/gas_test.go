package oxygen

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// near reports whether got is want within a relative tolerance.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Abs(want)
}

// failer is what a test and a drawn case of a property have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// density is Density where it must not fail.
func density(t failer, pressure, temperature float64) float64 {
	t.Helper()
	rho, err := Density(pressure, temperature)
	if err != nil {
		t.Fatalf("Density(%g Pa, %g K): %v", pressure, temperature, err)
	}
	return rho
}

// The published check value of the equation, to its last digit.
func TestAnchor(t *testing.T) {
	i := newIsotherm(170.0391)
	if got, want := i.at(12267*MolarMass).pressure, 7.781961270045931e6; !near(got, want, 1e-9) {
		t.Errorf("pressure at 12267 mol/m3 and 170.0391 K = %.10g Pa, want %.10g", got, want)
	}
}

// NIST Chemistry WebBook, isobar of 0.02 MPa: five digits are printed.
func TestNISTIsobar(t *testing.T) {
	for _, point := range []struct{ temperature, density float64 }{
		{77.1, 1.0081}, {104.36, 0.74059}, {124.36, 0.62049}, {134.36, 0.57402},
	} {
		i := newIsotherm(point.temperature)
		got, ok := i.phase(0.02e6, 0.02e6/i.rt)
		if !ok || !near(got, point.density, 5e-5) {
			t.Errorf("density at 0.02 MPa and %g K = %.5g (solved: %t), want %g", point.temperature, got, ok, point.density)
		}
	}
}

// references are density in kg/m3 and compressibility factor by temperature in K
// (rows) and pressure (columns), computed by another program.
var (
	referencePressures = [7]float64{101325, 1e6, 5e6, 10e6, 15e6, 20e6, 30e6}
	references         = []struct {
		temperature float64
		density, z  [7]float64
	}{
		{250, [7]float64{1.5620, 15.6068, 82.3442, 174.5377, 271.2363, 363.0643, 508.8672},
			[7]float64{.998614, .986398, .934766, .882016, .851352, .848032, .907575}},
		{273.15, [7]float64{1.4290, 14.2243, 73.7133, 152.7973, 233.7892, 311.8208, 444.9817},
			[7]float64{.999031, .990545, .955716, .922123, .904006, .903711, .949913}},
		{288.15, [7]float64{1.3544, 13.4562, 69.1477, 141.9264, 215.6435, 286.8783, 411.7269},
			[7]float64{.999237, .992579, .965783, .941075, .929057, .931150, .973194}},
		{300, [7]float64{1.3007, 12.9073, 65.9695, 134.5739, 203.5816, 270.3305, 389.0526},
			[7]float64{.999373, .993915, .972325, .953287, .945230, .949117, .989231}},
		{330, [7]float64{1.1821, 11.7034, 59.2094, 119.4376, 179.2511, 237.1260, 342.4717},
			[7]float64{.999636, .996506, .984852, .976452, .975936, .983655, 1.021618}},
	}
)

func TestReferenceTable(t *testing.T) {
	for _, row := range references {
		for i, pressure := range referencePressures {
			rho := density(t, pressure, row.temperature)
			if want := row.density[i]; !near(rho, want, 1e-4) {
				t.Errorf("density at %g Pa and %g K = %.7g, want %g", pressure, row.temperature, rho, want)
			}
			z, err := Compressibility(rho, row.temperature)
			if want := row.z[i]; err != nil || !near(z, want, 2e-6) {
				t.Errorf("Z at %g Pa and %g K = %.7g, %v, want %g", pressure, row.temperature, z, err, want)
			}
		}
	}
}

// B(T) is the linear part of Z - 1 in the density.
func TestSecondVirialCoefficient(t *testing.T) {
	for _, v := range []struct{ temperature, want float64 }{{250, -28.45}, {273.15, -21.74}, {300, -15.47}, {330, -9.87}} {
		i := newIsotherm(v.temperature)
		linear := i.sum[0][1] + i.sum[1][1] + i.sum[2][1]
		if got := linear / CriticalDensity * MolarMass * 1e6; math.Abs(got-v.want) > 0.005 {
			t.Errorf("B(%g K) = %.3f cm3/mol, want %.2f", v.temperature, got, v.want)
		}
	}
}

func TestStandardDensities(t *testing.T) {
	for _, s := range []struct{ temperature, want, tolerance float64 }{
		{273.15, NormalDensity, 1e-6}, {293.15, StandardDensity, 1e-6},
		{273.15, 1.4290, 5e-5}, {288.15, 1.3544, 5e-5}, {293.15, 1.3312, 5e-5}, {294.2611, 1.3262, 5e-5}, {298.15, 1.3088, 5e-5},
	} {
		if got := density(t, Atmosphere, s.temperature); !near(got, s.want, s.tolerance) {
			t.Errorf("density at 1 atm and %g K = %.7f, want %g", s.temperature, got, s.want)
		}
	}
}

// The slope that Newton's method follows is the pressure's, in the gas and in
// both saturated phases. A wrong one would cost steps, and no test of the solution
// would tell.
func TestSlopeOfThePressure(t *testing.T) {
	for _, temperature := range []float64{90, 120, 150, 200, 288.15, 350} {
		i := newIsotherm(temperature)
		for rho := 1.0; rho < 1200; rho *= 1.3 {
			h := rho * 1e-5
			want := (i.at(rho+h).pressure - i.at(rho-h).pressure) / (2 * h)
			if got := i.at(rho).rise; math.Abs(got-want) > 1e-6*(math.Abs(want)+i.rt) {
				t.Errorf("slope at %g K and %.4g kg/m3 = %.9g J/kg, by differences %.9g", temperature, rho, got, want)
			}
		}
	}
}

// polynomial is Z by a fit of 12 coefficients that shares nothing with the
// equation's code: within 0.07 % from 250 K to 330 K up to 30 MPa.
func polynomial(pressure, temperature float64) (z float64) {
	a := [4][3]float64{
		{-0.061923, -0.30778, -0.241667},
		{0.0108521, -0.017279, -0.34469},
		{0.00537183, 0.0475285, 0.264171},
		{-8.41434e-4, -0.00718944, -0.0426261},
	}
	x, y := pressure/10e6, 300/temperature-1
	z = 1
	for i, row := range a {
		for j, c := range row {
			z += c * math.Pow(x, float64(i+1)) * math.Pow(y, float64(j))
		}
	}
	return z
}

func TestPolynomialItself(t *testing.T) {
	for _, p := range []struct{ pressure, temperature, z float64 }{{20e6, 288.15, .93109}, {30e6, 250, .90731}, {1e6, 330, .99650}} {
		if got := polynomial(p.pressure, p.temperature); math.Abs(got-p.z) > 1e-5 {
			t.Errorf("the polynomial's Z at %g Pa and %g K = %.6f, want %g", p.pressure, p.temperature, got, p.z)
		}
	}
}

// checkOracles holds one state against the polynomial and against bisection on
// the pressure.
func checkOracles(t failer, pressure, temperature float64) {
	t.Helper()
	rho := density(t, pressure, temperature)
	z, err := Compressibility(rho, temperature)
	if want := polynomial(pressure, temperature); err != nil || math.Abs(z-want) > 1e-3 {
		t.Errorf("Z at %g Pa and %g K = %.6f, %v; the polynomial says %.6f", pressure, temperature, z, err, want)
	}
	if want := bisect(pressure, temperature); math.Abs(rho-want) > 1e-12*(want+1) {
		t.Errorf("density at %g Pa and %g K = %.12g, bisection says %.12g", pressure, temperature, rho, want)
	}
}

// bisect solves for the density with the sign of the pressure alone.
func bisect(pressure, temperature float64) float64 {
	i := newIsotherm(temperature)
	low, high := 0.0, 2*gasDensityMax
	for range 200 {
		if middle := (low + high) / 2; i.at(middle).pressure > pressure {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}

func TestAgainstPolynomialAndBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkOracles(t, rapid.Float64Range(0, 30e6).Draw(t, "pressure"), rapid.Float64Range(250, 330).Draw(t, "temperature"))
	})
}

func FuzzDensity(f *testing.F) {
	f.Add(15e6, 288.15)
	f.Add(0.0, 200.0)
	f.Add(35e6, 200.0)
	f.Add(math.NaN(), 300.0)
	f.Add(1e6, math.Inf(1))
	f.Fuzz(func(t *testing.T, pressure, temperature float64) {
		rho, err := Density(pressure, temperature)
		inside := pressure >= 0 && pressure <= GasPressureMax && temperature >= GasTemperatureMin && temperature <= GasTemperatureMax
		if (err == nil) != inside {
			t.Fatalf("Density(%g, %g) = %g, %v", pressure, temperature, rho, err)
		}
		if err != nil {
			return
		}
		i := newIsotherm(temperature)
		if got := i.at(rho).pressure; math.Abs(got-pressure) > 1e-9*pressure {
			t.Fatalf("Density(%g, %g) = %g, which has %g Pa", pressure, temperature, rho, got)
		}
		if temperature >= 250 && temperature <= 330 && pressure <= 30e6 {
			checkOracles(t, pressure, temperature)
		}
	})
}

// All over the range: no state without a solution, and the density is monotone:
// what the tank's mass owes to it.
func TestDensityIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p1, t1 := rapid.Float64Range(0, 0.999*GasPressureMax).Draw(t, "pressure"),
			rapid.Float64Range(GasTemperatureMin, 0.999*GasTemperatureMax).Draw(t, "temperature")
		p2 := p1 + rapid.Float64Range(1e-3, GasPressureMax-p1).Draw(t, "rise of pressure")
		t2 := t1 + rapid.Float64Range(1e-6, GasTemperatureMax-t1).Draw(t, "rise of temperature")
		rho := density(t, p1, t1)
		if more := density(t, p2, t1); more <= rho {
			t.Errorf("%g K: %.12g kg/m3 at %g Pa, %.12g at %g Pa", t1, rho, p1, more, p2)
		}
		if p1 < 1e-3 {
			return // no gas, at any temperature
		}
		if less := density(t, p1, t2); less >= rho {
			t.Errorf("%g Pa: %.12g kg/m3 at %g K, %.12g at %g K", p1, rho, t1, less, t2)
		}
	})
}

func TestGasRange(t *testing.T) {
	if GasTemperatureMin <= CriticalTemperature {
		t.Error("the range of the gas reaches below the critical temperature: one pressure may then have two densities")
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name                  string
		pressure, temperature float64
		limit                 Limit // "" with notFinite false: inside
		below, notFinite      bool
	}{
		{"coldest and highest", GasPressureMax, GasTemperatureMin, "", false, false},
		{"hottest and highest", GasPressureMax, GasTemperatureMax, "", false, false},
		{"vacuum", 0, 300, "", false, false},
		{"too cold", 1e6, 199.999, LimitGasTemperature, true, false},
		{"liquid air", 101325, 80, LimitGasTemperature, true, false},
		{"too hot", 1e6, 350.001, LimitGasTemperature, false, false},
		{"celsius for kelvin", 1e6, 20, LimitGasTemperature, true, false},
		{"below vacuum", -1, 300, LimitGasPressure, true, false},
		{"too high", 35.001e6, 300, LimitGasPressure, false, false},
		{"pressure is no number", nan, 300, "", false, true},
		{"temperature is no number", 1e6, nan, "", false, true},
		{"infinite pressure", inf, 300, "", false, true},
		{"infinitely cold", 1e6, -inf, "", false, true},
	} {
		rho, err := Density(c.pressure, c.temperature)
		checkLimit(t, c.name, rho, err, c.limit, c.below, c.notFinite)
	}
}

// checkLimit holds a result against the limit that it must, or must not, name.
func checkLimit(t *testing.T, name string, got float64, err error, limit Limit, below, notFinite bool) {
	t.Helper()
	if errors.Is(err, ErrNotFinite) != notFinite {
		t.Errorf("%s: %v, want not finite %t", name, err, notFinite)
	}
	outside, is := errors.AsType[*RangeError](err)
	if is != (limit != "") || is && (outside.Limit != limit || outside.Below() != below) {
		t.Errorf("%s: %v, want limit %q, below it %t", name, err, limit, below)
	}
	if err != nil && got != 0 {
		t.Errorf("%s: %g beside an error", name, got)
	}
	if limit == "" && !notFinite && err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func TestPressureRange(t *testing.T) {
	for _, c := range []struct {
		name                 string
		density, temperature float64
		limit                Limit
		below, notFinite     bool
	}{
		{"nothing", 0, 300, "", false, false},
		{"full cylinder", 286.8783, 288.15, "", false, false},
		{"negative", -1, 300, LimitGasDensity, true, false},
		{"denser than any", 901, 300, LimitGasDensity, false, false},
		{"too much for the range", 500, 300, LimitGasPressure, false, false},
		{"too cold", 100, 199, LimitGasTemperature, true, false},
		{"no number", math.NaN(), 300, "", false, true},
		{"no temperature", 100, math.Inf(-1), "", false, true},
	} {
		pressure, err := Pressure(c.density, c.temperature)
		checkLimit(t, c.name+", pressure", pressure, err, c.limit, c.below, c.notFinite)
		z, err := Compressibility(c.density, c.temperature)
		checkLimit(t, c.name+", Z", z, err, c.limit, c.below, c.notFinite)
	}
	if got, err := Pressure(286.8783, 288.15); err != nil || !near(got, 20e6, 1e-6) {
		t.Errorf("Pressure(286.8783, 288.15) = %g, %v, want 20 MPa", got, err)
	}
	if got, want := (&RangeError{Limit: LimitGasTemperature, Value: 20, Min: 200, Max: 350, Unit: "K"}).Error(),
		"temperature of the gas: 20 K is outside of 200 to 350 K"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		_, _ = Density(15e6, 288.15)
		_, _ = Saturation(3e5)
	}); n != 0 {
		t.Errorf("%g allocations a sample, want none", n)
	}
}

func BenchmarkDensity(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Density(15e6, 288.15); err != nil {
			b.Fatal(err)
		}
	}
}

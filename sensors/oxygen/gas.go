package oxygen

import "math"

// Bounds of the solution for the density.
const (
	// gasDensityMax is in kg/m3, above the density of every state of the gas's
	// range (759 at 200 K and 35 MPa).
	gasDensityMax = 900.0

	// gasStepsMax is far above what Newton's method needs (at most 8), and enough
	// for bisection alone.
	gasStepsMax = 64

	// gasTolerance is the relative step that ends the iteration: Newton's next one
	// would be under the rounding.
	gasTolerance = 1e-9
)

// Pressure gives the pressure in Pa of the gas at a density in kg/m3 and a
// temperature in K. Errors: ErrNotFinite, and a RangeError with one of the gas's
// three limits; of a density too high the value is the pressure that it has, where
// the equation still gives one.
func Pressure(density, temperature float64) (float64, error) {
	s, err := gasState(density, temperature)
	return s.pressure, err
}

// Compressibility gives the factor Z = p M / (ρ R T) of the gas at a density in
// kg/m3 and a temperature in K. Errors as of Pressure.
func Compressibility(density, temperature float64) (float64, error) {
	s, err := gasState(density, temperature)
	return s.z, err
}

// gasState evaluates the equation within the range of the gas.
func gasState(density, temperature float64) (state, error) {
	if !finite(density) || !finite(temperature) {
		return state{}, ErrNotFinite
	}
	if err := gasTemperature(temperature); err != nil {
		return state{}, err
	}
	if density < 0 || density > gasDensityMax {
		return state{}, &RangeError{Limit: LimitGasDensity, Value: density, Max: gasDensityMax, Unit: "kg/m3"}
	}
	i := newIsotherm(temperature)
	s := i.at(density)
	if s.pressure > GasPressureMax {
		return state{}, &RangeError{Limit: LimitGasPressure, Value: s.pressure, Max: GasPressureMax, Unit: "Pa"}
	}
	return s, nil
}

// Density gives the density in kg/m3 of the gas at an absolute pressure in Pa and
// a temperature in K, to about 1e-12 of it. Errors: ErrNotFinite, and a
// RangeError with LimitGasTemperature or LimitGasPressure.
//
// It is Newton's method from the ideal gas, kept within a bracket that closes at
// each step: where a step would leave the bracket, its middle is taken. Pressure
// rises with density all over the range, so that there is one solution.
func Density(pressure, temperature float64) (float64, error) {
	if !finite(pressure) || !finite(temperature) {
		return 0, ErrNotFinite
	}
	if err := gasTemperature(temperature); err != nil {
		return 0, err
	}
	if pressure < 0 || pressure > GasPressureMax {
		return 0, &RangeError{Limit: LimitGasPressure, Value: pressure, Max: GasPressureMax, Unit: "Pa"}
	}
	i := newIsotherm(temperature)
	low, high := 0.0, gasDensityMax
	density := min(pressure/i.rt, high)
	for range gasStepsMax {
		s := i.at(density)
		if s.pressure > pressure {
			high = density
		} else {
			low = density
		}
		next := density - (s.pressure-pressure)/s.rise
		if math.Abs(next-density) <= gasTolerance*density {
			return next, nil
		}
		if !(next >= low && next <= high) { // also what is not a number
			next = (low + high) / 2
		}
		density = next
	}
	return 0, ErrNoConvergence
}

// gasTemperature holds a temperature against the range of the gas.
func gasTemperature(t float64) error {
	if t < GasTemperatureMin || t > GasTemperatureMax {
		return &RangeError{Limit: LimitGasTemperature, Value: t, Min: GasTemperatureMin, Max: GasTemperatureMax, Unit: "K"}
	}
	return nil
}

// finite reports whether x is a number and not infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

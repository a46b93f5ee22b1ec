// Package oxygen is the thermodynamics of pure oxygen that a tank needs: the
// density of the compressed gas, and what boils at a given pressure.
//
// It is the equation of state of Schmidt and Wagner, Fluid Phase Equilibria 19
// (1985) 175, as recommended by Stewart, Jacobsen and Wagner, J. Phys. Chem. Ref.
// Data 20 (1991) 917: density within 0.1 % from 54 K to 300 K and up to 80 MPa.
// The NIST WebBook evaluates the same equation, also above 300 K.
//
// Invariant: a number that comes out was computed inside of the stated range and
// is finite; all else is an error that names the limit. Nothing is extrapolated,
// clamped or remembered: every function is pure, bounded in time, allocates
// nothing, and may be called by many goroutines at once.
//
// It knows neither vessels (package vessel), nor mixtures, nor the solid, nor the
// single-phase liquid, nor the gas below 200 K.
package oxygen

import (
	"errors"
	"fmt"
)

// Constants of the equation. Its gas constant is the one that it was fitted
// with, not today's: the coefficients belong to it.
const (
	MolarMass           = 0.0319988           // kg/mol
	GasConstant         = 8.31434             // J/(mol K)
	CriticalTemperature = 154.581             // K
	CriticalPressure    = 5.043e6             // Pa
	CriticalDensity     = 13.63e3 * MolarMass // kg/m3

	specificGasConstant = GasConstant / MolarMass // J/(kg K)
)

// Atmosphere is the pressure of the standard and normal states, in Pa.
const Atmosphere = 101325.0

// Densities of the gas at Atmosphere, in kg/m3, from the equation. Which of them a
// flow meter's litre stands for is the maker's choice, and 7 % apart: Sensirion's
// slm is at 20 °C, the normal litre of DIN 1343 at 0 °C.
const (
	NormalDensity   = 1.429033 // at 273.15 K
	StandardDensity = 1.331184 // at 293.15 K
)

// The range of the gas. It is wholly above the critical temperature, where there
// is one phase and pressure rises with density: no state in it can be near
// saturation. Above 300 K it goes beyond the fit, as the WebBook does.
const (
	GasTemperatureMin = 200.0 // K
	GasTemperatureMax = 350.0 // K
	GasPressureMax    = 35e6  // Pa
)

// The range of the saturation line in Pa, absolute: from below what a vented
// vessel shows on the highest mountain to above every cold tank's relief valve.
const (
	SaturationPressureMin = 10e3
	SaturationPressureMax = 4e6
)

// ErrNotFinite says that an argument is NaN or infinite.
var ErrNotFinite = errors.New("not a finite number")

// ErrNoConvergence says that a solution was not found in the bounded number of
// steps. No argument within the ranges is known to lead to it.
var ErrNoConvergence = errors.New("equation of state: no solution within the bounded number of steps")

// Limit names the range that was left.
type Limit string

// The limits.
const (
	LimitGasTemperature     Limit = "temperature of the gas"
	LimitGasPressure        Limit = "pressure of the gas"
	LimitGasDensity         Limit = "density of the gas"
	LimitSaturationPressure Limit = "pressure of saturation"
)

// RangeError says which limit an argument is outside of. Nothing was computed.
type RangeError struct {
	Limit    Limit
	Value    float64 // the argument, or the pressure that it led to
	Min, Max float64 // the range, both ends inside of it
	Unit     string
}

// Error tells the limit, the value and the range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %g %s is outside of %g to %g %[3]s", e.Limit, e.Value, e.Unit, e.Min, e.Max)
}

// Below reports whether the value is under the range, not above it.
func (e *RangeError) Below() bool { return e.Value < e.Min }

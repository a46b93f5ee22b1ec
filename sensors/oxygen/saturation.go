package oxygen

import "math"

// Bounds of the solution for the saturation line.
const (
	saturationStepsMax = 16 // needs at most 3
	phaseStepsMax      = 16 // needs at most 4

	// saturationTolerance is the relative step of temperature or density that ends
	// an iteration of Newton's; the next one would be under the rounding.
	saturationTolerance = 1e-9
)

// Saturated is oxygen that boils: liquid and vapour in balance.
type Saturated struct {
	Temperature float64 // K
	Liquid      float64 // density of the liquid, kg/m3
	Vapour      float64 // density of the vapour, kg/m3
}

// Saturation gives the balance of liquid and vapour at an absolute pressure in Pa
// between SaturationPressureMin and SaturationPressureMax. Errors: ErrNotFinite,
// and a RangeError with LimitSaturationPressure.
//
// It is Maxwell's construction on the equation itself, without a table: Newton's
// method for the temperature at which both phases, each solved for its density at
// the pressure, have the same Gibbs energy.
func Saturation(pressure float64) (Saturated, error) {
	if !finite(pressure) {
		return Saturated{}, ErrNotFinite
	}
	if pressure < SaturationPressureMin || pressure > SaturationPressureMax {
		return Saturated{}, &RangeError{Limit: LimitSaturationPressure, Value: pressure,
			Min: SaturationPressureMin, Max: SaturationPressureMax, Unit: "Pa"}
	}
	s := startOfSaturation(pressure)
	for range saturationStepsMax {
		i, dtau := newIsotherm(s.Temperature), slope(s.Temperature)
		liquid, ok1 := i.phase(pressure, s.Liquid)
		vapour, ok2 := i.phase(pressure, s.Vapour)
		if !ok1 || !ok2 {
			break
		}
		// Over RT and without what both phases share, the Gibbs energy is
		// energy + Z + ln ρ, and the enthalpy τ ∂energy/∂τ + Z; the latter is, but for
		// the sign, the former's derivative by ln T.
		l, v := i.at(liquid), i.at(vapour)
		gibbs := l.energy - v.energy + l.z - v.z + math.Log(liquid/vapour)
		enthalpy := dtau.at(liquid).energy - dtau.at(vapour).energy + l.z - v.z
		step := s.Temperature * gibbs / enthalpy
		if math.Abs(step) <= saturationTolerance*s.Temperature {
			return Saturated{Temperature: s.Temperature + step, Liquid: liquid, Vapour: vapour}, nil
		}
		s = Saturated{Temperature: s.Temperature + step, Liquid: liquid, Vapour: vapour}
	}
	return Saturated{}, ErrNoConvergence
}

// startOfSaturation guesses the answer within 0.04 K and 0.2 %, by polynomials that
// were fitted to the answers themselves. They decide how many steps are
// needed, and nothing else.
func startOfSaturation(pressure float64) Saturated {
	u := math.Log(pressure / CriticalPressure)
	tau := ((((9.46596e-6*u+2.12974e-4)*u+1.91502e-3)*u+7.14428e-3)*u-0.173787)*u + 0.999074
	t := CriticalTemperature / tau
	w := math.Cbrt(1 - 1/tau)
	liquid := (((1.85564*w-3.45875)*w+3.26074)*w+0.774663)*w + 1.08277
	z := (((-5.59214*w+9.20789)*w-5.08293)*w+2.14665)*w + 0.10386
	return Saturated{Temperature: t, Liquid: liquid * CriticalDensity, Vapour: pressure / (specificGasConstant * t * z)}
}

// phase finds the density at a pressure by Newton's method from a density close
// to it. A step that leaves the branch on which pressure rises with density, or
// that does not end, is told by false.
func (i *isotherm) phase(pressure, density float64) (float64, bool) {
	for range phaseStepsMax {
		s := i.at(density)
		if !(s.rise > 0) {
			break
		}
		step := (pressure - s.pressure) / s.rise
		density += step
		if math.Abs(step) <= saturationTolerance*density {
			return density, true
		}
	}
	return 0, false
}

package sensors

import (
	"fmt"
	"math"
)

// The Callendar–Van Dusen coefficients of industrial platinum (IEC 60751) and
// where they hold, in degrees Celsius.
const (
	cvdA = 3.9083e-3
	cvdB = -5.775e-7
	cvdC = -4.183e-12 // below 0 °C only

	rtdCelsiusMin = -200.0
	rtdCelsiusMax = 850.0

	zeroCelsius = 273.15 // K
	// newtonSteps bounds the inverse below 0 °C. It takes 5 at -200 °C.
	newtonSteps = 20
)

// cvdRatio is a platinum resistor's resistance at t °C, as a multiple of that at
// 0 °C.
func cvdRatio(t float64) float64 {
	r := 1 + t*(cvdA+t*cvdB)
	if t < 0 {
		r += cvdC * (t - 100) * t * t * t
	}
	return r
}

// cvdCelsius is the inverse of cvdRatio, from -200 °C to 850 °C to 1e-9 K. Above 0
// °C it is the root of the quadratic. Below, the quadratic is off by 2.4 K at -200
// °C and the start of Newton's steps on the quartic, which rises all the way. ok is
// false for a ratio outside of that range.
func cvdCelsius(ratio float64) (t float64, ok bool) {
	if !(ratio >= cvdRatio(rtdCelsiusMin) && ratio <= cvdRatio(rtdCelsiusMax)) {
		return 0, false
	}
	t = (-cvdA + math.Sqrt(cvdA*cvdA-4*cvdB*(1-ratio))) / (2 * cvdB)
	if ratio >= 1 {
		return t, true
	}
	for range newtonSteps {
		slope := cvdA + 2*cvdB*t + cvdC*t*t*(4*t-300)
		step := (cvdRatio(t) - ratio) / slope
		t -= step
		if math.Abs(step) < 1e-10 {
			break
		}
	}
	return max(t, rtdCelsiusMin), true
}

// RTD is a platinum resistance thermometer and how it is wired to a MAX31865.
type RTD struct {
	Nominal   float64 // Ohm at 0 °C: 100 for a PT100, 1000 for a PT1000
	Reference float64 // Ohm of the reference resistor beside the chip, such as 430
	Wires     int     // 2, 3 or 4
	Mains     int     // Hz whose hum is filtered out: 50 or 60
}

// check says all that is wrong. The reference must lie above what the sensor has
// at any temperature that is to be measured, and within the same order: beyond,
// somebody mixed up a PT100 and a PT1000 board.
func (r RTD) check() (errs []error) {
	if r.Nominal != 100 && r.Nominal != 1000 {
		errs = append(errs, fmt.Errorf("max31865 knows no sensor of %g Ohm at 0 °C: it knows PT100 and PT1000", r.Nominal))
	} else if !(r.Reference >= 1.5*r.Nominal && r.Reference <= 10*r.Nominal) {
		errs = append(errs, fmt.Errorf("reference of %g Ohm does not suit a PT%g: it must have %g to %g Ohm", r.Reference, r.Nominal, 1.5*r.Nominal, 10*r.Nominal))
	}
	if r.Wires < 2 || r.Wires > 4 {
		errs = append(errs, fmt.Errorf("max31865 takes 2, 3 or 4 wires, not %d", r.Wires))
	}
	if r.Mains != 50 && r.Mains != 60 {
		errs = append(errs, fmt.Errorf("max31865 filters mains of 50 Hz or 60 Hz, not %d Hz", r.Mains))
	}
	return errs
}

// limits are the first code that is too low and the first that is too high for any
// temperature from -200 °C to 850 °C, or for the converter.
func (r RTD) limits() (low, high int) {
	code := func(t float64) float64 { return cvdRatio(t) * r.Nominal / r.Reference * max31865Codes }
	low = int(math.Ceil(code(rtdCelsiusMin))) - 1
	high = int(min(math.Floor(code(rtdCelsiusMax))+1, max31865Codes-1))
	return low, high
}

// Package vessel tells how many kilograms of oxygen a tank holds from what its
// sensors measure: Gas for a cylinder (pressure and temperature), LOX for a dewar
// (differential pressure), Strapping for a tank with a level gauge, Weighed for a
// scale. Table is the interpolation that they and calibrations share, Absolute
// makes absolute pressures, Remaining tells for how long a content lasts.
//
// All units are SI: Pa absolute, K, m, m3, kg, s. A constructor lists every fault
// of its options at once; a model that was made is immutable, allocates nothing
// per sample and may be used by many goroutines at once.
//
// Invariant: a content is finite, not negative, and computed within the range in
// which the model holds. All else is an error that is one of the four sentinels
// below, and then there is no content: nothing is extrapolated. What counts as
// the end of a range although it lies beyond it is said by a slack in the options.
//
// It knows no sensor, no volts and no time: electrical faults, filters and the
// comparison with the tank's capacity are its caller's.
package vessel

import (
	"errors"
	"fmt"
	"math"

	"oxyd/sensors/oxygen"
)

// Why there is no content. Every error of a model or a table is one of them.
var (
	ErrNotFinite    = errors.New("not a finite number")
	ErrUnderRange   = errors.New("less than an empty vessel gives")
	ErrOverRange    = errors.New("more than a full vessel gives")
	ErrOutsideModel = errors.New("outside of the range of the tank's model")
)

// errNotMade is what the zero value of a model gives: not an empty tank.
var errNotMade = fmt.Errorf("a model that no constructor made: %w", ErrOutsideModel)

// Content is what a vessel holds, in kg of oxygen: impurities are not counted.
type Content struct {
	Total   float64 // all of it
	Reserve float64 // what must stay; of a gas it depends on the temperature
	Usable  float64 // Total above Reserve; 0 where Total is below it, never less
}

// newContent is the content of a total and a reserve.
func newContent(total, reserve float64) Content {
	return Content{Total: total, Reserve: reserve, Usable: max(total-reserve, 0)}
}

// The ambient pressures that gauge pressures can be completed with, in Pa: from
// above any mountain and any habitat to a pressurised lock. In a vacuum a gauge
// sensor measures absolute pressure, and is to be configured so.
const (
	AmbientMin = 10e3
	AmbientMax = 300e3
)

// Absolute makes an absolute pressure of a gauge pressure and the ambient one, in
// Pa. To forget the ambient pressure loses 0.5 % of a full cylinder's content,
// and a tenth at 10 bar. Errors: ErrNotFinite; ErrOutsideModel where the ambient
// pressure is not between AmbientMin and AmbientMax. What is then below vacuum
// is for the model to refuse.
func Absolute(gauge, ambient float64) (float64, error) {
	if err := finite("gauge pressure", gauge); err != nil {
		return 0, err
	}
	if err := finite("ambient pressure", ambient); err != nil {
		return 0, err
	}
	if ambient < AmbientMin || ambient > AmbientMax {
		return 0, fmt.Errorf("ambient pressure %g Pa is not between %g and %g: %w", ambient, AmbientMin, AmbientMax, ErrOutsideModel)
	}
	return gauge + ambient, nil
}

// finite refuses NaN and infinities.
func finite(what string, x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%s %g: %w", what, x, ErrNotFinite)
	}
	return nil
}

// outsideModel makes an error of ours of one of the equation of state's.
func outsideModel(err error) error {
	if errors.Is(err, oxygen.ErrNotFinite) {
		return fmt.Errorf("%w: %w", ErrNotFinite, err)
	}
	return fmt.Errorf("%w: %w", ErrOutsideModel, err)
}

// volumeMax bounds a vessel's volume in m3: larger is a mistaken unit.
const volumeMax = 1000.0

// massMax bounds a mass in kg: what one event can carry.
const massMax = 1e6

// option is a fault unless x lies from low to high, both inside.
func option(name string, x, low, high float64) error {
	if x >= low && x <= high { // false also for NaN
		return nil
	}
	return fmt.Errorf("%s %g is not between %g and %g", name, x, low, high)
}

// positive is a fault unless x lies above 0 and up to high.
func positive(name string, x, high float64) error {
	if x > 0 && x <= high {
		return nil
	}
	return fmt.Errorf("%s %g is not above 0 and up to %g", name, x, high)
}

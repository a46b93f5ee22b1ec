package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"

	"periph.io/x/conn/v3/physic"
)

// calibrationSlack is how far beyond empty or full a calibrated value may lie
// and still be taken for empty or full: this part of the full tank. It covers
// the transducer's error (0.25 % to 1 % of full scale) and its drift.
const calibrationSlack = 0.02

// Point is one line of a calibration: at these volts the tank held this mass.
type Point struct {
	Volts     physic.ElectricPotential
	Remaining physic.Mass
}

// Linear is a two-point calibration from volts to remaining mass. Volts outside
// the sensor's valid electrical range are a fault and never a mass: a wire that
// came off reads 0 V, and that is not an empty tank.
type Linear struct {
	a, b     Point // a.Volts < b.Volts
	min, max physic.ElectricPotential
	full     physic.Mass
	bounded  bool // full is the tank's capacity, and more than that is a fault
}

// NewLinear makes a calibration of two points. Volts from voltsMin to voltsMax
// are valid; both points must lie within, and voltsMin above 0 V, which is what a
// wire that came off reads. capacity is the mass of the full tank; 0 means that it
// is unknown, and then only voltsMax bounds a mass above.
//
// A sensor whose volts fall while the mass rises is as welcome as the other
// kind. Points with equal volts or equal mass are refused. The error lists all
// that is wrong.
func NewLinear(p, q Point, voltsMin, voltsMax physic.ElectricPotential, capacity physic.Mass) (Linear, error) {
	if p.Volts > q.Volts {
		p, q = q, p
	}
	l := Linear{a: p, b: q, min: voltsMin, max: voltsMax, full: capacity, bounded: capacity > 0}
	if !l.bounded {
		l.full = max(p.Remaining, q.Remaining)
	}
	if err := errors.Join(l.faults(capacity)...); err != nil {
		return Linear{}, err
	}
	return l, nil
}

// faults lists all that is wrong with the calibration.
func (l Linear) faults(capacity physic.Mass) (errs []error) {
	if l.a.Volts == l.b.Volts {
		errs = append(errs, fmt.Errorf("calibration points have the same voltage %s", l.a.Volts))
	}
	if l.a.Remaining == l.b.Remaining {
		errs = append(errs, fmt.Errorf("calibration points have the same mass %s", l.a.Remaining))
	}
	if l.min <= 0 {
		errs = append(errs, fmt.Errorf("valid voltage range begins at %s: it must begin above 0 V, which a wire that came off reads", l.min))
	}
	if l.min >= l.max {
		errs = append(errs, fmt.Errorf("valid voltage range is empty: minimum %s, maximum %s", l.min, l.max))
	} else if l.a.Volts < l.min || l.b.Volts > l.max {
		errs = append(errs, fmt.Errorf("calibration points %s and %s do not both lie in the valid range %s to %s",
			l.a.Volts, l.b.Volts, l.min, l.max))
	}
	least, most := min(l.a.Remaining, l.b.Remaining), max(l.a.Remaining, l.b.Remaining)
	if least < 0 || most > maxRemaining || capacity < 0 || capacity > maxRemaining {
		errs = append(errs, fmt.Errorf("calibration masses %s and %s or capacity %s are not between 0 and %s",
			least, most, capacity, maxRemaining))
	} else if l.bounded && most > capacity {
		errs = append(errs, fmt.Errorf("calibration point %s exceeds the capacity %s", most, capacity))
	}
	return errs
}

// Mass converts volts to the remaining mass, rounded to a milligram.
//
// A result below empty or above the capacity by at most calibrationSlack of the
// full tank is taken for empty or full; further out it is a Fault
// (ReasonUnderRange, ReasonOverRange), as are volts outside the valid range
// (ReasonRangeLow, ReasonRangeHigh).
//
// The line is computed in float64: every step is monotone, so the whole is, and
// its error (some 2⁻⁵⁰ of the mass) is far under the milligram.
func (l Linear) Mass(v physic.ElectricPotential) (physic.Mass, error) {
	if v < l.min {
		return 0, &Fault{Reason: ReasonRangeLow, Detail: fmt.Sprintf("%s is below the valid %s: wire off, or shorted to ground?", v, l.min)}
	}
	if v > l.max {
		return 0, &Fault{Reason: ReasonRangeHigh, Detail: fmt.Sprintf("%s is above the valid %s: shorted to supply, or ground wire off?", v, l.max)}
	}
	va, vb := float64(l.a.Volts), float64(l.b.Volts)
	ma, mb := float64(l.a.Remaining), float64(l.b.Remaining)
	mass := ma + (float64(v)-va)/(vb-va)*(mb-ma)

	slack := calibrationSlack * float64(l.full)
	full, limit := float64(l.full), float64(l.full)+slack
	if !l.bounded {
		full, limit = float64(maxRemaining), float64(maxRemaining)
	}
	if !(mass >= -slack) { // also what is not a number, as of the zero Linear
		return 0, &Fault{Reason: ReasonUnderRange, Detail: fmt.Sprintf("%s means %.4g g: check the calibration", v, mass/float64(physic.Gram))}
	}
	if mass > limit {
		return 0, &Fault{Reason: ReasonOverRange, Detail: fmt.Sprintf("%s means %.4g g, full is %.4g g: check calibration and capacity",
			v, mass/float64(physic.Gram), full/float64(physic.Gram))}
	}
	return roundMass(min(max(mass, 0), full)), nil
}

// roundMass rounds nanograms to a whole number of milligrams.
func roundMass(ng float64) physic.Mass {
	return physic.Mass(math.Round(ng/float64(physic.MilliGram))) * physic.MilliGram
}

// sampler is a converter's input as a gauge reads it.
type sampler interface {
	Read(ctx context.Context) (Sample, error)
}

// gauge is a Probe: a converter's input with its calibration behind it.
type gauge struct {
	input       sampler
	calibration Linear
}

// Read measures once. The raw code and the volts stay with the mass, also where
// the mass was taken for empty or full.
func (g gauge) Read(ctx context.Context) (Reading, error) {
	s, err := g.input.Read(ctx)
	if err != nil {
		return Reading{}, err
	}
	mass, err := g.calibration.Mass(s.Volts)
	if err != nil {
		return Reading{}, err
	}
	return Reading{Remaining: mass, Raw: s.Raw, Volts: s.Volts}, nil
}

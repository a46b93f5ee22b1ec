package sensors

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ScaleSlack is how far beyond its ends a scale of three or more points is still
// followed, and how far below zero or beyond full a quantity is taken for zero or
// full: this part of the scale's span. It covers a transducer's error (0.25 % to 1 %
// of full scale) and its drift.
const ScaleSlack = 0.02

// loopSlack is ScaleSlack of a 4-20 mA loop, which measures from 3.8 mA to 20.5 mA
// (NAMUR NE 43): 3.1 % beyond its span.
const loopSlack = 0.04

// ScalePoint is one line of a calibration: where the sensor stood, and the quantity
// that was there, in SI units.
type ScalePoint struct {
	At float64 // volts, part of the span, counts
	Is float64 // pascals, metres, kilograms, kelvins, …
}

// Scale turns where a sensor stands into a quantity, by straight lines between
// points. Beyond the ends two points are the line that they are, for a calibration
// seldom reaches the ends of a range, and what bounds it is electrical. A table is
// followed for ScaleSlack of its span and no further: it is bent for a reason.
type Scale struct {
	points []ScalePoint // At rises strictly, Is rises or falls strictly
	slack  float64      // in At; negative: none is needed, there are two points
}

// NewScale makes a scale of two or more points in any order. The error lists all
// that is wrong: a quantity must be had from one place alone, so At and Is must
// both be strictly monotone.
func NewScale(points []ScalePoint) (Scale, error) {
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b ScalePoint) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	if len(p) < 2 {
		return Scale{}, fmt.Errorf("calibration has %d points, two are the least", len(p))
	}
	var errs []error
	rises := p[1].Is > p[0].Is
	for i, a := range p {
		if math.IsNaN(a.At+a.Is) || math.IsInf(a.At+a.Is, 0) {
			errs = append(errs, fmt.Errorf("calibration point %v is not a number", a))
		}
		if i == 0 {
			continue
		}
		b := p[i-1]
		switch {
		case a.At == b.At:
			errs = append(errs, fmt.Errorf("two calibration points at %.6g", a.At))
		case a.Is == b.Is || a.Is > b.Is != rises:
			errs = append(errs, fmt.Errorf("calibration is neither rising nor falling throughout: %.6g at %.6g after %.6g at %.6g", a.Is, a.At, b.Is, b.At))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Scale{}, err
	}
	s := Scale{points: p, slack: -1}
	if len(p) > 2 {
		s.slack = ScaleSlack * (p[len(p)-1].At - p[0].At)
	}
	return s, nil
}

// Ends gives the quantities at the lowest and the highest place, the lesser first.
func (s Scale) Ends() (least, most float64) {
	a, b := s.points[0].Is, s.points[len(s.points)-1].Is
	return min(a, b), max(a, b)
}

// Of gives the quantity at a place, or a *Fault: beyond the ends of a table, or where
// the result is no number.
func (s Scale) Of(at float64) (float64, error) {
	first, last := s.points[0], s.points[len(s.points)-1]
	if s.slack >= 0 && at < first.At-s.slack {
		return 0, &Fault{Reason: ReasonUnderRange, Detail: fmt.Sprintf("%.6g is below the calibration, which begins at %.6g", at, first.At)}
	}
	if s.slack >= 0 && at > last.At+s.slack {
		return 0, &Fault{Reason: ReasonOverRange, Detail: fmt.Sprintf("%.6g is above the calibration, which ends at %.6g", at, last.At)}
	}
	q := s.line(at)
	if math.IsNaN(q) || math.IsInf(q, 0) {
		return 0, &Fault{Reason: ReasonNotFinite, Detail: fmt.Sprintf("calibration gives %v at %v", q, at)}
	}
	return q, nil
}

// line is the straight line at a place; beyond the ends that of the points there.
func (s Scale) line(at float64) float64 {
	i := 1
	for i < len(s.points)-1 && at > s.points[i].At {
		i++
	}
	a, b := s.points[i-1], s.points[i]
	return a.Is + (at-a.At)/(b.At-a.At)*(b.Is-a.Is)
}

package vessel

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of a table.
const (
	tableRowsMax  = 4096 // a strapping table by the millimetre of a tall tank
	tableValueMax = 1e15 // of a number's magnitude: no quantity in SI comes near
	tableSlackMax = 0.1  // more of it would be extrapolation
)

// Point is a row of a table: at X the quantity is Y. The units are the user's.
type Point struct{ X, Y float64 }

// TableOptions say how a table is read.
type TableOptions struct {
	// Slack is how far X may lie beyond either end, as a part of the table's span
	// in X, and be taken for that end.
	Slack  float64
	Smooth bool // a monotone cubic through the rows instead of straight lines
}

// Table interpolates one quantity by another. It is monotone, goes through every
// row, and never beyond its ends. The zero Table refuses everything.
type Table struct {
	rows   []Point   // X rising
	slopes []float64 // dY/dX at each row, of a smooth table; else nil
	slack  float64   // in units of X
}

// NewTable makes a table of two rows or more. X must rise from row to row, or fall;
// Y must not turn round, and not be the same all through. The error lists all that is
// wrong.
func NewTable(rows []Point, o TableOptions) (Table, error) {
	rows = slices.Clone(rows)
	if len(rows) > 1 && rows[0].X > rows[len(rows)-1].X {
		slices.Reverse(rows)
	}
	if err := errors.Join(option("slack", o.Slack, 0, tableSlackMax), rowFaults(rows)); err != nil {
		return Table{}, err
	}
	t := Table{rows: rows, slack: o.Slack * (rows[len(rows)-1].X - rows[0].X)}
	if o.Smooth {
		t.slopes = slopes(rows)
		if !slices.ContainsFunc(t.slopes, func(m float64) bool { return finite("slope", m) != nil }) {
			return t, nil
		}
		return Table{}, errors.New("rows are too close together for a smooth table")
	}
	return t, nil
}

// NewLine makes the table of the straight line through two points from X = low to X =
// high, where they need not lie: a transducer calibrated at two pressures, and its
// electrical span. slack is as in TableOptions. The error lists all that is wrong.
func NewLine(p, q Point, low, high, slack float64) (Table, error) {
	_, err := NewTable([]Point{p, q}, TableOptions{Slack: slack})
	if !(low < high) {
		err = errors.Join(err, fmt.Errorf("the line's range from %g to %g is empty", low, high))
	}
	if err != nil {
		return Table{}, err
	}
	at := func(x float64) Point { return Point{X: x, Y: p.Y + (x-p.X)/(q.X-p.X)*(q.Y-p.Y)} }
	return NewTable([]Point{at(low), at(high)}, TableOptions{Slack: slack})
}

// rowFaults lists all that is wrong with rows; X rises, as far as its ends tell.
func rowFaults(rows []Point) error {
	n := len(rows)
	if n < 2 || n > tableRowsMax {
		return fmt.Errorf("%d rows: not between 2 and %d", n, tableRowsMax)
	}
	var errs []error
	up := rows[n-1].Y > rows[0].Y
	if rows[n-1].Y == rows[0].Y {
		errs = append(errs, fmt.Errorf("the quantity is %g at both ends", rows[0].Y))
	}
	for i, p := range rows {
		if !(math.Abs(p.X) <= tableValueMax && math.Abs(p.Y) <= tableValueMax) {
			errs = append(errs, fmt.Errorf("row (%g, %g): not finite, or absurdly large", p.X, p.Y))
			continue
		}
		if i == 0 {
			continue
		}
		before := rows[i-1]
		if p.X <= before.X {
			errs = append(errs, fmt.Errorf("rows (%g, %g) and (%g, %g): x is not strictly monotone", before.X, before.Y, p.X, p.Y))
		}
		if p.Y != before.Y && (p.Y > before.Y) != up {
			errs = append(errs, fmt.Errorf("rows (%g, %g) and (%g, %g): the quantity turns round", before.X, before.Y, p.X, p.Y))
		}
	}
	return errors.Join(errs...)
}

// At is the quantity at x. Beyond an end by at most the slack it is that end's;
// further out the error is ErrUnderRange where the quantity would be less than the
// table's least, and ErrOverRange where it would be more than its most, also where it falls
// with x. ErrNotFinite for what is no finite number.
func (t Table) At(x float64) (float64, error) {
	if err := finite("value", x); err != nil {
		return 0, err
	}
	if len(t.rows) == 0 {
		return 0, errNotMade
	}
	first, last := t.rows[0], t.rows[len(t.rows)-1]
	if below := x < first.X-t.slack; below || x > last.X+t.slack {
		kind := ErrOverRange
		if below == (first.Y < last.Y) {
			kind = ErrUnderRange
		}
		return 0, fmt.Errorf("%g is not in the table's %g to %g: %w", x, first.X, last.X, kind)
	}
	return t.between(min(max(x, first.X), last.X)), nil
}

// between interpolates at an x within the table.
func (t Table) between(x float64) float64 {
	i, exact := slices.BinarySearchFunc(t.rows, x, func(p Point, x float64) int {
		switch {
		case p.X < x:
			return -1
		case p.X > x:
			return 1
		}
		return 0
	})
	if exact {
		return t.rows[i].Y
	}
	a, b := t.rows[i-1], t.rows[i]
	width := b.X - a.X
	s := (x - a.X) / width
	if t.slopes == nil {
		return a.Y + s*(b.Y-a.Y)
	}
	// Hermite's cubic; the bound takes its rounding at flat places.
	r := 1 - s
	y := a.Y + (b.Y-a.Y)*s*s*(3-2*s) + width*s*r*(r*t.slopes[i-1]-s*t.slopes[i])
	return min(max(y, min(a.Y, b.Y)), max(a.Y, b.Y))
}

// slopes gives the slope at each row so that the cubic between rows is monotone:
// F. N. Fritsch and J. Butland, SIAM J. Sci. Stat. Comput. 5 (1984) 300. Inside it is
// the weighted harmonic mean of the two neighbouring chords, or 0 where one is flat.
func slopes(rows []Point) []float64 {
	n := len(rows)
	width, chord := make([]float64, n-1), make([]float64, n-1)
	for i := range n - 1 {
		width[i] = rows[i+1].X - rows[i].X
		chord[i] = (rows[i+1].Y - rows[i].Y) / width[i]
	}
	m := make([]float64, n)
	m[0], m[n-1] = chord[0], chord[n-2]
	if n > 2 {
		m[0] = endSlope(width[0], width[1], chord[0], chord[1])
		m[n-1] = endSlope(width[n-2], width[n-3], chord[n-2], chord[n-3])
	}
	for i := 1; i < n-1; i++ {
		if chord[i-1] == 0 || chord[i] == 0 {
			continue
		}
		w1, w2 := 2*width[i]+width[i-1], width[i]+2*width[i-1]
		m[i] = (w1 + w2) / (w1/chord[i-1] + w2/chord[i])
	}
	return m
}

// endSlope is the slope at an end row: that of the parabola through the three
// nearest rows, bounded so that the cubic stays monotone.
func endSlope(width, next, chord, nextChord float64) float64 {
	m := ((2*width+next)*chord - width*nextChord) / (width + next)
	if m*chord <= 0 {
		return 0
	}
	if math.Abs(m) > 3*math.Abs(chord) {
		return 3 * chord
	}
	return m
}

package vessel

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func newTable(t failer, rows []Point, o TableOptions) Table {
	t.Helper()
	table, err := NewTable(rows, o)
	if err != nil {
		t.Fatalf("NewTable(%v): %v", rows, err)
	}
	return table
}

func TestTable(t *testing.T) {
	rising := []Point{{0.5, 0}, {2.5, 100}, {4.5, 250}}
	falling := []Point{{0.5, 250}, {2.5, 100}, {4.5, 0}}
	for _, c := range []struct {
		name  string
		rows  []Point
		x     float64
		want  float64
		fault error
	}{
		{"first row", rising, 0.5, 0, nil},
		{"a row", rising, 2.5, 100, nil},
		{"last row", rising, 4.5, 250, nil},
		{"between", rising, 1.5, 50, nil},
		{"between others", rising, 3.5, 175, nil},
		{"slack below", rising, 0.42, 0, nil},
		{"slack above", rising, 4.58, 250, nil},
		{"below", rising, 0.41, 0, ErrUnderRange},
		{"above", rising, 4.59, 0, ErrOverRange},
		{"falling", falling, 1.5, 175, nil},
		{"below, and more", falling, 0.41, 0, ErrOverRange},
		{"above, and less", falling, 4.59, 0, ErrUnderRange},
		{"no number", rising, math.NaN(), 0, ErrNotFinite},
		{"infinite", rising, math.Inf(-1), 0, ErrNotFinite},
	} {
		backwards := slices.Clone(c.rows)
		slices.Reverse(backwards)
		for _, rows := range [][]Point{c.rows, backwards} {
			got, err := newTable(t, rows, TableOptions{Slack: 0.02}).At(c.x)
			if !errors.Is(err, c.fault) || math.Abs(got-c.want) > 1e-12 {
				t.Errorf("%s: %g, %v, want %g, %v", c.name, got, err, c.want, c.fault)
			}
		}
	}
	if got, err := (Table{}).At(1); !errors.Is(err, ErrOutsideModel) {
		t.Errorf("the zero table: %g, %v", got, err)
	}
}

// Without a slack the table ends where it ends.
func TestTableDoesNotExtrapolate(t *testing.T) {
	for _, smooth := range []bool{false, true} {
		table := newTable(t, []Point{{0, 1}, {1, 2}, {3, 5}}, TableOptions{Smooth: smooth})
		if got, err := table.At(math.Nextafter(0, -1)); !errors.Is(err, ErrUnderRange) || got != 0 {
			t.Errorf("just below: %g, %v", got, err)
		}
		if got, err := table.At(math.Nextafter(3, 4)); !errors.Is(err, ErrOverRange) || got != 0 {
			t.Errorf("just above: %g, %v", got, err)
		}
	}
}

func TestTableFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []Point
		o    TableOptions
		want []string
	}{
		{"none", nil, TableOptions{}, []string{"0 rows"}},
		{"one", []Point{{1, 1}}, TableOptions{Slack: 0.5}, []string{"slack", "1 rows"}},
		{"x twice", []Point{{0, 0}, {1, 1}, {1, 2}}, TableOptions{}, []string{"x is not"}},
		{"x turns round", []Point{{0, 0}, {2, 1}, {1, 2}, {3, 3}}, TableOptions{}, []string{"x is not"}},
		{"y turns round", []Point{{0, 0}, {1, 2}, {2, 1}, {3, 3}}, TableOptions{}, []string{"turns round"}},
		{"flat", []Point{{0, 5}, {1, 5}}, TableOptions{}, []string{"both ends"}},
		{"no numbers", []Point{{0, 0}, {math.NaN(), 1}, {2, math.Inf(1)}}, TableOptions{Slack: math.NaN()}, []string{"slack", "not finite", "not finite"}},
		{"absurd", []Point{{0, 0}, {1e300, 1}}, TableOptions{}, []string{"absurdly large"}},
		{"too close for a cubic", []Point{{0, 0}, {5e-324, 1e15}}, TableOptions{Smooth: true}, []string{"too close"}},
		{"too many", make([]Point, 4097), TableOptions{}, []string{"4097 rows"}},
	} {
		table, err := NewTable(c.rows, c.o)
		checkFaults(t, c.name, err, c.want)
		if _, err := table.At(0); err == nil {
			t.Errorf("%s: the refused table gives a value", c.name)
		}
	}
}

func TestLine(t *testing.T) {
	// Calibrated at 50 and 200 bar, good for 0.5 V to 4.5 V.
	line, err := NewLine(Point{1.3, 50}, Point{3.7, 200}, 0.5, 4.5, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, want float64
		fault   error
	}{
		{1.3, 50, nil}, {3.7, 200, nil}, {0.5, 0, nil}, {4.5, 250, nil}, {2.5, 125, nil}, {4.58, 250, nil},
		{0.41, 0, ErrUnderRange}, {4.59, 0, ErrOverRange},
	} {
		if got, err := line.At(c.x); !errors.Is(err, c.fault) || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("the line at %g: %g, %v, want %g, %v", c.x, got, err, c.want, c.fault)
		}
	}
	_, err = NewLine(Point{1, 5}, Point{1, 5}, 4, 0.5, 0.2)
	checkFaults(t, "no line", err, []string{"slack", "both ends", "x is not", "range"})
	_, err = NewLine(Point{1, 5}, Point{2, 6}, math.NaN(), 1, 0)
	checkFaults(t, "no range", err, []string{"range"})
}

// Straight or smooth, rising or falling: a table goes through its rows, never
// turns round, and never leaves the two rows around x.
func TestTableIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sign := rapid.SampledFrom([]float64{1, -1}).Draw(t, "sign")
		rows := []Point{{rapid.Float64Range(-1e3, 1e3).Draw(t, "x"), rapid.Float64Range(-1e3, 1e3).Draw(t, "y")}}
		for range rapid.IntRange(1, 20).Draw(t, "rows") {
			last := rows[len(rows)-1]
			step := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e4)).Draw(t, "step")
			rows = append(rows, Point{last.X + rapid.Float64Range(1e-3, 1e3).Draw(t, "width"), last.Y + sign*step})
		}
		if rows[0].Y == rows[len(rows)-1].Y {
			rows[len(rows)-1].Y += sign
		}
		table := newTable(t, rows, TableOptions{Smooth: rapid.Bool().Draw(t, "smooth")})
		for i, p := range rows {
			if got, err := table.At(p.X); err != nil || got != p.Y {
				t.Fatalf("row %v: %g, %v", p, got, err)
			}
			if i == 0 {
				continue
			}
			before := rows[i-1]
			y := before.Y
			for k := 1; k < 16; k++ {
				got, err := table.At(before.X + (p.X-before.X)*float64(k)/16)
				// Neighbours may differ by the rounding where the table is all but flat.
				if err != nil || (got-y)*sign < -1e-12*math.Abs(y) || got < min(before.Y, p.Y) || got > max(before.Y, p.Y) {
					t.Fatalf("between %v and %v: %g after %g, %v", before, p, got, y, err)
				}
				y = got
			}
		}
	})
}

package vessel

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWeighed(t *testing.T) {
	w, err := NewWeighed(WeighedOptions{Tare: 62, Purity: 0.995, Reserve: 0.5, Full: 14.4, Slack: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		gross, total float64
		fault        error
	}{
		{"half", 69.2, 7.2 * 0.995, nil},
		{"empty", 62, 0, nil},
		{"a little less", 61.9001, 0, nil},
		{"less", 61.8, 0, ErrUnderRange},
		{"lifted off", 0, 0, ErrUnderRange},
		{"a little more", 76.4999, 14.4 * 0.995, nil},
		{"somebody leans on it", 90, 0, ErrOverRange},
		{"no number", math.NaN(), 0, ErrNotFinite},
		{"infinite", math.Inf(1), 0, ErrNotFinite},
	} {
		got, err := w.Content(c.gross)
		if !errors.Is(err, c.fault) || math.Abs(got.Total-c.total) > 1e-9 || math.Abs(got.Usable-max(c.total-0.5, 0)) > 1e-9 {
			t.Errorf("%s: %+v, %v, want %g kg, %v", c.name, got, err, c.total, c.fault)
		}
	}
	unbounded, err := NewWeighed(WeighedOptions{Tare: 0, Purity: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unbounded.Content(5000); err != nil || got.Total != 5000 {
		t.Errorf("of unknown size: %+v, %v", got, err)
	}
	if got, err := unbounded.Content(1.1e6); !errors.Is(err, ErrOverRange) {
		t.Errorf("more than any vessel: %+v, %v", got, err)
	}
	nan := math.NaN()
	_, err = NewWeighed(WeighedOptions{nan, nan, nan, nan, nan})
	checkFaults(t, "no numbers", err, []string{"tare", "purity", "reserve", "full", "slack"})
	_, err = NewWeighed(WeighedOptions{Tare: -1, Purity: 99.5, Reserve: -1, Full: -1, Slack: -1})
	checkFaults(t, "all wrong", err, []string{"tare", "purity", "reserve", "full", "slack"})
}

func TestWeighedIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tare := rapid.Float64Range(0.1, 1000).Draw(t, "tare")
		w, err := NewWeighed(WeighedOptions{Tare: tare, Purity: rapid.Float64Range(0.2, 1).Draw(t, "purity"), Reserve: rapid.Float64Range(0, 10).Draw(t, "reserve")})
		if err != nil {
			t.Fatal(err)
		}
		gross := tare + rapid.Float64Range(0, 1000).Draw(t, "content")
		a, err1 := w.Content(gross)
		b, err2 := w.Content(gross + rapid.Float64Range(1e-6, 1000).Draw(t, "more"))
		if err1 != nil || err2 != nil || b.Total <= a.Total || b.Usable < a.Usable || a.Usable < 0 {
			t.Fatalf("%+v, %v, then %+v, %v", a, err1, b, err2)
		}
	})
}

// The duration table of an E cylinder: 0.28 L/psi, 2000 psi, of which 200 stay, at
// 2 L/min. Litres are of one density, so that the answer is the same in kg.
func TestFC45TimeRemainingHonoursTheResidual(t *testing.T) {
	const kgPerLitre = 1.3262e-3 // 70 °F, 1 atm
	factor, err := NewLine(Point{0, 0}, Point{1000, 280}, 0, 2200, 0)
	if err != nil {
		t.Fatal(err)
	}
	usable := func(gauge float64) float64 {
		total, err1 := factor.At(gauge)
		residual, err2 := factor.At(200)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return newContent(total*kgPerLitre, residual*kgPerLitre).Usable
	}
	if litres := usable(2000) / kgPerLitre; math.Abs(litres-504) > 1e-9 {
		t.Errorf("usable at 2000 psi: %g L, want 504", litres)
	}
	const flow = 2 * kgPerLitre / 60
	for _, c := range []struct {
		name        string
		gauge, flow float64
		want        time.Duration
		known       bool
	}{
		{"full", 2000, flow, 252 * time.Minute, true},
		{"no flow", 2000, 0, 0, false},
		{"flow backwards", 2000, -flow, 0, false},
		{"at the residual", 200, flow, 0, true},
		{"below the residual", 150, flow, 0, true},
		{"below the residual, no flow", 150, 0, 0, false},
		{"a meter's zero", 2000, flow * 1e-6, 0, false},
		{"no number", 2000, math.NaN(), 0, false},
		{"infinite flow", 2000, math.Inf(1), 0, false},
	} {
		got, known := Remaining(usable(c.gauge), c.flow)
		if known != c.known || (got-c.want).Abs() > time.Millisecond {
			t.Errorf("%s: %s, %t, want %s, %t", c.name, got, known, c.want, c.known)
		}
	}
	for _, unknown := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, known := Remaining(unknown, flow); known || got != 0 {
			t.Errorf("of %g kg: %s, %t, want unknown", unknown, got, known)
		}
	}
}

package signal

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rates runs values through a bound, a second apart.
func rates(r *Rate, values ...float64) (out []Verdict) {
	for i, x := range values {
		out = append(out, r.Check(x, time.Duration(i)*time.Second))
	}
	return out
}

func TestRateSequences(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want []Verdict
	}{
		{"as fast as allowed", []float64{100, 110, 100}, []Verdict{unconfirmed, good, good}},
		{"once too fast", []float64{100, 100, 120, 100}, []Verdict{unconfirmed, good, tooFast, good}},
		{"a refill", []float64{100, 100, 500, 502, 501, 503}, []Verdict{unconfirmed, good, tooFast, tooFast, persisted, good}},
		{"a burst: it goes on falling", []float64{1000, 1000, 900, 800, 690, 570, 560, 560},
			[]Verdict{unconfirmed, good, tooFast, tooFast, persisted, persisted, good, good}},
		{"to and fro", []float64{100, 100, 900, 300, 700, 100}, []Verdict{unconfirmed, good, tooFast, tooFast, tooFast, good}},
		{"up and down", []float64{100, 100, 900, -900, 900, 101}, []Verdict{unconfirmed, good, tooFast, tooFast, tooFast, good}},
		{"glitches in a burst", []float64{1000, 1000, 900, 5000, 700, 600, 500, 490},
			[]Verdict{unconfirmed, good, tooFast, tooFast, tooFast, tooFast, persisted, good}},
		{"the first was wrong", []float64{9999, 100, 101, 100}, []Verdict{unconfirmed, tooFast, good, good}},
		{"the second was wrong", []float64{100, 9999, 101, 100}, []Verdict{unconfirmed, tooFast, good, good}},
	} {
		r := must(NewRate(RateOptions{Max: 9, Slack: 1}))
		if got := rates(r, c.in...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v: got %v, want %v", c.name, c.in, got, c.want)
		}
	}
}

func TestRatePersistFor(t *testing.T) {
	r := must(NewRate(RateOptions{Max: 1, PersistFor: 5 * time.Second}))
	got := rates(r, 0, 0, 100, 100, 100, 100, 100, 100, 100)
	want := []Verdict{unconfirmed, good, tooFast, tooFast, tooFast, tooFast, tooFast, persisted, good}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r.Rejected() != 5 || r.Persisted() != 1 {
		t.Errorf("got %d rejected and %d persisted, want 5 and 1", r.Rejected(), r.Persisted())
	}
}

func TestRateForgetsAfterAGap(t *testing.T) {
	r := must(NewRate(RateOptions{Max: 1, Gap: time.Minute}))
	rates(r, 0, 0)
	if got := r.Check(1000, 61*time.Second); got != tooFast {
		t.Errorf("60 s later: got %v, want %v", got, tooFast)
	}
	if got := r.Check(1000, 122*time.Second); got != unconfirmed {
		t.Errorf("61 s later: got %v, want %v", got, unconfirmed)
	}
}

// Whatever came before, a level that stays is accepted with its third sample at
// the latest, and stays so.
func TestRateAcceptsWhatStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := must(NewRate(RateOptions{Max: 1, Slack: 2}))
		before := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 12).Draw(t, "before")
		rates(r, before...)
		level := rapid.Float64Range(-1e6, 1e6).Draw(t, "level")
		for i := range 8 {
			at := time.Duration(len(before)+i) * time.Second
			v := r.Check(level+rapid.Float64Range(-1, 1).Draw(t, "noise"), at)
			if i >= 2 && v.Grade == Rejected || i >= 3 && v != good {
				t.Fatalf("sample %d of a level that stays: got %v", i+1, v)
			}
		}
	})
}

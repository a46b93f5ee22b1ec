package signal

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// grades runs values through a filter, a second apart.
func grades(h *Hampel, values ...float64) (out []Verdict) {
	for i, x := range values {
		out = append(out, h.Check(x, time.Duration(i)*time.Second))
	}
	return out
}

func TestHampelFirstReadings(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want []Verdict
	}{
		{"all is well", []float64{100, 101, 100}, []Verdict{unconfirmed, good, good}},
		{"the second is wrong", []float64{100, 900, 101}, []Verdict{unconfirmed, spike, good}},
		{"the first is wrong", []float64{900, 100, 101}, []Verdict{unconfirmed, spike, good}},
		{"the third is wrong", []float64{100, 101, 900, 100}, []Verdict{unconfirmed, good, spike, good}},
		{"three disagree", []float64{500, 9000, 10, 500}, []Verdict{unconfirmed, spike, unconfirmed, good}},
		{"two glitches of four are no majority", []float64{100, 100, 900, 900, 100}, []Verdict{unconfirmed, good, spike, spike, good}},
		{"three of five are", []float64{100, 100, 900, 900, 900}, []Verdict{unconfirmed, good, spike, spike, good}},
	} {
		if got := grades(must(NewHampel(HampelOptions{Floor: 1})), c.in...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v: got %v, want %v", c.name, c.in, got, c.want)
		}
	}
}

// A signal that stands still has no spread of its own: its next step is not an
// outlier, and one beyond the floor still is.
func TestHampelQuietSignal(t *testing.T) {
	h := must(NewHampel(HampelOptions{Floor: 0.1}))
	got := grades(h, 5, 5, 5, 5, 5, 5, 5, 5.1, 5, 5, 5.29, 5, 5, 5.31, 5)
	want := append([]Verdict{unconfirmed}, slices.Repeat([]Verdict{good}, 14)...)
	want[13] = spike
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if h.Rejected() != 1 {
		t.Errorf("got %d rejected, want 1", h.Rejected())
	}
}

// A step is rejected until the new values are the majority of the window, and
// never after, whatever the noise: the bound of the type's comment.
func TestHampelStepIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := 5 + 2*rapid.IntRange(0, 13).Draw(t, "window")
		h := must(NewHampel(HampelOptions{Window: window, Floor: 1}))
		const scale = 1.5 // so that no two differ by more than three times the floor
		wild := rapid.Bool().Draw(t, "wild")
		noise := rapid.Float64Range(-scale, scale)
		if wild {
			noise = rapid.Float64Range(-100*scale, 100*scale)
		}
		at := time.Duration(0)
		check := func(x float64) Verdict {
			at += time.Second
			return h.Check(x, at)
		}
		for range window {
			check(noise.Draw(t, "old"))
		}
		step := rapid.SampledFrom([]float64{-1e6, -500, 500, 1e9}).Draw(t, "step")
		for i := 1; i <= window; i++ {
			v := check(step + noise.Draw(t, "new"))
			switch {
			case wild && i != window/2+1: // may be an outlier of its own
			case i <= window/2 && v != spike:
				t.Fatalf("value %d of a step with window %d: got %v, want a spike", i, window, v)
			case i > window/2 && v != good:
				t.Fatalf("value %d of a step with window %d: got %v, want good", i, window, v)
			}
		}
	})
}

// Good values that come between glitches that are a minority are never rejected
// and the glitches always are.
func TestHampelMinorityOfGlitches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := must(NewHampel(HampelOptions{Floor: 1}))
		grades(h, 100, 100.5, 99.5, 100, 101, 100, 99)
		lately := 0 // bits: which of the last values were glitches
		for i := range 60 {
			at := time.Duration(10+i) * time.Second
			x := rapid.Float64Range(98.6, 101.4).Draw(t, "value")
			glitch := lately&0b111111 == 0 && rapid.Bool().Draw(t, "glitch")
			if glitch {
				x = rapid.SampledFrom([]float64{-1e6, 0, 150, 8388607}).Draw(t, "glitch value")
			}
			lately <<= 1
			if glitch {
				lately |= 1
			}
			if got := h.Check(x, at) == spike; got != glitch {
				t.Fatalf("%g: rejected %v, want %v", x, got, glitch)
			}
		}
	})
}

func TestHampelForgetsAfterAGap(t *testing.T) {
	h := must(NewHampel(HampelOptions{Floor: 1, Gap: time.Minute}))
	grades(h, 100, 100, 100, 100, 100, 100, 100)
	if got := h.Check(500, 66*time.Second); got != spike {
		t.Errorf("60 s later: got %v, want %v", got, spike)
	}
	if got := h.Check(500, 127*time.Second); got != unconfirmed {
		t.Errorf("61 s later: got %v, want %v", got, unconfirmed)
	}
	if got := h.Check(500, 128*time.Second); got != good {
		t.Errorf("the next: got %v, want %v", got, good)
	}
}

// The filter against one that sorts anew for each value.
func TestHampelAgainstPlainSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window, floor = 7, 0.5
		h := must(NewHampel(HampelOptions{Window: window, Floor: floor}))
		var all []float64
		for i := range rapid.IntRange(8, 60).Draw(t, "n") {
			x := rapid.SampledFrom([]float64{0, 1, 1, 2, 3, 5, 8, 40, -7}).Draw(t, "x")
			all = append(all, x)
			got := h.Check(x, time.Duration(i)*time.Second)
			if len(all) < window {
				continue
			}
			last := all[len(all)-window:]
			median := plainMedian(last)
			var dist []float64
			for _, y := range last {
				dist = append(dist, math.Abs(y-median))
			}
			want := good
			if math.Abs(x-median) > 3*max(1.4826*plainMedian(dist), floor) {
				want = spike
			}
			if got != want {
				t.Fatalf("%v: got %v, want %v", last, got, want)
			}
		}
	})
}

func plainMedian(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}

package sensors

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

func readSimulated(t rapid.TB, s *Simulated) physic.Mass {
	t.Helper()
	r, err := s.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r.Remaining
}

func TestSimulatedSawtooth(t *testing.T) {
	clock := newVirtual()
	s, err := NewSimulated(SimulatedOptions{
		Capacity: 1000 * physic.Gram, Start: 850 * physic.Gram, PerHour: 100 * physic.Gram,
		RefillAt: 200 * physic.Gram, RefillTo: 900 * physic.Gram, Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	began := clock.Now()
	for _, tt := range []struct {
		after time.Duration
		want  physic.Mass
	}{
		{0, 850 * physic.Gram},
		{999 * time.Millisecond, 850 * physic.Gram}, // within the first step
		{time.Second, 849_972 * physic.MilliGram},
		{time.Hour, 750 * physic.Gram},
		{6*time.Hour + 29*time.Minute, 201_667 * physic.MilliGram},
		{6*time.Hour + 30*time.Minute, 900 * physic.Gram}, // refilled
		{13 * time.Hour, 250 * physic.Gram},
		{13*time.Hour + 30*time.Minute, 900 * physic.Gram}, // again
		{6*time.Hour + 30*time.Minute + 7000*time.Hour, 900 * physic.Gram},
	} {
		clock.advance(began.Add(tt.after).Sub(clock.Now()))
		if got := readSimulated(t, s); got != tt.want {
			t.Errorf("after %s got %s, want %s", tt.after, got, tt.want)
		}
	}
}

// TestSimulatedIsAFunctionOfTime: the same options give the same tank, however
// often it is read, and no reading leaves the tank's bounds.
func TestSimulatedIsAFunctionOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newVirtual()
		o := SimulatedOptions{
			Capacity: 1000 * physic.Gram, PerHour: 400 * physic.Gram, NoiseSigma: 30 * physic.Gram,
			Seed: rapid.Uint64().Draw(t, "seed"), Now: clock.Now,
		}
		a, err := NewSimulated(o)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := NewSimulated(o)
		for range 20 {
			clock.advance(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "step")))
			if rapid.Bool().Draw(t, "read only one") {
				readSimulated(t, a)
				continue
			}
			got, want := readSimulated(t, b), readSimulated(t, a)
			if got != want || got < 0 || got > o.Capacity || got%physic.MilliGram != 0 {
				t.Fatalf("got %s and %s, want the same within 0 and %s", got, want, o.Capacity)
			}
		}
	})
}

func TestSimulatedNoise(t *testing.T) {
	clock := newVirtual()
	s, err := NewSimulated(SimulatedOptions{
		Capacity: 1000 * physic.Gram, Start: 500 * physic.Gram, NoiseSigma: physic.Gram, Seed: 1, Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	var sum, squares float64
	for range n {
		clock.advance(time.Second)
		d := float64(readSimulated(t, s)-500*physic.Gram) / float64(physic.Gram)
		sum, squares = sum+d, squares+d*d
	}
	if mean, sigma := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.05 || math.Abs(sigma-1) > 0.05 {
		t.Errorf("got mean %.3f g and deviation %.3f g, want 0 and 1", mean, sigma)
	}
}

func TestNewSimulatedRefuses(t *testing.T) {
	for _, tt := range []struct {
		o    SimulatedOptions
		want string
	}{
		{SimulatedOptions{}, "not above zero"},
		{SimulatedOptions{Capacity: 10, Start: 11}, "start"},
		{SimulatedOptions{Capacity: 10, RefillAt: 5, Start: 4}, "start"},
		{SimulatedOptions{Capacity: 10, RefillTo: 11}, "refill"},
		{SimulatedOptions{Capacity: 10, RefillAt: 5, RefillTo: 5}, "refill"},
		{SimulatedOptions{Capacity: 10, RefillAt: -1}, "refill"},
		{SimulatedOptions{Capacity: 10, PerHour: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, NoiseSigma: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, Step: -1}, "negative"},
	} {
		if _, err := NewSimulated(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error with %q", tt.o, err, tt.want)
		}
	}
}

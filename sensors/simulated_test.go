package sensors

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	script := func(e SimulatedEvent) SimulatedOptions {
		return SimulatedOptions{Capacity: 1000, Events: []SimulatedEvent{{Do: SimulatedHang, For: time.Second}, e}}
	}
	for _, tt := range []struct {
		o    SimulatedOptions
		want string
	}{
		{SimulatedOptions{}, "not above zero"},
		{SimulatedOptions{Capacity: 10, Start: 11}, "start"},
		{SimulatedOptions{Capacity: 10, Start: -1, NoRefill: true}, "start"},
		{SimulatedOptions{Capacity: 10, RefillAt: 5, Start: 4}, "start"},
		{SimulatedOptions{Capacity: 10, RefillTo: 11}, "refill"},
		{SimulatedOptions{Capacity: 10, RefillAt: 5, RefillTo: 5}, "refill"},
		{SimulatedOptions{Capacity: 10, RefillAt: -1}, "refill"},
		{SimulatedOptions{Capacity: 10, PerHour: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, AsleepFor: 1, AsleepPerHour: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, NoiseSigma: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, Step: -1}, "negative"},
		{SimulatedOptions{Capacity: 10, LSB: 11}, "LSB"},
		{SimulatedOptions{Capacity: 10, LSB: -1}, "LSB"},
		{SimulatedOptions{Capacity: 10, AsleepFor: 25 * time.Hour}, "day"},
		{SimulatedOptions{Capacity: 10, AsleepFor: 2, AsleepAfter: 24*time.Hour - 1}, "day"},
		{SimulatedOptions{Capacity: 10, AsleepAfter: math.MaxInt64, AsleepFor: math.MaxInt64}, "day"},
		{SimulatedOptions{Capacity: 10, Day: -1}, "day"},
		{SimulatedOptions{Capacity: 10, AsleepPerHour: 1}, "no time"},
		{SimulatedOptions{Capacity: 10, Events: make([]SimulatedEvent, MaxSimulatedEvents+1)}, "65 events, more than 64"},

		{script(SimulatedEvent{}), `no kind of event ""`},
		{script(SimulatedEvent{Do: "explode"}), `no kind of event "explode"`},
		{script(SimulatedEvent{Do: SimulatedLeak}), "rate 0g is not above zero"},
		{script(SimulatedEvent{Do: SimulatedLeak, Rate: 1, By: 1}), "takes no amount"},
		{script(SimulatedEvent{Do: SimulatedLeak, Rate: 1, Sigma: 1}), "takes no sigma"},
		{script(SimulatedEvent{Do: SimulatedLeak, Rate: 1, To: 1}), "takes no level"},
		{script(SimulatedEvent{Do: SimulatedLeak, Rate: 1, Reason: ReasonOpen}), "takes no reason"},
		{script(SimulatedEvent{Do: SimulatedLeak, Rate: maxRemaining + 1}), "more than"},
		{script(SimulatedEvent{Do: SimulatedBurst, By: -1}), "amount"},
		{script(SimulatedEvent{Do: SimulatedBurst, By: 1, Rate: 1}), "takes no rate"},
		{script(SimulatedEvent{Do: SimulatedRefill, To: 1001}), "level"},
		{script(SimulatedEvent{Do: SimulatedRefill, To: -1}), "level"},
		{script(SimulatedEvent{Do: SimulatedDrift}), "rate is zero"},
		{script(SimulatedEvent{Do: SimulatedDrift, Rate: math.MinInt64}), "more than"},
		{script(SimulatedEvent{Do: SimulatedSpike}), "amount is zero"},
		{script(SimulatedEvent{Do: SimulatedNoise}), "sigma 0g is not above zero"},
		{script(SimulatedEvent{Do: SimulatedCooling, By: 1}), "no time constant"},
		{script(SimulatedEvent{Do: SimulatedFault}), "no reason"},
		{script(SimulatedEvent{Do: SimulatedFault, Reason: "tired"}), `no reason "tired"`},
		{script(SimulatedEvent{Do: SimulatedRemove, Reason: "tired"}), `no reason "tired"`},
		{script(SimulatedEvent{Do: SimulatedHang, At: -1}), "time -1ns"},
		{script(SimulatedEvent{Do: SimulatedHang, For: -time.Second}), "time -1s"},
		{script(SimulatedEvent{Do: SimulatedHang, At: math.MaxInt64}), "time 2562047h"},
		{script(SimulatedEvent{Do: SimulatedHang, Every: time.Minute}), "for ever"},
		{script(SimulatedEvent{Do: SimulatedHang, For: 2 * time.Minute, Every: time.Minute}), "longer than the 1m0s"},
		{script(SimulatedEvent{Do: SimulatedHang, For: time.Second - 1}), "less than the step"},
		{script(SimulatedEvent{Do: SimulatedSpike, By: 1, Every: time.Second - 1}), "less than the step"},
	} {
		if _, err := NewSimulated(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error with %q", tt.o, err, tt.want)
		}
	}
}

// TestNewSimulatedListsAll: one run tells everything, each event by its number.
func TestNewSimulatedListsAll(t *testing.T) {
	_, err := NewSimulated(SimulatedOptions{Capacity: 10, Start: 11, PerHour: -1, Events: []SimulatedEvent{
		{At: time.Hour, Do: SimulatedLeak, To: 1},
		{Do: SimulatedVanish, For: time.Minute},
		{Do: SimulatedFault, At: -1},
	}})
	want := []string{
		"simulated start 11ng is not between the refill at 0g and the capacity 10ng",
		"simulated consumption, noise and step cannot be negative",
		"simulated event 1 (leak at 1h0m0s): rate 0g is not above zero",
		"simulated event 1 (leak at 1h0m0s): takes no level",
		"simulated event 3 (fault at -1ns): has no reason",
		"simulated event 3 (fault at -1ns): time -1ns is not between zero and 438000h0m0s",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got:\n%v\nwant:\n%s", err, strings.Join(want, "\n"))
	}
}

// TestSimulatedLeavesTheScriptAlone: the caller's events stay as they are, and later
// changes of them change no tank.
func TestSimulatedLeavesTheScriptAlone(t *testing.T) {
	events := []SimulatedEvent{{Do: SimulatedRefill}, {At: 3 * time.Second, Do: SimulatedSpike, By: physic.Gram}}
	kept := append([]SimulatedEvent(nil), events...)
	s, clock := scripted(t, SimulatedOptions{}, events...)
	if diff := cmp.Diff(kept, events); diff != "" {
		t.Error(diff)
	}
	events[0], events[1] = SimulatedEvent{Do: SimulatedHang}, SimulatedEvent{Do: SimulatedHang}
	if diff := cmp.Diff([]string{"1000", "1000"}, each(s, clock, time.Second, 2)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkSimulatedRead is one read of a long script after ten years.
func BenchmarkSimulatedRead(b *testing.B) {
	for name, n := range map[string]int{"plain": 0, "rehearsal": 3, "longest": MaxSimulatedEvents} {
		b.Run(name, func(b *testing.B) {
			o, clock := rehearsal(), newVirtual()
			o.Now = clock.Now
			for i := range n - len(o.Events) {
				o.Events = append(o.Events, SimulatedEvent{At: time.Duration(i) * time.Minute, For: 30 * time.Second, Every: 2 * time.Hour,
					Do: SimulatedLeak, Rate: physic.Gram})
			}
			o.Events = o.Events[:n]
			s, err := NewSimulated(o)
			if err != nil {
				b.Fatal(err)
			}
			clock.advance(10 * 365 * 24 * time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				clock.advance(time.Second)
				if _, err := s.Read(b.Context()); err != nil {
					clock.advance(5 * time.Minute)
				}
			}
		})
	}
}

// BenchmarkNewSimulated works out the longest course that is taken.
func BenchmarkNewSimulated(b *testing.B) {
	o := SimulatedOptions{Capacity: physic.KiloGram}
	for i := range MaxSimulatedEvents {
		o.Events = append(o.Events, SimulatedEvent{At: time.Duration(i) * time.Minute, For: 30 * time.Second, Every: 2 * time.Hour,
			Do: SimulatedLeak, Rate: physic.Gram})
	}
	o.Events[0].Every = 62 * time.Hour
	for b.Loop() {
		if _, err := NewSimulated(o); err != nil {
			b.Fatal(err)
		}
	}
}

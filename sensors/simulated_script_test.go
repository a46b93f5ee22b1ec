package sensors

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

// scripted makes a tank of 1000 g that, unless o says otherwise, is half full and
// loses nothing by itself.
func scripted(t rapid.TB, o SimulatedOptions, events ...SimulatedEvent) (*Simulated, *virtual) {
	t.Helper()
	clock := newVirtual()
	o.Capacity, o.Now, o.Events = physic.KiloGram, clock.Now, events
	if o.Start == 0 {
		o.Start = 500 * physic.Gram
	}
	s, err := NewSimulated(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, clock
}

// tells is what a read tells: grams, or the reason for none, and what a failed read
// must not have, a number.
func tells(s *Simulated) string {
	r, err := s.Read(context.Background()) // which a hang does not wait for
	switch {
	case err == nil:
		return strconv.FormatFloat(math.Round(r.Value*1e6)/1e3, 'f', -1, 64)
	case r != Reading{}:
		return fmt.Sprintf("%v beside %v", r, err)
	}
	return string(asFault(err).Reason)
}

// each is n reads, every so often.
func each(s *Simulated, clock *virtual, every time.Duration, n int) (told []string) {
	for range n {
		told = append(told, tells(s))
		clock.advance(every)
	}
	return told
}

// TestSimulatedScript: what each kind does to readings a second apart. The field cases
// are those that a rehearsal must be able to stage.
func TestSimulatedScript(t *testing.T) {
	const g, s = physic.Gram, time.Second
	for _, tt := range []struct {
		name   string
		o      SimulatedOptions
		events []SimulatedEvent
		want   string
	}{
		{"FC-54: fails on read 3 of 5", SimulatedOptions{}, []SimulatedEvent{{At: 2 * s, For: s, Do: SimulatedFault, Reason: ReasonBus}},
			"500 500 bus 500 500"},
		{"FC-57: one outlier up", SimulatedOptions{}, []SimulatedEvent{{At: 2 * s, Do: SimulatedSpike, By: 300 * g}}, "500 500 800 500 500"},
		{"FC-57: one beyond the tank", SimulatedOptions{}, []SimulatedEvent{{At: 2 * s, Do: SimulatedSpike, By: -9999 * g}, {At: 3 * s, Do: SimulatedSpike, By: 9999 * g}},
			"500 500 0 1000 500"},
		{"an outlier between two steps shows in the next", SimulatedOptions{}, []SimulatedEvent{{At: s + 1, Do: SimulatedSpike, By: g}}, "500 500 501 500"},
		{"one that lasts, again and again", SimulatedOptions{}, []SimulatedEvent{{At: s, For: 2 * s, Every: 3 * s, Do: SimulatedSpike, By: g}},
			"500 501 501 500 501 501 500"},
		{"FC-62: not finite is no number", SimulatedOptions{}, []SimulatedEvent{{At: s, For: s, Do: SimulatedFault, Reason: ReasonNotFinite}}, "500 not_finite 500"},
		{"FC-66: a fault while it is low, then filled", SimulatedOptions{Start: 80 * g}, []SimulatedEvent{
			{At: s, For: 2 * s, Do: SimulatedFault, Reason: ReasonOpen}, {At: 4 * s, Do: SimulatedRefill, To: 600 * g}}, "80 open open 80 600 600"},
		{"FC-68: reads that fail do not give the old value", SimulatedOptions{}, []SimulatedEvent{
			{At: s, Do: SimulatedStick}, {At: 2 * s, For: s, Do: SimulatedVanish}}, "500 500 nack 500"},
		{"FC-68: stuck while it flows", SimulatedOptions{PerHour: 3600 * g}, []SimulatedEvent{{At: 2 * s, For: 3 * s, Do: SimulatedStick}},
			"500 499 498 498 498 495 494"},
		{"stuck with the noise of its first step", SimulatedOptions{NoiseSigma: g, Seed: 4}, []SimulatedEvent{{At: s, For: 2 * s, Do: SimulatedStick}},
			"500.557 500.276 500.276 499.279"},
		{"of two that stick the first", SimulatedOptions{PerHour: 3600 * g}, []SimulatedEvent{
			{At: 3 * s, For: 2 * s, Do: SimulatedStick}, {At: s, For: 3 * s, Do: SimulatedStick}}, "500 499 499 499 497 495"},
		{"FC-40: a refill at once", SimulatedOptions{PerHour: 3600 * g}, []SimulatedEvent{{At: 2 * s, Do: SimulatedRefill, To: 900 * g}}, "500 499 900 899"},
		{"a refill over a while", SimulatedOptions{PerHour: 3600 * g}, []SimulatedEvent{{At: s, For: 4 * s, Do: SimulatedRefill, To: 899 * g}},
			"500 499 599 699 799 899 898"},
		{"a leak beside the crew", SimulatedOptions{PerHour: 3600 * g}, []SimulatedEvent{{At: s, For: 2 * s, Do: SimulatedLeak, Rate: 7200 * g}},
			"500 499 496 493 492"},
		{"a burst over a while", SimulatedOptions{}, []SimulatedEvent{{At: s, For: 2 * s, Do: SimulatedBurst, By: 100 * g}}, "500 500 450 400 400"},
		{"off: empty", SimulatedOptions{}, []SimulatedEvent{{At: s, For: 2 * s, Do: SimulatedRemove}}, "500 0 0 500"},
		{"off: a fault", SimulatedOptions{}, []SimulatedEvent{{At: s, For: 2 * s, Do: SimulatedRemove, Reason: ReasonUnderRange}},
			"500 under_range under_range 500"},
		{"gone for ever", SimulatedOptions{}, []SimulatedEvent{{At: s, Do: SimulatedVanish}}, "500 nack nack"},
		{"hangs", SimulatedOptions{}, []SimulatedEvent{{At: s, For: s, Do: SimulatedHang}}, "500 timeout 500"},
		{"of several faults the first listed", SimulatedOptions{}, []SimulatedEvent{{At: s, Do: SimulatedVanish}, {Do: SimulatedFault, Reason: ReasonCRC}},
			"crc nack nack"},
		{"drift, and right again", SimulatedOptions{}, []SimulatedEvent{{At: s, For: 3 * s, Do: SimulatedDrift, Rate: -3600 * g}}, "500 500 499 498 500"},
		{"the steps of the measurement", SimulatedOptions{PerHour: 3600 * g, LSB: 2500 * physic.MilliGram}, nil, "500 500 497.5 497.5 495"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, clock := scripted(t, tt.o, tt.events...)
			if got := strings.Join(each(s, clock, time.Second, len(strings.Fields(tt.want))), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestFC43SimulatedFastLeak: a tank that loses 1 % an hour and after a day 20 %.
func TestFC43SimulatedFastLeak(t *testing.T) {
	s, clock := scripted(t, SimulatedOptions{Start: physic.KiloGram, PerHour: 10 * physic.Gram},
		SimulatedEvent{At: 24 * time.Hour, Do: SimulatedLeak, Rate: 190 * physic.Gram})
	clock.advance(24 * time.Hour)
	want := []string{"760", "743.333", "726.667", "710"}
	if diff := cmp.Diff(want, each(s, clock, 5*time.Minute, 4)); diff != "" {
		t.Error(diff)
	}
}

// TestFC44SimulatedCooling: the tank reads low and recovers, and holds what it held.
func TestFC44SimulatedCooling(t *testing.T) {
	cold := SimulatedEvent{At: time.Minute, For: 10 * time.Minute, Do: SimulatedCooling, By: 100 * physic.Gram}
	s, clock := scripted(t, SimulatedOptions{}, cold)
	want := []string{"500", "463.212", "486.466", "495.021", "498.168"} // 100 g less 1/e, 1/e², …
	if got := tells(s); got != want[0] {
		t.Errorf("before got %s g, want %s", got, want[0])
	}
	clock.advance(time.Minute)
	if got := tells(s); got != "400" {
		t.Errorf("at once got %s g, want 400", got)
	}
	clock.advance(10 * time.Minute)
	if diff := cmp.Diff(want[1:], each(s, clock, 10*time.Minute, 4)); diff != "" {
		t.Error(diff)
	}
	if got := s.Truth(s.Elapsed()); got != (SimulatedTruth{Content: 0.5}) {
		t.Errorf("got %+v, want all of it", got)
	}
	cold.Every = 5 * time.Minute // none has recovered when the next one begins
	s, clock = scripted(t, SimulatedOptions{}, cold)
	clock.advance(1000*time.Hour + time.Minute)
	want = []string{strconv.FormatFloat(math.Round(1e3*(500-100/(1-math.Exp(-0.5))))/1e3, 'f', -1, 64)}
	if diff := cmp.Diff(want, each(s, clock, 0, 1)); diff != "" {
		t.Error(diff)
	}
}

// TestFC68SimulatedStuckOrConstant: a stuck code stands for hours while the content
// falls; one that is constant is read anew all the same.
func TestFC68SimulatedStuckOrConstant(t *testing.T) {
	quiet, _ := scripted(t, SimulatedOptions{})
	stuck, clock := scripted(t, SimulatedOptions{PerHour: 36 * physic.Gram, NoiseSigma: physic.Gram, LSB: 100 * physic.MilliGram},
		SimulatedEvent{At: time.Minute, For: 6 * time.Hour, Do: SimulatedStick})
	clock.advance(time.Minute)
	first, err := stuck.Read(t.Context())
	if err != nil || first.Raw == 0 {
		t.Fatalf("got %+v, %v, want a code", first, err)
	}
	for range 360 {
		if got, err := stuck.Read(t.Context()); err != nil || got != first {
			t.Fatalf("got %+v, %v, want %+v", got, err, first)
		}
		if got := tells(quiet); got != "500" {
			t.Fatalf("got %s, want 500", got)
		}
		clock.advance(time.Minute)
	}
	if got, err := stuck.Read(t.Context()); err != nil || got.Raw == first.Raw || first.Remaining-got.Remaining < 200*physic.Gram {
		t.Errorf("got %+v, %v after the end, want 216 g less than %+v", got, err, first)
	}
}

// TestSimulatedNoiseEvent: while it lasts the deviation is Sigma, unless the tank's own
// is greater.
func TestSimulatedNoiseEvent(t *testing.T) {
	s, clock := scripted(t, SimulatedOptions{NoiseSigma: 2 * physic.Gram, Seed: 9},
		SimulatedEvent{At: 10_000 * time.Second, For: 10_000 * time.Second, Do: SimulatedNoise, Sigma: 8 * physic.Gram},
		SimulatedEvent{Do: SimulatedNoise, Sigma: physic.Gram})
	for _, want := range []float64{2, 8, 2} {
		var squares float64
		for range 10_000 {
			d := float64(readSimulated(t, s)-500*physic.Gram) / float64(physic.Gram)
			squares += d * d
			clock.advance(time.Second)
		}
		if got := math.Sqrt(squares / 10_000); math.Abs(got/want-1) > 0.05 {
			t.Errorf("got a deviation of %.3f g, want %.0f", got, want)
		}
	}
}

// TestSimulatedFaults: every reason can be scripted, fails with that word, and gives no
// number.
func TestSimulatedFaults(t *testing.T) {
	for _, reason := range Reasons() {
		s, _ := scripted(t, SimulatedOptions{}, SimulatedEvent{Do: SimulatedFault, Reason: reason})
		if got := tells(s); got != string(reason) {
			t.Errorf("got %s, want %s", got, reason)
		}
	}
}

// TestReasonsAreAll: the list has every reason that the file declares, in its order.
func TestReasonsAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if name, ok := v.Type.(*ast.Ident); ok && name.Name == "Reason" {
				word, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, Reason(word))
			}
		}
		return true
	})
	if diff := cmp.Diff(want, Reasons()); diff != "" {
		t.Errorf("fault.go declares other reasons than Reasons lists:\n%s", diff)
	}
}

// TestSimulatedHang: the read ends with its context and never before; cancelled it is
// no fault of the sensor's.
func TestSimulatedHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := scripted(t, SimulatedOptions{}, SimulatedEvent{Do: SimulatedHang})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Read(ctx)
		if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != ReasonTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a timeout", err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("hung for %s, want 1s", got)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := s.Read(ctx); err != context.Canceled {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

// TestSimulatedThroughThePoller: the states of a channel follow the script and heal.
func TestSimulatedThroughThePoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		var o told
		p, err := Open([]Spec{{Tank: "A", Driver: DriverSimulated, Interval: s, Simulated: SimulatedOptions{Capacity: physic.KiloGram,
			Events: []SimulatedEvent{
				{At: 10 * s, For: s, Do: SimulatedFault, Reason: ReasonCRC}, // one alone changes no state
				{At: 20 * s, For: 5 * s, Do: SimulatedFault, Reason: ReasonCRC},
				{At: 100 * s, For: 20 * s, Do: SimulatedVanish},
				{At: 200 * s, For: 20 * s, Do: SimulatedHang},
			}}}}, OpenOptions{Options: o.options()})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(300*s + s/2)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []string{"A ok:", "A fault:crc", "A ok:", "A missing:nack", "A ok:", "A fault:timeout", "A ok:"}
		if diff := cmp.Diff(want, slices.DeleteFunc(o.states(), func(s string) bool { return strings.HasPrefix(s, "A stale:") })); diff != "" {
			t.Error(diff)
		}
		for _, second := range []int{10, 20, 24, 110, 210} {
			if slices.Contains(o.seconds("A"), second) {
				t.Errorf("a reading in second %d of a fault", second)
			}
		}
	})
}

// measuringEvent draws one of those that do not change the content.
func measuringEvent(t *rapid.T) SimulatedEvent {
	e := SimulatedEvent{
		Do: rapid.SampledFrom([]SimulatedKind{SimulatedCooling, SimulatedDrift, SimulatedSpike, SimulatedStick, SimulatedNoise,
			SimulatedFault, SimulatedHang, SimulatedVanish}).Draw(t, "do"),
		At: ticks(t, "at", 10*time.Hour), For: tick + ticks(t, "for", time.Hour),
		Every: rapid.SampledFrom([]time.Duration{0, 65 * time.Minute, 97 * time.Minute}).Draw(t, "every"),
	}
	amount := masses(physic.MilliGram, physic.KiloGram).Draw(t, "amount")
	switch form, _ := e.Do.form(); {
	case form.by == positive:
		e.By = amount
	case form.by == signed:
		e.By = -amount
	case form.rate != none:
		e.Rate = -amount
	case form.sigma != none:
		e.Sigma = amount
	case form.reason:
		e.Reason = rapid.SampledFrom(Reasons()).Draw(t, "reason")
	}
	return e
}

// TestSimulatedReadsInAnyOrder: a tank that was read all the time tells what one tells
// that is asked now for the first time. Every number lies within the tank, and none
// comes while a fault is on.
func TestSimulatedReadsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := contentScript(t)
		o.NoiseSigma = masses(0, 100*physic.Gram).Draw(t, "noise")
		o.Seed = rapid.Uint64().Draw(t, "seed")
		o.LSB = masses(0, physic.Gram).Draw(t, "lsb")
		for range rapid.IntRange(0, 6).Draw(t, "measuring events") {
			o.Events = append(o.Events, measuringEvent(t))
		}
		clock := newVirtual()
		o.Now = clock.Now
		often, err := NewSimulated(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			late := newVirtual()
			o.Now = late.Now
			fresh, _ := NewSimulated(o)
			clock.advance(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "pause")))
			late.advance(often.Elapsed())
			got, want := tells(often), tells(fresh)
			if got != want {
				t.Fatalf("after %s got %s, want %s", often.Elapsed(), got, want)
			}
			mass, err := strconv.ParseFloat(got, 64)
			if failing(o.Events, often.Elapsed().Truncate(time.Second)) != (err != nil) || err == nil && !(mass >= 0 && mass <= 14_300.002) {
				t.Fatalf("after %s got %s", often.Elapsed(), got)
			}
		}
	})
}

// failing reports whether the script lets a read fail.
func failing(events []SimulatedEvent, now time.Duration) bool {
	return slices.ContainsFunc(events, func(e SimulatedEvent) bool {
		_, on := when(now, e.At, e.For, e.Every)
		return on && (e.Do == SimulatedFault || e.Do == SimulatedHang || e.Do == SimulatedVanish)
	})
}

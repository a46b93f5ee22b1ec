package sensors

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

// tick is the grain of the slow model and of all times in its scripts, so that no
// rate changes within one.
const tick = 5 * time.Minute

// slowTank is the tank once more, slow and obvious: it walks from tick to tick and
// remembers. It knows nothing of laps, periods or turns.
type slowTank struct {
	o SimulatedOptions
	simulatedState
}

func newSlowTank(o SimulatedOptions) *slowTank {
	o.complete()
	return &slowTank{o, simulatedState{content: float64(o.Start)}}
}

// when is how long an occurrence has gone on; ok is false between two.
func when(now, at, lasts, every time.Duration) (since time.Duration, ok bool) {
	if since = now - at; since < 0 {
		return 0, false
	}
	if every > 0 {
		since %= every
	}
	return since, lasts == 0 || since < lasts
}

func (s *slowTank) removed(now time.Duration) bool {
	for _, e := range s.o.Events {
		if _, on := when(now, e.At, e.For, e.Every); on && e.Do == SimulatedRemove {
			return true
		}
	}
	return false
}

// instants does what takes no time.
func (s *slowTank) instants(now time.Duration) {
	for _, kind := range []SimulatedKind{SimulatedBurst, SimulatedRefill} {
		for _, e := range s.o.Events {
			since, ok := when(now, e.At, 0, e.Every)
			switch {
			case e.Do != kind || e.For > 0 || !ok || since > 0:
			case kind == SimulatedRefill:
				s.fill(float64(e.To))
			case !s.removed(now):
				s.lose(0, float64(e.By))
			}
		}
	}
}

func (s *slowTank) fill(to float64) {
	if to > s.content {
		s.refilled += to - s.content
		s.content = to
	}
}

func (s *slowTank) lose(consumed, leaked float64) {
	part := 1.0
	if all := consumed + leaked; s.o.NoRefill && all > s.content && all > 0 {
		part = s.content / all
	}
	s.consumed += consumed * part
	s.leaked += leaked * part
	s.content -= (consumed + leaked) * part
	if s.o.NoRefill {
		s.content = max(0, s.content)
	}
	for !s.o.NoRefill && s.content <= float64(s.o.RefillAt) {
		s.refilled += float64(s.o.RefillTo - s.o.RefillAt)
		s.content += float64(s.o.RefillTo - s.o.RefillAt)
	}
}

// step takes the tank through the tick that begins now.
func (s *slowTank) step(now time.Duration) {
	consumed, leaked := float64(s.o.PerHour), 0.0
	if _, asleep := when(now, s.o.AsleepAfter, s.o.AsleepFor, s.o.Day); asleep && s.o.AsleepFor > 0 {
		consumed = float64(s.o.AsleepPerHour)
	}
	to, left := -1.0, time.Duration(1)
	for _, e := range s.o.Events {
		since, on := when(now, e.At, e.For, e.Every)
		switch {
		case !on:
		case e.Do == SimulatedLeak:
			leaked += float64(e.Rate)
		case e.Do == SimulatedBurst && e.For > 0:
			leaked += float64(e.By) / e.For.Hours()
		case e.Do == SimulatedRefill && e.For > 0:
			if level := float64(e.To); level > to || level == to && e.For-since < left {
				to, left = level, e.For-since
			}
		}
	}
	if s.removed(now) {
		consumed, leaked = 0, 0
	}
	consumed, leaked = consumed*tick.Hours(), leaked*tick.Hours()
	aim := math.Inf(-1)
	switch {
	case to < 0:
	case s.content > to:
		aim = to
	default:
		aim = s.content + (to-s.content)*float64(tick)/float64(left)
	}
	if math.IsInf(aim, -1) {
		s.lose(consumed, leaked)
		return
	}
	before := s.content
	s.content = max(aim, before-consumed-leaked)
	s.consumed += consumed
	s.leaked += leaked
	s.refilled += s.content - before + consumed + leaked
}

func ticks(t *rapid.T, name string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most/tick)).Draw(t, name)) * tick
}

// masses draws odd ones, so that little happens at a bound exactly, and none so small
// that a slow sum loses it.
func masses(from, to physic.Mass) *rapid.Generator[physic.Mass] {
	const grain = 1_000_003
	return rapid.Map(rapid.Int64Range(int64(from)/grain+int64(min(from, 1)), int64(to)/grain),
		func(n int64) physic.Mass { return physic.Mass(n * grain) })
}

// contentScript draws a tank and a script of what changes its content.
func contentScript(t *rapid.T) SimulatedOptions {
	o := SimulatedOptions{
		Capacity: 14_300*physic.Gram + 1_234_577,
		PerHour:  masses(0, 2*physic.KiloGram).Draw(t, "per hour"),
		NoRefill: rapid.Bool().Draw(t, "no refill"),
	}
	o.Start = masses(5*physic.KiloGram, o.Capacity).Draw(t, "start")
	o.RefillAt = masses(0, 4*physic.KiloGram).Draw(t, "refill at")
	if rapid.Bool().Draw(t, "sleeps") {
		o.Day = rapid.SampledFrom([]time.Duration{0, 6 * time.Hour}).Draw(t, "day")
		o.AsleepAfter, o.AsleepFor = ticks(t, "asleep after", 3*time.Hour), tick+ticks(t, "asleep for", 2*time.Hour)
		o.AsleepPerHour = masses(0, physic.KiloGram).Draw(t, "asleep per hour")
	}
	for range rapid.IntRange(0, 6).Draw(t, "events") {
		e := SimulatedEvent{
			Do: rapid.SampledFrom([]SimulatedKind{SimulatedLeak, SimulatedBurst, SimulatedRefill, SimulatedRefill, SimulatedRemove}).Draw(t, "do"),
			At: ticks(t, "at", 30*time.Hour),
			Every: rapid.SampledFrom([]time.Duration{0, 30 * time.Minute, time.Hour, 90 * time.Minute,
				4 * time.Hour, 24 * time.Hour}).Draw(t, "every"),
		}
		e.For = ticks(t, "for", 3*time.Hour)
		if e.Every > 0 {
			e.For = min(e.For, e.Every)
		}
		switch e.Do {
		case SimulatedLeak:
			e.Rate = masses(physic.MilliGram, 3*physic.KiloGram).Draw(t, "rate")
		case SimulatedBurst:
			e.By = masses(physic.MilliGram, 6*physic.KiloGram).Draw(t, "by")
		case SimulatedRefill:
			e.To = masses(0, o.Capacity).Draw(t, "to")
		}
		if (e.Do == SimulatedLeak || e.Do == SimulatedRemove) && e.For == 0 && e.Every > 0 {
			e.For = tick
		}
		o.Events = append(o.Events, e)
	}
	return o
}

// TestSimulatedTruthIsThatOfTheSlowTank: what laps and periods give is what walking
// through all of the time gives, and nothing appears or vanishes on the way.
func TestSimulatedTruthIsThatOfTheSlowTank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := contentScript(t)
		s, err := NewSimulated(o)
		if err != nil {
			t.Fatal(err)
		}
		slow := newSlowTank(o)
		checkAt := rapid.Int64Range(1, 40).Draw(t, "check every n ticks")
		for n := int64(0); n < int64(8*24*time.Hour/tick); n++ {
			now := time.Duration(n) * tick
			slow.instants(now)
			if n%checkAt == 0 {
				compare(t, now, s.Truth(now), slow)
			}
			balanced(t, s, now+amid(n))
			slow.step(now)
		}
	})
}

// amid is some time within a tick.
func amid(n int64) time.Duration { return time.Duration(n*7_919_000_000_001) % tick }

func compare(t *rapid.T, now time.Duration, got SimulatedTruth, slow *slowTank) {
	t.Helper()
	const kg = float64(physic.KiloGram)
	want := SimulatedTruth{slow.content / kg, slow.consumed / kg, slow.leaked / kg, slow.refilled / kg, slow.removed(now)}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+want.Consumed+want.Leaked) }
	if !slow.o.NoRefill { // just before the rule refills is just after it
		if span := float64(slow.o.RefillTo-slow.o.RefillAt) / kg; near(math.Abs(got.Content-want.Content), span) {
			got.Refilled += want.Content - got.Content
			got.Content = want.Content
		}
	}
	if !near(got.Content, want.Content) || !near(got.Consumed, want.Consumed) || !near(got.Leaked, want.Leaked) ||
		!near(got.Refilled, want.Refilled) || got.Removed != want.Removed {
		t.Fatalf("after %s got %+v, want %+v", now, got, want)
	}
}

// balanced: the content is what was there, less what went, and what came; it lies
// within the tank; and totals never fall.
func balanced(t rapid.TB, s *Simulated, now time.Duration) SimulatedTruth {
	t.Helper()
	got := s.Truth(now)
	start, capacity := float64(s.o.Start)/1e12, float64(s.o.Capacity)/1e12
	if want := start - got.Consumed - got.Leaked + got.Refilled; math.Abs(got.Content-want) > 1e-9*(1+got.Consumed+got.Leaked) {
		t.Fatalf("after %s got %+v, which does not add up: %.12g kg", now, got, want)
	}
	if !(got.Content >= 0 && got.Content <= capacity*(1+1e-12) && got.Consumed >= 0 && got.Leaked >= 0 && got.Refilled >= -1e-9) {
		t.Fatalf("after %s got %+v, beyond the tank of %.12g kg", now, got, capacity)
	}
	return got
}

// TestSimulatedYearsLater: two centuries cost what two minutes do, and still add up.
func TestSimulatedYearsLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSimulated(contentScript(t))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "elapsed"))
		a, b := balanced(t, s, now), balanced(t, s, now-now/1000)
		if fell := func(a, b float64) bool { return a < b-1e-9*(1+b) }; fell(a.Consumed, b.Consumed) || fell(a.Leaked, b.Leaked) || fell(a.Refilled, b.Refilled) {
			t.Fatalf("totals fall: %+v, later %+v", b, a)
		}
	})
}

// TestSimulatedTruthVectors are scripts whose end anybody can work out by hand.
func TestSimulatedTruthVectors(t *testing.T) {
	const g, kg = physic.Gram, physic.KiloGram
	for _, tt := range []struct {
		name   string
		o      SimulatedOptions
		events []SimulatedEvent
		at     time.Duration
		want   SimulatedTruth
	}{
		{"a leak beside the crew", SimulatedOptions{}, []SimulatedEvent{{At: time.Hour, For: 2 * time.Hour, Do: SimulatedLeak, Rate: 2 * kg}},
			10 * time.Hour, SimulatedTruth{Content: 5, Consumed: 1, Leaked: 4}},
		{"a leak for ever empties it", SimulatedOptions{NoRefill: true}, []SimulatedEvent{{Do: SimulatedLeak, Rate: 900 * g}},
			1000 * time.Hour, SimulatedTruth{Consumed: 1, Leaked: 9}},
		{"a burst at once", SimulatedOptions{NoRefill: true}, []SimulatedEvent{{At: time.Hour, Do: SimulatedBurst, By: 3 * kg}},
			time.Hour, SimulatedTruth{Content: 6.9, Consumed: 0.1, Leaked: 3}},
		{"half of a slow burst", SimulatedOptions{NoRefill: true}, []SimulatedEvent{{At: time.Hour, For: time.Hour, Do: SimulatedBurst, By: 3 * kg}},
			90 * time.Minute, SimulatedTruth{Content: 8.35, Consumed: 0.15, Leaked: 1.5}},
		{"filled at once", SimulatedOptions{}, []SimulatedEvent{{At: 10 * time.Hour, Do: SimulatedRefill}},
			20 * time.Hour, SimulatedTruth{Content: 9, Consumed: 2, Refilled: 1}},
		{"filled once", SimulatedOptions{}, []SimulatedEvent{{At: 10 * time.Hour, Do: SimulatedRefill}},
			90 * time.Hour, SimulatedTruth{Content: 2, Consumed: 9, Refilled: 1}},
		{"filled slowly, half way", SimulatedOptions{}, []SimulatedEvent{{At: 20 * time.Hour, For: 10 * time.Hour, Do: SimulatedRefill, To: 9 * kg}},
			25 * time.Hour, SimulatedTruth{Content: 8.5, Consumed: 2.5, Refilled: 1}},
		{"not filled down to what is lower", SimulatedOptions{}, []SimulatedEvent{{At: time.Hour, Do: SimulatedRefill, To: kg}},
			10 * time.Hour, SimulatedTruth{Content: 9, Consumed: 1}},
		{"held at the level that it comes down to", SimulatedOptions{}, []SimulatedEvent{{For: 20 * time.Hour, Do: SimulatedRefill, To: 9 * kg}},
			15 * time.Hour, SimulatedTruth{Content: 9, Consumed: 1.5, Refilled: 0.5}},
		{"nothing leaves a cylinder that is off", SimulatedOptions{}, []SimulatedEvent{
			{At: 10 * time.Hour, For: 10 * time.Hour, Do: SimulatedRemove}, {Do: SimulatedLeak, Rate: 100 * g}},
			20 * time.Hour, SimulatedTruth{Content: 8, Consumed: 1, Leaked: 1}},
		{"a cylinder is swapped", SimulatedOptions{}, []SimulatedEvent{
			{At: 10 * time.Hour, For: 10 * time.Hour, Do: SimulatedRemove}, {At: 15 * time.Hour, Do: SimulatedRefill}},
			15 * time.Hour, SimulatedTruth{Content: 10, Consumed: 1, Refilled: 1, Removed: true}},
		{"a crew that sleeps", SimulatedOptions{AsleepAfter: 16 * time.Hour, AsleepFor: 8 * time.Hour, AsleepPerHour: 25 * g}, nil,
			4*24*time.Hour + 20*time.Hour, SimulatedTruth{Content: 1.1, Consumed: 8.9}},
		{"filled every day", SimulatedOptions{}, []SimulatedEvent{{At: 12 * time.Hour, Every: 24 * time.Hour, Do: SimulatedRefill}},
			1000*24*time.Hour + 15*time.Hour, SimulatedTruth{Content: 9.7, Consumed: 2401.5, Refilled: 2401.2}},
		{"filled every day to less than it began with", SimulatedOptions{}, []SimulatedEvent{{At: 12 * time.Hour, Every: 24 * time.Hour, Do: SimulatedRefill, To: 6 * kg}},
			66 * time.Hour, SimulatedTruth{Content: 5.4, Consumed: 6.6, Refilled: 2}},
		{"the rule, beside a leak", SimulatedOptions{RefillAt: 2 * kg, RefillTo: 9 * kg}, []SimulatedEvent{{Do: SimulatedLeak, Rate: 900 * g}},
			30 * time.Hour, SimulatedTruth{Content: 8, Consumed: 3, Leaked: 27, Refilled: 28}},
	} {
		tt.o.Capacity, tt.o.PerHour, tt.o.Events = 10*kg, 100*g, tt.events
		s, err := NewSimulated(tt.o)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, s.Truth(tt.at), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s: after %s:\n%s", tt.name, tt.at, diff)
		}
		balanced(t, s, tt.at)
	}
}

// TestSimulatedSmallLeak: what a lap loses may be less than the content is exact to;
// millions of laps lose it all the same.
func TestSimulatedSmallLeak(t *testing.T) {
	s, err := NewSimulated(SimulatedOptions{Capacity: 10 * physic.KiloGram, NoRefill: true,
		Events: []SimulatedEvent{{For: time.Minute, Every: 2 * time.Minute, Do: SimulatedLeak, Rate: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	const lost = 20 * 365 * 24 * 1e-12 // half a nanogram an hour for forty years
	if got := s.Truth(40 * 365 * 24 * time.Hour); math.Abs(got.Leaked-lost) > 1e-10 || math.Abs(10-lost-got.Content) > 1e-10 {
		t.Errorf("got %+v, want %g kg lost", got, lost)
	}
}

// TestSimulatedScriptThatNeverRepeats: what cannot be worked out within bounds is
// refused, in a time that nobody notices.
func TestSimulatedScriptThatNeverRepeats(t *testing.T) {
	leak := func(at, every time.Duration) SimulatedEvent {
		return SimulatedEvent{At: at, For: time.Nanosecond, Every: every, Do: SimulatedLeak, Rate: 1}
	}
	for name, events := range map[string][]SimulatedEvent{
		"too often":      {leak(0, time.Second), leak(0, 24*time.Hour)},
		"primes":         {leak(0, 9973*time.Second), leak(0, 9967*time.Second), leak(0, 9949*time.Second)},
		"overflow":       {leak(0, simulatedLongest), leak(0, simulatedLongest-1), leak(0, simulatedLongest-2)},
		"late beginning": {leak(0, time.Minute), leak(365*24*time.Hour, time.Minute)},
	} {
		_, err := NewSimulated(SimulatedOptions{Capacity: physic.KiloGram, Events: events})
		if err == nil || !strings.Contains(err.Error(), "turns") {
			t.Errorf("%s: got %v, want an error about turns", name, err)
		}
	}
	// What only the sensor does repeats as it likes.
	spike := func(every time.Duration) SimulatedEvent {
		return SimulatedEvent{Every: every, Do: SimulatedSpike, By: 1}
	}
	if _, err := NewSimulated(SimulatedOptions{Capacity: physic.KiloGram, Events: []SimulatedEvent{spike(9973 * time.Second), spike(time.Second),
		spike(9949 * time.Second)}}); err != nil {
		t.Error(err)
	}
}

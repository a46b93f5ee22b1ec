package signal

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// FC-37: a totalizer drops to 0 for a while and comes back.
func TestFC37TotalizerDip(t *testing.T) {
	c := must(NewCounter(CounterOptions[float64]{MaxRate: 1}))
	var sum float64
	dip := suspect(WhyCounterDip)
	want := []Verdict{good, dip, dip, good}
	for i, total := range []float64{397.11, 0, 0, 413.50} {
		got, v := c.Take(total, "", time.Duration(i)*time.Minute)
		if v != want[i] || got.Event != CounterGoesOn {
			t.Errorf("%g: got %v, %q, want %v and no event", total, v, got.Event, want[i])
		}
		sum += got.Delta
	}
	if math.Abs(sum-16.39) > 1e-9 {
		t.Errorf("consumed %g, want 16.39", sum)
	}
	if c.Dips() != 2 {
		t.Errorf("got %d dips, want 2", c.Dips())
	}
}

// FC-39: the pulse total is lost at a reboot; later somebody seeds it.
func TestFC39CounterReset(t *testing.T) {
	for _, told := range []bool{true, false} {
		c := must(NewCounter(CounterOptions[uint64]{MaxRate: 100}))
		var sum uint64
		var events []CounterEvent
		at := time.Duration(0)
		take := func(total uint64, boot string) {
			at += time.Second
			got, _ := c.Take(total, boot, at)
			sum += got.Delta
			if got.Event != CounterGoesOn {
				events = append(events, got.Event)
			}
		}
		take(5000, "boot-1")
		take(0, "boot-2")
		take(10, "boot-2")
		if sum != 10 || len(events) != 1 || events[0] != CounterReset {
			t.Errorf("after the reboot: got %d and %v, want 10 and one %s", sum, events, CounterReset)
		}
		if told {
			c.Seed(5010, at+time.Millisecond)
		}
		for range 1000 {
			take(5010, "boot-2")
		}
		take(5012, "boot-2")
		if sum != 12 {
			t.Errorf("seeded (told %v): got %d, want 12: the seeding books nothing", told, sum)
		}
		if !told && (len(events) != 2 || events[1] != CounterJumped || c.Jumps() == 0) {
			t.Errorf("seeded by itself: got %v, want a %s", events, CounterJumped)
		}
	}
}

func TestCounterStories(t *testing.T) {
	type take struct {
		total, want uint64
		event       CounterEvent
		why         Why
	}
	for _, c := range []struct {
		name  string
		takes []take
	}{
		{"a glitch upwards", []take{{100, 0, "", ""}, {9999, 0, "", WhyRate}, {101, 1, "", ""}, {102, 1, "", ""}}},
		{"dips to and fro", []take{{100, 0, "", ""}, {0, 0, "", WhyCounterDip}, {103, 3, "", ""}, {50, 0, "", WhyCounterDip}, {104, 1, "", ""}}},
		{"a reset without a word", []take{{1000, 0, "", ""}, {0, 0, "", WhyCounterDip}, {5, 0, "", WhyCounterDip}, {9, 9, CounterReset, ""}, {12, 3, "", ""}}},
		{"a dip that does not count on", []take{{1000, 0, "", ""}, {9, 0, "", WhyCounterDip}, {5, 0, "", WhyCounterDip}, {6, 0, "", WhyCounterDip}, {1003, 3, "", ""}}},
		{"set to another total", []take{{1000, 0, "", ""}, {7000, 0, "", WhyRate}, {7003, 0, "", WhyRate}, {7005, 5, CounterJumped, ""}, {7006, 1, "", ""}}},
		{"a wrap", []take{{1<<16 - 6, 0, "", ""}, {4, 10, CounterWrapped, ""}, {5, 1, "", ""}}},
		{"a dip near the wrap is none", []take{{1<<16 - 600, 0, "", ""}, {4, 0, "", WhyCounterDip}, {1<<16 - 599, 1, "", ""}}},
		{"beyond the wrap", []take{{100, 0, "", ""}, {1 << 16, 0, "", WhyOverRange}, {101, 1, "", ""}}},
	} {
		k := must(NewCounter(CounterOptions[uint64]{MaxRate: 10, Wrap: 1 << 16, Confirm: 3, ConfirmFor: 2 * time.Second}))
		for i, s := range c.takes {
			got, v := k.Take(s.total, "", time.Duration(i)*time.Second)
			if got.Delta != s.want || got.Event != s.event || v.Why != s.why {
				t.Errorf("%s: %d: got %+v, %v, want %+v", c.name, s.total, got, v, s)
			}
		}
	}
}

// A total seeded while the rate would explain it, had it only waited longer, is
// not booked for having been seen for long.
func TestCounterJumpDoesNotAgeIntoUse(t *testing.T) {
	c := must(NewCounter(CounterOptions[uint64]{MaxRate: 100, ConfirmFor: time.Hour}))
	c.Take(0, "", 0)
	for s := time.Duration(1); s < 3000; s++ {
		if got, v := c.Take(5000, "", s*time.Second); got.Delta != 0 || v != suspect(WhyRate) {
			t.Fatalf("after %d s: got %+v, %v", s, got, v)
		}
	}
}

func TestCounterLostPulses(t *testing.T) {
	c := must(NewCounter(CounterOptions[uint64]{MaxRate: 10}))
	c.Take(5, "", 0)
	c.Lose(3)
	c.Lose(1)
	if got, v := c.Take(7, "", time.Second); got != (Counted[uint64]{Delta: 2, Lost: 4}) || v != suspect(WhyLost) {
		t.Errorf("got %+v, %v, want 2 counted, 4 lost, suspect", got, v)
	}
	if got, v := c.Take(8, "", 2*time.Second); got != (Counted[uint64]{Delta: 1}) || v != good {
		t.Errorf("the next: got %+v, %v, want 1 and good", got, v)
	}
}

func TestCounterRestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		total uint64
		boot  string
		away  time.Duration
		want  Counted[uint64]
		v     Verdict
	}{
		{"it counted on", 900, "b1", 0, Counted[uint64]{Delta: 400}, good},
		{"it counted on through a boot", 900, "b2", 0, Counted[uint64]{Delta: 400}, good},
		{"it began anew", 30, "b2", 0, Counted[uint64]{Delta: 30, Event: CounterReset}, good},
		{"it reads 0 at first", 0, "b1", 0, Counted[uint64]{}, suspect(WhyCounterDip)},
		{"more than a minute explains", 90000, "b1", time.Minute, Counted[uint64]{}, suspect(WhyRate)},
		{"as much as a minute explains", 1100, "b1", time.Minute, Counted[uint64]{Delta: 600}, good},
	} {
		k := must(NewCounter(CounterOptions[uint64]{MaxRate: 10, Wrap: 1 << 32}))
		if err := k.Restore(CounterState[uint64]{Known: true, Base: 500, Boot: "b1"}, c.away); err != nil {
			t.Fatal(err)
		}
		if got, v := k.Take(c.total, c.boot, 7*time.Hour); got != c.want || v != c.v {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.name, got, v, c.want, c.v)
		}
		if err := k.Restore(CounterState[uint64]{}, 0); err == nil {
			t.Errorf("%s: restored in the middle of a sequence", c.name)
		}
	}
	k := must(NewCounter(CounterOptions[uint64]{MaxRate: 10, Wrap: 100}))
	if err := k.Restore(CounterState[uint64]{Known: true, Base: 100}, 0); err == nil {
		t.Error("restored a total beyond the wrap")
	}
}

// Whatever a meter's line does to its totals, no more is booked than was counted;
// and once the meter is heard again, no less.
func TestCounterNeverInvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := must(NewCounter(CounterOptions[uint64]{MaxRate: 20}))
		truth := rapid.Uint64Range(1000, 1<<40).Draw(t, "start")
		first, booked := truth, uint64(0)
		c.Take(truth, "", 0)
		at := time.Duration(0)
		for range 100 {
			at += time.Second
			truth += rapid.Uint64Range(0, 20).Draw(t, "pulses")
			shown, garbled := truth, true
			switch rapid.IntRange(0, 9).Draw(t, "line") {
			case 0:
				shown = 0
			case 1:
				shown = rapid.Uint64Range(0, truth-1000).Draw(t, "garbled")
			case 2:
				shown = rapid.Uint64Range(truth+3000, 1<<60).Draw(t, "garbled")
			default:
				garbled = false
			}
			got, _ := c.Take(shown, "", at)
			if booked += got.Delta; garbled && got.Delta != 0 {
				t.Fatalf("%d for %d: booked %d", shown, truth, got.Delta)
			}
			if !garbled && booked != truth-first {
				t.Fatalf("at %d: got %d booked, want %d", truth, booked, truth-first)
			}
		}
	})
}

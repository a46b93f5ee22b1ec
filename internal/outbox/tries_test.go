package outbox

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// tries beside a list of single numbers. What a merge at the bound or of
// neighbours changes is only that a number waits longer, never that it is sent
// sooner or forgotten.
func TestTries(t *testing.T) {
	type one struct {
		n   int
		due time.Duration
	}
	rapid.Check(t, func(t *rapid.T) {
		var list tries
		model := map[uint64]one{}
		now := time.Duration(0)
		draw := func() event.Range {
			from := rapid.Uint64Range(1, 40).Draw(t, "from")
			return event.Range{From: from, To: from + rapid.Uint64Range(0, 8).Draw(t, "length")}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				keep := []event.Range{draw()}
				list = list.trim(keep)
				for n := range model {
					if n < keep[0].From || n > keep[0].To {
						delete(model, n)
					}
				}
			default:
				r := draw()
				list = list.add(r, now)
				for n := r.From; n <= r.To; n++ {
					model[n] = one{model[n].n + 1, now + pause(model[n].n+1)}
				}
			}
			last := uint64(0)
			seen := 0
			for _, x := range list {
				if x.From <= last || x.To < x.From {
					t.Fatalf("%+v is not ascending", list)
				}
				last = x.To
				for n := x.From; n <= x.To; n++ {
					seen++
					if m := model[n]; x.n != m.n || x.due < m.due || x.due > now+pause(m.n) {
						t.Fatalf("number %d: %+v, want %+v at %v", n, x, m, now)
					}
				}
			}
			if seen != len(model) {
				t.Fatalf("%d numbers, want %d", seen, len(model))
			}
			r := draw()
			part, ok := list.firstDue(r, now)
			for n := r.From; n <= r.To; n++ {
				waits := false
				for _, x := range list {
					waits = waits || x.From <= n && n <= x.To && x.due > now
				}
				inPart := ok && part.From <= n && n <= part.To
				if inPart && waits || ok && n < part.From && !waits || !ok && !waits {
					t.Fatalf("first due of %v in %+v at %v: %v, %t", r, list, now, part, ok)
				}
			}
		}
	})
}

func TestTriesAreBounded(t *testing.T) {
	var list tries
	for n := uint64(1); n < 1000; n += 2 {
		list = list.add(event.Range{From: n, To: n}, time.Hour)
	}
	if len(list) > triesMax {
		t.Errorf("%d tries, want at most %d", len(list), triesMax)
	}
	if part, ok := list.firstDue(event.Range{From: 1, To: 999}, time.Hour+pause(1)); !ok || part != (event.Range{From: 1, To: 999}) {
		t.Errorf("first due %v, %t: something was forgotten", part, ok)
	}
}

func TestPauses(t *testing.T) {
	for n, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
		if got := pause(max(n, 1)); n > 0 && got != want*time.Minute {
			t.Errorf("pause %d = %v, want %v minutes", n, got, int(want))
		}
	}
	if pause(1000) != time.Hour {
		t.Error("the pause grows beyond an hour")
	}
}

func TestRangeLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (list []event.Range, has map[uint64]bool) {
			has = map[uint64]bool{}
			next := uint64(1)
			for range rapid.IntRange(0, 6).Draw(t, name) {
				from := next + rapid.Uint64Range(0, 4).Draw(t, "gap")
				to := from + rapid.Uint64Range(0, 4).Draw(t, "length")
				list, next = append(list, event.Range{From: from, To: to}), to+1
				for n := from; n <= to; n++ {
					has[n] = true
				}
			}
			return list, has
		}
		a, inA := draw("a")
		b, inB := draw("b")
		holds := func(list []event.Range, n uint64) bool {
			for _, r := range list {
				if r.From <= n && n <= r.To {
					return true
				}
			}
			return false
		}
		both, rest := intersect(a, b), subtract(a, b)
		for n := uint64(1); n < 70; n++ {
			if holds(both, n) != (inA[n] && inB[n]) || holds(rest, n) != (inA[n] && !inB[n]) {
				t.Fatalf("%v and %v: both %v, rest %v", a, b, both, rest)
			}
		}
		if numbers(both)+numbers(rest) != uint64(len(inA)) {
			t.Fatalf("%v and %v: both %v, rest %v", a, b, both, rest)
		}
	})
}

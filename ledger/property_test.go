package ledger

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// drawEvents makes a set of valid messages of two tanks and several sources,
// numbered and not, all with usable clocks, so that their meaning does not depend
// on their arrival.
func drawEvents(t *rapid.T, least, most int) []Delivery {
	n := rapid.IntRange(least, most).Draw(t, "events")
	next := map[string]int{}
	deltas := map[string][]event.Identity{}
	var set []Delivery
	for i := range n {
		tankID := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "tank")
		source := rapid.SampledFrom([]string{"", "m1", "m2"}).Draw(t, "source")
		leaf := rapid.SampledFrom([]string{"measured", "consumed", "consumed", "refilled", "reversed", "skipped"}).Draw(t, "type")
		at := noon.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Second)
		id := fmt.Sprintf("e%d", i)
		msg := ""
		if source != "" {
			msg += fmt.Sprintf(`,"source":%q`, source)
			if rapid.Bool().Draw(t, "numbered") || leaf == "skipped" {
				epoch := rapid.IntRange(1, 2).Draw(t, "epoch")
				key := fmt.Sprint(source, epoch, tankID)
				next[key] += rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "step")
				msg += fmt.Sprintf(`,"epoch":%d,"seq":%d`, epoch, next[key])
				if rapid.Bool().Draw(t, "node id") {
					id = event.NodeID(source, uint64(epoch), tankID, uint64(next[key]))
				}
			}
		} else if leaf == "skipped" {
			leaf = "consumed"
		}
		amount := rapid.IntRange(1, 1000).Draw(t, "amount")
		switch leaf {
		case "measured":
			msg += fmt.Sprintf(`,"remaining":%d`, amount)
			if rapid.Bool().Draw(t, "covers") {
				msg += fmt.Sprintf(`,"covers":{"m2":[1,%d]}`, rapid.IntRange(1, 20).Draw(t, "upto"))
			}
		case "reversed":
			// A delta of this tank or one that never comes: what is no delta would be
			// refused or parked depending on what came first.
			targets := append(deltas[tankID], event.Identity{Source: source, ID: "never"})
			target := rapid.SampledFrom(targets).Draw(t, "target")
			msg += fmt.Sprintf(`,"reverses":%q,"reverses_source":%q`, target.ID, target.Source)
		case "skipped":
			msg += `,"skips":[[30,31]]`
		default:
			msg += fmt.Sprintf(`,"amount":%d`, amount)
			if rapid.Bool().Draw(t, "operation") {
				msg += fmt.Sprintf(`,"operation":"o%d"`, rapid.IntRange(0, 3).Draw(t, "op"))
			}
		}
		msg = fmt.Sprintf(`{"event_id":%q,"tank":%q,"occurred_at":%q`, id, tankID, at.Format(time.RFC3339)) + msg
		d := deliveryOf(leaf, msg+"}", false)
		if d.Event.Type.Delta() {
			deltas[tankID] = append(deltas[tankID], d.Event.Identity())
		}
		if d.Form != nil {
			t.Fatalf("drew a malformed message %s: %v", d.Payload, d.Form)
		}
		set = append(set, d)
	}
	return set
}

// deliver applies the set in an order of its own, with repeats, in batches of any
// size, with restarts between them.
func deliver(t *rapid.T, r *rig, set []Delivery, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	queue := append([]Delivery(nil), set...)
	for range rng.IntN(len(set) + 1) {
		queue = append(queue, set[rng.IntN(len(set))])
	}
	rng.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	for len(queue) > 0 {
		n := 1 + rng.IntN(min(len(queue), 8))
		if _, err := r.l.Apply(queue[:n]); err != nil {
			t.Fatalf("apply: %v", err)
		}
		queue = queue[n:]
		if rng.IntN(10) == 0 {
			r.reopen()
		}
	}
}

// The state depends on the set of events, not on the order, the number or the
// batches of their arrival (R8), and agrees with a fold of the journal.
func TestStateIsAFunctionOfTheSet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { sameInEveryOrder(t, rt, drawEvents(rt, 1, 40)) })
}

// FC-26 at its full size.
func TestFC26TwoHundredMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { sameInEveryOrder(t, rt, drawEvents(rt, 200, 200)) })
}

func sameInEveryOrder(t *testing.T, rt *rapid.T, set []Delivery) {
	digest, state := "", ""
	for range 3 {
		r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
		deliver(rt, r, set, rapid.Uint64().Draw(rt, "order"))
		if err := r.l.Check(); err != nil {
			rt.Fatalf("check: %v", err)
		}
		s, err := r.l.Status()
		if err != nil {
			rt.Fatal(err)
		}
		if s.Quarantined > 0 {
			rt.Fatalf("refused one of a set of good events: %s", dump(r))
		}
		if digest == "" {
			digest = s.Digest
		}
		if s.Digest != digest {
			rt.Fatalf("another order gives another state:\n%s", dump(r))
		}
		if err := r.l.view(func(b *batch) error {
			rows, err := b.stateOf()
			if state == "" {
				state = rows
			}
			if rows != state {
				rt.Fatalf("another order gives other rows:\n%s\nand\n%s", state, rows)
			}
			return err
		}); err != nil {
			rt.Fatal(err)
		}
		r.end()
	}
}

// Whatever comes, also with clocks that cannot be used, retained copies, reused
// identities and overlapping runs, the rows agree with a fold of the journal and
// every delivery has exactly one outcome.
func TestRowsAgreeWithTheJournal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := drawEvents(rt, 1, 40)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "spoil"), 2))
		for i := range set {
			d := &set[i]
			e := &d.Event
			switch rng.IntN(9) {
			case 0:
				e.OccurredAt = time.Time{}
			case 1:
				e.Unsynced, e.HasAge, e.Age = true, rng.IntN(2) == 0, time.Duration(rng.IntN(50))*time.Second
			case 2:
				d.Retained = true
			case 3:
				d.Retained, e.OccurredAt = true, time.Time{}
			case 4:
				if twin := *d; e.Amount > 0 { // same identity, other content
					twin.Event.Amount++
					set = append(set, twin)
				}
			case 5:
				if e.Numbered() && e.Dot.Seq > 2 && e.Type.Delta() {
					e.StandsFor = event.Range{From: e.Dot.Seq - uint64(rng.IntN(3)), To: e.Dot.Seq}
				}
			case 7:
				twin := *d // another event under an identity that is taken, or will be
				twin.Event.ID, twin.Event.Source = set[rng.IntN(len(set))].Event.ID, e.Source
				set = append(set, twin)
			case 6:
				twin := *d // same number, other identity
				twin.Event.ID += "x"
				set = append(set, twin)
			}
		}
		r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
		deliver(rt, r, set, rapid.Uint64().Draw(rt, "order"))
		if err := r.l.Check(); err != nil {
			rt.Fatalf("check: %v", err)
		}
		r.end()
	})
}

// memoryDir gives a directory whose syncs cost nothing, where the machine has
// one: these tests are about meaning, not about durability.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "oxyd-ledger-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func dump(r *rig) string {
	docs, _ := r.l.Balances()
	return fmt.Sprintf("%+v", docs)
}

// The set of accounted numbers is exact, whatever comes in which order.
func TestRunsAgainstAMap(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		err := r.l.file.Update(func(tx *bbolt.Tx) error {
			row := &seen{}
			set := runs{row: row, bucket: tx.Bucket([]byte("runs")), prefix: seenKey("T", "s", rapid.Uint64().Draw(rt, "epoch"))}
			model := map[uint64]bool{}
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				from := rapid.Uint64Range(1, 60).Draw(rt, "from")
				run := event.Range{From: from, To: from + rapid.Uint64Range(0, 6).Draw(rt, "more")}
				some, all := set.covered(run)
				wantSome, wantAll := false, true
				for n := run.From; n <= run.To; n++ {
					wantSome, wantAll = wantSome || model[n], wantAll && model[n]
				}
				if some != wantSome || all != wantAll {
					rt.Fatalf("covered(%v) = %v, %v, want %v, %v", run, some, all, wantSome, wantAll)
				}
				if err := set.add(run); err != nil {
					return err
				}
				for n := run.From; n <= run.To; n++ {
					model[n] = true
				}
				compareGaps(rt, set, model)
			}
			return fmt.Errorf("leave nothing behind")
		})
		if err == nil {
			rt.Fatal("update swallowed the error")
		}
	})
}

func compareGaps(rt *rapid.T, set runs, model map[uint64]bool) {
	most := uint64(0)
	for n := range model {
		most = max(most, n)
	}
	var want []event.Range
	for n := uint64(1); n <= most; n++ {
		if model[n] {
			continue
		}
		if k := len(want); k > 0 && want[k-1].To == n-1 {
			want[k-1].To = n
		} else {
			want = append(want, event.Range{From: n, To: n})
		}
	}
	var got []event.Range
	set.gaps(func(gap event.Range) bool {
		got = append(got, gap)
		return true
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("missing: got %v, want %v", got, want)
	}
	run := event.Range{From: rapid.Uint64Range(1, 70).Draw(rt, "lacking from"), To: rapid.Uint64Range(1, 80).Draw(rt, "lacking to")}
	want = nil
	for n := run.To; n >= run.From; n-- {
		if model[n] {
			continue
		}
		if k := len(want); k > 0 && want[k-1].From == n+1 {
			want[k-1].From = n
		} else {
			want = append(want, event.Range{From: n, To: n})
		}
	}
	got = nil
	set.lacking(run, func(gap event.Range) bool {
		got = append(got, gap)
		return true
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("lacking in %v: got %v, want %v", run, got, want)
	}
}

func TestSumAgainstBig(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, want := Sum{}, new(big.Int)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			v := rapid.Int64().Draw(rt, "v")
			o := Sum{hi: v >> 63, lo: uint64(v)}
			if rapid.Bool().Draw(rt, "add") {
				s, want = s.Add(o), want.Add(want, big.NewInt(v))
			} else {
				s, want = s.Sub(o), want.Sub(want, big.NewInt(v))
			}
		}
		if s.big().Cmp(want) != 0 || s.Negative() != (want.Sign() < 0) {
			rt.Fatalf("got %v, want %v ng", s.big(), want)
		}
		text, _ := s.MarshalJSON()
		var back Sum
		if err := back.UnmarshalJSON(text); err != nil || back != s {
			rt.Fatalf("%s reads back as %v, %v", text, back, err)
		}
	})
}

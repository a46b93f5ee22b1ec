package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// A reversal that met a refused message that is no delta reverses nothing. That stays
// so when the refused one is pruned, and then nothing keeps the reversal either.
func TestPrunedReversalOfWhatWasRefused(t *testing.T) {
	r := newPruning(t)
	target := step{"measured", `{"event_id":"m","tank":"A","remaining":5,"occurred_at":` + ago(2*3600) + `}`, "quarantined/older_than_window", false}
	r.play(step{"reversed", `{"event_id":"r","tank":"A","reverses":"m","occurred_at":` + ago(1) + `}`, "parked", false}, target)
	if _, err := r.l.Discard(r.newest(), ""); err != nil {
		t.Fatal(err)
	}
	r.want("went", r.later(5*time.Hour), 2)
	s, _ := r.l.Status()
	r.want("facts", s.Facts, facts{}.String())
	r.play(target)
}

// The check looks at runs, not at numbers: one event may stand for 2⁵³ of them.
func TestCheckOfHugeRuns(t *testing.T) {
	r := newRig(t)
	merged := func(seq, from, to uint64) step {
		return step{"consumed", fmt.Sprintf(`{"event_id":"e%d","tank":"A","source":"dev","epoch":1,"seq":%d,"stands_for":[%d,%d],"amount":1}`, seq, seq, from, to), "applied", false}
	}
	r.play(merged(event.MaxSeq, event.MaxSeq/2, event.MaxSeq), merged(event.MaxSeq/3, 3, event.MaxSeq/3), merged(2, 1, 2))
	began := time.Now()
	if err := r.l.Check(); err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("check: %v in %v", err, time.Since(began))
	}
}

func TestRangesWithout(t *testing.T) {
	type list = [][2]uint64
	ranges := func(l list) (out []event.Range) {
		for _, p := range l {
			out = append(out, event.Range{From: p[0], To: p[1]})
		}
		return out
	}
	for _, c := range []struct{ have, less, want list }{
		{list{{1, 9}}, nil, list{{1, 9}}},
		{list{{1, 9}}, list{{1, 9}}, nil},
		{list{{1, 9}}, list{{3, 4}, {6, 6}}, list{{1, 2}, {5, 5}, {7, 9}}},
		{list{{3, 4}, {6, 9}}, list{{1, 6}}, list{{7, 9}}},
		{list{{3, 4}, {6, 9}}, list{{1, 3}, {5, 5}, {9, 20}}, list{{4, 4}, {6, 8}}},
		{list{{1, 2}, {5, 8}, {10, 12}}, list{{2, 11}}, list{{1, 1}, {12, 12}}},
	} {
		if got := pairs(without(ranges(c.have), ranges(c.less))); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v without %v: got %v, want %v", c.have, c.less, got, c.want)
		}
	}
}

// A topic that is no UTF-8 reads back from the quarantine as it was counted.
func TestKeptTopicThatIsNoText(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.QuarantineBytes = 1000 })
	for i := range 20 {
		d := Delivery{Topic: fmt.Sprintf("oxyd/\xff\xfe%d", i), Form: &event.FormError{Reason: event.Malformed}}
		if _, err := r.l.Apply([]Delivery{d}); err != nil {
			t.Fatal(err)
		}
		if err := r.l.Check(); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
	r.want("kept", r.kept(), 7)
}

// Rows that stay for good may stand before those that make room: a full account goes on
// by itself.
func TestFullBehindRowsThatStay(t *testing.T) {
	r := newPruning(t).with(func(o *Options) { o.MaxBytes = 2 << 20 })
	seq := 0
	apply := func(rest string) error {
		var list []Delivery
		for range 64 {
			seq++
			list = append(list, deliveryOf("consumed", numberedOf("dev", seq, strings.ReplaceAll(rest, "N", fmt.Sprint(seq)),
				int(noon.Sub(r.clk.now)/time.Second)), false))
		}
		_, err := r.l.Apply(list)
		return err
	}
	r.clk.now = noon.Add(time.Second)
	if err := apply(`"amount":1,"operation":"oN"`); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		err = apply(`"amount":1`)
	}
	if !boltfile.IsFull(err) {
		t.Fatal(err)
	}
	r.clk.now = r.clk.now.Add(3 * time.Hour)
	if err := apply(`"amount":1`); err != nil {
		t.Error(err)
	}
}

// What was taken back and pruned may come again and is refused, while its reversal is
// still there; an operator may even have it accepted.
func TestReversedComesBackAfterPruning(t *testing.T) {
	r := newPruning(t, Tank{ID: "A", Initial: grams(100)})
	c := step{"consumed", `{"event_id":"c","tank":"A","amount":5,"occurred_at":` + ago(60) + `}`, "applied", false}
	r.play(c)
	r.later(time.Hour)
	back := step{"reversed", `{"event_id":"r","tank":"A","reverses":"c","occurred_at":` + ago(-3600) + `}`, "applied", false}
	r.play(back)
	r.want("went", r.later(70*time.Minute), 1)
	c.want, back.want = "quarantined/older_than_window", "duplicate"
	r.play(c, back)
	if err := r.l.Check(); err != nil {
		t.Fatal(err)
	}
	r.want("an operator says that it never counted", r.retry(r.newest(), ""), "true applied")
	if err := r.l.Check(); err != nil {
		t.Error(err)
	}
}

// Check notices rows that decide about what is still to come, and show in no balance yet.
func TestCheckNoticesSpoiledPromises(t *testing.T) {
	gone := func(at *bbolt.Bucket) error {
		k, _ := at.Cursor().First()
		return at.Delete(bytes.Clone(k))
	}
	dev := stream{"A", "dev", numbered}
	for name, spoil := range map[string]func(b *batch, a *account, s *source) error{
		"operation gone":      func(b *batch, _ *account, _ *source) error { return gone(b.operations) },
		"reversal gone":       func(b *batch, _ *account, _ *source) error { return gone(b.reversals) },
		"skip gone":           func(b *batch, _ *account, _ *source) error { return gone(b.skipped) },
		"newest epoch":        func(_ *batch, _ *account, s *source) error { s.newest++; return nil },
		"ids not looked for":  func(_ *batch, _ *account, s *source) error { s.named = 0; return nil },
		"number of the last":  func(_ *batch, a *account, _ *source) error { a.heads[dev].last.dot.Seq++; return nil },
		"covers of the last":  func(_ *batch, a *account, _ *source) error { a.heads[dev].last.covers = nil; return nil },
		"stamp of the former": func(_ *batch, a *account, _ *source) error { a.heads[dev].prev.stamp++; return nil },
		"head without snapshot gone": func(b *batch, a *account, _ *source) error {
			st := stream{"A", "", unnumbered}
			delete(a.heads, st)
			return b.heads.Delete(st.prefix())
		},
		"stray operation": func(b *batch, _ *account, _ *source) error {
			return b.operations.Put([]byte("A\x00\x02x\x00"), []byte("A"))
		},
		"stray reversal": func(b *batch, _ *account, _ *source) error { return b.reversals.Put([]byte("x"), []byte("A")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigIn(t, memoryDir(t))
			r.play(step{"measured", numberedOf("dev", 1, `"remaining":90`, 20), "applied", false},
				step{"measured", numberedOf("dev", 2, `"remaining":80,"covers":{"x":[1,1]}`, 15), "applied", false},
				step{"skipped", numberedOf("dev", 4, `"skips":[[3,3]]`, 10), "applied", false},
				step{"consumed", `{"event_id":"own","tank":"A","source":"dev","amount":1,"operation":"o"}`, "applied", false},
				step{"consumed", `{"event_id":"c","tank":"A","amount":1}`, "applied", false},
				step{"reversed", `{"event_id":"r","tank":"A","reverses":"c"}`, "applied", false})
			if err := r.l.Check(); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := r.l.update(func(b *batch) error {
				a, err1 := b.account("A")
				s, err2 := b.source("dev")
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				a.changed, s.changed = true, true
				return spoil(b, a, s)
			}); err != nil {
				t.Fatal(err)
			}
			if err := r.l.Check(); err == nil {
				t.Error("Check notices nothing")
			}
			if err := r.l.Close(); err != nil {
				t.Error(err)
			}
			r.l = nil
		})
	}
}

// What an operator has discarded stays so, also when the rule that refused it would not
// do so any more and nothing but its mark tells that it was there.
func TestDiscardOutlastsPruning(t *testing.T) {
	r := newPruning(t).with(func(o *Options) { o.MaxSources = 1 })
	b := step{"consumed", `{"event_id":"b","source":"s2","tank":"A","amount":5}`, "quarantined/limit", false}
	r.play(step{"consumed", `{"event_id":"a","source":"s1","tank":"A","amount":5}`, "applied", false}, b)
	if _, err := r.l.Discard(r.newest(), "a stranger"); err != nil {
		t.Fatal(err)
	}
	r.want("went", r.later(5*time.Hour), 0)
	r.with(func(o *Options) { o.MaxSources = 10 }).play(b)
	r.want("total", r.doc("A").Totals.Consumed, "5 g")
}

// A transaction that takes out all rows of a page leaves an empty one, past which a
// cursor does not go back by itself. What stands before it is found all the same.
func TestEmptiedPages(t *testing.T) {
	r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(1000)})
	apply := func(n int, leaf func(i int) (leaf, msg string)) {
		t.Helper()
		var list []Delivery
		for i := range n {
			l, msg := leaf(i)
			list = append(list, deliveryOf(l, msg, false))
		}
		res, err := r.l.Apply(list)
		for i := range res {
			if res[i].Outcome == Quarantined {
				t.Fatalf("%s: %v", list[i].Payload, res[i])
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	one := func(source string, seq int) (string, string) {
		return "consumed", fmt.Sprintf(`{"event_id":%q,"tank":"A","source":%q,"epoch":1,"seq":%d,"amount":1,"occurred_at":%s}`,
			event.NodeID(source, 1, "A", uint64(seq)), source, seq, ago(5000-seq))
	}
	const gaps = 600
	apply(2, func(i int) (string, string) { return one("a", 2*i+2) }) // another stream stands before
	apply(gaps, func(i int) (string, string) { return one("dev", 2*i+2) })
	apply(2, func(i int) (string, string) { return one("z", 2*i+2) })
	apply(gaps, func(i int) (string, string) { return one("dev", 2*i+1) }) // and all gaps are filled at once
	if err := r.l.Check(); err != nil {
		t.Fatalf("gaps: %v", err)
	}

	// The newest thousand are taken back, and then a snapshot comes that is older than
	// those that are left.
	apply(1, func(int) (string, string) { return "consumed", `{"event_id":"b","tank":"B","amount":1}` })
	apply(1, func(int) (string, string) {
		return "measured", `{"event_id":"m0","tank":"A","remaining":500,"occurred_at":` + ago(5000) + `}`
	})
	const left = 200
	apply(2*gaps-left+1, func(i int) (string, string) {
		if i == 2*gaps-left {
			return "measured", `{"event_id":"m","tank":"A","remaining":500,"occurred_at":` + ago(5000-100) + `}`
		}
		return "reversed", fmt.Sprintf(`{"event_id":"r%d","tank":"A","reverses":%q,"reverses_source":"dev"}`, i, event.NodeID("dev", 1, "A", uint64(2*gaps-i)))
	})
	if err := r.l.Check(); err != nil {
		t.Fatalf("moves: %v", err)
	}
	r.want("balance", r.balance("A"), "400 g")
}

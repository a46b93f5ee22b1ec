package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// Corners that the model found, each as small as it gets.

// Effect, mark, journal row and watermark share one transaction (invariant I3): a
// batch is one, whatever is in it.
func TestOneTransactionForABatch(t *testing.T) {
	r := newRig(t)
	transaction := func() (id int) {
		if err := r.l.file.View(func(tx *bbolt.Tx) error {
			id = tx.ID()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := transaction()
	batch := deliveries(t, [][2]string{{"measured", measured(1, 1, 100)}, {"consumed", consumed(1, 3, 5)}, {"consumed", consumed(1, 3, 6)}})
	if _, err := r.l.Apply(append(batch, deliveryOf("consumed", "{", false))); err != nil {
		t.Fatal(err)
	}
	r.want("transactions", transaction()-before, 1)
}

// A reversal of what was refused waits where the refused one is a delta, and counts
// among the parked; where it is none the reversal goes astray, whichever came first.
func TestReversalOfWhatWasRefused(t *testing.T) {
	x := step{"reversed", `{"event_id":"x","tank":"A","reverses":"v","occurred_at":` + ago(5) + `}`, "parked", false}
	refused := step{"", `{"event_id":"v","tank":"A","v":2}`, "quarantined/unsupported_version", false}
	as := func(s step, leaf, want string) step { s.leaf, s.want = leaf, want; return s }
	for name, c := range map[string]struct {
		parked uint64
		steps  []step
	}{
		"a snapshot, first": {0, []step{as(refused, "measured", refused.want), as(x, x.leaf, "quarantined/not_reversible")}},
		"a snapshot, last":  {0, []step{x, as(refused, "measured", refused.want)}},
		"a delta, first":    {1, []step{as(refused, "consumed", refused.want), x}},
		"a delta, last":     {1, []step{x, as(refused, "consumed", refused.want)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).with(func(o *Options) { o.MaxParked = 1 })
			r.play(c.steps...)
			s, err := r.l.Status()
			if err != nil {
				t.Fatal(err)
			}
			r.want("parked", s.Parked, c.parked)
			r.want("facts are nothing", s.Facts == facts{}.String(), c.parked == 0)
			if c.parked == 1 {
				r.play(step{"reversed", `{"event_id":"y","tank":"A","reverses":"v"}`, "quarantined/limit", false})
			}
		})
	}
}

// Without an account for the tank a refused event is stamped all the same; with a
// later number, just below that: what comes before it must not be placed behind.
func TestRefusedNumbersAreStampedLikeOthers(t *testing.T) {
	number := func(seq int, rest string) string {
		return fmt.Sprintf(`{"event_id":"n%d","tank":"A","source":"dev","epoch":1,"seq":%d%s}`, seq, seq, rest)
	}
	r := newRig(t)
	r.play(step{"consumed", number(3, `,"amount":1,"occurred_at":`+ago(100)), "applied", false},
		step{"measured", `{"event_id":"m","tank":"A","source":"other","remaining":50,"occurred_at":` + ago(50) + `}`, "applied", false},
		step{"consumed", number(2, `,"v":2`), "quarantined/unsupported_version", false},
		step{"consumed", number(1, `,"amount":1,"clock":"unsynced"`), "late", false})
}

// Clocks of sources go back: a lower gap may lie after the baseline although a
// higher one does not.
func TestEveryGapMayLieAfterTheBaseline(t *testing.T) {
	for name, skipped := range map[string]bool{"missing": false, "skipped": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, m := range [][2]string{meter("flow", 1, 1, 1, 90), meter("flow", 1, 3, 1, 10), meter("flow", 1, 5, 1, 80)} {
				r.send(m[0], m[1])
			}
			if skipped {
				r.play(step{"skipped", `{"event_id":"s","tank":"A","source":"flow","skips":[[2,4]],"skips_epoch":1,"occurred_at":` + ago(80) + `}`, "applied", false})
			}
			r.send("measured", `{"event_id":"m","tank":"A","remaining":40,"occurred_at":`+ago(60)+`}`)
			r.want("complete", r.doc("A").Complete, false)
			r.send("measured", `{"event_id":"n","tank":"A","remaining":40,"occurred_at":`+ago(5)+`}`)
			r.want("healed", r.doc("A").Complete, true)
		})
	}
}

func TestConflictsUnderNumbersOfTheirOwn(t *testing.T) {
	first := step{"consumed", consumed(1, 1, 5), "applied", false}
	moved := step{"consumed", strings.Replace(consumed(1, 4, 5), `"dev/1/A/000000000004"`, `"dev/1/A/000000000001"`, 1), "conflict", false}
	baseline := func(id string) step {
		return step{"measured", `{"event_id":"` + id + `","tank":"A","remaining":40,"occurred_at":` + ago(5) + `}`, "applied", false}
	}
	t.Run("the same contradiction again changes nothing", func(t *testing.T) {
		r := newRig(t)
		r.play(first, moved, baseline("m"), moved)
		r.want("quality", r.doc("A").Quality, "good")
	})
	t.Run("another one raises doubt again", func(t *testing.T) {
		r := newRig(t)
		other := step{"consumed", strings.Replace(consumed(1, 1, 6), `"tank":"A"`, `"tank":"B"`, 1), "conflict", false}
		r.play(first, moved, baseline("m"), other)
		r.want("quality", r.doc("A").Quality, "suspect")
	})
	t.Run("what it claims to stand for has arrived", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"consumed", consumed(1, 8, 5), "applied", false}, step{"consumed", consumed(1, 8, 6), "conflict", false},
			step{"consumed", standsFor(6, 8, 7), "conflict", false})
		sources, err := r.l.Sources()
		if err != nil {
			t.Fatal(err)
		}
		r.want("missing", sources[0].Streams[0].Missing, "[[1 5]]")
	})
}

// A tank that only the config of one ledger knows, or only a reversal that went
// astray, makes no other digest.
func TestDigestLeavesEmptyTanksOut(t *testing.T) {
	r1, r2 := newRig(t, Tank{ID: "A"}), newRig(t, Tank{ID: "A"}, Tank{ID: "B"})
	for _, r := range []*rig{r1, r2} {
		r.play(step{"consumed", consumed(1, 1, 5), "applied", false})
	}
	s1, err1 := r1.l.Status()
	s2, err2 := r2.l.Status()
	if err1 != nil || err2 != nil || s1.Digest != s2.Digest {
		t.Errorf("digests %s and %s, %v, %v", s1.Digest, s2.Digest, err1, err2)
	}
}

// The repair of a conflict makes ledgers equal that met it in different order.
func TestEveryOrderOfARepairedConflict(t *testing.T) {
	set := deliveries(t, [][2]string{
		{"measured", `{"event_id":"m","tank":"A","remaining":90,"occurred_at":` + ago(90) + `}`},
		{"consumed", `{"event_id":"c","tank":"A","source":"s","amount":5,"occurred_at":` + ago(60) + `}`},
		{"consumed", `{"event_id":"c","tank":"A","source":"s","amount":7,"occurred_at":` + ago(50) + `}`},
		{"reversed", `{"event_id":"x","tank":"A","reverses":"c","reverses_source":"s","occurred_at":` + ago(40) + `}`},
		{"consumed", `{"event_id":"d","tank":"A","amount":6,"occurred_at":` + ago(60) + `}`},
		{"measured", `{"event_id":"n","tank":"A","remaining":80,"occurred_at":` + ago(30) + `}`}})
	statesInEveryOrder(t, newRigIn(t, memoryDir(t)), set, false)
}

// FC-29, what the alarm rests on: a gap is there at once, closes by arrival and by
// nothing else, and never by time.
func TestFC29GapsCloseByArrivalAlone(t *testing.T) {
	r := newRig(t)
	missing := func() string {
		sources, err := r.l.Sources()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(sources[0].Streams[0].Missing)
	}
	for _, c := range []struct {
		seq  int
		want string
	}{{1, "[]"}, {2, "[]"}, {4, "[[3 3]]"}, {3, "[]"}, {5, "[]"}, {7, "[[6 6]]"}} {
		r.send("consumed", consumed(1, c.seq, 1))
		r.want(fmt.Sprint("missing after ", c.seq), missing(), c.want)
	}
	r.clk.now = r.clk.now.AddDate(1, 0, 0)
	r.reopen()
	r.want("a year later", missing(), "[[6 6]]")
	r.want("totals complete", r.doc("A").TotalsComplete, false)
}

// FC-35, what alarms rest on: a backlog is told from what is measured now by
// measured_at and stale, and a late point moves nothing.
func TestFC35HistoryIsNotLive(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Capacity: *grams(100)})
	point := func(seq, level, seconds int) step {
		return step{"measured", fmt.Sprintf(`{"event_id":"p%d","tank":"A","source":"dev","epoch":1,"seq":%d,"remaining":%d,"occurred_at":%s}`,
			seq, seq, level, ago(seconds)), "applied", false}
	}
	for seq := 1; seq <= 50; seq++ {
		r.play(point(seq, 5, 7200-seq))
		if doc := r.doc("A"); !doc.Stale || !doc.MeasuredAt.Equal(noon.Add(time.Duration(seq-7200)*time.Second)) {
			t.Fatalf("point %d: stale %v, measured at %v", seq, doc.Stale, doc.MeasuredAt)
		}
	}
	late := point(52, 5, 3600)
	r.play(point(53, 80, 0))
	late.want = "stale"
	r.play(late)
	r.want("stale", r.doc("A").Stale, false)
	r.want("level", *r.doc("A").LevelPercent, 80)
}

// FC-46: a board boots in 1970. What it says without a clock is placed by age, in
// the order of its numbers, and 1970 is seen nowhere.
func TestFC46BootIn1970(t *testing.T) {
	r := newRig(t)
	point := func(seq, level, age int) string {
		return fmt.Sprintf(`{"event_id":"p%d","tank":"A","source":"dev","epoch":1,"seq":%d,"remaining":%d,"occurred_at":"1970-01-01T00:00:%d0Z","clock":"unsynced","age":%d}`,
			seq, seq, level, seq, age)
	}
	r.play(step{"measured", point(2, 80, 20), "applied", false}, step{"measured", point(1, 90, 30), "stale", false},
		step{"measured", point(3, 70, 10), "applied", false})
	r.want("balance", r.balance("A"), "70 g")
	r.want("measured at", r.doc("A").MeasuredAt.Truncate(time.Second), noon.Add(-10*time.Second))
	r.want("occurred at", r.doc("A").Baseline.OccurredAt == nil, true)
	rows, err := r.l.Events("A", 10)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if row.Stamp.Year() != noon.Year() || !row.ByReceipt || row.OccurredAt != nil {
			t.Errorf("%s is placed at %v, by receipt %v, with occurred_at %v", row.EventID, row.Stamp, row.ByReceipt, row.OccurredAt)
		}
	}
}

// FC-47: a board boots with a plausible clock that is behind. Said to be unsynced
// it decides nothing: numbers do.
func TestFC47ClockBehindAfterABoot(t *testing.T) {
	r := newRig(t)
	r.play(step{"measured", `{"event_id":"a","tank":"A","source":"dev","epoch":1,"seq":1,"remaining":90,"occurred_at":` + ago(5) + `}`, "applied", false},
		step{"measured", `{"event_id":"b","tank":"A","source":"dev","epoch":2,"seq":1,"remaining":80,"occurred_at":` + ago(600) + `,"clock":"unsynced"}`, "applied", false})
	r.want("balance", r.balance("A"), "80 g")
	sources, err := r.l.Sources()
	if err != nil {
		t.Fatal(err)
	}
	r.want("clock", sources[0].Clock, "unsynced")
}

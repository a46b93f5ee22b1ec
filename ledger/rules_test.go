package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oxyd/internal/event"
)

// step is one delivery of a story and what must come of it.
type step struct {
	leaf, msg string
	want      string // outcome, or outcome/reason
	retained  bool
}

func (r *rig) play(steps ...step) {
	r.t.Helper()
	for _, s := range steps {
		res := r.sendAs(s.leaf, s.msg, s.retained)
		got := res.Outcome.String()
		if res.Reason != "" && res.Outcome == Quarantined {
			got += "/" + string(res.Reason)
		}
		if got != s.want {
			r.t.Errorf("%s %s: got %s, want %s", s.leaf, s.msg, got, s.want)
		}
	}
}

// ago is an instant so many seconds before the tests' noon, as a JSON string.
func ago(seconds int) string {
	return fmt.Sprintf("%q", noon.Add(-time.Duration(seconds)*time.Second).Format(time.RFC3339Nano))
}

func (r *rig) with(change func(*Options)) *rig {
	change(&r.opt)
	r.reopen()
	return r
}

func TestLimits(t *testing.T) {
	t.Run("tanks", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxTanks = 1 })
		r.play(step{"measured", `{"event_id":"1","tank":"A","remaining":1}`, "applied", false},
			step{"measured", `{"event_id":"2","tank":"B","remaining":1}`, "quarantined/limit", false},
			step{"measured", `{"event_id":"3","tank":"A","remaining":2}`, "applied", false})
	})
	t.Run("sources, and the outcome sticks", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxSources = 1 })
		second := step{"consumed", `{"event_id":"b","source":"s2","tank":"A","amount":5}`, "quarantined/limit", false}
		r.play(step{"consumed", `{"event_id":"a","source":"s1","tank":"A","amount":5}`, "applied", false}, second, second)
		r.with(func(o *Options) { o.MaxSources = 10 }).play(second,
			step{"consumed", `{"event_id":"c","source":"s2","tank":"A","amount":5}`, "applied", false}, second)
		r.want("total", r.doc("A").Totals.Consumed, "10 g")
	})
	t.Run("sources of a tank", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxTankSources = 1 })
		r.play(step{"consumed", `{"event_id":"a","source":"s1","tank":"A","amount":5}`, "applied", false},
			step{"consumed", `{"event_id":"a","source":"s2","tank":"A","amount":5}`, "quarantined/limit", false},
			step{"consumed", `{"event_id":"a","source":"s2","tank":"B","amount":5}`, "conflict", false},
			step{"consumed", `{"event_id":"b","source":"s2","tank":"B","amount":5}`, "applied", false})
	})
	t.Run("parked", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxParked = 1 })
		r.play(step{"reversed", `{"event_id":"r0","tank":"A","reverses":"never"}`, "parked", false},
			step{"reversed", `{"event_id":"r1","tank":"A","reverses":"never either"}`, "quarantined/limit", false},
			step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "applied", false},
			step{"reversed", `{"event_id":"r2","tank":"A","reverses":"c"}`, "applied", false}, // needs no parking
			step{"consumed", `{"event_id":"never","tank":"A","amount":5}`, "already_done", false},
			step{"reversed", `{"event_id":"r3","tank":"A","reverses":"room again"}`, "parked", false})
	})
	t.Run("refused strangers take no source's place", func(t *testing.T) {
		r := newRig(t, Tank{ID: "A"}).with(func(o *Options) { o.MaxSources, o.Closed = 2, true })
		for i := range 5 {
			r.play(step{"consumed", fmt.Sprintf(`{"event_id":"a","source":"junk%d","tank":"Z","amount":5}`, i), "quarantined/unknown_tank", false})
		}
		r.play(step{"consumed", `{"event_id":"a","source":"real","tank":"A","amount":5}`, "applied", false})
	})
}

func TestClosedRefusesWhatTheConfigDoesNotList(t *testing.T) {
	r := newRig(t, Tank{ID: "A"})
	r.play(step{"consumed", `{"event_id":"a","tank":"B","amount":5}`, "applied", false})
	r.with(func(o *Options) { o.Closed = true }).play(
		step{"consumed", `{"event_id":"b","tank":"B","amount":5}`, "quarantined/unknown_tank", false},
		step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "applied", false})
}

func TestWindowOfUnnumberedEvents(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.DedupWindow = time.Hour })
	r.clk.now = noon
	r.play(step{"consumed", `{"event_id":"in","tank":"A","amount":1,"occurred_at":` + ago(3599) + `}`, "applied", false},
		step{"consumed", `{"event_id":"out","tank":"A","amount":1,"occurred_at":` + ago(3601) + `}`, "quarantined/older_than_window", false},
		step{"consumed", `{"event_id":"n","tank":"A","source":"dev","epoch":1,"seq":1,"amount":1,"occurred_at":` + ago(9999) + `}`, "applied", false})
}

// Once the clock has run ahead, receipt instants stay there; what is now, the
// clock says.
func TestClockSetBackDoesNotJudgeByReceipts(t *testing.T) {
	r := newRig(t)
	r.clk.now = noon.AddDate(10, 0, 0)
	r.play(step{"consumed", `{"event_id":"c0","tank":"A","amount":5}`, "applied", false})
	r.clk.now = noon
	r.reopen()
	r.play(step{"consumed", `{"event_id":"c1","tank":"A","amount":5,"occurred_at":` + ago(0) + `}`, "applied", false},
		step{"measured", `{"event_id":"m1","tank":"B","remaining":7,"occurred_at":` + ago(-3600*24*365*9) + `}`, "applied", false},
		step{"measured", `{"event_id":"m2","tank":"B","remaining":9}`, "applied", false})
	r.want("a stamp nine years ahead is not believed", r.balance("B"), "9 g")
}

func TestUsableStamps(t *testing.T) {
	for _, c := range []struct {
		what, fields string
		usable       bool
	}{
		{"now", `"occurred_at":` + ago(0), true},
		{"10 s ahead", `"occurred_at":` + ago(-10), true},
		{"more than 10 s ahead", `"occurred_at":` + ago(-11), false},
		{"2020", `"occurred_at":"2020-01-01T00:00:00Z"`, true},
		{"before 2020", `"occurred_at":"2019-12-31T23:59:59.999999999Z"`, false},
		{"unsynced", `"occurred_at":` + ago(0) + `,"clock":"unsynced"`, false},
		{"none", `"quality":"good"`, false},
		{"beyond 64 bits", `"occurred_at":"9999-01-01T00:00:00Z"`, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t).with(func(o *Options) { o.DedupWindow = 1 << 62 })
			r.clk.now = noon
			r.play(step{"measured", `{"event_id":"m","tank":"A","remaining":5,` + c.fields + `}`, "applied", false},
				step{"consumed", `{"event_id":"c","tank":"A","amount":1,` + c.fields + `}`, map[bool]string{true: "late", false: "applied"}[c.usable], false})
		})
	}
}

// A receipt stamp less the age; above every stamp so far without one; and just
// below the next number that has come.
func TestReceiptStamps(t *testing.T) {
	aged := func(seconds int) string { return fmt.Sprintf(`"clock":"unsynced","age":%d}`, seconds) }
	t.Run("age", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"m","tank":"A","remaining":50,` + aged(60), "applied", false},
			step{"consumed", `{"event_id":"before","tank":"A","amount":1,` + aged(61), "late", false},
			step{"consumed", `{"event_id":"after","tank":"A","amount":1,` + aged(59), "applied", false})
		r.want("by receipt", r.doc("A").SinceBaseline.ByReceipt, 1)
	})
	t.Run("above every stamp so far", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"m","tank":"A","remaining":50,"occurred_at":` + ago(-9) + `}`, "applied", false},
			step{"consumed", `{"event_id":"c","tank":"A","amount":1}`, "applied", false}) // received 9 s before the stamp of m
		r.want("balance", r.balance("A"), "49 g")
	})
	t.Run("a number that comes late", func(t *testing.T) {
		r := newRig(t)
		number := func(id string, seq int, rest string) string {
			return fmt.Sprintf(`{"event_id":%q,"tank":"A","source":"dev","epoch":1,"seq":%d,%s}`, id, seq, rest)
		}
		r.play(step{"consumed", number("two", 2, `"amount":1,"occurred_at":`+ago(100)), "applied", false},
			step{"measured", `{"event_id":"m","tank":"A","source":"other","remaining":50,"occurred_at":` + ago(50) + `}`, "applied", false},
			step{"consumed", number("one", 1, `"amount":1,"clock":"unsynced","age":1`), "late", false},
			step{"consumed", number("three", 3, `"amount":1,"clock":"unsynced","age":1`), "applied", false})
	})
	t.Run("refused numbers keep their own time", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"m","tank":"A","source":"x","remaining":100,"occurred_at":` + ago(60) + `}`, "applied", false},
			step{"reversed", `{"event_id":"six","tank":"A","source":"dev","epoch":1,"seq":6,"reverses":"m","reverses_source":"x","occurred_at":` + ago(3600) + `}`, "quarantined/not_reversible", false},
			step{"consumed", `{"event_id":"five","tank":"A","source":"dev","epoch":1,"seq":5,"amount":1,"clock":"unsynced"}`, "late", false})
	})
}

func TestEpochs(t *testing.T) {
	old := func(seq int, rest string) string {
		return fmt.Sprintf(`{"event_id":"o%d","tank":"A","source":"dev","epoch":3,"seq":%d,"amount":1%s}`, seq, seq, rest)
	}
	r := newRig(t)
	r.play(step{"measured", measured(5, 1, 100), "applied", false},
		step{"consumed", old(1, `,"clock":"unsynced"`), "quarantined/old_epoch", false},
		step{"consumed", old(2, `,"clock":"unsynced"`), "quarantined/old_epoch", false}, // the refused one made nothing known
		step{"consumed", old(3, `,"occurred_at":`+ago(60)), "late", false},
		step{"consumed", old(4, `,"clock":"unsynced"`), "late", false}) // now it is known
	r.play(step{"consumed", `{"event_id":"z","tank":"A","source":"dev","epoch":9007199254740991,"seq":1,"v":2}`, "quarantined/unsupported_version", false},
		step{"consumed", `{"event_id":"n","tank":"A","source":"dev","epoch":6,"seq":1,"amount":1,"clock":"unsynced","age":3}`, "applied", false})
	sources, err := r.l.Sources()
	if err != nil || sources[0].NewestEpoch != 6 {
		t.Errorf("sources: %+v, %v", sources, err)
	}
}

func TestStandsFor(t *testing.T) {
	run := func(from, seq int) string {
		return strings.Replace(consumed(1, seq, 7), `"amount"`, fmt.Sprintf(`"stands_for":[%d,%d],"amount"`, from, seq), 1)
	}
	r := newRig(t)
	r.play(step{"consumed", run(1, 5), "applied", false}, step{"consumed", run(1, 5), "duplicate", false},
		step{"consumed", consumed(1, 3, 1), "duplicate", false}, // within the run: its content is gone
		step{"consumed", run(4, 8), "quarantined/overlap", false},
		step{"consumed", run(9, 9), "applied", false})
	s, err := r.l.Status()
	if err != nil {
		t.Fatal(err)
	}
	r.want("unverified", s.Unverified, 1)
	r.want("total", r.doc("A").Totals.Consumed, "14 g")
}

func TestReversals(t *testing.T) {
	c := step{"consumed", `{"event_id":"c","tank":"A","amount":5,"occurred_at":` + ago(10) + `}`, "applied", false}
	x := step{"reversed", `{"event_id":"x","tank":"A","reverses":"c","occurred_at":` + ago(5) + `}`, "applied", false}
	y := step{"reversed", `{"event_id":"y","tank":"A","reverses":"c","occurred_at":` + ago(4) + `}`, "already_done", false}
	m := step{"measured", `{"event_id":"m","tank":"A","remaining":50,"occurred_at":` + ago(20) + `}`, "applied", false}
	as := func(s step, want string) step { s.want = want; return s }
	for name, steps := range map[string][]step{
		"in order": {m, c, x, y}, "twice, before the original": {as(x, "parked"), as(y, "parked"), m, as(c, "already_done")},
		"between": {as(x, "parked"), as(c, "already_done"), as(y, "already_done"), m},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.play(steps...)
			doc := r.doc("A")
			r.want("balance", orNull(doc.Balance), "50 g")
			r.want("total", doc.Totals.Consumed, "0 g")
			r.want("as of", *doc.AsOf, noon.Add(-20*time.Second))
			s, _ := r.l.Status()
			r.want("parked", s.Parked, 0)
		})
	}
	t.Run("of a delta inside the baseline", func(t *testing.T) {
		r := newRig(t)
		late := step{"measured", `{"event_id":"m2","tank":"A","remaining":40,"occurred_at":` + ago(1) + `}`, "applied", false}
		r.play(m, c, late, as(x, "late"))
		r.want("balance", r.balance("A"), "40 g")
		r.want("discrepancy", orNull(r.doc("A").Discrepancy), "-10 g")
	})
	t.Run("only within the tank", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"reversed", `{"event_id":"w","tank":"B","reverses":"c"}`, "parked", false}, c)
		r.want("total", r.doc("A").Totals.Consumed, "5 g")
		r.play(step{"reversed", `{"event_id":"w2","tank":"B","reverses":"c"}`, "quarantined/not_reversible", false})
	})
	t.Run("of itself", func(t *testing.T) {
		newRig(t).play(step{"reversed", `{"event_id":"x","tank":"A","reverses":"x"}`, "quarantined/not_reversible", false})
	})
	t.Run("of what is no delta, before and after it", func(t *testing.T) {
		x := step{"reversed", `{"event_id":"x","tank":"A","reverses":"m","occurred_at":` + ago(5) + `}`, "", false}
		r1, r2 := newRig(t), newRig(t)
		r1.play(as(x, "parked"), m)
		r2.play(m, as(x, "quarantined/not_reversible"))
		s1, _ := r1.l.Status()
		s2, _ := r2.l.Status()
		r1.want("facts", s1.Facts, s2.Facts)
		r1.want("parked", s1.Parked, 0)
	})
}

func TestOperations(t *testing.T) {
	op := func(id, source string, amount, seconds int) step {
		return step{"consumed", fmt.Sprintf(`{"event_id":%q,"tank":"A","source":%q,"amount":%d,"operation":"o","occurred_at":%s}`, id, source, amount, ago(seconds)), "", false}
	}
	early, late, tie := op("a", "s", 1, 9), op("b", "s", 2, 5), op("c", "s-1", 4, 9)
	for _, order := range [][]step{{early, late, tie}, {late, tie, early}, {tie, late, early}} {
		r := newRig(t)
		for _, s := range order {
			r.send(s.leaf, s.msg)
		}
		r.want("the earliest stamp, then the lesser source", r.doc("A").Totals.Consumed, "1 g")
		r.send("consumed", strings.Replace(late.msg, `"operation":"o"`, `"operation":"o2"`, 1)) // same id, other content
		r.send("refilled", op("d", "s", 8, 9).msg)
		r.want("another type is another operation", r.doc("A").Totals.Refilled, "8 g")
	}
}

func TestIdentitiesThatLookLikeNumbers(t *testing.T) {
	squat := `{"event_id":"dev/1/A/000000000007","tank":"A","source":"dev","amount":3,"occurred_at":` + ago(60) + `}`
	r := newRig(t)
	r.play(step{"consumed", squat, "applied", false}, step{"consumed", consumed(1, 7, 5), "conflict", false},
		step{"consumed", consumed(1, 7, 5), "conflict", false}, step{"consumed", squat, "duplicate", false})
	r.want("total", r.doc("A").Totals.Consumed, "3 g")

	r = newRig(t)
	r.play(step{"consumed", consumed(1, 7, 5), "applied", false}, step{"consumed", squat, "conflict", false},
		step{"consumed", consumed(1, 7, 5), "duplicate", false})
	r.want("total", r.doc("A").Totals.Consumed, "5 g")
}

func TestConflictsThatComeAgain(t *testing.T) {
	t.Run("an identity that is used for another number later", func(t *testing.T) {
		mine := func(seq int) string {
			return strings.Replace(consumed(1, seq, 5), fmt.Sprintf(`"dev/1/A/%012d"`, seq), `"mine"`, 1)
		}
		r := newRig(t)
		r.play(step{"consumed", consumed(1, 1, 5), "applied", false}, step{"consumed", mine(1), "conflict", false},
			step{"consumed", mine(2), "applied", false}, step{"consumed", mine(1), "conflict", false})
	})
	t.Run("a repaired tank stays repaired", func(t *testing.T) {
		r := newRig(t, Tank{ID: "A", Initial: grams(847)})
		other := step{"consumed", `{"event_id":"e","tank":"A","amount":12}`, "conflict", false}
		r.play(step{"consumed", `{"event_id":"e","tank":"A","amount":120}`, "applied", false}, other,
			step{"measured", `{"event_id":"m","tank":"A","remaining":700}`, "applied", false})
		revision := r.doc("A").Revision
		r.play(other)
		r.want("quality", r.doc("A").Quality, "good")
		r.want("revision", r.doc("A").Revision, revision)
	})
	t.Run("an older baseline repairs nothing", func(t *testing.T) {
		c := func(g int) string {
			return fmt.Sprintf(`{"event_id":"c","tank":"A","amount":%d,"occurred_at":%s}`, g, ago(10))
		}
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"m0","tank":"A","remaining":100,"occurred_at":` + ago(60) + `}`, "applied", false},
			step{"consumed", c(1), "applied", false}, step{"consumed", c(2), "conflict", false},
			step{"measured", `{"event_id":"m1","tank":"A","remaining":100,"occurred_at":` + ago(30) + `}`, "applied", false})
		r.want("quality", r.doc("A").Quality, "suspect")
	})
	t.Run("evicted, it costs no journal row each", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.QuarantineBytes = 400 })
		r.send("consumed", `{"event_id":"e","tank":"A","amount":120}`)
		before, _ := r.l.Status()
		for range 10 {
			for g := range 3 {
				r.send("consumed", fmt.Sprintf(`{"event_id":"e","tank":"A","amount":%d}`, g+1))
			}
		}
		after, _ := r.l.Status()
		r.want("journal rows", after.Revision-before.Revision, 1)
	})
	t.Run("in two tanks", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"consumed", `{"event_id":"c","tank":"A","source":"s","amount":5}`, "applied", false},
			step{"consumed", `{"event_id":"x","tank":"B","source":"s","amount":5}`, "applied", false},
			step{"consumed", `{"event_id":"c","tank":"B","source":"s","amount":5}`, "conflict", false})
		r.want("A", r.doc("A").Quality, "suspect")
		r.want("B", r.doc("B").Quality, "suspect")
	})
}

// A retained snapshot without time of its own counts only where there is nothing
// else, also within its own numbered stream.
func TestTimelessRetainedSnapshotComesFirst(t *testing.T) {
	r := newRig(t)
	r.play(step{"measured", `{"event_id":"x","tank":"A","source":"other","remaining":500,"occurred_at":` + ago(3600) + `}`, "applied", false},
		step{"measured", `{"event_id":"n5","tank":"A","source":"dev","epoch":1,"seq":5,"remaining":100,"occurred_at":` + ago(5) + `}`, "applied", false},
		step{"measured", `{"event_id":"n6","tank":"A","source":"dev","epoch":1,"seq":6,"remaining":7}`, "stale", true})
	r.want("balance", r.balance("A"), "100 g")
}

func TestDocument(t *testing.T) {
	t.Run("without a baseline", func(t *testing.T) {
		r := newRig(t, Tank{ID: "A", Initial: grams(100)})
		r.play(step{"consumed", `{"event_id":"c","tank":"A","amount":5,"quality":"suspect"}`, "applied", false})
		r.want("events", r.doc("A").SinceBaseline, "{5 g 0 g 1 1}")
		r.want("quality", r.doc("A").Quality, "suspect")
	})
	t.Run("overdrawn is applied and said", func(t *testing.T) {
		r := newRig(t, Tank{ID: "A", Initial: grams(3)})
		r.play(step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "applied", false})
		r.want("balance", r.balance("A"), "-2 g")
		r.want("flags", r.doc("A").Flags, "[overdrawn]")
	})
	t.Run("covers that go back", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"p","tank":"A","remaining":100,"occurred_at":` + ago(60) + `,"covers":{"dev":[1,20]}}`, "applied", false},
			step{"measured", `{"event_id":"l","tank":"A","remaining":100,"occurred_at":` + ago(40) + `}`, "applied", false},
			step{"consumed", `{"event_id":"x","tank":"A","source":"dev","epoch":1,"seq":1,"amount":7,"occurred_at":` + ago(10) + `}`, "applied", false})
		r.want("discrepancy", orNull(r.doc("A").Discrepancy), "0 g")
	})
	t.Run("a skip that came in part", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", measured(1, 1, 100), "applied", false},
			step{"skipped", `{"event_id":"s","tank":"A","source":"dev","skips":[[2,3]],"skips_epoch":1,"occurred_at":` + ago(5) + `}`, "applied", false})
		r.want("complete", r.doc("A").Complete, false)
		r.play(step{"measured", measured(1, 3, 90), "applied", false})
		r.want("complete: 2 is before the baseline", r.doc("A").Complete, true)
		r.want("totals", r.doc("A").TotalsComplete, false)
		r.play(step{"consumed", consumed(1, 2, 4), "late", false}) // skipped is not seen: it is new
		r.want("totals", r.doc("A").TotalsComplete, true)
	})
	t.Run("a gap of another source", func(t *testing.T) {
		r := newRig(t)
		meter := func(seq, seconds int) step {
			return step{"consumed", fmt.Sprintf(`{"event_id":"f%d","tank":"A","source":"flow","epoch":1,"seq":%d,"amount":1,"occurred_at":%s}`, seq, seq, ago(seconds)), "applied", false}
		}
		r.play(step{"measured", `{"event_id":"m","tank":"A","source":"x","remaining":100,"occurred_at":` + ago(60) + `}`, "applied", false}, meter(1, 50), meter(3, 40))
		r.want("2 may lie after the baseline", r.doc("A").Complete, false)
		r.play(step{"measured", `{"event_id":"m2","tank":"A","source":"x","remaining":90,"occurred_at":` + ago(30) + `}`, "applied", false})
		r.want("2 lies before 3, which is before the new one", r.doc("A").Complete, true)
	})
}

func TestQuarantineOfHugeMessages(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.QuarantineBytes = 64 << 10 })
	r.play(step{"consumed", strings.Repeat("x", 8<<20), "quarantined/too_large", false})
	list, err := r.l.Quarantine(1)
	if err != nil || len(list[0].Payload) != event.MaxBytes || !strings.Contains(list[0].Detail, "of 8388608 bytes") {
		t.Errorf("kept %d bytes, %q, %v", len(list[0].Payload), list[0].Detail, err)
	}
	for _, id := range []string{list[0].ID, list[0].ID[:7]} {
		if k, ok, err := r.l.KeptByID(id); !ok || err != nil || k.ID != list[0].ID {
			t.Errorf("by %q: %v %v", id, ok, err)
		}
	}
	for _, id := range []string{"", "zz", list[0].ID[:5], list[0].ID + "00", strings.Repeat("0", 32)} {
		if _, ok, err := r.l.KeptByID(id); ok || err != nil {
			t.Errorf("by %q: %v %v", id, ok, err)
		}
	}
}

// Topic and payload are told apart in what a message is kept by.
func TestQuarantineKeysDoNotCollide(t *testing.T) {
	r := newRig(t)
	form := &event.FormError{Reason: event.Malformed}
	if _, err := r.l.Apply([]Delivery{{Form: form, Topic: "t", Payload: []byte("{")}, {Form: form, Topic: "t{"}}); err != nil {
		t.Fatal(err)
	}
	if list, _ := r.l.Quarantine(9); len(list) != 2 {
		t.Errorf("%d kept, want 2", len(list))
	}
}

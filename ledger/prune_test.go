package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/event"
)

// newPruning is a ledger with a window of one hour and a history of two.
func newPruning(t *testing.T, tanks ...Tank) *rig {
	return newRigIn(t, memoryDir(t), tanks...).with(func(o *Options) { o.DedupWindow, o.History = testWindow, testHistory })
}

// later lets the time pass and prunes until nothing more goes.
func (r *rig) later(d time.Duration) (went int) {
	r.t.Helper()
	r.clk.now = r.clk.now.Add(d)
	for idle := 0; idle < 3; idle++ {
		n, err := r.l.Prune(1000)
		if err != nil {
			r.t.Fatalf("prune: %v", err)
		}
		if went += n; n > 0 {
			idle = 0
		}
	}
	if err := r.l.Check(); err != nil {
		r.t.Fatalf("check after pruning: %v", err)
	}
	return went
}

// numbered is a message of a source that numbers, so many seconds before noon; 0 is no
// time at all.
func numberedOf(source string, seq int, rest string, seconds int) string {
	at := ""
	if seconds != 0 {
		at = `,"occurred_at":` + ago(seconds)
	}
	return fmt.Sprintf(`{"event_id":%q,"tank":"A","source":%q,"epoch":1,"seq":%d,%s%s}`,
		event.NodeID(source, 1, "A", uint64(seq)), source, seq, rest, at)
}

func (r *rig) consume(source string, from, to, seconds int) {
	r.t.Helper()
	for seq := from; seq <= to; seq++ {
		r.send("consumed", numberedOf(source, seq, `"amount":1`, seconds-seq+from))
	}
}

// FC-23: whatever is pruned, a number is recognised for ever.
func TestFC23PrunedNumbersAreRecognised(t *testing.T) {
	r := newRigIn(t, memoryDir(t)) // with the default history of 30 days
	for seq := 1; seq <= 20; seq++ {
		r.send("consumed", consumed(1, seq, 2))
	}
	if went := r.later(31 * 24 * time.Hour); went != 18 { // the first and the newest one stay
		t.Errorf("%d went, want 18", went)
	}
	r.reopen()
	r.want("C(7) a month later", r.send("consumed", consumed(1, 7, 2)).Outcome, Duplicate)
	r.want("total", r.doc("A").Totals.Consumed, "40 g")
	s, _ := r.l.Status()
	r.want("unverified", s.Unverified, 1)
	list, next, done, err := r.l.Journal(Query{Tank: "A", Limit: 100})
	if err != nil || len(list) != 2 || !done || next != 20 || list[0].Seq != 1 || list[1].Seq != 20 {
		t.Errorf("journal: %+v, %d, %v, %v", list, next, done, err)
	}
	if list, err = r.l.Events("A", 5); err != nil || len(list) != 2 || list[0].Seq != 20 {
		t.Errorf("events: %+v, %v", list, err)
	}
}

func TestHistoryShorterThanTheWindow(t *testing.T) {
	_, err := Open(Options{Path: t.TempDir() + "/l", DedupWindow: 2 * time.Hour, History: time.Hour, Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "1h0m0s") || !strings.Contains(err.Error(), "2h0m0s") {
		t.Errorf("open: %v, want both figures", err)
	}
}

// An event without a number whose mark is gone is refused, also by a clock that was
// set back and takes its time for the future.
func TestFloorOutlastsTheClock(t *testing.T) {
	r := newPruning(t, Tank{ID: "A", Initial: grams(100)})
	c := step{"consumed", `{"event_id":"c","tank":"A","amount":5,"occurred_at":` + ago(60) + `}`, "applied", false}
	young := step{"consumed", `{"event_id":"y","tank":"A","amount":1,"occurred_at":` + ago(-3*3600) + `}`, "applied", false}
	r.play(c)
	r.want("went", r.later(3*time.Hour+time.Minute), 1)
	r.play(young)
	c.want = "quarantined/older_than_window"
	r.play(c)
	for _, back := range []time.Duration{30 * time.Minute, 24 * 365 * time.Hour} {
		r.clk.now = noon.Add(-back)
		r.reopen()
		other := c
		other.msg = strings.Replace(c.msg, `"c"`, fmt.Sprintf(`"c%d"`, back), 1)
		r.play(c, other)
		young.want = "duplicate"
		r.play(young)
	}
	r.want("balance", r.balance("A"), "94 g")
}

// The example of the contract: a number seen and pruned comes again with a time from
// behind the floor.
func TestReuseOfAPrunedNumber(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 20, 100)
	run := numberedOf("dev", 30, `"amount":7,"stands_for":[21,30]`, 50)
	r.send("consumed", run)
	r.consume("dev", 31, 40, 40)
	r.later(3 * time.Hour)
	r.want("the same again", r.send("consumed", numberedOf("dev", 5, `"amount":1`, 96)).Outcome, Duplicate)
	r.want("of other content, but old", r.send("consumed", numberedOf("dev", 5, `"amount":3`, 96)).Outcome, Duplicate)
	reused := numberedOf("dev", 5, `"amount":3`, -3600)
	before, _ := r.l.Status()
	for range 2 {
		r.want("younger than the floor", r.send("consumed", reused).Outcome, Conflict)
	}
	after, _ := r.l.Status()
	r.want("journalled once", after.Revision-before.Revision, 1)
	r.want("quality", r.doc("A").Quality, "suspect")
	sources, _ := r.l.Sources()
	r.want("fenced", sources[0].Streams[0].Fenced, true)
	list, _ := r.l.Quarantine(5)
	r.want("kept", len(list), 1)
	r.want("the genuine one is still a duplicate", r.send("consumed", numberedOf("dev", 5, `"amount":1`, 96)).Outcome, Duplicate)
	r.want("total", r.doc("A").Totals.Consumed, "37 g")

	first := newPruning(t) // within a run that is there, a number is a duplicate however young
	first.send("consumed", strings.Replace(run, "21", "1", 1))
	first.consume("dev", 31, 40, 40)
	first.later(3 * time.Hour)
	first.want("within a run", first.send("consumed", numberedOf("dev", 25, `"amount":3`, -3600)).Outcome, Duplicate)
}

// A clock that was believed too late does not make a conflict of a repeat: the instant
// that the event claimed is remembered.
func TestClaimedFuture(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 3, 100)
	ahead := numberedOf("dev", 4, `"amount":1`, -6*3600)
	r.want("by receipt", r.send("consumed", ahead).Outcome, Applied)
	r.consume("dev", 5, 9, 90)
	r.later(7 * time.Hour)
	r.want("its time has come", r.send("consumed", ahead).Outcome, Duplicate)
}

func TestReversalsOfWhatWasPruned(t *testing.T) {
	r := newPruning(t)
	reversal := func(id string, of, seconds int) string {
		return fmt.Sprintf(`{"event_id":%q,"tank":"A","source":"dev","reverses":%q,"occurred_at":%s}`, id, event.NodeID("dev", 1, "A", uint64(of)), ago(seconds))
	}
	r.consume("dev", 1, 10, 100)
	r.play(step{"reversed", reversal("x", 5, 20), "applied", false},
		step{"reversed", reversal("early", 12, 20), "parked", false},
		step{"reversed", reversal("refused", 15, 20), "parked", false})
	r.consume("dev", 11, 14, 19)
	r.send("consumed", numberedOf("dev", 15, `"amount":5,"v":2`, 12)) // its number is taken, its meaning unknown
	r.send("measured", numberedOf("dev", 16, `"remaining":5`, 12))
	list, _ := r.l.Quarantine(1)
	for range 2 {
		r.later(3 * time.Hour)
	}
	s, _ := r.l.Status()
	r.want("parked, as its original is in quarantine", s.Parked, 1)
	for _, of := range []int{5, 6, 12} {
		r.play(step{"reversed", reversal(fmt.Sprint("late", of), of, -6*3600), "quarantined/older_than_window", false})
	}
	r.want("total", r.doc("A").Totals.Consumed, "12 g")
	if err := r.l.update(func(b *batch) error { return b.dropKept(list[0].ID) }); err != nil {
		t.Fatal(err)
	}
	r.later(time.Minute)
	r.later(time.Minute)
	s, _ = r.l.Status()
	r.want("never parked for ever", s.Parked, 0)
}

// dropKept takes a message out of the quarantine.
func (b *batch) dropKept(id string) error {
	limit := b.l.opt.QuarantineBytes
	defer func() { b.l.opt.QuarantineBytes = limit }()
	if _, err := b.keep([32]byte{1}, &Delivery{Payload: []byte("x")}, Kept{Reason: event.Malformed}, 1); err != nil {
		return err
	}
	b.l.opt.QuarantineBytes = 1
	return b.evict()
}

// A conflict goes after the content that it contradicts.
func TestConflictsGoInOrder(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 5, 100)
	r.send("consumed", numberedOf("dev", 6, `"amount":1,"operation":"o"`, 50)) // stays for good
	r.want("other content", r.send("consumed", numberedOf("dev", 6, `"amount":2`, 50)).Outcome, Conflict)
	r.want("other content", r.send("consumed", numberedOf("dev", 4, `"amount":2`, 50)).Outcome, Conflict)
	r.consume("dev", 7, 9, 40)
	r.want("2, 3, 4, 5, 7, 8", r.later(3*time.Hour), 6)
	if err := r.l.update(func(b *batch) error { return b.dropKept("") }); err != nil {
		t.Fatal(err)
	}
	r.want("the conflict over 4", r.later(time.Minute), 1)
	r.want("still known", r.send("consumed", numberedOf("dev", 6, `"amount":1,"operation":"o"`, 50)).Outcome, Duplicate)
}

func TestOperationsAndMarksStay(t *testing.T) {
	r := newPruning(t, Tank{ID: "A", Initial: grams(100)}).with(func(o *Options) { o.MaxMarks = 2 })
	once := `{"event_id":"op","tank":"A","amount":5,"operation":"o","occurred_at":` + ago(60) + `}`
	bare := step{"consumed", `{"event_id":"bare","tank":"A","amount":1}`, "applied", false}
	gauge := step{"measured", `{"event_id":"gauge","tank":"A","remaining":60}`, "applied", false}
	r.play(step{"consumed", once, "applied", false}, bare, gauge,
		step{"consumed", `{"event_id":"third","tank":"A","amount":1}`, "quarantined/limit", false},
		step{"consumed", `{"event_id":"timed","tank":"A","amount":1,"occurred_at":` + ago(-1) + `}`, "applied", false})
	r.want("went", r.later(48*time.Hour), 1) // the one with a time
	bare.want, gauge.want = "duplicate", "duplicate"
	r.play(bare, gauge, step{"consumed", once, "duplicate", false},
		step{"consumed", `{"event_id":"op2","tank":"A","amount":5,"operation":"o","occurred_at":` + ago(-48*3600) + `}`, "already_done", false})
	s, _ := r.l.Status()
	if s.Marks != 2 || s.MarksRefused != 1 || s.KeptForGood != 4 {
		t.Errorf("marks %d, refused %d, kept %d, want 2, 1 and 4", s.Marks, s.MarksRefused, s.KeptForGood)
	}
}

// What refused strangers left in ids counts for no source; the last row that is
// counted must not hide them.
func TestIDsOfRefusedEventsAreFound(t *testing.T) {
	r := newPruning(t, Tank{ID: "A"}).with(func(o *Options) { o.Closed = true })
	msg := func(id, tankID string, seconds int) string {
		return fmt.Sprintf(`{"event_id":%q,"tank":%q,"source":"s","amount":1,"occurred_at":%s}`, id, tankID, ago(seconds))
	}
	for i := range 3 {
		r.send("consumed", msg(fmt.Sprint("junk", i), "Z", 10))
	}
	r.send("consumed", msg("a", "A", 60))
	r.want("went", r.later(2*time.Hour+time.Second), 1)
	r.want("refused again", r.send("consumed", msg("junk1", "Z", 10)).Outcome, Quarantined)
	r.want("another content", r.send("consumed", msg("junk1", "A", 10)).Outcome, Conflict)
}

// A gauge that was away for longer than the history, while what another source
// consumed was pruned: its old readings, in order, make a balance that is said to be
// inexact; the first one that is younger than all that went makes it exact.
func TestGaugeAwayForLongerThanTheHistory(t *testing.T) {
	r := newPruning(t)
	r.send("measured", numberedOf("gauge", 1, `"remaining":1000`, 100))
	r.consume("flow", 1, 50, 90) // one gram a second, from 90 to 41 s before noon
	r.want("went", r.later(3*time.Hour) > 40, true)
	r.want("balance", r.balance("A"), "950 g")

	r.send("measured", numberedOf("gauge", 2, `"remaining":985`, 75)) // after 16 of the 50
	doc := r.doc("A")
	r.want("complete", doc.Complete, false)
	r.want("flags", doc.Flags, "[inexact]")
	r.want("discrepancy", orNull(doc.Discrepancy), "null")
	s, _ := r.l.Status()
	r.want("inexact", s.Inexact, 1)
	r.reopen()
	r.want("after a restart", r.doc("A").Complete, false)

	r.send("measured", numberedOf("gauge", 3, `"remaining":940`, 30)) // after all of them
	doc = r.doc("A")
	r.want("balance", orNull(doc.Balance), "940 g")
	r.want("complete", doc.Complete, true)
	r.want("discrepancy", orNull(doc.Discrepancy), "null") // from an inexact one
	r.consume("flow", 51, 60, -10000)
	r.send("measured", numberedOf("gauge", 4, `"remaining":925`, -10500))
	r.want("discrepancy", orNull(r.doc("A").Discrepancy), "-5 g")
	r.want("balance", r.balance("A"), "925 g")
}

// The same gauge, when its next reading is younger than all that went, is exact at
// once, with its discrepancy.
func TestGaugeComesBackWithANewReading(t *testing.T) {
	r := newPruning(t)
	r.send("measured", numberedOf("gauge", 1, `"remaining":1000`, 100))
	r.consume("flow", 1, 50, 90)
	r.later(3 * time.Hour)
	r.consume("flow", 51, 60, -10000)
	r.send("measured", numberedOf("gauge", 2, `"remaining":940`, -10005)) // flow 57 to 60 are later
	doc := r.doc("A")
	r.want("complete", doc.Complete, true)
	r.want("balance", orNull(doc.Balance), "936 g")
	r.want("discrepancy", orNull(doc.Discrepancy), "-4 g")
}

// The first snapshot of a tank that had none.
func TestFirstSnapshotAfterPruning(t *testing.T) {
	for seconds, want := range map[int]string{80: "inexact", 30: "exact"} {
		t.Run(want, func(t *testing.T) {
			r := newPruning(t, Tank{ID: "A", Initial: grams(1000)})
			r.consume("flow", 1, 50, 90)
			r.later(3 * time.Hour)
			r.want("from the opening amount", r.balance("A"), "950 g")
			r.send("measured", numberedOf("gauge", 1, `"remaining":900`, seconds))
			r.want("complete", r.doc("A").Complete, want == "exact")
		})
	}
}

// A snapshot that covers less of a source than was pruned of it is inexact, and stays
// so while the next ones cover no more.
func TestStaleCovers(t *testing.T) {
	r := newPruning(t)
	r.consume("flow", 1, 50, 90)
	r.later(3 * time.Hour)
	covering := func(seq, upTo int) string {
		return numberedOf("gauge", seq, fmt.Sprintf(`"remaining":900,"covers":{"flow":[1,%d]}`, upTo), -100-seq)
	}
	for seq, want := range []bool{false, false, true} {
		r.send("measured", covering(seq+1, []int{10, 10, 50}[seq]))
		r.want(fmt.Sprint("complete ", seq), r.doc("A").Complete, want)
	}
	r.want("balance", r.balance("A"), "900 g")
	r.send("measured", covering(4, 50))
	r.want("discrepancy", orNull(r.doc("A").Discrepancy), "0 g")
}

// Above a gap nothing goes that a snapshot which fills it would have to count; when two
// newer ones are there, or the source has said that nothing comes, it does.
func TestWhatWaitsAboveAGap(t *testing.T) {
	open := func(t *testing.T) *rig {
		r := newPruning(t)
		r.send("consumed", numberedOf("dev", 1, `"amount":1`, 100))
		r.consume("dev", 3, 30, 90)
		return r
	}
	t.Run("a late snapshot counts them", func(t *testing.T) {
		r := open(t)
		r.want("went", r.later(3*time.Hour), 0)
		r.send("measured", numberedOf("dev", 2, `"remaining":100`, 95))
		r.want("balance", r.balance("A"), "72 g")
		r.want("complete", r.doc("A").Complete, true)
		r.want("went", r.later(time.Hour) > 20, true)
		r.want("balance", r.balance("A"), "72 g")
	})
	t.Run("history", func(t *testing.T) {
		r := open(t)
		r.send("measured", numberedOf("dev", 31, `"remaining":100`, 20))
		r.send("measured", numberedOf("dev", 32, `"remaining":100`, 19))
		r.want("all but the first, the one above the gap and the snapshots", r.later(3*time.Hour), 27)
		r.want("late, just below the number that came", r.send("consumed", numberedOf("dev", 2, `"amount":1`, 0)).Outcome, Late)
		r.want("now the gap is closed", r.later(time.Hour), 1)
	})
	t.Run("declared", func(t *testing.T) {
		r := open(t)
		r.send("skipped", numberedOf("dev", 31, `"skips":[[2,2]]`, 20))
		r.want("went", r.later(3*time.Hour), 27)
		r.want("complete", r.doc("A").TotalsComplete, false)
		r.want("it comes after all", r.send("consumed", numberedOf("dev", 2, `"amount":1`, 95)).Outcome, Applied)
		r.want("total", r.doc("A").Totals.Consumed, "30 g")
	})
}

// A clock that ran ahead for a while makes the receipts say nothing: stamps decide,
// and what is young by them stays.
func TestReceiptsAheadOfTheClock(t *testing.T) {
	r := newPruning(t)
	r.clk.now = noon.AddDate(10, 0, 0)
	r.consume("ahead", 1, 3, 100)
	r.clk.now = noon
	r.reopen()
	r.consume("dev", 1, 10, 100)
	r.later(time.Minute)
	r.want("young by their stamps", r.send("consumed", numberedOf("dev", 5, `"amount":2`, 96)).Outcome, Conflict)
	r.want("went", r.later(3*time.Hour) >= 7, true)
}

// What cannot be read any more is kept for the check to show, and stops nobody.
func TestDamagedRowsStay(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 10, 100)
	if err := r.l.update(func(b *batch) error {
		row := bytes.Clone(b.journal.Get(lsnKey(4)))
		row[len(row)-1] ^= 1
		return b.journal.Put(lsnKey(4), row)
	}); err != nil {
		t.Fatal(err)
	}
	r.clk.now = r.clk.now.Add(3 * time.Hour)
	if n, err := r.l.Prune(100); err != nil || n != 7 {
		t.Errorf("%d went, %v, want 7", n, err)
	}
	r.want("applied", r.send("consumed", numberedOf("dev", 11, `"amount":1`, 20)).Outcome, Applied)
	if err := r.l.Check(); err == nil {
		t.Error("Check does not show the damaged row")
	}
	if err := r.l.Close(); err != nil {
		t.Error(err)
	}
	r.l = nil
}

// Check holds a pruned file to what pruning has left of the rest.
func TestCheckNoticesSpoiledCarries(t *testing.T) {
	dev := stream{"A", "gauge", numbered}
	firstOld := func(b *batch) (k, v []byte) {
		k, v = b.old.Cursor().First()
		return bytes.Clone(k), bytes.Clone(v)
	}
	for name, spoil := range map[string]func(b *batch, a *account) error{
		"facts":        func(b *batch, a *account) error { b.gone.facts[3]++; return nil },
		"chain":        func(b *batch, a *account) error { b.gone.chain[3]++; return nil },
		"end":          func(b *batch, a *account) error { b.gone.lsn--; return nil },
		"count":        func(b *batch, a *account) error { b.gone.rows++; return nil },
		"waiting":      func(b *batch, a *account) error { b.gone.waiting++; return nil },
		"marks":        func(b *batch, a *account) error { b.gone.marks++; return nil },
		"totals":       func(b *batch, a *account) error { a.gone.consumed = Sum{}; return nil },
		"after":        func(b *batch, a *account) error { a.heads[dev].gone.after = tally{}; return nil },
		"between":      func(b *batch, a *account) error { a.heads[dev].gone.between.events++; return nil },
		"old row gone": func(b *batch, a *account) error { k, _ := firstOld(b); return b.old.Delete(k) },
		"old row": func(b *batch, a *account) error {
			k, v := firstOld(b)
			v[oldHead+chainBytes+2] ^= 1 // of the receipt, which stands nowhere else
			return b.old.Put(k, v)
		},
		"old row's flag": func(b *batch, a *account) error {
			k, v := firstOld(b)
			v[0] ^= oldForGood
			return b.old.Put(k, v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPruning(t, Tank{ID: "A", Initial: grams(100)})
			r.send("measured", numberedOf("gauge", 1, `"remaining":1000`, 200))
			r.consume("flow", 1, 30, 190)
			r.send("measured", numberedOf("gauge", 2, `"remaining":950`, 100))
			r.consume("flow", 31, 50, 90)
			r.later(3 * time.Hour)
			if err := r.l.update(func(b *batch) error {
				a, err := b.account("A")
				if err != nil {
					return err
				}
				a.changed, b.gone.changed = true, true
				return spoil(b, a)
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

// An account that receives for ever stays within its bound and goes on acknowledging:
// what is older than the window makes room when three quarters are used.
func TestTheFileStaysWithinItsBound(t *testing.T) {
	const bound = 4 << 20
	g := &traffic{tanks: 3, seq: make([]uint64, 3), at: noon}
	r := newRigIn(t, memoryDir(t)).with(func(o *Options) {
		o.MaxBytes, o.DedupWindow, o.Now = bound, 5*time.Second, func() time.Time { return g.at }
	})
	events := make([]Delivery, 100)
	for g.n < 60_000 { // one a millisecond, 15 MB
		g.next(events)
		if _, err := r.l.Apply(events); err != nil {
			t.Fatalf("after %d events: %v", g.n, err)
		}
	}
	used, err := r.l.file.Usage()
	if err != nil || used.File > bound {
		t.Errorf("%+v, %v", used, err)
	}
	r.want("complete", r.doc("tank-00").Complete, true)
	r.want("again", r.send("consumed", `{"event_id":"x","tank":"tank-00","amount":1}`).Outcome, Applied)
}

// A file that is full resumes by itself once something is old enough to go.
func TestFullFileMakesRoom(t *testing.T) {
	g := &traffic{tanks: 3, seq: make([]uint64, 3), at: noon}
	r := newRigIn(t, memoryDir(t)).with(func(o *Options) {
		o.MaxBytes, o.DedupWindow, o.Now = 3<<20, time.Hour, func() time.Time { return g.at }
	})
	events := make([]Delivery, 50)
	var err error
	for g.n < 100_000 && err == nil {
		g.next(events)
		_, err = r.l.Apply(events)
	}
	s, _ := r.l.Status()
	if err == nil || !s.Full {
		t.Fatalf("after %d events: full %v, %v", g.n, s.Full, err)
	}
	if _, err := r.l.Prune(100); err != nil {
		t.Fatal(err)
	}
	if s, _ = r.l.Status(); !s.Full {
		t.Error("a prune that found nothing says that there is room")
	}
	g.at = g.at.Add(61 * time.Minute)
	if _, err := r.l.Apply(events); err != nil {
		t.Errorf("after the window: %v", err)
	}
	if s, _ = r.l.Status(); s.Full {
		t.Error("still full")
	}
}

// Pruning is done in slices: two for each delivery and a few.
func TestPruningInSlices(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 500, 1000)
	r.clk.now = r.clk.now.Add(3 * time.Hour)
	last := uint64(0)
	for i := range 40 {
		r.send("consumed", numberedOf("dev", 501+i, `"amount":1`, -3*3600))
		s, _ := r.l.Status()
		if s.Pruned-last > 2+pruneBeside {
			t.Fatalf("%d went beside one delivery", s.Pruned-last)
		}
		last = s.Pruned
	}
	r.want("went", last, 40*(2+pruneBeside)-1)
	if err := r.l.update(func(*batch) error { return errors.New("power gone") }); err == nil {
		t.Fatal("update hid the error")
	}
	s, _ := r.l.Status()
	before := s.Revision
	if n, err := r.l.Prune(0); n != 0 || err != nil {
		t.Errorf("prune nothing: %d, %v", n, err)
	}
	r.want("went by itself", r.later(0), 500-int(last)-1)
	s, _ = r.l.Status()
	r.want("revision", s.Revision, before)
}

// What an operator has had accepted goes like everything else; what was said about it
// stays, and what is still in quarantine keeps its row.
func TestRetriedEventsGo(t *testing.T) {
	r := newPruning(t, Tank{ID: "A"}).with(func(o *Options) { o.Closed = true })
	refused := func(id, amount string) string {
		return fmt.Sprintf(`{"event_id":%q,"tank":"Z","amount":%s,"occurred_at":%s}`, id, amount, ago(60))
	}
	for i, id := range []string{"retried", "discarded", "left"} {
		r.send("consumed", refused(id, fmt.Sprint(i+1)))
	}
	list, err := r.l.Quarantine(5)
	if err != nil || len(list) != 3 {
		t.Fatalf("quarantine: %+v, %v", list, err)
	}
	if _, err := r.l.Retry(list[2].ID, "", "ours"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.l.Discard(list[1].ID, "not ours"); err != nil {
		t.Fatal(err)
	}
	r.want("went", r.later(3*time.Hour), 2)
	r.want("total", r.doc("Z").Totals.Consumed, "1 g")
	for id, want := range map[string]event.Reason{"retried": event.UnknownTank, "discarded": event.UnknownTank, "left": event.UnknownTank} {
		res := r.send("consumed", refused(id, map[string]string{"retried": "1", "discarded": "2", "left": "3"}[id]))
		if res.Outcome != Quarantined || res.Reason != want {
			t.Errorf("%s: %+v, want quarantined as %s", id, res, want)
		}
	}
	d, err := r.l.Retry(list[2].ID, "", "again")
	if !errors.Is(err, ErrNotRetryable) && d.Changed {
		t.Errorf("a second retry: %+v, %v", d, err)
	}
	r.want("total", r.doc("Z").Totals.Consumed, "1 g")
}

// A second content that claims a run accounts for its numbers without an entry; they
// are as recognised as all others when it goes.
func TestRunsOfConflictsGo(t *testing.T) {
	r := newPruning(t)
	r.consume("dev", 1, 4, 100)
	r.consume("dev", 10, 10, 90)
	r.want("claims 5 to 10", r.send("consumed", numberedOf("dev", 10, `"amount":9,"stands_for":[5,10]`, 80)).Outcome, Conflict)
	r.consume("dev", 11, 20, 70)
	if err := r.l.update(func(b *batch) error { return b.dropKept("") }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.later(3 * time.Hour)
	}
	s, _ := r.l.Status()
	r.want("all but the first and the newest", s.Pruned, 14)
	r.want("of the run", r.send("consumed", numberedOf("dev", 7, `"amount":1`, 85)).Outcome, Duplicate)
}

// A reversal that went astray waits for nothing, also when its refused target has gone.
func TestAstrayReversalsGo(t *testing.T) {
	r := newPruning(t)
	r.play(step{"reversed", `{"event_id":"x","tank":"A","reverses":"m","occurred_at":` + ago(60) + `}`, "parked", false},
		step{"measured", `{"event_id":"m","tank":"A","v":2,"remaining":5,"occurred_at":` + ago(50) + `}`, "quarantined/unsupported_version", false})
	if err := r.l.update(func(b *batch) error { return b.dropKept("") }); err != nil {
		t.Fatal(err)
	}
	r.later(3 * time.Hour)
	s, _ := r.l.Status()
	if s.Parked != 0 || s.Waiting != 0 || s.KeptForGood+s.Pruned != s.Revision {
		t.Errorf("parked %d, waiting %d, %d and %d of %d", s.Parked, s.Waiting, s.KeptForGood, s.Pruned, s.Revision)
	}
}

package outbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/internal/event"
)

// forget removes retained rows as want of room would.
func forget(t *testing.T, b *Outbox, numbers ...uint64) {
	t.Helper()
	err := b.update(func(c *change) error {
		for _, n := range numbers {
			key := c.bucket(bIndex).Get(indexKey(b.epoch, "A", n))
			_, r, ok := decodeKept(c.bucket(bKept).Get(key))
			if !ok {
				t.Fatalf("number %d is not retained", n)
			}
			if err := c.remove(bKept, rowOf(key), r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func skippedIn(sent []event.Event) (list []event.Event) {
	seen := map[string]bool{}
	for _, e := range sent {
		if e.Type == event.Skipped && !seen[e.ID] {
			seen[e.ID] = true
			list = append(list, e)
		}
	}
	return list
}

// What is wanted and gone is answered once: over restarts, and again only for
// another incarnation.
func TestWhatIsGoneIsAnsweredOnce(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 10)...)
	epoch := l.b.epoch
	l.lose = lostSeqs("A", 2, 3, 4, 6, 8)
	l.run(t)
	forget(t, l.b, 2, 3, 6)
	damage(t, l.b, 8) // row 8 is number 8
	l.lose = func(e event.Event) bool { return e.Type == event.Skipped }
	sent := l.settle(t, clock, time.Hour)
	got := skippedIn(sent)
	if len(got) != 2 {
		t.Fatalf("%d skipped events, want 2: of what was forgotten, and of what is damaged", len(got))
	}
	for i, want := range []struct {
		skips  []event.Range
		reason string
	}{{[]event.Range{{From: 2, To: 3}, {From: 6, To: 6}}, reasonGone}, {[]event.Range{{From: 8, To: 8}}, reasonDamaged}} {
		if d := cmp.Diff(want.skips, got[i].Skips); d != "" || got[i].Reason != want.reason || got[i].SkipsEpoch != epoch || got[i].Dot.Seq <= 10 {
			t.Errorf("skipped event %+v, want reason %q, skips (-want +got):\n%s", got[i], want.reason, d)
		}
	}
	if !a.seen[streamID{epoch, "A"}][4] {
		t.Error("number 4 was retained and did not go out again")
	}

	clock.advance(time.Hour)
	l.b, l.after = crash(t, l.b), 0
	l.b.LedgerStatus(a.id, 1, true)
	a.tell(t, l.b)
	l.lose = func(e event.Event) bool { return e.Type == event.Skipped && e.Dot.Epoch == epoch }
	if got := skippedIn(l.settle(t, clock, time.Minute)); len(got) == 0 || got[0].Dot.Epoch != epoch {
		t.Errorf("the skipped events, rows like others, are not sent again: %v", got)
	}
	if n := mustStats(t, l.b).SkipsSent; n != 0 {
		t.Errorf("%d new skipped events for the same incarnation, want none", n)
	}
	a.incarnation = 2
	l.b.LedgerStatus(a.id, 2, true)
	l.lose = nil
	l.settle(t, clock, time.Hour)
	if s := mustStats(t, l.b); s.SkipsSent != 2 || s.NumbersSkipped != 4 {
		t.Errorf("%d skipped events of %d numbers for another incarnation, want 2 of 4", s.SkipsSent, s.NumbersSkipped)
	}
	a.complete(t, l.b)
}

// Whatever a ledger claims to lack, what is pending or retained, and what was never
// given or never left, is not said to be gone.
func TestNothingThatIsHereIsSaidToBeGone(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 6)...)
	epoch := l.b.epoch
	l.run(t) // retained: 1 to 6
	mustAppend(t, l.b, deltas("A", 4)...)
	mustNext(t, l.b, l.after, 2) // handed over, no PUBACK: 7, 8; waiting: 9, 10
	forget(t, l.b, 3)
	c := event.Confirm{Ledger: a.id, Incarnation: 1, Source: "ctl-3", NewestEpoch: epoch,
		Streams: []event.ConfirmStream{{Epoch: epoch, Tank: "A", Through: 10, Missing: []event.Range{{From: 1, To: 10}}}}}
	for range 3 {
		if err := l.b.Heard(c); err != nil {
			t.Fatal(err)
		}
		l.b.mu.Lock()
		_, err := l.b.again(100)
		l.b.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Hour)
	}
	for _, told := range l.b.answers {
		if d := cmp.Diff([]event.Range{{From: 3, To: 3}}, told.ranges); d != "" {
			t.Errorf("said to be gone (-want +got):\n%s", d)
		}
	}
	if len(l.b.answers) != 1 {
		t.Errorf("%d answers, want 1", len(l.b.answers))
	}
}

// A gone tail is answered once the ledger's word of it has stood for a while.
func TestGoneTail(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 6)...)
	l.lose = lostSeqs("A", 5, 6)
	l.run(t)
	l.lose = nil
	forget(t, l.b, 5, 6)
	if got := skippedIn(l.settle(t, clock, TailPatienceDefault-reviewInterval)); len(got) != 0 {
		t.Errorf("%d skipped events at once, want none", len(got))
	}
	if got := skippedIn(l.settle(t, clock, time.Minute)); len(got) != 1 {
		t.Errorf("%d skipped events, want 1", len(got))
	}
	a.complete(t, l.b)
}

// An old stream of which nothing is left, and that the ledger does not name, is
// no matter: it had it all, or never heard of it.
func TestNothingIsSaidOfAnOldStreamThatIsNotNamed(t *testing.T) {
	clock, l, _ := setUp(t)
	l.b.o.Retention = -1
	mustAppend(t, l.b, deltas("A", 6)...)
	l.run(t)
	l.b.o.Retention = RetentionDefault
	l.b, l.after = crash(t, l.b), 0
	l.b.LedgerStatus("main", 1, true)
	mustAppend(t, l.b, deltas("A", 2)...)
	l.run(t)
	if sent := l.settle(t, clock, time.Hour); len(sent) != 0 {
		t.Errorf("sent %v, want nothing", sent)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	clock, l, _ := setUp(t)
	mustAppend(t, l.b, deltas("A", 3)...)
	l.run(t)
	forget(t, l.b, 1)
	epoch := l.b.epoch
	ask := func(incarnation uint64) {
		t.Helper()
		l.b.LedgerStatus("main", incarnation, true)
		err := l.b.Heard(event.Confirm{Ledger: "main", Incarnation: incarnation, Source: "ctl-3", NewestEpoch: epoch,
			Streams: []event.ConfirmStream{{Epoch: epoch, Tank: "A", Through: 3, Missing: []event.Range{{From: 1, To: 1}}}}})
		if err != nil {
			t.Fatal(err)
		}
		l.run(t)
	}
	for i := range uint64(3 * answersPerMinute) { // all within a minute
		ask(i + 2)
	}
	if n := mustStats(t, l.b).SkipsSent; n != answersPerMinute {
		t.Errorf("%d skipped events in a minute, want %d", n, answersPerMinute)
	}
	if n := len(l.b.answers); n != 1 {
		t.Errorf("%d answers remembered, want that of the last incarnation", n)
	}
	clock.advance(time.Minute)
	ask(1000)
	if n := mustStats(t, l.b).SkipsSent; n != answersPerMinute+1 {
		t.Errorf("%d skipped events after a minute, want one more", n)
	}

	l.b.mu.Lock()
	for i := range uint64(answersMax + 3) {
		g := goneRange{l.b.ledgers["main"], streamID{epoch, "A"}, event.Range{}}
		l.b.answering.count = 0
		if err := l.b.skip(g, []event.Range{{From: 100 + i, To: 100 + i}}, reasonGone); err != nil {
			t.Error(err)
		}
	}
	l.b.mu.Unlock()
	if n := countRows(t, l.b, bAnswers); n != answersMax || n != len(l.b.answers) {
		t.Errorf("%d answers on disk, %d in memory, want %d", n, len(l.b.answers), answersMax)
	}
	told := l.b.answers
	l.b = crash(t, l.b)
	if d := cmp.Diff(told, l.b.answers, cmp.AllowUnexported(keyedAnswer{}, answer{}, streamID{})); d != "" {
		t.Errorf("answers after a restart (-before +after):\n%s", d)
	}
}

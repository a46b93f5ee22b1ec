package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/internal/event"
)

// setUp opens an outbox whose clock is not synchronised, so that bytes are settled
// at the hand-over, with a line to an online ledger.
func setUp(t *testing.T) (*fakeClock, *line, *account) {
	t.Helper()
	clock := newClock()
	clock.sync(false)
	a := newAccount("main")
	l := &line{b: reopen(t, testOptions(path(t), clock)), to: []*account{a}}
	t.Cleanup(func() { checkAndClose(t, l.b) })
	l.b.LedgerStatus(a.id, a.incarnation, true)
	return clock, l, a
}

func deltas(tank string, n int) (list []event.Event) {
	for range n {
		list = append(list, delta(tank, 1))
	}
	return list
}

func lostSeqs(tank string, lost ...uint64) func(event.Event) bool {
	return func(e event.Event) bool { return e.Tank == tank && slices.Contains(lost, e.Dot.Seq) }
}

// A PUBACK is not end-to-end: what the broker lost is in the ledger's list and
// goes out again, nothing else does, with the bytes of the first time.
func TestFC15WhatTheBrokerLostGoesOutAgain(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 5)...)
	l.lose = lostSeqs("A", 3, 4)
	l.run(t)
	first := slices.Clone(l.sent)
	l.lose = nil
	if sent := l.run(t); len(sent) != 0 {
		t.Errorf("%d rows without a confirmation, want none", len(sent))
	}
	clock.advance(30 * time.Second) // age must not move
	a.tell(t, l.b)
	sent := l.run(t)
	if d := cmp.Diff(first[2:4], sent); d != "" {
		t.Errorf("sent again (-first +again):\n%s", d)
	}
	a.tell(t, l.b)
	if sent := l.settle(t, clock, 2*time.Hour); len(sent) != 0 {
		t.Errorf("%d rows although nothing is missing", len(sent))
	}
	a.complete(t, l.b)
	if s := mustStats(t, l.b); a.consumed != 5 || s.SentAgain != 2 || s.Pending != 0 || s.Retained != 5 {
		t.Errorf("consumed %d, sent again %d, pending %d, retained %d, want 5, 2, 0, 5", a.consumed, s.SentAgain, s.Pending, s.Retained)
	}
}

// A lost tail is in no list: it is sent again 60 s after its PUBACK.
func TestLostTailGoesOutAgain(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 5)...)
	l.lose = lostSeqs("A", 4, 5)
	l.run(t)
	l.lose = nil
	puback := clock.Mono()
	var again []event.Event
	for len(again) == 0 && clock.Mono() < puback+time.Hour {
		clock.advance(time.Second)
		a.tell(t, l.b)
		again = l.run(t)
	}
	if wait := clock.Mono() - puback; wait < TailPatienceDefault || wait > TailPatienceDefault+reviewInterval {
		t.Errorf("sent again after %v, want %v", wait, TailPatienceDefault)
	}
	if d := cmp.Diff([]uint64{4, 5}, seqs(again)); d != "" {
		t.Errorf("sent again (-want +got):\n%s", d)
	}
	a.complete(t, l.b)
}

// Of a stream that the ledger does not name one row is sent; the ledger's answer
// brings the others.
func TestWholeStreamLost(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, append(deltas("A", 5), deltas("B", 2)...)...)
	l.lose = func(e event.Event) bool { return e.Tank == "A" }
	l.run(t)
	l.lose = nil
	sent := l.settle(t, clock, TailPatienceDefault+4*reviewInterval)
	if d := cmp.Diff([]uint64{1, 2, 3, 4, 5}, seqs(sent)); d != "" {
		t.Errorf("sent again (-want +got):\n%s", d)
	}
	a.complete(t, l.b)
}

// After a restart nothing is known of what was confirmed. The newest stream is
// named; an old one that the ledger has nothing to say of costs one row.
func TestRestartDoesNotRepeatTheRetention(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 500)...)
	l.run(t)
	a.tell(t, l.b)
	l.b = crash(t, l.b)
	l.b.LedgerStatus(a.id, 1, true)
	l.after = 0
	mustAppend(t, l.b, deltas("A", 3)...)
	l.run(t)
	if sent := l.settle(t, clock, 3*time.Hour); len(sent) != 1 || sent[0].Dot.Seq != 1 {
		t.Errorf("%d rows sent again, want the first of the old epoch alone", len(sent))
	}
	a.complete(t, l.b)
}

// A broker that forgets everything while the meter then idles.
func TestBrokerForgetsEverything(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 10)...)
	l.run(t)
	a.tell(t, l.b)
	l.b.LedgerStatus(a.id, 0, false) // last will
	l.lose = func(event.Event) bool { return true }
	mustAppend(t, l.b, append(deltas("A", 700), deltas("B", 300)...)...)
	l.run(t)
	if sent := l.settle(t, clock, time.Hour); len(sent) != 0 {
		t.Errorf("%d rows sent again to a ledger that is offline", len(sent))
	}
	l.lose = nil
	l.b.LedgerStatus(a.id, 1, true)
	l.settle(t, clock, 5*time.Minute)
	a.complete(t, l.b)
	if a.consumed != 1010 {
		t.Errorf("consumed %d, want 1010", a.consumed)
	}
}

// A ledger restored from a backup comes with a new incarnation, whose through has
// gone back.
func TestLedgerRestoredFromABackup(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 20)...)
	l.run(t)
	old := a.backup()
	mustAppend(t, l.b, append(deltas("A", 30), deltas("B", 30)...)...)
	l.run(t)
	a.tell(t, l.b)
	clock.advance(time.Hour)

	old.incarnation = 2
	l.to = []*account{old}
	// Its confirmation comes before its status, and an old one in between.
	old.tell(t, l.b)
	if sent := l.run(t); len(sent) != 0 {
		t.Errorf("%d rows sent to an incarnation that is not online", len(sent))
	}
	l.b.LedgerStatus("main", 2, true)
	a.tell(t, l.b)
	l.settle(t, clock, 3*time.Minute)
	old.complete(t, l.b)
	if old.consumed != 80 || old.conflicts != 0 {
		t.Errorf("consumed %d, conflicts %d, want 80, 0", old.consumed, old.conflicts)
	}
}

func TestTwoLedgersOneBehind(t *testing.T) {
	clock, l, a := setUp(t)
	b := newAccount("second")
	l.b.LedgerStatus(b.id, 1, true)
	mustAppend(t, l.b, deltas("A", 10)...)
	l.to = []*account{a, b}
	l.run(t)
	mustAppend(t, l.b, deltas("A", 10)...)
	l.to = []*account{a}
	l.run(t)
	l.to = []*account{a, b}
	l.settle(t, clock, 3*time.Minute)
	a.complete(t, l.b)
	b.complete(t, l.b)
	if a.consumed != 20 || b.consumed != 20 || a.repeats != 10 {
		t.Errorf("consumed %d and %d with %d repeats, want 20, 20, 10", a.consumed, b.consumed, a.repeats)
	}
}

// Live rows go first, one window at a time comes behind them.
func TestResendIsBehindLiveRows(t *testing.T) {
	_, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 100)...)
	l.lose = func(e event.Event) bool { return e.Dot.Seq < 100 }
	l.run(t)
	a.tell(t, l.b)
	mustAppend(t, l.b, delta("A", 7))
	rows := mustNext(t, l.b, l.after, 10)
	if len(rows) != 1 || decode(t, rows[0]).Dot.Seq != 101 {
		t.Fatalf("%d rows, want the live one first", len(rows))
	}
	next := mustNext(t, l.b, rows[0].Row, 10)
	if len(next) != 10 || decode(t, next[0]).Dot.Seq != 1 {
		t.Fatalf("%d rows, want ten sent again", len(next))
	}
	mustAppend(t, l.b, delta("A", 8))
	rows = mustNext(t, l.b, next[9].Row, 10)
	if len(rows) != 1 || decode(t, rows[0]).Dot.Seq != 102 {
		t.Errorf("%d rows after a window, want the live one", len(rows))
	}
	// The PUBACK of a row sent again takes nothing out.
	if err := l.b.Confirm([]uint64{next[0].Row, next[9].Row}); err != nil {
		t.Errorf("Confirm of rows sent again = %v", err)
	}
	if s := mustStats(t, l.b); s.Pending != 2 || s.Retained != 100 {
		t.Errorf("pending %d, retained %d, want 2, 100", s.Pending, s.Retained)
	}
}

func TestResendBacksOff(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, deltas("A", 5)...)
	l.lose = lostSeqs("A", 2)
	l.run(t)
	start, last := clock.Mono(), clock.Mono()
	var pauses []time.Duration
	for clock.Mono() < start+6*time.Hour {
		a.tell(t, l.b)
		if sent := l.run(t); len(sent) > 0 {
			pauses = append(pauses, (clock.Mono() - last).Round(time.Minute))
			last = clock.Mono()
		}
		clock.advance(reviewInterval)
	}
	var want []time.Duration
	for _, m := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60} {
		want = append(want, m*time.Minute)
	}
	if d := cmp.Diff(want, pauses); d != "" {
		t.Errorf("pauses (-want +got):\n%s", d)
	}
	// What is lost meanwhile does not wait for it.
	mustAppend(t, l.b, deltas("A", 3)...)
	l.lose = lostSeqs("A", 2, 7)
	l.run(t)
	clock.advance(time.Second)
	a.tell(t, l.b)
	l.lose = lostSeqs("A", 2)
	if sent := l.run(t); len(sent) != 1 || sent[0].Dot.Seq != 7 {
		t.Errorf("sent %v, want 7", seqs(sent))
	}
}

// With more set, what lies beyond through is neither confirmed nor missing.
func TestMoreSaysNothingOfTheRest(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, append(deltas("A", 10), deltas("B", 2)...)...)
	epoch := l.b.epoch
	l.run(t)
	clock.advance(time.Hour)
	c := event.Confirm{Ledger: a.id, Incarnation: 1, Source: "ctl-3", NewestEpoch: epoch, More: true,
		Streams: []event.ConfirmStream{{Epoch: epoch, Tank: "A", Through: 5, Missing: []event.Range{{From: 2, To: 3}}}}}
	if err := l.b.Heard(c); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]uint64{2, 3}, seqs(l.run(t))); d != "" {
		t.Errorf("sent again (-want +got):\n%s", d)
	}
}

// Room lacks for ranges, not for streams: one of which nothing is missing ends where
// it says, so that its lost tail goes out although other gaps never close.
func TestLostTailBesideGapsThatStayOpen(t *testing.T) {
	clock, l, a := setUp(t)
	mustAppend(t, l.b, append(deltas("A", 200), deltas("B", 5)...)...)
	epoch := l.b.epoch
	l.run(t)
	clock.advance(time.Hour)
	c := event.Confirm{Ledger: a.id, Incarnation: 1, Source: "ctl-3", NewestEpoch: epoch, More: true,
		Streams: []event.ConfirmStream{{Epoch: 7, Tank: "A", Through: 200}, {Epoch: epoch, Tank: "B", Through: 3}}}
	for n := uint64(1); n <= event.MaxConfirmRanges; n++ {
		c.Streams[0].Missing = append(c.Streams[0].Missing, event.Range{From: 2 * n, To: 2 * n})
	}
	if err := l.b.Heard(c); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, e := range l.run(t) {
		if e.Tank == "B" {
			got = append(got, e.Dot.Seq)
		}
	}
	if d := cmp.Diff([]uint64{4, 5}, got); d != "" {
		t.Errorf("sent again of B (-want +got):\n%s", d)
	}
}

// Nothing that can be said to it makes the outbox lose a row or grow without bound.
func TestHostileConfirmations(t *testing.T) {
	clock, l, _ := setUp(t)
	mustAppend(t, l.b, deltas("A", 10)...)
	epoch := l.b.epoch
	stream := func(through uint64, missing ...event.Range) []event.ConfirmStream {
		return []event.ConfirmStream{{Epoch: epoch, Tank: "A", Through: through, Missing: missing}}
	}
	for name, c := range map[string]event.Confirm{
		"other source": {Ledger: "main", Source: "ctl-4"},
		"no ledger":    {Source: "ctl-3"},
		"backwards":    {Ledger: "main", Source: "ctl-3", Streams: stream(9, event.Range{From: 5, To: 4})},
		"from zero":    {Ledger: "main", Source: "ctl-3", Streams: stream(9, event.Range{From: 0, To: 4})},
		"overlapping":  {Ledger: "main", Source: "ctl-3", Streams: stream(9, event.Range{From: 1, To: 4}, event.Range{From: 4, To: 5})},
		"beyond":       {Ledger: "main", Source: "ctl-3", Streams: stream(9, event.Range{From: 9, To: 10})},
		"no number":    {Ledger: "main", Source: "ctl-3", Streams: stream(1 << 60)},
		"no tank":      {Ledger: "main", Source: "ctl-3", Streams: []event.ConfirmStream{{Epoch: 1}}},
		"too many":     {Ledger: "main", Source: "ctl-3", Streams: make([]event.ConfirmStream, 600)},
	} {
		if err := l.b.Heard(c); err == nil {
			t.Errorf("%s: Heard = nil, want an error", name)
		}
	}
	if len(l.b.ledgers) != 1 {
		t.Errorf("%d ledgers followed, want that of the status alone", len(l.b.ledgers))
	}
	// Legal, and absurd: everything is missing; strangers' epochs and tanks; an
	// epoch from the end of time.
	l.run(t)
	absurd := event.Confirm{Ledger: "main", Incarnation: 1, Source: "ctl-3", NewestEpoch: event.MaxEpoch,
		Streams: append(stream(event.MaxSeq, event.Range{From: 1, To: event.MaxSeq}),
			event.ConfirmStream{Epoch: 5, Tank: "Z", Through: event.MaxSeq, Missing: []event.Range{{From: 1, To: event.MaxSeq}}})}
	for i := range 3 {
		clock.advance(time.Hour)
		absurd.Incarnation = uint64(i + 1)
		l.b.LedgerStatus("main", absurd.Incarnation, true)
		if err := l.b.Heard(absurd); err != nil {
			t.Fatal(err)
		}
		for _, e := range l.run(t) {
			if e.Type == event.Skipped {
				t.Errorf("said to be gone: %v of epoch %d", e.Skips, e.SkipsEpoch)
			}
		}
	}
	for i := range 10 * ledgersMax {
		l.b.LedgerStatus(fmt.Sprint("ledger-", i), 1, true)
	}
	if n := len(l.b.ledgers); n != ledgersMax {
		t.Errorf("%d ledgers followed, want %d", n, ledgersMax)
	}
	l.b.LedgerStatus("ledger-1", 1, false)
	absurd.Ledger = "another"
	if err := l.b.Heard(absurd); err != nil || l.b.ledgers["another"] == nil {
		t.Errorf("Heard = %v, want the place of the one that is offline", err)
	}
	if s := mustStats(t, l.b); s.Retained != 10 || s.Pending != 0 {
		t.Errorf("retained %d, pending %d, want 10, 0", s.Retained, s.Pending)
	}
}

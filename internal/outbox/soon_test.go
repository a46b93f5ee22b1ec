package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// Who keeps up with the outbox: each batch costs one commit, its own, which marks it
// as handed over and confirms the batch before.
func TestKeepingUpCostsOneCommitABatch(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	mustAppend(t, b, delta("A", 1))
	last := handOn(t, b, 0)
	for i := range 5 {
		before := txid(t, b)
		mustAppend(t, b, delta("A", 1), snapshot("B", 2))
		last = handOn(t, b, last)
		if n := txid(t, b) - before; n != 1 {
			t.Errorf("batch %d: %d commits, want 1", i, n)
		}
	}
	if s := mustStats(t, b); s.Pending != 0 || s.OldestAge != 0 {
		t.Errorf("pending %d, oldest %v, want none: the broker has them all", s.Pending, s.OldestAge)
	}
	if b.st.sent != b.st.nextRow-1 || storedStream(t, b, b.epoch, "B").handed != 5 {
		t.Errorf("marked up to row %d of %d", b.st.sent, b.st.nextRow-1)
	}
}

// handOn is a connected publisher: it takes all there is and confirms it.
func handOn(t *testing.T, b *Outbox, last uint64) uint64 {
	t.Helper()
	for {
		rows := mustNext(t, b, last, 100)
		if len(rows) == 0 {
			return last
		}
		confirmSoon(t, b, rows)
		last = rows[len(rows)-1].Row
	}
}

// Where nobody keeps up, nothing is marked ahead: after the link is lost one batch at
// most is frozen that has not left, and that one still goes out, over a crash too.
func TestOneBatchAtMostIsMarkedAhead(t *testing.T) {
	clock := newClock()
	b := reopen(t, testOptions(path(t), clock))
	handOn(t, b, 0)
	mustAppend(t, b, delta("A", 1), delta("A", 2))
	mustAppend(t, b, delta("A", 3))
	if s := storedStream(t, b, b.epoch, "A"); s.handed != 2 || s.last != 3 {
		t.Errorf("handed over up to %d of %d, want 2 of 3", s.handed, s.last)
	}
	if err := b.Confirm([]uint64{1, 2}); err != nil {
		t.Fatal(err)
	}
	b = crash(t, b)
	defer checkAndClose(t, b)
	if rows := mustNext(t, b, 77, 9); len(rows) != 3 {
		t.Errorf("%d rows go out, want all three: none has left", len(rows))
	}
}

// The time of a row from an unsynchronised clock is settled when it leaves, not when
// it is appended.
func TestUnsyncedRowsAreNotMarkedAhead(t *testing.T) {
	clock := newClock()
	clock.sync(false)
	b := open(t, testOptions(path(t), clock))
	handOn(t, b, 0)
	mustAppend(t, b, delta("A", 1))
	clock.advance(time.Hour)
	if e := decode(t, mustNext(t, b, 0, 9)[0]); e.Age != time.Hour {
		t.Errorf("age %v, want an hour: that is how long it has waited", e.Age)
	}
}

// What the broker has answered for does not go out again on the next connection, nor
// stays pending for long; a crash before it is on disk sends it once more.
func TestConfirmedSoon(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	mustAppend(t, b, delta("A", 1), delta("A", 2))
	mustNext(t, b, 0, 9)
	if err := b.ConfirmSoon([]uint64{1}); err != nil {
		t.Fatal(err)
	}
	if rows := mustNext(t, b, 0, 9); len(rows) != 1 || rows[0].Row != 2 {
		t.Errorf("the next connection gets %d rows, want number 2 alone", len(rows))
	}
	if err := b.ConfirmSoon([]uint64{2}); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, b, bPending); n != 1 {
		t.Errorf("%d pending on disk, want 1: confirmed with the next commit", n)
	}
	at := clock.Mono()
	clock.advance(confirmPatience - time.Second)
	if err := b.look(); err != nil || countRows(t, b, bPending) != 1 {
		t.Errorf("confirmed after %v already, %v", confirmPatience-time.Second, err)
	}
	clock.advance(time.Second)
	if err := b.look(); err != nil || countRows(t, b, bPending) != 0 {
		t.Errorf("not confirmed after %v, %v", confirmPatience, err)
	}
	var from instant
	b.f.View(func(tx *bbolt.Tx) error {
		from, _, _ = decodeKept(tx.Bucket([]byte(bKept)).Get(rowKey(2)))
		return nil
	})
	if from.mono != at {
		t.Errorf("retained from %v, want from its PUBACK at %v", from.mono, at)
	}
}

// A crash before that is on disk sends the row once more, the same bytes; a clean
// stop does not.
func TestConfirmedSoonOverACrash(t *testing.T) {
	for _, clean := range []bool{false, true} {
		b := reopen(t, testOptions(path(t), newClock()))
		mustAppend(t, b, delta("A", 1))
		before := mustNext(t, b, 0, 9)
		if err := b.ConfirmSoon([]uint64{1}); err != nil {
			t.Fatal(err)
		}
		if clean {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b = reopen(t, b.o)
		} else {
			b = crash(t, b)
		}
		rows := mustNext(t, b, 0, 9)
		if clean && len(rows) != 0 || !clean && (len(rows) != 1 || string(rows[0].Payload) != string(before[0].Payload)) {
			t.Errorf("clean %t: %d rows go out", clean, len(rows))
		}
		checkAndClose(t, b)
	}
}

// Many at once do not wait: a window is confirmed in its own commit.
func TestConfirmedSoonIsBounded(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	for range notedMax {
		mustAppend(t, b, delta("A", 1))
	}
	rows := mustNext(t, b, 0, notedMax)
	for i, r := range rows {
		if err := b.ConfirmSoon([]uint64{r.Row}); err != nil {
			t.Fatal(err)
		}
		if n := countRows(t, b, bPending); i < notedMax-1 && n != notedMax || i == notedMax-1 && n != 0 {
			t.Fatalf("%d pending on disk after %d", n, i+1)
		}
	}
}

// FC-93: ten steady sensors at 1 Hz for ten minutes, with a broker that takes all:
// at most one commit in 5 s; what is consumed is on disk at once.
func TestFC93WriteBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClock()
		b := reopen(t, testOptions(path(t), clock))
		ctx, cancel := context.WithCancel(t.Context())
		ended, left := make(chan error, 1), make(chan struct{})
		go func() { ended <- b.Run(ctx) }()
		go func() {
			defer close(left)
			last := handOn(t, b, 0)
			for {
				select {
				case <-b.Wake():
					last = handOn(t, b, last)
				case <-ctx.Done():
					return
				}
			}
		}()
		before, commits := txid(t, b), 0
		for second := range 600 {
			for i := range 10 {
				if err := b.Stage(snapshot(string(rune('A'+i)), 500)); err != nil {
					t.Fatal(err)
				}
			}
			if second%120 == 60 { // consumption
				at := txid(t, b)
				mustAppend(t, b, delta("A", 5))
				if txid(t, b) != at+1 {
					t.Errorf("second %d: a delta was acknowledged without a commit", second)
				}
			}
			time.Sleep(time.Second)
			clock.advance(time.Second)
			synctest.Wait()
		}
		commits = txid(t, b) - before
		if most := 600/5 + 5; commits > most {
			t.Errorf("%d commits in 10 minutes, want at most %d: one in 5 s, and one for each delta", commits, most)
		}
		s := mustStats(t, b)
		if s.Appended != 6005 || s.Pending > 10*5 {
			t.Errorf("%d events appended, %d pending, want 6005 and at most a batch", s.Appended, s.Pending)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-left
		checkAndClose(t, b)
		t.Logf("%d commits for %d events", commits, s.Appended)
	})
}

// What a ledger wants again is given at once, though its confirmation by the broker
// waits for a commit; a lost tail too, a minute after its PUBACK.
func TestWantedRowsDoNotWaitForTheCommit(t *testing.T) {
	clock, l, a := setUp(t)
	l.soon = true
	mustAppend(t, l.b, deltas("A", 5)...)
	l.lose = lostSeqs("A", 3, 5)
	l.run(t)
	l.lose = nil
	if len(l.b.noted) != 5 {
		t.Fatalf("%d rows wait to be confirmed, want 5", len(l.b.noted))
	}
	a.tell(t, l.b)
	if sent := l.run(t); len(sent) != 1 || sent[0].Dot.Seq != 3 {
		t.Errorf("sent again %v, want number 3", seqs(sent))
	}
	mustAppend(t, l.b, delta("B", 1))
	l.run(t)
	var again []event.Event
	for waited := time.Duration(0); len(again) == 0 && waited < 2*TailPatienceDefault; waited += reviewInterval {
		clock.advance(reviewInterval)
		a.tell(t, l.b)
		again = l.run(t)
	}
	if len(again) != 1 || again[0].Dot.Seq != 5 {
		t.Errorf("sent again %v, want number 5", seqs(again))
	}
	a.tell(t, l.b)
	a.complete(t, l.b)
}

package outbox

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

func TestFC08CrashBetweenPUBACKAndConfirm(t *testing.T) {
	clock := newClock()
	clock.sync(false) // the harder case: the bytes are settled at the hand-over
	b := reopen(t, testOptions(path(t), clock))
	mustAppend(t, b, delta("A", 1), delta("A", 2), delta("A", 3))
	clock.advance(time.Minute)
	sent := mustNext(t, b, 0, 10)
	mustConfirm(t, b, sent[:2]) // the third PUBACK came, and then the crash
	clock.advance(time.Minute)
	b = crash(t, b)
	again := mustNext(t, b, 0, 10)
	if d := cmp.Diff(sent[2:], again); d != "" {
		t.Errorf("sent again, the same bytes (-want +got):\n%s", d)
	}
	mustConfirm(t, b, again)
	checkAndClose(t, b)
	// (a): a clean restart resends nothing.
	b = open(t, b.o)
	if rows := mustNext(t, b, 0, 10); len(rows) != 0 {
		t.Errorf("%d rows after a clean restart, want 0", len(rows))
	}
}

func TestNextMarksBeforeRowsLeave(t *testing.T) {
	b := reopen(t, testOptions(path(t), newClock()))
	epoch := mustStats(t, b).Epoch
	mustAppend(t, b, delta("A", 1), delta("B", 1), delta("A", 2), delta("A", 3))
	if rows := mustNext(t, b, 0, 3); len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	before := txid(t, b)
	if rows := mustNext(t, b, 0, 3); len(rows) != 3 || txid(t, b) != before {
		t.Errorf("handing over again: %d rows, %d commits, want 3 and none", len(rows), txid(t, b)-before)
	}
	b = crash(t, b)
	defer checkAndClose(t, b)
	for tank, want := range map[string]stream{"A": {last: 3, handed: 2, rows: 3}, "B": {last: 1, handed: 1, rows: 1}} {
		if got := storedStream(t, b, epoch, tank); got != want {
			t.Errorf("stream of %s on disk after the crash: %+v, want %+v", tank, got, want)
		}
	}
	if b.st.sent != 3 {
		t.Errorf("handed over up to row %d on disk, want 3", b.st.sent)
	}
}

func TestNextSkipsNoRowThatNeverLeft(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	mustAppend(t, b, delta("A", 1), delta("A", 2), delta("A", 3))
	var got []uint64
	for _, after := range []uint64{0, 1, 99, 99} {
		for _, r := range mustNext(t, b, after, 1) {
			got = append(got, r.Row)
		}
	}
	if d := cmp.Diff([]uint64{1, 2, 3}, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if err := b.Confirm([]uint64{1, 77}); err != nil {
		t.Errorf("Confirm with an unknown row = %v", err)
	}
	mustAppend(t, b, delta("A", 4))
	if err := b.Confirm([]uint64{4}); err != nil {
		t.Errorf("Confirm of a row that never left = %v", err)
	}
	if rows := mustNext(t, b, 0, 9); len(rows) != 3 || rows[2].Row != 4 {
		t.Errorf("rows %v, want 2, 3 and 4", rows)
	}
}

func TestTimeIsSettledAtTheHandOver(t *testing.T) {
	const boot1970 = -56 * 365 * 24 * time.Hour
	for _, c := range []struct {
		name  string
		later func(*fakeClock) // between the event and its hand-over, 30 s in all
		check func(*testing.T, event.Event, time.Time, time.Time)
		boots bool
	}{
		{"still unsynchronised", func(c *fakeClock) { c.advance(20 * time.Second) },
			func(t *testing.T, e event.Event, happened, _ time.Time) {
				if !e.Unsynced || !e.HasAge || e.Age != 20*time.Second || !e.OccurredAt.Equal(happened) {
					t.Errorf("unsynced %t, age %t %v, at %v, want true, 20 s, %v", e.Unsynced, e.HasAge, e.Age, e.OccurredAt, happened)
				}
			}, false},
		{"stepped, not synchronised", func(c *fakeClock) { c.advance(20 * time.Second); c.step(-boot1970) },
			func(t *testing.T, e event.Event, happened, _ time.Time) {
				if !e.Unsynced || e.Age != 20*time.Second || !e.OccurredAt.Equal(happened) {
					t.Errorf("unsynced %t, age %v, at %v, want true, 20 s, %v", e.Unsynced, e.Age, e.OccurredAt, happened)
				}
			}, false},
		{"synchronised since", func(c *fakeClock) { c.advance(20 * time.Second); c.step(-boot1970); c.sync(true) },
			func(t *testing.T, e event.Event, _, now time.Time) {
				if want := now.Add(-20 * time.Second); e.Unsynced || e.HasAge || !e.OccurredAt.Equal(want) {
					t.Errorf("unsynced %t, age %t, at %v, want false, false, %v", e.Unsynced, e.HasAge, e.OccurredAt, want)
				}
			}, false},
		{"another boot", func(c *fakeClock) { c.reboot("boot-2"); c.advance(20 * time.Second); c.sync(true) },
			func(t *testing.T, e event.Event, happened, _ time.Time) {
				if !e.Unsynced || e.HasAge || !e.OccurredAt.Equal(happened) {
					t.Errorf("unsynced %t, age %t, at %v, want true, false, %v", e.Unsynced, e.HasAge, e.OccurredAt, happened)
				}
			}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			clock.step(boot1970)
			clock.sync(false)
			b := reopen(t, testOptions(path(t), clock))
			happened := clock.Now()
			mustAppend(t, b, delta("A", 1))
			c.later(clock)
			if c.boots {
				b = crash(t, b)
			}
			defer func() { checkAndClose(t, b) }()
			b.hold.on = false // a new store without a date would wait
			rows := mustNext(t, b, 0, 1)
			c.check(t, decode(t, rows[0]), happened, clock.Now())

			clock.advance(time.Hour)
			clock.sync(true)
			if d := cmp.Diff(rows, mustNext(t, b, 0, 1)); d != "" {
				t.Errorf("bytes changed after they left (-first +again):\n%s", d)
			}
		})
	}
}

func TestOccurredAtOfTheCaller(t *testing.T) {
	clock := newClock()
	clock.sync(false)
	b := open(t, testOptions(path(t), clock))
	read := delta("A", 1) // a reading of this clock, 7 s ago
	read.OccurredAt = clock.Now().Add(-7 * time.Second)
	said := delta("A", 2) // somebody's word: before this boot
	said.OccurredAt = clock.Now().Add(-48 * time.Hour)
	mustAppend(t, b, read, said)
	clock.advance(3 * time.Second)
	rows := mustNext(t, b, 0, 2)
	if e := decode(t, rows[0]); !e.Unsynced || e.Age != 10*time.Second {
		t.Errorf("reading: unsynced %t, age %v, want true, 10 s", e.Unsynced, e.Age)
	}
	if e := decode(t, rows[1]); e.Unsynced || !e.OccurredAt.Equal(said.OccurredAt) {
		t.Errorf("said: unsynced %t at %v, want false at %v", e.Unsynced, e.OccurredAt, said.OccurredAt)
	}
}

func TestRetentionRunsOnTheClockSinceBoot(t *testing.T) {
	clock := newClock()
	b := reopen(t, testOptions(path(t), clock))
	never := func() bool { return false }
	retained := func(when string, want uint64) {
		t.Helper()
		if err := b.prune(never); err != nil {
			t.Fatal(err)
		}
		if got := mustStats(t, b).Retained; got != want {
			t.Errorf("%s: %d retained, want %d", when, got, want)
		}
	}
	mustAppend(t, b, delta("A", 1))
	drain(t, b)
	retained("at once", 1)
	clock.step(1000 * time.Hour)
	retained("after a step of the wall clock", 1)
	clock.advance(71 * time.Hour)
	retained("after 71 h", 1)
	clock.advance(time.Hour)
	retained("after 72 h", 0)

	mustAppend(t, b, delta("A", 2))
	drain(t, b)
	clock.sync(false)
	clock.step(1000 * time.Hour)
	clock.reboot("boot-2")
	b = crash(t, b)
	retained("in another boot with an unknown clock", 1)
	clock.sync(true)
	retained("once both clocks are known", 0)

	clock.sync(false)
	mustAppend(t, b, delta("A", 3))
	drain(t, b)
	clock.reboot("boot-3")
	b = crash(t, b)
	retained("in a third boot", 1)
	clock.advance(72 * time.Hour)
	retained("after 72 h of it", 0)
	checkAndClose(t, b)
}

func TestDamagedRowDoesNotStopTheRest(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	receipts := mustAppend(t, b, delta("A", 1), delta("A", 2), delta("A", 3), delta("A", 4))
	damage(t, b, 2)
	if err := b.Check(); err == nil {
		t.Error("Check = nil with a damaged row")
	}
	rows := mustNext(t, b, 0, 3)
	if len(rows) != 2 || rows[0].Row != 1 || rows[1].Row != 3 {
		t.Fatalf("rows %+v, want 1 and 3", rows)
	}
	damage(t, b, 3) // between hand-over and PUBACK
	mustConfirm(t, b, rows)
	if got := drain(t, b); len(got) != 1 || got[0].Dot.Seq != 4 {
		t.Errorf("drained %+v, want number 4", got)
	}
	list, err := b.Damaged(10)
	if err != nil || len(list) != 2 {
		t.Fatalf("Damaged = %+v, %v, want two", list, err)
	}
	for i, want := range []Receipt{receipts[1], receipts[2]} {
		if got := list[i]; got.Row != want.Row || got.Dot != want.Dot || got.Tank != "A" || len(got.Bytes) < 100 || got.Reason != errRowSum.Error() {
			t.Errorf("damaged %+v, want row %d, number %v with its bytes", got, want.Row, want.Dot)
		}
	}
	if s := mustStats(t, b); s.Damaged != 2 || s.DamagedRows != 2 || s.Retained != 2 {
		t.Errorf("damaged %d and %d, retained %d, want 2, 2, 2", s.Damaged, s.DamagedRows, s.Retained)
	}
}

func TestDamagedReference(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	receipts := mustAppend(t, b, delta("A", 1), delta("A.b", 2), delta("A", 3))
	spoil := func(n uint64) {
		t.Helper()
		if err := b.f.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bPending)).Put(rowKey(n), []byte("?"))
		}); err != nil {
			t.Fatal(err)
		}
	}
	spoil(2) // met by Next
	rows := mustNext(t, b, 0, 10)
	if len(rows) != 2 {
		t.Errorf("%d rows, want 2", len(rows))
	}
	spoil(3) // met by Confirm
	mustConfirm(t, b, rows)
	list, err := b.Damaged(10)
	if err != nil || len(list) != 2 {
		t.Fatalf("Damaged = %+v, %v, want two", list, err)
	}
	for i, want := range []string{"A.b", "A"} {
		if got := list[i]; got.Tank != want || got.Dot != receipts[i+1].Dot {
			t.Errorf("damaged %+v, want number %v of %s", got, receipts[i+1].Dot, want)
		}
	}
}

func TestAllOfAWindowDamaged(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	mustAppend(t, b, delta("A", 1), delta("A", 2), delta("A", 3))
	damage(t, b, 1)
	damage(t, b, 2)
	if rows := mustNext(t, b, 0, 2); len(rows) != 1 || rows[0].Row != 3 {
		t.Errorf("rows %+v, want 3: none would mean drained", rows)
	}
}

func TestFC09FileStopsGrowing(t *testing.T) {
	o := testOptions(path(t), newClock())
	o.Retention = -1
	b := open(t, o)
	cycle := func() int64 {
		t.Helper()
		for range 10_000 / 100 {
			drafts := make([]event.Event, 100)
			for i := range drafts {
				drafts[i] = delta("A", int64(i+1))
			}
			mustAppend(t, b, drafts...)
		}
		if n := len(drain(t, b)); n != 10_000 {
			t.Fatalf("drained %d, want 10000", n)
		}
		for _, bucket := range []string{bPending, bKept, bRows, bIndex} {
			if n := countRows(t, b, bucket); n != 0 {
				t.Errorf("%d left in %s, want 0", n, bucket)
			}
		}
		st, err := os.Stat(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	first, second := cycle(), cycle()
	if second > first*11/10 {
		t.Errorf("file of %d bytes after the second cycle, %d after the first, want at most 1.1 times", second, first)
	}
}

// A file that a long time offline has swollen is made small at the next start.
func TestFC09StartCompacts(t *testing.T) {
	o := testOptions(path(t), newClock())
	o.Retention = -1
	b := reopen(t, o)
	const rows = 55_000
	for range rows / 1000 {
		drafts := make([]event.Event, 1000)
		for i := range drafts {
			drafts[i] = delta("A", int64(i+1))
		}
		mustAppend(t, b, drafts...)
	}
	drain(t, b)
	mustAppend(t, b, delta("A", 7), delta("B", 8))
	before := mustStats(t, b)
	if before.FileBytes < compactOver {
		t.Fatalf("file of %d bytes only", before.FileBytes)
	}
	checkAndClose(t, b)
	b = open(t, o)
	after := mustStats(t, b)
	if after.FileBytes > before.FileBytes/4 {
		t.Errorf("file of %d bytes, was %d, want it small", after.FileBytes, before.FileBytes)
	}
	if got := drain(t, b); len(got) != 2 || got[0].Dot.Seq != rows+1 {
		t.Errorf("%d rows after compaction, want the two that waited", len(got))
	}
}

func TestFC10BacklogIsNotLoaded(t *testing.T) {
	o := testOptions(path(t), newClock())
	b := reopen(t, o)
	for range 30 {
		drafts := make([]event.Event, 1000)
		for i := range drafts {
			drafts[i] = snapshot("A", int64(i))
		}
		mustAppend(t, b, drafts...)
	}
	checkAndClose(t, b)
	b = open(t, o)
	mustAppend(t, b, delta("A", 1))
	if b.rowsRead != 0 {
		t.Errorf("%d rows read by Open and the first Append, want 0", b.rowsRead)
	}
	if rows := mustNext(t, b, 0, 100); len(rows) != 100 || b.rowsRead != 100 {
		t.Errorf("%d rows given, %d read, want 100 and 100", len(rows), b.rowsRead)
	}
	if s := mustStats(t, b); s.Pending != 30_001 {
		t.Errorf("%d pending, want 30001", s.Pending)
	}
}

// bigSnapshot takes about 2 KiB.
func bigSnapshot() event.Event {
	e := snapshot("A", 1)
	e.Covers = map[string]event.Dot{}
	for i := range event.MaxCovers {
		e.Covers[fmt.Sprintf("%064d", i)] = event.Dot{Epoch: event.MaxEpoch, Seq: event.MaxSeq}
	}
	return e
}

func TestNextIsBoundedInBytes(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	drafts := make([]event.Event, 1000)
	for i := range drafts {
		drafts[i] = bigSnapshot()
	}
	mustAppend(t, b, drafts...)
	size := 0
	rows := mustNext(t, b, 0, 1000)
	for _, r := range rows {
		size += len(r.Payload)
	}
	if len(rows) == 0 || size > windowBytesMax+event.MaxBytes || size < windowBytesMax/2 {
		t.Errorf("%d rows of %d bytes, want about %d", len(rows), size, windowBytesMax)
	}
	if got := len(drain(t, b)); got != 1000 {
		t.Errorf("drained %d, want 1000", got)
	}
}

func TestTopicFollowsAChangedPrefix(t *testing.T) {
	o := testOptions(path(t), newClock())
	b := reopen(t, o)
	mustAppend(t, b, delta("A", 1))
	first := mustNext(t, b, 0, 1)
	checkAndClose(t, b)
	o.Topic = func(k event.Type, tank string) string { return "habitat/" + tank + "/" + k.Topic() }
	b = open(t, o)
	again := mustNext(t, b, 0, 1)
	if again[0].Topic != "habitat/A/consumed" || string(again[0].Payload) != string(first[0].Payload) {
		t.Errorf("%+v, want the same bytes under the new prefix", again[0])
	}
}

package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

func smallOptions(t *testing.T) Options {
	o := testOptions(path(t), newClock())
	o.MaxBytes = MaxBytesMin
	return o
}

// fill appends what make gives until there is no room, and says how many went in.
func fill(t *testing.T, b *Outbox, make func(i int) []event.Event) (n int) {
	t.Helper()
	for i := range 100_000 {
		r, err := b.Append(make(i)...)
		if err != nil {
			if !errors.Is(err, ErrFull) || !boltfile.IsFull(err) {
				t.Fatalf("append %d: %v, want ErrFull, which IsFull knows", i, err)
			}
			return n
		}
		n += len(r)
	}
	t.Fatal("never full")
	return 0
}

func someDeltas(n int) func(int) []event.Event {
	return func(call int) []event.Event {
		drafts := make([]event.Event, n)
		for i := range drafts {
			drafts[i] = delta("A", 1)
			if (call*n+i)%2 != 0 { // so that no two can be merged
				drafts[i].Type = event.Refilled
			}
		}
		return drafts
	}
}

func TestFullOfDeltasLosesNothingAndRecovers(t *testing.T) {
	o := smallOptions(t)
	b := open(t, o)
	n := fillUp(t, b)
	_, err := b.Append(delta("A", 1))
	if !errors.Is(err, ErrFull) {
		t.Errorf("Append to a full outbox = %v, want ErrFull", err)
	}
	s := mustStats(t, b)
	if !s.Full || s.Pending != uint64(n) || s.Refused == 0 || s.FileBytes > o.MaxBytes {
		t.Errorf("stats %+v, want full with %d pending, in at most %d bytes", s, n, o.MaxBytes)
	}
	t.Logf("%d rows of %d bytes in %d used of %d", n, s.PendingBytes/s.Pending, s.UsedBytes, o.MaxBytes)

	// Handing over and confirming work while full; retained rows then give way.
	rows := mustNext(t, b, 0, 500)
	mustConfirm(t, b, rows)
	mustAppend(t, b, delta("A", 1))
	if s := mustStats(t, b); s.Full || s.Evicted == 0 || s.Retained >= 500 {
		t.Errorf("full %t, evicted %d, retained %d, want false, some, fewer than 500", s.Full, s.Evicted, s.Retained)
	}
	got := drain(t, b)
	if want := n - len(rows) + 1; len(got) != want {
		t.Errorf("drained %d, want %d", len(got), want)
	}
}

// fillUp fills in batches first and row by row at the end.
func fillUp(t *testing.T, b *Outbox) int {
	t.Helper()
	n := fill(t, b, someDeltas(100))
	return n + fill(t, b, someDeltas(1))
}

// Every row is confirmed in a file that has no room left: the headroom must do.
func TestConfirmAllWhileFull(t *testing.T) {
	for _, retention := range []int{-1, 0} {
		o := smallOptions(t)
		if retention < 0 {
			o.Retention = -1
		}
		b := open(t, o)
		n := fillUp(t, b)
		if got := len(drain(t, b)); got != n {
			t.Errorf("drained %d of %d", got, n)
		}
		if evicted := mustStats(t, b).Evicted; evicted != 0 {
			t.Errorf("confirming gave up %d retained rows, want 0: that is what the headroom is for", evicted)
		}
	}
}

func TestRetainedRowsGoFirst(t *testing.T) {
	b := open(t, smallOptions(t))
	n := fill(t, b, someDeltas(100))
	drain(t, b)
	before := mustStats(t, b)
	if before.Retained != uint64(n) {
		t.Fatalf("%d retained, want %d", before.Retained, n)
	}
	mustAppend(t, b, someDeltas(100)(0)...)
	s := mustStats(t, b)
	if s.Pending != 100 || s.Evicted == 0 || s.Evicted > 4*sliceRows || s.Retained != before.Retained-s.Evicted {
		t.Errorf("pending %d, evicted %d, retained %d of %d, want 100 and a few slices given up", s.Pending, s.Evicted, s.Retained, before.Retained)
	}
	first := countFirst(t, b, bKept)
	if first != s.Evicted+1 {
		t.Errorf("oldest retained row is %d, want %d: the oldest go first", first, s.Evicted+1)
	}
}

func countFirst(t *testing.T, b *Outbox, bucket string) (n uint64) {
	t.Helper()
	if err := b.update(func(c *change) error {
		if k, _ := c.bucket(bucket).Cursor().First(); k != nil {
			for _, x := range k {
				n = n<<8 | uint64(x)
			}
		}
		return errUnchanged
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// The part of FC-11 that is built: unsent snapshots give way to newer ones, whose
// run they join; deltas all stay; what does not fit is refused aloud.
func TestFC11SnapshotsGiveWayDeltasStay(t *testing.T) {
	b := open(t, smallOptions(t))
	// Some have left already and are frozen.
	mustAppend(t, b, snapshot("A", 1), snapshot("A", 2))
	frozen := mustNext(t, b, 0, 10)

	deltas, snapshots := 0, 0
	last := map[string]int64{}
	for call := range 400 {
		batch := make([]event.Event, 25)
		for i := range batch {
			tank, grams := []string{"A", "B", "C"}[i%3], int64(call*len(batch)+i)
			batch[i] = snapshot(tank, grams)
			last[tank] = grams
			snapshots++
		}
		if call%3 == 0 {
			batch = append(batch, delta("A", 1), delta("C", 1))
			deltas += 2
		}
		mustAppend(t, b, batch...)
	}
	s := mustStats(t, b)
	if s.SnapshotsDropped == 0 || s.Refused != 0 {
		t.Fatalf("dropped %d, refused %d, want some and none", s.SnapshotsDropped, s.Refused)
	}
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if d := bytes.Compare(mustNext(t, b, 0, 2)[1].Payload, frozen[1].Payload); d != 0 {
		t.Error("a row that had left was changed")
	}

	gotDeltas, gotSnapshots, covered := 0, uint64(0), map[string]uint64{"A": 0, "B": 0, "C": 0}
	newest := map[string]int64{}
	for _, e := range drain(t, b) {
		run := e.Run()
		if run.From != covered[e.Tank]+1 || run.To != e.Dot.Seq {
			t.Fatalf("tank %s: run %v after %d", e.Tank, run, covered[e.Tank])
		}
		covered[e.Tank] = run.To
		if e.Type == event.Measured {
			gotSnapshots++
			newest[e.Tank] = int64(e.Amount / 1e9)
		} else if gotDeltas++; run.From != run.To {
			t.Errorf("a delta stands for %v", run)
		}
	}
	if gotDeltas != deltas {
		t.Errorf("%d deltas, want %d", gotDeltas, deltas)
	}
	if gotSnapshots+s.SnapshotsDropped != uint64(snapshots)+2 {
		t.Errorf("%d snapshots and %d dropped, want %d", gotSnapshots, s.SnapshotsDropped, snapshots+2)
	}
	for tank, want := range last {
		if newest[tank] != want {
			t.Errorf("tank %s: newest snapshot %d, want %d", tank, newest[tank], want)
		}
	}
}

// A snapshot that was about to give way and then left is frozen like any other.
func TestWhatHasLeftIsNotDropped(t *testing.T) {
	b := open(t, smallOptions(t))
	mustAppend(t, b, snapshot("A", 1), snapshot("A", 2))
	drop := func(want int) {
		t.Helper()
		b.mu.Lock()
		defer b.mu.Unlock()
		if got, err := b.dropSnapshots(); got != want || err != nil {
			t.Errorf("dropped %d, %v, want %d", got, err, want)
		}
	}
	drop(1)
	left := mustNext(t, b, 0, 10)
	if run := runOf(t, left[0]); len(left) != 1 || run != (event.Range{From: 1, To: 2}) {
		t.Errorf("%d rows, the first for %v, want one for 1 to 2", len(left), run)
	}
	mustAppend(t, b, snapshot("A", 3))
	drop(0)
	mustAppend(t, b, delta("A", 1), snapshot("A", 4), snapshot("B", 1), snapshot("A", 5))
	drop(1)
	again := mustNext(t, b, 0, 10)
	if len(again) != 5 || !bytes.Equal(again[0].Payload, left[0].Payload) {
		t.Errorf("%d rows, the first %s, want 5 beginning with %s", len(again), again[0].Payload, left[0].Payload)
	}
	if run := runOf(t, again[4]); run != (event.Range{From: 5, To: 6}) {
		t.Errorf("last run %v, want 5 to 6", run)
	}
}

func runOf(t *testing.T, r Row) event.Range {
	t.Helper()
	e := decode(t, r)
	return e.Run()
}

func TestCallersSnapshotsAreNotDropped(t *testing.T) {
	b := open(t, smallOptions(t))
	n := fill(t, b, func(call int) []event.Event {
		batch := make([]event.Event, 20)
		for i := range batch {
			batch[i] = snapshot("A", int64(i))
			batch[i].ID = fmt.Sprintf("mine-%d-%d", call, i)
		}
		return batch
	})
	if s := mustStats(t, b); s.SnapshotsDropped != 0 {
		t.Errorf("%d dropped, want 0", s.SnapshotsDropped)
	}
	if got := len(drain(t, b)); got != n {
		t.Errorf("drained %d, want %d", got, n)
	}
}

func TestDeltaTakesTheRoomOfStagedSnapshots(t *testing.T) {
	b := open(t, smallOptions(t))
	fillUp(t, b)
	for range 100 {
		if err := b.Stage(snapshot("A", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(); !boltfile.IsFull(err) {
		t.Fatalf("Flush = %v, want one that IsFull", err)
	}
	if s := mustStats(t, b); s.Staged != 100 || !s.Full {
		t.Errorf("staged %d, full %t, want 100, true: they wait for room", s.Staged, s.Full)
	}
	// Room for one row, not for a hundred more.
	mustConfirm(t, b, mustNext(t, b, 0, 30))
	refused := mustStats(t, b).Refused
	mustAppend(t, b, delta("A", 1))
	if s := mustStats(t, b); s.Staged != 0 || s.Refused != refused+100 {
		t.Errorf("staged %d, refused %d more, want 0, 100", s.Staged, s.Refused-refused)
	}
}

// smallDisk mounts a file system of 2 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIPPED: a small file system cannot be mounted here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// A disk that fills up with rows that brokers have taken is no trouble: they give
// way, in steps as small as the last free pages allow.
func TestFC12RetainedRowsGiveWayOnAFullDisk(t *testing.T) {
	b := open(t, testOptions(filepath.Join(smallDisk(t), "outbox.db"), newClock()))
	for i := range 800 {
		mustAppend(t, b, someDeltas(1+i%20)(0)...)
		if i%3 == 0 {
			mustConfirm(t, b, mustNext(t, b, 0, 500))
		}
	}
	if s := mustStats(t, b); s.Evicted == 0 || s.Refused != 0 || s.FileBytes < 1<<20 {
		t.Errorf("evicted %d, refused %d, file of %d, want a full disk that gives way", s.Evicted, s.Refused, s.FileBytes)
	}
}

// brim uses up the last free pages.
func brim(t *testing.T, b *Outbox) {
	t.Helper()
	for i := range 1000 {
		err := b.f.Update(func(tx *bbolt.Tx) error {
			scratch, err := tx.CreateBucketIfNotExists([]byte("scratch"))
			if err != nil {
				return err
			}
			return scratch.Put(rowKey(uint64(i)), make([]byte, 1500))
		})
		if boltfile.IsFull(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("never full")
}

// Handing over rewrites the rows of an unsynchronised clock: on a full disk it
// does so in windows as small as need be.
func TestFC12DrainGoesOnWhileTheDiskIsFull(t *testing.T) {
	clock := newClock()
	clock.sync(false)
	b := open(t, testOptions(filepath.Join(smallDisk(t), "outbox.db"), clock))
	n := 0
	for ; n < 300; n++ { // frozen below, and confirmed at the brim
		mustAppend(t, b, delta("A", 1))
	}
	small := mustNext(t, b, 0, n)
	n += fill(t, b, func(i int) []event.Event {
		e := bigSnapshot()
		e.ID = fmt.Sprint("keep-", i) // so that it cannot be dropped
		return []event.Event{e}
	})
	brim(t, b)
	mustConfirm(t, b, small)
	brim(t, b)
	clock.advance(time.Minute)
	if got := len(small) + len(drain(t, b)); got != n {
		t.Errorf("drained %d, want %d", got, n)
	}
}

// A call that no outbox could hold costs nobody his retained rows.
func TestGiantCallIsRefusedAtOnce(t *testing.T) {
	b := open(t, smallOptions(t))
	mustAppend(t, b, someDeltas(1000)(0)...)
	drain(t, b)
	if _, err := b.Append(someDeltas(10_000)(0)...); !errors.Is(err, ErrFull) {
		t.Errorf("Append = %v, want ErrFull", err)
	}
	if s := mustStats(t, b); s.Evicted != 0 || s.Retained != 1000 {
		t.Errorf("evicted %d, retained %d, want 0, 1000", s.Evicted, s.Retained)
	}
}

func TestFC12DiskFullThenSpaceReturns(t *testing.T) {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, testOptions(filepath.Join(dir, "outbox.db"), newClock()))
	n := fill(t, b, someDeltas(10))
	s := mustStats(t, b)
	if s.Pending != uint64(n) || !s.Full {
		t.Errorf("pending %d, full %t, want %d, true", s.Pending, s.Full, n)
	}
	if err := b.f.Err(); err != nil {
		t.Fatalf("the store has failed: %v", err)
	}
	rows := mustNext(t, b, 0, 100) // the drain goes on
	mustConfirm(t, b, rows)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, b, someDeltas(500)(0)...)
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if got, want := len(drain(t, b)), n-len(rows)+500; got != want {
		t.Errorf("drained %d, want %d", got, want)
	}
}

package outbox

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/ledger"
)

var monthFlag = flag.Bool("outbox.month", false, "offline for 30 days at 3 tanks x 1 Hz within 64 MiB (minutes), instead of 3 days at 1/8 Hz within 2 MiB")

// offline is a node without a broker, and what its tanks really did.
type offline struct {
	b        *Outbox
	clock    *fakeClock
	every    time.Duration
	snapshot time.Duration // how often a snapshot is taken
	deltas   bool

	consumed  map[string]physic.Mass
	since     map[string]physic.Mass // consumed since the last snapshot
	remaining map[string]physic.Mass // that it said
	appended  uint64
	fileMost  int64
}

const perCall = 60 // readings of each tank

// live appends what happens in a while.
func (f *offline) live(t *testing.T, step int) {
	t.Helper()
	f.clock.advance(perCall * f.every)
	var drafts []event.Event
	for i := range perCall {
		at := f.clock.Now().Add(-time.Duration(perCall-1-i) * f.every)
		for n, tank := range []string{"A", "B", "C"} {
			if f.deltas {
				amount := physic.Mass(1+(step+i*7+n)%9) * physic.MicroGram
				drafts = append(drafts, event.Event{Type: event.Consumed, Tank: tank, Amount: amount, OccurredAt: at})
				f.consumed[tank] += amount
				f.since[tank] += amount
			}
			if !f.deltas || time.Duration(step*perCall+i)*f.every%f.snapshot == 0 && i == 0 {
				f.remaining[tank] = physic.Mass(900e6-step*perCall-i) * physic.MicroGram
			}
			if !f.deltas {
				drafts = append(drafts, event.Event{Type: event.Measured, Tank: tank, Amount: f.remaining[tank], OccurredAt: at})
			}
		}
	}
	if f.deltas && time.Duration(step*perCall)*f.every%f.snapshot == 0 {
		for _, tank := range []string{"A", "B", "C"} {
			drafts = append(drafts, event.Event{Type: event.Measured, Tank: tank, Amount: f.remaining[tank], OccurredAt: f.clock.Now()})
			f.since[tank] = 0
		}
	}
	if _, err := f.b.Append(drafts...); err != nil {
		t.Fatalf("append after %d events: %v", f.appended, err)
	}
	f.appended += uint64(len(drafts))
	f.fileMost = max(f.fileMost, mustFile(t, f.b))
}

func mustFile(t *testing.T, b *Outbox) int64 {
	t.Helper()
	st, err := os.Stat(b.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// Offline for a month within the bound, and then every sum is right, in the real
// account.
func TestOfflineForAMonth(t *testing.T) {
	for _, deltas := range []bool{false, true} {
		t.Run(map[bool]string{false: "snapshots", true: "deltas"}[deltas], func(t *testing.T) {
			f := &offline{clock: newClock(), every: 8 * time.Second, snapshot: 8 * time.Minute, deltas: deltas,
				consumed: map[string]physic.Mass{}, since: map[string]physic.Mass{}, remaining: map[string]physic.Mass{}}
			o := testOptions(path(t), f.clock)
			days := 3
			o.MaxBytes = MaxBytesMin
			if *monthFlag {
				days, f.every, f.snapshot, o.MaxBytes = 30, time.Second, time.Minute, MaxBytesDefault
			}
			f.b = open(t, o)
			start := f.clock.Mono()
			for step := 0; f.clock.Mono() < start+time.Duration(days)*24*time.Hour; step++ {
				f.live(t, step)
			}
			s := mustStats(t, f.b)
			t.Logf("%d events in %d rows, %d snapshots dropped, %d deltas merged, file of %d at most", f.appended, s.Pending, s.SnapshotsDropped, s.Merged, f.fileMost)
			if f.fileMost > o.MaxBytes || s.Refused != 0 || s.Pending >= f.appended/2 {
				t.Errorf("file of %d, refused %d, %d rows of %d events, want within %d, none, far fewer", f.fileMost, s.Refused, s.Pending, f.appended, o.MaxBytes)
			}
			if s.CrowdedSince.IsZero() {
				t.Error("not said to be crowded")
			}
			if err := f.b.Check(); err != nil {
				t.Error(err)
			}
			f.account(t)
		})
	}
}

// account drains into a ledger and compares.
func (f *offline) account(t *testing.T) {
	t.Helper()
	l, err := ledger.Open(ledger.Options{Path: filepath.Join(t.TempDir(), "ledger"), Now: f.clock.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for {
		rows := mustNext(t, f.b, 0, 500)
		if len(rows) == 0 {
			break
		}
		var batch []ledger.Delivery
		for _, r := range rows {
			batch = append(batch, ledger.Delivery{Event: decode(t, r), Topic: r.Topic, Payload: r.Payload})
		}
		if _, err := l.Apply(batch); err != nil {
			t.Fatal(err)
		}
		mustConfirm(t, f.b, rows)
	}
	for tank, remaining := range f.remaining {
		got, ok, err := l.Balance(tank)
		if err != nil || !ok {
			t.Fatalf("Balance(%s) = %t, %v", tank, ok, err)
		}
		want := ledger.SumOf(remaining - f.since[tank])
		if *got.Balance != want || got.Totals.Consumed != ledger.SumOf(f.consumed[tank]) || !got.Complete || !got.TotalsComplete {
			t.Errorf("tank %s: balance %v, consumed %v, complete %t, totals %t, want %v, %v, true, true", tank,
				got.Balance, got.Totals.Consumed, got.Complete, got.TotalsComplete, want, ledger.SumOf(f.consumed[tank]))
		}
	}
}

// FC-11 as it was told: at the bound nothing is lost silently. 50 snapshots and
// 100 deltas of 1 g, many times over; what leaves says the same.
func TestFC11FullOutboxKeepsTotals(t *testing.T) {
	clock := newClock()
	o := testOptions(path(t), clock)
	o.MaxBytes = MaxBytesMin
	b := open(t, o)
	consumed, last, loud := 0, int64(0), false
	for round := range 60 {
		for i := range 50 {
			clock.advance(time.Second)
			last = int64(1000 + round*50 + i)
			mustAppend(t, b, delta("A", 1), delta("A", 1), snapshot("A", last))
			consumed += 2
		}
		loud = loud || !mustStats(t, b).CrowdedSince.IsZero()
	}
	s := mustStats(t, b)
	if s.Merged == 0 || s.SnapshotsDropped == 0 || s.Refused != 0 || !loud {
		t.Errorf("merged %d, dropped %d, refused %d, crowded %t, want some, some, none, true", s.Merged, s.SnapshotsDropped, s.Refused, loud)
	}
	a := newAccount("main")
	l := &line{b: b, to: []*account{a}}
	l.run(t)
	if a.consumed != int64(consumed) || int64(a.last["A"].Amount/1e9) != last {
		t.Errorf("consumed %d, last snapshot %v, want %d and %d", a.consumed, a.last["A"].Amount, consumed, last)
	}
	a.complete(t, b)
	mustAppend(t, b, delta("A", 1)) // retained rows give way: no trouble any more
	if _, err := b.Append(delta("A", 1)); errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// Merged rows leave once and are frozen like any other; an alarm stands until
// there is room again.
func TestMergedRowsAreFrozenOnceTheyLeave(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	merge := func() {
		t.Helper()
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, err := b.coalesce(); err != nil {
			t.Fatal(err)
		}
	}
	mustAppend(t, b, deltas("A", 5)...)
	merge()
	first := mustNext(t, b, 0, 10)
	mustAppend(t, b, deltas("A", 5)...)
	merge()
	again := mustNext(t, b, 0, 10)
	if len(first) != 1 || len(again) != 2 || string(first[0].Payload) != string(again[0].Payload) {
		t.Fatalf("%d rows, then %d, want 1, then 2 with the first as it left", len(first), len(again))
	}
	if run := runOf(t, again[1]); run != (event.Range{From: 6, To: 10}) {
		t.Errorf("the second stands for %v, want 6 to 10", run)
	}
}

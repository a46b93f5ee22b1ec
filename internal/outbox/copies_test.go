package outbox

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/internal/event"
)

// image copies the store's file as it is now: a card, duplicated or backed up.
func image(t *testing.T, b *Outbox) string {
	t.Helper()
	content, err := os.ReadFile(b.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	to := path(t)
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func unsyncedAt1970(clock *fakeClock) {
	clock.wall = time.Unix(10, 0).UTC()
	clock.synced = false
}

// An old card comes back, with a row that had not left when it was copied. It
// repeats itself exactly, and makes new readings under an epoch of its own.
func TestRestoredCard(t *testing.T) {
	for _, c := range []struct {
		name              string
		retained, no1970s bool
	}{
		{"with a retained confirmation", true, true},
		{"without one", false, true},
		{"with one, clock at 1970", true, false},
		{"without one, clock at 1970", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			a := newAccount("main")
			l := &line{b: reopen(t, testOptions(path(t), clock)), to: []*account{a}}
			l.b.LedgerStatus("main", 1, true)
			mustAppend(t, l.b, deltas("A", 5)...)
			l.run(t)
			mustAppend(t, l.b, delta("A", 1)) // number 6 has not left
			old := l.b.epoch
			card := image(t, l.b)

			// The board lives on: the row leaves, others follow, and another start.
			l.run(t)
			mustAppend(t, l.b, deltas("A", 4)...)
			l.run(t)
			checkAndClose(t, l.b)
			clock.advance(time.Hour)
			l.b, l.after = reopen(t, l.b.o), 0
			mustAppend(t, l.b, deltas("A", 3)...)
			l.run(t)
			later := l.b.epoch
			retained := a.confirm()
			checkAndClose(t, l.b)
			if a.consumed != 13 {
				t.Fatalf("consumed %d, want 13", a.consumed)
			}

			clock.reboot("restored")
			if !c.no1970s {
				unsyncedAt1970(clock)
			}
			l.b, l.after = reopen(t, testOptions(card, clock)), 0
			defer func() { checkAndClose(t, l.b) }()
			first := l.b.epoch
			if first == old || first == later {
				t.Fatalf("epoch %d again", first)
			}
			if c.retained {
				if err := l.b.Heard(retained); err != nil { // before any status
					t.Fatal(err)
				}
				if l.b.epoch <= later {
					t.Errorf("epoch %d, want above %d, which the confirmation shows", l.b.epoch, later)
				}
			}
			mustAppend(t, l.b, deltas("A", 2)...)
			sent := l.run(t)
			if len(sent) != 3 || sent[0].Dot != (event.Dot{Epoch: old, Seq: 6}) || sent[1].Dot != (event.Dot{Epoch: l.b.epoch, Seq: 1}) {
				t.Errorf("sent %+v, want number 6 of %d as it was, then 1 and 2 of %d", sent, old, l.b.epoch)
			}
			l.b.LedgerStatus("main", 1, true)
			l.settle(t, clock, 15*time.Minute)
			if l.b.epoch <= later {
				t.Errorf("epoch %d once the ledger has spoken, want above %d", l.b.epoch, later)
			}
			mustAppend(t, l.b, deltas("A", 2)...)
			l.settle(t, clock, 15*time.Minute)
			if a.consumed != 17 || a.conflicts != 0 {
				t.Errorf("consumed %d with %d conflicts, want 17 and none", a.consumed, a.conflicts)
			}
			for id, seen := range a.seen {
				for n := uint64(1); n <= uint64(len(seen)); n++ {
					if !seen[n] {
						t.Errorf("number %d of epoch %d never came", n, id.epoch)
					}
				}
			}
			if s := mustStats(t, l.b); s.SkipsSent != 0 {
				t.Errorf("%d skipped events: what the board did later is not in this store to answer", s.SkipsSent)
			}
		})
	}
}

// Two boards with copies of one card draw different epochs, each restart anew.
func TestClonedCard(t *testing.T) {
	clock := newClock()
	b := reopen(t, testOptions(path(t), clock))
	mustAppend(t, b, deltas("A", 3)...)
	card := image(t, b)
	checkAndClose(t, b)
	a := newAccount("main")
	one := &line{b: reopen(t, b.o), to: []*account{a}}
	two := &line{b: reopen(t, testOptions(card, clock)), to: []*account{a}}
	defer func() { checkAndClose(t, one.b); checkAndClose(t, two.b) }()
	if one.b.epoch == two.b.epoch {
		t.Fatalf("both drew epoch %d", one.b.epoch)
	}
	for range 5 {
		for _, l := range []*line{one, two} {
			mustAppend(t, l.b, deltas("A", 2)...)
			l.run(t)
			l.b.LedgerStatus("main", 1, true)
			a.tell(t, l.b)
		}
		clock.advance(epochPause)
	}
	if a.consumed != 3+5*4 || a.repeats != 3 || a.conflicts != 0 {
		t.Errorf("consumed %d, repeats %d, conflicts %d, want 23, 3, 0", a.consumed, a.repeats, a.conflicts)
	}
	if one.b.epoch == two.b.epoch {
		t.Errorf("both are in epoch %d", one.b.epoch)
	}
	// Each leaves its epoch for the other's newer one, and not more than every ten
	// minutes.
	if s := mustStats(t, one.b); s.EpochsLeft == 0 || s.EpochsLeft > 5 {
		t.Errorf("%d epochs left, want some and at most 5", s.EpochsLeft)
	}
}

func TestNewEpochWhenItIsInOtherHands(t *testing.T) {
	clock, l, a := setUp(t)
	l.b.LedgerStatus(a.id, 1, false) // its word on epochs counts all the same
	confirm := func(change func(*event.Confirm)) {
		t.Helper()
		c := event.Confirm{Ledger: a.id, Incarnation: 7, Source: "ctl-3", NewestEpoch: l.b.epoch}
		change(&c)
		if err := l.b.Heard(c); err != nil {
			t.Fatal(err)
		}
	}
	named := func(tank string, through uint64, missing ...event.Range) func(*event.Confirm) {
		return func(c *event.Confirm) {
			c.Streams = []event.ConfirmStream{{Epoch: l.b.epoch, Tank: tank, Through: through, Missing: missing}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*event.Confirm)
		leaves bool
	}{
		{"as it should be", named("A", 3), false},
		{"a number never given", named("A", 4), true},
		{"missing ones never given", named("A", 9, event.Range{From: 5, To: 8}), true},
		{"a tank never seen here", named("B", 1), true},
		{"a newer epoch", func(c *event.Confirm) { c.NewestEpoch++ }, true},
		{"fenced", func(c *event.Confirm) { c.Fenced = []uint64{5, l.b.epoch} }, true},
		{"another one fenced", func(c *event.Confirm) { c.Fenced = []uint64{5, l.b.epoch - 1} }, false},
		{"absurd", func(c *event.Confirm) { c.NewestEpoch = event.MaxEpoch }, false},
		{"absurd, and fenced", func(c *event.Confirm) { c.NewestEpoch = event.MaxEpoch; c.Fenced = []uint64{l.b.epoch} }, true},
	} {
		clock.advance(epochPause)
		if storedStream(t, l.b, l.b.epoch, "A").last == 0 {
			mustAppend(t, l.b, deltas("A", 3)...)
			l.run(t)
		}
		before := l.b.epoch
		confirm(c.change)
		if left := l.b.epoch != before; left != c.leaves || l.b.epoch < before {
			t.Errorf("%s: epoch %d, was %d, want another: %t", c.name, l.b.epoch, before, c.leaves)
		}
	}
	// Not more often than every ten minutes; then without another word.
	clock.advance(epochPause)
	confirm(func(c *event.Confirm) { c.NewestEpoch++ })
	before := l.b.epoch
	clock.advance(time.Minute)
	confirm(func(c *event.Confirm) { c.NewestEpoch++ })
	if l.b.epoch != before {
		t.Error("a second epoch within a minute")
	}
	clock.advance(epochPause)
	if err := l.b.look(); err != nil {
		t.Fatal(err)
	}
	if l.b.epoch <= before+1 {
		t.Errorf("epoch %d after ten minutes, want above %d", l.b.epoch, before+1)
	}
	// Rows that exist keep their identity.
	mustAppend(t, l.b, delta("A", 1))
	kept := l.b.epoch
	clock.advance(epochPause)
	confirm(func(c *event.Confirm) { c.Fenced = []uint64{l.b.epoch} })
	mustAppend(t, l.b, delta("A", 1))
	var got []event.Dot
	for _, e := range l.run(t) {
		got = append(got, e.Dot)
	}
	if d := cmp.Diff([]event.Dot{{Epoch: kept, Seq: 1}, {Epoch: l.b.epoch, Seq: 1}}, got); d != "" {
		t.Errorf("numbers (-want +got):\n%s", d)
	}
}

// A blank store that knows no time waits for a word on the epochs in use.
func TestNewStoreWithoutATimeWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		word  bool
	}{{"half a minute", holdMax, false}, {"until a confirmation", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			unsyncedAt1970(clock)
			b := open(t, testOptions(path(t), clock))
			mustAppend(t, b, delta("A", 1))
			clock.advance(time.Hour) // not connected: time does not count
			if n := len(mustNext(t, b, 0, 9)); n != 0 {
				t.Fatalf("%d rows at once, want none", n)
			}
			clock.advance(holdMax - time.Second)
			if n := len(mustNext(t, b, 0, 9)); n != 0 || !mustStats(t, b).Held {
				t.Fatalf("%d rows, want none: held", n)
			}
			clock.advance(c.after)
			epoch := b.epoch
			if c.word {
				if err := b.Heard(event.Confirm{Ledger: "main", Source: "ctl-3", NewestEpoch: epoch + 5<<20}); err != nil {
					t.Fatal(err)
				}
				if mustAppend(t, b, delta("A", 2))[0].Dot.Epoch <= epoch+5<<20 {
					t.Error("the epoch is in use already")
				}
			} else if err := b.look(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-b.Wake():
			default:
				t.Error("nobody was woken")
			}
			rows := mustNext(t, b, 0, 9)
			if len(rows) == 0 || decode(t, rows[0]).Dot != (event.Dot{Epoch: epoch, Seq: 1}) {
				t.Errorf("%d rows, want the first with its identity", len(rows))
			}
		})
	}
}

// The board boots in 1970 and its clock is set while readings wait: they leave with
// their real times, in their order.
func TestFC46BootIn1970ThenSync(t *testing.T) {
	clock := newClock()
	clock.wall, clock.mono, clock.synced = time.Unix(10, 0).UTC(), 0, false
	b := open(t, testOptions(path(t), clock))
	for range 3 {
		clock.advance(10 * time.Second)
		mustAppend(t, b, snapshot("A", 1))
	}
	clock.advance(10 * time.Second)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock.wall, clock.synced = noon.Add(40*time.Second), true
	mustNext(t, b, 0, 9) // connected: the epoch is still that of a board without a date
	clock.advance(holdMax)
	for i, e := range drain(t, b) {
		if want := noon.Add(time.Duration(i+1) * 10 * time.Second); !e.OccurredAt.Equal(want) || e.Unsynced || e.HasAge || e.Dot.Seq != uint64(i+1) {
			t.Errorf("number %d at %v, unsynced %t, want %d at %v, false", e.Dot.Seq, e.OccurredAt, e.Unsynced, i+1, want)
		}
	}
	if s := mustStats(t, b); s.Pending != 0 || s.Retained != 3 {
		t.Errorf("pending %d, retained %d, want 0, 3", s.Pending, s.Retained)
	}
}

// A boot behind the last known time: numbers and epochs go on rising, and a
// plausible date alone is not believed.
func TestFC47BootBehindTheLastKnownTime(t *testing.T) {
	clock := newClock()
	b := reopen(t, testOptions(path(t), clock))
	before := mustAppend(t, b, delta("A", 1))[0].Dot
	drain(t, b)
	clock.reboot("behind")
	clock.step(-10 * time.Minute)
	clock.sync(false)
	b = crash(t, b)
	defer func() { checkAndClose(t, b) }()
	r := mustAppend(t, b, delta("A", 1))[0]
	if r.Dot.Compare(before) <= 0 {
		t.Errorf("number %v after %v", r.Dot, before)
	}
	clock.advance(7 * time.Second)
	rows := mustNext(t, b, 0, 9)
	if e := decode(t, rows[0]); len(rows) != 1 || !e.Unsynced || e.Age != 7*time.Second {
		t.Errorf("%d rows, unsynced %t, age %v, want one, true, 7 s", len(rows), e.Unsynced, e.Age)
	}
}

package outbox

import (
	"testing"
	"time"

	"oxyd/internal/clock/clocktest"
	"oxyd/internal/event"
)

// FC-46 over a power cut: the clock was synchronised while the readings waited, and
// the board went off before anything left. They have their true times all the same.
// What an earlier boot never knew stays unknown.
func TestFC46SyncBeforeThePowerCut(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		synced bool // in the first boot
	}{{"synchronised in between", true}, {"never synchronised", false}} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			clock.wall, clock.mono, clock.synced = time.Unix(10, 0).UTC(), 0, false
			b := reopen(t, testOptions(path(t), clock))
			for range 3 {
				clock.advance(10 * time.Second)
				mustAppend(t, b, snapshot("A", 1))
			}
			clock.advance(10 * time.Second)
			clock.wall, clock.synced = noon.Add(40*time.Second), c.synced
			before := txid(t, b)
			for range 3 {
				if err := b.look(); err != nil {
					t.Fatal(err)
				}
			}
			if n := txid(t, b) - before; c.synced && n != 1 || !c.synced && n != 0 {
				t.Errorf("%d commits for it, want one once it is synchronised", n)
			}
			clock.advance(time.Minute)
			b = crash(t, b)
			clock.reboot("boot-2")
			clock.wall, clock.synced = noon.AddDate(0, 0, 3), true
			b.Close()
			b = reopen(t, b.o)
			defer checkAndClose(t, b)
			mustNext(t, b, 0, 9)
			clock.advance(holdMax)
			all := drain(t, b)
			if len(all) != 3 {
				t.Fatalf("%d events, want 3", len(all))
			}
			for i, e := range all {
				want := noon.Add(time.Duration(i+1) * 10 * time.Second)
				if c.synced && (e.Unsynced || e.HasAge || !e.OccurredAt.Equal(want)) {
					t.Errorf("number %d at %v, unsynced %t, age %v, want %v, false, none", e.Dot.Seq, e.OccurredAt, e.Unsynced, e.Age, want)
				}
				if !c.synced && (!e.Unsynced || e.HasAge || e.OccurredAt.Year() != 1970) {
					t.Errorf("number %d at %v, unsynced %t, age %v: a time was invented", e.Dot.Seq, e.OccurredAt, e.Unsynced, e.Age)
				}
			}
		})
	}
}

// What an anchor does not cover: rows that were made after it while the clock was
// not synchronised any more, and those of a boot whose anchor is damaged or gone.
func TestAnchorCoversWhatWasBeforeIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, *Outbox, *fakeClock)
		want  bool // the row's time is known
	}{
		{"as it is", func(*testing.T, *Outbox, *fakeClock) {}, true},
		{"damaged", func(t *testing.T, b *Outbox, _ *fakeClock) { spoilAnchor(t, b, 1) }, false},
		{"of other boots", func(t *testing.T, b *Outbox, _ *fakeClock) { spoilAnchor(t, b, anchorsMax+1) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			clock.sync(false)
			b := reopen(t, testOptions(path(t), clock))
			mustAppend(t, b, delta("A", 1))
			clock.sync(true)
			if err := b.look(); err != nil {
				t.Fatal(err)
			}
			clock.sync(false)
			clock.advance(time.Hour)
			mustAppend(t, b, delta("A", 2))
			c.spoil(t, b, clock)
			b = crash(t, b)
			b.Close()
			clock.reboot("boot-2")
			b = reopen(t, b.o)
			defer checkAndClose(t, b)
			all := drain(t, b)
			if got := !all[0].Unsynced; got != c.want {
				t.Errorf("time of the first is known: %t, want %t", got, c.want)
			}
			if !all[1].Unsynced || all[1].HasAge {
				t.Errorf("the second came after the anchor by a clock that nobody held any more: unsynced %t, age %t", all[1].Unsynced, all[1].HasAge)
			}
		})
	}
}

// spoilAnchor damages the anchor of this boot, or writes so many others that it goes.
func spoilAnchor(t *testing.T, b *Outbox, writes int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range writes {
		if err := b.update(func(c *change) error {
			if err := c.bucket(bState).Put(anchorKey(b.boot+uint32(i)), []byte("no anchor")); err != nil {
				return err
			}
			return c.forgetAnchors()
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// settingClock is set to the right time in the moment in which somebody asks
// whether it is synchronised, or right after that.
type settingClock struct {
	*fakeClock
	after bool
	right time.Time
}

func (c settingClock) Synced() bool {
	if c.after {
		defer c.set()
	} else {
		c.set()
	}
	return c.fakeClock.Synced()
}

func (c settingClock) set() {
	c.mu.Lock()
	c.wall, c.synced = c.right, true
	c.mu.Unlock()
}

// A clock that is set between two of its readings: the date from before never
// passes for a synchronised one.
func TestSyncBetweenTwoReadingsOfTheClock(t *testing.T) {
	right := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, after := range []bool{false, true} {
		clock := settingClock{newClock(), after, right}
		clock.wall, clock.synced = right.AddDate(-1, 0, 0), false
		b := open(t, testOptions(path(t), clock))
		mustAppend(t, b, delta("A", 1))
		if e := drain(t, b)[0]; !e.Unsynced && !e.OccurredAt.Equal(right) {
			t.Errorf("set after the question %t: at %v and said to be synchronised, want %v", after, e.OccurredAt, right)
		}
	}
}

// goClock gives instants as the time package reads them, monotonic reading included.
type goClock struct {
	*fakeClock
	now *time.Time
}

func (c goClock) Now() time.Time { return *c.now }

// A reading is made, the clock is set and synchronised, and only then is the reading
// staged: it carries the old date, and must not leave with it as a true one.
func TestFC46ClockSetBetweenReadingAndStaging(t *testing.T) {
	read := time.Now()
	now := clocktest.Stepped(read.Add(3*time.Second), 40*24*time.Hour)
	clock := goClock{newClock(), &now}
	b := open(t, testOptions(path(t), clock))
	e := snapshot("A", 1)
	e.OccurredAt = read
	if err := b.Stage(e); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	got, want := drain(t, b)[0], now.Round(0).Add(-3*time.Second)
	if got.Unsynced || !got.OccurredAt.Equal(want) {
		t.Errorf("at %v, unsynced %t, want %v, false", got.OccurredAt, got.Unsynced, want.UTC())
	}
}

// FC-47: while the clock is behind, not synchronised and then stepped about,
// numbers and rows go on in the order of appending.
func TestFC47OrderIsThatOfAppending(t *testing.T) {
	clock := newClock()
	clock.sync(false)
	b := open(t, testOptions(path(t), clock))
	var want []event.Dot
	for i, step := range []time.Duration{-10 * time.Minute, 24 * time.Hour, -48 * time.Hour, 0} {
		clock.step(step)
		clock.advance(time.Second)
		want = append(want, mustAppend(t, b, delta("A", int64(i+1)))[0].Dot)
	}
	for i, e := range drain(t, b) {
		if e.Dot != want[i] || e.Dot.Seq != uint64(i+1) || !e.Unsynced || e.Age != time.Duration(3-i)*time.Second {
			t.Errorf("place %d: number %d, unsynced %t, age %v, want %d, true, %d s", i, e.Dot.Seq, e.Unsynced, e.Age, i+1, 3-i)
		}
	}
}

// What has left is frozen, whatever is learnt about its time afterwards, also where it
// goes out again beside rows whose time is settled just then.
func TestTimesAreNotCorrectedAfterTheHandOver(t *testing.T) {
	clock := newClock()
	clock.sync(false)
	b := open(t, testOptions(path(t), clock))
	mustAppend(t, b, delta("A", 1))
	clock.advance(5 * time.Second)
	left := mustNext(t, b, 0, 9)
	mustAppend(t, b, delta("A", 2))
	clock.advance(5 * time.Second)
	clock.step(24 * time.Hour)
	clock.sync(true)
	again := mustNext(t, b, 0, 9)
	if len(again) != 2 || string(again[0].Payload) != string(left[0].Payload) {
		t.Errorf("left as %s, now %s", left[0].Payload, again[0].Payload)
	}
	if e := decode(t, again[1]); e.Unsynced || !e.OccurredAt.Equal(clock.Now().Add(-5*time.Second)) {
		t.Errorf("what had not left is at %v, unsynced %t, want corrected", e.OccurredAt, e.Unsynced)
	}
}

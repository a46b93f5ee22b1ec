package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

func TestAppendGivesNumberIdentityAndBytes(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	epoch := mustStats(t, b).Epoch
	got := mustAppend(t, b, snapshot("A", 847), delta("A", 120), delta("B", 5))
	want := []Receipt{
		{Row: 3, ID: event.NodeID("ctl-3", epoch, "A", 2), Dot: event.Dot{Epoch: epoch, Seq: 2}},
		{Row: 1, ID: event.NodeID("ctl-3", epoch, "A", 1), Dot: event.Dot{Epoch: epoch, Seq: 1}},
		{Row: 2, ID: event.NodeID("ctl-3", epoch, "B", 1), Dot: event.Dot{Epoch: epoch, Seq: 1}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("receipts, the deltas numbered first (-want +got):\n%s", d)
	}
	rows := mustNext(t, b, 0, 10)
	if len(rows) != 3 || rows[0].Topic != "oxyd/base/tank/A/consumed" {
		t.Fatalf("rows = %+v", rows)
	}
	wantEvent := event.Event{
		Type: event.Consumed, ID: want[1].ID, Tank: "A", Amount: 120 * physic.Gram, Source: "ctl-3",
		Dot: event.Dot{Epoch: epoch, Seq: 1}, OccurredAt: clock.Now(), Version: 1,
	}
	if d := cmp.Diff(wantEvent, decode(t, rows[0])); d != "" {
		t.Errorf("event (-want +got):\n%s", d)
	}
	for _, r := range want {
		found, ok, err := b.Lookup(r.ID)
		if err != nil || !ok || found != r {
			t.Errorf("Lookup(%s) = %+v, %t, %v, want %+v", r.ID, found, ok, err, r)
		}
	}
}

func TestAppendRefusesBadDraftsWhole(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	for name, bad := range map[string]event.Event{
		"no type":            {Tank: "A"},
		"no tank":            delta("", 1),
		"bad tank":           delta("a/b", 1),
		"no amount":          delta("A", 0),
		"foreign source":     {Type: event.Consumed, Tank: "A", Amount: 1, Source: "ctl-4"},
		"numbered":           {Type: event.Consumed, Tank: "A", Amount: 1, Dot: event.Dot{Epoch: 1, Seq: 1}},
		"id of the node":     {Type: event.Consumed, Tank: "A", Amount: 1, ID: event.NodeID("ctl-3", 7, "A", 9)},
		"unprintable id":     {Type: event.Consumed, Tank: "A", Amount: 1, ID: "a\x00b"},
		"id too long":        {Type: event.Consumed, Tank: "A", Amount: 1, ID: strings.Repeat("x", 193)},
		"other version":      {Type: event.Consumed, Tank: "A", Amount: 1, Version: 2},
		"age":                {Type: event.Consumed, Tank: "A", Amount: 1, HasAge: true},
		"reverses nothing":   {Type: event.Reversed, Tank: "A"},
		"more than there is": delta("A", 2e9),
	} {
		if _, err := b.Append(delta("A", 1), bad); !errors.Is(err, ErrDraft) || !strings.Contains(err.Error(), "draft 1") {
			t.Errorf("%s: Append = %v, want ErrDraft about draft 1", name, err)
		}
	}
	if err := b.Stage(delta("A", 1)); !errors.Is(err, ErrDraft) {
		t.Errorf("Stage of a delta = %v, want ErrDraft", err)
	}
	if n := mustStats(t, b).Pending; n != 0 {
		t.Errorf("%d rows after refusals, want 0", n)
	}
}

func TestStagedComesBeforeTheAppend(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	before := txid(t, b)
	for i := range 3 {
		if err := b.Stage(snapshot("A", int64(800-i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := txid(t, b); got != before {
		t.Errorf("%d commits by Stage, want none", got-before)
	}
	mustAppend(t, b, delta("A", 9))
	if got := txid(t, b); got != before+1 {
		t.Errorf("%d commits, want one for all", got-before)
	}
	var got []string
	for _, e := range drain(t, b) {
		got = append(got, fmt.Sprintf("%d %s", e.Dot.Seq, e.Type.Topic()))
	}
	want := []string{"1 measured", "2 measured", "3 measured", "4 consumed"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestStageBound(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	for i := range stagedMax + 1 {
		if err := b.Stage(snapshot("A", int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if s := mustStats(t, b); s.Pending != stagedMax || s.Staged != 1 {
		t.Errorf("pending %d, staged %d, want %d and 1", s.Pending, s.Staged, stagedMax)
	}
}

func TestStagedIsLostByACrashAndKeptByClose(t *testing.T) {
	b := reopen(t, testOptions(path(t), newClock()))
	b.Stage(snapshot("A", 1))
	b = crash(t, b)
	if s := mustStats(t, b); s.Pending != 0 || !s.Unclean {
		t.Errorf("after a crash: pending %d, unclean %t, want 0, true", s.Pending, s.Unclean)
	}
	b.Stage(snapshot("A", 2))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Stage(snapshot("A", 3)); !errors.Is(err, ErrClosed) {
		t.Errorf("Stage after Close = %v, want ErrClosed", err)
	}
	b = open(t, b.o)
	if s := mustStats(t, b); s.Pending != 1 || s.Unclean {
		t.Errorf("after Close: pending %d, unclean %t, want 1, false", s.Pending, s.Unclean)
	}
}

func TestRunFlushesAndPrunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClock()
		o := testOptions(path(t), clock)
		o.Retention = time.Minute
		b := reopen(t, o)
		defer checkAndClose(t, b)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()

		b.Stage(snapshot("A", 1))
		<-b.Wake()
		rows := mustNext(t, b, 0, 10)
		if len(rows) != 1 {
			t.Fatalf("%d rows, want the staged one", len(rows))
		}
		mustConfirm(t, b, rows)
		clock.advance(time.Minute)
		time.Sleep(pruneInterval + time.Second) // of the bubble's clock
		synctest.Wait()
		if s := mustStats(t, b); s.Retained != 0 || s.Pruned != 1 {
			t.Errorf("retained %d, pruned %d, want 0, 1", s.Retained, s.Pruned)
		}
		b.Stage(snapshot("A", 2))
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if s := mustStats(t, b); s.Pending != 1 || s.Staged != 0 {
			t.Errorf("pending %d, staged %d after Run, want 1, 0", s.Pending, s.Staged)
		}
	})
}

func TestRunEndsWhenTheStoreFails(t *testing.T) {
	o := testOptions(path(t), newClock())
	o.CommitInterval = time.Millisecond
	b := reopen(t, o)
	if err := b.update(func(*change) error { panic("page 7: wrong type") }); !errors.Is(err, boltfile.ErrFailed) {
		t.Fatalf("update = %v, want ErrFailed", err)
	}
	if err := b.Run(t.Context()); !errors.Is(err, boltfile.ErrFailed) {
		t.Errorf("Run = %v, want ErrFailed", err)
	}
	if _, err := b.Append(delta("A", 1)); !errors.Is(err, boltfile.ErrFailed) {
		t.Errorf("Append = %v, want ErrFailed", err)
	}
	if _, err := b.Next(0, 1); !errors.Is(err, boltfile.ErrFailed) {
		t.Errorf("Next = %v, want ErrFailed", err)
	}
	if _, _, err := b.Lookup("x"); !errors.Is(err, boltfile.ErrFailed) {
		t.Errorf("Lookup = %v, want ErrFailed", err)
	}
	b.Close()
	checkAndClose(t, reopen(t, o))
}

func TestCallersIDs(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	e := delta("A", 120)
	e.ID = "e-8842"
	first := mustAppend(t, b, e)[0]
	if first.ID != "e-8842" || first.Again {
		t.Errorf("receipt = %+v", first)
	}
	want := first
	want.Again = true

	again := func(b *Outbox, when string) {
		t.Helper()
		before := txid(t, b)
		if got := mustAppend(t, b, e); got[0] != want {
			t.Errorf("%s: %+v, want %+v", when, got[0], want)
		}
		if txid(t, b) != before {
			t.Errorf("%s: a repeat was committed", when)
		}
	}
	clock.advance(time.Hour) // the time made up here is no content
	again(b, "repeat")
	drain(t, b)
	again(b, "after PUBACK")

	other := e
	other.Amount++
	if _, err := b.Append(delta("A", 1), other); !errors.Is(err, ErrIDReused) {
		t.Errorf("other content = %v, want ErrIDReused", err)
	}
	timed := e
	timed.OccurredAt = clock.Now()
	if _, err := b.Append(timed); !errors.Is(err, ErrIDReused) {
		t.Errorf("with a time of the caller's = %v, want ErrIDReused", err)
	}
	if n := mustStats(t, b).Appended; n != 1 {
		t.Errorf("%d appended, want 1: a refused call changes nothing", n)
	}
	twice := snapshot("A", 3)
	twice.ID = "twice"
	got := mustAppend(t, b, twice, twice)
	if got[0].Again || !got[1].Again || got[0].Row != got[1].Row {
		t.Errorf("twice in one call: %+v", got)
	}
	if found, ok, err := b.Lookup("e-8842"); err != nil || !ok || found != first {
		t.Errorf("Lookup = %+v, %t, %v, want %+v", found, ok, err, first)
	}
	if _, ok, err := b.Lookup("unknown"); err != nil || ok {
		t.Errorf("Lookup(unknown) = %t, %v", ok, err)
	}
	// Over a restart.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again(open(t, b.o), "after a restart")
}

func TestIDsAreBounded(t *testing.T) {
	b := open(t, testOptions(path(t), newClock()))
	drafts := make([]event.Event, idsMax+2)
	for i := range drafts {
		drafts[i] = delta("A", 1)
		drafts[i].ID = fmt.Sprint("id-", i)
	}
	mustAppend(t, b, drafts...)
	for i, want := range map[int]bool{0: false, 1: false, 2: true, idsMax + 1: true} {
		if _, found, err := b.Lookup(drafts[i].ID); err != nil || found != want {
			t.Errorf("Lookup(%s) = %t, %v, want %t", drafts[i].ID, found, err, want)
		}
	}
	if n := mustStats(t, b).IDsForgotten; n != 2 {
		t.Errorf("%d forgotten, want 2", n)
	}
}

func TestEpochs(t *testing.T) {
	clock := newClock()
	o := testOptions(path(t), clock)
	seen := map[uint64]bool{}
	var last uint64
	draw := func(b *Outbox, when string, byTime bool) {
		t.Helper()
		s := mustStats(t, b)
		if s.Epoch <= last || s.Epoch > event.MaxEpoch || seen[s.Epoch] || s.EpochByTime != byTime {
			t.Errorf("%s: epoch %d by time %t after %d, want a greater one below 2^53, by time %t", when, s.Epoch, s.EpochByTime, last, byTime)
		}
		last = s.Epoch
		seen[last] = true
		if dot := mustAppend(t, b, delta("A", 1))[0].Dot; dot != (event.Dot{Epoch: last, Seq: 1}) {
			t.Errorf("%s: first number %v, want 1 of epoch %d", when, dot, last)
		}
	}
	b := reopen(t, o)
	draw(b, "new", true)
	if got, want := last>>20, uint64(clock.Now().Unix()); got != want {
		t.Errorf("epoch begins at second %d, want %d", got, want)
	}
	b = crash(t, b) // within the same second
	draw(b, "after a crash", false)
	clock.step(-60 * 365 * 24 * time.Hour) // no date at all
	b = crash(t, b)
	draw(b, "without a date", false)

	above := last + 5<<20
	if got, err := b.RaiseEpoch(above); err != nil || got <= above {
		t.Errorf("RaiseEpoch = %d, %v, want above %d", got, err, above)
	}
	if got, err := b.RaiseEpoch(above - 1); err != nil || got != b.epoch {
		t.Errorf("RaiseEpoch to less = %d, %v, want %d as it is", got, err, b.epoch)
	}
	draw(b, "raised", false)
	above = last
	if got, err := b.RaiseEpoch(last); err != nil || got <= above {
		t.Errorf("RaiseEpoch above the own = %d, %v", got, err)
	}
	raised := last + 9<<20
	if _, err := b.RaiseEpoch(raised); err != nil {
		t.Fatal(err)
	}
	b = crash(t, b) // nothing was appended since
	if got := mustStats(t, b).Epoch; got <= raised {
		t.Errorf("after a restart %d, want above the %d that a confirm showed", got, raised)
	}
	if _, err := b.RaiseEpoch(event.MaxEpoch); err == nil {
		t.Error("RaiseEpoch to the end of all epochs = nil, want an error")
	}
	draw(b, "after an absurd confirm", false)
	checkAndClose(t, b)
}

func TestFC18OrderIsThatOfAppending(t *testing.T) {
	clock := newClock()
	b := open(t, testOptions(path(t), clock))
	mustAppend(t, b, delta("A", 1))
	clock.step(-time.Hour)
	mustAppend(t, b, delta("A", 2))
	mustAppend(t, b, delta("A", 3))
	var got []uint64
	for _, e := range drain(t, b) {
		got = append(got, e.Dot.Seq)
	}
	if d := cmp.Diff([]uint64{1, 2, 3}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

package outbox

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// fakeClock is a board's clocks, all in the hands of the test.
type fakeClock struct {
	mu     sync.Mutex
	wall   time.Time
	mono   time.Duration
	boot   string
	synced bool
}

func newClock() *fakeClock {
	return &fakeClock{wall: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), mono: time.Hour, boot: "boot-1", synced: true}
}

func (c *fakeClock) Now() time.Time      { c.mu.Lock(); defer c.mu.Unlock(); return c.wall }
func (c *fakeClock) Mono() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.mono }
func (c *fakeClock) BootID() string      { c.mu.Lock(); defer c.mu.Unlock(); return c.boot }
func (c *fakeClock) Synced() bool        { c.mu.Lock(); defer c.mu.Unlock(); return c.synced }

// advance lets time pass; step moves the wall clock alone.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
	c.mu.Unlock()
}

func (c *fakeClock) step(d time.Duration) { c.mu.Lock(); c.wall = c.wall.Add(d); c.mu.Unlock() }
func (c *fakeClock) sync(on bool)         { c.mu.Lock(); c.synced = on; c.mu.Unlock() }

func (c *fakeClock) reboot(id string) {
	c.mu.Lock()
	c.boot, c.mono = id, time.Second
	c.mu.Unlock()
}

func topic(t event.Type, tank string) string { return "oxyd/base/tank/" + tank + "/" + t.Topic() }

func testOptions(path string, clock Clock) Options {
	return Options{Path: path, Source: "ctl-3", Clock: clock, Topic: topic, Log: zerolog.Nop()}
}

// tb is what the helpers need of *testing.T and of *rapid.T.
type tb interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func reopen(t tb, o Options) *Outbox {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return b
}

// open opens an outbox that is checked when the test ends.
func open(t *testing.T, o Options) *Outbox {
	t.Helper()
	b := reopen(t, o)
	t.Cleanup(func() { checkAndClose(t, b) })
	return b
}

func checkAndClose(t tb, b *Outbox) {
	t.Helper()
	if b.closed.Load() {
		if err := boltfile.CheckPath(b.o.Path); err != nil {
			t.Errorf("at the end: %v", err)
		}
		return
	}
	if err := b.Check(); err != nil {
		t.Errorf("at the end: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// crash gives the outbox that a kill -9 at this instant would leave: the file as
// the page cache has it, under another name. The old one is given up.
func crash(t tb, b *Outbox) *Outbox {
	t.Helper()
	o := b.o
	o.Path = o.Path + "x"
	content, err := os.ReadFile(b.o.Path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(o.Path, content, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	b.f.Close()
	b.closed.Store(true)
	os.Remove(b.o.Path)
	return reopen(t, o)
}

func snapshot(tank string, grams int64) event.Event {
	return event.Event{Type: event.Measured, Tank: tank, Amount: physic.Mass(grams) * physic.Gram}
}

func delta(tank string, grams int64) event.Event {
	return event.Event{Type: event.Consumed, Tank: tank, Amount: physic.Mass(grams) * physic.Gram}
}

func mustAppend(t tb, b *Outbox, drafts ...event.Event) []Receipt {
	t.Helper()
	r, err := b.Append(drafts...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return r
}

func mustNext(t tb, b *Outbox, after uint64, limit int) []Row {
	t.Helper()
	rows, err := b.Next(after, limit)
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return rows
}

func mustConfirm(t tb, b *Outbox, rows []Row) { confirmBy(t, b.Confirm, rows) }

func confirmSoon(t tb, b *Outbox, rows []Row) { confirmBy(t, b.ConfirmSoon, rows) }

func confirmBy(t tb, confirm func([]uint64) error, rows []Row) {
	t.Helper()
	var numbers []uint64
	for _, r := range rows {
		numbers = append(numbers, r.Row)
	}
	if err := confirm(numbers); err != nil {
		t.Fatalf("Confirm: %v", err)
	}
}

// drain hands over and confirms everything, window by window.
func drain(t tb, b *Outbox) (all []event.Event) {
	t.Helper()
	for {
		rows := mustNext(t, b, 0, 500)
		if len(rows) == 0 {
			return all
		}
		for _, r := range rows {
			all = append(all, decode(t, r))
		}
		mustConfirm(t, b, rows)
	}
}

func decode(t tb, r Row) event.Event {
	t.Helper()
	parts := bytes.Split([]byte(r.Topic), []byte("/"))
	kind, ok := event.TypeOfTopic(string(parts[len(parts)-1]))
	if !ok {
		t.Fatalf("row %d: topic %q", r.Row, r.Topic)
	}
	e, err := event.Decode(kind, string(parts[len(parts)-2]), r.Payload)
	if err != nil {
		t.Fatalf("row %d: %v", r.Row, err)
	}
	return e
}

func mustStats(t tb, b *Outbox) Stats {
	t.Helper()
	s, err := b.Stats()
	if err != nil {
		t.Fatalf("Stats: %v", err)
	}
	return s
}

func path(t *testing.T) string { return filepath.Join(t.TempDir(), "outbox.db") }

// txid counts commits.
func txid(t tb, b *Outbox) (id int) {
	t.Helper()
	if err := b.f.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		t.Fatalf("View: %v", err)
	}
	return id
}

// damage flips a byte of a row behind the outbox's back.
func damage(t tb, b *Outbox, n uint64) {
	t.Helper()
	err := b.f.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket([]byte(bRows))
		v := bytes.Clone(rows.Get(rowKey(n)))
		v[len(v)/2] ^= 0x40
		return rows.Put(rowKey(n), v)
	})
	if err != nil {
		t.Fatalf("damage: %v", err)
	}
}

func storedStream(t tb, b *Outbox, epoch uint64, tank string) (s stream) {
	t.Helper()
	b.f.View(func(tx *bbolt.Tx) error {
		s, _ = decodeStream(tx.Bucket([]byte(bStreams)).Get(streamKey(epoch, tank)))
		return nil
	})
	return s
}

func countRows(t tb, b *Outbox, bucket string) (n int) {
	t.Helper()
	b.f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(k, _ []byte) error {
			_ = binary.BigEndian.Uint64(k)
			n++
			return nil
		})
	})
	return n
}

func rowOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

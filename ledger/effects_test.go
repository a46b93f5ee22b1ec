package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
)

// played gives a rig in which every kind of row stands.
func played(t *testing.T) *rig {
	r := newRigIn(t, memoryDir(t))
	r.play(step{"measured", measured(1, 1, 100), "applied", false}, step{"consumed", consumed(1, 2, 5), "applied", false},
		step{"consumed", consumed(1, 4, 7), "applied", false}, step{"consumed", `{`, "quarantined/malformed", false},
		step{"consumed", `{"event_id":"x","tank":"A","amount":1}`, "applied", false},
		step{"consumed", `{"event_id":"x","tank":"A","amount":2}`, "conflict", false},
		step{"consumed", `{"tank":"A","amount":2}`, "quarantined/missing_event_id", false},
		step{"reversed", `{"event_id":"r","tank":"A","reverses":"x"}`, "applied", false},
		step{"reversed", `{"event_id":"p","tank":"A","reverses":"never"}`, "parked", false})
	return r
}

// Marks, journal and effects alone, without folding anything anew.
func TestEffectsNoticeHalfATransaction(t *testing.T) {
	first := func(b *bbolt.Bucket) []byte { k, _ := b.Cursor().First(); return bytes.Clone(k) }
	for name, spoil := range map[string]func(b *batch) error{
		"mark without effect":   func(b *batch) error { return b.moves.Delete(first(b.moves)) },
		"effect without mark":   func(b *batch) error { return b.entries.Delete(first(b.entries)) },
		"id without mark":       func(b *batch) error { return b.ids.Delete(first(b.ids)) },
		"journal row gone":      func(b *batch) error { return b.journal.Delete(lsnKey(3)) },
		"last journal row gone": func(b *batch) error { return b.journal.Delete(lsnKey(b.meta.lsn)) },
		"an effect of nothing":  func(b *batch) error { return b.moves.Put([]byte("A\x00zzzzzzzzzzzzzzzzz"), []byte("z")) },
		"a mark of nothing": func(b *batch) error {
			return spoilEntry(b, stream{"A", "dev", numbered}, func(n *entry) { n.lsn = 99 })
		},
		"another amount": func(b *batch) error {
			return spoilEntry(b, stream{"A", "dev", numbered}, func(n *entry) { n.amount++ })
		},
		"a balance moved by it": func(b *batch) error {
			a, err := b.account("A")
			a.all.consumed = Sum{lo: 3}
			a.changed = true
			return err
		},
		"a mark that is doubled": func(b *batch) error { k := first(b.entries); return b.entries.Put(append(k, 1), b.entries.Get(k)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := played(t)
			if err := r.l.view(func(b *batch) error { return b.checkEffects() }); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := r.l.update(func(b *batch) error { return spoil(b) }); err != nil {
				t.Fatal(err)
			}
			if err := r.l.view(func(b *batch) error { return b.checkEffects() }); err == nil {
				t.Error("nothing is noticed")
			}
			if err := r.l.Close(); err != nil {
				t.Error(err)
			}
			if i, err := Inspect(r.opt.Path); err != nil || i.Fault == "" {
				t.Errorf("Inspect finds %q, %v", i.Fault, err)
			}
			r.l = nil
		})
	}
}

func TestInspect(t *testing.T) {
	r := played(t)
	path := r.opt.Path
	if _, err := Inspect(path); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("a live file: %v", err)
	}
	if err := r.l.Close(); err != nil {
		t.Fatal(err)
	}
	r.l = nil
	i, err := Inspect(path)
	if err != nil || i.Fault != "" || !i.Folded || i.Moves != 2 || i.NoID != 1 || i.Anonymous != 3 || i.Oldest == nil ||
		strings.Join(i.Sources, ",") != ",dev" || i.Outcomes[Conflict] != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	if len(i.Tanks) != 1 || i.Tanks[0] != (Feed{Tank: "A", Baseline: true, Deltas: 2}) {
		t.Errorf("tanks %+v", i.Tanks)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"zeros": make([]byte, len(whole)), "cut": whole[:3*4096], "empty": nil} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if i, err := Inspect(path); err != nil || i.Fault == "" {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
}

// A file whose first transaction never came is empty and sound.
func TestInspectBeforeTheFirstTransaction(t *testing.T) {
	path := filepath.Join(memoryDir(t), "l.bolt")
	f, err := boltfile.Open(path, boltfile.Options{Kind: "ledger", Schema: Schema, Buckets: buckets, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if i, err := Inspect(path); err != nil || i.Fault != "" || i.Rows != 0 {
		t.Errorf("%+v, %v", i, err)
	}
}

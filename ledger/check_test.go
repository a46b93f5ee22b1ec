package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"oxyd/internal/event"
)

// Check notices every row that was spoiled behind the ledger's back.
func TestCheckNoticesSpoiledRows(t *testing.T) {
	dev := stream{"A", "dev", numbered}
	other := stream{"A", "other", unnumbered}
	first := func(b interface{ First() ([]byte, []byte) }) []byte { k, _ := b.First(); return bytes.Clone(k) }
	for name, spoil := range map[string]func(b *batch, a *account) error{
		"parked":           func(b *batch, a *account) error { b.meta.parked++; return nil },
		"tank count":       func(b *batch, a *account) error { b.meta.tanks++; return nil },
		"source count":     func(b *batch, a *account) error { b.meta.sources++; return nil },
		"quarantine bytes": func(b *batch, a *account) error { b.meta.quarBytes += 5; return nil },
		"receipt clock":    func(b *batch, a *account) error { b.meta.receipt -= int64(time.Hour); return nil },
		"facts":            func(b *batch, a *account) error { b.meta.facts[3]++; return nil },
		"journal end":      func(b *batch, a *account) error { b.meta.lsn--; return nil },
		"journal row": func(b *batch, a *account) error {
			row := bytes.Clone(b.journal.Get(lsnKey(2)))
			row[len(row)-5] ^= 1
			return b.journal.Put(lsnKey(2), row)
		},
		"journal row's retain flag": func(b *batch, a *account) error {
			row := bytes.Clone(b.journal.Get(lsnKey(2)))
			row[chainBytes+1+8+1+1] ^= 1 // kind, receipt, outcome, empty reason stand before it
			return b.journal.Put(lsnKey(2), row)
		},
		"journal row exchanged": func(b *batch, a *account) error {
			two, three := bytes.Clone(b.journal.Get(lsnKey(2))), bytes.Clone(b.journal.Get(lsnKey(3)))
			if err := b.journal.Put(lsnKey(2), three); err != nil {
				return err
			}
			return b.journal.Put(lsnKey(3), two)
		},
		"latest":        func(b *batch, a *account) error { a.latest -= int64(time.Hour); return nil },
		"totals":        func(b *batch, a *account) error { a.all.refilled = Sum{lo: 1}; return nil },
		"opening":       func(b *batch, a *account) error { a.opening = &Sum{lo: 1}; return nil },
		"baseline":      func(b *batch, a *account) error { a.baseline = &other; return nil },
		"other's tally": func(b *batch, a *account) error { a.heads[other].after.consumed = Sum{lo: 77}; return nil },
		"event count":   func(b *batch, a *account) error { a.heads[dev].after.events++; return nil },
		"by receipt":    func(b *batch, a *account) error { a.heads[dev].after.byReceipt++; return nil },
		"newest number": func(b *batch, a *account) error { a.heads[dev].newest = event.Dot{}; return nil },
		"head gone":     func(b *batch, a *account) error { delete(a.heads, other); return b.heads.Delete(other.prefix()) },
		"tank row gone": func(b *batch, a *account) error { a.changed = false; return b.tanks.Delete([]byte("A")) },
		"entry gone":    func(b *batch, a *account) error { return b.entries.Delete(first(b.entries.Cursor())) },
		"move gone":     func(b *batch, a *account) error { return b.moves.Delete(first(b.moves.Cursor())) },
		"id gone":       func(b *batch, a *account) error { return b.ids.Delete(first(b.ids.Cursor())) },
		"order gone":    func(b *batch, a *account) error { return b.quarorder.Delete(first(b.quarorder.Cursor())) },
		"entry reversed": func(b *batch, a *account) error {
			return spoilEntry(b, dev, func(n *entry) { n.flags ^= flagReversed })
		},
		"entry amount": func(b *batch, a *account) error { return spoilEntry(b, dev, func(n *entry) { n.amount++ }) },
		"entry hash":   func(b *batch, a *account) error { return spoilEntry(b, dev, func(n *entry) { n.hash[0]++ }) },
		"entry outcome": func(b *batch, a *account) error {
			return spoilEntry(b, dev, func(n *entry) { n.outcome = Quarantined })
		},
		"watermark over a gap": func(b *batch, a *account) error {
			r, err := b.see("A", "dev", 1)
			if err != nil {
				return err
			}
			r.row.changed = true
			return r.add(event.Range{From: 3, To: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigIn(t, memoryDir(t))
			r.play(step{"measured", `{"event_id":"o","tank":"A","source":"other","remaining":50,"occurred_at":` + ago(12*3600) + `}`, "applied", false},
				step{"measured", measured(1, 1, 100), "applied", false}, step{"consumed", consumed(1, 2, 5), "applied", false},
				step{"consumed", consumed(1, 4, 5), "applied", false}, step{"consumed", `{`, "quarantined/malformed", false},
				step{"reversed", `{"event_id":"r","tank":"A","reverses":"never"}`, "parked", false})
			if err := r.l.Check(); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := r.l.update(func(b *batch) error {
				a, err := b.account("A")
				if err != nil {
					return err
				}
				a.changed = true
				return spoil(b, a)
			}); err != nil {
				t.Fatal(err)
			}
			if err := r.l.Check(); err == nil {
				t.Error("Check notices nothing")
			}
			if err := r.l.Close(); err != nil {
				t.Error(err)
			}
			r.l = nil
		})
	}
}

func spoilEntry(b *batch, st stream, change func(*entry)) error {
	k, v := b.entries.Cursor().Seek(st.prefix())
	n, err := decodeEntry(v)
	if err != nil {
		return fmt.Errorf("no entry to spoil: %w", err)
	}
	change(&n)
	return b.store(bytes.Clone(k), &n)
}

// What an entry stands for is read from the journal, and refused where it is not
// that.
func TestContentIsHeldToItsHash(t *testing.T) {
	r := newRig(t)
	r.play(step{"consumed", consumed(1, 1, 5), "applied", false})
	err := r.l.update(func(b *batch) error {
		row := bytes.Clone(b.journal.Get(lsnKey(1)))
		row[len(row)-1] ^= 1 // of the amount
		if err := b.journal.Put(lsnKey(1), row); err != nil {
			return err
		}
		d := deliveryOf("consumed", consumed(1, 1, 6), false)
		_, err := b.apply(&d)
		return err
	})
	if !errors.Is(err, errRow) {
		t.Errorf("a conflict with a spoiled row: %v, want %v", err, errRow)
	}
}

package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"oxyd/internal/event"
)

// verdict is what pruning may do with a row.
type verdict uint8

const (
	waits verdict = iota // something that may still come needs it
	stays                // it is never pruned
	goes
)

// candidate is a journal row that may be old enough to go.
type candidate struct {
	record
	event.Event
	lsn  uint64
	hash event.Hash
	own  *known // its entry; nil where it has none, as a second content of a number
}

// candidate reads a row with its entry, and refuses one that is not what its entry
// stands for.
func (b *batch) candidate(lsn uint64, row []byte) (*candidate, error) {
	r, err := parseRecord(row)
	c := &candidate{record: r, lsn: lsn}
	if err != nil || r.kind != recordEvent {
		return c, err
	}
	if c.Event, err = r.event(); err != nil {
		return c, fmt.Errorf("journal row %d: %w", lsn, err)
	}
	b.canonical = c.AppendCanonical(b.canonical[:0])
	c.hash = sha256.Sum256(b.canonical)
	if c.own, err = b.load(entryKey(&c.Event, r.stamp)); err != nil {
		return c, err
	}
	if c.own != nil && c.own.lsn != lsn {
		c.own = nil
	}
	if c.own != nil {
		c.outcome = c.own.outcome // what it is now
	}
	if c.own == nil && r.outcome != Conflict || c.own != nil && !bytes.Equal(c.own.hash[:], c.hash[:len(c.own.hash)]) {
		return c, fmt.Errorf("journal row %d is not the content of its entry: %w", lsn, errRow)
	}
	return c, nil
}

// judge applies the rules of what may not go. An event that was pruned must be
// refused, or recognised by its number, if it comes again; and nothing that the
// rules of the account may look at later may be missing then.
func (p *pruner) judge(c *candidate) (verdict, error) {
	if v := p.judgeKind(c); v != goes {
		return v, nil
	}
	for _, rule := range []func(*candidate) (free bool, err error){p.freeOfConflict, p.freeOfReversal, p.freeOfNumber, p.freeOfHead} {
		if free, err := rule(c); !free || err != nil {
			return waits, err
		}
	}
	return goes, nil
}

// judgeKind looks at the event alone.
func (p *pruner) judgeKind(c *candidate) verdict {
	switch {
	case c.kind != recordEvent:
		return stays // opening amounts
	case c.outcome.Accepted() && !c.Numbered() && c.byReceipt:
		return stays // its return could not be refused: a mark kept for good
	case c.outcome == Quarantined && !c.Numbered() && c.byReceipt && p.batch.settled.Get(c.hash[:16]) != nil:
		return stays // nor could that of one that an operator has discarded
	case c.outcome.Accepted() && c.Type.Delta() && c.Operation != "":
		return stays // the operation done again must find it done
	case c.stamp >= p.cutoff:
		return waits
	case !c.outcome.Accepted() && p.quarantine.Get(c.hash[:16]) != nil:
		return waits // somebody may still look at it
	}
	return goes
}

// freeOfConflict: a second content stays as long as the first one, of which it says
// that it is in conflict.
func (p *pruner) freeOfConflict(c *candidate) (bool, error) {
	if c.outcome != Conflict {
		return true, nil
	}
	if c.Numbered() && c.own == nil && p.entries.Get(entryKey(&c.Event, c.stamp)) != nil {
		return false, nil
	}
	first, err := p.find(c.Identity())
	return first == nil || first.lsn == c.lsn, err
}

// freeOfReversal: a reversal stays until its original has gone, and as long as that
// may still come. The original takes the rows of its reversals with it. One that went
// astray waits for nothing.
func (p *pruner) freeOfReversal(c *candidate) (bool, error) {
	if c.Type != event.Reversed || !c.outcome.Accepted() || c.own.has(flagExcluded) || p.reversals.Get(reversalKey(&c.Event)) == nil {
		return true, nil
	}
	target := event.Identity{Source: c.ReversesSource, ID: c.Reverses}
	if original, err := p.find(target); original != nil || err != nil {
		return false, err
	}
	if c.own != nil && c.own.has(flagExcluded) {
		return true, nil // it reverses nothing, whatever comes
	}
	return p.isGoneID(target)
}

// freeOfNumber keeps of each numbered stream the newest event, and of each epoch the
// first one above every gap, whose stamp places what is still to come below it. Above
// a gap that its source has not declared skipped, events stay until two newer
// snapshots of the stream make what fills it history, or until room gets short: up to
// then a snapshot that fills it would have to count them.
func (p *pruner) freeOfNumber(c *candidate) (bool, error) {
	if !c.Numbered() || c.own == nil {
		return true, nil
	}
	st := streamOf(&c.Event)
	r, err := p.see(c.Tank, c.Source, c.Dot.Epoch)
	if err != nil {
		return false, err
	}
	cur := p.entries.Cursor()
	former, _ := before(cur, c.own.key)
	epoch := binary.BigEndian.AppendUint64(st.prefix(), c.Dot.Epoch)
	if !bytes.HasPrefix(former, epoch) {
		return false, nil // the first one of its epoch
	}
	if from := dotOfKey(former).Seq + 1; from < c.Dot.Seq && r.row.low+1 < c.Dot.Seq {
		if _, all := r.covered(event.Range{From: from, To: c.Dot.Seq - 1}); !all {
			return false, nil
		}
	}
	cur.Seek(c.own.key)
	if next, _ := cur.Next(); !bytes.HasPrefix(next, st.prefix()) {
		return false, nil // the newest one
	}
	return p.settled(c, r)
}

// settled reports whether no snapshot that fills a gap below the event can matter.
func (p *pruner) settled(c *candidate, r runs) (bool, error) {
	if c.Dot.Seq <= r.row.low || p.pressed {
		return true, nil
	}
	a, err := p.account(c.Tank)
	if err != nil {
		return false, err
	}
	if a != nil {
		if h := a.heads[streamOf(&c.Event)]; h != nil && h.prev != nil && c.Dot.Compare(h.prev.dot) < 0 {
			return true, nil
		}
	}
	missing := p.lacking(r, 1).missing
	return len(missing) == 0 || missing[0].From > c.Dot.Seq, nil
}

// freeOfHead keeps the two snapshots that a head knows.
func (p *pruner) freeOfHead(c *candidate) (bool, error) {
	if c.Type != event.Measured || !c.outcome.Accepted() {
		return true, nil
	}
	a, err := p.account(c.Tank)
	if err != nil || a == nil {
		return false, errOr(err)
	}
	h := a.heads[streamOf(&c.Event)]
	if h == nil {
		return false, errRow
	}
	for _, s := range []*snapshot{h.last, h.prev} {
		if s != nil && s.id == c.ID && s.dot == c.Dot && s.stamp == c.stamp {
			return false, nil
		}
	}
	return true, nil
}

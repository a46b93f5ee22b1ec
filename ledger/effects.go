package ledger

import (
	"bytes"
	"errors"
	"fmt"
)

// checkEffects sets marks, journal and effects against each other, both ways: every
// journalled event has its mark and every mark its journal row, every delta that
// counts has its move, and the moves of a tank are its totals. What one transaction
// wrote is there as a whole (R3), whatever came after.
//
// Unlike check it folds nothing anew and needs no memory for each event, so that an
// account of any size can be checked on the board that keeps it.
func (b *batch) checkEffects() error {
	e := effects{batch: b, moved: map[string]*tally{}}
	return e.all()
}

func (e *effects) all() error {
	b := e.batch
	if err := b.old.ForEach(e.readOld); err != nil {
		return err
	}
	e.lsn, e.chain = b.gone.lsn, b.gone.chain
	if err := b.journal.ForEach(e.read); err != nil {
		return err
	}
	if e.lsn != b.meta.lsn || e.chain != b.meta.chain {
		return fmt.Errorf("journal ends at row %d, the account says %d", e.lsn, b.meta.lsn)
	}
	if err := b.entries.ForEach(e.mark); err != nil {
		return err
	}
	if e.marks != e.marked {
		return fmt.Errorf("there are %d marks, the journal gives %d", e.marks, e.marked)
	}
	if n := uint64(b.moves.Inspect().KeyN); n != e.moves {
		return fmt.Errorf("there are %d moves, the marks give %d", n, e.moves)
	}
	return e.totals()
}

// newestRows is how many journal rows are looked at in a file that could not be
// looked through: those that an unclean end may have caught.
const newestRows = 10_000

// checkNewest does what checkEffects does with the last rows of the journal, and
// sees that every tank's row can be read.
func (b *batch) checkNewest(rows uint64) error {
	e := effects{batch: b, moved: map[string]*tally{}}
	if b.meta.lsn > rows {
		e.lsn = b.meta.lsn - rows
		v := b.journal.Get(lsnKey(e.lsn))
		if len(v) < chainBytes {
			return fmt.Errorf("journal row %d is missing", e.lsn)
		}
		copy(e.chain[:], v)
	}
	c := b.journal.Cursor()
	for k, v := c.Seek(lsnKey(e.lsn + 1)); k != nil; k, v = c.Next() {
		if err := e.read(k, v); err != nil {
			return err
		}
	}
	if e.lsn != b.meta.lsn || e.chain != b.meta.chain {
		return fmt.Errorf("journal ends at row %d, the account says %d", e.lsn, b.meta.lsn)
	}
	return b.tanks.ForEach(func(id, _ []byte) error {
		_, err := b.account(string(id))
		return err
	})
}

// effects walks the rows in their order.
type effects struct {
	*batch
	lsn     uint64
	chain   [chainBytes]byte
	oldest  int64  // receipt instant of the first journalled event
	marked  uint64 // journalled events whose mark is due
	marks   uint64 // marks of events that are no conflict
	moves   uint64 // marks of deltas that count
	strange uint64 // accepted events without a source
	moved   map[string]*tally
}

// readOld checks a row that pruning has passed and could not let go.
func (e *effects) readOld(k, v []byte) error {
	if len(v) <= oldHead {
		return fmt.Errorf("journal row %d: %w", lsnOf(k), errRow)
	}
	e.lsn = lsnOf(k)
	copy(e.chain[:], v[1:])
	return e.readRow(v[oldHead:])
}

// read checks the next row of the journal.
func (e *effects) read(k, v []byte) error {
	e.lsn++
	if lsnOf(k) != e.lsn {
		return fmt.Errorf("journal row %d is missing", e.lsn)
	}
	return e.readRow(v)
}

// readRow checks the row of number lsn, whose predecessor has the chain, and that its
// mark stands.
func (e *effects) readRow(v []byte) error {
	r, chain, err := decodeRecord(v, e.chain, e.lsn)
	if err != nil {
		return err
	}
	e.chain = chain
	if r.kind != recordEvent {
		return nil
	}
	ev, err := r.event()
	if err != nil {
		return fmt.Errorf("journal row %d: %w", e.lsn, err)
	}
	if e.oldest == 0 {
		e.oldest = r.receipt
	}
	hash := ev.Hash()
	outcome, err := e.outcome(&r, e.lsn, hash[:16])
	if err != nil {
		return fmt.Errorf("journal row %d: %w", e.lsn, err)
	}
	if outcome.Accepted() && ev.Source == "" {
		e.strange++
	}
	if outcome == Conflict {
		return nil // its identity is that of what came first
	}
	e.marked++
	key := entryKey(&ev, r.stamp)
	row := e.entries.Get(key)
	if row == nil {
		return fmt.Errorf("journal row %d (%s of tank %s) has no mark: the event would count again", e.lsn, ev.ID, ev.Tank)
	}
	n, err := decodeEntry(row)
	if err != nil || n.lsn != e.lsn || n.outcome != outcome || n.typ != ev.Type || n.amount != int64(ev.Amount) ||
		n.stamp != r.stamp || !bytes.Equal(n.hash[:], hash[:len(n.hash)]) {
		return fmt.Errorf("the mark of %s of tank %s does not say what journal row %d does", ev.ID, ev.Tank, e.lsn)
	}
	if !ev.HasNodeID() && !bytes.Equal(e.ids.Get(idKey(ev.Source, ev.ID)), key) {
		return fmt.Errorf("journal row %d: its id %s does not lead to its mark", e.lsn, ev.ID)
	}
	return nil
}

// outcome gives what the event of a journal row is now: what was decided at its first
// receipt, or by an operator's retry of what was refused.
func (e *effects) outcome(r *record, lsn uint64, hash []byte) (Outcome, error) {
	if r.outcome != Quarantined {
		return r.outcome, nil
	}
	last, err := e.settledBy(hash)
	if err == nil && last.kind == recordRetry && last.target == lsn {
		return last.outcome, nil
	}
	return r.outcome, err
}

// mark checks one mark's journal row and its effect.
func (e *effects) mark(key, row []byte) error {
	n, err := decodeEntry(row)
	if err != nil {
		return err
	}
	v := e.row(n.lsn)
	if v == nil {
		return fmt.Errorf("mark %q is of journal row %d, which does not exist", key, n.lsn)
	}
	r, err := parseRecord(v)
	if err == nil {
		r.outcome, err = e.outcome(&r, n.lsn, n.hash[:])
	}
	if err != nil || r.outcome != n.outcome {
		return fmt.Errorf("mark %q is of journal row %d, which is another event's", key, n.lsn)
	}
	if n.outcome == Conflict {
		return nil
	}
	e.marks++
	if !n.effective() {
		return nil
	}
	e.moves++
	place := moveKey(key, n.stamp)
	tank, _, _ := bytes.Cut(key, []byte{0})
	v = e.batch.moves.Get(place)
	if v == nil {
		return fmt.Errorf("journal row %d: its amount was not moved", n.lsn)
	}
	d, err := decodeMove(place, v, len(tank)+1)
	if err != nil || d.typ != n.typ || d.amount != n.amount {
		return fmt.Errorf("journal row %d: another amount was moved", n.lsn)
	}
	t := e.moved[string(tank)]
	if t == nil {
		t = new(tally)
		e.moved[string(tank)] = t
	}
	t.count(d, true, +1)
	return nil
}

// totals checks that each tank's totals are what was moved.
func (e *effects) totals() error {
	var faults []error
	err := e.tanks.ForEach(func(id, row []byte) error {
		t, err := decodeTank(string(id), row)
		if err != nil {
			return fmt.Errorf("tank %s: %w", id, err)
		}
		var moved tally
		if m := e.moved[string(id)]; m != nil {
			moved = *m
		}
		if moved = moved.plus(t.gone); t.all != moved { // of those that were pruned the sum is kept
			faults = append(faults, fmt.Errorf("tank %s: totals are %v consumed, %v refilled, moved were %v and %v",
				id, t.all.consumed, t.all.refilled, moved.consumed, moved.refilled))
		}
		delete(e.moved, string(id))
		return nil
	})
	for id := range e.moved {
		faults = append(faults, fmt.Errorf("tank %s has moves and no row", id))
	}
	return errors.Join(append(faults, err)...)
}

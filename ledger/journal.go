package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// Kinds of journal records.
const (
	recordEvent   uint8 = 1
	recordOpening uint8 = 2
	recordRetry   uint8 = 3 // an operator had a refused event decided anew
	recordDiscard uint8 = 4 // an operator took a message out of quarantine
)

// record is one append-only row of the journal: an event with what was decided
// about it at its first receipt, the opening amount of a tank, or what an operator
// decided about a refused message. The state of
// the account can be rebuilt from the records alone (invariant I16).
type record struct {
	kind    uint8
	receipt int64

	// of an event
	outcome   Outcome
	reason    event.Reason
	retained  bool
	overlap   bool // some of its numbers were accounted for before it
	byReceipt bool
	stamp     int64
	written   *event.Event // what encode writes
	compact   []byte       // what was read: the event without what stamp tells already

	// of a decision; outcome, reason and stamp are what they are by it
	decision

	// of an opening
	opened  string // the tank
	opening physic.Mass
}

// chainBytes is how much of the chain's SHA-256 a row carries. The chain shows
// a lost, exchanged or rolled-back page, against which bbolt keeps no checksum
// (etcd-io/bbolt#492); it is no defence against a forger who can write the file.
const chainBytes = 16

// Flags of an event's row.
const (
	rowRetained  uint8 = 1 << 0
	rowByReceipt uint8 = 1 << 1
	rowOverlap   uint8 = 1 << 2
)

// size is about what encode appends.
func (r *record) size() int {
	n := 8 + chainBytes + 64 + len(r.opened) + len(r.reason)
	if e := r.written; e != nil {
		return n + len(e.ID) + len(e.Tank) + len(e.Source) + len(e.Operation)
	}
	return n + r.decision.size()
}

// encode gives the row, in the memory of e: chain, then body. The chain covers its
// predecessor's, the row's own number and the body.
func (r *record) encode(e encoder, prev [chainBytes]byte, lsn uint64) ([]byte, [chainBytes]byte) {
	e = append(e, prev[:]...)
	e.u64(lsn)
	e.u8(r.kind)
	e.i64(r.receipt)
	switch r.kind {
	case recordOpening:
		e.text(r.opened)
		e.i64(int64(r.opening))
	case recordRetry, recordDiscard:
		e.u8(uint8(r.outcome))
		e.text(string(r.reason))
		e.i64(r.stamp)
		e.decision(&r.decision)
	default:
		e.u8(uint8(r.outcome))
		e.text(string(r.reason))
		e.u8(bit(r.retained, rowRetained) | bit(r.byReceipt, rowByReceipt) | bit(r.overlap, rowOverlap))
		e = binary.AppendVarint(e, r.stamp-r.receipt) // mostly small; wraps, and back
		e = r.written.AppendCompact(e, r.stamp)
	}
	sum := sha256.Sum256(e)
	var chain [chainBytes]byte
	copy(chain[:], sum[:])
	copy(e[8:], chain[:])
	return e[8:], chain
}

// decodeRecord reads a row and checks that it follows prev.
func decodeRecord(row []byte, prev [chainBytes]byte, lsn uint64) (record, [chainBytes]byte, error) {
	var chain [chainBytes]byte
	r, err := parseRecord(row)
	if err != nil {
		return r, chain, fmt.Errorf("journal row %d: %w", lsn, err)
	}
	copy(chain[:], row)
	h := sha256.New()
	h.Write(prev[:])
	h.Write(binary.BigEndian.AppendUint64(nil, lsn))
	h.Write(row[chainBytes:])
	if [chainBytes]byte(h.Sum(nil)[:chainBytes]) != chain {
		return r, chain, fmt.Errorf("journal row %d does not follow the row before it", lsn)
	}
	return r, chain, nil
}

// parseRecord reads a row without its chain. The compact bytes belong to the
// transaction that the row came from.
func parseRecord(row []byte) (record, error) {
	d := decoder{b: row}
	d.take(chainBytes)
	r := record{kind: d.u8(), receipt: d.i64()}
	switch r.kind {
	case recordOpening:
		r.opened, r.opening = d.text(), physic.Mass(d.i64())
		return r, d.done()
	case recordRetry, recordDiscard:
		r.outcome, r.reason, r.stamp = Outcome(d.u8()), event.Reason(d.text()), d.i64()
		r.decision = d.decision()
		return r, d.done()
	case recordEvent:
		r.outcome, r.reason = Outcome(d.u8()), event.Reason(d.text())
		flags := d.u8()
		r.retained, r.byReceipt, r.overlap = flags&rowRetained != 0, flags&rowByReceipt != 0, flags&rowOverlap != 0
		r.stamp = r.receipt + d.varint()
		r.compact = d.b
		return r, d.err
	}
	return r, errRow
}

func bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}

// event gives the event of the row. That it is the one whose content hash stands in
// its entry, or behind its chain, is the reader's to verify.
func (r *record) event() (event.Event, error) {
	if r.kind != recordEvent {
		return event.Event{}, errRow
	}
	return event.DecodeCompact(r.compact, r.stamp)
}

// writeJournal appends a record and gives its number.
func (b *batch) writeJournal(r record) (uint64, error) {
	lsn := b.meta.lsn + 1
	row, chain := r.encode(b.room(r.size()), b.meta.chain, lsn)
	if err := b.journal.Put(lsnKey(lsn), row); err != nil {
		return 0, fmt.Errorf("write journal row %d: %w", lsn, err)
	}
	b.meta.lsn, b.meta.chain = lsn, chain
	return lsn, nil
}

func lsnKey(lsn uint64) []byte { return binary.BigEndian.AppendUint64(nil, lsn) }

func lsnOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

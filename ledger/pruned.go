package ledger

import (
	"bytes"

	"oxyd/internal/event"
)

// pruned is the row of what pruning has left behind: the trusted base that the
// rest of the file is checked against. It stands in meta beside the state.
type pruned struct {
	lsn     uint64           // the last row that the walk along the journal has passed
	chain   [chainBytes]byte // the chain of that row
	floor   int64            // every pruned event's stamp is below it; it never falls
	facts   facts            // what the accepted ones among the pruned add to the facts
	rows    uint64           // how many went
	waiting uint64           // rows in old that may go later
	kept    uint64           // rows in old that never go
	marks   uint64           // accepted events with neither number nor usable time: kept for good
	refused uint64           // such events that were refused at MaxMarks

	changed bool // since it was written
}

func (p *pruned) encode() []byte {
	e := make(encoder, 0, 128)
	e.u64(p.lsn)
	e = append(e, p.chain[:]...)
	e.i64(p.floor)
	e = append(e, p.facts[:]...)
	for _, v := range []uint64{p.rows, p.waiting, p.kept, p.marks, p.refused} {
		e.u64(v)
	}
	return e
}

func decodePruned(row []byte) (pruned, error) {
	if row == nil {
		return pruned{floor: beforeAll}, nil
	}
	d := decoder{b: row}
	p := pruned{lsn: d.u64()}
	copy(p.chain[:], d.take(chainBytes))
	p.floor = d.i64()
	copy(p.facts[:16], d.take(16))
	copy(p.facts[16:], d.take(16))
	for _, v := range []*uint64{&p.rows, &p.waiting, &p.kept, &p.marks, &p.refused} {
		*v = d.u64()
	}
	return p, d.done()
}

// A row that could not go when the walk came to it stands in old behind a flag and
// the chain of the row before it, so that it can still be verified by itself.
const (
	oldForGood byte = 1
	oldHead         = 1 + chainBytes
)

// row gives the journal row of that number, wherever it stands, or nil.
func (b *batch) row(lsn uint64) []byte {
	if lsn > b.gone.lsn {
		return b.journal.Get(lsnKey(lsn))
	}
	if v := b.old.Get(lsnKey(lsn)); len(v) > oldHead {
		return v[oldHead:]
	}
	return nil
}

// forRows visits the rows that are left from a number on, in their order.
func (b *batch) forRows(from uint64, visit func(lsn uint64, row []byte) error) error {
	if from <= b.gone.lsn {
		c := b.old.Cursor()
		for k, v := c.Seek(lsnKey(from)); k != nil; k, v = c.Next() {
			if len(v) <= oldHead {
				return errRow
			}
			if err := visit(lsnOf(k), v[oldHead:]); err != nil {
				return err
			}
		}
	}
	c := b.journal.Cursor()
	for k, v := c.Seek(lsnKey(from)); k != nil; k, v = c.Next() {
		if err := visit(lsnOf(k), v); err != nil {
			return err
		}
	}
	return nil
}

// forRowsBack visits all rows that are left, the last one first.
func (b *batch) forRowsBack(visit func(lsn uint64, row []byte) error) error {
	c := b.journal.Cursor()
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if err := visit(lsnOf(k), v); err != nil {
			return err
		}
	}
	c = b.old.Cursor()
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if len(v) <= oldHead {
			return errRow
		}
		if err := visit(lsnOf(k), v[oldHead:]); err != nil {
			return err
		}
	}
	return nil
}

// tooOld reports whether an unnumbered event is from before what the ledger would
// recognise: the window, or the floor. The floor holds for any instant that the
// event claims, also one that a clock set back takes for the future, since its mark
// may be gone.
func (b *batch) tooOld(in *incoming) bool {
	e := &in.Event
	at := instant(e.OccurredAt)
	if e.Numbered() || e.Unsynced || e.OccurredAt.Before(earliest) || at == noInstant {
		return false
	}
	return at < b.gone.floor || in.usable && at < in.wall-b.l.opt.DedupWindow.Nanoseconds()
}

// unmarked reports whether the event would leave a mark that has to be kept for
// good: with neither a number nor a usable time, its return could not be refused.
func (in *incoming) unmarked() bool { return !in.Event.Numbered() && !in.usable }

// unverified decides a delivery whose numbers are all accounted for while nothing
// is left to compare its content with: within another event's run, or pruned. One
// that claims to be younger than all that was pruned reuses the number.
func (b *batch) unverified(in *incoming) (Result, error) {
	at := instant(in.Event.OccurredAt)
	if in.usable && at >= b.gone.floor && at > in.seen.row.claimed {
		gone, err := b.isGone(in.seen, in.st, in.Event.Dot)
		if err != nil {
			return Result{}, err
		}
		if gone {
			return b.contradictGone(in)
		}
	}
	b.meta.unverified++
	return Result{Outcome: Duplicate}, nil
}

// isGone reports whether a number without an entry had one that was pruned, as far
// as can be told: it is accounted for, and not by the run of a later event.
func (b *batch) isGone(r runs, st stream, d event.Dot) (bool, error) {
	if some, _ := r.covered(event.Range{From: d.Seq, To: d.Seq}); !some || d.Seq > r.row.gone {
		return false, nil
	}
	k, v := b.entries.Cursor().Seek(st.at(d))
	if !bytes.HasPrefix(k, st.prefix()) || dotOfKey(k).Epoch != d.Epoch {
		return true, nil
	}
	n, err := decodeEntry(v)
	if err != nil {
		return false, err
	}
	rec, err := parseRecord(b.row(n.lsn))
	if err != nil {
		return false, err
	}
	e, err := rec.event()
	return e.Run().From > d.Seq, err
}

// isGoneID is isGone for an identity that names its number.
func (b *batch) isGoneID(id event.Identity) (bool, error) {
	tankID, d, ok := event.ParseNodeID(id.Source, id.ID)
	if !ok {
		return false, nil
	}
	r, err := b.see(tankID, id.Source, d.Epoch)
	if err != nil {
		return false, err
	}
	return b.isGone(r, stream{tankID, id.Source, numbered}, d)
}

// contradictGone decides an event that reuses a pruned number. It is a conflict
// like any other, but that the first content is not there any more: it takes no
// entry, so that the genuine event, should it return, stays a duplicate.
func (b *batch) contradictGone(in *incoming) (Result, error) {
	res := Result{Outcome: Conflict, Reason: event.Conflict}
	first, err := b.keep(in.hash, in.Delivery, Kept{Reason: event.Conflict, Detail: "its number was used before the floor"}, in.at)
	if err != nil || !first {
		return res, err
	}
	a, err := b.account(in.Event.Tank)
	if err != nil {
		return res, err
	}
	n := &entry{outcome: Conflict}
	if err := b.stamp(in, a, n); err != nil {
		return res, err
	}
	b.doubt(a, n.stamp)
	in.seen.row.fenced = true
	in.seen.row.changed = true
	in.reused = true
	res.LSN, err = b.enter(in, n, event.Conflict)
	return res, err
}

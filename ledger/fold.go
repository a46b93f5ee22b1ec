package ledger

import (
	"bytes"

	"oxyd/internal/event"
)

// The fold: balance = baseline - consumed after it + refilled after it, over the
// effective deltas. Two maxima choose the baseline, a predicate of one pair
// decides "after", and neither depends on the order of arrival.

// delta is an accepted movement with its place.
type delta struct {
	stream
	key       []byte // of its entry
	dot       event.Dot
	stamp     int64
	byReceipt bool
	suspect   bool
	typ       event.Type
	amount    int64
}

// deltaOf reads an entry as a delta.
func deltaOf(key []byte, n *entry) *delta {
	st, _ := parseStream(key)
	return deltaIn(st, key, n)
}

func deltaIn(st stream, key []byte, n *entry) *delta {
	d := &delta{stream: st, key: key, stamp: n.stamp, byReceipt: n.has(flagByReceipt), suspect: n.has(flagSuspect),
		typ: n.typ, amount: n.amount}
	if st.kind == numbered {
		d.dot = dotOfKey(key)
	}
	return d
}

// sorts tells how a snapshot of stream st sorts the deltas of stream x: by the
// dot up to which they are inside, or, when byDot is false, by stamp (contract
// section 5, rule 4).
func (s *snapshot) sorts(x, st stream) (upTo event.Dot, byDot bool) {
	if x.kind != numbered {
		return event.Dot{}, false
	}
	if x == st {
		return s.dot, true
	}
	upTo, byDot = s.covers[x.source]
	return upTo, byDot
}

// after reports whether the delta happened after the snapshot of stream st, and
// whether it took its stamp to tell. What has the very stamp of the snapshot is
// inside.
func (d *delta) after(s *snapshot, st stream) (after, byStamp bool) {
	if upTo, byDot := s.sorts(d.stream, st); byDot {
		return d.dot.Compare(upTo) > 0, false
	}
	return d.stamp > s.stamp, true
}

// count adds the delta to the tally, or takes it out again.
func (t *tally) count(d *delta, byStamp bool, sign int) {
	one := tally{events: 1}
	if d.typ == event.Consumed {
		one.consumed = Sum{lo: uint64(d.amount)}
	} else {
		one.refilled = Sum{lo: uint64(d.amount)}
	}
	if byStamp && d.byReceipt {
		one.byReceipt = 1
	}
	if d.suspect {
		one.suspects = 1
	}
	if sign > 0 {
		*t = t.plus(one)
	} else {
		*t = t.minus(one)
	}
}

func (t tally) plus(o tally) tally {
	return tally{t.consumed.Add(o.consumed), t.refilled.Add(o.refilled), t.events + o.events,
		t.byReceipt + o.byReceipt, t.suspects + o.suspects}
}

func (t tally) minus(o tally) tally {
	return tally{t.consumed.Sub(o.consumed), t.refilled.Sub(o.refilled), t.events - o.events,
		t.byReceipt - o.byReceipt, t.suspects - o.suspects}
}

// contribute puts an effective delta into totals, tallies and moves (+1) or takes
// it out (-1), and reports whether the baseline in force does not yet include it.
func (b *batch) contribute(a *account, d *delta, sign int) (afterBaseline bool, err error) {
	afterBaseline = a.baseline == nil
	a.all.count(d, true, sign)
	for _, st := range a.order {
		h := a.heads[st]
		if h.last == nil {
			continue
		}
		after, byStamp := d.after(h.last, st)
		if after {
			h.after.count(d, byStamp, sign)
		} else if h.prev != nil {
			if afterPrev, byStamp := d.after(h.prev, st); afterPrev {
				h.between.count(d, byStamp, sign)
			}
		}
		if a.baseline != nil && *a.baseline == st {
			afterBaseline = after
		}
	}
	a.changed = true
	if sign > 0 {
		return afterBaseline, b.moves.Put(moveKey(d.key, d.stamp), d.appendMove(b.room(moveBytes)))
	}
	return afterBaseline, b.moves.Delete(moveKey(d.key, d.stamp))
}

// measure puts a new snapshot into its stream. In order it only becomes the last
// one; between or before the others it touches history.
func (b *batch) measure(in *incoming, a *account, n *entry) (Outcome, error) {
	e := &in.Event
	st := in.st
	s := &snapshot{id: e.ID, dot: e.Dot, stamp: n.stamp, byReceipt: n.has(flagByReceipt), suspect: e.Suspect,
		remaining: int64(e.Amount), occurredAt: instant(e.OccurredAt), covers: e.Covers}
	h := b.headOf(a, st)
	before := a.inForce()
	if err := b.insert(a, h, s, st); err != nil {
		return 0, err
	}
	a.chooseBaseline()
	if a.inForce() == before {
		return Stale, nil
	}
	if a.inForce().stamp >= a.doubt {
		a.doubt = beforeAll // a newer baseline repairs what a conflict left in doubt
	}
	return Applied, nil
}

// insert puts the snapshot where it stands among the two that its head knows.
func (b *batch) insert(a *account, h *head, s *snapshot, st stream) error {
	switch {
	case h.last == nil:
		return b.beginStream(a, h, s, st)
	case follows(s, h.last, st.kind):
		quiet, err := b.nothingAfter(a, s, st)
		if err != nil {
			return err
		}
		if quiet { // in order: all that was after the former is before the new one
			h.prev, h.last, h.between, h.after = h.last, s, h.after, tally{}
			h.gone.handOn()
			return nil
		}
		return b.succeed(a, h, s, st)
	case h.prev == nil || follows(s, h.prev, st.kind):
		return b.precede(a, h, s, st)
	}
	return nil // history
}

// follows reports whether s stands after o in their stream. A retained snapshot
// without usable time stands before every other one: it counts only where there
// is nothing else (contract section 3).
func follows(s, o *snapshot, kind byte) bool {
	if timeless := s.stamp == beforeAll; timeless != (o.stamp == beforeAll) {
		return !timeless
	}
	if kind == numbered {
		return s.dot.Compare(o.dot) > 0
	}
	return s.stamp > o.stamp || s.stamp == o.stamp && s.id > o.id
}

// chooseBaseline takes, of every stream's last snapshot, the one with the latest
// stamp; ties go to the greater source, then to the greater event_id.
func (a *account) chooseBaseline() {
	var best *snapshot
	var from stream
	for _, st := range a.order {
		s := a.heads[st].last
		if s == nil {
			continue
		}
		later := best == nil || s.stamp > best.stamp
		if best != nil && s.stamp == best.stamp {
			later = st.source > from.source || st.source == from.source && s.id > best.id
		}
		if later {
			best, from = s, st
		}
	}
	if best != nil {
		a.baseline = &from
	}
}

// inForce gives the baseline, or nil.
func (a *account) inForce() *snapshot {
	if a.baseline == nil {
		return nil
	}
	return a.heads[*a.baseline].last
}

// place stores a new entry at its key and notes how far its stream reaches.
func (b *batch) place(in *incoming, key []byte, n *entry) error {
	if err := b.store(key, n); err != nil || in.st.kind != numbered {
		return err
	}
	a, err := b.account(in.st.tank)
	if err != nil || a == nil {
		return err
	}
	if h := a.heads[in.st]; h != nil && in.Event.Dot.Compare(h.newest) > 0 {
		h.newest = in.Event.Dot
		a.changed = true
	}
	return nil
}

// before, lastOf: the greatest key below one, and the greatest with a prefix.
//
// bbolt's Prev answers nil at the first key, and also where it comes to a page that this
// transaction has emptied; from there it goes on when it is asked again.
func before(c cursor, key []byte) (k, v []byte) {
	if k, _ = c.Seek(key); k == nil {
		return c.Last()
	}
	if k, v = c.Prev(); k != nil {
		return k, v
	}
	if first, _ := c.First(); first == nil || bytes.Compare(first, key) >= 0 {
		return nil, nil
	}
	c.Seek(key)
	for k == nil {
		k, v = c.Prev()
	}
	return k, v
}

func lastOf(c cursor, prefix []byte) (k, v []byte) {
	end := append(bytes.Clone(prefix), 0xff) // beyond any number, stamp or text that follows
	k, v = before(c, append(end, bytes.Repeat([]byte{0xff}, 16)...))
	if !bytes.HasPrefix(k, prefix) {
		return nil, nil
	}
	return k, v
}

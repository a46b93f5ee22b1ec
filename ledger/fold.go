package ledger

import (
	"bytes"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// The fold: balance = baseline - consumed after it + refilled after it, over the
// effective deltas. Two maxima choose the baseline, a predicate of one pair
// decides "after", and neither depends on the order of arrival.

// delta is a moved amount with its place.
type delta struct {
	stream
	dot       event.Dot
	id        string
	stamp     int64
	byReceipt bool
	suspect   bool
	typ       event.Type
	amount    int64
}

// after reports whether the delta happened after the snapshot of stream st, and
// whether it took its stamp to tell (contract section 5, rule 4).
func (d *delta) after(s *snapshot, st stream) (after, byStamp bool) {
	if d.kind == numbered {
		if d.stream == st {
			return d.dot.Compare(s.dot) > 0, false
		}
		if upTo, ok := s.covers[d.source]; ok {
			return d.dot.Compare(upTo) > 0, false
		}
	}
	return d.stamp > s.stamp, true // equal is inside
}

// count adds the delta to the tally, or takes it out again.
func (t *tally) count(d *delta, byStamp bool, sign int) {
	amount := Sum{hi: 0, lo: uint64(d.amount)}
	if sign < 0 {
		amount = Sum{}.Sub(amount)
	}
	if d.typ == event.Consumed {
		t.consumed = t.consumed.Add(amount)
	} else {
		t.refilled = t.refilled.Add(amount)
	}
	step := uint64(int64(sign)) // wraps for -1
	t.events += step
	if byStamp && d.byReceipt {
		t.byReceipt += step
	}
	if d.suspect {
		t.suspects += step
	}
}

// contribute puts an effective delta into totals and tallies (+1) or takes it
// out (-1), and reports whether the baseline in force does not yet include it.
func (a *account) contribute(d *delta, sign int) (afterBaseline bool) {
	afterBaseline = a.baseline == nil
	amount := Sum{lo: uint64(d.amount)}
	if sign < 0 {
		amount = Sum{}.Sub(amount)
	} else {
		a.asOf = max(a.asOf, d.stamp)
	}
	if d.typ == event.Consumed {
		a.consumed = a.consumed.Add(amount)
	} else {
		a.refilled = a.refilled.Add(amount)
	}
	for _, st := range a.order {
		h := a.heads[st]
		if h.last != nil {
			after, byStamp := d.after(h.last, st)
			if after {
				h.afterLast.count(d, byStamp, sign)
			}
			if a.baseline != nil && *a.baseline == st {
				afterBaseline = after
			}
		}
		if h.prev != nil {
			if after, byStamp := d.after(h.prev, st); after {
				h.afterPrev.count(d, byStamp, sign)
			}
		}
	}
	a.changed = true
	return afterBaseline
}

// measure puts a new snapshot into its stream. In order it only becomes the last
// one; between or before the others it touches history.
func (b *batch) measure(in *incoming, a *account, n *entry) (Outcome, error) {
	e := &in.Event
	st := streamOf(e)
	s := &snapshot{id: e.ID, dot: e.Dot, stamp: n.stamp, byReceipt: n.has(flagByReceipt), suspect: e.Suspect,
		remaining: int64(e.Amount), occurredAt: instant(e.OccurredAt), covers: e.Covers}
	h := b.headOf(a, st)
	before := a.inForce()
	var err error
	switch {
	case h.last == nil || follows(s, h.last, st.kind):
		h.prev, h.afterPrev = h.last, h.afterLast
		h.last = s
		h.afterLast, err = b.tallyAfter(a, s, st)
	case h.prev == nil || follows(s, h.prev, st.kind):
		h.prev = s
		h.afterPrev, err = b.tallyAfter(a, s, st)
	}
	if err != nil {
		return 0, err
	}
	a.chooseBaseline()
	if a.inForce() == before {
		return Stale, nil
	}
	a.asOf = max(a.asOf, a.inForce().stamp)
	a.conflict = false // a newer baseline repairs what the conflict left in doubt
	return Applied, nil
}

// follows reports whether s stands after o in their stream.
func follows(s, o *snapshot, kind byte) bool {
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

// tallyAfter adds up the effective deltas after a snapshot that has just taken
// its place. A stream none of whose deltas can be after it costs nothing, which
// is every stream when events come in order.
func (b *batch) tallyAfter(a *account, s *snapshot, st stream) (tally, error) {
	var t tally
	for _, x := range a.order {
		h := a.heads[x]
		from, byDot := s.dot, x == st
		if !byDot && x.kind == numbered {
			from, byDot = s.covers[x.source], s.covers[x.source] != event.Dot{}
		}
		var err error
		switch {
		case x.kind == numbered && byDot:
			if h.newest.Compare(from) > 0 {
				err = b.scanForward(x, x.at(event.Dot{Epoch: from.Epoch, Seq: from.Seq + 1}), s, st, &t)
			}
		case h.peak <= s.stamp:
		case x.kind == unnumbered:
			err = b.scanForward(x, x.atStamp(s.stamp+1, ""), s, st, &t)
		default:
			err = b.scanBackward(x, s, st, &t)
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// scanForward tallies the entries of x from a key on.
func (b *batch) scanForward(x stream, from []byte, s *snapshot, st stream, t *tally) error {
	prefix := x.prefix()
	c := b.entries.Cursor()
	for k, v := c.Seek(from); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if _, err := t.visit(k, v, x, s, st); err != nil {
			return err
		}
	}
	return nil
}

// scanBackward tallies the entries of a numbered stream whose stamp is after the
// snapshot's. It ends where no earlier entry can be: at the first peak that is
// not after it.
func (b *batch) scanBackward(x stream, s *snapshot, st stream, t *tally) error {
	prefix := x.prefix()
	c := b.entries.Cursor()
	for k, v := lastOf(c, prefix); bytes.HasPrefix(k, prefix); k, v = c.Prev() {
		n, err := t.visit(k, v, x, s, st)
		if err != nil || n.peak <= s.stamp {
			return err
		}
	}
	return nil
}

// visit tallies one entry if it is effective and after the snapshot.
func (t *tally) visit(k, v []byte, x stream, s *snapshot, st stream) (entry, error) {
	n, err := decodeEntry(v)
	if err != nil || !n.effective() {
		return n, err
	}
	d := deltaOf(k, x, &n)
	if after, byStamp := d.after(s, st); after {
		t.count(d, byStamp, +1)
	}
	return n, nil
}

// deltaOf reads an entry as a delta.
func deltaOf(key []byte, st stream, n *entry) *delta {
	d := &delta{stream: st, stamp: n.stamp, byReceipt: n.has(flagByReceipt), suspect: n.has(flagSuspect),
		typ: n.typ, amount: n.amount}
	if st.kind == numbered {
		d.dot = dotOfKey(key)
	}
	return d
}

// lastOf moves the cursor to the last key with the prefix.
func lastOf(c *bbolt.Cursor, prefix []byte) (k, v []byte) {
	end := append(bytes.Clone(prefix), 0xff)
	for range 16 { // beyond any dot or stamp
		end = append(end, 0xff)
	}
	return before(c, end)
}

// before moves the cursor to the last key below the given one.
func before(c *bbolt.Cursor, key []byte) (k, v []byte) {
	if k, _ = c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// place stores a new entry at its key and keeps the peaks of its stream: each
// numbered entry carries the greatest stamp of a delta up to it.
func (b *batch) place(e *event.Event, key []byte, n *entry) error {
	n.peak = beforeAll
	a, err := b.account(e.Tank)
	if err != nil {
		return err
	}
	st := streamOf(e)
	if a == nil || !n.outcome.Accepted() && a.heads[st] == nil {
		return b.store(key, n) // inert, in a stream that has no deltas
	}
	h := b.headOf(a, st)
	a.changed = true
	isDelta := e.Type.Delta() && n.outcome.Accepted()
	if isDelta {
		defer func() { h.peak = max(h.peak, n.stamp) }()
	}
	if st.kind == unnumbered {
		return b.store(key, n)
	}
	c := b.entries.Cursor()
	inOrder := e.Dot.Compare(h.newest) > 0
	if inOrder {
		n.peak = h.peak
		h.newest = e.Dot
	} else {
		if k, v := before(c, key); bytes.HasPrefix(k, st.prefix()) {
			prev, err := decodeEntry(v)
			if err != nil {
				return err
			}
			n.peak = prev.peak
		}
	}
	if isDelta {
		n.peak = max(n.peak, n.stamp)
	}
	if err := b.store(key, n); err != nil || inOrder {
		return err
	}
	return b.raisePeaks(st, key, n.peak)
}

// raisePeaks carries the peak of an entry that came out of order to the entries
// after it, as far as theirs are lower.
func (b *batch) raisePeaks(st stream, key []byte, peak int64) error {
	prefix := st.prefix()
	for {
		c := b.entries.Cursor() // a cursor does not survive a Put
		c.Seek(key)
		k, v := c.Next()
		if !bytes.HasPrefix(k, prefix) {
			return nil
		}
		n, err := decodeEntry(v)
		if err != nil || n.peak >= peak {
			return err
		}
		n.peak = peak
		key = bytes.Clone(k)
		if err := b.store(key, &n); err != nil {
			return err
		}
	}
}

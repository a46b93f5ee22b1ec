package ledger

import "oxyd/internal/event"

// Tallies are not computed anew when events go: they keep what the pruned deltas
// added. How much that is, each head and each tank carries along, for the check;
// and each stream how far its pruned deltas reached, for the fold. A tally that
// would have to look at them again is marked as inexact instead of being wrong.

// carry is what pruning has left of one stream: of its deltas how far they reached,
// and of all deltas of the tank what they add to the tallies of its snapshots.
type carry struct {
	some  bool // effective deltas of the stream were pruned
	dot   event.Dot
	stamp int64 // their greatest

	after, between tally // the part of head.after and head.between that was pruned

	// The tallies that rest on pruned deltas of which it is not known on which side
	// of the snapshot they were.
	inexactAfter, inexactBetween bool
}

// The flags of a carry's row.
const (
	carrySome uint8 = 1 << iota
	carryAfter
	carryBetween
	carryInexactAfter
	carryInexactBetween
)

func (e *encoder) carry(c *carry) {
	var flags uint8
	set := func(flag uint8, yes bool) {
		if yes {
			flags |= flag
		}
	}
	set(carrySome, c.some)
	set(carryAfter, c.after != tally{})
	set(carryBetween, c.between != tally{})
	set(carryInexactAfter, c.inexactAfter)
	set(carryInexactBetween, c.inexactBetween)
	e.u8(flags)
	if c.some {
		e.dot(c.dot)
		e.i64(c.stamp)
	}
	if flags&carryAfter != 0 {
		e.tally(&c.after)
	}
	if flags&carryBetween != 0 {
		e.tally(&c.between)
	}
}

func (d *decoder) carry() carry {
	flags := d.u8()
	c := carry{some: flags&carrySome != 0, inexactAfter: flags&carryInexactAfter != 0, inexactBetween: flags&carryInexactBetween != 0}
	if c.some {
		c.dot, c.stamp = d.dot(), d.i64()
	}
	if flags&carryAfter != 0 {
		c.after = d.tally()
	}
	if flags&carryBetween != 0 {
		c.between = d.tally()
	}
	return c
}

// carry notes an effective delta that goes: it is in totals and tallies and stays
// there.
func (a *account) carry(d *delta) {
	a.gone.count(d, true, +1)
	for _, st := range a.order {
		h := a.heads[st]
		if st == d.stream {
			if !h.gone.some {
				h.gone.some, h.gone.stamp = true, d.stamp
			}
			h.gone.stamp = max(h.gone.stamp, d.stamp)
			if d.dot.Compare(h.gone.dot) > 0 {
				h.gone.dot = d.dot
			}
		}
		if h.last == nil {
			continue
		}
		if after, byStamp := d.after(h.last, st); after {
			h.gone.after.count(d, byStamp, +1)
		} else if h.prev != nil {
			if after, byStamp := d.after(h.prev, st); after {
				h.gone.between.count(d, byStamp, +1)
			}
		}
	}
	a.changed = true
}

// reaches reports whether pruned deltas of stream x are after the snapshot of st.
func (a *account) reaches(x stream, s *snapshot, st stream) bool {
	g := &a.heads[x].gone
	if !g.some {
		return false
	}
	if upTo, byDot := s.sorts(x, st); byDot {
		return g.dot.Compare(upTo) > 0
	}
	return g.stamp > s.stamp
}

// wholeAfter reports whether all deltas after the snapshot are still there.
func (a *account) wholeAfter(s *snapshot, st stream) bool {
	for _, x := range a.order {
		if a.reaches(x, s, st) {
			return false
		}
	}
	return true
}

// wholeBetween reports whether all deltas that one of the snapshots takes for inside
// and the other does not are still there.
func (a *account) wholeBetween(s, o *snapshot, st stream) bool {
	for _, x := range a.order {
		if (a.reaches(x, s, st) || a.reaches(x, o, st)) && !alike(x, s, o, st) {
			return false
		}
	}
	return true
}

// alike reports whether two snapshots of st sort the deltas of x in the same way.
func alike(x stream, s, o *snapshot, st stream) bool {
	upToS, byDotS := s.sorts(x, st)
	upToO, byDotO := o.sorts(x, st)
	if byDotS != byDotO {
		return false
	}
	return byDotS && upToS == upToO || !byDotS && s.stamp == o.stamp
}

// goneUpTo gives the greatest stamp of a pruned effective delta, or beforeAll.
func (a *account) goneUpTo() int64 {
	upTo := int64(beforeAll)
	for _, h := range a.heads {
		if h.gone.some {
			upTo = max(upTo, h.gone.stamp)
		}
	}
	return upTo
}

// inexact reports whether the balance rests on a tally that is not certain.
func (a *account) inexact() bool {
	return a.baseline != nil && a.heads[*a.baseline].gone.inexactAfter
}

// beginStream makes the snapshot the first one of its stream.
func (b *batch) beginStream(a *account, h *head, s *snapshot, st stream) error {
	after, err := b.tallyAfter(a, s, st)
	h.last, h.after = s, after
	h.gone.after, h.gone.inexactAfter = tally{}, !a.wholeAfter(s, st)
	return err
}

// succeed puts a snapshot behind the last one, with deltas after it. What changes
// is read from the deltas between the two. Where some of those were pruned, the
// deltas after the new one are added up afresh, which is exact as long as none of
// them is gone; between the two is then all that was after the former but them.
func (b *batch) succeed(a *account, h *head, s *snapshot, st stream) error {
	between := a.wholeBetween(h.last, s, st)
	if !between && a.wholeAfter(s, st) {
		return b.afresh(a, h, s, st)
	}
	m, err := b.shift(a, h.last, s, st)
	h.prev, h.last, h.between, h.after = h.last, s, m.between, h.after.minus(m.leave).plus(m.enter)
	h.gone.between = tally{}
	h.gone.inexactBetween = !between
	h.gone.inexactAfter = h.gone.inexactAfter || !between
	return err
}

func (b *batch) afresh(a *account, h *head, s *snapshot, st stream) error {
	var fresh, both tally
	former := h.last
	err := b.forAfter(a, s, st, func(d *delta, byStamp bool) {
		fresh.count(d, byStamp, +1)
		if after, byStamp := d.after(former, st); after {
			both.count(d, byStamp, +1)
		}
	})
	h.prev, h.last, h.between, h.after = former, s, h.after.minus(both), fresh
	h.gone.handOn()
	return err
}

// handOn: of a new last snapshot nothing that was pruned is after it, so that all
// of it is between.
func (c *carry) handOn() {
	c.between, c.inexactBetween = c.after, c.inexactAfter
	c.after, c.inexactAfter = tally{}, false
}

// precede puts a snapshot between the last one and the one before that.
func (b *batch) precede(a *account, h *head, s *snapshot, st stream) error {
	m, err := b.shift(a, s, h.last, st)
	h.prev, h.between = s, m.between
	h.gone.between, h.gone.inexactBetween = tally{}, !a.wholeBetween(s, h.last, st)
	return err
}

package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"oxyd/internal/event"
)

// The account's rules once more, over the set of accepted events, as the contract
// says them (section 5). It is what the rows are checked against.

// markOutdone finds the deltas that lost their operation: each belongs to its
// earliest stamp, ties to the lesser source, then event_id, reversed or not.
func markOutdone(all []*fact) {
	first := map[[2]string]*fact{}
	key := func(f *fact) [2]string { return [2]string{f.Type.String(), f.Operation} }
	for _, f := range all {
		if !f.Type.Delta() || f.Operation == "" {
			continue
		}
		if o := first[key(f)]; o == nil || cmp.Or(cmp.Compare(f.stamp, o.stamp), cmp.Compare(f.Source, o.Source),
			cmp.Compare(f.ID, o.ID)) < 0 {
			first[key(f)] = f
		}
	}
	for _, f := range all {
		f.outdone = f.Type.Delta() && f.Operation != "" && first[key(f)] != f
	}
}

// inStream orders two snapshots of one stream; those without usable time, retained
// copies, come before all others.
func inStream(x, y *fact) int {
	if timeless := x.stamp == beforeAll; timeless != (y.stamp == beforeAll) {
		if timeless {
			return -1
		}
		return +1
	}
	if x.Numbered() {
		return x.Dot.Compare(y.Dot)
	}
	return cmp.Or(cmp.Compare(x.stamp, y.stamp), cmp.Compare(x.ID, y.ID))
}

// isAfter is the predicate of one pair; byStamp tells that it took the stamp.
func isAfter(d, s *fact) (after, byStamp bool) {
	if d.Numbered() {
		if s.Numbered() && d.Source == s.Source {
			return d.Dot.Compare(s.Dot) > 0, false
		}
		if upTo, ok := s.Covers[d.Source]; ok {
			return d.Dot.Compare(upTo) > 0, false
		}
	}
	return d.stamp > s.stamp, true
}

// foldAfter adds up what is after the snapshot, and not after the other one where
// there is one.
func foldAfter(all []*fact, s, not *fact) tally {
	var t tally
	for _, d := range all {
		if !d.effective() {
			continue
		}
		byStamp := true
		if s != nil {
			var after bool
			if after, byStamp = isAfter(d, s); !after {
				continue
			}
		}
		if not != nil {
			if after, _ := isAfter(d, not); after {
				continue
			}
		}
		if d.Type == event.Consumed {
			t.consumed = t.consumed.Add(SumOf(d.Amount))
		} else {
			t.refilled = t.refilled.Add(SumOf(d.Amount))
		}
		t.events++
		if d.byReceipt && byStamp {
			t.byReceipt++
		}
		if d.Suspect {
			t.suspects++
		}
	}
	return t
}

// checkTanks folds every tank and sets the result against its rows.
func (c *checker) checkTanks() error {
	var faults []error
	for id := range c.tanks {
		if a, err := c.account(id); a == nil {
			faults = append(faults, fmt.Errorf("tank %s has no row (%v)", id, err))
		}
	}
	err := c.batch.tanks.ForEach(func(id, _ []byte) error {
		a, err := c.account(string(id))
		if err == nil {
			faults = append(faults, c.checkTank(a))
		}
		return err
	})
	return errors.Join(append(faults, err)...)
}

func (c *checker) checkTank(a *account) error {
	all := c.tanks[a.id]
	if total := foldAfter(all, nil, nil).plus(a.gone); a.all != total {
		return fmt.Errorf("tank %s: totals are %+v, the journal gives %+v", a.id, a.all, total)
	}
	opening, opened := c.openings[a.id]
	if (a.opening != nil) != opened || opened && *a.opening != opening {
		return fmt.Errorf("tank %s: opening is %v, the journal gives %v", a.id, a.opening, opening)
	}
	byStream := map[stream][]*fact{}
	newest := map[stream]event.Dot{}
	for _, f := range all {
		st := streamOf(&f.Event)
		if a.heads[st] == nil && (f.Type == event.Measured || f.Type.Delta()) {
			return fmt.Errorf("tank %s source %q: stream has no head", a.id, f.Source)
		}
		if f.Type == event.Measured {
			byStream[st] = append(byStream[st], f)
		}
		if a.latest < f.stamp {
			return fmt.Errorf("tank %s: latest stamp is below that of %q", a.id, f.ID)
		}
	}
	for _, f := range c.numbers {
		if st := streamOf(&f.Event); f.Tank == a.id && f.Dot.Compare(newest[st]) > 0 {
			newest[st] = f.Dot
		}
	}
	for st, h := range a.heads {
		if h.newest != newest[st] {
			return fmt.Errorf("tank %s source %q: newest number is %v, the journal gives %v", a.id, st.source, h.newest, newest[st])
		}
	}
	var base *fact
	for st, shots := range byStream {
		slices.SortFunc(shots, inStream)
		last := shots[len(shots)-1]
		if base == nil || cmp.Or(cmp.Compare(last.stamp, base.stamp), cmp.Compare(last.Source, base.Source), cmp.Compare(last.ID, base.ID)) > 0 {
			base = last
		}
		if err := c.checkHead(a, st, shots); err != nil {
			return fmt.Errorf("tank %s source %q: %w", a.id, st.source, err)
		}
	}
	return c.checkBalance(a, base)
}

// checkHead sets a stream's two snapshots and their tallies against the fold.
func (c *checker) checkHead(a *account, st stream, shots []*fact) error {
	h := a.heads[st]
	if h == nil || h.last == nil {
		return errors.New("stream with snapshots has no head")
	}
	last := shots[len(shots)-1]
	if !h.last.is(last) {
		return fmt.Errorf("last snapshot is %q, the journal gives %q", h.last.id, last.ID)
	}
	if want := foldAfter(c.tanks[a.id], last, nil).plus(h.gone.after); h.after != want {
		return fmt.Errorf("after the last snapshot there is %+v, the journal gives %+v", h.after, want)
	}
	if (h.prev != nil) != (len(shots) > 1) {
		return fmt.Errorf("snapshot before the last is %v of %d", h.prev, len(shots))
	}
	if h.prev == nil {
		return nil
	}
	prev := shots[len(shots)-2]
	want := foldAfter(c.tanks[a.id], prev, last).plus(h.gone.between)
	if !h.prev.is(prev) || h.between.consumed != want.consumed || h.between.refilled != want.refilled || h.between.events != want.events {
		return fmt.Errorf("between %q and the last there is %+v, the journal gives %+v after %q", h.prev.id, h.between, want, prev.ID)
	}
	return nil
}

func (c *checker) checkBalance(a *account, base *fact) error {
	t := foldAfter(c.tanks[a.id], base, nil).plus(a.goneSince(base))
	start, known := c.openings[a.id]
	identity := "null"
	if base != nil {
		start, known, identity = SumOf(base.Amount), true, fmt.Sprintf("%q %q", base.Source, base.ID)
	}
	got, gotKnown := a.balance()
	if want := start.Sub(t.consumed).Add(t.refilled); gotKnown != known || known && got != want {
		return fmt.Errorf("tank %s: balance is %v (%v), the journal gives %v (%v)", a.id, got, gotKnown, want, known)
	}
	if a.baselineIdentity() != identity {
		return fmt.Errorf("tank %s: baseline is %s, the journal gives %s", a.id, a.baselineIdentity(), identity)
	}
	return nil
}

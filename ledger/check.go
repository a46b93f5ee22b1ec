package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"oxyd/internal/event"
)

// Check verifies the whole file: bolt's own structure, the chain over the
// journal, and that every state row says what the journal says. For the latter
// it folds the set of accepted events anew, the slow and obvious way, and shares
// no code with the fold that Apply keeps up. It reads everything and needs
// memory for every accepted event; every test that touches a store ends in it.
func (l *Ledger) Check() error {
	if err := l.file.Check(); err != nil {
		return err
	}
	return l.view(func(b *batch) error {
		c := checker{facts: facts{}, openings: map[string]Sum{}, tanks: map[string][]fact{}}
		if err := c.readJournal(b); err != nil {
			return err
		}
		var faults []error
		if b.meta.lsn != c.lsn || b.meta.chain != c.chain {
			faults = append(faults, fmt.Errorf("journal ends at row %d, the account says %d", c.lsn, b.meta.lsn))
		}
		if b.meta.facts != c.facts {
			faults = append(faults, errors.New("facts are not the sum over the accepted events"))
		}
		if err := b.tanks.ForEach(func(id, _ []byte) error {
			a, err := b.account(string(id))
			if err == nil {
				faults = append(faults, c.compare(b, a))
			}
			return err
		}); err != nil {
			return err
		}
		faults = append(faults, c.checkNumbers(b))
		return errors.Join(faults...)
	})
}

// fact is one accepted event with what its first receipt gave it.
type fact struct {
	event.Event
	stamp     int64
	byReceipt bool
}

type checker struct {
	lsn      uint64
	chain    [chainBytes]byte
	facts    facts
	openings map[string]Sum
	tanks    map[string][]fact
	numbers  []fact // every journalled numbered event, refused ones included
}

func (c *checker) readJournal(b *batch) error {
	content := map[event.Identity]event.Hash{}
	return b.journal.ForEach(func(k, v []byte) error {
		c.lsn++
		if lsnOf(k) != c.lsn {
			return fmt.Errorf("journal row %d is missing", c.lsn)
		}
		r, chain, err := decodeRecord(v, c.chain, c.lsn)
		if err != nil {
			return err
		}
		c.chain = chain
		if r.kind == recordOpening {
			c.openings[r.tank] = SumOf(r.opening)
			return nil
		}
		e, err := event.DecodeCanonical(r.canonical)
		if err != nil {
			return fmt.Errorf("journal row %d: %w", c.lsn, err)
		}
		f := fact{e, r.stamp, r.byReceipt}
		if e.Numbered() {
			c.numbers = append(c.numbers, f)
		}
		switch {
		case r.outcome.Accepted():
			content[e.Identity()] = e.Hash()
			c.facts.add(factOf(e.Identity(), e.Hash()))
			c.tanks[e.Tank] = append(c.tanks[e.Tank], f)
		case r.outcome == Conflict:
			return c.conflict(b, &e, content)
		}
		return nil
	})
}

// conflict replaces in the facts what the contradicted identities stood for.
func (c *checker) conflict(b *batch, e *event.Event, content map[event.Identity]event.Hash) error {
	ids := []event.Identity{e.Identity()}
	if e.Numbered() {
		for _, f := range c.tanks[e.Tank] {
			if f.Source == e.Source && f.Dot == e.Dot && f.ID != e.ID {
				ids = append(ids, f.Identity())
			}
		}
	}
	for _, id := range ids {
		if hash, ok := content[id]; ok {
			c.facts.sub(factOf(id, hash))
			c.facts.add(conflictOf(id))
			delete(content, id)
		}
	}
	return nil
}

// compare folds one tank's facts and sets the result against its rows.
func (c *checker) compare(b *batch, a *account) error {
	all := c.tanks[a.id]
	deltas := effective(all)
	base, hasBase := baselineOf(all)
	var consumed, refilled, after Sum
	for _, d := range deltas {
		amount := SumOf(d.Amount)
		if d.Type == event.Consumed {
			consumed = consumed.Add(amount)
			amount = Sum{}.Sub(amount)
		} else {
			refilled = refilled.Add(amount)
		}
		if !hasBase || isAfter(d, base) {
			after = after.Add(amount)
		}
	}
	start, known := c.openings[a.id], false
	if _, ok := c.openings[a.id]; ok {
		known = true
	}
	if hasBase {
		start, known = SumOf(base.Amount), true
	}
	got, gotKnown := a.balance()
	want := start.Add(after)
	if gotKnown != known || known && got != want {
		return fmt.Errorf("tank %s: balance is %v (%v), the journal gives %v (%v)", a.id, got, gotKnown, want, known)
	}
	if a.consumed != consumed || a.refilled != refilled {
		return fmt.Errorf("tank %s: totals are %v and %v, the journal gives %v and %v",
			a.id, a.consumed, a.refilled, consumed, refilled)
	}
	if s := a.inForce(); (s != nil) != hasBase || s != nil && (s.id != base.ID || a.baseline.source != base.Source) {
		return fmt.Errorf("tank %s: baseline is %v, the journal gives %q", a.id, a.baselineIdentity(), base.ID)
	}
	return c.comparePrevious(a, all, deltas)
}

// comparePrevious sets the discrepancy against the snapshots of its stream.
func (c *checker) comparePrevious(a *account, all, deltas []fact) error {
	if a.baseline == nil {
		return nil
	}
	var shots []fact
	for _, f := range all {
		if f.Type == event.Measured && streamOf(&f.Event) == *a.baseline {
			shots = append(shots, f)
		}
	}
	slices.SortFunc(shots, inStream)
	got := a.discrepancy()
	if len(shots) < 2 {
		if got != nil {
			return fmt.Errorf("tank %s: discrepancy %v with one snapshot", a.id, got)
		}
		return nil
	}
	last, prev := shots[len(shots)-1], shots[len(shots)-2]
	want := SumOf(last.Amount).Sub(SumOf(prev.Amount))
	for _, d := range deltas {
		sign := SumOf(d.Amount)
		if d.Type == event.Refilled {
			sign = Sum{}.Sub(sign)
		}
		if isAfter(d, prev) {
			want = want.Add(sign)
		}
		if isAfter(d, last) {
			want = want.Sub(sign)
		}
	}
	if got == nil || *got != want {
		return fmt.Errorf("tank %s: discrepancy is %v, the journal gives %v", a.id, got, want)
	}
	return nil
}

// effective gives the deltas that count: no reversal takes them back, and they
// are the earliest of their operation.
func effective(all []fact) []fact {
	reversed := map[event.Identity]bool{}
	first := map[[2]string]*fact{}
	for i := range all {
		f := &all[i]
		if f.Type == event.Reversed {
			reversed[event.Identity{Source: f.ReversesSource, ID: f.Reverses}] = true
		}
		if f.Type.Delta() && f.Operation != "" {
			key := [2]string{f.Type.String(), f.Operation}
			if o := first[key]; o == nil || cmp.Or(cmp.Compare(f.stamp, o.stamp), cmp.Compare(f.Source, o.Source),
				cmp.Compare(f.ID, o.ID)) < 0 {
				first[key] = f
			}
		}
	}
	var out []fact
	for i := range all {
		f := &all[i]
		if !f.Type.Delta() || reversed[f.Identity()] {
			continue
		}
		if f.Operation == "" || first[[2]string{f.Type.String(), f.Operation}] == f {
			out = append(out, *f)
		}
	}
	return out
}

// baselineOf takes the last snapshot of each stream and of these the latest.
func baselineOf(all []fact) (fact, bool) {
	last := map[stream]fact{}
	for _, f := range all {
		st := streamOf(&f.Event)
		if o, ok := last[st]; f.Type == event.Measured && (!ok || inStream(f, o) > 0) {
			last[st] = f
		}
	}
	var best fact
	found := false
	for _, f := range last {
		if !found || cmp.Or(cmp.Compare(f.stamp, best.stamp), cmp.Compare(f.Source, best.Source), cmp.Compare(f.ID, best.ID)) > 0 {
			best, found = f, true
		}
	}
	return best, found
}

// inStream orders two events of one stream.
func inStream(x, y fact) int {
	if x.Numbered() {
		return x.Dot.Compare(y.Dot)
	}
	return cmp.Or(cmp.Compare(x.stamp, y.stamp), cmp.Compare(x.ID, y.ID))
}

// isAfter is the predicate of one pair.
func isAfter(d, s fact) bool {
	if d.Numbered() {
		if s.Numbered() && d.Source == s.Source {
			return d.Dot.Compare(s.Dot) > 0
		}
		if upTo, ok := s.Covers[d.Source]; ok {
			return d.Dot.Compare(upTo) > 0
		}
	}
	return d.stamp > s.stamp
}

// checkNumbers verifies the watermarks: exactly the journalled numbers are
// accounted for, and each journalled event has its entry.
func (c *checker) checkNumbers(b *batch) error {
	want := map[string]uint64{}
	for i := range c.numbers {
		e := &c.numbers[i].Event
		r, err := b.see(e.Tank, e.Source, e.Dot.Epoch)
		if err != nil {
			return err
		}
		if _, all := r.covered(e.Run()); !all {
			return fmt.Errorf("tank %s source %s epoch %d: number %d is journalled and not accounted for",
				e.Tank, e.Source, e.Dot.Epoch, e.Dot.Seq)
		}
		want[string(r.prefix)] = max(want[string(r.prefix)], e.Dot.Seq)
	}
	return b.seenRows.ForEach(func(key, row []byte) error {
		s, err := decodeSeen(row)
		if err != nil {
			return err
		}
		if s.most != want[string(key)] {
			return fmt.Errorf("watermark %q: greatest number is %d, the journal gives %d", key, s.most, want[string(key)])
		}
		return c.checkRuns(b, key, s)
	})
}

// checkRuns verifies invariant I8: runs are disjoint, sorted, not touching, above
// low, and as many as the row says.
func (c *checker) checkRuns(b *batch, key []byte, s *seen) error {
	r := runs{row: s, bucket: b.runRows, prefix: key}
	end, n := s.low, uint64(0)
	cur := b.runRows.Cursor()
	for k, v := cur.Seek(key); bytes.HasPrefix(k, key); k, v = cur.Next() {
		run, ok := r.parse(k, v)
		if !ok || run.From <= end+1 || run.To < run.From {
			return fmt.Errorf("watermark %q: run %d..%d after %d", key, run.From, run.To, end)
		}
		end = run.To
		n++
	}
	if n != s.above || end != s.most {
		return fmt.Errorf("watermark %q: %d runs up to %d, the row says %d up to %d", key, n, end, s.above, s.most)
	}
	return nil
}

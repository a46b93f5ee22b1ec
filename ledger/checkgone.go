package ledger

import (
	"errors"
	"fmt"
)

// What was pruned cannot be folded again. The check takes what pruning has left of
// it as given: the chain of the row before the first one, the sum of the facts, and
// what each head and each tank carries along. Everything else it holds to that.

// readOld takes in the rows that stayed behind when the walk of pruning passed them.
// Each is verified by the chain of its predecessor, which it has with it.
func (c *checker) readOld() error {
	var waiting, kept uint64
	if err := c.old.ForEach(func(k, v []byte) error {
		if len(v) <= oldHead || v[0]&^oldForGood != 0 {
			return fmt.Errorf("journal row %d: %w", lsnOf(k), errRow)
		}
		if c.lsn = lsnOf(k); c.lsn > c.gone.lsn {
			return fmt.Errorf("journal row %d stands twice", c.lsn)
		}
		if v[0]&oldForGood != 0 {
			kept++
		} else {
			waiting++
		}
		copy(c.chain[:], v[1:])
		return c.readRow(v[oldHead:])
	}); err != nil {
		return err
	}
	if g := &c.gone; g.waiting != waiting || g.kept != kept || g.lsn != g.rows+waiting+kept {
		return fmt.Errorf("%d rows went and %d and %d were left of %d, there are %d and %d", g.rows, g.waiting, g.kept, g.lsn, waiting, kept)
	}
	return nil
}

// decideAlone gives a reversal without its original its part in the set: it went astray,
// or it waits as long as it stands among the reversals, else the original was pruned.
func (c *checker) decideAlone(f *fact) {
	k, err := c.load(entryKey(&f.Event, f.stamp))
	f.excluded = err == nil && k != nil && k.has(flagExcluded)
	f.parked = !f.excluded && c.reversals.Get(reversalKey(&f.Event)) != nil
}

// goneSince is what pruned deltas add to the tally since a baseline, or to all.
func (a *account) goneSince(base *fact) tally {
	if base == nil {
		return a.gone
	}
	if h := a.heads[streamOf(&base.Event)]; h != nil {
		return h.gone.after
	}
	return tally{}
}

// checkGone verifies the marks, and that no event is there that was pruned.
func (c *checker) checkGone() error {
	marks := uint64(0)
	for _, f := range c.accepted {
		if !f.Numbered() && f.byReceipt {
			marks++
		}
	}
	if c.gone.marks != marks {
		return fmt.Errorf("%d marks are kept for good, the journal gives %d", c.gone.marks, marks)
	}
	if c.gone.rows == 0 && (c.gone.facts != facts{} || c.gone.floor != beforeAll) {
		return errors.New("pruned facts and a floor where nothing was pruned")
	}
	return nil
}

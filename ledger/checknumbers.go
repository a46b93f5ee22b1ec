package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"oxyd/internal/event"
)

// checkNumbers verifies the watermarks: exactly the journalled numbers are
// accounted for (invariant I8). It looks at runs and never at single numbers: one
// event may stand for more of them than there is memory for.
func (c *checker) checkNumbers() error {
	want := map[string][]event.Range{}
	for _, f := range c.numbers {
		key := string(seenKey(f.Tank, f.Source, f.Dot.Epoch))
		want[key] = append(want[key], f.Run())
	}
	rows := 0
	if err := c.seenRows.ForEach(func(key, row []byte) error {
		s, err := decodeSeen(row)
		if err != nil {
			return err
		}
		rows++
		journalled := union(want[string(key)])
		delete(want, string(key))
		return c.checkRuns(key, s, journalled)
	}); err != nil {
		return err
	}
	if len(want) > 0 {
		return fmt.Errorf("there are %d watermarks, the journal gives %d more", rows, len(want))
	}
	return nil
}

// checkRuns verifies that the runs are disjoint, sorted, not touching, above low,
// and that with low they are exactly the numbers that the journal gives, and up to
// the greatest number that was pruned perhaps those of what was pruned.
func (c *checker) checkRuns(key []byte, s *seen, journalled []event.Range) error {
	r := runs{row: s, bucket: c.runRows, prefix: key}
	end, n := s.low, uint64(0)
	var have []event.Range
	if s.low > 0 {
		have = append(have, event.Range{From: 1, To: s.low})
	}
	cur := c.runRows.Cursor()
	for k, v := cur.Seek(key); bytes.HasPrefix(k, key); k, v = cur.Next() {
		run, ok := r.parse(k, v)
		if !ok || run.From <= end+1 || run.To < run.From {
			return fmt.Errorf("watermark %q: run %d..%d after %d", key, run.From, run.To, end)
		}
		have = append(have, run)
		end = run.To
		n++
	}
	if n != s.above || end != s.most {
		return fmt.Errorf("watermark %q: %d runs up to %d, the row says %d up to %d", key, n, end, s.above, s.most)
	}
	for _, gap := range without(journalled, have) {
		return fmt.Errorf("watermark %q: the journal has %d..%d, which it does not account for", key, gap.From, gap.To)
	}
	for _, gap := range without(have, journalled) {
		if gap.To > s.gone {
			return fmt.Errorf("watermark %q: it accounts for %d..%d, which the journal does not have", key, gap.From, gap.To)
		}
	}
	return nil
}

// union sorts ranges and joins those that overlap or touch.
func union(list []event.Range) []event.Range {
	slices.SortFunc(list, func(x, y event.Range) int { return cmp.Compare(x.From, y.From) })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// without gives what is in the ranges and not in the others; both are sorted, disjoint
// and not touching.
func without(list, others []event.Range) (out []event.Range) {
	for _, r := range list {
		for len(others) > 0 && others[0].To < r.From {
			others = others[1:]
		}
		for _, o := range others {
			if o.From > r.To {
				break
			}
			if o.From > r.From {
				out = append(out, event.Range{From: r.From, To: o.From - 1})
			}
			r.From = o.To + 1
		}
		if r.From <= r.To {
			out = append(out, r)
		}
	}
	return out
}

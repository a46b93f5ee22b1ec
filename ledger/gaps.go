package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"

	"oxyd/internal/event"
)

// gapsJudged bounds how many gaps of one watermark, the highest ones, complete
// holds against the baseline. Those below them are taken for older.
const gapsJudged = 64

// complete tells whether every number that may still change the balance has come,
// and whether every number that may change the totals has (R10).
func (b *batch) complete(a *account) (balance, totals bool, err error) {
	balance, totals = true, true
	missing := func(r runs, st stream, epoch uint64, run event.Range) (err error) {
		judged := 0
		r.lacking(run, func(gap event.Range) bool {
			totals = false
			if !balance {
				err = errEnough
				return false
			}
			var byDot bool
			balance, byDot, err = b.inside(a, st, event.Dot{Epoch: epoch, Seq: gap.To})
			judged++
			// By number, what lacks below a number that is inside is inside too.
			return err == nil && !(balance && byDot) && judged < gapsJudged
		})
		return err
	}
	prefix := append([]byte(a.id), 0)
	if err = b.forOpen(prefix, func(r runs, st stream, epoch uint64) error {
		return missing(r, st, epoch, event.Range{From: 1, To: r.row.most})
	}); err == nil {
		err = b.forSkips(prefix, missing)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return balance, totals, err
}

// errEnough ends a walk whose answer is known.
var errEnough = errors.New("enough")

// forOpen calls fn for every watermark below the prefix that has a gap.
func (b *batch) forOpen(prefix []byte, fn func(r runs, st stream, epoch uint64) error) error {
	c := b.runRows.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); {
		key := bytes.Clone(k[:len(k)-8])
		st, epoch, ok := parseSeenKey(key)
		if !ok {
			return errRow
		}
		r, err := b.see(st.tank, st.source, epoch)
		if err != nil {
			return err
		}
		if err := fn(r, st, epoch); err != nil {
			return err
		}
		// Past the runs of this watermark: no run begins at the greatest number.
		k, _ = c.Seek(bytes.Join([][]byte{key, bytes.Repeat([]byte{0xff}, 8)}, nil))
	}
	return nil
}

// forSkips calls fn for every declared skip below the prefix, whether its numbers
// have come or not.
func (b *batch) forSkips(prefix []byte, fn func(r runs, st stream, epoch uint64, run event.Range) error) error {
	c := b.skipped.Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		st, epoch, ok := parseSeenKey(k[:len(k)-8])
		if !ok {
			return errRow
		}
		run := event.Range{From: binary.BigEndian.Uint64(k[len(k)-8:]), To: binary.BigEndian.Uint64(v)}
		r, err := b.see(st.tank, st.source, epoch)
		if err != nil {
			return err
		}
		if err := fn(r, st, epoch, run); err != nil {
			return err
		}
	}
	return nil
}

// inside reports whether a number that has not come is surely before the baseline
// in force, so that it cannot change the balance, and whether numbers tell so.
func (b *batch) inside(a *account, st stream, d event.Dot) (inside, byDot bool, err error) {
	s := a.inForce()
	if s == nil {
		return false, false, nil
	}
	if upTo, byDot := s.sorts(st, *a.baseline); byDot {
		return d.Compare(upTo) <= 0, true, nil
	}
	// By stamp: it happened before what the source numbered next.
	k, v := b.entries.Cursor().Seek(st.at(event.Dot{Epoch: d.Epoch, Seq: d.Seq + 1}))
	if !bytes.HasPrefix(k, st.prefix()) {
		return false, false, nil
	}
	n, err := decodeEntry(v)
	return err == nil && n.stamp <= s.stamp, false, err
}

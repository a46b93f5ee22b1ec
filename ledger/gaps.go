package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"

	"oxyd/internal/event"
)

// complete tells whether every number that may still change the balance has
// come, and whether every number that may change the totals has (R10). Of each
// stream the highest gap decides: what is missing below it happened earlier.
func (b *batch) complete(a *account) (balance, totals bool, err error) {
	balance, totals = true, true
	missing := func(st stream, epoch uint64, gap event.Range) error {
		totals = false
		if !balance {
			return errEnough
		}
		var err error
		balance, err = b.inside(a, st, event.Dot{Epoch: epoch, Seq: gap.To})
		return err
	}
	prefix := append([]byte(a.id), 0)
	if err = b.forOpen(prefix, func(r runs, st stream, epoch uint64) error {
		gap, ok := r.lastGap()
		if !ok {
			return errRow
		}
		return missing(st, epoch, gap)
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

// forSkips calls fn for every declared skip below the prefix of which a number
// has still not come.
func (b *batch) forSkips(prefix []byte, fn func(st stream, epoch uint64, gap event.Range) error) error {
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
		to, missing := r.lastMissing(run)
		if !missing {
			continue
		}
		run.To = to
		if err := fn(st, epoch, run); err != nil {
			return err
		}
	}
	return nil
}

// inside reports whether a number that has not come is surely before the
// baseline in force, so that it cannot change the balance.
func (b *batch) inside(a *account, st stream, d event.Dot) (bool, error) {
	s := a.inForce()
	if s == nil {
		return false, nil
	}
	if *a.baseline == st {
		return d.Compare(s.dot) < 0, nil
	}
	if upTo, ok := s.covers[st.source]; ok {
		return d.Compare(upTo) <= 0, nil
	}
	// By stamp: what the source numbered later happened later.
	k, v := b.entries.Cursor().Seek(st.at(event.Dot{Epoch: d.Epoch, Seq: d.Seq + 1}))
	if !bytes.HasPrefix(k, st.prefix()) {
		return false, nil
	}
	n, err := decodeEntry(v)
	return err == nil && n.stamp <= s.stamp, err
}

package ledger

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// seen is the row of one (tank, source, epoch): which of its numbers are
// accounted for. Every number up to low is; above it stand runs, in a bucket of
// their own, disjoint, not touching and exact (invariant I8). low never passes a
// gap: a gap is delay or loss, and closing it unseen would turn the late event
// into a "duplicate".
type seen struct {
	low    uint64
	above  uint64 // how many runs stand above low
	fenced bool   // two contents met under one number: the source must leave the epoch
	first  int64  // receipt instants
	last   int64
	// most is the greatest number met, so that a reader sees the lead at once.
	most uint64
	// gone is the greatest number whose event was pruned, claimed the latest instant
	// that such an event said, believed or not.
	gone    uint64
	claimed int64

	key     []byte // of the row, and the prefix of its runs
	changed bool   // since it was written
}

// seenID names a watermark.
type seenID struct {
	tank, source string
	epoch        uint64
}

func (s *seen) encode() []byte {
	e := make(encoder, 0, 57)
	e.u64(s.low)
	e.u64(s.above)
	e.bool(s.fenced)
	e.i64(s.first)
	e.i64(s.last)
	e.u64(s.most)
	e.u64(s.gone)
	e.i64(s.claimed)
	return e
}

func decodeSeen(row []byte) (*seen, error) {
	d := decoder{b: row}
	s := &seen{low: d.u64(), above: d.u64(), fenced: d.bool(), first: d.i64(), last: d.i64(), most: d.u64(),
		gone: d.u64(), claimed: d.i64()}
	return s, d.done()
}

// seenKey is the key of the row and the prefix of the runs above its low.
func seenKey(tank, source string, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(stream{tank, source, numbered}.prefix(), epoch)
}

func parseSeenKey(key []byte) (st stream, epoch uint64, ok bool) {
	if len(key) < 8 {
		return stream{}, 0, false
	}
	st, ok = parseStream(key[:len(key)-8])
	return st, binary.BigEndian.Uint64(key[len(key)-8:]), ok
}

// runs gives access to the runs above one row's low.
type runs struct {
	row    *seen
	bucket *bbolt.Bucket
	prefix []byte // seenKey
}

func (r runs) key(from uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(r.prefix)+8), r.prefix...), from)
}

// parse reads a cursor's answer; ok is false past the end of this row's runs.
func (r runs) parse(k, v []byte) (run event.Range, ok bool) {
	if len(k) != len(r.prefix)+8 || len(v) != 8 || !bytes.HasPrefix(k, r.prefix) {
		return event.Range{}, false
	}
	return event.Range{From: binary.BigEndian.Uint64(k[len(r.prefix):]), To: binary.BigEndian.Uint64(v)}, true
}

// at gives the first run that ends at or after n, and its cursor.
func (r runs) at(n uint64) (*bbolt.Cursor, event.Range, bool) {
	c := r.bucket.Cursor()
	k, v := c.Seek(r.key(n))
	next, ok := r.parse(k, v)
	if ok && next.From == n {
		return c, next, true
	}
	back := r.bucket.Cursor()
	if prev, before := r.parse(before(back, r.key(n))); before && prev.To >= n {
		return back, prev, true
	}
	return c, next, ok
}

// covered tells whether some and whether all numbers of the run are accounted for.
func (r runs) covered(run event.Range) (some, all bool) {
	var n uint64
	if run.From <= r.row.low {
		n = min(run.To, r.row.low) - run.From + 1
	}
	if r.row.above > 0 && run.To > r.row.low {
		from := max(run.From, r.row.low+1)
		c, have, ok := r.at(from)
		for ok && have.From <= run.To {
			n += min(run.To, have.To) - max(from, have.From) + 1
			have, ok = r.parse(c.Next())
		}
	}
	return n > 0, n == run.To-run.From+1
}

// add accounts for every number of the run.
func (r runs) add(run event.Range) error {
	r.row.most = max(r.row.most, run.To)
	joins := run.From <= r.row.low+1
	if r.row.above > 0 {
		var err error
		if joins {
			run, err = r.absorb(event.Range{From: 1, To: max(run.To, r.row.low)})
		} else {
			run, err = r.absorb(run)
		}
		if err != nil {
			return err
		}
	}
	if joins {
		r.row.low = max(r.row.low, run.To)
		return nil
	}
	r.row.above++
	return r.bucket.Put(r.key(run.From), binary.BigEndian.AppendUint64(nil, run.To))
}

// absorb removes every run that overlaps or touches the given one and gives
// their union.
func (r runs) absorb(run event.Range) (event.Range, error) {
	for {
		_, have, ok := r.at(max(run.From, 1) - 1)
		if !ok || have.From > run.To+1 {
			return run, nil
		}
		run = event.Range{From: min(run.From, have.From), To: max(run.To, have.To)}
		if err := r.bucket.Delete(r.key(have.From)); err != nil {
			return run, err
		}
		r.row.above--
	}
}

// gaps calls visit for every gap below the greatest accounted number, lowest first,
// until it answers false.
func (r runs) gaps(visit func(event.Range) bool) {
	if r.row.above == 0 {
		return
	}
	low := r.row.low
	c, have, ok := r.at(low + 1)
	for ok && visit(event.Range{From: low + 1, To: have.From - 1}) {
		low = have.To
		have, ok = r.parse(c.Next())
	}
}

// lacking calls visit for every gap within the run, highest first, until it answers
// false. What lies beyond the greatest accounted number lacks too.
func (r runs) lacking(run event.Range, visit func(gap event.Range) bool) {
	c := r.bucket.Cursor()
	for run.To >= run.From && run.To > r.row.low {
		low := r.row.low
		have, ok := r.parse(before(c, r.key(run.To+1)))
		if ok && have.To >= run.To {
			run.To = have.From - 1 // at least low + 1, for runs do not touch
			continue
		}
		if ok {
			low = have.To
		}
		if !visit(event.Range{From: max(run.From, low+1), To: run.To}) {
			return
		}
		run.To = low
	}
}

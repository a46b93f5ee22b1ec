package outbox

import (
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// mergeSpan is the most time that a merged delta may stand for (contract
// section 7).
const mergeSpan = time.Hour

// Merging makes one delta of adjacent deltas of one stream and type that were never
// handed over: the last of them, with the sum of all, standing for every number from
// the first. So that balance and totals come out the same, no delta moves past a
// snapshot that is kept; a snapshot between two runs may vanish in them only once
// another follows in its stream, for then the later one is the baseline. The scan
// sees a stream as up to three neighbours,
//
//	a: a run of deltas   m: a snapshot behind it   b: a run of deltas behind that
//
// and what comes next decides: a delta joins the run that ends in front of it; a
// snapshot makes m needless, so that a and b join across it. Where they cannot, a
// and m stay as they are, and the next hour begins with b. What must not change at
// all (an operation, a caller's id, a reversal, a skip, a damaged row) ends all three.
type neighbours struct {
	a, m, b piece
}

// A piece is one row of the three; none where n is 0. Between two transactions
// only n and start are kept.
type piece struct {
	n     uint64
	start moment // of the first delta that it stands for

	p     pendingRow
	e     event.Event
	dirty bool
}

// moment is when something happened, by both clocks of its boot.
type moment struct {
	boot uint32
	mono time.Duration
	wall time.Time
}

func (r *row) moment() moment { return moment{r.boot, r.mono, r.wall} }

// mergeScan remembers how far the pending rows have been searched for runs to
// merge: rows only come at the end, so that each is looked at once. After a restart
// it begins anew; then a merged row does not grow any more, since when its run began
// is not known.
type mergeScan struct {
	next    uint64
	streams map[streamID]neighbours
}

// mergeRuns removes up to sliceRows rows by merging, and says how many; 0 means
// that there is nothing to merge. It needs mu.
func (o *Outbox) mergeRuns() (removed int, err error) {
	var m merging
	for more := true; more && removed == 0; {
		err = o.updateTight(func(c *change) error {
			m = merging{c: c, next: max(o.merge.next, o.st.sent+1), streams: map[streamID]*neighbours{}, scan: &o.merge}
			if err := m.slice(); err != nil {
				return err
			}
			if removed, more = len(m.gone), m.more; removed == 0 {
				return errUnchanged
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		o.merge.remember(&m)
	}
	return removed, nil
}

// remember takes over what the committed slice has found.
func (s *mergeScan) remember(m *merging) {
	s.next = m.next
	if s.streams == nil {
		s.streams = map[streamID]neighbours{}
	}
	for id, n := range m.streams {
		bare := func(x piece) piece { return piece{n: x.n, start: x.start} }
		if n.a.n+n.m.n+n.b.n == 0 {
			delete(s.streams, id)
			continue
		}
		s.streams[id] = neighbours{bare(n.a), bare(n.m), bare(n.b)}
	}
	if len(s.streams) > streamsMax {
		s.streams = nil // costs no more than a restart does
	}
}

// merging is one transaction of it.
type merging struct {
	c       *change
	scan    *mergeScan
	next    uint64
	more    bool // there are rows behind those looked at
	streams map[streamID]*neighbours
	gone    []pendingRow
	saved   []piece // changed, and given up
}

// slice looks at dropScanRows rows.
func (m *merging) slice() error {
	rows, cur := m.c.bucket(bRows), m.c.bucket(bPending).Cursor()
	looked := 0
	k, v := cur.Seek(rowKey(m.next))
	for ; k != nil && looked < dropScanRows && len(m.gone) < m.c.o.perSlice; k, v = cur.Next() {
		looked++
		m.next = binary.BigEndian.Uint64(k) + 1
		x := readPiece(rows, k, v)
		if x.p.ref.tank == "" {
			continue // Next tells; it leaves a gap among its neighbours
		}
		m.stream(x.p.ref, rows).take(x, m)
	}
	m.more = k != nil
	return m.write()
}

// readPiece reads a row. One that must stay as it is, or that is damaged, has n 0.
func readPiece(rows *bbolt.Bucket, k, v []byte) piece {
	x := piece{p: readPending(rows, k, v)}
	r := &x.p.ref
	if x.p.fault != nil || r.ownID || r.kind != event.Measured && !r.kind.Delta() {
		return x
	}
	e, err := event.Decode(x.p.row.kind, r.tank, x.p.row.payload)
	if err != nil || x.p.row.kind != r.kind || e.Operation != "" || !e.HasNodeID() {
		return x
	}
	x.n, x.e, x.start = x.p.n, e, x.p.row.moment()
	if r.kind.Delta() && r.from != r.seq {
		x.start.wall = time.Time{} // merged before: not known, and long ago
	}
	return x
}

// stream gives the neighbours of a stream as they are on disk now.
func (m *merging) stream(r ref, rows *bbolt.Bucket) *neighbours {
	id := streamID{r.epoch, r.tank}
	if n := m.streams[id]; n != nil {
		return n
	}
	old, n := m.scan.streams[id], &neighbours{}
	for _, x := range []struct {
		old  piece
		to   *piece
		kind func(event.Type) bool
	}{
		{old.a, &n.a, event.Type.Delta},
		{old.m, &n.m, func(t event.Type) bool { return t == event.Measured }},
		{old.b, &n.b, event.Type.Delta},
	} {
		key := rowKey(x.old.n)
		v := m.c.bucket(bPending).Get(key)
		if x.old.n <= m.c.st.sent || v == nil {
			continue // it has left, or another one stands for it
		}
		if now := readPiece(rows, key, v); now.n != 0 && x.kind(now.p.ref.kind) {
			now.start = x.old.start
			*x.to = now
		}
	}
	if n.m.n == 0 && n.b.n != 0 { // what stood before b has left
		n.a, n.b = n.b, piece{}
	}
	m.streams[id] = n
	return n
}

// last gives the piece that the next row of the stream follows.
func (n *neighbours) last() *piece {
	switch {
	case n.b.n != 0:
		return &n.b
	case n.m.n != 0:
		return &n.m
	}
	return &n.a
}

// take adds the next row of the stream.
func (n *neighbours) take(x piece, m *merging) {
	last := n.last()
	if x.n == 0 || last.n != 0 && last.p.ref.seq+1 != x.p.ref.from {
		m.keep(n)
		*n = neighbours{}
	}
	switch {
	case x.n == 0:
	case x.p.ref.kind == event.Measured:
		n.snapshot(x, m)
	default:
		n.delta(x, m)
	}
}

func (n *neighbours) delta(x piece, m *merging) {
	last := n.last()
	switch {
	case last.n == 0 || n.m.n == 0 && !m.join(last, &x):
		m.keep(n)
		*n = neighbours{a: x}
	case n.m.n == 0: // joined
		n.a = x
	case n.b.n == 0:
		n.b = x
	case m.join(&n.b, &x):
		n.b = x
	default:
		m.keep(n)
		*n = neighbours{a: x}
	}
}

func (n *neighbours) snapshot(x piece, m *merging) {
	switch {
	case n.m.n == 0:
	case n.b.n == 0: // it follows m at once
		m.absorb(&n.m, &x)
	case n.a.n != 0 && n.a.p.ref.seq+1 == n.m.p.ref.from && fits(&n.a, &n.b):
		m.absorb(&n.m, &n.b)
		m.join(&n.a, &n.b)
		n.a, n.b = n.b, piece{}
	default:
		m.save(&n.a)
		m.save(&n.m)
		n.a, n.b = n.b, piece{}
	}
	n.m = x
}

// fits reports whether two runs may become one.
func fits(a, b *piece) bool {
	within := func(d time.Duration) bool { return d >= 0 && d <= mergeSpan }
	return a.p.ref.kind == b.p.ref.kind && a.p.row.unsynced == b.p.row.unsynced &&
		a.start.boot == b.p.row.boot && a.p.row.boot == b.p.row.boot &&
		within(b.p.row.mono-a.start.mono) && within(b.p.row.wall.Sub(a.start.wall)) &&
		within(b.start.mono-a.p.row.mono) && within(b.start.wall.Sub(a.p.row.wall)) &&
		a.e.Amount <= event.MaxAmount-b.e.Amount
}

// join makes one run of two that stand side by side, where they fit: b grows.
func (m *merging) join(a, b *piece) bool {
	if a.p.ref.seq+1 != b.p.ref.from || !fits(a, b) {
		return false
	}
	b.e.Amount += a.e.Amount
	b.e.Suspect = b.e.Suspect || a.e.Suspect
	b.start = a.start
	m.c.counted.Merged++
	m.standIn(a, b)
	return true
}

// absorb lets a snapshot vanish in the row that follows it.
func (m *merging) absorb(gone, by *piece) {
	m.c.counted.SnapshotsDropped++
	m.standIn(gone, by)
}

func (m *merging) standIn(gone, by *piece) {
	by.p.ref.from = gone.p.ref.from
	by.e.StandsFor = event.Range{From: by.p.ref.from, To: by.p.ref.seq}
	by.dirty = true
	m.gone = append(m.gone, gone.p)
	*gone = piece{}
}

// keep writes what has been changed of neighbours that are given up.
func (m *merging) keep(n *neighbours) {
	for _, x := range []*piece{&n.a, &n.m, &n.b} {
		m.save(x)
	}
}

func (m *merging) save(x *piece) {
	if x.n != 0 && x.dirty {
		m.saved = append(m.saved, *x)
		x.dirty = false
	}
}

// write makes the slice's changes: what is gone first, then those that stand in.
func (m *merging) write() error {
	for _, n := range m.streams {
		m.keep(n)
	}
	for _, p := range m.gone {
		if err := m.c.remove(bPending, p.n, p.ref); err != nil {
			return err
		}
	}
	for i := range m.saved {
		if err := m.c.takeOver(survivor{m.saved[i].p, m.saved[i].e}); err != nil {
			return err
		}
	}
	return nil
}

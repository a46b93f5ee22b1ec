package outbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"oxyd/internal/event"
)

const (
	headroomShare = 8 // of MaxBytes
	headroomMin   = 512 << 10

	// An append rewrites the last page of each bucket and a page for each stream,
	// and rows do not fill their pages: an upper estimate for one row and one call.
	appendRowBytes  = 512
	appendCallBytes = 64 << 10

	// dropScanRows is how many pending rows one transaction looks at for snapshots
	// to drop.
	dropScanRows = 4_096
)

// headroom is the part of the file that appends leave to confirming and pruning.
func (o *Outbox) headroom() int64 { return max(o.o.MaxBytes/headroomShare, headroomMin) }

// makeRoom gives up what may go until the drafts fit: retained rows, the confirmed
// ones first, then snapshots that nobody needs, then runs of deltas that become one.
// It needs mu.
func (o *Outbox) makeRoom(staged, fresh []draft) error {
	need := int64(appendCallBytes)
	for _, part := range [][]draft{staged, fresh} {
		for i := range part {
			need += appendRowBytes + 2*part[i].size
		}
	}
	for {
		u, err := o.f.Usage()
		if err != nil {
			return err
		}
		limit := u.Limit - o.headroom()
		o.easeOff(u.Used, limit)
		if u.Used+need <= limit {
			return nil
		}
		if need > limit { // not even an empty outbox would do
			return fmt.Errorf("%w: %d drafts at once", ErrFull, len(staged)+len(fresh))
		}
		if len(o.noted) > 0 { // what is confirmed may go
			if err := o.confirmNoted(); err != nil {
				return err
			}
		}
		n, err := o.evictSlice()
		if err == nil && n == 0 {
			n, err = o.coalesce()
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: %d pending rows take %d of %d bytes", ErrFull, o.st.pendingRows, u.Used, o.o.MaxBytes)
		}
	}
}

// coalesce makes fewer rows of those that have not been handed over, and says by
// how many: snapshots first, then deltas. 0 means that nothing more can go. It
// needs mu.
func (o *Outbox) coalesce() (removed int, err error) {
	o.crowded.begin(o.o.Clock)
	if removed, err = o.dropSnapshots(); removed == 0 && err == nil {
		removed, err = o.mergeRuns()
	}
	return removed, err
}

// A spell is a time of trouble, and since when it lasts.
type spell struct {
	on    bool
	since time.Time
}

func (s *spell) begin(clock Clock) {
	if !s.on {
		s.on, s.since = true, clock.Now()
	}
}

// easeOff ends the crowding once a quarter is free again.
func (o *Outbox) easeOff(used, limit int64) {
	if used < limit-limit/4 {
		o.crowded.on, o.lacking.on = false, false
	}
}

// start gives since when, zero when it is over.
func (s *spell) start() time.Time {
	if !s.on {
		return time.Time{}
	}
	return s.since
}

// anyAge makes pruneSlice take rows however young.
const anyAge time.Duration = -1

// pruneSlice removes up to sliceRows retained rows that are at least minAge past
// their PUBACK, in row order, and says how many. The first that is younger ends
// it: rows are confirmed in about their order. It needs mu.
func (o *Outbox) pruneSlice(minAge time.Duration) (removed int, err error) {
	if o.st.keptRows == 0 {
		return 0, nil
	}
	now := o.now()
	err = o.updateTight(func(c *change) error {
		removed = 0
		var slice []uint64
		cur := c.bucket(bKept).Cursor()
		for k, v := cur.First(); k != nil && len(slice) < sliceRows; k, v = cur.Next() {
			if at, _, ok := decodeKept(v); ok && now.since(at) < minAge {
				break
			}
			slice = append(slice, binary.BigEndian.Uint64(k))
		}
		for _, n := range slice {
			_, r, ok := decodeKept(c.bucket(bKept).Get(rowKey(n)))
			if !ok {
				if err := c.setAside(bKept, n, ref{}, errRowForm); err != nil {
					return err
				}
			} else if err := c.remove(bKept, n, r); err != nil {
				return err
			}
			removed++
		}
		if removed == 0 {
			return errUnchanged
		}
		if minAge == anyAge {
			c.counted.Evicted += uint64(removed)
			c.counted.EvictedLacking += uint64(removed)
		} else {
			c.counted.Pruned += uint64(removed)
		}
		return nil
	})
	return removed, err
}

// dropScan remembers how far the pending rows have been searched for snapshots to
// drop: rows only come at the end, so that each is looked at once.
type dropScan struct {
	next  uint64
	tails map[string]tail // by stream
}

// tail is the last row of a stream that the scan has met, where that is a
// snapshot which may go as soon as another follows it.
type tail struct {
	row, seq uint64
}

// survivor is a snapshot that takes over the numbers of those before it.
type survivor struct {
	p pendingRow
	e event.Event
}

// dropSnapshots drops up to sliceRows snapshots that have not been handed over and
// are followed, in their stream, by another such snapshot, which then stands for
// their numbers. Between the two lies no delta, so that no balance depends on the
// one dropped. Events with a caller's id stay. It says how many it dropped; 0
// means that there are none. It needs mu.
func (o *Outbox) dropSnapshots() (dropped int, err error) {
	var scan dropScan
	for more := true; more && dropped == 0; {
		err = o.updateTight(func(c *change) (err error) {
			scan = dropScan{next: max(o.scan.next, o.st.sent+1), tails: maps.Clone(o.scan.tails)}
			if scan.tails == nil {
				scan.tails = map[string]tail{}
			}
			dropped, more, err = c.dropSlice(&scan)
			if err == nil && dropped == 0 {
				err = errUnchanged
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		o.scan = scan
	}
	return dropped, nil
}

// dropSlice looks at dropScanRows rows. more: there are others behind them.
func (c *change) dropSlice(scan *dropScan) (dropped int, more bool, err error) {
	survivors := map[uint64]survivor{} // by row
	var gone []pendingRow
	rows, cur := c.bucket(bRows), c.bucket(bPending).Cursor()
	looked := 0
	k, v := cur.Seek(rowKey(scan.next))
	for ; k != nil && looked < dropScanRows && len(gone) < c.o.perSlice; k, v = cur.Next() {
		looked++
		n := binary.BigEndian.Uint64(k)
		scan.next = n + 1
		r, ok := decodeRef(v)
		if !ok {
			continue
		}
		stream := string(streamKey(r.epoch, r.tank))
		if r.kind != event.Measured || r.ownID {
			continue // the next one's run does not begin behind the tail then
		}
		t, ok := scan.tails[stream]
		scan.tails[stream] = tail{n, r.seq}
		if !ok || t.row <= c.st.sent || t.seq+1 != r.from {
			continue
		}
		before, found := c.pendingAt(t.row)
		p := readPending(rows, k, v)
		e, derr := event.Decode(p.row.kind, r.tank, p.row.payload)
		if !found || p.fault != nil || derr != nil {
			continue // damaged: Next tells
		}
		p.ref.from = before.ref.from // merging may have changed it since
		if s, changed := survivors[t.row]; changed {
			p.ref.from = s.p.ref.from
		}
		scan.tails[stream] = tail{n, r.seq}
		delete(survivors, t.row)
		survivors[n] = survivor{p, e}
		gone = append(gone, before)
	}
	for _, p := range gone {
		if err := c.remove(bPending, p.n, p.ref); err != nil {
			return 0, false, err
		}
	}
	c.counted.SnapshotsDropped += uint64(len(gone))
	for _, s := range survivors {
		if err := c.takeOver(s); err != nil {
			return 0, false, err
		}
	}
	return len(gone), k != nil, nil
}

func (c *change) pendingAt(n uint64) (p pendingRow, ok bool) {
	v := c.bucket(bPending).Get(rowKey(n))
	if v == nil {
		return p, false
	}
	p.n = n
	p.ref, ok = decodeRef(v)
	return p, ok
}

func (c *change) takeOver(s survivor) error {
	s.e.StandsFor = event.Range{From: s.p.ref.from, To: s.p.ref.seq}
	if err := c.rewrite(&s.p, &s.e); err != nil {
		return err
	}
	return c.bucket(bPending).Put(rowKey(s.p.n), s.p.ref.encode(nil))
}

// prune removes what has been retained for its time, slice by slice, until stop
// says so.
func (o *Outbox) prune(stop func() bool) error {
	minAge := max(o.o.Retention, 0)
	for !stop() {
		o.mu.Lock()
		err := o.usable()
		n := 0
		if err == nil {
			n, err = o.pruneSlice(minAge)
		}
		o.mu.Unlock()
		if err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		if n < sliceRows {
			return nil
		}
	}
	return nil
}

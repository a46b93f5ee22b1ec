package outbox

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// A Row is one event on its way out. Payload belongs to the caller.
type Row struct {
	Row     uint64
	Topic   string
	Payload []byte
}

// pendingRow is a row as Next has read it. fault: its bytes are damaged.
type pendingRow struct {
	n     uint64
	ref   ref
	row   row
	bytes []byte
	fault error
}

// Next gives the pending rows beyond after in row order, at most limit and about
// 1 MiB of them; none means that all have been given. It skips no row that was
// never handed over: of those it begins with the first, whatever after says.
//
// Rows that leave for the first time are marked as handed over, on disk, before
// Next returns; from then on their bytes stay. Of rows made with an unsynchronised
// clock it settles the time then: synchronised since in the same boot, occurred_at
// is corrected by the clock since boot; otherwise age is added. Of an earlier boot
// it is corrected where the clock was synchronised before that boot ended (anchor),
// else nothing is said, since how long the board was off cannot be known.
//
// Whoever has been given all there is gets what is appended next without a commit
// of its own: it was marked when it was appended.
//
// A damaged row is moved out of the way, with its bytes and an Error in the log.
//
// Where no pending row is left beyond after, it gives a window of retained rows
// that ledgers want again, same bytes, under row numbers of their own (again).
//
// From a new store without a known time nothing leaves for a while (hold).
func (o *Outbox) Next(after uint64, limit int) ([]Row, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return nil, fmt.Errorf("hand over: %w", err)
	}
	if o.holding() {
		return nil, nil
	}
	if o.isNotedBeyond(after) { // a connection begins anew
		if err := o.confirmNoted(); err != nil {
			return nil, fmt.Errorf("hand over: %w", err)
		}
	}
	o.caughtUp = false
	for {
		window, err := o.window(min(after, o.given), limit)
		if err != nil {
			return nil, err
		}
		if len(window) == 0 {
			o.caughtUp = true
			again, err := o.again(limit)
			if err != nil {
				return nil, fmt.Errorf("send again: %w", err)
			}
			return again, nil
		}
		if o.settled(window) {
			return o.outgoing(window), nil
		}
		var settled []pendingRow
		err = o.evicting(o.updateTight, func(c *change) (err error) {
			settled, err = c.handOver(window)
			return err
		})
		if boltfile.IsFull(err) && limit > 1 && len(window) > 1 {
			limit = len(window) / 2 // fewer rows need fewer pages
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hand over: %w", err)
		}
		if len(settled) > 0 {
			return o.outgoing(settled), nil
		}
	}
}

// window reads, and checks, up to limit pending rows beyond after.
func (o *Outbox) window(after uint64, limit int) (window []pendingRow, err error) {
	err = o.f.View(func(tx *bbolt.Tx) error {
		rows, size := tx.Bucket([]byte(bRows)), 0
		cur := tx.Bucket([]byte(bPending)).Cursor()
		for k, v := cur.Seek(rowKey(after + 1)); k != nil && len(window) < limit && size < windowBytesMax; k, v = cur.Next() {
			p := readPending(rows, k, v)
			o.rowsRead++
			size += len(p.bytes)
			window = append(window, p)
		}
		return nil
	})
	return window, err
}

func readPending(rows *bbolt.Bucket, k, v []byte) pendingRow {
	p := pendingRow{n: binary.BigEndian.Uint64(k), bytes: bytes.Clone(rows.Get(k))}
	var ok bool
	if p.ref, ok = decodeRef(v); !ok {
		p.fault = errRowForm
		return p
	}
	p.row, p.fault = decodeRow(p.n, p.bytes)
	return p
}

// settled reports whether the window can leave without a commit.
func (o *Outbox) settled(window []pendingRow) bool {
	for i := range window {
		if window[i].fault != nil || window[i].n > o.st.sent {
			return false
		}
	}
	return true
}

func (o *Outbox) outgoing(window []pendingRow) []Row {
	o.given = max(o.given, window[len(window)-1].n)
	out := make([]Row, len(window))
	for i, p := range window {
		out[i] = Row{Row: p.n, Topic: o.o.Topic(p.row.kind, p.ref.tank), Payload: p.row.payload}
	}
	return out
}

// handOver raises the marks of the rows in the window, settles the time of those
// that leave for the first time, and sorts the damaged ones out.
func (c *change) handOver(window []pendingRow) ([]pendingRow, error) {
	now := c.o.now()
	good := make([]pendingRow, 0, len(window))
	for _, p := range window {
		if p.ref.tank == "" {
			p.ref = c.refByIndex(p.n)
		}
		if p.fault == nil && p.n > c.st.sent && p.row.unsynced {
			p.fault = c.settleTime(&p, now)
		}
		if p.n > c.st.sent {
			if err := c.raise(p); err != nil {
				return nil, err
			}
		}
		if p.fault != nil {
			if err := c.setAside(bPending, p.n, p.ref, p.fault); err != nil {
				return nil, err
			}
			continue
		}
		good = append(good, p)
	}
	return good, nil
}

// raise moves both marks on to the row. Rows leave in order, so neither skips any.
func (c *change) raise(p pendingRow) error {
	c.st.sent = p.n
	if p.ref.tank == "" { // nothing knows its stream
		return nil
	}
	s, err := c.stream(p.ref.epoch, p.ref.tank)
	if err != nil {
		return err
	}
	s.handed = max(s.handed, p.ref.seq)
	return nil
}

// settleTime fixes what is said about the time of a row from an unsynchronised
// clock. Its error means that the row is damaged.
func (c *change) settleTime(p *pendingRow, now instant) error {
	if p.row.boot != now.boot {
		var known bool
		if now, known = c.o.anchorOf(p.row.boot); !known || p.row.mono > now.mono {
			return nil
		}
	}
	e, err := event.Decode(p.row.kind, p.ref.tank, p.row.payload)
	if err != nil {
		return err
	}
	ago := max(now.mono-p.row.mono, 0)
	if now.synced {
		e.OccurredAt, e.Unsynced = now.wall.Add(-ago).Round(0).UTC(), false
		p.row.wall, p.row.unsynced = e.OccurredAt, false
	} else {
		e.Age, e.HasAge = ago, true
	}
	return c.rewrite(p, &e)
}

// rewrite gives a row other bytes. It must not have been handed over.
func (c *change) rewrite(p *pendingRow, e *event.Event) error {
	p.row.payload = e.AppendJSON(nil)
	value := p.row.encode(p.n)
	c.st.pendingBytes += uint64(len(value)) - uint64(len(p.bytes))
	p.bytes = value
	return c.bucket(bRows).Put(rowKey(p.n), value)
}

// Confirm takes rows out of the pending ones: the broker has answered for them,
// just now. They are retained for Options.Retention. Rows that are not pending,
// or that Next has not given since Open, are ignored.
func (o *Outbox) Confirm(rows []uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	o.note(rows)
	if err := o.confirmNoted(); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}

func (c *change) confirm(n uint64, at instant) error {
	key := rowKey(n)
	v := c.bucket(bPending).Get(key)
	if v == nil || n > c.st.sent {
		return nil
	}
	r, ok := decodeRef(v)
	if !ok {
		return c.setAside(bPending, n, ref{}, errRowForm)
	}
	value := c.bucket(bRows).Get(key)
	if _, err := decodeRow(n, value); err != nil {
		return c.setAside(bPending, n, r, err)
	}
	c.counted.Confirmed++
	if c.o.o.Retention < 0 {
		return c.remove(bPending, n, r)
	}
	c.st.pendingRows--
	c.st.pendingBytes -= uint64(len(value))
	c.st.keptRows++
	c.st.keptBytes += uint64(len(value))
	if err := c.bucket(bPending).Delete(key); err != nil {
		return err
	}
	kept := c.bucket(bKept)
	kept.FillPercent = monotoneFill
	return kept.Put(key, r.encode(at.encode(make([]byte, 0, 96))))
}

// remove takes a row out of the store; from is bPending or bKept.
func (c *change) remove(from string, n uint64, r ref) error {
	key := rowKey(n)
	size := uint64(len(c.bucket(bRows).Get(key)))
	if from == bPending {
		c.st.pendingRows--
		c.st.pendingBytes -= size
	} else {
		c.st.keptRows--
		c.st.keptBytes -= size
	}
	if err := c.bucket(from).Delete(key); err != nil {
		return err
	}
	if err := c.bucket(bRows).Delete(key); err != nil {
		return err
	}
	if r.tank == "" { // nothing knows its stream
		return nil
	}
	s, err := c.stream(r.epoch, r.tank)
	if err != nil {
		return err
	}
	s.rows--
	return c.bucket(bIndex).Delete(indexKey(r.epoch, r.tank, r.seq))
}

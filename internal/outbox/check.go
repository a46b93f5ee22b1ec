package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// checkFaultsMax bounds what Check reports.
const checkFaultsMax = 20

// Check reads the whole store and reports what does not hold: bolt's own
// structure; of each row checksum, form and agreement with its indexes; that
// numbers rise in each stream and are contiguous where nothing has left yet; that
// no mark is ahead of its numbers; that every count is right. Writers wait.
func (o *Outbox) Check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.f.Check(); err != nil {
		return fmt.Errorf("check outbox: %w", err)
	}
	if err := o.f.View(func(tx *bbolt.Tx) error {
		c, err := checkAll(tx)
		return errors.Join(append(append(c.faults, c.damagedRows...), err)...)
	}); err != nil {
		return fmt.Errorf("check outbox: %w", err)
	}
	return nil
}

type checker struct {
	tx     *bbolt.Tx
	st     state
	seen   map[string]*streamSeen
	faults []error
	// damagedRows are rows whose own bytes cannot be trusted. Next moves them out of
	// the way one by one, so that they cost their events and not the store.
	damagedRows []error
	sources     map[string]uint64 // rows by the source that their bytes name
}

func checkAll(tx *bbolt.Tx) (*checker, error) {
	c := &checker{tx: tx, seen: map[string]*streamSeen{}, sources: map[string]uint64{}}
	var err error
	if c.st, err = readState(tx); err == nil {
		c.all()
	}
	return c, err
}

// streamSeen is what the rows say of a stream.
type streamSeen struct {
	record stream
	rows   uint64
	unsent uint64 // last number met beyond the mark
	last   map[string]uint64
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < checkFaultsMax {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *checker) bucket(name string) *bbolt.Bucket { return c.tx.Bucket([]byte(name)) }

func (c *checker) all() {
	streams := c.each(bStreams, func(k, v []byte) {
		s, ok := decodeStream(v)
		if !ok || len(k) <= 8 {
			c.fault("stream %x: record unreadable", k)
			return
		}
		if s.handed > s.last {
			c.fault("stream %x: handed over up to %d, given up to %d", k, s.handed, s.last)
		}
		if streamKeyEpoch(k) > c.st.epoch {
			c.fault("stream %x: its epoch is above the state's %d", k, c.st.epoch)
		}
		c.seen[string(k)] = &streamSeen{record: s, unsent: s.handed, last: map[string]uint64{}}
	})
	var pendingBytes, keptBytes uint64
	pending := c.each(bPending, func(k, v []byte) { pendingBytes += c.row(bPending, k, v) })
	kept := c.each(bKept, func(k, v []byte) {
		if len(v) < instantBytes {
			c.fault("kept row %x: record unreadable", k)
			return
		}
		keptBytes += c.row(bKept, k, v[instantBytes:])
	})
	for key, s := range c.seen {
		if s.rows != s.record.rows {
			c.fault("stream %x: %d rows, its record says %d", key, s.rows, s.record.rows)
		}
		if s.unsent != s.record.last {
			c.fault("stream %x: unsent numbers end at %d, %d was given", key, s.unsent, s.record.last)
		}
	}
	c.count("rows", c.each(bRows, func(_, _ []byte) {}), pending+kept)
	c.count("index entries", c.each(bIndex, func(_, _ []byte) {}), pending+kept)
	c.count("streams", c.st.streams, streams)
	c.count("pending rows", c.st.pendingRows, pending)
	c.count("pending bytes", c.st.pendingBytes, pendingBytes)
	c.count("kept rows", c.st.keptRows, kept)
	c.count("kept bytes", c.st.keptBytes, keptBytes)
	c.count("damaged rows", c.st.damagedRows, c.each(bDamaged, c.damaged))
	c.each(bAnswers, func(k, v []byte) {
		if _, ok := decodeAnswer(v); !ok {
			c.fault("answer %x: record unreadable", k)
		}
	})
	c.count("ids", c.st.ids, c.each(bIDs, c.id))
	c.count("ids by row", c.st.ids, c.each(bIDRows, func(_, _ []byte) {}))
}

func (c *checker) each(bucket string, fn func(k, v []byte)) (n uint64) {
	b := c.bucket(bucket)
	if b == nil {
		return 0 // a file from before there was one; see Inspect
	}
	// The only error is that of a callback, and this one has none.
	_ = b.ForEach(func(k, v []byte) error { n++; fn(k, v); return nil })
	return n
}

func (c *checker) count(what string, got, want uint64) {
	if got != want {
		c.fault("%s: %d, want %d", what, got, want)
	}
}

// row checks one row and all that points to it, and gives its size.
func (c *checker) row(from string, k, link []byte) uint64 {
	n := binary.BigEndian.Uint64(k)
	value := c.bucket(bRows).Get(k)
	r, ok := decodeRef(link)
	if !ok {
		c.fault("%s row %d: reference unreadable", from, n)
		return uint64(len(value))
	}
	if from == bPending && c.bucket(bKept).Get(k) != nil {
		c.fault("row %d is pending and kept", n)
	}
	if n == 0 || n >= c.st.nextRow {
		c.fault("row %d: the next one is to be %d", n, c.st.nextRow)
	}
	if v := c.bucket(bIndex).Get(indexKey(r.epoch, r.tank, r.seq)); !bytes.Equal(v, k) {
		c.fault("row %d: the index of its number leads to %x", n, v)
	}
	c.content(n, r, value)
	c.place(from, n, r)
	return uint64(len(value))
}

// content compares the row's bytes with what the reference says.
func (c *checker) content(n uint64, r ref, value []byte) {
	row, err := decodeRow(n, value)
	if err != nil {
		c.damagedRow(n, err)
		return
	}
	e, err := event.Decode(row.kind, r.tank, row.payload)
	if err != nil {
		c.damagedRow(n, err)
		return
	}
	c.sources[e.Source]++
	if row.kind != r.kind || e.Dot != r.dot() || e.Run() != (event.Range{From: r.from, To: r.seq}) || e.HasNodeID() == r.ownID {
		c.fault("row %d: its bytes say %s %v %v, its reference %s %v from %d", n, row.kind, e.Dot, e.Run(), r.kind, r.dot(), r.from)
	}
}

func (c *checker) damagedRow(n uint64, err error) {
	if len(c.damagedRows) < checkFaultsMax {
		c.damagedRows = append(c.damagedRows, fmt.Errorf("row %d: %w", n, err))
	}
}

// place checks the row's number among those of its stream.
func (c *checker) place(from string, n uint64, r ref) {
	s := c.seen[string(streamKey(r.epoch, r.tank))]
	if s == nil {
		c.fault("row %d: its stream (epoch %d, tank %s) has no record", n, r.epoch, r.tank)
		return
	}
	s.rows++
	if r.from <= s.last[from] {
		c.fault("row %d: number %d stands behind %d", n, r.from, s.last[from])
	}
	s.last[from] = r.seq
	if (n <= c.st.sent) != (r.seq <= s.record.handed) {
		c.fault("row %d, number %d: handed over are rows up to %d and numbers up to %d", n, r.seq, c.st.sent, s.record.handed)
	}
	if r.seq > s.record.handed {
		if r.from != s.unsent+1 {
			c.fault("row %d: number %d follows %d", n, r.from, s.unsent)
		}
		s.unsent = r.seq
	}
}

func (c *checker) damaged(k, v []byte) {
	if _, _, ok := decodeDamaged(k, v); !ok {
		c.fault("damaged row %x: record unreadable", k)
	}
}

func (c *checker) id(k, v []byte) {
	r, _, err := decodeID(string(k), v)
	if err != nil {
		c.fault("%w", err)
		return
	}
	if back := c.bucket(bIDRows).Get(rowKey(r.Row)); !bytes.Equal(back, k) {
		c.fault("event id %q: its row %d is that of %q", k, r.Row, back)
	}
}

package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// state is what the store says of itself as a whole: one record, written with
// every change, so that opening counts nothing.
type state struct {
	nextRow uint64 // the row that the next event gets, from 1
	sent    uint64 // every row up to it has been handed over
	epoch   uint64 // the highest one used or shown by a confirm
	boot    uint32 // counts the values of bootID
	bootID  string

	pendingRows, pendingBytes uint64
	keptRows, keptBytes       uint64
	damagedRows               uint64
	ids, streams              uint64
}

var (
	keyState     = []byte("state")
	keyConfirmer = []byte("confirmer") // the ledger heard first, where none is configured
)

const (
	stateVersion = 1
	stateFixed   = 1 + 4 + 10*8
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// numbers lists the record's 64-bit fields in their order on disk.
func (s *state) numbers() [10]*uint64 {
	return [...]*uint64{&s.nextRow, &s.sent, &s.epoch, &s.pendingRows, &s.pendingBytes,
		&s.keptRows, &s.keptBytes, &s.damagedRows, &s.ids, &s.streams}
}

func (s *state) encode() []byte {
	b := append(make([]byte, 0, 192), stateVersion)
	b = binary.BigEndian.AppendUint32(b, s.boot)
	for _, n := range s.numbers() {
		b = binary.BigEndian.AppendUint64(b, *n)
	}
	b = append(b, s.bootID...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

// readState reads the record, or begins one in a new file.
func readState(tx *bbolt.Tx) (state, error) {
	b := tx.Bucket([]byte(bState)).Get(keyState)
	if b == nil {
		if k, _ := tx.Bucket([]byte(bRows)).Cursor().First(); k != nil {
			return state{}, fmt.Errorf("%w: rows without a state record", boltfile.ErrDamaged)
		}
		return state{nextRow: 1}, nil
	}
	end := len(b) - 4
	if end < stateFixed || b[0] != stateVersion || crc32.Checksum(b[:end], crcTable) != binary.BigEndian.Uint32(b[end:]) {
		return state{}, fmt.Errorf("%w: state record", boltfile.ErrDamaged)
	}
	s := state{boot: binary.BigEndian.Uint32(b[1:]), bootID: string(b[stateFixed:end])}
	for i, n := range s.numbers() {
		*n = binary.BigEndian.Uint64(b[5+8*i:])
	}
	return s, nil
}

// stream is the record of one (epoch, tank).
type stream struct {
	last   uint64 // the last number given
	handed uint64 // every number up to it may have left; what is beyond it has not
	rows   uint64 // pending and kept
}

func (s *stream) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 24), s.last)
	b = binary.BigEndian.AppendUint64(b, s.handed)
	return binary.BigEndian.AppendUint64(b, s.rows)
}

func decodeStream(b []byte) (s stream, ok bool) {
	if len(b) != 24 {
		return s, false
	}
	return stream{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}, true
}

// change is one write transaction on the way: the state as it will be, and the
// stream records that it touches.
type change struct {
	tx      *bbolt.Tx
	o       *Outbox
	st      state
	streams map[string]*stream // by key; written at the end
	counted Counters           // added to the Outbox's once committed

	ahead    bool // rows are marked as handed over while they are appended
	unsynced bool // a row was appended whose clock was not synchronised
	moved    int  // of Outbox.noted, how many are confirmed by this
}

// update runs fn in one transaction. The Outbox's own state follows only when the
// commit has succeeded. fn may return errUnchanged to leave everything as it is.
func (o *Outbox) update(fn func(*change) error) error { return o.commitBy(o.f.Update, fn) }

// updateTight is update for what has to go on while the disk is full: handing
// over, confirming, pruning. fn may run several times.
func (o *Outbox) updateTight(fn func(*change) error) error { return o.commitBy(o.f.UpdateTight, fn) }

func (o *Outbox) commitBy(run func(func(*bbolt.Tx) error) error, fn func(*change) error) error {
	var c *change
	err := run(func(tx *bbolt.Tx) error {
		c = &change{tx: tx, o: o, st: o.st, streams: map[string]*stream{}}
		if err := fn(c); err != nil {
			return err
		}
		return c.finish()
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err != nil {
		return err
	}
	o.st = c.st
	o.counters.add(c.counted)
	o.unsynced = o.unsynced || c.unsynced
	o.noted = o.noted[c.moved:]
	return nil
}

// evicting runs update or updateTight until there is room: where there is none,
// retained rows are given up (evictSlice). fn may run several times.
func (o *Outbox) evicting(update func(func(*change) error) error, fn func(*change) error) error {
	for {
		err := update(fn)
		if !boltfile.IsFull(err) {
			return err
		}
		if n, perr := o.evictSlice(); perr != nil || n == 0 {
			return err
		}
	}
}

func (c *change) bucket(name string) *bbolt.Bucket { return c.tx.Bucket([]byte(name)) }

// stream gives the record of a stream, a new one where there is none.
func (c *change) stream(epoch uint64, tank string) (*stream, error) {
	key := streamKey(epoch, tank)
	if s := c.streams[string(key)]; s != nil {
		return s, nil
	}
	s := &stream{}
	if v := c.bucket(bStreams).Get(key); v != nil {
		old, ok := decodeStream(v)
		if !ok {
			return nil, fmt.Errorf("stream of epoch %d, tank %s: record unreadable", epoch, tank)
		}
		*s = old
	} else {
		c.st.streams++
	}
	c.streams[string(key)] = s
	return s, nil
}

// finish writes what the steps have collected.
func (c *change) finish() error {
	streams := c.bucket(bStreams)
	for key, s := range c.streams {
		if err := streams.Put([]byte(key), s.encode()); err != nil {
			return err
		}
	}
	if err := c.forgetStreams(); err != nil {
		return err
	}
	return c.bucket(bState).Put(keyState, c.st.encode())
}

// forgetStreams keeps streamsMax: records of the oldest epochs go, if they have
// no rows left.
func (c *change) forgetStreams() error {
	if c.st.streams <= streamsMax {
		return nil
	}
	streams := c.bucket(bStreams)
	var gone [][]byte
	cur := streams.Cursor()
	for k, v := cur.First(); k != nil && c.st.streams > streamsMax; k, v = cur.Next() {
		if s, ok := decodeStream(v); ok && s.rows == 0 && streamKeyEpoch(k) < c.o.epoch {
			gone = append(gone, append([]byte(nil), k...))
			c.st.streams--
		}
	}
	for _, k := range gone {
		if err := streams.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// streamKey sorts by epoch, so that what is appended now stands together.
func streamKey(epoch uint64, tank string) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(tank)), epoch), tank...)
}

func streamKeyEpoch(k []byte) uint64 { return binary.BigEndian.Uint64(k) }

// indexPrefix begins the keys of a stream. It needs the 0 because a tank's name
// may begin with another's.
func indexPrefix(epoch uint64, tank string) []byte {
	k := append(make([]byte, 0, 17+len(tank)), streamKey(epoch, tank)...)
	return append(k, 0)
}

func indexKey(epoch uint64, tank string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(indexPrefix(epoch, tank), seq)
}

func rowKey(row uint64) []byte { return binary.BigEndian.AppendUint64(nil, row) }

func (r ref) dot() event.Dot { return event.Dot{Epoch: r.epoch, Seq: r.seq} }

package ledger

import (
	"bytes"
	"encoding/binary"
	"math"

	"oxyd/internal/event"
)

// cursor is what a scan needs of a bolt cursor.
type cursor interface {
	First() (k, v []byte)
	Seek(key []byte) (k, v []byte)
	Last() (k, v []byte)
	Prev() (k, v []byte)
}

// The bucket moves holds the effective deltas of a tank by stamp, so that what
// lies after a snapshot, or between two, is one range, whoever sent it and in
// whatever order it came. By number the same is a range of entries.

// moveKey puts the stamp behind the tank of an entry key.
func moveKey(key []byte, stamp int64) []byte {
	n := bytes.IndexByte(key, 0) + 1
	k := append(make([]byte, 0, len(key)+8), key[:n]...)
	k = binary.BigEndian.AppendUint64(k, uint64(stamp)^(1<<63))
	return append(k, key[n:]...)
}

// moveStamp reads the stamp of a key below the tank's prefix; a damaged key has
// none, and decodeMove refuses it.
func moveStamp(k []byte, prefix int) int64 {
	if len(k) < prefix+8 {
		return beforeAll
	}
	return int64(binary.BigEndian.Uint64(k[prefix:]) ^ (1 << 63))
}

// moveBytes is the most that the value of a move takes.
const moveBytes = 1 + binary.MaxVarintLen64

func (d *delta) appendMove(e encoder) []byte {
	flags := uint8(d.typ)
	if d.byReceipt {
		flags |= moveByReceipt
	}
	if d.suspect {
		flags |= moveSuspect
	}
	e.u8(flags)
	e.uvarint(uint64(d.amount))
	return e
}

// The first byte of a move's value is its type with these.
const (
	moveByReceipt uint8 = 1 << 7
	moveSuspect   uint8 = 1 << 6
)

func decodeMove(k, v []byte, prefix int) (*delta, error) {
	if len(k) < prefix+8 {
		return nil, errRow
	}
	n := entry{stamp: moveStamp(k, prefix)}
	d := decoder{b: v}
	flags := d.u8()
	n.typ = event.Type(flags &^ (moveByReceipt | moveSuspect))
	if flags&moveByReceipt != 0 {
		n.flags |= flagByReceipt
	}
	if flags&moveSuspect != 0 {
		n.flags |= flagSuspect
	}
	n.amount = int64(d.uvarint())
	key := append(bytes.Clone(k[:prefix]), k[prefix+8:]...)
	return deltaOf(key, &n), d.done()
}

// scanStamps visits the tank's effective deltas with a stamp in (from, to].
func (b *batch) scanStamps(tankID string, from, to int64, visit func(*delta)) error {
	if from >= to {
		return nil
	}
	prefix := append([]byte(tankID), 0)
	first := binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(from+1)^(1<<63))
	c := b.moves.Cursor()
	for k, v := c.Seek(first); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if moveStamp(k, len(prefix)) > to {
			return nil
		}
		d, err := decodeMove(k, v, len(prefix))
		if err != nil {
			return err
		}
		visit(d)
	}
	return nil
}

// scanDots visits the effective deltas of a numbered stream in (from, to].
func (b *batch) scanDots(x stream, from, to event.Dot, visit func(*delta)) error {
	prefix := x.prefix()
	c := b.entries.Cursor()
	for k, v := c.Seek(x.at(event.Dot{Epoch: from.Epoch, Seq: from.Seq + 1})); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if dotOfKey(k).Compare(to) > 0 {
			return nil
		}
		n, err := decodeEntry(v)
		if err != nil {
			return err
		}
		if n.effective() {
			visit(deltaOf(k, &n))
		}
	}
	return nil
}

// lastMove gives the greatest stamp of an effective delta of the tank, or
// beforeAll.
func (b *batch) lastMove(a *account) int64 {
	prefix := append([]byte(a.id), 0)
	k, _ := lastOf(b.moves.Cursor(), prefix)
	if k == nil {
		return a.goneUpTo()
	}
	return max(moveStamp(k, len(prefix)), a.goneUpTo())
}

// endOfStream is beyond every dot.
var endOfStream = event.Dot{Epoch: math.MaxUint64, Seq: math.MaxUint64}

// nothingAfter reports whether no delta can be after the snapshot, which is so
// for every new one as long as events come in order.
func (b *batch) nothingAfter(a *account, s *snapshot, st stream) (bool, error) {
	stamps := false
	for _, x := range a.order {
		upTo, byDot := s.sorts(x, st)
		if byDot && a.heads[x].newest.Compare(upTo) > 0 {
			return false, nil
		}
		stamps = stamps || !byDot
	}
	return !stamps || b.lastMove(a) <= s.stamp, nil
}

// tallyAfter adds up the effective deltas after a snapshot.
func (b *batch) tallyAfter(a *account, s *snapshot, st stream) (tally, error) {
	var t tally
	err := b.forAfter(a, s, st, func(d *delta, byStamp bool) { t.count(d, byStamp, +1) })
	return t, err
}

// forAfter visits the effective deltas after a snapshot that are still there.
func (b *batch) forAfter(a *account, s *snapshot, st stream, visit func(d *delta, byStamp bool)) error {
	stamped := func(d *delta) {
		if after, byStamp := d.after(s, st); after && byStamp {
			visit(d, true)
		}
	}
	if err := b.scanStamps(a.id, s.stamp, math.MaxInt64, stamped); err != nil {
		return err
	}
	for _, x := range a.order {
		upTo, byDot := s.sorts(x, st)
		if !byDot {
			continue
		}
		if err := b.scanDots(x, upTo, endOfStream, func(d *delta) { visit(d, false) }); err != nil {
			return err
		}
	}
	return nil
}

// shift is what changes when one snapshot takes the place of another before it in
// their stream.
type shift struct {
	leave   tally // to take out of the tally after the first
	enter   tally // to add to it
	between tally // after the first and not after the second
}

// shift compares two snapshots of stream st. It reads the deltas that lie between
// them and no others, except for a source that only one of them covers.
func (b *batch) shift(a *account, old, now *snapshot, st stream) (shift, error) {
	var m shift
	mixed := map[stream]bool{}
	visit := func(d *delta) { m.visit(d, old, now, st) }
	for _, x := range a.order {
		was, byDot := old.sorts(x, st)
		is, alsoByDot := now.sorts(x, st)
		if byDot != alsoByDot {
			mixed[x] = true
			if err := b.visitMixed(a.id, x, old, now, st, visit); err != nil {
				return m, err
			}
		}
		if !byDot || !alsoByDot {
			continue
		}
		if was.Compare(is) > 0 {
			was, is = is, was
		}
		if err := b.scanDots(x, was, is, visit); err != nil {
			return m, err
		}
	}
	return m, b.scanStamps(a.id, min(old.stamp, now.stamp), max(old.stamp, now.stamp), func(d *delta) {
		_, byDot := old.sorts(d.stream, st)
		if !mixed[d.stream] && !byDot {
			visit(d)
		}
	})
}

// visitMixed visits every delta of x that is after one snapshot or the other,
// where one sorts them by dot and the other by stamp.
func (b *batch) visitMixed(tankID string, x stream, old, now *snapshot, st stream, visit func(*delta)) error {
	upTo, byDot := old.sorts(x, st)
	stamp := now.stamp
	if !byDot {
		upTo, _ = now.sorts(x, st)
		stamp = old.stamp
	}
	if err := b.scanDots(x, upTo, endOfStream, visit); err != nil {
		return err
	}
	return b.scanStamps(tankID, stamp, math.MaxInt64, func(d *delta) {
		if d.stream == x && d.dot.Compare(upTo) <= 0 {
			visit(d)
		}
	})
}

func (m *shift) visit(d *delta, old, now *snapshot, st stream) {
	wasAfter, byOld := d.after(old, st)
	isAfter, byNow := d.after(now, st)
	if wasAfter && !isAfter {
		m.between.count(d, byOld, +1)
	}
	if wasAfter == isAfter && byOld == byNow {
		return
	}
	if wasAfter {
		m.leave.count(d, byOld, +1)
	}
	if isAfter {
		m.enter.count(d, byNow, +1)
	}
}

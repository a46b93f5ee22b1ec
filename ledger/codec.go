package ledger

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"oxyd/internal/event"
)

// errRow is what a stored row answers that does not decode: the file is damaged
// or was written by something else, and nothing may be built on it.
var errRow = errors.New("stored row does not decode")

// encoder appends the fields of a row, big-endian, strings with their length.
type encoder []byte

func (e *encoder) u8(v uint8)   { *e = append(*e, v) }
func (e *encoder) u64(v uint64) { *e = binary.BigEndian.AppendUint64(*e, v) }
func (e *encoder) i64(v int64)  { e.u64(uint64(v)) }
func (e *encoder) sum(v Sum)    { e.i64(v.hi); e.u64(v.lo) }
func (e *encoder) dot(v event.Dot) {
	e.u64(v.Epoch)
	e.u64(v.Seq)
}

func (e *encoder) uvarint(v uint64) { *e = binary.AppendUvarint(*e, v) }

func (e *encoder) bool(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) text(v string) {
	*e = binary.AppendUvarint(*e, uint64(len(v)))
	*e = append(*e, v...)
}

func (e *encoder) covers(v map[string]event.Dot) {
	e.u8(uint8(len(v)))
	for _, source := range slices.Sorted(maps.Keys(v)) {
		e.text(source)
		e.dot(v[source])
	}
}

// decoder reads what encoder wrote. The first fault sticks in err and every
// later field is zero, so that a row's decoder checks once, at its end.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		d.err = errRow
		return make([]byte, 16)[:n] // no fixed field is longer; text checks its length first
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }
func (d *decoder) i64() int64  { return int64(d.u64()) }
func (d *decoder) bool() bool  { return d.u8() != 0 }
func (d *decoder) sum() Sum    { return Sum{hi: d.i64(), lo: d.u64()} }
func (d *decoder) dot() event.Dot {
	return event.Dot{Epoch: d.u64(), Seq: d.u64()}
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 {
		d.err = errRow
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.b)
	if d.err != nil || size <= 0 || n > uint64(len(d.b)-size) {
		d.err = errRow
		return ""
	}
	d.b = d.b[size:]
	return string(d.take(int(n)))
}

func (d *decoder) covers() map[string]event.Dot {
	n := int(d.u8())
	if n == 0 || d.err != nil {
		return nil
	}
	v := make(map[string]event.Dot, n)
	for range n {
		source := d.text()
		v[source] = d.dot()
	}
	return v
}

// done answers the first fault, or errRow when bytes are left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = errRow
	}
	return d.err
}

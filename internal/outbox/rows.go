package outbox

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"oxyd/internal/event"
)

// row is the value in bRows. On disk: version, type, flags, 0, boot u32, mono
// i64, wall i64, payload, CRC-32C u32 over the row's number and all before.
type row struct {
	kind     event.Type
	unsynced bool          // the payload says so, once it has left with its age
	boot     uint32        // of mono
	mono     time.Duration // when it happened, by the clock since boot
	wall     time.Time     // when it happened, by the wall clock as it stood
	payload  []byte
}

const (
	rowVersion  = 1
	rowHeader   = 4 + 4 + 8 + 8
	rowUnsynced = 1 // flag
)

func (r *row) encode(n uint64) []byte {
	b := make([]byte, 0, rowHeader+len(r.payload)+4)
	var flags byte
	if r.unsynced {
		flags = rowUnsynced
	}
	b = append(b, rowVersion, byte(r.kind), flags, 0)
	b = binary.BigEndian.AppendUint32(b, r.boot)
	b = binary.BigEndian.AppendUint64(b, uint64(r.mono))
	b = binary.BigEndian.AppendUint64(b, uint64(r.wall.UnixNano()))
	b = append(b, r.payload...)
	return binary.BigEndian.AppendUint32(b, rowSum(n, b))
}

// rowSum takes the number in, so that a row under another's key is damaged too.
func rowSum(n uint64, b []byte) uint32 {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], n)
	return crc32.Update(crc32.Checksum(key[:], crcTable), crcTable, b)
}

var (
	errRowMissing = errors.New("row missing")
	errRowSum     = errors.New("checksum wrong")
	errRowForm    = errors.New("form unknown")
)

// decodeRow reads the value of row n. The payload is part of b.
func decodeRow(n uint64, b []byte) (row, error) {
	if b == nil {
		return row{}, errRowMissing
	}
	end := len(b) - 4
	if end < rowHeader || rowSum(n, b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return row{}, errRowSum
	}
	if b[0] != rowVersion || event.Type(b[1]).Topic() == "" {
		return row{}, errRowForm
	}
	return row{
		kind:     event.Type(b[1]),
		unsynced: b[2]&rowUnsynced != 0,
		boot:     binary.BigEndian.Uint32(b[4:]),
		mono:     time.Duration(binary.BigEndian.Uint64(b[8:])),
		wall:     time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))).UTC(),
		payload:  b[rowHeader:end],
	}, nil
}

// ref is the value in bPending, and the end of that in bKept: all that is needed
// to handle a row whose own bytes are damaged. On disk: type, flags, epoch u64,
// seq u64, from u64, tank.
type ref struct {
	kind       event.Type
	ownID      bool // the id is a caller's, so that it is never dropped or merged
	epoch, seq uint64
	from       uint64 // first number that the row stands for; its own where it stands for itself
	tank       string
}

const (
	refHeader = 2 + 3*8
	refOwnID  = 1 // flag
)

func (r ref) encode(dst []byte) []byte {
	var flags byte
	if r.ownID {
		flags = refOwnID
	}
	dst = append(dst, byte(r.kind), flags)
	dst = binary.BigEndian.AppendUint64(dst, r.epoch)
	dst = binary.BigEndian.AppendUint64(dst, r.seq)
	dst = binary.BigEndian.AppendUint64(dst, r.from)
	return append(dst, r.tank...)
}

func decodeRef(b []byte) (ref, bool) {
	if len(b) <= refHeader {
		return ref{}, false
	}
	r := ref{
		kind:  event.Type(b[0]),
		ownID: b[1]&refOwnID != 0,
		epoch: binary.BigEndian.Uint64(b[2:]),
		seq:   binary.BigEndian.Uint64(b[10:]),
		from:  binary.BigEndian.Uint64(b[18:]),
		tank:  string(b[refHeader:]),
	}
	if r.kind.Topic() == "" || !event.ValidName(r.tank) || r.from < 1 || r.from > r.seq {
		return ref{}, false
	}
	return r, true
}

// instant is when something happened here, by every clock there is.
type instant struct {
	boot   uint32
	mono   time.Duration
	wall   time.Time
	synced bool
}

// now asks first whether the clock is synchronised: when it is set in this moment,
// the wall clock read afterwards is the right one. The other way round a date from
// before could pass for synchronised.
func (o *Outbox) now() instant {
	c := o.o.Clock
	synced := c.Synced()
	wall := c.Now()
	return instant{o.boot, c.Mono(), wall, synced}
}

const instantBytes = 4 + 8 + 8 + 1

func (i instant) encode(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, i.boot)
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.mono))
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.wall.UnixNano()))
	if i.synced {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func decodeInstant(b []byte) (instant, bool) {
	if len(b) < instantBytes {
		return instant{}, false
	}
	return instant{
		boot:   binary.BigEndian.Uint32(b),
		mono:   time.Duration(binary.BigEndian.Uint64(b[4:])),
		wall:   time.Unix(0, int64(binary.BigEndian.Uint64(b[12:]))).UTC(),
		synced: b[20] != 0,
	}, true
}

// since gives how long ago then was: exactly within one boot; across boots by
// the wall clocks where both can be believed, and never less than this boot is
// old. Too little is the safe answer: it keeps a row longer.
func (i instant) since(then instant) time.Duration {
	if i.boot == then.boot {
		return max(i.mono-then.mono, 0)
	}
	age := i.mono
	if i.synced && then.synced {
		age = max(age, i.wall.Sub(then.wall))
	}
	return age
}

// decodeKept reads a value of bKept.
func decodeKept(b []byte) (at instant, r ref, ok bool) {
	at, ok = decodeInstant(b)
	if !ok {
		return at, r, false
	}
	r, ok = decodeRef(b[instantBytes:])
	return at, r, ok
}

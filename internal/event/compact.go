package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"
)

// The compact form holds the content of an event, which is what its canonical
// form says, in about a quarter of the bytes: a store keeps it and makes the
// canonical form, and with it the content hash, again on demand. Its flags tell
// which fields follow; an event_id that the number prescribes and an instant that
// the reader knows are left out. Like the canonical form it never changes: a
// golden vector pins it.
//
//	flags     2 bytes, big-endian: the type in the lowest three bits
//	tank      text: uvarint length, then bytes
//	source    text
//	epoch     uvarint, seq: uvarint (numbered)
//	event_id  text (unless NodeID gives it)
//	v         uvarint (foreign version; nothing follows)
//	instant   varint seconds since 1970, uvarint nanoseconds (explicit)
//	amount    uvarint nanograms (measured, consumed, refilled)
//	run       uvarint: how many numbers before its own stands_for reaches
//	body      by type: covers, operation, reverses, skips

// The flags of the compact form.
const (
	compactType      uint16 = 1<<3 - 1 // mask of the Type
	compactNumbered  uint16 = 1 << 3
	compactNodeID    uint16 = 1 << 4
	compactAtStamp   uint16 = 1 << 5 // occurred_at is the instant that the reader knows
	compactAt        uint16 = 1 << 6 // occurred_at follows
	compactUnsynced  uint16 = 1 << 7
	compactSuspect   uint16 = 1 << 8
	compactStandsFor uint16 = 1 << 9
	compactMore      uint16 = 1 << 10 // covers, operation, reverses_source or skips_epoch follows
	compactForeign   uint16 = 1 << 11
	compactReason    uint16 = 1 << 12
)

// errCompact is what DecodeCompact answers to bytes that AppendCompact did not write.
var errCompact = errors.New("not the compact form of an event")

// AppendCompact appends the compact form. stamp is an instant, in nanoseconds
// since 1970, that the reader will know too; an occurred_at equal to it costs
// nothing. Age, which is no content, is not in it.
func (e *Event) AppendCompact(dst []byte, stamp int64) []byte {
	flags := e.compactFlags(stamp)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = appendCounted(dst, e.Tank)
	dst = appendCounted(dst, e.Source)
	if flags&compactNumbered != 0 {
		dst = binary.AppendUvarint(dst, e.Dot.Epoch)
		dst = binary.AppendUvarint(dst, e.Dot.Seq)
	}
	if flags&compactNodeID == 0 {
		dst = appendCounted(dst, e.ID)
	}
	if flags&compactForeign != 0 {
		return binary.AppendUvarint(dst, uint64(e.Version))
	}
	if flags&compactAt != 0 {
		dst = binary.AppendVarint(dst, e.OccurredAt.Unix())
		dst = binary.AppendUvarint(dst, uint64(e.OccurredAt.Nanosecond()))
	}
	if e.carriesAmount() {
		dst = binary.AppendUvarint(dst, uint64(e.Amount))
	}
	if flags&compactStandsFor != 0 {
		dst = binary.AppendUvarint(dst, e.Dot.Seq-e.StandsFor.From)
	}
	return e.appendCompactBody(dst, flags)
}

func (e *Event) compactFlags(stamp int64) uint16 {
	flags := uint16(e.Type) & compactType
	set := func(flag uint16, yes bool) {
		if yes {
			flags |= flag
		}
	}
	set(compactNumbered, e.Numbered())
	set(compactNodeID, e.HasNodeID())
	if e.version() != WireVersion {
		return flags | compactForeign
	}
	atStamp := e.OccurredAt.Equal(time.Unix(0, stamp))
	set(compactAtStamp, atStamp)
	set(compactAt, !atStamp && !e.OccurredAt.IsZero())
	set(compactUnsynced, e.Unsynced)
	set(compactSuspect, e.Suspect && e.carriesAmount())
	set(compactStandsFor, e.standsForOthers())
	switch e.Type {
	case Measured:
		set(compactMore, len(e.Covers) > 0)
	case Consumed, Refilled:
		set(compactMore, e.Operation != "")
	case Reversed:
		set(compactMore, e.ReversesSource != e.Source)
	case Skipped:
		set(compactMore, e.SkipsEpoch != e.Dot.Epoch && e.SkipsEpoch != 0)
		set(compactReason, e.Reason != "")
	}
	return flags
}

// appendCompactBody appends what only events of the type carry.
func (e *Event) appendCompactBody(dst []byte, flags uint16) []byte {
	more := flags&compactMore != 0
	switch e.Type {
	case Measured:
		if more {
			dst = binary.AppendUvarint(dst, uint64(len(e.Covers)))
		}
		for _, source := range slices.Sorted(maps.Keys(e.Covers)) {
			dst = appendCounted(dst, source)
			dst = binary.AppendUvarint(dst, e.Covers[source].Epoch)
			dst = binary.AppendUvarint(dst, e.Covers[source].Seq)
		}
	case Consumed, Refilled:
		if more {
			dst = appendCounted(dst, e.Operation)
		}
	case Reversed:
		dst = appendCounted(dst, e.Reverses)
		if more {
			dst = appendCounted(dst, e.ReversesSource)
		}
	case Skipped:
		dst = binary.AppendUvarint(dst, uint64(len(e.Skips)))
		for _, r := range e.Skips {
			dst = binary.AppendUvarint(dst, r.From)
			dst = binary.AppendUvarint(dst, r.To)
		}
		if more {
			dst = binary.AppendUvarint(dst, e.SkipsEpoch)
		}
		if flags&compactReason != 0 {
			dst = appendCounted(dst, e.Reason)
		}
	}
	return dst
}

func appendCounted(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// DecodeCompact reads what AppendCompact wrote with the same stamp, and nothing
// else: written again, the event gives the same bytes. It does not judge whether
// the event is one that Decode could give; that its Hash is the one expected tells.
// The event keeps nothing of b.
func DecodeCompact(b []byte, stamp int64) (Event, error) {
	d := compactDecoder{b: b}
	e := d.event(stamp)
	var room [canonicalRoom]byte
	if d.bad || len(d.b) > 0 || !bytes.Equal(e.AppendCompact(room[:0], stamp), b) {
		return Event{}, errCompact
	}
	return e, nil
}

// compactDecoder reads field by field. After the first fault every field is zero.
type compactDecoder struct {
	b   []byte
	bad bool
}

func (d *compactDecoder) event(stamp int64) Event {
	if len(d.b) < 2 {
		d.bad = true
		return Event{}
	}
	flags := binary.BigEndian.Uint16(d.b)
	d.b = d.b[2:]
	e := Event{Type: Type(flags & compactType), Tank: d.text(), Source: d.text(), Version: WireVersion}
	if flags&compactNumbered != 0 {
		e.Dot = Dot{d.number(), d.number()}
	}
	if flags&compactNodeID != 0 {
		e.ID = NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
	} else {
		e.ID = d.text()
	}
	if flags&compactForeign != 0 {
		v := d.number()
		d.bad = d.bad || v > MaxVersion
		e.Version = int(v)
		return e
	}
	switch {
	case flags&compactAtStamp != 0:
		e.OccurredAt = time.Unix(0, stamp).UTC()
	case flags&compactAt != 0:
		e.OccurredAt = d.instant()
	}
	e.Unsynced, e.Suspect = flags&compactUnsynced != 0, flags&compactSuspect != 0
	if e.carriesAmount() {
		e.Amount = physic.Mass(d.number())
	}
	if flags&compactStandsFor != 0 {
		e.StandsFor = Range{e.Dot.Seq - d.number(), e.Dot.Seq}
	}
	d.body(&e, flags)
	return e
}

// body reads what only events of the type carry.
func (d *compactDecoder) body(e *Event, flags uint16) {
	more := flags&compactMore != 0
	switch e.Type {
	case Measured:
		if more {
			e.Covers = d.covers()
		}
	case Consumed, Refilled:
		if more {
			e.Operation = d.text()
		}
	case Reversed:
		e.Reverses, e.ReversesSource = d.text(), e.Source
		if more {
			e.ReversesSource = d.text()
		}
	case Skipped:
		for range d.count(MaxSkips) {
			e.Skips = append(e.Skips, Range{d.number(), d.number()})
		}
		e.SkipsEpoch = e.Dot.Epoch
		if more {
			e.SkipsEpoch = d.number()
		}
		if flags&compactReason != 0 {
			e.Reason = d.text()
		}
	}
}

func (d *compactDecoder) covers() map[string]Dot {
	covers := map[string]Dot{}
	for range d.count(MaxCovers) {
		source := d.text()
		covers[source] = Dot{d.number(), d.number()}
	}
	return covers
}

// instant reads a time that an RFC 3339 text can name: the years 1 to 9999.
func (d *compactDecoder) instant() time.Time {
	seconds, n := binary.Varint(d.b)
	if n <= 0 || seconds < -62135596800 || seconds > 253402300799 {
		d.fail()
		return time.Time{}
	}
	d.b = d.b[n:]
	return time.Unix(seconds, int64(d.count(1e9-1))).UTC()
}

// count reads a number up to most.
func (d *compactDecoder) count(most uint64) int {
	n := d.number()
	if n > most {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *compactDecoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *compactDecoder) text() string {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *compactDecoder) fail() { d.b, d.bad = nil, true }

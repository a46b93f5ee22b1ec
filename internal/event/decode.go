package event

import (
	"bytes"
	"strconv"
)

// Decode reads a message from the wire. Its type and its tank come from the
// topic; the tank must stand in the message too, and the type must agree where
// it does. The event keeps nothing of payload.
//
// The error is always a *FormError, the event then zero. Of several faults the
// first in the order of the form reasons is given. A message of another version
// than WireVersion is not at fault: only its identity is read (ID, Tank, Source,
// Dot, Type, Version), since nobody here can know what the rest would mean.
//
// Unknown fields are ignored, and so are those that belong to another type of
// event, whatever they hold: a stranger may send one structure for all.
func Decode(t Type, tank string, payload []byte) (Event, error) {
	return new(Decoder).Decode(t, tank, payload)
}

// Decoder decodes one message after the other and keeps its working memory, which
// is most of what decoding one costs. The zero Decoder is ready. It serves one
// goroutine.
type Decoder struct{ d decoder }

// Decode is the function Decode.
func (x *Decoder) Decode(t Type, tank string, payload []byte) (Event, error) {
	if len(payload) > MaxBytes {
		return Event{}, &FormError{TooLarge, strconv.Itoa(len(payload)) + " bytes, at most " + strconv.Itoa(MaxBytes)}
	}
	d := &x.d
	*d = decoder{scanner: scanner{json: d.json}}
	if fault := d.scan(payload); fault != nil {
		return Event{}, fault
	}
	d.event(t, tank)
	if d.fault != nil {
		return Event{}, d.fault
	}
	return d.e, nil
}

// DecodeCanonical reads back what AppendCanonical wrote, and nothing else: the
// bytes must be the canonical form of the event to the last one, so that their
// SHA-256 is its Hash. Age, which is no content, is not in them. The error is a
// *FormError.
func DecodeCanonical(canonical []byte) (Event, error) {
	if len(canonical) > MaxBytes {
		return Event{}, &FormError{TooLarge, strconv.Itoa(len(canonical)) + " bytes, at most " + strconv.Itoa(MaxBytes)}
	}
	d := decoder{canonical: true}
	if fault := d.scan(canonical); fault != nil {
		return Event{}, fault
	}
	d.require(fType)
	t := typeOf(d.text(fType))
	d.event(t, string(d.text(fTank)))
	if d.fault != nil {
		return Event{}, d.fault
	}
	var room [canonicalRoom]byte
	if !bytes.Equal(d.e.AppendCanonical(room[:0]), canonical) {
		return Event{}, &FormError{Malformed, "not in canonical form"}
	}
	return d.e, nil
}

// decoder turns the scanned fields into an event. It goes on after a fault,
// because a worse one may follow; fault is the worst so far.
type decoder struct {
	scanner
	canonical bool // amounts are strings of grams
	e         Event
	fault     *FormError
}

func (d *decoder) event(t Type, tank string) {
	d.identity(t, tank)
	if d.e.Version != WireVersion {
		return
	}
	d.when()
	switch t {
	case Measured:
		d.measured()
	case Consumed, Refilled:
		d.moved()
	case Reversed:
		d.reversed()
	case Skipped:
		d.skipped()
	}
}

// identity reads what every version has.
func (d *decoder) identity(t Type, tank string) {
	e := &d.e
	e.Version = WireVersion
	if d.has(fV) {
		e.Version = int(d.integer(fV, MaxVersion))
	}
	e.ID = d.line(fEventID, MaxIDBytes)
	if e.ID == "" {
		d.fail(MissingEventID, fEventID, "absent or empty")
	}
	d.require(fTank)
	if name := d.name(fTank); name != nil && string(name) != tank {
		d.fail(TankMismatch, fTank, "is "+quoteShort(name)+", the topic says "+quoteShort([]byte(tank)))
	}
	e.Tank = tank // the topic's string, so that none is made
	e.Type = t
	if name := d.text(fType); name != nil && typeOf(name) != t || t.Topic() == "" {
		d.fail(TypeMismatch, fType, "is "+quoteShort(name)+", the topic says "+t.String())
	}
	e.Source = string(d.name(fSource))
	d.number()
}

// number reads epoch and seq: both or neither, and only with a source.
func (d *decoder) number() {
	if !d.has(fEpoch) && !d.has(fSeq) {
		return
	}
	d.require(fSource)
	d.require(fEpoch)
	d.require(fSeq)
	d.e.Dot = Dot{Epoch: d.integer(fEpoch, MaxEpoch), Seq: d.integer(fSeq, MaxSeq)}
}

// when reads the times. An age without an unsynced clock means nothing and is
// ignored like a field of another type.
func (d *decoder) when() {
	e := &d.e
	if text := d.text(fOccurredAt); text != nil {
		t, ok := parseInstant(text)
		if !ok {
			d.fail(Malformed, fOccurredAt, "want RFC 3339 with at most nine digits of fraction, is "+quoteShort(text))
		}
		e.OccurredAt = t
	}
	e.Unsynced = d.choice(fClock, clockSynced, clockUnsynced)
	if e.Unsynced && d.has(fAge) {
		e.Age, e.HasAge = d.age(), true
	}
}

func (d *decoder) measured() {
	d.e.Amount = d.mass(fRemaining, true)
	d.e.StandsFor = d.standsFor()
	d.e.Covers = d.covers()
	d.e.Suspect = d.choice(fQuality, qualityGood, qualitySuspect)
}

func (d *decoder) moved() {
	d.e.Amount = d.mass(fAmount, false)
	d.e.StandsFor = d.standsFor()
	d.e.Operation = d.line(fOperation, MaxIDBytes)
	d.e.Suspect = d.choice(fQuality, qualityGood, qualitySuspect)
}

func (d *decoder) reversed() {
	e := &d.e
	e.Reverses = d.line(fReverses, MaxIDBytes)
	if e.Reverses == "" {
		d.fail(Malformed, fReverses, "absent or empty")
	}
	e.ReversesSource = e.Source
	if text := d.text(fReversesSource); text != nil {
		if len(text) > 0 && !validName(text) {
			d.fail(Malformed, fReversesSource, wantName)
		}
		e.ReversesSource = string(text)
	}
}

func (d *decoder) skipped() {
	e := &d.e
	d.require(fSource)
	d.require(fSkips)
	e.Skips = d.skips()
	e.SkipsEpoch = e.Dot.Epoch
	if d.has(fSkipsEpoch) || !e.Numbered() {
		d.require(fSkipsEpoch)
		e.SkipsEpoch = d.integer(fSkipsEpoch, MaxEpoch)
	}
	e.Reason = d.line(fReason, MaxReasonBytes)
}

func (d *decoder) has(f field) bool { return d.field[f] != nil }

func (d *decoder) require(f field) {
	if !d.has(f) {
		d.fail(Malformed, f, "absent")
	}
}

func (d *decoder) fail(r Reason, f field, detail string) {
	if d.fault == nil || r.rank() < d.fault.Reason.rank() {
		d.fault = &FormError{r, fieldNames[f] + ": " + detail}
	}
}

// typeOf is the inverse of Type.String, 0 for any other word.
func typeOf(name []byte) Type {
	for i := 1; i < len(types); i++ {
		if types[i].name == string(name) {
			return Type(i)
		}
	}
	return 0
}

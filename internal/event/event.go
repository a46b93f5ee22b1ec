// Package event holds the facts that travel between a source and a ledger: their
// fields, the strict JSON codec of the wire, the canonical form that their
// content hash is made of, and the identities by which a repeat is recognised.
//
// It keeps one invariant: whatever Decode accepts, AppendJSON reproduces with
// the same meaning, and two events have the same Hash exactly when every field
// that the contract counts as content means the same. It knows no topic prefix,
// no store and no clock, and it decides nothing about balances.
package event

import (
	"fmt"
	"strconv"
	"time"

	"periph.io/x/conn/v3/physic"
)

// Type says what kind of fact an event is.
type Type uint8

// The five kinds of events. The zero Type is none of them.
const (
	Measured Type = iota + 1 // absolute remaining amount: set to
	Consumed                 // delta out
	Refilled                 // delta in
	Reversed                 // takes back one earlier delta
	Skipped                  // numbers that the source cannot deliver any more
)

// types is indexed by Type.
var types = [...]struct{ name, topic string }{
	Measured: {"OxygenMeasured", "measured"},
	Consumed: {"OxygenConsumed", "consumed"},
	Refilled: {"OxygenRefilled", "refilled"},
	Reversed: {"OxygenReversed", "reversed"},
	Skipped:  {"SequenceSkipped", "skipped"},
}

// String gives the name used in the field "type", such as OxygenMeasured.
func (t Type) String() string {
	if int(t) < len(types) && t > 0 {
		return types[t].name
	}
	return fmt.Sprintf("event.Type(%d)", uint8(t))
}

// Topic gives the last level of the MQTT topic that carries the type.
func (t Type) Topic() string {
	if int(t) < len(types) && t > 0 {
		return types[t].topic
	}
	return ""
}

// TypeOfTopic is the inverse of Type.Topic. ok is false for any other word.
func TypeOfTopic(level string) (t Type, ok bool) {
	for i := 1; i < len(types); i++ {
		if types[i].topic == level {
			return Type(i), true
		}
	}
	return 0, false
}

// Delta reports whether events of the type change a balance by an amount.
func (t Type) Delta() bool { return t == Consumed || t == Refilled }

// Limits of the wire (contract sections 2 and 4). A message beyond one of them
// is refused as a whole, with the reason beside the limit; nothing is cut short.
const (
	MaxBytes       = 16 << 10              // one message: TooLarge
	MaxNameBytes   = 64                    // tank, source: Malformed
	MaxIDBytes     = 192                   // event_id, operation, reverses: Malformed
	MaxReasonBytes = 256                   // reason: Malformed
	MaxCovers      = 16                    // entries of covers: Malformed
	MaxSkips       = 64                    // ranges of skips: Malformed
	MaxEpoch       = 1<<53 - 1             // exact in any JSON reader: Malformed
	MaxSeq         = 1<<53 - 1             // likewise
	MaxAmount      = physic.Mass(1e18)     // 10⁹ g in nanograms: OutOfRange
	MaxAge         = 3650 * 24 * time.Hour // ten years of 365 days: Malformed
	MaxVersion     = 1<<31 - 1             // fits an int on every machine: Malformed

	WireVersion = 1
)

// Dot names one numbered event of a source within one tank.
type Dot struct {
	Epoch, Seq uint64
}

// IsZero reports whether the dot names nothing, as on an unnumbered event.
func (d Dot) IsZero() bool { return d == Dot{} }

// Compare orders dots by epoch, then by number: the order in which their source
// made them. It returns -1, 0 or +1.
func (d Dot) Compare(o Dot) int {
	switch {
	case d.Epoch < o.Epoch, d.Epoch == o.Epoch && d.Seq < o.Seq:
		return -1
	case d == o:
		return 0
	}
	return 1
}

// Range is a run of numbers, both ends included. The zero Range is no run.
type Range struct {
	From, To uint64
}

// Event is one decoded fact. A field that the event's type does not carry is
// zero, whatever the message held under its name.
type Event struct {
	Type Type
	ID   string // event_id, 1 to MaxIDBytes bytes of printable UTF-8
	Tank string

	// Amount is the moved mass of a delta (> 0) or the remaining mass of a
	// measurement (>= 0), in nanograms, at most MaxAmount.
	Amount physic.Mass

	Source string // "" is the anonymous source
	Dot    Dot    // number within (source, tank); zero when unnumbered

	// StandsFor is the run of own numbers that this event replaces, its own
	// included and last. Zero when that is its own number alone.
	StandsFor Range

	// OccurredAt is in UTC, zero when absent. A message that says
	// 0001-01-01T00:00:00Z says by Go's custom that it does not know: absent.
	OccurredAt time.Time
	Unsynced   bool          // the source's clock was not synchronised
	Age        time.Duration // from happening to first hand-over; 0 to MaxAge
	HasAge     bool          // Age was given, which takes Unsynced; never in the Hash

	Covers map[string]Dot // measured only; nil when absent

	Reverses       string // event_id of the delta taken back
	ReversesSource string // its source, resolved: never "same as mine"

	Skips      []Range // skipped only; in the order of the message
	SkipsEpoch uint64  // epoch of Skips, resolved: never "same as mine"
	Reason     string

	Operation string
	Suspect   bool // quality "suspect"

	Version int // WireVersion, or what a foreign version said
}

// Numbered reports whether the event carries its source's epoch and number.
func (e *Event) Numbered() bool { return e.Dot.Seq != 0 }

// Identity is what a repeat is recognised by (R2): the producer made it and it
// is the same on every redelivery.
type Identity struct {
	Source, ID string
}

// Identity gives the event's identity.
func (e *Event) Identity() Identity { return Identity{e.Source, e.ID} }

// Run gives the numbers that the event accounts for: its own, or the whole run
// that it stands for.
func (e *Event) Run() Range {
	if e.StandsFor != (Range{}) {
		return e.StandsFor
	}
	return Range{e.Dot.Seq, e.Dot.Seq}
}

// NodeID is the event_id that a node gives its own events: source, epoch, tank
// and the number padded to twelve digits (contract section 2).
func NodeID(source string, epoch uint64, tank string, seq uint64) string {
	return string(appendNodeID(nil, source, epoch, tank, seq))
}

// HasNodeID reports whether the event carries the event_id that its own number
// prescribes, so that a store may leave the id out and make it again.
func (e *Event) HasNodeID() bool {
	if !e.Numbered() || len(e.ID) > MaxIDBytes {
		return false
	}
	var room [MaxIDBytes]byte
	return string(appendNodeID(room[:0], e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)) == e.ID
}

func appendNodeID(dst []byte, source string, epoch uint64, tank string, seq uint64) []byte {
	dst = append(dst, source...)
	dst = append(dst, '/')
	dst = strconv.AppendUint(dst, epoch, 10)
	dst = append(dst, '/')
	dst = append(dst, tank...)
	dst = append(dst, '/')
	for limit := uint64(1e11); limit > 1 && seq < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, seq, 10)
}

// Hash is the SHA-256 of an event's canonical form.
type Hash [32]byte

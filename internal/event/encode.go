package event

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends the message that a node puts on the wire: one JSON object
// in a fixed order of fields, the most telling first, defaults left out, amounts
// in grams. Decode(e.Type, e.Tank, …) of it gives e again, for every e that
// Decode can give. It checks nothing: whether an event that a program has put
// together is legal, Decode of its message tells. A field that the type does not
// carry is left out.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, fEventID, e.ID)
	dst = appendText(dst, fType, e.Type.String())
	dst = appendText(dst, fTank, e.Tank)
	own := e.version() == WireVersion
	if own {
		switch e.Type {
		case Measured:
			dst = AppendGrams(appendName(dst, fRemaining), e.Amount)
		case Consumed, Refilled:
			dst = AppendGrams(appendName(dst, fAmount), e.Amount)
		}
	}
	dst = appendOptional(dst, fSource, e.Source)
	if e.Numbered() {
		dst = appendInteger(dst, fEpoch, e.Dot.Epoch)
		dst = appendInteger(dst, fSeq, e.Dot.Seq)
	}
	if !own {
		dst = appendInteger(dst, fV, uint64(e.Version))
		return append(dst, '}')
	}
	if e.standsForOthers() {
		dst = appendRun(dst, fStandsFor, e.StandsFor)
	}
	if !e.OccurredAt.IsZero() {
		dst = appendInstant(dst, fOccurredAt, e.OccurredAt, time.RFC3339Nano)
	}
	if e.Unsynced {
		dst = appendText(dst, fClock, clockUnsynced)
		if e.HasAge {
			dst = appendBillionths(appendName(dst, fAge), int64(e.Age))
		}
	}
	switch e.Type {
	case Measured:
		dst = appendCovers(dst, e.Covers)
	case Consumed, Refilled:
		dst = appendOptional(dst, fOperation, e.Operation)
	case Reversed:
		dst = appendText(dst, fReverses, e.Reverses)
		dst = appendReversesSource(dst, e)
	case Skipped:
		dst = appendRuns(dst, fSkips, e.Skips)
		dst = appendSkipsEpoch(dst, e)
		dst = appendOptional(dst, fReason, e.Reason)
	}
	if e.Suspect && e.carriesAmount() {
		dst = appendText(dst, fQuality, qualitySuspect)
	}
	return append(dst, '}')
}

// version gives the wire version, WireVersion for an event that a program made
// without a word about it.
func (e *Event) version() int {
	if e.Version == 0 {
		return WireVersion
	}
	return e.Version
}

func (e *Event) carriesAmount() bool { return e.Type == Measured || e.Type.Delta() }

// standsForOthers reports whether stands_for says more than its absence would.
func (e *Event) standsForOthers() bool {
	return e.carriesAmount() && e.Numbered() && e.StandsFor.From < e.StandsFor.To
}

// The functions below append one member each to an object that is open. They
// hand the slice through instead of keeping it, so that a caller's stack may
// hold it.

// appendName starts a member. Field names need no escapes.
func appendName(dst []byte, f field) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, fieldNames[f]...)
	return append(dst, '"', ':')
}

func appendText(dst []byte, f field, s string) []byte {
	return appendQuoted(appendName(dst, f), s)
}

func appendOptional(dst []byte, f field, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, f, s)
}

// appendQuoted quotes as RFC 8785 section 3.2.2.2 wants. What is not UTF-8,
// which no decoded event holds, becomes U+FFFD: that is the error left out here.
func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

func appendInteger(dst []byte, f field, n uint64) []byte {
	return strconv.AppendUint(appendName(dst, f), n, 10)
}

func appendInstant(dst []byte, f field, t time.Time, layout string) []byte {
	dst = append(appendName(dst, f), '"')
	dst = t.UTC().AppendFormat(dst, layout)
	return append(dst, '"')
}

func appendRun(dst []byte, f field, r Range) []byte {
	return appendPair(appendName(dst, f), r.From, r.To)
}

func appendRuns(dst []byte, f field, runs []Range) []byte {
	dst = append(appendName(dst, f), '[')
	for i, r := range runs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPair(dst, r.From, r.To)
	}
	return append(dst, ']')
}

func appendPair(dst []byte, a, b uint64) []byte {
	dst = strconv.AppendUint(append(dst, '['), a, 10)
	dst = strconv.AppendUint(append(dst, ','), b, 10)
	return append(dst, ']')
}

// appendCovers sorts the sources by their bytes: for names, which are ASCII,
// that is the UTF-16 order of RFC 8785 section 3.2.3.
func appendCovers(dst []byte, covers map[string]Dot) []byte {
	if len(covers) == 0 {
		return dst
	}
	var room [MaxCovers]string
	sources := room[:0]
	for source := range covers {
		sources = append(sources, source)
	}
	slices.Sort(sources)
	dst = append(appendName(dst, fCovers), '{')
	for i, source := range sources {
		if i > 0 {
			dst = append(dst, ',')
		}
		dot := covers[source]
		dst = append(appendQuoted(dst, source), ':')
		dst = appendPair(dst, dot.Epoch, dot.Seq)
	}
	return append(dst, '}')
}

func appendReversesSource(dst []byte, e *Event) []byte {
	if e.ReversesSource == e.Source {
		return dst
	}
	return appendText(dst, fReversesSource, e.ReversesSource)
}

// appendSkipsEpoch takes 0, which no message can say, as the own epoch.
func appendSkipsEpoch(dst []byte, e *Event) []byte {
	if e.SkipsEpoch == e.Dot.Epoch || e.SkipsEpoch == 0 {
		return dst
	}
	return appendInteger(dst, fSkipsEpoch, e.SkipsEpoch)
}

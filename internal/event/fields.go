package event

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// field is a name that the contract gives a meaning. The zero field is none.
type field uint8

const (
	fAge field = iota + 1
	fAmount
	fClock
	fCovers
	fEpoch
	fEventID
	fOccurredAt
	fOperation
	fQuality
	fReason
	fRemaining
	fReverses
	fReversesSource
	fSeq
	fSkips
	fSkipsEpoch
	fSource
	fStandsFor
	fTank
	fType
	fUnit
	fV

	fieldCount
)

// fieldNames is indexed by field, whose order is that of RFC 8785.
var fieldNames = [fieldCount]string{
	fAge: "age", fAmount: "amount", fClock: "clock", fCovers: "covers", fEpoch: "epoch",
	fEventID: "event_id", fOccurredAt: "occurred_at", fOperation: "operation",
	fQuality: "quality", fReason: "reason", fRemaining: "remaining", fReverses: "reverses",
	fReversesSource: "reverses_source", fSeq: "seq", fSkips: "skips",
	fSkipsEpoch: "skips_epoch", fSource: "source", fStandsFor: "stands_for",
	fTank: "tank", fType: "type", fUnit: "unit", fV: "v",
}

// fieldOf finds the field of a name, which is given unescaped: fieldNames is in
// the order of the bytes as well, since all of it is ASCII.
func fieldOf(name []byte) field {
	low, high := field(1), fieldCount
	for low < high {
		if middle := (low + high) / 2; fieldNames[middle] < string(name) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < fieldCount && fieldNames[low] == string(name) {
		return low
	}
	return 0
}

// scanner cuts one JSON object into the texts of its fields. Which of them
// belong together is known only when all are there ("v" may be the last), so
// that reading them is a second step.
type scanner struct {
	json *jsontext.Decoder
	buf  bytes.Buffer

	// field holds the JSON text of each value, a part of the message, or nil when
	// it is absent. In place 0, which nobody reads, are the unknown ones.
	field [fieldCount][]byte
}

// scan reads the whole of message, which must be one JSON object (RFC 7493: no
// duplicate name at any depth, no invalid UTF-8) and nothing after it.
func (s *scanner) scan(message []byte) *FormError {
	s.open(message)
	if s.json.PeekKind() != jsontext.KindBeginObject {
		if _, err := s.json.ReadValue(); err != nil {
			return syntaxFault(err)
		}
		return &FormError{Malformed, "want a JSON object"}
	}
	if _, err := s.json.ReadToken(); err != nil {
		return syntaxFault(err)
	}
	for s.json.PeekKind() != jsontext.KindEndObject {
		name, err := s.json.ReadValue()
		if err != nil {
			return syntaxFault(err)
		}
		f := fieldOf(unquoted(name))
		value, err := s.json.ReadValue()
		if err != nil {
			return syntaxFault(err)
		}
		// The value is the decoder's until its next read; the message is ours.
		end := int(s.json.InputOffset())
		s.field[f] = message[end-len(value) : end]
	}
	if _, err := s.json.ReadToken(); err != nil {
		return syntaxFault(err)
	}
	if _, err := s.json.ReadToken(); err == nil {
		return &FormError{Malformed, "want nothing after the object"}
	} else if !errors.Is(err, io.EOF) {
		return syntaxFault(err)
	}
	return nil
}

// open lets the JSON decoder read text afresh.
func (s *scanner) open(text []byte) {
	s.buf = *bytes.NewBuffer(text)
	if s.json == nil {
		s.json = jsontext.NewDecoder(&s.buf)
		return
	}
	s.json.Reset(&s.buf)
}

// unquoted gives the text of a valid JSON string: a part of it where nothing is
// escaped, else a copy.
func unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil // not to be had: the decoder has read the string before
	}
	return text
}

// syntaxFault leaves out the path that jsontext's own error tells, which grows
// with the nesting of the message.
func syntaxFault(err error) *FormError {
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &FormError{Malformed, fmt.Sprintf("%v at byte %d", at.Err, at.ByteOffset)}
	}
	if errors.Is(err, io.EOF) {
		return &FormError{Malformed, "empty"}
	}
	return &FormError{Malformed, err.Error()}
}

package event

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"periph.io/x/conn/v3/physic"
)

// The words of choices, the default first.
const (
	clockSynced    = "synced"
	clockUnsynced  = "unsynced"
	qualityGood    = "good"
	qualitySuspect = "suspect"
)

const wantName = "want a name [A-Za-z0-9][A-Za-z0-9._-]{0,63}"

// The methods below read one field. Each gives the zero value when the field is
// absent, and when it is at fault, which it notes.

// text reads a JSON string. It is nil only when there is none.
func (d *decoder) text(f field) []byte {
	raw := d.field[f]
	if raw == nil {
		return nil
	}
	if raw[0] != '"' {
		d.fail(Malformed, f, "want a string")
		return nil
	}
	return unquoted(raw)
}

// line reads printable text of at most most bytes.
func (d *decoder) line(f field, most int) string {
	text := d.text(f)
	switch {
	case len(text) > most:
		d.fail(Malformed, f, "too long")
	case !printable(text):
		d.fail(Malformed, f, "holds what is not printable: "+quoteShort(text))
	default:
		return string(text)
	}
	return ""
}

// name reads a name; nil when there is none.
func (d *decoder) name(f field) []byte {
	text := d.text(f)
	if text != nil && !validName(text) {
		d.fail(Malformed, f, wantName)
		return nil
	}
	return text
}

// choice reads one of two words and reports whether it is the second.
func (d *decoder) choice(f field, usual, other string) bool {
	text := d.text(f)
	if text == nil || string(text) == usual {
		return false
	}
	if string(text) != other {
		d.fail(Malformed, f, "want "+usual+" or "+other)
		return false
	}
	return true
}

// integer reads a number from 1 to most, written in digits alone.
func (d *decoder) integer(f field, most uint64) uint64 {
	raw := d.field[f]
	if raw == nil {
		return 0
	}
	n, ok := parseInteger(raw, most)
	if !ok {
		d.fail(Malformed, f, "want a whole number from 1 in plain digits, is "+quoteShort(raw))
	}
	return n
}

// parseInteger reads the plain digits of a number from 1 to most, which is
// below 2⁶⁰.
func parseInteger(raw []byte, most uint64) (n uint64, ok bool) {
	for _, c := range raw {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
		if n > most {
			return 0, false
		}
	}
	return n, n >= 1
}

// mass reads the required amount of the event, in its unit.
func (d *decoder) mass(f field, orZero bool) physic.Mass {
	unit := unitGram
	if d.has(fUnit) && !d.canonical {
		unit = string(d.text(fUnit))
	}
	d.require(f)
	raw := d.field[f]
	if raw == nil {
		return 0
	}
	if d.canonical {
		raw = d.text(f)
	}
	m, fault := parseMass(string(raw), unit)
	switch {
	case fault != nil && fault.Reason == BadUnit:
		d.fail(BadUnit, fUnit, fault.Detail+", is "+quoteShort([]byte(unit)))
	case fault != nil:
		d.fail(fault.Reason, f, fault.Detail+", is "+quoteShort(raw))
	case m == 0 && !orZero:
		d.fail(OutOfRange, f, "zero")
	}
	return m
}

// age reads seconds from 0 to MaxAge, cut to whole nanoseconds.
func (d *decoder) age() time.Duration {
	number, ok := parseDecimal(string(d.field[fAge]))
	v, _, fits := number.scale(9)
	if !ok || number.neg && number.coefficient != 0 || !fits || v > uint64(MaxAge) {
		d.fail(Malformed, fAge, "want a number of seconds from 0 to ten years, is "+quoteShort(d.field[fAge]))
		return 0
	}
	return time.Duration(v)
}

// standsFor reads [from,to] of own numbers, to being the event's own. A run of
// that alone says what its absence says.
func (d *decoder) standsFor() Range {
	raw := d.field[fStandsFor]
	if raw == nil {
		return Range{}
	}
	d.open(raw)
	from, to, ok := d.pair(MaxSeq, MaxSeq)
	switch {
	case !ok || from > to:
		d.fail(Malformed, fStandsFor, "want [from,to]")
	case to != d.e.Dot.Seq:
		d.fail(Malformed, fStandsFor, "does not end in the own seq")
	case from < to:
		return Range{from, to}
	}
	return Range{}
}

// covers reads {source:[epoch,seq]}; nil when it holds none.
func (d *decoder) covers() map[string]Dot {
	raw := d.field[fCovers]
	if raw == nil {
		return nil
	}
	d.open(raw)
	if !d.enter(jsontext.KindBeginObject) {
		d.fail(Malformed, fCovers, "want an object of sources")
		return nil
	}
	var covers map[string]Dot
	for d.json.PeekKind() != jsontext.KindEndObject {
		if len(covers) == MaxCovers {
			d.fail(Malformed, fCovers, "too many sources")
			return nil
		}
		quoted, err := d.json.ReadValue()
		if err != nil {
			d.fail(Malformed, fCovers, "unreadable") // not to be had: scan has read it
			return nil
		}
		source := string(unquoted(quoted))
		epoch, seq, ok := d.pair(MaxEpoch, MaxSeq)
		if !ok || !validName(source) {
			d.fail(Malformed, fCovers, "want [epoch,seq] of each source by name")
			return nil
		}
		if covers == nil {
			covers = make(map[string]Dot)
		}
		covers[source] = Dot{epoch, seq}
	}
	return covers
}

// skips reads 1 to MaxSkips of [from,to].
func (d *decoder) skips() []Range {
	raw := d.field[fSkips]
	if raw == nil {
		return nil
	}
	d.open(raw)
	if !d.enter(jsontext.KindBeginArray) {
		d.fail(Malformed, fSkips, "want an array of [from,to]")
		return nil
	}
	var skips []Range
	for d.json.PeekKind() != jsontext.KindEndArray {
		from, to, ok := d.pair(MaxSeq, MaxSeq)
		if !ok || from > to || len(skips) == MaxSkips {
			d.fail(Malformed, fSkips, "want at most 64 of [from,to]")
			return nil
		}
		skips = append(skips, Range{from, to})
	}
	if len(skips) == 0 {
		d.fail(Malformed, fSkips, "empty")
	}
	return skips
}

// pair reads an array of two integers that are at least 1.
func (d *decoder) pair(mostA, mostB uint64) (a, b uint64, ok bool) {
	if !d.enter(jsontext.KindBeginArray) {
		return 0, 0, false
	}
	raw, err := d.json.ReadValue()
	a, okA := parseInteger(raw, mostA)
	if err != nil || !okA {
		return 0, 0, false
	}
	raw, err = d.json.ReadValue()
	b, okB := parseInteger(raw, mostB)
	if err != nil || !okB {
		return 0, 0, false
	}
	return a, b, d.enter(jsontext.KindEndArray)
}

// enter reads the one delimiter that must come next.
func (d *decoder) enter(delimiter jsontext.Kind) bool {
	token, err := d.json.ReadToken()
	return err == nil && token.Kind() == delimiter
}

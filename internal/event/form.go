package event

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Reason says in one word why an event is quarantined (contract section 5).
type Reason string

// The form reasons, in the order in which the first one that fits is given:
// the message itself is at fault, and no rule can be overruled to accept it.
// TooLarge alone is looked at before the rest, for nothing of it is parsed.
const (
	Malformed      Reason = "malformed"
	TooLarge       Reason = "too_large"
	MissingEventID Reason = "missing_event_id"
	TankMismatch   Reason = "tank_mismatch"
	TypeMismatch   Reason = "type_mismatch"
	BadUnit        Reason = "bad_unit"
	OutOfRange     Reason = "out_of_range"
)

// The reasons that a ledger gives to well-formed events. Conflict is an outcome
// of its own there and stands here because such an event is kept like the rest.
const (
	UnsupportedVersion Reason = "unsupported_version"
	UnknownTank        Reason = "unknown_tank"
	Limit              Reason = "limit"
	RetainedDelta      Reason = "retained_delta"
	OlderThanWindow    Reason = "older_than_window"
	OldEpoch           Reason = "old_epoch"
	Overlap            Reason = "overlap"
	NotReversible      Reason = "not_reversible"
	Conflict           Reason = "conflict"
)

// Form reports whether the reason lies in the form of the message.
func (r Reason) Form() bool { return r.rank() > 0 }

// rank orders the form reasons, 1 first. It is 0 for all other reasons.
func (r Reason) rank() int {
	switch r {
	case Malformed:
		return 1
	case TooLarge:
		return 2
	case MissingEventID:
		return 3
	case TankMismatch:
		return 4
	case TypeMismatch:
		return 5
	case BadUnit:
		return 6
	case OutOfRange:
		return 7
	}
	return 0
}

// FormError says what is wrong with a message. It is the only error of Decode,
// DecodeCanonical and ParseMass. Detail is for people, at most a few hundred
// bytes long whatever the message held; its wording may change.
type FormError struct {
	Reason Reason
	Detail string
}

// Error gives the reason and the detail.
func (e *FormError) Error() string { return string(e.Reason) + ": " + e.Detail }

// ValidName reports whether s may name a site, node, source, ledger or tank:
// [A-Za-z0-9][A-Za-z0-9._-]{0,63}.
func ValidName(s string) bool { return validName(s) }

func validName[T string | []byte](s T) bool {
	if len(s) == 0 || len(s) > MaxNameBytes {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// printable reports whether s is UTF-8 that a terminal may be given: no control
// and no format characters, no other space than U+0020. What is printable grows
// with the Unicode tables of the Go release.
func printable(s []byte) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			return false
		}
		i += n
	}
	return true
}

// quoteShort shows text of any length and content in a Detail.
func quoteShort(s []byte) string {
	const most = 48
	if len(s) > most {
		return strconv.QuoteToASCII(string(s[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(s))
}

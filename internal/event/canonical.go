package event

import (
	"crypto/sha256"

	"periph.io/x/conn/v3/physic"
)

// canonicalRoom holds the canonical form of all but unusual events, so that it
// can be made on the stack.
const canonicalRoom = 1024

// canonicalLayout is RFC 3339 in UTC with nine digits of fraction, always.
const canonicalLayout = "2006-01-02T15:04:05.000000000Z"

// AppendCanonical appends the canonical form (contract section 4): RFC 8785
// JSON of every field that is content, amounts as decimal strings of grams,
// instants with nine digits, defaults left out but for the type. Age is no
// content. Of a foreign version it is what Decode read of it, and the version.
//
// The members stand in the order of RFC 8785, which is that of the fields.
func (e *Event) AppendCanonical(dst []byte) []byte {
	dst = append(dst, '{')
	own := e.version() == WireVersion
	if own && e.Type.Delta() {
		dst = appendQuotedGrams(dst, fAmount, e.Amount)
	}
	if own && e.Unsynced {
		dst = appendText(dst, fClock, clockUnsynced)
	}
	if own && e.Type == Measured {
		dst = appendCovers(dst, e.Covers)
	}
	if e.Numbered() {
		dst = appendInteger(dst, fEpoch, e.Dot.Epoch)
	}
	dst = appendText(dst, fEventID, e.ID)
	if own {
		dst = appendContentAfterID(dst, e)
	}
	if e.Numbered() {
		dst = appendInteger(dst, fSeq, e.Dot.Seq)
	}
	if own && e.Type == Skipped {
		dst = appendRuns(dst, fSkips, e.Skips)
		dst = appendSkipsEpoch(dst, e)
	}
	dst = appendOptional(dst, fSource, e.Source)
	if own && e.standsForOthers() {
		dst = appendRun(dst, fStandsFor, e.StandsFor)
	}
	dst = appendText(dst, fTank, e.Tank)
	dst = appendText(dst, fType, e.Type.String())
	if !own {
		dst = appendInteger(dst, fV, uint64(e.Version))
	}
	return append(dst, '}')
}

// appendContentAfterID appends the members between event_id and seq.
func appendContentAfterID(dst []byte, e *Event) []byte {
	if !e.OccurredAt.IsZero() {
		dst = appendInstant(dst, fOccurredAt, e.OccurredAt, canonicalLayout)
	}
	if e.Type.Delta() {
		dst = appendOptional(dst, fOperation, e.Operation)
	}
	if e.Suspect && e.carriesAmount() {
		dst = appendText(dst, fQuality, qualitySuspect)
	}
	switch e.Type {
	case Measured:
		dst = appendQuotedGrams(dst, fRemaining, e.Amount)
	case Reversed:
		dst = appendText(dst, fReverses, e.Reverses)
		dst = appendReversesSource(dst, e)
	case Skipped:
		dst = appendOptional(dst, fReason, e.Reason)
	}
	return dst
}

func appendQuotedGrams(dst []byte, f field, m physic.Mass) []byte {
	dst = append(appendName(dst, f), '"')
	return append(AppendGrams(dst, m), '"')
}

// Hash gives the content hash: the SHA-256 of the canonical form. Equal
// identities with different hashes are a conflict.
func (e *Event) Hash() Hash {
	var room [canonicalRoom]byte
	return sha256.Sum256(e.AppendCanonical(room[:0]))
}

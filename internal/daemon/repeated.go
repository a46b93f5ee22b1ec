package daemon

import (
	"bytes"
	"time"
)

// ledgerStatusEvery is how often a ledger's status is published again unchanged. The
// embedded broker syncs each one, some 50 KB for the card, and a subscriber that came
// in the moment of the last one may have been passed over.
const ledgerStatusEvery = time.Minute

// repeated is a document that is said when it changes, and now and then all the same.
type repeated struct {
	every time.Duration
	last  []byte
	at    time.Time // by the monotonic clock
}

// due reports whether the document is to be said now, and takes it for said then.
func (r *repeated) due(body []byte, now time.Time) bool {
	if bytes.Equal(body, r.last) && now.Sub(r.at) < r.every {
		return false
	}
	r.last, r.at = body, now
	return true
}

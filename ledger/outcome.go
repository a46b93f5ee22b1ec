package ledger

import (
	"fmt"

	"oxyd/internal/event"
)

// Outcome is what became of one delivery. Exactly one applies, the first that
// fits in the order of the contract's table (section 5); it is counted by name,
// kept with the event and never changes by itself.
type Outcome uint8

// The outcomes. From AlreadyDone on an event is accepted: it belongs to the set
// that the balance is a function of.
const (
	Quarantined Outcome = iota + 1 // kept with its bytes and the reason, without effect
	Duplicate                      // seen before, with the same content
	Conflict                       // identity or number known, with other content
	AlreadyDone                    // its operation or reversal was done by another
	Parked                         // a reversal whose original has not arrived
	Late                           // counts in the totals; the baseline already includes it
	Stale                          // a snapshot that leaves the baseline as it is
	Applied                        // new and in force
)

var outcomeNames = [...]string{Quarantined: "quarantined", Duplicate: "duplicate", Conflict: "conflict",
	AlreadyDone: "already_done", Parked: "parked", Late: "late", Stale: "stale", Applied: "applied"}

// Outcomes lists all outcomes in the order of the contract.
func Outcomes() []Outcome {
	return []Outcome{Quarantined, Duplicate, Conflict, AlreadyDone, Parked, Late, Stale, Applied}
}

// String gives the name that counters, journal rows and answers use.
func (o Outcome) String() string {
	if o >= Quarantined && o <= Applied {
		return outcomeNames[o]
	}
	return fmt.Sprintf("ledger.Outcome(%d)", uint8(o))
}

// MarshalText makes outcomes readable in JSON.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (o *Outcome) UnmarshalText(text []byte) error {
	for _, known := range Outcomes() {
		if known.String() == string(text) {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("unknown outcome %q", text)
}

// Accepted reports whether an event with the outcome belongs to the set.
func (o Outcome) Accepted() bool { return o >= AlreadyDone }

// Delivery is one message as it came: an event, or the reason why it is none.
type Delivery struct {
	Event event.Event // valid when Form is nil
	Form  *event.FormError

	Topic    string
	Payload  []byte // as received; kept when the message is quarantined
	Retained bool   // delivered with the retain flag: not a new fact
}

// Result is what Apply decided about one delivery.
type Result struct {
	Outcome Outcome
	Reason  event.Reason // why, for a quarantined delivery
	LSN     uint64       // the event's row in the journal; 0 when it has none
}

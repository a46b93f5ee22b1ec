package ledger

import (
	"errors"
	"time"

	"oxyd/internal/event"
)

// Record is one row of the journal as history shows it. What a row does not have
// is left out.
type Record struct {
	LSN       uint64       `json:"lsn"`
	Type      string       `json:"type"` // as on the wire, or Opening, Retried, Discarded
	Tank      string       `json:"tank"`
	Outcome   string       `json:"outcome,omitempty"` // none for an opening
	Reason    event.Reason `json:"reason,omitempty"`
	Amount    *Sum         `json:"amount,omitempty"` // grams: moved, remaining or opening
	Stamp     *time.Time   `json:"stamp"`            // its place in time; null: before everything
	ByReceipt bool         `json:"by_receipt,omitempty"`
	Receipt   *time.Time   `json:"receipt"`
	Retained  bool         `json:"retained,omitempty"`

	EventID        string     `json:"event_id,omitempty"`
	Source         string     `json:"source,omitempty"`
	Epoch          uint64     `json:"epoch,omitempty"`
	Seq            uint64     `json:"seq,omitempty"`
	OccurredAt     *time.Time `json:"occurred_at,omitempty"`
	Operation      string     `json:"operation,omitempty"`
	Reverses       string     `json:"reverses,omitempty"`
	ReversesSource string     `json:"reverses_source,omitempty"`
	Suspect        bool       `json:"suspect,omitempty"`

	// Of a decision about a quarantined message.
	About     uint64         `json:"about,omitempty"`      // the row of its event
	Kept      string         `json:"quarantine,omitempty"` // its id
	Overruled []event.Reason `json:"overruled,omitempty"`
	Note      string         `json:"note,omitempty"` // why, as the operator said
}

// openingType is the Type of the row by which a tank got its opening amount.
const openingType = "Opening"

// HistoryScan bounds how many journal rows one call of Journal or Events reads.
const HistoryScan = 100_000

// Query selects rows of the journal.
type Query struct {
	Tank     string    // "": of all tanks
	From, To time.Time // stamps from From on and before To; zero: no bound
	After    uint64    // rows behind this one
	Limit    int
}

func (q *Query) matches(r *Record) bool {
	if q.Tank != "" && r.Tank != q.Tank {
		return false
	}
	if r.Stamp == nil { // before everything
		return q.From.IsZero()
	}
	return !r.Stamp.Before(q.From) && (q.To.IsZero() || r.Stamp.Before(q.To))
}

// Journal gives the matching rows behind q.After in the order of the journal. next
// is where to go on; done tells that there is no more to read now. It may return
// fewer than q.Limit rows, or none, without being done: one call reads no more
// than HistoryScan.
func (l *Ledger) Journal(q Query) (list []Record, next uint64, done bool, err error) {
	list, next = []Record{}, q.After
	err = l.view(func(b *batch) error {
		scanned := 0
		return b.forRows(q.After+1, func(lsn uint64, row []byte) error {
			if scanned++; len(list) == q.Limit || scanned > HistoryScan {
				return errEnough
			}
			r, err := readRecord(lsn, row)
			if err != nil {
				return err
			}
			next = lsn
			if q.matches(&r) {
				list = append(list, r)
			}
			return nil
		})
	})
	if errors.Is(err, errEnough) {
		return list, next, false, nil
	}
	return list, next, err == nil, err
}

// Events gives the tank's newest rows, newest first, at most limit.
func (l *Ledger) Events(tankID string, limit int) ([]Record, error) {
	list := []Record{}
	err := l.view(func(b *batch) error {
		scanned := 0
		return b.forRowsBack(func(lsn uint64, row []byte) error {
			if scanned++; len(list) >= limit || scanned > HistoryScan {
				return errEnough
			}
			r, err := readRecord(lsn, row)
			if err != nil {
				return err
			}
			if r.Tank == tankID && r.Type != openingType {
				list = append(list, r)
			}
			return nil
		})
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, err
}

// readRecord shows one row.
func readRecord(lsn uint64, row []byte) (Record, error) {
	r, err := parseRecord(row)
	if err != nil {
		return Record{}, err
	}
	out := Record{LSN: lsn, Receipt: timeOf(r.receipt)}
	if r.kind == recordOpening {
		amount := SumOf(r.opening)
		out.Type, out.Tank, out.Amount = openingType, r.opened, &amount
		return out, nil
	}
	if r.kind != recordEvent {
		d := r.shown(out.LSN, true)
		out.Type, out.Tank, out.Outcome, out.Reason, out.EventID, out.Source = d.Decision, d.Tank, d.Outcome.String(), d.Reason, d.EventID, d.Source
		out.Stamp, out.About, out.Kept, out.Overruled, out.Note = timeOf(r.stamp), r.target, d.ID, d.Overruled, d.Note
		return out, nil
	}
	e, err := r.event()
	if err != nil {
		return Record{}, err
	}
	out.Type, out.Tank, out.Outcome, out.Reason = e.Type.String(), e.Tank, r.outcome.String(), r.reason
	out.Stamp, out.ByReceipt, out.Retained = timeOf(r.stamp), r.byReceipt, r.retained
	out.EventID, out.Source, out.Epoch, out.Seq = e.ID, e.Source, e.Dot.Epoch, e.Dot.Seq
	out.Operation, out.Reverses, out.ReversesSource, out.Suspect = e.Operation, e.Reverses, e.ReversesSource, e.Suspect
	if !e.OccurredAt.Before(earliest) { // a clock that was never set says nothing
		out.OccurredAt = &e.OccurredAt
	}
	if e.Type == event.Measured || e.Type.Delta() {
		amount := SumOf(e.Amount)
		out.Amount = &amount
	}
	return out, nil
}

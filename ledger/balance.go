package ledger

import "time"

// Balance is the balance document of one tank (contract section 6). Amounts are
// in grams, exact; what cannot be known is null.
type Balance struct {
	Tank           string        `json:"tank"`
	Name           string        `json:"name,omitempty"`
	Balance        *Sum          `json:"balance"`
	Unit           string        `json:"unit"`
	AsOf           *time.Time    `json:"as_of"`
	Revision       uint64        `json:"revision"`
	Incarnation    uint64        `json:"incarnation"`
	Complete       bool          `json:"complete"`
	TotalsComplete bool          `json:"totals_complete"`
	Baseline       *Baseline     `json:"baseline"`
	SinceBaseline  SinceBaseline `json:"since_baseline"`
	Totals         Totals        `json:"totals"`
	Capacity       *Sum          `json:"capacity"`
	LevelPercent   *float64      `json:"level_percent"`
	RatePerHour    *float64      `json:"rate_g_per_h"`       // not derived yet: null
	TimeToCritical *float64      `json:"time_to_critical_h"` // not derived yet: null
	Discrepancy    *Sum          `json:"discrepancy"`
	Quality        string        `json:"quality"`
	Flags          []string      `json:"flags"`
	MeasuredAt     *time.Time    `json:"measured_at"`
	Stale          bool          `json:"stale"`
}

// Baseline is the snapshot in force.
type Baseline struct {
	Remaining  Sum        `json:"remaining"`
	EventID    string     `json:"event_id"`
	Source     string     `json:"source"`
	OccurredAt *time.Time `json:"occurred_at"`
}

// SinceBaseline is what moved after the snapshot in force.
type SinceBaseline struct {
	Consumed  Sum    `json:"consumed"`
	Refilled  Sum    `json:"refilled"`
	Events    uint64 `json:"events"`
	ByReceipt uint64 `json:"by_receipt"` // how many of them are placed by their receipt
}

// Totals is what moved since the tank was first heard of.
type Totals struct {
	Consumed Sum `json:"consumed"`
	Refilled Sum `json:"refilled"`
}

// Balances gives the documents of all tanks, by id, as of committed state.
func (l *Ledger) Balances() ([]Balance, error) {
	list := []Balance{}
	err := l.view(func(b *batch) error {
		return b.tanks.ForEach(func(id, _ []byte) error {
			a, err := b.account(string(id))
			if err != nil {
				return err
			}
			doc, err := b.document(a)
			list = append(list, doc)
			return err
		})
	})
	return list, err
}

// Balance gives the document of one tank; ok is false when it is not known.
func (l *Ledger) Balance(id string) (doc Balance, ok bool, err error) {
	err = l.view(func(b *batch) error {
		a, err := b.account(id)
		if a == nil || err != nil {
			return err
		}
		ok = true
		doc, err = b.document(a)
		return err
	})
	return doc, ok, err
}

func (b *batch) document(a *account) (Balance, error) {
	doc := Balance{Tank: a.id, Unit: "g", Revision: a.revision, Incarnation: b.meta.incarnation,
		Totals: Totals{a.all.consumed, a.all.refilled}, Quality: "good", Flags: []string{}}
	name, capacity := b.l.configured(a.id)
	doc.Name = name
	if balance, ok := a.balance(); ok {
		doc.Balance = &balance
		if balance.Negative() {
			doc.Flags = append(doc.Flags, "overdrawn")
		}
		if capacity > 0 {
			percent := balance.Grams() / SumOf(capacity).Grams() * 100
			doc.LevelPercent = &percent
		}
	}
	if capacity > 0 {
		c := SumOf(capacity)
		doc.Capacity = &c
	}
	t := a.sinceBaseline()
	doc.SinceBaseline = SinceBaseline{t.consumed, t.refilled, t.events, t.byReceipt}
	asOf := b.lastMove(a)
	suspect := t.suspects > 0 || a.inDoubt()
	if s := a.inForce(); s != nil {
		doc.Baseline = &Baseline{SumOf(amountOf(s)), s.id, a.baseline.source, nil}
		if s.occurredAt >= earliest.UnixNano() { // a clock that was never set says nothing
			doc.Baseline.OccurredAt = timeOf(s.occurredAt)
		}
		doc.MeasuredAt = timeOf(s.stamp)
		doc.Discrepancy = a.discrepancy()
		suspect = suspect || s.suspect
		asOf = max(asOf, s.stamp)
	}
	doc.AsOf = timeOf(asOf)
	doc.Stale = b.l.isStale(a.id, doc.MeasuredAt)
	if suspect {
		doc.Quality = "suspect"
		doc.Flags = append(doc.Flags, "suspect")
	}
	if a.inDoubt() {
		doc.Flags = append(doc.Flags, "conflict")
	}
	var err error
	doc.Complete, doc.TotalsComplete, err = b.complete(a)
	if a.inexact() {
		doc.Complete = false
		doc.Flags = append(doc.Flags, "inexact")
	}
	return doc, err
}

// balance is the baseline less what was consumed after it plus what was refilled
// after it; without a snapshot it starts from the opening amount, and without
// that it is not known.
func (a *account) balance() (Sum, bool) {
	t := a.sinceBaseline()
	var from Sum
	switch s := a.inForce(); {
	case s != nil:
		from = SumOf(amountOf(s))
	case a.opening != nil:
		from = *a.opening
	default:
		return Sum{}, false
	}
	return from.Sub(t.consumed).Add(t.refilled), true
}

// sinceBaseline gives the tally after the baseline, or all deltas without one.
func (a *account) sinceBaseline() tally {
	if a.baseline != nil {
		return a.heads[*a.baseline].after
	}
	return a.all
}

// discrepancy is the baseline less what the account expected from the snapshot
// before it in the same stream: the leak (negative) or what no meter saw.
func (a *account) discrepancy() *Sum {
	h := a.heads[*a.baseline]
	if h.prev == nil || h.gone.inexactBetween {
		return nil
	}
	expected := SumOf(amountOf(h.prev)).Sub(h.between.consumed).Add(h.between.refilled)
	d := SumOf(amountOf(h.last)).Sub(expected)
	return &d
}

func timeOf(stamp int64) *time.Time {
	if stamp == beforeAll {
		return nil
	}
	t := time.Unix(0, stamp).UTC()
	return &t
}

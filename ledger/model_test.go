package ledger

import (
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// model is the account as section 5 of the contract tells it, the second opinion on
// the ledger: it keeps what came and works every answer out from the whole list.
// Bounds (limit), closed tanks and pruning are not in it.
type model struct {
	window   time.Duration
	openings map[string]*physic.Mass // of the tanks in the config; nil: none given
	receipt  int64                   // the last receipt instant
	log      []*arrival              // what was new when it came, in the order of receipt
	counts                           // what came of all deliveries
}

// arrival is one new event and what was decided when it came.
type arrival struct {
	event.Event
	hash             event.Hash
	retained, usable bool // usable: its own time is its stamp
	outcome          Outcome
	reason           event.Reason
	stamp            int64
	denies           []*arrival // of a conflict: what has other content under its identity or number
}

// receive gives the first row of the table that fits, by the wall clock.
func (m *model) receive(d *Delivery, now time.Time) (Outcome, event.Reason) {
	m.receipt = max(now.UnixNano(), m.receipt+1)
	if d.Form != nil {
		return Quarantined, d.Form.Reason
	}
	f := &arrival{Event: d.Event, hash: d.Event.Hash(), retained: d.Retained}
	f.usable = !f.Unsynced && f.OccurredAt.Year() >= 2020 && !f.OccurredAt.After(now.Add(MaxAhead))
	some, all := m.accounted(f)
	same := m.identity(f.Source, f.ID)
	for _, k := range []*arrival{same, m.number(f)} {
		if k != nil && k.hash != f.hash {
			f.denies = append(f.denies, k)
		}
	}
	switch {
	case f.denies != nil && m.again(f):
		return Conflict, event.Conflict
	case f.denies != nil:
		f.outcome, f.reason = Conflict, event.Conflict
	case same != nil && same.outcome == Quarantined:
		return Quarantined, same.reason
	case same != nil || all:
		return Duplicate, ""
	default:
		f.outcome, f.reason = m.refuse(f, some, now)
	}
	m.stamp(f)
	base, counted, target := m.baseline(f.Tank), m.effective(f.Tank), m.identity(f.ReversesSource, f.Reverses)
	m.log = append(m.log, f)
	switch {
	case f.outcome != Applied:
	case f.Type == event.Measured && m.baseline(f.Tank) == base:
		f.outcome = Stale
	case f.Type == event.Reversed && (target == nil || !target.outcome.Accepted()):
		f.outcome = Parked
	case f.Type == event.Reversed && !slices.Contains(counted, target), f.Type.Delta() && !slices.Contains(m.effective(f.Tank), f):
		f.outcome = AlreadyDone
	case f.Type == event.Reversed && !after(target, base), f.Type.Delta() && !after(f, base):
		f.outcome = Late
	}
	return f.outcome, f.reason
}

// refuse gives the rule that keeps a new event out of the set, if there is one.
func (m *model) refuse(f *arrival, overlap bool, now time.Time) (Outcome, event.Reason) {
	switch {
	case f.Version != event.WireVersion:
		return Quarantined, event.UnsupportedVersion
	case f.retained && f.Type.Delta() && !f.Numbered() && !f.usable:
		return Quarantined, event.RetainedDelta
	case !f.Numbered() && f.usable && f.OccurredAt.Before(now.Add(-m.window)):
		return Quarantined, event.OlderThanWindow
	case f.Numbered() && !f.usable && m.behind(f):
		return Quarantined, event.OldEpoch
	case overlap:
		return Quarantined, event.Overlap
	case f.Type == event.Reversed && m.misdirected(f):
		return Quarantined, event.NotReversible
	}
	return Applied, ""
}

// stamp is the event's own time where that is usable, else its receipt (rule 1).
func (m *model) stamp(f *arrival) {
	switch next := m.next(f); {
	case f.usable:
		f.stamp = f.OccurredAt.UnixNano()
	case f.retained && f.Type == event.Measured:
		f.stamp = beforeAll
	case next != nil:
		f.stamp = max(next.stamp, beforeAll+1) - 1
	case f.HasAge:
		f.stamp = m.receipt - f.Age.Nanoseconds()
	default:
		f.stamp = max(m.receipt, m.latest(f.Tank)+1)
	}
}

// baseline: of each stream the last snapshot, of these the latest (rule 3).
func (m *model) baseline(tank string) (best *arrival) {
	for s := range m.accepted(tank) {
		if s.Type == event.Measured && m.beside(s, +1) == nil && (best == nil || byStamp(s, best) > 0) {
			best = s
		}
	}
	return best
}

// after tells whether d stands after the snapshot s (rule 4).
func after(d, s *arrival) bool {
	switch {
	case s == nil:
		return true
	case sameStream(d, s):
		return d.Dot.Compare(s.Dot) > 0
	case d.Numbered() && s.Covers[d.Source] != (event.Dot{}):
		return d.Dot.Compare(s.Covers[d.Source]) > 0
	}
	return d.stamp > s.stamp
}

// effective: the deltas but the reversed ones and those that lost their operation (rule 5).
func (m *model) effective(tank string) (list []*arrival) {
	for d := range m.accepted(tank) {
		lost := false
		for k := range m.accepted(tank) {
			lost = lost || k.Type == event.Reversed && k.Reverses == d.ID && k.ReversesSource == d.Source ||
				k.Type == d.Type && k.Operation == d.Operation && k.Operation != "" && byStamp(k, d) < 0
		}
		if d.Type.Delta() && !lost {
			list = append(list, d)
		}
	}
	return list
}

package ledger

import (
	"bytes"
	"time"

	"oxyd/internal/event"
)

// earliest is the first instant that a synchronised clock may plausibly show; a
// board without a clock starts in 1970 or at its build date.
var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// usable reports whether the event's own instant can be its stamp: the source's
// clock was synchronised, and it is neither from before 2020 nor more than
// MaxAhead beyond what the ledger's clock says.
func usable(e *event.Event, wall int64) bool {
	return !e.Unsynced && !e.OccurredAt.Before(earliest) &&
		!e.OccurredAt.After(time.Unix(0, wall).Add(MaxAhead))
}

// stamp gives a new event its place in time, once and for ever (contract section
// 5, rule 1). a is nil where a refused event's tank is not known.
func (b *batch) stamp(in *incoming, a *account, n *entry) error {
	e := &in.Event
	if in.usable {
		n.stamp = e.OccurredAt.UnixNano()
		return nil
	}
	n.flags |= flagByReceipt
	if in.Retained && e.Type == event.Measured {
		n.stamp = beforeAll
		return nil
	}
	if later, ok, err := b.nextNumber(e, a); err != nil || ok {
		// A number that came late happened before the numbers that follow it,
		// whenever it was received.
		n.stamp = max(later.stamp, beforeAll+1) - 1
		return err
	}
	if e.HasAge {
		n.stamp = in.at - e.Age.Nanoseconds()
		return nil
	}
	n.stamp = in.at
	if a != nil {
		n.stamp = max(in.at, a.latest+1)
	}
	return nil
}

// nextNumber gives the entry of the nearest later number of the same source and
// tank that has arrived.
func (b *batch) nextNumber(e *event.Event, a *account) (entry, bool, error) {
	st := streamOf(e)
	if !e.Numbered() {
		return entry{}, false, nil
	}
	if a != nil && a.heads[st] != nil && e.Dot.Compare(a.heads[st].newest) > 0 {
		return entry{}, false, nil
	}
	k, v := b.entries.Cursor().Seek(st.at(event.Dot{Epoch: e.Dot.Epoch, Seq: e.Dot.Seq + 1}))
	if !bytes.HasPrefix(k, st.prefix()) {
		return entry{}, false, nil
	}
	n, err := decodeEntry(v)
	return n, true, err
}

package ledger

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// The model's looking up, and what of it is compared with the ledger.

// counts is what is counted of deliveries, repeats included.
type counts struct {
	outcomes map[Outcome]uint64
	kept     map[string]uint64 // quarantined contents
}

func newModel(receipt int64, openings map[string]*physic.Mass) *model {
	return &model{window: DefaultDedupWindow, receipt: receipt, openings: openings, counts: counts{map[Outcome]uint64{}, map[string]uint64{}}}
}

func (m *model) copy() *model {
	c := *m
	c.log = slices.Clone(m.log)
	c.counts = counts{maps.Clone(m.outcomes), maps.Clone(m.kept)}
	return &c
}

// apply receives and counts.
func (m *model) apply(d *Delivery, now time.Time) (Outcome, event.Reason) {
	outcome, reason := m.receive(d, now)
	m.outcomes[outcome]++
	if outcome == Quarantined || outcome == Conflict {
		key := d.Topic + string(d.Payload)
		if d.Form == nil {
			hash := d.Event.Hash()
			key = string(hash[:])
		}
		m.kept[key]++
	}
	return outcome, reason
}

// parked counts the reversals whose original may still come.
func (m *model) parked() (n uint64) {
	for _, k := range m.log {
		target := m.identity(k.ReversesSource, k.Reverses)
		if k.Type == event.Reversed && k.outcome.Accepted() && !m.misdirected(k) && (target == nil || !target.outcome.Accepted()) {
			n++
		}
	}
	return n
}

func (m *model) find(is func(*arrival) bool) *arrival {
	if i := slices.IndexFunc(m.log, is); i >= 0 {
		return m.log[i]
	}
	return nil
}

// identity: a conflict does not take the identity that it came under.
func (m *model) identity(source, id string) *arrival {
	return m.find(func(k *arrival) bool { return k.outcome != Conflict && k.Source == source && k.ID == id })
}

// number: what came first under the event's number holds it, also a conflict.
func (m *model) number(f *arrival) *arrival {
	return m.find(func(k *arrival) bool { return sameStream(k, f) && k.Dot == f.Dot })
}

// sameStream: both belong to one source's numbered stream of one tank.
func sameStream(a, b *arrival) bool {
	return a.Numbered() && b.Numbered() && a.Source == b.Source && a.Tank == b.Tank
}

// accounted tells whether some and whether all numbers of the event's run have
// arrived, with any outcome.
func (m *model) accounted(f *arrival) (some, all bool) {
	if !f.Numbered() {
		return false, false
	}
	all = true
	for n := f.Run().From; n <= f.Run().To; n++ {
		here := m.find(func(k *arrival) bool {
			return sameStream(k, f) && k.Dot.Epoch == f.Dot.Epoch && k.Run().From <= n && n <= k.Run().To
		}) != nil
		some, all = some || here, all && here
	}
	return some, all
}

// next: the nearest later number of the same source and tank that has arrived.
func (m *model) next(f *arrival) (next *arrival) {
	for _, k := range m.log {
		if sameStream(k, f) && k.Dot.Compare(f.Dot) > 0 && (next == nil || k.Dot.Compare(next.Dot) < 0) {
			next = k
		}
	}
	return next
}

// behind: the epoch was never seen and is below the newest of its source.
func (m *model) behind(f *arrival) bool {
	known, newer := false, false
	for _, k := range m.log {
		if k.outcome.Accepted() && k.Source == f.Source {
			known, newer = known || k.Dot.Epoch == f.Dot.Epoch, newer || k.Dot.Epoch > f.Dot.Epoch
		}
	}
	return newer && !known
}

// latest gives the greatest stamp of the tank so far.
func (m *model) latest(tank string) int64 {
	stamp := int64(beforeAll)
	for k := range m.accepted(tank) {
		stamp = max(stamp, k.stamp)
	}
	return stamp
}

// byStamp orders by stamp, then source, then event_id.
func byStamp(a, b *arrival) int {
	return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.Source, b.Source), cmp.Compare(a.ID, b.ID))
}

// misdirected: what the reversal names is known and is no delta of its tank.
func (m *model) misdirected(f *arrival) bool {
	target := m.identity(f.ReversesSource, f.Reverses)
	if f.Reverses == f.ID && f.ReversesSource == f.Source {
		return true
	}
	return target != nil && (!target.Type.Delta() || target.Tank != f.Tank)
}

func (m *model) accepted(tank string) iter.Seq[*arrival] {
	return func(yield func(*arrival) bool) {
		for _, k := range m.log {
			if k.Tank == tank && k.outcome.Accepted() && !yield(k) {
				return
			}
		}
	}
}

// beside gives the snapshot of the same stream that follows s (+1) or that s
// follows (-1). One that comes before everything does so in its stream too.
func (m *model) beside(s *arrival, side int) (near *arrival) {
	order := func(a, b *arrival) int {
		return cmp.Or(cmpBool(a.stamp != beforeAll, b.stamp != beforeAll), a.Dot.Compare(b.Dot),
			cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.ID, b.ID)) * side
	}
	for k := range m.accepted(s.Tank) {
		if k.Type == event.Measured && k.Source == s.Source && k.Numbered() == s.Numbered() &&
			order(k, s) > 0 && (near == nil || order(k, near) < 0) {
			near = k
		}
	}
	return near
}

// byNumber: the two are told apart by numbers and not by stamps.
func byNumber(d, s *arrival) bool {
	return d.Numbered() && s != nil && (sameStream(d, s) || s.Covers[d.Source] != (event.Dot{}))
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return +1
	}
	return -1
}

// again: the content was in conflict before, and so was all that it denies.
func (m *model) again(f *arrival) bool {
	return m.find(func(k *arrival) bool { return k.outcome == Conflict && k.hash == f.hash }) != nil &&
		!slices.ContainsFunc(f.denies, func(k *arrival) bool { return !m.conflicted(k) })
}

// wanted gives the numbers of a numbered stream, of all its epochs, that are known
// to be and have not come: below a greater one of their epoch, or declared skipped.
func (m *model) wanted(tank, source string) (gaps, skipped []event.Dot) {
	most := map[uint64]uint64{}
	var runs []event.Range
	var epochs []uint64
	for _, k := range m.log {
		switch {
		case k.Tank != tank || k.Source != source:
		case k.Type == event.Skipped && k.outcome.Accepted():
			for _, r := range k.Skips {
				runs, epochs = append(runs, r), append(epochs, k.SkipsEpoch)
			}
			fallthrough
		case k.Numbered():
			most[k.Dot.Epoch] = max(most[k.Dot.Epoch], k.Dot.Seq)
		}
	}
	lacks := func(d event.Dot) bool {
		some, _ := m.accounted(&arrival{Event: event.Event{Tank: tank, Source: source, Dot: d}})
		return !some
	}
	for epoch, n := range most {
		for d := (event.Dot{Epoch: epoch, Seq: 1}); d.Seq <= n; d.Seq++ {
			if lacks(d) {
				gaps = append(gaps, d)
			}
		}
	}
	for i, r := range runs {
		for d := (event.Dot{Epoch: epochs[i], Seq: r.From}); d.Seq <= r.To; d.Seq++ {
			if lacks(d) {
				skipped = append(skipped, d)
			}
		}
	}
	return gaps, skipped
}

// stream gives what is accounted for of one numbered stream.
func (m *model) stream(tank, source string, epoch uint64) SourceStream {
	s := SourceStream{Tank: tank, Epoch: epoch, Missing: [][2]uint64{}, Skipped: [][2]uint64{}, Fenced: m.fenced(tank, source, epoch)}
	for _, k := range m.log {
		if k.Tank == tank && k.Source == source && k.Dot.Epoch == epoch {
			s.Through = max(s.Through, k.Dot.Seq)
		}
	}
	gaps, skipped := m.wanted(tank, source)
	for _, d := range gaps {
		switch one := [2]uint64{d.Seq, d.Seq}; {
		case d.Epoch != epoch:
		case slices.Contains(skipped, d):
			s.Skipped = joined(append(s.Skipped, one))
		default:
			s.Missing = joined(append(s.Missing, one))
		}
	}
	return s
}

// joined makes one range of those that touch.
func joined(list [][2]uint64) [][2]uint64 {
	out := [][2]uint64{}
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1][1]+1 == r[0] {
			out[n-1][1] = r[1]
		} else {
			out = append(out, r)
		}
	}
	return out
}

// complete tells whether no number that has not come may lie after the baseline,
// and whether none lacks at all. What has not come lies before what its source
// numbered next.
func (m *model) complete(tank string) (balance, totals bool) {
	balance, totals = true, true
	base := m.baseline(tank)
	for _, source := range m.sources(tank) {
		gaps, skipped := m.wanted(tank, source)
		for _, d := range append(gaps, skipped...) {
			probe := &arrival{Event: event.Event{Tank: tank, Source: source, Dot: d}, stamp: math.MaxInt64}
			if next := m.next(probe); next != nil {
				probe.stamp = next.stamp
			}
			balance, totals = balance && !after(probe, base), false
		}
	}
	return balance, totals
}

// sources lists who has spoken of a tank.
func (m *model) sources(tank string) (list []string) {
	for _, k := range m.log {
		if k.Tank == tank && !slices.Contains(list, k.Source) {
			list = append(list, k.Source)
		}
	}
	return list
}

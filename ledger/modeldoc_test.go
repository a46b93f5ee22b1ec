package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"oxyd/internal/event"
)

// What the model answers: documents, digest and facts.

// inDoubt: a conflict of the tank has come, and the baseline has not changed since to
// one that is as late as what the conflict is about.
func (m *model) inDoubt(tank string) bool {
	const none = math.MinInt64
	stamp := int64(none)
	_, known := m.openings[tank]
	for i, c := range m.log {
		known = known || c.Tank == tank && c.outcome.Accepted()
		for _, k := range append([]*arrival{c}, c.denies...) {
			if c.outcome == Conflict && k.Tank == tank && known { // who names an unknown tank leaves nothing there
				stamp = max(stamp, k.stamp, none+1)
			}
		}
		if c.Type == event.Measured && c.Tank == tank && c.outcome == Applied && stamp != none {
			if then := (&model{log: m.log[:i+1]}).baseline(tank); then.stamp >= stamp {
				stamp = none
			}
		}
	}
	return stamp != none
}

// conflicted tells whether the event was met with other content.
func (m *model) conflicted(f *arrival) bool {
	return m.find(func(c *arrival) bool { return slices.Contains(c.denies, f) }) != nil
}

// fenced: two contents met under an identity of the epoch.
func (m *model) fenced(tank, source string, epoch uint64) bool {
	return m.find(func(c *arrival) bool {
		return c.outcome == Conflict && slices.ContainsFunc(append([]*arrival{c}, c.denies...), func(k *arrival) bool {
			return k.Numbered() && k.Tank == tank && k.Source == source && k.Dot.Epoch == epoch
		})
	}) != nil
}

// move adds a delta to a pair of sums.
func (d *arrival) move(consumed, refilled *Sum) {
	if d.Type == event.Consumed {
		*consumed = consumed.Add(SumOf(d.Amount))
	} else {
		*refilled = refilled.Add(SumOf(d.Amount))
	}
}

// document gives what section 6 says of the tank, but what a config or a clock adds.
func (m *model) document(tank string) Balance {
	doc := Balance{Tank: tank, Unit: "g", Quality: "good", Flags: []string{}}
	base, asOf, suspect := m.baseline(tank), int64(beforeAll), false
	for _, d := range m.effective(tank) {
		d.move(&doc.Totals.Consumed, &doc.Totals.Refilled)
		asOf = max(asOf, d.stamp)
		if after(d, base) {
			d.move(&doc.SinceBaseline.Consumed, &doc.SinceBaseline.Refilled)
			doc.SinceBaseline.Events++
			if !d.usable && !byNumber(d, base) {
				doc.SinceBaseline.ByReceipt++
			}
			suspect = suspect || d.Suspect
		}
	}
	var from *Sum
	if opening := m.openings[tank]; opening != nil {
		s := SumOf(*opening)
		from = &s
	}
	if base != nil {
		s := SumOf(base.Amount)
		from = &s
		doc.Baseline = &Baseline{s, base.ID, base.Source, nil}
		if base.OccurredAt.Year() >= 2020 {
			doc.Baseline.OccurredAt = &base.OccurredAt
		}
		doc.MeasuredAt, asOf, suspect = timeOf(base.stamp), max(asOf, base.stamp), suspect || base.Suspect
		doc.Discrepancy = m.discrepancy(base)
	}
	if from != nil {
		s := from.Sub(doc.SinceBaseline.Consumed).Add(doc.SinceBaseline.Refilled)
		doc.Balance = &s
		if s.Negative() {
			doc.Flags = append(doc.Flags, "overdrawn")
		}
	}
	doc.AsOf = timeOf(asOf)
	conflict := m.inDoubt(tank)
	if suspect || conflict {
		doc.Quality, doc.Flags = "suspect", append(doc.Flags, "suspect")
	}
	if conflict {
		doc.Flags = append(doc.Flags, "conflict")
	}
	doc.Complete, doc.TotalsComplete = m.complete(tank)
	return doc
}

// discrepancy: the baseline less what the snapshot before it in its stream led to expect.
func (m *model) discrepancy(base *arrival) *Sum {
	prev := m.beside(base, -1)
	if prev == nil {
		return nil
	}
	var consumed, refilled Sum
	for _, d := range m.effective(base.Tank) {
		if after(d, prev) && !after(d, base) {
			d.move(&consumed, &refilled)
		}
	}
	s := SumOf(base.Amount).Sub(SumOf(prev.Amount).Sub(consumed).Add(refilled))
	return &s
}

// digest gives digest and facts. A reversal that came before what turned out to be
// no delta is in the set and without effect; after it, it would have been refused:
// it is not in the facts.
func (m *model) digest() (string, string) {
	sum, h, tanks := new(big.Int), sha256.New(), map[string]bool{}
	for tank := range m.openings {
		tanks[tank] = true
	}
	for _, k := range m.log {
		if !k.outcome.Accepted() {
			continue
		}
		tanks[k.Tank] = true
		if k.Type == event.Reversed && m.misdirected(k) {
			continue
		}
		content := append([]byte(k.Source+"\x00"+k.ID+"\x00"), k.hash[:]...)
		if m.conflicted(k) {
			content = []byte(k.Source + "\x00" + k.ID + "\x00conflict")
		}
		one := sha256.Sum256(content)
		sum.Add(sum, new(big.Int).SetBytes(one[:]))
	}
	sum.And(sum, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)))
	for _, tank := range slices.Sorted(maps.Keys(tanks)) {
		doc, open, base := m.document(tank), "null", "null"
		if doc.Balance == nil && doc.Totals == (Totals{}) {
			continue // nothing is known of it
		}
		if m.openings[tank] != nil {
			open = SumOf(*m.openings[tank]).String()
		}
		if doc.Baseline != nil {
			base = fmt.Sprintf("%q %q", doc.Baseline.Source, doc.Baseline.EventID)
		}
		fmt.Fprintf(h, "%s\n%s\n%s\n%s %s\n%s\n", tank, open, orNull(doc.Balance), doc.Totals.Consumed, doc.Totals.Refilled, base)
	}
	facts := sum.FillBytes(make([]byte, 32))
	h.Write(facts)
	return hex.EncodeToString(h.Sum(nil)), hex.EncodeToString(facts)
}

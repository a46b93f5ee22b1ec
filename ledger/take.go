package ledger

import "oxyd/internal/event"

// How an event enters the set, at its first receipt or by a retry.

// admit makes the tank and the source of an event known where they are not.
func (b *batch) admit(in *incoming) (*account, error) {
	a, err := b.account(in.Event.Tank)
	if err != nil {
		return nil, err
	}
	if a == nil {
		a = b.register(in.Event.Tank, in.at)
	}
	return a, b.welcome(in.Event.Source, in.at)
}

// take puts an event that has its stamp into the set, and its outcome into n.
func (b *batch) take(in *incoming, a *account, n *entry) (err error) {
	e := &in.Event
	if err := b.meetReversals(e, n, true); err != nil {
		return err
	}
	switch e.Type {
	case event.Measured:
		n.outcome, err = b.measure(in, a, n)
	case event.Consumed, event.Refilled:
		n.outcome, err = b.move(in, a, n)
	case event.Reversed:
		n.outcome, err = b.reverse(in, a, n)
	case event.Skipped:
		n.outcome, err = b.skip(e)
	}
	if err != nil {
		return err
	}
	if in.unmarked() {
		b.gone.marks++
		b.gone.changed = true
	}
	a.latest = max(a.latest, n.stamp)
	a.revision++
	a.changed = true
	if n.has(flagConflicted) { // it was refused when it was contradicted
		b.meta.facts.add(conflictOf(e.Identity()))
	} else {
		b.meta.facts.add(b.factOf(e.Identity(), in.hash))
	}
	return nil
}

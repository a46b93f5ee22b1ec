package ledger

import (
	"bytes"
	"fmt"
	"slices"

	"oxyd/internal/event"
)

// Retry has a message in quarantine decided anew by the rules, as if at its first
// receipt, less the one that is overruled: the reason of its first refusal, or the
// one given, which has to be why it is refused now. What earlier retries overruled
// stays so. Accepted, it leaves the quarantine, its outcome is the new one and its
// repeats are duplicates; its stamp is the one that it got at its first receipt.
// Refused by another rule, it stays, with that reason. The same retry once more
// changes nothing and is answered with Changed false. note, which may be empty, says
// why.
//
// Errors: ErrNotKept, ErrAmbiguous, ErrSettled, ErrNote; ErrNotRetryable of what is
// no event, of a conflict, of another wire version, of a merged delta of which a
// part was counted, of a reversal of what is no delta, and of what the account has.
func (l *Ledger) Retry(id string, overrule event.Reason, note string) (d Decision, err error) {
	if !validNote(note) {
		return d, fmt.Errorf("retry %q: %w", id, ErrNote)
	}
	measured := "" // the tank whose snapshot came into force by it
	err = l.metBefore(id)
	if err == nil {
		err = l.decide(func(b *batch) error {
			d, err = b.retry(id, overrule, note)
			measured = b.measured
			return err
		})
	}
	if err != nil {
		return d, fmt.Errorf("retry quarantined message: %w", err)
	}
	if measured != "" {
		l.noteMeasured(measured)
	}
	return d, nil
}

func (b *batch) retry(id string, overrule event.Reason, note string) (Decision, error) {
	p, err := b.pick(id)
	if err != nil {
		return Decision{}, err
	}
	if p.kept == nil {
		return p.gone(recordRetry)
	}
	again, err := b.refused(&p)
	if err != nil {
		return Decision{}, err
	}
	if overrule == "" {
		overrule = again.reason
	}
	in := again.in
	in.pardoned = p.last.overruled
	fresh := !in.pardons(overrule)
	if fresh && overrule != p.kept.Reason {
		return Decision{}, fmt.Errorf("%w: it is refused for %s, not for %s", ErrNotRetryable, p.kept.Reason, overrule)
	}
	if fresh {
		in.pardoned = append(slices.Clone(in.pardoned), overrule)
	}
	if in.pardons(event.Overlap) && in.Event.Type.Delta() {
		return Decision{}, fmt.Errorf("%w: a part of the sum over its numbers was counted, and which is not known", ErrNotRetryable)
	}
	reason, err := b.refuse(in)
	if err != nil {
		return Decision{}, err
	}
	if reason == event.NotReversible {
		return Decision{}, fmt.Errorf("%w: there is no delta of tank %s to reverse", ErrNotRetryable, in.Event.Tank)
	}
	if reason == event.OlderThanWindow && in.pardons(reason) {
		return Decision{}, fmt.Errorf("%w: what it reverses went with the history", ErrNotRetryable)
	}
	r := record{kind: recordRetry, outcome: Quarantined, reason: reason, stamp: again.entry.stamp, decision: decision{
		key: [16]byte(p.key), target: p.kept.Row, overruled: in.pardoned, note: note,
		tank: in.Event.Tank, source: in.Event.Source, eventID: in.Event.ID}}
	if reason == "" {
		if err := b.reinstate(in, &again.entry); err != nil {
			return Decision{}, err
		}
		r.outcome = again.entry.outcome
		if r.outcome == Applied && in.Event.Type == event.Measured {
			b.measured = in.Event.Tank
		}
		err = b.unkeep(p.key, p.kept)
	} else if !fresh && reason == p.kept.Reason {
		return r.shown(p.lsn, false), nil
	} else {
		p.kept.Reason = reason
		err = b.putKept(p.key, p.kept)
	}
	if err != nil {
		return Decision{}, err
	}
	b.meta.retried++
	return b.conclude(r)
}

// refusedEvent is an event as it stood at its first receipt.
type refusedEvent struct {
	in     *incoming
	entry  entry        // its mark
	reason event.Reason // of the first refusal
}

// refused reads the event of a kept message from the journal, and makes sure that
// it is the one that its identity and its number lead to.
func (b *batch) refused(p *pending) (f refusedEvent, err error) {
	switch k := p.kept; {
	case k.Reason.Form():
		return f, fmt.Errorf("%w: what is %s is no event", ErrNotRetryable, k.Reason)
	case k.Reason == event.Conflict:
		return f, fmt.Errorf("%w: the first content under an identity or number stays in force", ErrNotRetryable)
	case k.Reason == event.UnsupportedVersion:
		return f, fmt.Errorf("%w: this program does not know what its version means", ErrNotRetryable)
	case p.last.kind == recordRetry && p.last.outcome.Accepted():
		return f, fmt.Errorf("%w: a retry has had it accepted, journal row %d", ErrNotRetryable, p.lsn)
	}
	row := b.row(p.kept.Row)
	if row == nil {
		return f, fmt.Errorf("%w: its journal row %d, with its first receipt, is gone with the history", ErrNotRetryable, p.kept.Row)
	}
	r, err := parseRecord(row)
	if err != nil {
		return f, fmt.Errorf("journal row %d: %w", p.kept.Row, err)
	}
	e, err := r.event()
	if err != nil {
		return f, fmt.Errorf("journal row %d: %w", p.kept.Row, err)
	}
	in := &incoming{Delivery: &Delivery{Event: e, Retained: r.retained}, at: r.receipt, wall: r.receipt, hash: e.Hash(),
		usable: !r.byReceipt, overlap: r.overlap, st: streamOf(&e)}
	f = refusedEvent{in: in, reason: r.reason}
	if e.Numbered() {
		if in.seen, err = b.see(e.Tank, e.Source, e.Dot.Epoch); err != nil {
			return f, err
		}
		if in.byNo, err = b.load(in.key(0)); err != nil {
			return f, err
		}
	}
	if in.byID, err = b.find(e.Identity()); err != nil {
		return f, err
	}
	// The mark may have been pruned; then the journal gives it again.
	f.entry = entry{outcome: Quarantined, typ: e.Type, lsn: p.kept.Row, stamp: r.stamp, amount: int64(e.Amount)}
	copy(f.entry.hash[:], in.hash[:])
	f.entry.flags = bit(r.byReceipt, flagByReceipt) | bit(e.Suspect, flagSuspect) | bit(!e.HasNodeID(), flagOwnID)
	for _, k := range []*known{in.byNo, in.byID} {
		if k == nil {
			continue
		}
		if k.lsn != p.kept.Row {
			return f, fmt.Errorf("%w: its identity or number stands in journal row %d", ErrNotRetryable, k.lsn)
		}
		f.entry = k.entry
	}
	return f, nil
}

// reinstate takes a refused event into the set, with the stamp that it has.
func (b *batch) reinstate(in *incoming, n *entry) error {
	e := &in.Event
	a, err := b.admit(in)
	if err != nil {
		return err
	}
	if err := b.take(in, a, n); err != nil {
		return err
	}
	if err := b.place(in, in.key(n.stamp), n); err != nil {
		return err
	}
	if !e.Numbered() {
		return b.nameAgain(in, n)
	}
	if err := b.noteEpoch(in, false); err != nil {
		return err
	}
	if err := b.touch(e.Source); err != nil {
		return err
	}
	return b.nameAgain(in, n)
}

// nameAgain puts an identity back under which the event was pruned.
func (b *batch) nameAgain(in *incoming, n *entry) error {
	e := &in.Event
	key := idKey(e.Source, e.ID)
	if e.HasNodeID() || b.ids.Get(key) != nil {
		return nil
	}
	src, err := b.source(e.Source)
	if err != nil || src == nil {
		return errOr(err)
	}
	src.named++
	src.changed = true
	return b.ids.Put(key, in.key(n.stamp))
}

// metBefore looks through the journal for an accepted event of the identity of a
// kept one. What is older than the window has no mark any more by which it could be
// recognised, but the journal reaches further back; beyond that it is the operator's
// word that counts. It reads committed state and holds up no delivery: a refused
// event has its own mark in the way of its repeats.
func (l *Ledger) metBefore(id string) error {
	return l.view(func(b *batch) error {
		p, err := b.pick(id)
		if err != nil || p.kept == nil || p.kept.Row == 0 {
			return err
		}
		row := b.row(p.kept.Row)
		if row == nil {
			return nil // refused says so
		}
		own, err := parseRecord(row)
		if err != nil {
			return fmt.Errorf("journal row %d: %w", p.kept.Row, err)
		}
		e, err := own.event()
		if err != nil || e.Numbered() { // a number is recognised for ever
			return err
		}
		return b.searchIdentity(&e)
	})
}

// searchIdentity gives ErrNotRetryable where the journal has an accepted event of
// the identity.
func (b *batch) searchIdentity(e *event.Event) error {
	id := []byte(e.ID) // an id that a row leaves out is that of its number, which is recognised for ever
	return b.forRows(0, func(lsn uint64, v []byte) error {
		if len(v) > chainBytes && v[chainBytes] == recordEvent && !bytes.Contains(v, id) { // nearly all of them
			return nil
		}
		r, err := parseRecord(v)
		if err != nil {
			return fmt.Errorf("journal row %d: %w", lsn, err)
		}
		if r.kind == recordOpening || !r.outcome.Accepted() {
			return nil
		}
		if r.kind == recordRetry {
			if r.source == e.Source && r.eventID == e.ID {
				return fmt.Errorf("%w: a retry has had it accepted, journal row %d", ErrNotRetryable, lsn)
			}
			return nil
		}
		o, err := r.event()
		if err != nil {
			return fmt.Errorf("journal row %d: %w", lsn, err)
		}
		if o.Identity() == e.Identity() {
			return fmt.Errorf("%w: the account has it, journal row %d", ErrNotRetryable, lsn)
		}
		return nil
	})
}

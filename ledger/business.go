package ledger

import (
	"bytes"
	"encoding/binary"

	"oxyd/internal/event"
)

// move decides a new delta: whether it is effective, and then where it counts.
func (b *batch) move(in *incoming, a *account, n *entry) (Outcome, error) {
	e := &in.Event
	b.headOf(a, in.st)
	if e.Operation != "" {
		if err := b.contend(e, a, n); err != nil {
			return 0, err
		}
	}
	if n.flags&(flagReversed|flagOutdone) != 0 {
		return AlreadyDone, nil
	}
	n.typ, n.amount = e.Type, int64(e.Amount)
	if e.Suspect {
		n.flags |= flagSuspect
	}
	after, err := b.contribute(a, deltaIn(in.st, in.key(n.stamp), n), +1)
	if after {
		return Applied, err
	}
	return Late, err
}

// contend enters the delta among those of its operation (R11). The one with the
// earliest stamp is the one, whatever came first, reversed or not; when the new
// one is, the former loses its effect.
func (b *batch) contend(e *event.Event, a *account, n *entry) error {
	prefix := operationPrefix(e)
	k, former := b.operations.Cursor().Seek(prefix)
	if !bytes.HasPrefix(k, prefix) {
		k = nil
	}
	k, former = bytes.Clone(k), bytes.Clone(former)
	key := operationKey(prefix, n.stamp, e.Identity())
	if err := b.operations.Put(key, entryKey(e, n.stamp)); err != nil {
		return err
	}
	if k == nil {
		return nil
	}
	if bytes.Compare(k, key) < 0 {
		n.flags |= flagOutdone
		return nil
	}
	was, err := b.load(former)
	if err != nil || was == nil {
		return errOr(err)
	}
	return b.flip(a, was, flagOutdone)
}

// flip gives an entry a flag that ends its effect, and takes the effect out.
// It reports through the entry whether it had any.
func (b *batch) flip(a *account, k *known, flag uint8) error {
	if k.effective() {
		if _, err := b.contribute(a, deltaOf(k.key, &k.entry), -1); err != nil {
			return err
		}
	}
	k.flags |= flag
	return b.store(k.key, &k.entry)
}

func operationPrefix(e *event.Event) []byte {
	k := append([]byte(e.Tank), 0, uint8(e.Type))
	return append(append(k, e.Operation...), 0)
}

func operationKey(prefix []byte, stamp int64, id event.Identity) []byte {
	k := binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(stamp)^(1<<63))
	return append(k, idKey(id.Source, id.ID)...)
}

// refuseReversal answers NotReversible when the target is known and is no delta
// of this tank.
func (b *batch) refuseReversal(e *event.Event) (event.Reason, error) {
	id := event.Identity{Source: e.ReversesSource, ID: e.Reverses}
	if id == e.Identity() {
		return event.NotReversible, nil // a reversal is no delta
	}
	target, err := b.find(id)
	if err != nil {
		return "", err
	}
	if target == nil {
		if gone, err := b.isGoneID(id); gone || err != nil {
			return event.OlderThanWindow, err // what it was can no longer be told
		}
		return "", nil
	}
	if !target.typ.Delta() || !sameTank(target.key, e.Tank) {
		return event.NotReversible, nil
	}
	return "", nil
}

// reverse takes back one delta (R12). Early, late or repeated, it leaves the set
// of effective deltas as if the original had never been.
func (b *batch) reverse(in *incoming, a *account, n *entry) (Outcome, error) {
	e := &in.Event
	id := event.Identity{Source: e.ReversesSource, ID: e.Reverses}
	prefix := reversalPrefix(id, e.Tank)
	k, _ := b.reversals.Cursor().Seek(prefix)
	repeated := bytes.HasPrefix(k, prefix)
	if err := b.reversals.Put(append(prefix, idKey(e.Source, e.ID)...), entryKey(e, n.stamp)); err != nil {
		return 0, err
	}
	target, err := b.find(id)
	switch {
	case err != nil:
		return 0, err
	case target == nil || !target.outcome.Accepted():
		b.meta.parked++
		return Parked, nil
	case repeated:
		return AlreadyDone, nil
	}
	counted := target.effective()
	later := a.baseline == nil
	if s := a.inForce(); s != nil {
		later, _ = deltaOf(target.key, &target.entry).after(s, *a.baseline)
	}
	if err := b.flip(a, target, flagReversed); err != nil {
		return 0, err
	}
	switch {
	case !counted:
		return AlreadyDone, nil
	case later:
		return Applied, nil
	}
	return Late, nil
}

// meetReversals tells a new event of the reversals that were there before it. A
// delta of their tank is taken back before it counts; one that is refused may still
// be accepted, and they go on waiting. Where the event is none, refused or not, they
// reverse nothing and never will: had they come after it they would have been
// refused, so they leave the facts.
func (b *batch) meetReversals(e *event.Event, n *entry, accepted bool) error {
	if b.meta.parked == 0 {
		return nil
	}
	all := append(idKey(e.Source, e.ID), 0)
	own := reversalPrefix(e.Identity(), e.Tank)
	c := b.reversals.Cursor()
	for k, v := c.Seek(all); bytes.HasPrefix(k, all); k, v = c.Next() {
		switch {
		case !e.Type.Delta() || !bytes.HasPrefix(k, own):
			if err := b.exclude(bytes.Clone(v)); err != nil {
				return err
			}
		case accepted:
			b.meta.parked--
			n.flags |= flagReversed
		}
	}
	return nil
}

// exclude takes an accepted reversal out of the facts; it waits for nothing more.
func (b *batch) exclude(key []byte) error {
	k, err := b.load(key)
	if k == nil || err != nil {
		return errOr(err)
	}
	if k.has(flagExcluded) {
		return nil
	}
	id, hash, err := b.contentOf(&k.entry)
	if err != nil {
		return err
	}
	if k.has(flagConflicted) {
		b.meta.facts.sub(conflictOf(id))
	} else {
		b.meta.facts.sub(factOf(id, hash))
	}
	b.meta.parked--
	k.flags |= flagExcluded
	return b.store(key, &k.entry)
}

// reversalPrefix is what the keys of all reversals of one identity that were sent
// for one tank begin with.
func reversalPrefix(target event.Identity, tankID string) []byte {
	k := append(idKey(target.Source, target.ID), 0)
	return append(append(k, tankID...), 0)
}

// reversalKey is the key of one reversal among those of its target.
func reversalKey(e *event.Event) []byte {
	return append(reversalPrefix(event.Identity{Source: e.ReversesSource, ID: e.Reverses}, e.Tank), idKey(e.Source, e.ID)...)
}

// skip notes numbers that the source cannot deliver any more. They are not
// accounted for: such a number is new if it comes after all.
func (b *batch) skip(e *event.Event) (Outcome, error) {
	prefix := seenKey(e.Tank, e.Source, e.SkipsEpoch)
	for _, r := range e.Skips {
		key := binary.BigEndian.AppendUint64(bytes.Clone(prefix), r.From)
		to := r.To
		if old := b.skipped.Get(key); old != nil {
			to = max(to, binary.BigEndian.Uint64(old))
		}
		if err := b.skipped.Put(key, binary.BigEndian.AppendUint64(nil, to)); err != nil {
			return 0, err
		}
	}
	return Applied, b.touch(e.Source)
}

// sameTank reports whether a key that begins with a tank begins with this one.
func sameTank(key []byte, tankID string) bool {
	name, _, ok := bytes.Cut(key, []byte{0})
	return ok && string(name) == tankID
}

func errOr(err error) error {
	if err == nil {
		return errRow
	}
	return err
}

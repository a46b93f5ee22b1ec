package ledger

import (
	"bytes"
	"encoding/binary"

	"oxyd/internal/event"
)

// move decides a new delta: whether it is effective, and then where it counts.
func (b *batch) move(in *incoming, a *account, n *entry) (Outcome, error) {
	e := &in.Event
	st := streamOf(e)
	b.headOf(a, st)
	d := &delta{stream: st, dot: e.Dot, id: e.ID, stamp: n.stamp, byReceipt: n.has(flagByReceipt),
		suspect: e.Suspect, typ: e.Type, amount: int64(e.Amount)}
	if b.meta.parked > 0 && b.reversals.Get(reversalKey(e.Tank, e.Identity())) != nil {
		n.flags |= flagReversed
		b.meta.parked--
	}
	if e.Operation != "" {
		if err := b.contend(e, a, n); err != nil {
			return 0, err
		}
	}
	if n.flags&(flagReversed|flagOutdone) != 0 {
		return AlreadyDone, nil
	}
	if a.contribute(d, +1) {
		return Applied, nil
	}
	return Late, nil
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
	key := operationKey(prefix, n.stamp, e)
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
		st, _ := parseStream(k.key)
		a.contribute(deltaOf(k.key, st, &k.entry), -1)
	}
	k.flags |= flag
	return b.store(k.key, &k.entry)
}

func operationPrefix(e *event.Event) []byte {
	k := append([]byte(e.Tank), 0, uint8(e.Type))
	return append(append(k, e.Operation...), 0)
}

func operationKey(prefix []byte, stamp int64, e *event.Event) []byte {
	k := binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(stamp)^(1<<63))
	return append(k, idKey(e.Source, e.ID)...)
}

// refuseReversal answers NotReversible when the target is known and is no delta
// of this tank.
func (b *batch) refuseReversal(e *event.Event) (event.Reason, error) {
	target, err := b.find(event.Identity{Source: e.ReversesSource, ID: e.Reverses})
	if err != nil || target == nil {
		return "", err
	}
	if !target.typ.Delta() || !sameTank(target.key, e.Tank) {
		return event.NotReversible, nil
	}
	return "", nil
}

// reverse takes back one delta (R12). Early, late or repeated, it leaves the set
// of effective deltas as if the original had never been.
func (b *batch) reverse(in *incoming, a *account) (Outcome, error) {
	e := &in.Event
	id := event.Identity{Source: e.ReversesSource, ID: e.Reverses}
	key := reversalKey(e.Tank, id)
	if b.reversals.Get(key) != nil {
		return AlreadyDone, nil
	}
	if err := b.reversals.Put(key, idKey(e.Source, e.ID)); err != nil {
		return 0, err
	}
	target, err := b.find(id)
	if err != nil {
		return 0, err
	}
	if target == nil || !target.outcome.Accepted() {
		b.meta.parked++
		return Parked, nil
	}
	counted := target.effective()
	later := a.baseline == nil
	if b := a.inForce(); b != nil {
		st, _ := parseStream(target.key)
		later, _ = deltaOf(target.key, st, &target.entry).after(b, *a.baseline)
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

func reversalKey(tankID string, target event.Identity) []byte {
	return append(append([]byte(tankID), 0), idKey(target.Source, target.ID)...)
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
	return Applied, nil
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

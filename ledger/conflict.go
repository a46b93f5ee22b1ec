package ledger

import (
	"bytes"

	"oxyd/internal/event"
)

// again decides a delivery whose identity or number is known: the same content
// gets the first outcome's echo, other content is a conflict.
func (b *batch) again(in *incoming) (Result, error) {
	for _, k := range []*known{in.byNo, in.byID} {
		if k != nil && !bytes.Equal(k.hash[:], in.hash[:16]) {
			return b.contradict(in)
		}
	}
	k := in.byID
	if k == nil {
		k = in.byNo
	}
	if k.outcome == Quarantined || k.outcome == Conflict {
		reason, err := b.repeatKept(in)
		return Result{Outcome: k.outcome, Reason: reason, LSN: k.lsn}, err
	}
	return Result{Outcome: Duplicate, LSN: k.lsn}, nil
}

// contradict decides a delivery whose identity or number is known with other
// content (R9). What was accepted first stays in force; both contents are kept,
// the tanks are suspect until a newer baseline, the epoch is fenced. The same
// contradiction again changes nothing.
func (b *batch) contradict(in *incoming) (Result, error) {
	res := Result{Outcome: Conflict, Reason: event.Conflict}
	fresh := false // it contradicts something for the first time
	var other uint64
	var denied []*known
	for _, k := range []*known{in.byNo, in.byID} {
		if k == nil || bytes.Equal(k.hash[:], in.hash[:16]) {
			continue // what an earlier copy of this very content left
		}
		denied, other = append(denied, k), k.lsn
		fresh = fresh || !k.has(flagConflicted)
		if err := b.flagConflict(k); err != nil {
			return res, err
		}
	}
	first, err := b.keep(in.hash, in.Delivery, Kept{Reason: event.Conflict, LSN: other}, in.at)
	if err != nil || !first && !fresh {
		return res, err
	}
	a, err := b.account(in.Event.Tank)
	if err != nil {
		return res, err
	}
	n := &entry{outcome: Conflict}
	if err := b.stamp(in, a, n); err != nil {
		return res, err
	}
	b.doubt(a, n.stamp)
	for _, k := range denied {
		st, _ := parseStream(k.key)
		of, err := b.account(st.tank)
		if err != nil {
			return res, err
		}
		b.doubt(of, k.stamp)
	}
	newNumbers := false // what it claims to stand for has arrived with it, whatever becomes of it
	if in.Event.Numbered() {
		in.seen.row.fenced = true
		in.seen.row.changed = true
		_, all := in.seen.covered(in.Event.Run())
		newNumbers = in.byNo == nil || !all
	}
	if fresh || newNumbers {
		res.LSN, err = b.enter(in, n, event.Conflict)
	}
	return res, err
}

// doubt makes a tank suspect until a baseline that is not older than the stamp. A
// tank without an account gets none by a conflict.
func (b *batch) doubt(a *account, stamp int64) {
	if a == nil {
		return
	}
	a.doubt = max(a.doubt, stamp, beforeAll+1)
	a.revision++
	a.changed = true
}

// flagConflict marks the entry that was met with other content. In the facts,
// its identity stops standing for the content that came first, so that two
// ledgers that met the contents in different order still agree on them.
func (b *batch) flagConflict(k *known) error {
	if k.has(flagConflicted) {
		return nil
	}
	if k.outcome.Accepted() && !k.has(flagExcluded) {
		id, hash, err := b.contentOf(&k.entry)
		if err != nil {
			return err
		}
		b.meta.facts.sub(factOf(id, hash))
		b.meta.facts.add(conflictOf(id))
	}
	k.flags |= flagConflicted
	if st, _ := parseStream(k.key); st.kind == numbered {
		s, err := b.see(st.tank, st.source, dotOfKey(k.key).Epoch)
		if err != nil {
			return err
		}
		s.row.fenced = true
		s.row.changed = true
	}
	return b.store(k.key, &k.entry)
}

package ledger

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"oxyd/internal/event"
)

// incoming is one well-formed delivery on its way through the rules.
type incoming struct {
	*Delivery
	at     int64 // receipt instant: rises with each delivery
	wall   int64 // what the clock says, which may have been set back
	hash   event.Hash
	st     stream
	place  []byte // what key answers, once asked
	usable bool   // occurred_at can serve as the stamp
	seen   runs   // of a numbered event
	byNo   *known // what stands under its number
	byID   *known // what stands under its identity

	overlap  bool           // some of its numbers were accounted for before it
	reused   bool           // its number is that of a pruned event
	pardoned []event.Reason // rules that an operator has overruled for it
}

func (in *incoming) pardons(r event.Reason) bool { return slices.Contains(in.pardoned, r) }

// key is where the event stands in its stream.
func (in *incoming) key(stamp int64) []byte {
	if in.place == nil {
		if in.st.kind == numbered {
			in.place = in.st.at(in.Event.Dot)
		} else {
			in.place = in.st.atStamp(stamp, in.Event.ID)
		}
	}
	return in.place
}

// known is an entry that the ledger already has.
type known struct {
	key []byte
	entry
}

// apply decides one delivery: the first row of the contract's table that fits.
func (b *batch) apply(d *Delivery) (Result, error) {
	wall, at := b.receipt()
	res, err := b.decide(d, wall, at)
	if err == nil {
		b.meta.outcomes[res.Outcome]++
	}
	return res, err
}

func (b *batch) decide(d *Delivery, wall, at int64) (Result, error) {
	if d.Form != nil {
		key := sha256.Sum256(slices.Concat([]byte("form\x00"), []byte(d.Topic), []byte{0}, d.Payload))
		_, err := b.keep(key, d, Kept{Reason: d.Form.Reason, Detail: d.Form.Detail}, at)
		return Result{Outcome: Quarantined, Reason: d.Form.Reason}, err
	}
	in := &incoming{Delivery: d, at: at, wall: wall, st: streamOf(&d.Event),
		usable: usable(&d.Event, wall)}
	b.canonical = d.Event.AppendCanonical(b.canonical[:0])
	in.hash = sha256.Sum256(b.canonical)
	if err := b.hear(&d.Event, at); err != nil {
		return Result{}, err
	}
	if err := b.recognise(in); err != nil {
		return Result{}, err
	}
	if in.byNo != nil || in.byID != nil {
		return b.again(in)
	}
	if d.Event.Numbered() {
		var all bool
		if in.overlap, all = in.seen.covered(d.Event.Run()); all {
			return b.unverified(in)
		}
	}
	reason, err := b.refuse(in)
	if err != nil {
		return Result{}, err
	}
	if reason != "" {
		return b.reject(in, reason)
	}
	return b.accept(in)
}

// hear notes that the source spoke. A source of which nothing was ever accepted is
// not noted: refused strangers take no place among the sources.
func (b *batch) hear(e *event.Event, at int64) error {
	s, err := b.source(e.Source)
	if s == nil || err != nil {
		return err
	}
	s.last = at
	s.events++
	s.unsynced = e.Unsynced
	s.changed = true
	return nil
}

// welcome makes the row of a source whose first event is accepted. What was
// refused before may have left ids behind.
func (b *batch) welcome(name string, at int64) error {
	s, err := b.source(name)
	if s != nil || err != nil {
		return err
	}
	s = &source{first: at, last: at, events: 1, named: b.anyID(name), changed: true}
	b.sources[name] = s
	b.meta.sources++
	return nil
}

// recognise looks the event up under its number and under its identity.
func (b *batch) recognise(in *incoming) error {
	e := &in.Event
	var err error
	if e.Numbered() {
		if in.seen, err = b.see(e.Tank, e.Source, e.Dot.Epoch); err != nil {
			return err
		}
		if in.seen.row.most > 0 { // also what comes again has been heard
			in.seen.row.last, in.seen.row.changed = in.at, true
		}
		if e.Dot.Seq <= in.seen.row.most { // beyond it nothing was met
			if in.byNo, err = b.load(in.key(0)); err != nil {
				return err
			}
		}
	}
	if e.HasNodeID() {
		// Its number is its identity. Only an event that took the text of this id
		// without its number could stand in the way.
		if in.byNo != nil && !in.byNo.has(flagOwnID) {
			in.byID = in.byNo
			return nil
		}
		in.byID, err = b.findNamed(e.Identity())
		return err
	}
	in.byID, err = b.find(e.Identity())
	if in.byID != nil && in.byNo != nil && bytes.Equal(in.byID.key, in.byNo.key) {
		in.byID = in.byNo // one entry, so that it is changed once
	}
	return err
}

// find gives the entry of an identity, or nil. An id of the form that nodes make
// leads to its entry by itself; every other one stands in the ids bucket.
func (b *batch) find(id event.Identity) (*known, error) {
	if k, err := b.findNamed(id); k != nil || err != nil {
		return k, err
	}
	tankID, dot, ok := event.ParseNodeID(id.Source, id.ID)
	if !ok {
		return nil, nil
	}
	k, err := b.load(stream{tankID, id.Source, numbered}.at(dot))
	if k != nil && k.has(flagOwnID) {
		return nil, err // the number is taken, but by an event with another id
	}
	return k, err
}

// findNamed looks in the ids bucket alone. Most sources are nodes and have nothing
// there, which their row tells without a search.
func (b *batch) findNamed(id event.Identity) (*known, error) {
	if src, err := b.source(id.Source); err != nil || src != nil && src.named == 0 {
		return nil, err
	}
	key := b.ids.Get(idKey(id.Source, id.ID))
	if key == nil {
		return nil, nil
	}
	return b.load(bytes.Clone(key))
}

func (b *batch) load(key []byte) (*known, error) {
	row := b.entries.Get(key)
	if row == nil {
		return nil, nil
	}
	n, err := decodeEntry(row)
	return &known{key: key, entry: n}, err
}

func (b *batch) store(key []byte, n *entry) error {
	return b.entries.Put(key, n.append(b.room(entryBytes)))
}

// refuse gives the rule that keeps a new event out, or "". Two rules cannot be
// overruled: of an unknown version nothing but the identity is known, and a reversal
// needs a delta.
func (b *batch) refuse(in *incoming) (event.Reason, error) {
	e := &in.Event
	if e.Version != event.WireVersion {
		return event.UnsupportedVersion, nil
	}
	if _, listed := b.l.cfg[e.Tank]; b.l.opt.Closed && !listed && !in.pardons(event.UnknownTank) {
		return event.UnknownTank, nil
	}
	src, err := b.source(e.Source)
	if err != nil {
		return "", err
	}
	if full, err := b.atLimit(e, src); err != nil || full && !in.pardons(event.Limit) {
		return event.Limit, err
	}
	if src == nil {
		src = &source{}
	}
	switch {
	case in.Retained && e.Type.Delta() && !e.Numbered() && !in.usable && !in.pardons(event.RetainedDelta):
		return event.RetainedDelta, nil
	case b.tooOld(in) && !in.pardons(event.OlderThanWindow):
		return event.OlderThanWindow, nil
	case in.unmarked() && b.gone.marks >= uint64(b.l.opt.MaxMarks) && !in.pardons(event.Limit):
		b.gone.refused++
		b.gone.changed = true
		return event.Limit, nil
	case e.Numbered() && e.Dot.Epoch < src.newest && !in.usable && b.epochs.Get(epochKey(e.Source, e.Dot.Epoch)) == nil &&
		!in.pardons(event.OldEpoch):
		return event.OldEpoch, nil
	case in.overlap && !in.pardons(event.Overlap):
		return event.Overlap, nil
	case e.Type == event.Reversed:
		return b.refuseReversal(e)
	}
	return "", nil
}

// atLimit reports whether accepting the event would exceed a bound.
func (b *batch) atLimit(e *event.Event, src *source) (bool, error) {
	if src == nil && b.meta.sources >= uint64(b.l.opt.MaxSources) {
		return true, nil
	}
	a, err := b.account(e.Tank)
	if err != nil {
		return false, err
	}
	if a == nil {
		return b.meta.tanks >= uint64(b.l.opt.MaxTanks), nil
	}
	if known, sources := a.speaks(e.Source); !known && sources >= b.l.opt.MaxTankSources {
		return true, nil
	}
	if e.Type != event.Reversed || b.meta.parked < uint64(b.l.opt.MaxParked) {
		return false, nil
	}
	target, err := b.find(event.Identity{Source: e.ReversesSource, ID: e.Reverses})
	return target == nil || !target.outcome.Accepted(), err // what has its original does not park
}

// reject keeps a well-formed event out of the set: its content stands in the
// quarantine, its numbers are accounted for so that nobody asks for them again,
// and its entry makes the outcome stick.
func (b *batch) reject(in *incoming, reason event.Reason) (Result, error) {
	what := Kept{Reason: reason, Row: b.meta.lsn + 1} // which enter is about to write
	if _, err := b.keep(in.hash, in.Delivery, what, in.at); err != nil {
		return Result{}, err
	}
	n := &entry{outcome: Quarantined}
	if err := b.meetReversals(&in.Event, n, false); err != nil {
		return Result{}, err
	}
	lsn, err := b.enter(in, n, reason)
	return Result{Outcome: Quarantined, Reason: reason, LSN: lsn}, err
}

// accept takes a new event into the set.
func (b *batch) accept(in *incoming) (Result, error) {
	a, err := b.admit(in)
	if err != nil {
		return Result{}, err
	}
	n := &entry{}
	if err := b.stamp(in, a, n); err != nil {
		return Result{}, err
	}
	if err := b.take(in, a, n); err != nil {
		return Result{}, err
	}
	lsn, err := b.enter(in, n, "")
	return Result{Outcome: n.outcome, LSN: lsn}, err
}

// enter writes what every new identity leaves behind: the journal row, the entry
// with its id, and its numbers in the watermark.
func (b *batch) enter(in *incoming, n *entry, reason event.Reason) (lsn uint64, err error) {
	e := &in.Event
	if !n.outcome.Accepted() { // its stamp is given now all the same, and serves if an operator accepts it later
		a, err := b.account(e.Tank)
		if err != nil {
			return 0, err
		}
		if err := b.stamp(in, a, n); err != nil {
			return 0, err
		}
	}
	lsn, err = b.writeJournal(record{kind: recordEvent, receipt: in.at, outcome: n.outcome, reason: reason,
		retained: in.Retained, overlap: in.overlap, byReceipt: n.has(flagByReceipt), stamp: n.stamp, written: e})
	if err != nil {
		return 0, err
	}
	n.lsn, n.typ, n.amount = lsn, e.Type, int64(e.Amount)
	copy(n.hash[:], in.hash[:])
	if e.Suspect {
		n.flags |= flagSuspect
	}
	key := in.key(n.stamp)
	if !e.HasNodeID() {
		n.flags |= flagOwnID
		if n.outcome != Conflict { // there the identity stays with the first content
			if src, err := b.source(e.Source); err != nil {
				return 0, err
			} else if src != nil {
				src.named++
				src.changed = true
			}
			if err := b.ids.Put(idKey(e.Source, e.ID), key); err != nil {
				return 0, err
			}
		}
	}
	if n.outcome != Conflict || e.Numbered() && in.byNo == nil && !in.reused {
		if err := b.place(in, key, n); err != nil {
			return 0, err
		}
	}
	if !e.Numbered() {
		return lsn, nil
	}
	return lsn, b.accountFor(in, n.outcome.Accepted())
}

// accountFor enters the event's numbers in the watermark and notes its epoch.
func (b *batch) accountFor(in *incoming, accepted bool) error {
	e := &in.Event
	s := in.seen.row
	if s.first == 0 {
		s.first = in.at
	}
	s.last = in.at
	s.changed = true
	grows := e.Dot.Seq > s.most
	if err := in.seen.add(e.Run()); err != nil {
		return err
	}
	if !accepted {
		return nil // a refused event makes no epoch known
	}
	return b.noteEpoch(in, grows)
}

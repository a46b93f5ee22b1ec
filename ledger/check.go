package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"oxyd/internal/event"
)

// Check verifies the whole file: bolt's own structure, the chain over the
// journal, and that every other row says what the journal says. For balances it
// folds the set of accepted events anew, the slow and obvious way (checkfold.go),
// and shares no code with the fold that Apply keeps up. It reads everything and
// needs memory for every journalled event; every test that touches a store ends
// in it.
func (l *Ledger) Check() error {
	if err := l.file.Check(); err != nil {
		return err
	}
	return l.view(func(b *batch) error { return b.check() })
}

// check sets every row against the journal.
func (b *batch) check() error {
	c := checker{batch: b, openings: map[string]Sum{}, tanks: map[string][]*fact{},
		accepted: map[event.Identity]*fact{}, known: map[event.Identity]*fact{}, rows: map[uint64]*fact{},
		denied: map[number]bool{}, settled: map[[16]byte]uint64{}}
	if err := c.readOld(); err != nil {
		return err
	}
	c.lsn, c.chain = b.gone.lsn, b.gone.chain
	if err := b.journal.ForEach(c.read); err != nil {
		return err
	}
	c.decide()
	return errors.Join(b.checkEffects(), c.checkMeta(), c.checkGone(), c.checkFacts(), c.checkTanks(), c.checkEntries(), c.checkMoves(),
		c.checkNumbers(), c.checkRows(), c.checkQuarantine(), c.checkSettled(), c.checkOut(), c.checkAnswers())
}

// fact is one journalled event with what was decided at its first receipt.
type fact struct {
	event.Event
	outcome    Outcome
	reason     event.Reason
	stamp      int64
	byReceipt  bool
	hash       event.Hash
	conflicted bool
	reversed   bool // a reversal takes it back
	outdone    bool // another delta is the one of its operation
	excluded   bool // a reversal of what is no delta of its tank
	parked     bool // a reversal without its original
}

func (f *fact) effective() bool {
	return f.Type.Delta() && f.outcome.Accepted() && !f.reversed && !f.outdone
}

// checker holds what the journal says.
type checker struct {
	*batch
	lsn      uint64
	chain    [chainBytes]byte
	receipt  int64
	openings map[string]Sum
	rows     map[uint64]*fact         // by lsn
	tanks    map[string][]*fact       // the accepted ones
	accepted map[event.Identity]*fact // likewise
	known    map[event.Identity]*fact // refused ones included, conflicts not
	numbers  []*fact                  // every numbered one, refused ones included
	denied   map[number]bool          // numbers that a conflict is about

	settled            map[[16]byte]uint64 // the last decision about each content
	retried, discarded uint64
}

func (c *checker) read(k, v []byte) error {
	c.lsn++
	if lsnOf(k) != c.lsn {
		return fmt.Errorf("journal row %d is missing", c.lsn)
	}
	return c.readRow(v)
}

// readRow takes in the row of number lsn, whose predecessor has the chain.
func (c *checker) readRow(v []byte) error {
	r, chain, err := decodeRecord(v, c.chain, c.lsn)
	if err != nil {
		return err
	}
	if r.receipt <= c.receipt {
		return fmt.Errorf("journal row %d: receipt instant does not rise", c.lsn)
	}
	c.chain, c.receipt = chain, r.receipt
	if r.kind == recordOpening {
		c.openings[r.opened] = SumOf(r.opening)
		return nil
	}
	if r.kind != recordEvent {
		return c.readDecision(&r)
	}
	e, err := r.event()
	if err == nil { // and one that a message can carry
		e, err = event.DecodeCanonical(e.AppendCanonical(nil))
	}
	if err != nil {
		return fmt.Errorf("journal row %d: %w", c.lsn, err)
	}
	f := &fact{Event: e, outcome: r.outcome, reason: r.reason, stamp: r.stamp, byReceipt: r.byReceipt, hash: e.Hash()}
	c.rows[c.lsn] = f
	if f.outcome == Conflict {
		c.contradict(f)
	} else {
		c.known[e.Identity()] = f
	}
	if e.Numbered() {
		c.numbers = append(c.numbers, f)
	}
	if f.outcome.Accepted() {
		c.accepted[e.Identity()] = f
		c.tanks[e.Tank] = append(c.tanks[e.Tank], f)
	}
	return nil
}

// contradict marks what a conflict contradicts: the event of its identity now, that of
// its number when all are known.
func (c *checker) contradict(f *fact) {
	if o := c.known[f.Identity()]; o != nil {
		o.conflicted = true
	}
	if f.Numbered() {
		c.denied[f.number()] = true
	}
}

// number names the place of a numbered event.
type number struct {
	tank, source string
	event.Dot
}

func (f *fact) number() number { return number{f.Tank, f.Source, f.Dot} }

// decide gives every fact its part in the set, from the set alone.
func (c *checker) decide() {
	for _, f := range c.numbers {
		f.conflicted = f.conflicted || c.denied[f.number()]
	}
	for _, f := range c.accepted {
		if f.Type != event.Reversed {
			continue
		}
		target := c.known[event.Identity{Source: f.ReversesSource, ID: f.Reverses}]
		switch {
		case c.gone.rows > 0 && (target == nil || c.reversals.Get(reversalKey(&f.Event)) == nil):
			c.decideAlone(f) // what is there may have come back after it was pruned
		case target == nil:
			f.parked = true
		case !target.Type.Delta() || target.Tank != f.Tank:
			f.excluded = true
		case !target.outcome.Accepted():
			f.parked = true
		default:
			target.reversed = true
		}
	}
	for _, all := range c.tanks {
		markOutdone(all)
	}
}

func (c *checker) checkMeta() error {
	parked, sources := uint64(0), map[string]bool{}
	for _, f := range c.accepted {
		sources[f.Source] = true
		if f.parked {
			parked++
		}
	}
	m := &c.meta
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if m.lsn != c.lsn || m.chain != c.chain {
		fault("journal ends at row %d, the account says %d", c.lsn, m.lsn)
	}
	if m.receipt < c.receipt {
		fault("receipt clock went back")
	}
	if m.parked != parked {
		fault("%d reversals are parked, the journal gives %d", m.parked, parked)
	}
	if n := c.sourceRows.Inspect().KeyN; m.sources != uint64(n) || n < len(sources) || n > len(sources) && c.gone.rows == 0 {
		fault("%d sources are counted, there are %d, the journal gives %d", m.sources, n, len(sources))
	}
	if n := uint64(c.batch.tanks.Inspect().KeyN); m.tanks != n {
		fault("%d tanks are counted, there are %d", m.tanks, n)
	}
	return errors.Join(faults...)
}

func (c *checker) checkFacts() error {
	sum := c.gone.facts
	for id, f := range c.accepted {
		switch {
		case f.excluded:
		case f.conflicted:
			sum.add(conflictOf(id))
		default:
			sum.add(factOf(id, f.hash))
		}
	}
	if sum != c.meta.facts { // of those that were pruned the sum is kept
		return errors.New("facts are not the sum over the accepted events")
	}
	return nil
}

// checkEntries sets entries and journal against each other, both ways.
func (c *checker) checkEntries() error {
	found := map[uint64]bool{}
	if err := c.entries.ForEach(func(key, row []byte) error {
		n, err := decodeEntry(row)
		if err != nil {
			return err
		}
		f := c.rows[n.lsn]
		if f == nil || !bytes.Equal(key, entryKey(&f.Event, f.stamp)) {
			return fmt.Errorf("entry %q is of journal row %d, which is another event's", key, n.lsn)
		}
		found[n.lsn] = true
		if n.outcome != f.outcome || n.typ != f.Type || n.amount != int64(f.Amount) || n.stamp != f.stamp ||
			!bytes.Equal(n.hash[:], f.hash[:16]) || n.has(flagReversed) != f.reversed || n.has(flagOutdone) != f.outdone ||
			n.has(flagByReceipt) != f.byReceipt || n.has(flagSuspect) != f.Suspect || n.has(flagExcluded) != f.excluded ||
			f.outcome.Accepted() && n.has(flagConflicted) != f.conflicted || n.has(flagOwnID) != !f.HasNodeID() {
			return fmt.Errorf("entry %q (%+v) does not say what journal row %d does", key, n, n.lsn)
		}
		return nil
	}); err != nil {
		return err
	}
	named := 0
	for lsn, f := range c.rows {
		if !found[lsn] && f.outcome != Conflict {
			return fmt.Errorf("journal row %d has no entry", lsn)
		}
		if f.outcome == Conflict || f.HasNodeID() {
			continue
		}
		if key := c.ids.Get(idKey(f.Source, f.ID)); !bytes.Equal(key, entryKey(&f.Event, f.stamp)) {
			return fmt.Errorf("journal row %d: its id leads to %q", lsn, key)
		}
		named++
	}
	if got := c.ids.Inspect().KeyN; got != named {
		return fmt.Errorf("there are %d ids, the journal gives %d", got, named)
	}
	return nil
}

// checkMoves verifies that moves holds the effective deltas and nothing else.
func (c *checker) checkMoves() error {
	want := 0
	for _, f := range c.accepted {
		if !f.effective() {
			continue
		}
		want++
		key := moveKey(entryKey(&f.Event, f.stamp), f.stamp)
		d, err := decodeMove(key, c.moves.Get(key), len(f.Tank)+1)
		if err != nil || d.typ != f.Type || d.amount != int64(f.Amount) || d.byReceipt != f.byReceipt || d.suspect != f.Suspect {
			return fmt.Errorf("tank %s: move of %q is %+v, %v", f.Tank, f.ID, d, err)
		}
	}
	if got := c.moves.Inspect().KeyN; got != want {
		return fmt.Errorf("there are %d moves, the journal gives %d", got, want)
	}
	return nil
}

func (c *checker) checkQuarantine() error {
	var rows, size uint64
	if err := c.quarantine.ForEach(func(key, row []byte) error {
		var k Kept
		if err := json.Unmarshal(row, &k); err != nil || !bytes.Equal(c.quarorder.Get(lsnKey(k.Order)), key) {
			return fmt.Errorf("quarantine row %x: order %d leads elsewhere (%v)", key, k.Order, err)
		}
		rows++
		size += keptBytes(&k)
		return nil
	}); err != nil {
		return err
	}
	if m := &c.meta; m.quarRows != rows || m.quarBytes != size || uint64(c.quarorder.Inspect().KeyN) != rows {
		return fmt.Errorf("quarantine counts %d rows of %d bytes, there are %d of %d", m.quarRows, m.quarBytes, rows, size)
	}
	return nil
}

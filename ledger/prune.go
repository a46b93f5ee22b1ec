package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"oxyd/internal/event"
)

// Pruning keeps the file within its bound. An event goes whole, with its journal
// row, entry, move and id, once its receipt and its stamp are older than History,
// or, when three quarters of the file are used, than the dedup window; and only when
// nothing that may still come could need it (prunable.go). The walk goes along the
// journal. What cannot go yet is moved to the bucket old and looked at again, in
// turns. It is done within the transactions that apply events, a few rows for each,
// so that it costs no sync of its own and no large transaction.
//
// Age is told by the wall clock, while that can be believed: one that runs ahead would
// cost all history, and raise the floor above the events of years to come. Where it
// cannot, only a lack of room makes events go. It cannot make an event count twice,
// since the floor is kept.

// pruneBeside is how many rows a batch prunes beside two for each delivery.
const pruneBeside = 8

// reserveBytes are kept within the file so that pruning goes on when it is full.
const reserveBytes = 512 << 10

// When there is no room, one transaction prunes pruneTightMin rows, and twice as many
// each time that it was not enough, up to pruneTightMax.
const (
	pruneTightMin = 16
	pruneTightMax = 1024
)

// pruner is one slice of the work.
type pruner struct {
	*batch
	wall    int64
	cutoff  int64 // what has a stamp below it is old
	pressed bool  // three quarters of the file are used
	blind   bool  // the clock cannot be believed, and there is room: nothing is old
	went    int
	parks   bool // there are rows in reversals
}

func (b *batch) pruner() *pruner {
	p := &pruner{batch: b, wall: b.l.opt.Now().UnixNano(), pressed: b.l.pressed.Load()}
	age := b.l.opt.History
	if p.pressed {
		age = b.l.opt.DedupWindow
	}
	p.cutoff = p.wall - age.Nanoseconds()
	if p.blind = !p.pressed && !b.l.believes(); p.blind {
		p.cutoff = math.MinInt64
	}
	k, _ := b.reversals.Cursor().First()
	p.parks = k != nil
	return p
}

// received reports whether a receipt is old enough. One far in the future was given
// while the clock ran ahead, and tells nothing: then the stamp decides alone.
func (p *pruner) received(receipt int64) bool {
	return !p.blind && (receipt < p.cutoff || receipt > p.wall+p.l.opt.History.Nanoseconds())
}

// pruneAlong prunes beside n deliveries. It waits until a whole slice is due, for the
// pages at the old end of each stream are written once a slice.
func (b *batch) pruneAlong(n int) error {
	limit := 2*n + pruneBeside
	p := b.pruner()
	if last := b.journal.Get(lsnKey(b.gone.lsn + uint64(limit))); last != nil {
		r, err := parseRecord(last)
		if err == nil && p.received(r.receipt) {
			return p.walk(limit)
		}
	}
	return p.revisit(n/8 + 1)
}

// Prune does a slice of at most limit rows for a ledger that is idle, and gives how
// many events went. Where there is nothing to do it writes nothing.
func (l *Ledger) Prune(limit int) (int, error) {
	l.measure()
	due := false
	if err := l.view(func(b *batch) (err error) {
		due, err = b.pruner().due(limit - limit/2)
		return err
	}); err != nil || !due {
		return 0, err
	}
	went := 0
	err := l.updateBy(l.file.UpdateTight, func(b *batch) error {
		p := b.pruner()
		if err := p.walk(limit / 2); err != nil {
			return err
		}
		err := p.revisit(limit - limit/2)
		went = p.went
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	return went, nil
}

// makeRoom prunes when the file or the disk is full, and reports whether it came any
// further: rows that only move aside may stand before those that can go.
func (l *Ledger) makeRoom(limit int) bool {
	l.pressed.Store(true)
	err := l.updateBy(l.file.UpdateTight, func(b *batch) error {
		p, from := b.pruner(), b.gone.lsn
		if err := p.walk(limit); err != nil {
			return err
		}
		if err := p.revisit(limit); err != nil {
			return err
		}
		if p.went == 0 && p.gone.lsn == from {
			return errEnough
		}
		return nil
	})
	return err == nil
}

// measure notes whether pruning has to hurry.
func (l *Ledger) measure() {
	used, err := l.file.Usage()
	l.pressed.Store(err == nil && used.Limit > 0 && used.Used > used.Limit/4*3)
}

// due reports whether a slice would change anything.
func (p *pruner) due(limit int) (bool, error) {
	if row := p.journal.Get(lsnKey(p.gone.lsn + 1)); row != nil {
		if r, err := parseRecord(row); err != nil || p.received(r.receipt) {
			return err == nil, err
		}
	}
	found, from := false, p.l.oldAt.Load()
	err := p.forOld(limit, func(lsn uint64, value []byte) error {
		c, err := p.candidate(lsn, value[oldHead:])
		if err != nil {
			return err
		}
		verdict, err := p.judge(c)
		if found = found || verdict == goes; err == nil && found {
			return errEnough
		}
		return err
	})
	if found {
		p.l.oldAt.Store(from)
	}
	return found, err
}

// walk takes the next rows of the journal: each goes, or is moved to old.
func (p *pruner) walk(limit int) error {
	for range limit {
		lsn := p.gone.lsn + 1
		row := p.journal.Get(lsnKey(lsn))
		if row == nil {
			return nil
		}
		c, err := p.candidate(lsn, row)
		if err == nil && !p.received(c.receipt) {
			return nil
		}
		verdict := stays
		if err != nil { // kept for the check to show
			p.l.opt.Log.Error().Err(err).Uint64("row", lsn).Msg("journal row is damaged and stays for good")
		} else {
			if verdict, err = p.judge(c); err != nil {
				return err
			}
		}
		if len(row) < chainBytes {
			return fmt.Errorf("journal row %d: %w", lsn, errRow)
		}
		if verdict == goes {
			err = p.remove(c)
		} else {
			err = p.putAside(lsn, row, verdict == stays)
		}
		if err != nil {
			return err
		}
		p.gone.lsn = lsn
		copy(p.gone.chain[:], row)
		p.gone.changed = true
		if err := p.journal.Delete(lsnKey(lsn)); err != nil {
			return err
		}
	}
	return nil
}

// putAside moves a row to old.
func (p *pruner) putAside(lsn uint64, row []byte, forGood bool) error {
	v := p.room(oldHead + len(row))
	if forGood {
		v.u8(oldForGood)
		p.gone.kept++
	} else {
		v.u8(0)
		p.gone.waiting++
	}
	v = append(v, p.gone.chain[:]...)
	return p.old.Put(lsnKey(lsn), append(v, row...))
}

// revisit looks again at rows that could not go before.
func (p *pruner) revisit(limit int) error {
	var going []*candidate
	if err := p.forOld(limit, func(lsn uint64, value []byte) error {
		c, err := p.candidate(lsn, value[oldHead:])
		if err != nil {
			return nil // the check shows it
		}
		verdict, err := p.judge(c)
		if err == nil && verdict == goes {
			going = append(going, c)
		}
		return err
	}); err != nil {
		return err
	}
	for _, c := range going {
		// What went before it in this slice cannot have made it stay: rows only
		// become free.
		if err := p.remove(c); err != nil {
			return err
		}
		p.gone.waiting--
		p.gone.changed = true
		if err := p.old.Delete(lsnKey(c.lsn)); err != nil {
			return err
		}
	}
	return nil
}

// forOld visits the next rows of old, at most limit of them, those that stay for
// good passed over. It begins again at the end.
func (p *pruner) forOld(limit int, visit func(lsn uint64, value []byte) error) error {
	if p.gone.waiting == 0 {
		return nil
	}
	c := p.old.Cursor()
	k, v := c.Seek(lsnKey(p.l.oldAt.Load() + 1))
	for range limit {
		if k == nil {
			p.l.oldAt.Store(0)
			return nil
		}
		lsn := lsnOf(k)
		p.l.oldAt.Store(lsn)
		if len(v) > oldHead && v[0]&oldForGood == 0 {
			if err := visit(lsn, v); errors.Is(err, errEnough) {
				return nil
			} else if err != nil {
				return err
			}
		}
		k, v = c.Next()
	}
	return nil
}

// remove takes an event out of the file. What it added stays in totals, tallies and
// facts.
func (p *pruner) remove(c *candidate) error {
	p.went++
	p.gone.rows++
	p.gone.floor = max(p.gone.floor, c.stamp+1)
	p.gone.changed = true
	if c.own != nil {
		if err := p.removeEntry(c); err != nil {
			return err
		}
	}
	if c.outcome.Accepted() {
		if err := p.settleReversals(c); err != nil {
			return err
		}
	}
	if !c.Numbered() {
		return nil
	}
	r, err := p.see(c.Tank, c.Source, c.Dot.Epoch)
	if err != nil {
		return err
	}
	r.row.gone = max(r.row.gone, c.Run().To)
	if c.own != nil && !c.Unsynced {
		r.row.claimed = max(r.row.claimed, instant(c.OccurredAt))
	}
	r.row.changed = true
	return nil
}

func (p *pruner) removeEntry(c *candidate) error {
	n := &c.own.entry
	if n.outcome.Accepted() && !n.has(flagExcluded) {
		if n.has(flagConflicted) {
			p.gone.facts.add(conflictOf(c.Identity()))
		} else {
			p.gone.facts.add(factOf(c.Identity(), c.hash))
		}
	}
	if n.effective() {
		a, err := p.account(c.Tank)
		if err != nil || a == nil {
			return errOr(err)
		}
		a.carry(deltaOf(c.own.key, n))
		if err := p.moves.Delete(moveKey(c.own.key, n.stamp)); err != nil {
			return err
		}
	}
	if err := p.entries.Delete(c.own.key); err != nil {
		return err
	}
	if !n.has(flagOwnID) || n.outcome == Conflict {
		return nil
	}
	return p.removeID(c)
}

// removeID takes the id out, and notes for the source when that was its last one.
func (p *pruner) removeID(c *candidate) error {
	if err := p.ids.Delete(idKey(c.Source, c.ID)); err != nil {
		return err
	}
	src, err := p.source(c.Source)
	if src == nil || err != nil || src.named == 0 {
		return err
	}
	src.named--
	src.changed = true
	if src.named == 0 {
		src.named = p.anyID(c.Source)
	}
	return nil
}

// anyID gives 1 where the source has rows in ids. The count may be short of those
// that refused events left before the source was known.
func (b *batch) anyID(source string) uint64 {
	prefix := idKey(source, "")
	if k, _ := b.ids.Cursor().Seek(prefix); bytes.HasPrefix(k, prefix) {
		return 1
	}
	return 0
}

// settleReversals takes out the rows of reversals that go with an event: those of
// which it was the target, and, of a reversal, its own.
func (p *pruner) settleReversals(c *candidate) error {
	if !p.parks {
		return nil
	}
	prefix := append(idKey(c.Source, c.ID), 0)
	for {
		k, _ := p.reversals.Cursor().Seek(prefix)
		if !bytes.HasPrefix(k, prefix) {
			break
		}
		if err := p.reversals.Delete(bytes.Clone(k)); err != nil {
			return err
		}
	}
	if c.Type != event.Reversed {
		return nil
	}
	key := reversalKey(&c.Event)
	if p.reversals.Get(key) == nil {
		return nil
	}
	if !c.own.has(flagExcluded) {
		p.meta.parked-- // its original is gone for good
	}
	return p.reversals.Delete(key)
}

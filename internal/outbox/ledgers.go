package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

const (
	// ledgersMax bounds the ledgers listened to. For one more, the one goes that has
	// been silent longest among those that are offline; where all are online, the new
	// one is not listened to, unless it is of Options.ConfirmBy.
	ledgersMax = 16

	// confirmByMax bounds Options.ConfirmBy, so that these always find a place.
	confirmByMax = 8
)

// errConfirm: a confirmation is not one that a ledger may give.
var errConfirm = errors.New("not a legal confirmation")

// errLedgers: the bound is reached.
var errLedgers = fmt.Errorf("more than %d ledgers", ledgersMax)

// streamID names one stream of this node.
type streamID struct {
	epoch uint64
	tank  string
}

// A follower is one ledger that listens to this node, as far as it has told.
type follower struct {
	ledger string

	// What its status says.
	known       bool // there was one
	online      bool
	incarnation uint64

	heard time.Duration // its last word, by the clock since boot
	word  *word         // its confirmation, of the incarnation of its status
	other *word         // the last one of another: its status may be on its way

	pursuits map[streamID]*pursuit // what it is sent again; of this incarnation
}

// A word is one confirmation, as far as it concerns streams of this store.
type word struct {
	incarnation uint64
	more        bool
	few         bool // so few streams that each had room for a range: where none is listed, through is the end
	streams     map[streamID]named
	newest      map[string]uint64 // epoch of each tank, of all that are named
}

// named is what a ledger says of one stream.
type named struct {
	through uint64
	missing []event.Range
	since   time.Duration // since when through is that, by the clock since boot
}

// has reports whether the ledger has every number of the run.
func (n named) has(run event.Range) bool {
	return run.To <= n.through && len(intersect(n.missing, []event.Range{run})) == 0
}

// hasNothing reports whether the ledger has no number of the stream: the newest epoch
// of a tank that it has met is always named.
func (w *word) hasNothing(id streamID) bool {
	return w != nil && !w.more && w.newest[id.tank] < id.epoch
}

// Heard takes a ledger's confirmation for this source. It may come before the
// ledger's status, repeatedly, late, or from one that is gone: what is to be sent
// again follows only from that of an online ledger's incarnation. That numbers,
// or an epoch, are in use which this store has not given counts from any
// (RaiseEpoch). Nothing is ever removed because of a confirmation, except that
// confirmed rows go first where space is short.
//
// An error means that it was not taken: it is illegal, of another source, there
// are too many ledgers, or the store has failed.
func (o *Outbox) Heard(c event.Confirm) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.usable()
	if err == nil {
		err = o.hear(&c)
	}
	if err != nil {
		o.counters.ConfirmsRefused++
		return fmt.Errorf("hear ledger %.64q: %w", c.Ledger, err)
	}
	return nil
}

func (o *Outbox) hear(c *event.Confirm) error {
	if err := o.legal(c); err != nil {
		return err
	}
	f := o.follow(c.Ledger)
	if f == nil {
		return errLedgers
	}
	w, strange, err := o.wordOf(c)
	if err != nil {
		return err
	}
	f.take(w, o.o.Clock.Mono())
	o.confirmed = true
	o.avoidEpochs(c, strange)
	return o.listened(f)
}

// legal refuses what event.DecodeConfirm would not give.
func (o *Outbox) legal(c *event.Confirm) error {
	ranges := 0
	for _, s := range c.Streams {
		ranges += len(s.Missing)
		last := uint64(0)
		for _, r := range s.Missing {
			if r.From <= last || r.To < r.From || r.To > s.Through {
				return fmt.Errorf("%w: missing %v, through %d", errConfirm, r, s.Through)
			}
			last = r.To
		}
		if s.Epoch == 0 || s.Epoch > event.MaxEpoch || s.Through > event.MaxSeq || !event.ValidName(s.Tank) {
			return fmt.Errorf("%w: epoch %d, tank %.64q, through %d", errConfirm, s.Epoch, s.Tank, s.Through)
		}
	}
	switch {
	case !event.ValidName(c.Ledger):
		return fmt.Errorf("%w: the ledger has no legal name", errConfirm)
	case c.Source != o.o.Source:
		return fmt.Errorf("%w: it is for source %.64q", errConfirm, c.Source)
	case c.NewestEpoch > event.MaxEpoch || len(c.Fenced) > event.MaxConfirmFenced ||
		len(c.Streams) > event.MaxConfirmStreams || ranges > event.MaxConfirmRanges:
		return fmt.Errorf("%w: beyond its bounds", errConfirm)
	}
	return nil
}

// LedgerStatus takes what a ledger's retained status says. incarnation 0: the
// document does not say, as a last will; the one before stands. Everything told
// under another incarnation is void from here on: a ledger restored from a backup
// asks anew.
func (o *Outbox) LedgerStatus(ledger string, incarnation uint64, online bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.usable() != nil || !event.ValidName(ledger) {
		return
	}
	f := o.follow(ledger)
	if f == nil {
		return
	}
	if incarnation == 0 {
		incarnation = f.incarnation
	}
	if f.known && f.incarnation == incarnation && f.online == online {
		return
	}
	if !f.known || f.incarnation != incarnation {
		f.pursuits = map[streamID]*pursuit{}
	}
	f.known, f.online, f.incarnation = true, online, incarnation
	f.heard = o.o.Clock.Mono()
	if f.word != nil && f.word.incarnation != incarnation || f.other != nil && f.other.incarnation == incarnation {
		f.word, f.other = f.other, f.word
	}
	if f.word != nil && f.word.incarnation != incarnation {
		f.word = nil
	}
	if err := o.listened(f); err != nil {
		o.o.Log.Warn().Err(err).Str("ledger", ledger).Msg("a ledger's status could not be followed")
	}
}

// follow gives the ledger's follower, a new one where there is room for it.
func (o *Outbox) follow(ledger string) *follower {
	if f := o.ledgers[ledger]; f != nil {
		return f
	}
	if len(o.ledgers) >= ledgersMax && !o.makePlace(slices.Contains(o.confirmBy(), ledger)) {
		return nil
	}
	f := &follower{ledger: ledger, heard: o.o.Clock.Mono(), pursuits: map[streamID]*pursuit{}}
	o.ledgers[ledger] = f
	return f
}

// makePlace gives up a follower; an online one only where it must be.
func (o *Outbox) makePlace(must bool) bool {
	var worst *follower
	for _, f := range o.ledgers {
		if slices.Contains(o.confirmBy(), f.ledger) || f.online && !must {
			continue
		}
		if worst == nil || !f.online && worst.online || f.online == worst.online && f.heard < worst.heard {
			worst = f
		}
	}
	if worst == nil {
		return false
	}
	delete(o.ledgers, worst.ledger)
	return true
}

// wordOf keeps what concerns streams of this store, so that its memory is bounded
// by what the store itself has given. strange: a number is in use, in the epoch
// in force, which was never given here. (In an earlier epoch of a restored card
// that is to be expected, and a new epoch would not change it.)
func (o *Outbox) wordOf(c *event.Confirm) (w *word, strange bool, err error) {
	w = &word{incarnation: c.Incarnation, more: c.More, few: len(c.Streams) <= event.MaxConfirmRanges, streams: map[streamID]named{}, newest: map[string]uint64{}}
	now := o.o.Clock.Mono()
	err = o.f.View(func(tx *bbolt.Tx) error {
		streams := tx.Bucket([]byte(bStreams))
		for _, s := range c.Streams {
			w.newest[s.Tank] = max(w.newest[s.Tank], s.Epoch)
			own, known := decodeStream(streams.Get(streamKey(s.Epoch, s.Tank)))
			if s.Epoch == o.epoch && s.Through > own.last {
				strange = true
			}
			if known {
				w.streams[streamID{s.Epoch, s.Tank}] = named{s.Through, slices.Clone(s.Missing), now}
			}
		}
		return nil
	})
	return w, strange, err
}

// take keeps the word where it belongs.
func (f *follower) take(w *word, now time.Duration) {
	f.heard = now
	if !f.known || w.incarnation != f.incarnation {
		f.other = w
		return
	}
	switch {
	case f.word == nil:
	case w.setBack(f.word):
		f.pursuits = map[streamID]*pursuit{} // nothing that it had can be relied on
	default:
		for id, before := range f.word.streams {
			now, still := w.streams[id]
			switch {
			case still && now.through == before.through:
				now.since = before.since
				w.streams[id] = now
			case !still && !w.more: // it is not open any more
				f.pursue(id).settled = before.through
			}
		}
	}
	f.word = w
}

// setBack reports whether the ledger lacks what it had, by its word before under the
// same incarnation: a number, or the newest epoch of a tank, which is always named.
// Then its store was replaced by an earlier one, which it cannot know itself where
// its broker was set back as well.
func (w *word) setBack(before *word) bool {
	for id, was := range before.streams {
		is, still := w.streams[id]
		switch {
		case !still && w.hasNothing(id), still && !w.more && is.through < was.through:
			return true
		case len(subtract(upTo(is.missing, was.through), was.missing)) > 0:
			return true
		}
	}
	return false
}

// listened draws the consequences of what a ledger has told. It needs mu.
func (o *Outbox) listened(f *follower) error {
	if f.online && f.word != nil && len(o.o.ConfirmBy) == 0 && o.confirmer == "" {
		err := o.update(func(c *change) error {
			return c.bucket(bState).Put(keyConfirmer, []byte(f.ledger))
		})
		if err != nil {
			return err
		}
		o.confirmer = f.ledger
		o.o.Log.Info().Str("ledger", f.ledger).Msg("the ledger heard first is the one that frees rows where space is short (outbox.confirm_by)")
	}
	o.evictFrom.stale = true
	if err := o.review(); err != nil {
		return err
	}
	if len(o.jobs) > 0 {
		o.signal()
	}
	return nil
}

// confirmBy gives the ledgers whose confirmation frees rows.
func (o *Outbox) confirmBy() []string {
	if len(o.o.ConfirmBy) > 0 || o.confirmer == "" {
		return o.o.ConfirmBy
	}
	return []string{o.confirmer}
}

// isConfirmed reports whether all ledgers of confirmBy have what the row stands for.
func (o *Outbox) isConfirmed(r ref) bool {
	by := o.confirmBy()
	for _, ledger := range by {
		f := o.ledgers[ledger]
		if f == nil || f.word == nil {
			return false
		}
		id := streamID{r.epoch, r.tank}
		n, ok := f.word.streams[id]
		if p := f.pursuits[id]; !ok && p != nil {
			n = named{through: p.settled}
		}
		if !n.has(event.Range{From: r.from, To: r.seq}) {
			return false
		}
	}
	return len(by) > 0
}

// A Ledger is one that listens to this node, as Stats tells.
type Ledger struct {
	ID          string
	Incarnation uint64 // 0: no status heard
	Online      bool
	Confirms    bool   // it has confirmed under this incarnation
	Wanted      uint64 // numbers that it does not have, of rows handed over
}

func (o *Outbox) ledgerStats() (list []Ledger) {
	for _, f := range o.ledgers {
		l := Ledger{ID: f.ledger, Incarnation: f.incarnation, Online: f.online, Confirms: f.word != nil}
		for _, p := range f.pursuits {
			l.Wanted += p.wanted
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Ledger) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"oxyd/internal/event"
)

// A node takes a new epoch at each start of its store, so that an earlier one ends
// where the next begins. Its leftovers, which an outbox or a broker had held back,
// may come for days; they happened before. An earlier epoch in which something
// happened after a later one had begun is that of another board under the same
// name, such as one with a cloned card (contract section 5).

// Bounds of telling a second board from leftovers.
const (
	// twoBoardsGrace is by how much an event of an earlier epoch has to be later than
	// the beginning of the next, both by clocks that claim to be synchronised.
	twoBoardsGrace = time.Minute
	// twoBoardsEvents such events make a board: one may have a wrong time.
	twoBoardsEvents = 3
	// Without usable clocks: numbers beyond the greatest of the earlier epoch have to
	// come in turns with those of a later one, so many turns over so long a time. What
	// a node sends again comes in turns with its live events as well, but has an end.
	twoBoardsTurns = 32
	twoBoardsSpan  = 24 * time.Hour
	// TwoBoardsFor is how long after the last sign of it a source is said to be two
	// boards, by the receipt clock.
	TwoBoardsFor = time.Hour
	// maxEpochs of a source are listed, newest first.
	maxEpochs = 64
)

// Why an epoch is known.
const (
	epochFirst    uint8 = 1 + iota // the first one heard of the source
	epochNewer                     // greater than every one before it
	epochEarlier                   // below the newest, accepted by its usable time
	epochOperator                  // likewise, by a retry
)

var epochWhys = [...]string{epochFirst: "first", epochNewer: "newer", epochEarlier: "earlier", epochOperator: "operator"}

// epoch is the row of one (source, epoch) of which an event was accepted.
type epoch struct {
	why   uint8
	first int64 // receipt instant
	began int64 // the first usable stamp in it; noInstant: none yet

	late   uint64 // events accepted in it while a later one was known
	beyond uint64 // of these, what happened after a later one had begun
	turns  uint64 // how often it grew after a later one had
	since  int64  // receipt instant of the first of these turns
	turned int64  // and of the last
	lives  int64  // receipt instant of the first sign that it lives on; 0: none
	rival  uint64 // the later epoch by which that was told
}

func (x *epoch) encode() []byte {
	e := make(encoder, 0, 73)
	e.u8(x.why)
	for _, v := range []int64{x.first, x.began, x.since, x.turned, x.lives} {
		e.i64(v)
	}
	for _, v := range []uint64{x.late, x.beyond, x.turns, x.rival} {
		e.u64(v)
	}
	return e
}

func decodeEpoch(row []byte) (*epoch, error) {
	d := decoder{b: row}
	x := &epoch{why: d.u8()}
	for _, v := range []*int64{&x.first, &x.began, &x.since, &x.turned, &x.lives} {
		*v = d.i64()
	}
	for _, v := range []*uint64{&x.late, &x.beyond, &x.turns, &x.rival} {
		*v = d.u64()
	}
	if err := d.done(); err != nil {
		return nil, err
	}
	if x.why < epochFirst || x.why > epochOperator {
		return nil, errRow
	}
	return x, nil
}

// epochRow gives the row, or nil where no event of the epoch was accepted.
func (b *batch) epochRow(source string, n uint64) (*epoch, error) {
	row := b.epochs.Get(epochKey(source, n))
	if row == nil {
		return nil, nil
	}
	return decodeEpoch(row)
}

func (b *batch) putEpoch(source string, n uint64, x *epoch) error {
	return b.epochs.Put(epochKey(source, n), x.encode())
}

// noteEpoch makes the epoch of an accepted event known, and looks whether an earlier
// one lives on. grows tells that its number is the greatest of its stream so far.
func (b *batch) noteEpoch(in *incoming, grows bool) error {
	e := &in.Event
	src, err := b.source(e.Source)
	if err != nil || src == nil {
		return err
	}
	if e.Dot.Epoch < src.newest {
		return b.noteEarlier(in, src, grows)
	}
	src.grown = e.Dot.Epoch
	known := e.Dot.Epoch == src.newest
	if known && (src.begun || !in.usable) {
		return nil
	}
	x := &epoch{why: epochNewer, first: in.at, began: noInstant}
	if known {
		if x, err = b.epochRow(e.Source, e.Dot.Epoch); x == nil || err != nil {
			return errOr(err)
		}
	} else if src.newest == 0 {
		x.why = epochFirst
	}
	src.newest, src.changed = e.Dot.Epoch, true
	x.begin(in)
	src.begun = x.began != noInstant
	return b.putEpoch(e.Source, e.Dot.Epoch, x)
}

// begin takes the first usable stamp for the beginning.
func (x *epoch) begin(in *incoming) {
	if in.usable && x.began == noInstant {
		x.began = in.Event.OccurredAt.UnixNano()
	}
}

// noteEarlier notes an event of an epoch below the newest.
func (b *batch) noteEarlier(in *incoming, src *source, grows bool) error {
	e := &in.Event
	x, err := b.epochRow(e.Source, e.Dot.Epoch)
	if err != nil {
		return err
	}
	if x == nil {
		x = &epoch{why: epochEarlier, first: in.at, began: noInstant}
		if in.pardons(event.OldEpoch) {
			x.why = epochOperator
		}
	}
	x.begin(in)
	x.late++
	rival, err := b.outlived(in, src, x, grows)
	if err != nil {
		return err
	}
	if rival != 0 {
		if x.lives == 0 {
			x.lives = in.at
		}
		x.rival = rival
		src.twins, src.changed = max(src.twins, in.at), true
		b.noteTwins(e.Source, twins{older: e.Dot.Epoch, newer: rival, at: src.twins})
	}
	if grows {
		src.grown = e.Dot.Epoch
	}
	return b.putEpoch(e.Source, e.Dot.Epoch, x)
}

// outlived gives the later epoch beside which this one lives on, or 0. Times decide
// where there are any: what was only held back happened before the later one began.
func (b *batch) outlived(in *incoming, src *source, x *epoch, grows bool) (rival uint64, err error) {
	e := &in.Event
	if in.usable {
		next, began, err := b.nextBegun(e.Source, e.Dot.Epoch)
		if err != nil {
			return 0, err
		}
		if next != 0 {
			if e.OccurredAt.UnixNano() <= began+twoBoardsGrace.Nanoseconds() {
				return 0, nil
			}
			if x.beyond++; x.beyond < twoBoardsEvents {
				return 0, nil
			}
			return next, nil
		}
	}
	if !grows || src.grown <= e.Dot.Epoch { // it was not a later one's turn before
		return 0, nil
	}
	if in.at-x.turned > twoBoardsSpan.Nanoseconds() {
		x.turns, x.since = 0, in.at
	}
	x.turns++
	x.turned = in.at
	if x.turns < twoBoardsTurns || x.turned-x.since < twoBoardsSpan.Nanoseconds() {
		return 0, nil
	}
	return src.grown, nil
}

// nextBegun gives the first later epoch of the source whose beginning is known, 0
// where none is among the next few.
func (b *batch) nextBegun(source string, after uint64) (n uint64, began int64, err error) {
	const few = 16
	prefix := append([]byte(source), 0)
	c := b.epochs.Cursor()
	k, v := c.Seek(epochKey(source, after+1))
	for i := 0; i < few && len(k) == len(prefix)+8 && bytes.HasPrefix(k, prefix); i++ {
		x, err := decodeEpoch(v)
		if err != nil {
			return 0, 0, err
		}
		if x.began != noInstant {
			return binary.BigEndian.Uint64(k[len(prefix):]), x.began, nil
		}
		k, v = c.Next()
	}
	return 0, 0, nil
}

// twins is a sign that two boards send under one name.
type twins struct {
	older, newer uint64
	at           int64 // receipt instant
}

func (b *batch) noteTwins(source string, t twins) {
	if b.twins == nil {
		b.twins = map[string]twins{}
	}
	b.twins[strings.Clone(source)] = t
}

// seeTwins takes the signs of a committed transaction over and tells of what is
// news. The caller holds l.mu.
func (l *Ledger) seeTwins(found map[string]twins) {
	for source, t := range found {
		if last, known := l.twins[source]; !known || t.at-last > TwoBoardsFor.Nanoseconds() {
			l.opt.Log.Error().Str("source", source).Uint64("older_epoch", t.older).Uint64("newer_epoch", t.newer).
				Msg("two boards send under one name, give one of them a node name of its own")
		}
		l.twins[source] = t.at
	}
}

// loadTwins reads what an earlier process has seen.
func (l *Ledger) loadTwins() error {
	return l.view(func(b *batch) error {
		return b.sourceRows.ForEach(func(key, row []byte) error {
			s, err := decodeSource(row)
			if err == nil && s.twins != 0 {
				l.twins[string(bytes.TrimSuffix(key, []byte{0}))] = s.twins
			}
			return err
		})
	})
}

// now is the receipt clock.
func (b *batch) now() int64 { return max(b.l.opt.Now().UnixNano(), b.meta.receipt) }

// twoBoards lists the sources of which there was a sign lately.
func (l *Ledger) twoBoards(now int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []string{}
	for source, at := range l.twins {
		if now-at <= TwoBoardsFor.Nanoseconds() {
			list = append(list, source)
		}
	}
	slices.Sort(list)
	return list
}

// SourceEpoch is one epoch of a source of which an event was accepted.
type SourceEpoch struct {
	Epoch uint64     `json:"epoch"`
	Why   string     `json:"why"` // first, newer, earlier (accepted by its time), operator (by a retry)
	First *time.Time `json:"first_heard"`
	Last  *time.Time `json:"last_heard"`
	Began *time.Time `json:"began"`       // by the source's clock; null: it had none
	Late  uint64     `json:"late_events"` // accepted in it while a later one was known
	// LivesOn: since when there are signs that another board sends in it, beside the
	// one that sends in Rival.
	LivesOn *time.Time `json:"lives_on,omitempty"`
	Rival   uint64     `json:"rival,omitempty"`
	Fenced  bool       `json:"fenced"`
}

// addEpochs lists the epochs of a source whose streams are listed.
func (b *batch) addEpochs(s *Source) error {
	last, fenced := map[uint64]time.Time{}, map[uint64]bool{}
	for _, st := range s.Streams {
		if st.Last != nil && st.Last.After(last[st.Epoch]) {
			last[st.Epoch] = *st.Last
		}
		fenced[st.Epoch] = fenced[st.Epoch] || st.Fenced
	}
	prefix := append([]byte(s.Source), 0)
	c := b.epochs.Cursor()
	for k, v := lastOf(c, prefix); bytes.HasPrefix(k, prefix); k, v = c.Prev() {
		if len(s.Epochs) == maxEpochs {
			s.MoreEpochs = true
			return nil
		}
		x, err := decodeEpoch(v)
		if err != nil {
			return fmt.Errorf("epoch row %q: %w", k, err)
		}
		n := binary.BigEndian.Uint64(k[len(prefix):])
		e := SourceEpoch{Epoch: n, Why: epochWhys[x.why], First: timeOf(x.first), Began: timeOf(x.began), Late: x.late,
			Rival: x.rival, Fenced: fenced[n]}
		if at, ok := last[n]; ok {
			e.Last = &at
		}
		if x.lives != 0 {
			e.LivesOn = timeOf(x.lives)
		}
		s.Epochs = append(s.Epochs, e)
	}
	return nil
}

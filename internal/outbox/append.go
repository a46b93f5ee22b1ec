package outbox

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// A Receipt says what an event became.
type Receipt struct {
	Row   uint64
	ID    string
	Dot   event.Dot
	Again bool // the id was appended before, with this content; nothing was added
}

// draft is an event that only lacks its number.
type draft struct {
	ev    event.Event
	ownID bool
	print event.Hash    // of a caller's event, to tell a repeat from a reuse
	mono  time.Duration // when it happened
	wall  time.Time     // likewise
	size  int64         // at most, on the wire
}

// Append makes events of the drafts and returns once they are on disk, with a
// receipt for each draft in the order given. It is all or nothing.
//
// A draft has no Source, Dot, StandsFor or Age: the outbox gives them. Without an
// ID it gets the node's (event.NodeID). With one of the caller's, the same id and
// content again is answered with the first receipt; other content is ErrIDReused.
//
// Without OccurredAt it happened now. An OccurredAt since boot, by Go's monotonic
// reading or, where it has none, by the wall clock as it stands, is taken as a
// reading of that clock, and marked and later corrected like one while the clock is
// not synchronised; any other is somebody's word and stays.
//
// Within one call snapshots are numbered last: a reading includes what was taken
// before it. What was staged before is committed along, ahead of the drafts, unless
// all of these are repeats, which need no commit. In a full outbox staged snapshots
// give way to a delta.
func (o *Outbox) Append(drafts ...event.Event) ([]Receipt, error) {
	fresh, err := o.prepare(drafts)
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if receipts, err := o.repeats(fresh); receipts != nil || err != nil {
		return receipts, err
	}
	staged := o.takeStaged()
	receipts, err := o.commit(staged, fresh)
	if boltfile.IsFull(err) && len(staged) > 0 && hasDelta(fresh) {
		o.counters.Refused += uint64(len(staged))
		staged = nil
		receipts, err = o.commit(nil, fresh)
	}
	if err != nil {
		o.putBack(staged)
		o.refused(len(fresh), err)
		return nil, fmt.Errorf("append: %w", err)
	}
	return receipts, nil
}

// Stage takes snapshots that need not be on disk at once: they are committed
// together after CommitInterval by Run, or before that by Append, Flush or Close.
// A crash loses them. Deltas, and events with a caller's id, are not taken.
func (o *Outbox) Stage(drafts ...event.Event) error {
	if o.closed.Load() {
		return fmt.Errorf("stage: %w", ErrClosed)
	}
	fresh, err := o.prepare(drafts)
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	for i := range fresh {
		if fresh[i].ev.Type != event.Measured || fresh[i].ownID {
			return fmt.Errorf("stage draft %d: %w: only snapshots without an id can wait", i, ErrDraft)
		}
	}
	if o.stage(fresh) {
		return nil
	}
	// The bound is reached: make room in memory, then try once more.
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.flush(); err != nil {
		o.refused(len(fresh), err)
		return fmt.Errorf("stage: %w", err)
	}
	if !o.stage(fresh) {
		return fmt.Errorf("stage: more than %d snapshots at once", stagedMax)
	}
	return nil
}

// stage reports false when the bound would be passed.
func (o *Outbox) stage(fresh []draft) bool {
	o.stageMu.Lock()
	defer o.stageMu.Unlock()
	if len(o.staged)+len(fresh) > stagedMax {
		return false
	}
	o.staged = append(o.staged, fresh...)
	return true
}

func (o *Outbox) takeStaged() []draft {
	o.stageMu.Lock()
	defer o.stageMu.Unlock()
	staged := o.staged
	o.staged = nil
	return staged
}

// putBack puts what could not be committed ahead of what was staged meanwhile.
func (o *Outbox) putBack(staged []draft) {
	o.stageMu.Lock()
	defer o.stageMu.Unlock()
	o.staged = append(staged, o.staged...)
}

// Flush commits what is staged. When it fails, that stays staged.
func (o *Outbox) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flush()
}

// flush needs mu.
func (o *Outbox) flush() error {
	if err := o.usable(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	staged := o.takeStaged()
	if len(staged) == 0 {
		return nil
	}
	if _, err := o.commit(staged, nil); err != nil {
		o.putBack(staged)
		o.refused(0, err)
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

func (o *Outbox) refused(n int, err error) {
	o.counters.Refused += uint64(n)
	o.full = o.full || boltfile.IsFull(err)
	if boltfile.IsDiskFull(err) {
		o.noDisk.begin(o.o.Clock)
	}
}

func hasDelta(fresh []draft) bool {
	for i := range fresh {
		if fresh[i].ev.Type != event.Measured {
			return true
		}
	}
	return false
}

// prepare checks the drafts and fixes when they happened.
func (o *Outbox) prepare(events []event.Event) ([]draft, error) {
	now := o.now()
	fresh := make([]draft, len(events))
	for i, e := range events {
		d, err := o.draft(e, now)
		if err != nil {
			return nil, fmt.Errorf("draft %d: %w: %w", i, ErrDraft, err)
		}
		fresh[i] = d
	}
	return fresh, nil
}

func (o *Outbox) draft(e event.Event, now instant) (draft, error) {
	switch {
	case e.Source != "" && e.Source != o.o.Source:
		return draft{}, fmt.Errorf("source is %q, not %q", e.Source, o.o.Source)
	case e.Version > event.WireVersion:
		return draft{}, fmt.Errorf("version %d is not written here", e.Version)
	case e.Numbered() || e.StandsFor != (event.Range{}) || e.HasAge:
		return draft{}, errors.New("number, run and age are given here")
	case o.isNodeID(e.ID):
		return draft{}, fmt.Errorf("event id %q has the form of the node's own", e.ID)
	}
	d := draft{ev: e, ownID: e.ID != "", mono: now.mono}
	d.ev.Source = o.o.Source
	if d.ownID {
		d.print = fingerprint(d.ev)
	}
	ago := time.Duration(0)
	if !e.OccurredAt.IsZero() {
		ago = now.wall.Sub(e.OccurredAt)
	} else {
		d.ev.OccurredAt = now.wall
	}
	if ago >= 0 && ago <= now.mono { // read from this clock, in this boot
		d.mono -= ago
		d.ev.Unsynced = e.Unsynced || !now.synced
		// Where the clock was set in between, e.OccurredAt shows it as it stood
		// before, and ago, by Go's monotonic readings, is right all the same.
		d.ev.OccurredAt = now.wall.Add(-ago)
	}
	d.ev.OccurredAt = d.ev.OccurredAt.Round(0).UTC() // without Go's monotonic reading
	d.wall = d.ev.OccurredAt
	return d, d.measure()
}

// fingerprint is the hash of what the caller said: not the number, and not a time
// that the outbox made up.
func fingerprint(e event.Event) event.Hash {
	e.Unsynced = false
	return e.Hash()
}

// measure proves that the event is legal by reading it back with the longest
// number there is.
func (d *draft) measure() error {
	trial := d.ev
	trial.Dot = event.Dot{Epoch: event.MaxEpoch, Seq: event.MaxSeq}
	if !d.ownID {
		trial.ID = event.NodeID(trial.Source, trial.Dot.Epoch, trial.Tank, trial.Dot.Seq)
	}
	if !event.ValidName(d.ev.Tank) {
		return fmt.Errorf("tank %q is no legal name", d.ev.Tank)
	}
	payload := trial.AppendJSON(nil)
	if len(payload)+growReserve > event.MaxBytes {
		return fmt.Errorf("%d bytes are too many", len(payload))
	}
	d.size = int64(len(payload))
	_, err := event.Decode(trial.Type, trial.Tank, payload)
	return err
}

// commit appends staged, then fresh, in one transaction. It needs mu.
func (o *Outbox) commit(staged, fresh []draft) ([]Receipt, error) {
	if err := o.makeRoom(staged, fresh); err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(fresh))
	ahead := o.caughtUp && allSynced(staged) && allSynced(fresh)
	put := func(c *change) error {
		c.ahead = ahead
		if err := c.confirmNoted(); err != nil {
			return err
		}
		for i := range staged {
			if _, err := c.put(&staged[i]); err != nil {
				return err
			}
		}
		for _, i := range deltasFirst(fresh) {
			r, err := c.put(&fresh[i])
			if err != nil {
				return fmt.Errorf("draft %d: %w", i, err)
			}
			receipts[i] = r
		}
		return nil
	}
	err := o.evicting(o.update, put)
	if boltfile.IsFull(err) && len(o.noted) > 0 {
		if err := o.confirmNoted(); err != nil {
			return nil, err
		}
		err = o.evicting(o.update, put)
	}
	for boltfile.IsFull(err) { // the disk is full, not the outbox
		if n, cerr := o.coalesce(); cerr != nil || n == 0 {
			break
		}
		err = o.evicting(o.update, put)
	}
	if boltfile.IsFull(err) {
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, err
	}
	o.full, o.noDisk.on, o.caughtUp = false, false, false
	o.signal()
	return receipts, nil
}

func allSynced(drafts []draft) bool {
	return !slices.ContainsFunc(drafts, func(d draft) bool { return d.ev.Unsynced })
}

// deltasFirst gives the order of numbering: all else before the snapshots.
func deltasFirst(fresh []draft) []int {
	order := make([]int, 0, len(fresh))
	for i := range fresh {
		if fresh[i].ev.Type != event.Measured {
			order = append(order, i)
		}
	}
	for i := range fresh {
		if fresh[i].ev.Type == event.Measured {
			order = append(order, i)
		}
	}
	return order
}

// monotoneFill packs pages whose keys only ever rise.
const monotoneFill = 0.95

// put gives the draft its number, identity and bytes.
func (c *change) put(d *draft) (Receipt, error) {
	if d.ownID {
		if r, known, err := recall(c.tx, d); known || err != nil {
			c.counted.Repeated++
			return r, err
		}
	}
	e := d.ev
	s, err := c.stream(c.o.epoch, e.Tank)
	if err != nil {
		return Receipt{}, err
	}
	s.last++
	s.rows++
	c.st.epoch = max(c.st.epoch, c.o.epoch)
	e.Dot = event.Dot{Epoch: c.o.epoch, Seq: s.last}
	if !d.ownID {
		e.ID = event.NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
	}
	n := c.st.nextRow
	c.st.nextRow++
	if c.ahead {
		c.st.sent, s.handed = n, s.last
	}
	c.unsynced = c.unsynced || e.Unsynced
	r := row{kind: e.Type, unsynced: e.Unsynced, boot: c.o.boot, mono: d.mono, wall: d.wall, payload: e.AppendJSON(nil)}
	value := r.encode(n)
	link := ref{kind: e.Type, ownID: d.ownID, epoch: e.Dot.Epoch, seq: e.Dot.Seq, from: e.Dot.Seq, tank: e.Tank}
	rows, pending := c.bucket(bRows), c.bucket(bPending)
	rows.FillPercent, pending.FillPercent = monotoneFill, monotoneFill
	if err := rows.Put(rowKey(n), value); err != nil {
		return Receipt{}, err
	}
	if err := pending.Put(rowKey(n), link.encode(nil)); err != nil {
		return Receipt{}, err
	}
	if err := c.bucket(bIndex).Put(indexKey(link.epoch, link.tank, link.seq), rowKey(n)); err != nil {
		return Receipt{}, err
	}
	c.st.pendingRows++
	c.st.pendingBytes += uint64(len(value))
	c.counted.Appended++
	receipt := Receipt{Row: n, ID: e.ID, Dot: e.Dot}
	if d.ownID {
		err = c.remember(d, receipt)
	}
	return receipt, err
}

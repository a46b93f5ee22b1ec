package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
)

// pruneInterval is how often retained rows are looked through. Each time costs a
// commit; that a row stays so much longer costs nothing.
const pruneInterval = 10 * time.Minute

// lookInterval is how often it is looked at what has become due.
const lookInterval = 5 * time.Second

// Run commits staged snapshots every CommitInterval, prunes what has been
// retained for its time, and wakes when something is due to be sent again. It returns when ctx ends, after a last commit, or with
// an error when the store has failed and must be opened again. A lack of room
// does not end it: the next turn tries again.
func (o *Outbox) Run(ctx context.Context) error {
	flush := time.NewTicker(o.o.CommitInterval)
	defer flush.Stop()
	prune := time.NewTicker(pruneInterval)
	defer prune.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	var flushing, pruning, looking trouble
	for {
		var err error
		select {
		case <-ctx.Done():
			return o.Flush()
		case <-flush.C:
			err = o.Flush()
			flushing.log(o, err, "staged snapshots wait, the outbox takes none")
		case <-prune.C:
			err = o.prune(func() bool { return ctx.Err() != nil })
			pruning.log(o, err, "retained rows stay, the outbox does not let them go")
		case <-look.C:
			err = o.look()
			looking.log(o, err, "what ledgers want cannot be looked up")
		}
		if errors.Is(err, boltfile.ErrFailed) || errors.Is(err, ErrClosed) {
			return err
		}
	}
}

// look wakes whoever hands over when something has become due: rows that a ledger
// wants again, rows that were held, a new epoch that had to wait. It writes down what
// must not wait for another commit.
func (o *Outbox) look() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return err
	}
	o.leaveEpoch()
	if err := o.anchor(); err != nil {
		return err
	}
	if err := o.confirmOverdue(); err != nil {
		return err
	}
	if o.hold.begun && o.hold.on && !o.holding() {
		o.signal()
	}
	if len(o.ledgers) == 0 {
		return nil
	}
	if err := o.review(); err != nil {
		return err
	}
	if len(o.jobs) > 0 {
		o.signal()
	}
	return nil
}

// trouble logs on change, not on each try.
type trouble struct{ on bool }

func (t *trouble) log(o *Outbox, err error, message string) {
	if (err != nil) == t.on {
		return
	}
	t.on = err != nil
	if t.on {
		o.o.Log.Warn().Err(err).Msg(message)
		return
	}
	o.o.Log.Info().Msg("outbox works again")
}

// Counters count since Open.
type Counters struct {
	Appended         uint64 // events that got a number
	Repeated         uint64 // drafts that were known under their id
	Confirmed        uint64
	Refused          uint64 // drafts not taken, and staged ones given up for a delta
	SnapshotsDropped uint64 // unsent snapshots that a newer one replaced
	Merged           uint64 // unsent deltas summed up in the next one
	Pruned           uint64 // retained rows whose time was over
	Evicted          uint64 // retained rows given up early for want of room
	EvictedLacking   uint64 // of these, rows that not all of ConfirmBy had confirmed
	SentAgain        uint64 // retained rows given once more because a ledger wants them
	SkipsSent        uint64 // skipped events, for what is gone
	NumbersSkipped   uint64 // numbers in these
	EpochsLeft       uint64 // because a confirmation showed the epoch in other hands
	ConfirmsRefused  uint64 // confirmations not taken
	Damaged          uint64 // rows set aside as damaged
	DamagedForgotten uint64 // of these, removed at the bound
	IDsForgotten     uint64 // callers' ids removed at the bound
}

func (c *Counters) add(d Counters) {
	c.Appended += d.Appended
	c.Repeated += d.Repeated
	c.Confirmed += d.Confirmed
	c.Refused += d.Refused
	c.SnapshotsDropped += d.SnapshotsDropped
	c.Merged += d.Merged
	c.Pruned += d.Pruned
	c.Evicted += d.Evicted
	c.EvictedLacking += d.EvictedLacking
	c.SentAgain += d.SentAgain
	c.SkipsSent += d.SkipsSent
	c.NumbersSkipped += d.NumbersSkipped
	c.EpochsLeft += d.EpochsLeft
	c.ConfirmsRefused += d.ConfirmsRefused
	c.Damaged += d.Damaged
	c.DamagedForgotten += d.DamagedForgotten
	c.IDsForgotten += d.IDsForgotten
}

// Stats is what the outbox says of itself.
type Stats struct {
	Counters

	Epoch       uint64 // of what is appended now
	EpochByTime bool   // it was drawn from a known time, not only above the last
	New         bool   // the file was made by this Open
	Unclean     bool   // the process before did not close the file

	Pending, PendingBytes   uint64 // rows that wait for a PUBACK
	OldestAge               time.Duration
	Retained, RetainedBytes uint64
	DamagedRows             uint64 // kept in the file
	Staged                  int    // snapshots in memory

	// ConfirmBy are the ledgers whose confirmation frees rows where space is short;
	// Ledgers are those that have been heard, by name.
	ConfirmBy []string
	Ledgers   []Ledger
	// Held: nothing leaves yet, the store is new and knows no time.
	Held bool

	// Full: the last append was refused for want of room.
	Full bool
	// CrowdedSince: the bound is reached with rows that nobody has taken, so that
	// snapshots are dropped, deltas merged, or appends refused; until a quarter is
	// free again. DiskFullSince: the last append found the disk full. Zero: it does
	// not hold.
	CrowdedSince, DiskFullSince time.Time
	// LackingSince: at the bound, retained rows are given up that a ledger of
	// ConfirmBy has not confirmed; until one that it has goes, or a quarter is free.
	LackingSince time.Time
	// FileBytes is the file's size, UsedBytes that without its free pages. Appends
	// end at LimitBytes of used ones, the file at Options.MaxBytes.
	FileBytes, UsedBytes, LimitBytes int64
}

// Stats gives figures of one instant. OldestAge is 0 when nothing is pending.
func (o *Outbox) Stats() (Stats, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed.Load() {
		return Stats{}, fmt.Errorf("measure outbox: %w", ErrClosed)
	}
	u, err := o.f.Usage()
	if err != nil {
		return Stats{}, fmt.Errorf("measure outbox: %w", err)
	}
	o.easeOff(u.Used, u.Limit-o.headroom())
	s := Stats{
		Counters: o.counters, Epoch: o.epoch, EpochByTime: o.byTime, New: o.f.Created(), Unclean: o.f.Unclean(),
		Pending: o.st.pendingRows - uint64(len(o.noted)), PendingBytes: o.st.pendingBytes,
		Retained: o.st.keptRows, RetainedBytes: o.st.keptBytes, DamagedRows: o.st.damagedRows,
		ConfirmBy: slices.Clone(o.confirmBy()), Ledgers: o.ledgerStats(), Held: o.hold.begun && o.hold.on,
		CrowdedSince: o.crowded.start(), LackingSince: o.lacking.start(), DiskFullSince: o.noDisk.start(),
		Full: o.full, FileBytes: u.File, UsedBytes: u.Used, LimitBytes: u.Limit - o.headroom(),
	}
	o.stageMu.Lock()
	s.Staged = len(o.staged)
	o.stageMu.Unlock()
	s.OldestAge, err = o.oldestAge()
	return s, err
}

func (o *Outbox) oldestAge() (age time.Duration, err error) {
	now := o.now()
	err = o.f.View(func(tx *bbolt.Tx) error {
		cur := tx.Bucket([]byte(bPending)).Cursor()
		k, v := cur.First()
		for ; k != nil && o.isNoted(binary.BigEndian.Uint64(k)); k, v = cur.Next() {
		}
		if k == nil {
			return nil
		}
		p := readPending(tx.Bucket([]byte(bRows)), k, v)
		if p.fault != nil {
			return nil // Next tells
		}
		age = now.since(instant{p.row.boot, p.row.mono, p.row.wall, !p.row.unsynced})
		return nil
	})
	return age, err
}

// Package outbox is a node's durable way out: events get their number, their
// identity and their bytes here, wait until a broker has taken them, and are kept
// for a while after that.
//
// One bolt file, one Outbox, which owns it. The invariants:
//
//   - Number, identity and bytes of an event come into being in one transaction.
//     Numbers of a stream (epoch, tank) are contiguous from 1 and never given
//     twice: each start of the store has an epoch of its own.
//   - Order is that of appending, kept as a row number; no clock has a say in it.
//     Time runs by the clock since boot, by the wall clock only across boots and
//     where both ends were synchronised.
//   - Before number n of a stream leaves, "handed over up to n" is on disk. What
//     is handed over is frozen: it goes out again with the same bytes. Only what
//     has not been may still change: snapshots dropped, deltas merged, times
//     corrected. What then leaves still covers every number.
//   - A row leaves the pending ones only by Confirm or ConfirmSoon, and then is
//     retained for Options.Retention, less where space is short.
//   - What a ledger says (Heard) makes rows go out again, with the bytes that they
//     left with, and answers for those that are gone. It never removes one.
//
// What a crash does: before the commit of Append the events do not exist and
// nobody was told that they do; after it they do. Before the commit in Next
// nothing has left; after it the rows go out again, same bytes. Between the
// broker's PUBACK and the commit of Confirm the row goes out once more, same
// identity. Staged snapshots that no commit has taken are lost: that window is
// Options.CommitInterval.
//
// Sending again is part of Next: one window of retained rows where no pending row
// waits. What has been sent again, and when, is kept in memory: after a restart it
// begins with the first pause anew, and sends more often, never less.
//
// The package knows no broker and no connection.
package outbox

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// Errors that a caller may test for.
var (
	// ErrFull: the outbox has reached Options.MaxBytes with rows that nobody has
	// taken yet, or the disk is full. Nothing was appended. boltfile.IsFull knows it
	// too, and also what Next and Confirm say then.
	ErrFull = fmt.Errorf("outbox: %w", boltfile.ErrFull)
	// ErrIDReused: a caller's id came again with other content.
	ErrIDReused = errors.New("event id was used for another event")
	// ErrDraft: a draft is not one that this node may append.
	ErrDraft = errors.New("not a legal event")
	// ErrClosed: the outbox has been closed.
	ErrClosed = errors.New("outbox is closed")
)

// Defaults and bounds. What happens at a bound stands with each.
const (
	MaxBytesDefault       = 64 << 20
	RetentionDefault      = 72 * time.Hour
	CommitIntervalDefault = 5 * time.Second
	TailPatienceDefault   = 60 * time.Second // contract section 7

	// MaxBytesMin leaves room for the headroom and some rows.
	MaxBytesMin = 2 << 20

	// stagedMax bounds the snapshots in memory. The one that reaches it commits all
	// of them; where that fails for want of room, Stage refuses more.
	stagedMax = 512

	// idsMax bounds the callers' ids that are remembered. The oldest goes: sent
	// once more after that, it is a new event here, and the ledger calls it a
	// conflict (same id, other number) instead of counting it twice.
	idsMax = 10_000

	// damagedMax bounds the damaged rows kept. The oldest goes, counted.
	damagedMax = 1_000

	// streamsMax bounds the streams remembered after their last row has gone. The
	// one of the oldest epoch goes.
	streamsMax = 4_096

	// sliceRows is how many rows one transaction of Confirm or of pruning takes, so
	// that neither keeps an append waiting long nor needs more than the headroom,
	// or, on a full disk, the reserve.
	sliceRows = 256

	// reserveBytes are held back in the file for what goes on while the disk is
	// full: about three times what a slice needs.
	reserveBytes = 128 << 10

	// compactOver is how much must be free in the file for opening to rewrite it.
	compactOver = 16 << 20

	// windowBytesMax bounds what one Next reads, whatever number of rows is asked
	// for; the first row always comes.
	windowBytesMax = 1 << 20

	// growReserve is what an event may still grow by within event.MaxBytes after
	// it is appended: age, stands_for.
	growReserve = 160
)

// Options configure an Outbox. Zero values mean the defaults.
type Options struct {
	Path   string // the bolt file
	Source string // who makes the events: the node's name

	// MaxBytes bounds the file. An eighth of it, at least 512 KiB, is headroom that
	// appends do not touch, so that confirming and pruning always find pages. Where
	// space is short, there go, in this order: retained rows that the ledgers of
	// ConfirmBy have; the other retained ones; unsent snapshots that a newer one of
	// the same tank replaces; unsent deltas, of which runs of up to an hour become
	// one (merge.go). After that appending gives ErrFull. No delta is ever dropped.
	// A usual reading takes about 410 bytes of file (measured), so that the default
	// holds some 140,000, and months of merged ones.
	MaxBytes int64

	// Retention is how long rows stay after their PUBACK; negative: not at all.
	Retention time.Duration

	// ConfirmBy are the ledgers, at most 8, that must have confirmed a retained row
	// for it to go before the others where space is short. None: the first that is
	// heard, remembered in the store.
	ConfirmBy []string

	// CommitInterval is how long a staged snapshot may wait for its commit, and so
	// the window of loss.
	CommitInterval time.Duration

	// TailPatience is how long after its PUBACK an event may stay beyond what a
	// ledger has confirmed before it counts as lost.
	TailPatience time.Duration

	Unverified bool // see boltfile.Options; rows are checked when their turn comes

	Clock Clock
	// Topic names the topic of an event. It is asked at each hand-over, so that
	// rows follow a changed prefix.
	Topic func(t event.Type, tank string) string
	Log   zerolog.Logger
}

// A Clock tells the time and how far to trust it.
type Clock interface {
	Now() time.Time      // wall clock, with a monotonic reading where there is one
	Mono() time.Duration // since boot, suspension included; never goes back
	BootID() string      // names the boot that Mono counts from
	Synced() bool        // the wall clock is disciplined by something
}

// The buckets. Keys are big-endian.
var bucketNames = []string{
	bState, bRows, bPending, bKept, bIndex, bStreams, bIDs, bIDRows, bDamaged, bAnswers,
}

const (
	bState   = "state"   // one record: counters that belong to the whole (state.go)
	bRows    = "rows"    // row → the event's bytes and when it happened (rows.go)
	bPending = "pending" // row → ref: what no PUBACK has come for
	bKept    = "kept"    // row → instant of the PUBACK, ref
	bIndex   = "index"   // epoch, tank, number → row, for pending and kept
	bStreams = "streams" // epoch, tank → last number given, last handed over
	bIDs     = "ids"     // caller's id → row, number, fingerprint
	bIDRows  = "idrows"  // row → caller's id, to forget the oldest
	bDamaged = "damaged" // row → reason, ref, bytes
	bAnswers = "answers" // row of a skipped event → ledger, incarnation, stream, ranges
)

const (
	fileKind   = "outbox"
	fileSchema = 1
)

// An Outbox owns the file at Options.Path. Its methods may be called from many
// goroutines.
type Outbox struct {
	o    Options
	f    *boltfile.File
	wake chan struct{}
	boot uint32 // number of this boot; never changes

	// mu is held by whoever changes the store; st and epoch are what it says.
	mu       sync.Mutex
	st       state
	epoch    uint64 // of what is appended now
	byTime   bool   // the epoch was taken from a known time
	scan     dropScan
	merge    mergeScan
	perSlice int   // rows that one transaction of these two removes
	crowded  spell // at the bound: it drops, merges or refuses
	lacking  spell // at the bound: retained rows go that a ledger does not have
	noDisk   spell // the last append found the disk full
	counters Counters
	full     bool
	rowsRead int64
	closed   atomic.Bool

	// given: Next has given every pending row up to it since Open. Rows behind it may
	// be marked already, but have not left: they are not skipped, and not confirmed.
	given uint64
	// caughtUp: Next has given all there is and is asked again soon, so that what is
	// appended now leaves at once: it may be marked in the same commit.
	caughtUp bool
	noted    []noted // acknowledged by the broker, and not confirmed on disk yet
	unsynced bool    // this boot may have rows whose clock was not synchronised
	anchored bool    // and what to correct them by is on disk

	// What ledgers have told, guarded by mu.
	ledgers   map[string]*follower
	confirmer string        // the ledger heard first
	confirmed bool          // some confirmation was heard since Open
	jobs      []job         // what is to be sent again and due
	reviewed  time.Duration // when that was lined up
	answers   []keyedAnswer // as in bAnswers
	answering struct {
		minute time.Duration
		count  int
	}
	evictFrom evictScan
	leave     leaving
	hold      hold

	// stageMu guards staged alone, so that staging never waits for a disk. It is
	// taken after mu where both are needed.
	stageMu sync.Mutex
	staged  []draft
}

// Open opens the outbox, makes its file where there is none, and draws a new
// epoch. It reads no rows. Errors are those of boltfile.Open.
func Open(o Options) (*Outbox, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	f, err := boltfile.Open(o.Path, boltfile.Options{
		Kind: fileKind, Schema: fileSchema, Buckets: bucketNames, MaxBytes: o.MaxBytes, ReserveBytes: reserveBytes,
		CompactOver: compactOver, Unverified: o.Unverified, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	b := &Outbox{o: o, f: f, wake: make(chan struct{}, 1), ledgers: map[string]*follower{}, perSlice: sliceRows}
	if err := b.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open outbox %s: %w", o.Path, err), f.Close())
	}
	if b.st.pendingRows > 0 {
		b.unsynced = true // some may be of this boot, by a process before this one
		b.signal()
	}
	return b, nil
}

func (o *Options) complete() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = MaxBytesDefault
	}
	if o.Retention == 0 {
		o.Retention = RetentionDefault
	}
	if o.CommitInterval == 0 {
		o.CommitInterval = CommitIntervalDefault
	}
	if o.TailPatience == 0 {
		o.TailPatience = TailPatienceDefault
	}
	switch {
	case o.Path == "":
		return errors.New("no path")
	case !event.ValidName(o.Source):
		return fmt.Errorf("source %q is no legal name", o.Source)
	case o.MaxBytes < MaxBytesMin:
		return fmt.Errorf("max_bytes %d is below %d", o.MaxBytes, MaxBytesMin)
	case o.CommitInterval < 0 || o.TailPatience < 0:
		return fmt.Errorf("commit_interval %v or resend_after %v is negative", o.CommitInterval, o.TailPatience)
	case len(o.ConfirmBy) > confirmByMax:
		return fmt.Errorf("%d ledgers in confirm_by, at most %d", len(o.ConfirmBy), confirmByMax)
	case o.Clock == nil || o.Topic == nil:
		return errors.New("no clock or no topic")
	}
	return nil
}

// load reads the state record and begins a new epoch.
func (o *Outbox) load() error {
	err := o.f.View(func(tx *bbolt.Tx) (err error) {
		if o.st, err = readState(tx); err != nil {
			return err
		}
		o.confirmer = string(tx.Bucket([]byte(bState)).Get(keyConfirmer))
		return o.loadAnswers(tx)
	})
	if err != nil {
		return err
	}
	if id := o.o.Clock.BootID(); o.st.bootID != id {
		o.st.boot, o.st.bootID = o.st.boot+1, id // on disk with the first row
	}
	o.boot = o.st.boot
	_, o.anchored = o.anchorOf(o.boot)
	wall := o.o.Clock.Now()
	o.hold.on = o.st.sent == 0 && wall.Before(wallKnownFrom)
	o.epoch, o.byTime, err = newEpoch(o.st.epoch, wall)
	return err
}

// usable is nil while the store can be read and written.
func (o *Outbox) usable() error {
	if o.closed.Load() {
		return ErrClosed
	}
	return o.f.Err()
}

// Wake gives a channel that gets a hint when rows have been added. A hint may
// stand for many rows, and come when there are none.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close commits what is staged and closes the file. A second Close does nothing.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed.Load() {
		return nil
	}
	var err error
	if o.f.Err() == nil {
		err = errors.Join(o.flush(), o.confirmNoted())
	}
	o.closed.Store(true)
	return errors.Join(err, o.f.Close())
}

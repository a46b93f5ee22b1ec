// Package ledger is the oxygen account: one bbolt file, one writer, and a
// balance per tank that is a function of the set of accepted events and their
// stamps. Order of arrival, repeats, batches and crashes do not enter.
//
// The invariant it keeps: an event's dedup mark, its journal row and its effect
// on balance and totals are written by one bolt transaction (R3), and Apply
// returns nil only when that transaction is on disk. A caller that acknowledges
// after Apply therefore never acknowledges something that a crash can undo.
//
// What nothing needs any more is pruned (prune.go), so that the file keeps within its
// bound; totals, tallies and watermarks keep what the pruned events added to them.
//
// It does not receive, decode or acknowledge messages (package ingest), and it
// publishes nothing (internal/daemon reads committed state).
//
// # Buckets
//
// Names are joined with a zero byte; numbers are big-endian.
//
//	meta        name                                  state: counters, receipt clock, chain head, facts;
//	                                                  pruned: floor, base of the chain, what went
//	journal     lsn                                   outcome, stamp, receipt, content, chain: append-only truth
//	entries     tank 0 source 0 kind pos              the dedup mark and what the fold needs of the event;
//	                                                  pos is epoch seq (numbered) or stamp event_id (unnumbered)
//	moves       tank 0 stamp source 0 kind pos        the effective deltas by stamp: amount and kind
//	ids         source 0 event_id                     the entry key, for ids that are not their event's NodeID
//	seen        tank 0 source 0 1 epoch               watermark: every number up to low is accounted for
//	runs        tank 0 source 0 1 epoch from          exact runs of accounted numbers above low
//	skipped     tank 0 source 0 1 epoch from          runs the source said it cannot deliver
//	tanks       tank                                  opening, totals, baseline, revision
//	heads       tank 0 source 0 kind                  last and previous snapshot of a stream, tallies after and between,
//	                                                  and what pruned events are in them
//	operations  tank 0 type op 0 stamp source 0 id    the deltas of one business operation, the first is the one
//	reversals   source 0 event_id 0 tank 0 reversal   the accepted reversals of an identity, before or after it came
//	sources     source                                newest epoch, last heard
//	epochs      source 0 epoch                        why it is known, when it began, signs that it lives on
//	quarantine  hash16                                what was refused, with its bytes and reason
//	quarorder   n                                     hash16, oldest first, for the bound
//	old         lsn                                   rows that pruning has passed and could not let go
//	settled     hash16                                lsn and row of what an operator decided last about it
//	out, outopen, outlog                              what people are to be told, and what became of it (out.go)
//	answers, answerorder                              first answers to entries by hand (answers.go)
package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
)

// Schema is the version of the buckets above; a file of any other one is refused.
// In 1, which was never released, the journal held canonical JSON.
const Schema = 2

// Defaults of the bounds in Options (contract section 5).
const (
	DefaultDedupWindow     = 168 * time.Hour
	DefaultMaxTanks        = 256
	DefaultMaxSources      = 4096
	DefaultMaxTankSources  = 16
	DefaultMaxParked       = 10_000
	DefaultQuarantineBytes = 16 << 20
	DefaultStaleAfter      = 15 * time.Minute
	DefaultHistory         = 30 * 24 * time.Hour
	DefaultMaxMarks        = 1_000_000

	// MaxAhead is how far a source's synchronised clock may be ahead of the
	// ledger's before its stamp is not believed.
	MaxAhead = 10 * time.Second
)

// Tank is what the config says of one tank.
type Tank struct {
	ID, Name string
	Capacity physic.Mass  // 0: unknown
	Initial  *physic.Mass // opening amount, journalled once; nil: none
}

// Options says where the account lives and what bounds it.
type Options struct {
	Path     string
	MaxBytes int64 // of the file; 0: no bound of its own
	Tanks    []Tank
	// Replacement: the file takes the place of one that was damaged. Opening amounts
	// are from before everything, so that a replacement never takes any: without a
	// measurement a balance is not known any more.
	Replacement bool
	// Unverified: see boltfile.Options. Open then looks at the newest rows itself, and
	// gives boltfile.ErrDamaged where they do not hold.
	Unverified bool
	Closed     bool // an event of a tank not in Tanks is quarantined as unknown_tank

	DedupWindow     time.Duration
	History         time.Duration // how long events stay that are not needed any more; at least DedupWindow
	StaleAfter      time.Duration
	MaxTanks        int
	MaxSources      int
	MaxTankSources  int
	MaxParked       int
	MaxMarks        int // accepted events with neither number nor usable time
	QuarantineBytes int64

	Notify []string // kinds of notices to keep for whoever tells people (out.go); nil: none

	Now func() time.Time // wall clock; nil: time.Now
	// Synced reports whether Now can be believed; nil: it can. While it cannot,
	// nothing goes from history for its age, and measurements grow stale by the time
	// since their receipt as well.
	Synced func() bool
	Log    zerolog.Logger
}

func (o *Options) fill() {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.MaxTanks, DefaultMaxTanks)
	set(&o.MaxSources, DefaultMaxSources)
	set(&o.MaxTankSources, DefaultMaxTankSources)
	set(&o.MaxParked, DefaultMaxParked)
	set(&o.MaxMarks, DefaultMaxMarks)
	if o.QuarantineBytes == 0 {
		o.QuarantineBytes = DefaultQuarantineBytes
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = DefaultDedupWindow
	}
	if o.History == 0 {
		o.History = max(DefaultHistory, o.DedupWindow)
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Ledger owns the file and is its only writer; its methods may be called from
// any goroutine.
type Ledger struct {
	file *boltfile.File
	opt  Options
	cfg  map[string]Tank

	writing sync.Mutex // held by the one writer
	warm    rowState   // rows as the last transaction left them; the writer's
	full    atomic.Bool
	pressed atomic.Bool   // three quarters of the file are used
	oldAt   atomic.Uint64 // where in old pruning looks next

	canonical, scratch []byte // the writer's buffers

	mu      sync.Mutex
	changed chan struct{} // closed and replaced after each commit
	touched map[string]bool
	twins   map[string]int64 // sources that looked like two boards, and when
	clocks  clocks
}

var buckets = []string{"meta", "journal", "entries", "ids", "seen", "runs", "skipped", "moves", "tanks", "heads",
	"operations", "reversals", "sources", "epochs", "quarantine", "quarorder", "settled", "old"}

// Open opens or creates the account and journals the opening amounts of tanks
// that it meets for the first time. When it returns, a barrier commit has
// succeeded: whatever an earlier process left in the page cache is on disk, so
// that acknowledging a duplicate of it is safe.
func Open(o Options) (*Ledger, error) {
	o.fill()
	if o.History < o.DedupWindow {
		return nil, fmt.Errorf("open ledger %s: history %v is shorter than the dedup window %v: an event could come back after it was forgotten and count twice",
			o.Path, o.History, o.DedupWindow)
	}
	file, err := boltfile.Open(o.Path, boltfile.Options{Kind: "ledger", Schema: Schema, Oldest: Schema,
		MaxBytes: o.MaxBytes, ReserveBytes: reserveBytes, Buckets: slices.Concat(buckets, outBuckets), Unverified: o.Unverified, Log: o.Log})
	if err != nil {
		return nil, err
	}
	l := &Ledger{file: file, opt: o, cfg: map[string]Tank{}, changed: make(chan struct{}), touched: map[string]bool{}, twins: map[string]int64{}, clocks: newClocks(o.Now())}
	for _, t := range o.Tanks {
		l.cfg[t.ID] = t
	}
	if err := l.update(func(b *batch) error {
		if err := b.noticeReplaced(o.Replacement); err != nil {
			return err
		}
		b.meta.replacement = b.meta.replacement || o.Replacement
		return b.openTanks(o.Tanks)
	}); err != nil {
		file.Close()
		return nil, fmt.Errorf("open ledger %s: %w", o.Path, err)
	}
	if err := l.loadTwins(); err != nil {
		file.Close()
		return nil, fmt.Errorf("open ledger %s: %w", o.Path, err)
	}
	if o.Unverified {
		if err := l.view(func(b *batch) error { return b.checkNewest(newestRows) }); err != nil {
			file.Close()
			return nil, fmt.Errorf("open ledger %s: %w: %w", o.Path, boltfile.ErrDamaged, err)
		}
	}
	return l, nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

// Apply decides every delivery, in order, and writes marks, journal and effects
// in one transaction. The results are in the order of the deliveries. After an
// error nothing may be acknowledged: errors.Is(err, boltfile.ErrFailed) says
// that the outcome is unknown and the process must reopen the file;
// boltfile.IsFull(err) that nothing was written and a later try may succeed.
func (l *Ledger) Apply(deliveries []Delivery) ([]Result, error) {
	results := make([]Result, len(deliveries))
	decide := func(b *batch) error {
		for i := range deliveries {
			var err error
			if results[i], err = b.apply(&deliveries[i]); err != nil {
				return err
			}
		}
		return b.pruneAlong(len(deliveries))
	}
	err := l.update(decide)
	for limit := pruneTightMin; boltfile.IsFull(err) && limit <= pruneTightMax && l.makeRoom(limit); limit *= 2 {
		err = l.update(decide)
	}
	if err != nil {
		return nil, fmt.Errorf("apply %d deliveries: %w", len(deliveries), err)
	}
	l.noteClocks(deliveries, results)
	return results, nil
}

// Changed gives a channel that is closed by the next commit. Take it before
// reading, so that no change falls between.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *Ledger) update(fn func(*batch) error) error { return l.updateBy(l.file.Update, fn) }

// updateBy runs fn over a working set and commits it in the given way. An error that
// is errEnough says that there was nothing to commit.
func (l *Ledger) updateBy(commit func(func(*bbolt.Tx) error) error, fn func(*batch) error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var b *batch
	err := commit(func(tx *bbolt.Tx) (err error) {
		if b, err = l.begin(tx); err != nil {
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
		return b.flush()
	})
	if full := boltfile.IsFull(err); full || err == nil {
		l.full.Store(full)
	}
	if err != nil {
		return err
	}
	l.warm, l.canonical, l.scratch = b.rowState, b.canonical, b.scratch
	l.measure()
	l.mu.Lock()
	close(l.changed)
	l.changed = make(chan struct{})
	maps.Copy(l.touched, b.touched)
	l.seeTwins(b.twins)
	l.mu.Unlock()
	return nil
}

// newIncarnation is made like an epoch: seconds in the upper bits, so that a
// store created later has the greater one, and 20 random bits, so that two
// copies never draw the same (contract section 6).
func newIncarnation(now time.Time) uint64 {
	var r [4]byte
	rand.Read(r[:]) // never fails since Go 1.24
	seconds := uint64(max(now.Unix(), 1))
	return seconds<<20 | uint64(binary.BigEndian.Uint32(r[:])&(1<<20-1))
}

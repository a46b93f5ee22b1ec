// Package boltfile opens the bolt files that oxyd keeps its facts in: one file,
// one process, one File that owns it.
//
// It owns the file as a whole: how it comes into being, who may hold it, which
// kind and schema it is, whether it can be trusted after a crash, and which
// errors leave it usable. The invariant: once Open has returned, everything a
// transaction reads is on disk, and stays so until Update reports ErrFailed.
// Two things make that hold:
//
//   - A barrier commit on every open. A process killed between writing bolt's
//     meta page and syncing it leaves a transaction that later readers see in the
//     page cache although it is on no disk. Whoever acknowledges something because
//     of what it read there, without a commit of its own, loses it in a power
//     cut. The barrier's syncs cover whatever the file showed before it. The file
//     is synced before the barrier writes anything, too: bolt gives a transaction
//     the pages that the one before has freed, and as long as that one is only in
//     the page cache, the meta page on the disk still leads to them.
//   - A commit whose outcome is unknown ends the File. When bolt's sync of the
//     meta page fails, Commit returns an error and the transaction is visible all
//     the same. From then on Update refuses with ErrFailed; the process has to
//     open the file again, which repeats the barrier.
//
// A damaged file is never written to and never removed: Open says ErrDamaged and
// SetAside renames it. The package does not know what the buckets hold and does
// not migrate schemas. Bolt has no page checksums: records carry their own.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
)

// Errors that a caller may test for.
var (
	// ErrLocked: another process holds the file. Nothing was touched.
	ErrLocked = errors.New("in use by another oxyd")
	// ErrSchema: the file is of another kind, of a schema that is too new or too old,
	// or not ours at all. Nothing was touched.
	ErrSchema = errors.New("not a file that this version can use")
	// ErrDamaged: what stands under the name is no whole bolt file. Nothing was
	// written to it; SetAside makes room for a new one.
	ErrDamaged = errors.New("damaged")
	// ErrFailed: the outcome of an earlier commit is unknown, so no further one is
	// taken. The process must close the file and open it again.
	ErrFailed = errors.New("store failed, it must be opened again")
)

const (
	// pageSize is fixed so that a card moves between kernels of 4, 16 and 64 KiB
	// pages.
	pageSize = 4096
	// lockTimeoutDefault bounds the wait for another process; both locks together
	// stay within it, so that a second oxyd is told no in under 5 s.
	lockTimeoutDefault = 2 * time.Second
	// lockTimeoutMin is the least that bbolt can be given: 0 waits for ever and
	// its retry step is 50 ms.
	lockTimeoutMin = 100 * time.Millisecond
	// maxBytes32 caps the file on 32-bit boards, whose address space is too
	// fragmented to map more with any certainty.
	maxBytes32 = 512 << 20
	// Mapped at once, so that growing does not have to wait for readers and cannot
	// fail for want of address space. This is address space, not memory: a page
	// costs memory only once it is touched.
	mapBytes64 = 1 << 30
	mapBytes32 = 128 << 20
	// The file grows in steps, each with a sync of its own: a 64th of MaxBytes
	// within these bounds.
	growBytesMin = 64 << 10
	growBytesMax = 1 << 20

	fileMode = 0o600
)

// The bucket that describes the file itself. Names with a leading "_" are
// reserved for this package.
const ownBucket = "_file"

var (
	keyKind    = []byte("kind")    // Options.Kind
	keySchema  = []byte("schema")  // u64
	keyID      = []byte("id")      // 16 random bytes, made with the file
	keyUnclean = []byte("unclean") // 1 from the barrier commit until Close
	keyOpens   = []byte("opens")   // u64, counts barrier commits
)

// Options say what the file is to be.
type Options struct {
	Kind    string   // what it holds, such as "outbox"; another kind is refused
	Schema  uint64   // the newest schema that the caller understands, from 1
	Oldest  uint64   // the oldest one; 0: any
	Buckets []string // top-level buckets; missing ones are made at open

	// MaxBytes bounds the file: beyond it Update fails with an error that IsFull.
	// 0 is no bound (512 MiB on 32-bit boards). A file that is larger already is
	// not cut; it only cannot grow.
	MaxBytes int64

	// ReserveBytes are kept within the file for UpdateTight; 0: none.
	ReserveBytes int64

	// CompactOver makes Open rewrite the file when more bytes than that, and more
	// than half of it, are free pages; 0: never.
	CompactOver int64

	LockTimeout time.Duration // how long to wait for another process; default 2 s

	// Unverified: an earlier process did not close the file and nobody could look
	// through it since. Close leaves it marked as unclean, so that the next start
	// looks.
	Unverified bool

	Log zerolog.Logger
}

// A File is one open bolt file. Its methods may be called from many goroutines;
// writers take turns.
type File struct {
	path string
	log  zerolog.Logger
	db   *bbolt.DB
	fd   *os.File // bolt's own descriptor; it carries the lock

	schema     uint64
	id         [16]byte
	unclean    bool
	created    bool
	unverified bool

	// writing is held by the one writer, beyond bolt's own lock: until a failed
	// commit has been judged, nobody may build on what it left.
	writing sync.Mutex
	failed  atomic.Pointer[failure]

	reserving    sync.Mutex // guards the reserve's book-keeping; taken before writing
	reserveWant  int        // pages
	reserved     int        // pages
	reserveTried time.Time
}

// failure is why a File takes no more writes. wedged: bolt's own locks may be
// held for ever, so that it cannot be closed in order.
type failure struct {
	err    error
	wedged bool
}

// Open opens the file at path, making it when there is none. The errors are
// ErrLocked, ErrSchema, ErrDamaged, one that IsFull when the disk has no room for
// the barrier commit, or that of the file system.
func Open(path string, o Options) (*File, error) {
	if o.Kind == "" || o.Schema == 0 {
		return nil, fmt.Errorf("open %s: options need a kind and a schema", path)
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = lockTimeoutDefault
	}
	deadline := time.Now().Add(o.LockTimeout)
	created, err := createMissing(path, o, deadline)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, log: o.Log, created: created, unverified: o.Unverified}
	if err := f.open(o, deadline); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// open takes the lock, looks before it touches, and ends with the barrier.
func (f *File) open(o Options, deadline time.Time) error {
	wait := max(time.Until(deadline), lockTimeoutMin)
	err := guard(func() (err error) {
		f.db, err = bbolt.Open(f.path, fileMode, f.boltOptions(o, wait))
		if err != nil {
			return err
		}
		f.db.AllocSize = growBytes(o.MaxBytes)
		if err := f.sameAsPath(); err != nil {
			return err
		}
		return f.db.View(func(tx *bbolt.Tx) error { return f.identify(tx, o) })
	})
	if err != nil {
		return openError(f.path, err)
	}
	if err := f.fd.Sync(); err != nil { // before anything is written
		return fmt.Errorf("open %s: sync what was found: %w", f.path, err)
	}
	if err := f.Update(func(tx *bbolt.Tx) error { return barrier(tx, o.Buckets) }); err != nil {
		return fmt.Errorf("open %s: barrier commit: %w", f.path, err)
	}
	return f.openReserve(o)
}

// boltOptions are the measured choices: a free list kept on disk and in a map
// opens in 3 ms instead of scanning the file, and every commit is synced.
func (f *File) boltOptions(o Options, wait time.Duration) *bbolt.Options {
	return &bbolt.Options{
		Timeout:         wait,
		FreelistType:    bbolt.FreelistMapType,
		PageSize:        pageSize,
		InitialMmapSize: mapBytes(o.MaxBytes),
		MaxSize:         int(limitBytes(o.MaxBytes)),
		OpenFile:        f.openFile,
	}
}

// openFile opens what exists: bolt would make a missing file under its final name
// and write into an empty one, and both are for us to judge. It keeps the
// descriptor, because a panic inside bbolt.Open leaks it together with the lock.
func (f *File) openFile(name string, flag int, mode os.FileMode) (*os.File, error) {
	fd, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	st, err := fd.Stat()
	if err == nil && st.Size() < 2*pageSize {
		err = fmt.Errorf("%w: %d bytes are no bolt file", ErrDamaged, st.Size())
	}
	if err != nil {
		fd.Close()
		return nil, err
	}
	f.fd = fd
	return fd, nil
}

// sameAsPath makes sure that the file locked is the file named: another process
// may have set it aside while this one waited.
func (f *File) sameAsPath() error {
	mine, err := f.fd.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if !os.SameFile(mine, named) {
		return fmt.Errorf("%w: the file was replaced meanwhile", ErrLocked)
	}
	return nil
}

// identify reads what the file says of itself.
func (f *File) identify(tx *bbolt.Tx, o Options) error {
	st, err := f.fd.Stat()
	if err != nil {
		return err
	}
	// Bolt grows the file before it commits, so a shorter one was cut afterwards.
	// Asking first spares the fault of touching a page that is not there.
	if tx.Size() > st.Size() {
		return fmt.Errorf("%w: cut to %d of %d bytes", ErrDamaged, st.Size(), tx.Size())
	}
	own := tx.Bucket([]byte(ownBucket))
	if own == nil {
		return fmt.Errorf("%w: it is a bolt file, but none of oxyd's", ErrSchema)
	}
	if kind := string(own.Get(keyKind)); kind != o.Kind {
		return fmt.Errorf("%w: it is of kind %q, not %q", ErrSchema, kind, o.Kind)
	}
	schema, id := own.Get(keySchema), own.Get(keyID)
	if len(schema) != 8 || len(id) != len(f.id) {
		return fmt.Errorf("%w: its description is incomplete", ErrDamaged)
	}
	f.schema = binary.BigEndian.Uint64(schema)
	if f.schema > o.Schema {
		return fmt.Errorf("%w: its schema is %d, known are those up to %d: use the version that wrote it, or a newer one",
			ErrSchema, f.schema, o.Schema)
	}
	if f.schema < o.Oldest {
		return fmt.Errorf("%w: its schema is %d, known are those from %d: only the version that wrote it can read it",
			ErrSchema, f.schema, o.Oldest)
	}
	copy(f.id[:], id)
	unclean := own.Get(keyUnclean)
	f.unclean = len(unclean) > 0 && unclean[0] != 0
	return nil
}

// barrier is the first commit of this process (see the package comment).
func barrier(tx *bbolt.Tx, buckets []string) error {
	own := tx.Bucket([]byte(ownBucket))
	var opens uint64
	if v := own.Get(keyOpens); len(v) == 8 {
		opens = binary.BigEndian.Uint64(v)
	}
	if err := own.Put(keyOpens, binary.BigEndian.AppendUint64(nil, opens+1)); err != nil {
		return err
	}
	if err := own.Put(keyUnclean, []byte{1}); err != nil {
		return err
	}
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// Path gives the path that Open was given.
func (f *File) Path() string { return f.path }

// ID gives the random identity that the file got when it was made.
func (f *File) ID() [16]byte { return f.id }

// Schema gives the schema that the file was made with.
func (f *File) Schema() uint64 { return f.schema }

// Created reports whether this Open made the file.
func (f *File) Created() bool { return f.created }

// Synced reports whether every commit is synced, data and meta page, with the
// free list on disk: what "nil means durable" rests on.
func (f *File) Synced() bool { return !f.db.NoSync && !f.db.NoGrowSync && !f.db.NoFreelistSync }

// Unclean reports whether the process that held the file before did not close it.
func (f *File) Unclean() bool { return f.unclean }

// limitBytes is the bound handed to bolt; 0 is none.
func limitBytes(maxBytes int64) int64 {
	if strconv.IntSize == 32 && (maxBytes <= 0 || maxBytes > maxBytes32) {
		return maxBytes32
	}
	return max(maxBytes, 0)
}

// mapBytes is what to map at once: the whole file where it is bounded, so that it
// is never mapped anew.
func mapBytes(maxBytes int64) int {
	most := int64(mapBytes64)
	if strconv.IntSize == 32 {
		most = mapBytes32
	}
	if limit := limitBytes(maxBytes); limit > 0 {
		most = min(most, limit)
	}
	return int(most)
}

func growBytes(maxBytes int64) int {
	step := int64(growBytesMax)
	if limit := limitBytes(maxBytes); limit > 0 {
		step = min(max(limit/64, growBytesMin), growBytesMax)
	}
	return int(step / pageSize * pageSize)
}

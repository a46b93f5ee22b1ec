package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// View runs fn in a read transaction. Slices must be copied out of it. A panic
// inside, which is how bolt reports a damaged page, comes back as an error.
// After ErrFailed it still reads, but what it shows may not be on disk.
func (f *File) View(fn func(*bbolt.Tx) error) error {
	err := guard(func() error { return f.db.View(fn) })
	if p, ok := errors.AsType[*panicError](err); ok {
		f.log.Error().Str("path", f.path).Str("panic", p.Error()).Bytes("stack", p.stack).Msg("reading the store panicked")
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	return err
}

// Update runs fn in the one write transaction and commits it; nil means durable.
// When fn returns an error nothing is changed and that error comes back.
//
// A commit that fails for want of room (IsFull) changes nothing, and the next one
// may succeed. After any other failure the outcome is unknown: that error is
// ErrFailed and so is every later one.
func (f *File) Update(fn func(*bbolt.Tx) error) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := f.Err(); err != nil {
		return err
	}
	var txid int
	var committing bool
	err := guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			txid = tx.ID()
			err := fn(tx)
			committing = err == nil
			return err
		})
	})
	if err == nil {
		return nil
	}
	p, panicked := errors.AsType[*panicError](err)
	switch {
	case panicked:
		f.log.Error().Str("path", f.path).Str("panic", p.Error()).Bytes("stack", p.stack).Msg("writing the store panicked")
	case !committing:
		return err
	case IsFull(err) && !f.visible(txid):
		return fmt.Errorf("commit %s: %w", f.path, err)
	}
	return f.fail(err, panicked)
}

// visible reports whether readers see the transaction whose commit has failed.
// Bolt writes the meta page last, so a transaction that nobody sees never got
// there: it changed nothing. Where that cannot be told, it counts as seen.
func (f *File) visible(txid int) bool {
	seen := true
	err := guard(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			seen = tx.ID() >= txid
			return nil
		})
	})
	return err != nil || seen
}

// fail ends the writing and says why.
func (f *File) fail(cause error, wedged bool) error {
	f.failed.Store(&failure{fmt.Errorf("%s: %w: %w", f.path, ErrFailed, cause), wedged})
	f.log.Error().Str("path", f.path).Err(cause).Msg("outcome of a commit unknown, the store must be opened again")
	return f.Err()
}

// Err is nil while the File takes writes and wraps ErrFailed from the first
// commit of unknown outcome on.
func (f *File) Err() error {
	if why := f.failed.Load(); why != nil {
		return why.err
	}
	return nil
}

// Usage is the file's size in bytes: File as the directory shows it, Used without
// the free pages inside, Limit what Used can grow to (0: no limit).
type Usage struct {
	File, Used, Limit int64
}

// Usage measures the file after the last commit.
func (f *File) Usage() (u Usage, err error) {
	st, err := f.fd.Stat()
	if err != nil {
		return u, fmt.Errorf("measure %s: %w", f.path, err)
	}
	u.File = st.Size()
	if f.db.MaxSize > 0 {
		// Bolt refuses the page from which the file would have to grow past the
		// bound by a step.
		u.Limit = int64(f.db.MaxSize - f.db.AllocSize)
	}
	err = f.View(func(tx *bbolt.Tx) error {
		stats := f.db.Stats()
		u.Used = tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*pageSize
		return nil
	})
	return u, err
}

// checkErrorsMax bounds what Check reports of one file, and checkErrorsEnd ends it:
// a tree whose pages lead in a circle has faults without end.
const (
	checkErrorsMax = 20
	checkErrorsEnd = 1000
)

// Check walks the whole file and reports pages that are lost, doubled or of the
// wrong type. Writers wait for it. A page that cannot be read at all ends the
// process (bbolt checks in a goroutine of its own), so files of doubtful origin
// are checked in a process of their own.
func (f *File) Check() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.View(func(tx *bbolt.Tx) error { return check(tx, f.path) })
}

// check drains the channel: bbolt's walker blocks on it for ever otherwise, as it
// does when there are too many faults to go on.
func check(tx *bbolt.Tx, path string) error {
	var found []error
	count := 0
	for err := range tx.Check() {
		if count++; count <= checkErrorsMax {
			found = append(found, err)
		}
		if count == checkErrorsEnd {
			break
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("check %s: %w: %d faults: %w", path, ErrDamaged, count, errors.Join(found...))
}

// UncleanPath reports, of the closed file at path, whether the process that held it
// before did not close it. Nothing else of the file is looked at, and it is not
// written to.
func UncleanPath(path string) (unclean bool, err error) {
	err = viewPath(path, false, func(tx *bbolt.Tx) error {
		own := tx.Bucket([]byte(ownBucket))
		if own == nil {
			return fmt.Errorf("open %s: %w: it is a bolt file, but none of oxyd's", path, ErrSchema)
		}
		v := own.Get(keyUnclean)
		unclean = len(v) > 0 && v[0] != 0
		return nil
	})
	return unclean, err
}

// CheckPath opens the closed file at path without writing to it and checks it.
func CheckPath(path string) error {
	return ViewPath(path, func(*bbolt.Tx) error { return nil })
}

// ViewPath opens the closed file at path without writing to it, checks it, and
// runs fn over it. While a process holds the file it gives ErrLocked. A page that
// cannot be read may end the process, as with Check.
//
// Of a file with one damaged meta page, which the next commit writes anew as a
// whole, bolt's own check knows nothing but that; it is left out then, and fn alone
// says whether the file is sound.
func ViewPath(path string, fn func(*bbolt.Tx) error) error {
	return viewPath(path, true, func(tx *bbolt.Tx) error {
		metas, err := metaPages(path)
		if err == nil && metas == 2 {
			err = check(tx, path)
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// metaPages counts the meta pages whose page header is that of one: id, flags (see
// bbolt's internal/common/page.go).
func metaPages(path string) (n int, err error) {
	const metaFlag = 0x04
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for id := range int64(2) {
		var head [10]byte
		if _, err := f.ReadAt(head[:], id*pageSize); err != nil {
			return 0, fmt.Errorf("read meta page: %w", err)
		}
		if binary.NativeEndian.Uint64(head[:]) == uint64(id) && binary.NativeEndian.Uint16(head[8:]) == metaFlag {
			n++
		}
	}
	return n, nil
}

func viewPath(path string, freelist bool, fn func(*bbolt.Tx) error) error {
	err := guard(func() error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if st.Size() < 2*pageSize { // bolt would write into it
			return fmt.Errorf("open %s: %w: %d bytes are no bolt file", path, ErrDamaged, st.Size())
		}
		db, err := bbolt.Open(path, fileMode, &bbolt.Options{ReadOnly: true, PreLoadFreelist: freelist, PageSize: pageSize, Timeout: lockTimeoutDefault})
		if err != nil {
			return openError(path, err)
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			// See identify: a page that is not there would end the process.
			if tx.Size() > st.Size() {
				return fmt.Errorf("open %s: %w: cut to %d of %d bytes", path, ErrDamaged, st.Size(), tx.Size())
			}
			return fn(tx)
		})
	})
	if _, panicked := errors.AsType[*panicError](err); panicked && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("read %s: %w: %w", path, ErrDamaged, err)
	}
	return err
}

// SchemaOf gives the schema that the file of a transaction was made with, or 0 where
// it is none of oxyd's.
func SchemaOf(tx *bbolt.Tx) uint64 {
	own := tx.Bucket([]byte(ownBucket))
	if own == nil {
		return 0
	}
	if v := own.Get(keySchema); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Close marks the file as cleanly closed and gives it up. After ErrFailed, and with
// Options.Unverified, it is left marked as unclean. A second Close does nothing.
func (f *File) Close() error {
	var err error
	if f.Err() == nil && !f.unverified {
		err = f.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(ownBucket)).Put(keyUnclean, []byte{0})
		})
		if errors.Is(err, berrors.ErrDatabaseNotOpen) {
			return nil
		}
	}
	if cerr := f.release(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", f.path, err)
	}
	return nil
}

// release gives up the lock whatever state bolt is in. After a panic bolt's mutexes
// may be held, so its Close could wait for ever; its mapping stays then, and with
// it the open file, so the lock has to be given back by name.
func (f *File) release() error {
	why := f.failed.Load()
	if f.db != nil && (why == nil || !why.wedged) {
		return f.db.Close()
	}
	if f.fd == nil {
		return nil
	}
	err := unix.Flock(int(f.fd.Fd()), unix.LOCK_UN)
	return errors.Join(err, f.fd.Close())
}

// ErrFull is what an owner reports when its own bound within the file is reached.
// IsFull knows it.
var ErrFull = errors.New("store is full")

// IsFull reports whether err says that there was no room: on the disk, within a
// quota, or within Options.MaxBytes. Nothing was changed then.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrFull) || errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	return IsDiskFull(err)
}

// IsDiskFull reports whether err says that the disk, or a quota on it, is full.
func IsDiskFull(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// Bolt wraps what fails while the file grows as text only.
		if errors.Is(err, e) || strings.HasSuffix(err.Error(), ": "+e.Error()) {
			return true
		}
	}
	return false
}

// panicError is a panic of bolt, or a fault in the mapped file, as an error.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guard turns panics and faults in fn into errors. A page of the mapping that
// the file does not have (cut, bad sector) is a fault, and fatal unless asked for
// as a panic.
func guard(fn func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	return fn()
}

// openError tells damage from trouble.
func openError(path string, err error) error {
	if _, panicked := errors.AsType[*panicError](err); panicked ||
		errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) ||
		strings.HasPrefix(err.Error(), "file size too small") {
		return fmt.Errorf("open %s: %w: %w", path, ErrDamaged, err)
	}
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("open %s: %w", path, ErrLocked)
	case errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("open %s: %w: %w", path, ErrSchema, err)
	case errors.Is(err, os.ErrNotExist):
		// It was there a moment ago: set aside by the process that held it.
		return fmt.Errorf("open %s: %w: %w", path, ErrLocked, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

package boltfile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// compactTxBytes bounds what compacting holds in memory.
const compactTxBytes = 1 << 20

// errOther: the file is not one to compact; open says why.
var errOther = errors.New("not a file of this kind")

// compact rewrites a closed file of which more than Options.CompactOver bytes, and
// more than half, are free pages: bolt never gives pages back to the disk. The
// caller holds the directory's lock.
//
//   - Cut before the rename: the file is as it was, beside a leftover under a
//     temporary name, which the next open removes.
//   - Cut after it: the name leads to the one or the other, and both are whole.
//
// It is no more than a saving: what hinders it (another process, a disk without
// room, damage) is no error of opening, which looks for itself.
func compact(path string, o Options) error {
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	c := compaction{path: path, temp: path + tempMark + hex.EncodeToString(random[:])}
	err := guard(func() error { return c.run(o) })
	c.release()
	if c.before == 0 || err != nil {
		os.Remove(c.temp)
		return err
	}
	o.Log.Info().Str("path", path).Int64("bytes_before", c.before).Int64("bytes_after", c.after).Msg("store compacted")
	return nil // createMissing syncs the name
}

// compaction is one at work.
type compaction struct {
	path, temp    string
	before, after int64    // bytes; 0: nothing to gain
	src, dst      *os.File // bolt's own descriptors: after a panic nothing else closes them
}

func (c *compaction) run(o Options) error {
	src, err := bbolt.Open(c.path, fileMode, &bbolt.Options{
		ReadOnly: true, PreLoadFreelist: true, PageSize: pageSize, Timeout: lockTimeoutMin, OpenFile: keeping(&c.src, 0)})
	if err != nil {
		return err
	}
	if c.before, err = worthwhile(src, c.path, o); err == nil && c.before > 0 {
		if c.after, err = c.rewrite(src); err == nil {
			// The lock on the old file is held until the new one has its name.
			err = os.Rename(c.temp, c.path)
		}
	}
	return errors.Join(err, src.Close())
}

// keeping opens as bolt wants, and keeps the descriptor.
func keeping(fd **os.File, also int) func(string, int, os.FileMode) (*os.File, error) {
	return func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		*fd, err = os.OpenFile(name, flag|also, mode)
		return *fd, err
	}
}

// release gives up descriptors, and with them locks, whatever has happened. One
// that bolt has closed is closed.
func (c *compaction) release() {
	for _, fd := range []*os.File{c.src, c.dst} {
		if fd != nil {
			// A mapping that a panic has left keeps the open file, and so its lock.
			_ = unix.Flock(int(fd.Fd()), unix.LOCK_UN)
			fd.Close()
		}
	}
}

// worthwhile gives the file's size, or 0 when there is too little to gain.
func worthwhile(db *bbolt.DB, path string, o Options) (size int64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		own := tx.Bucket([]byte(ownBucket))
		if own == nil || string(own.Get(keyKind)) != o.Kind || tx.Size() > st.Size() {
			return errOther
		}
		if schema := own.Get(keySchema); len(schema) != 8 || binary.BigEndian.Uint64(schema) > o.Schema {
			return errOther
		}
		free := int64(db.Stats().FreePageN) * pageSize
		if free > o.CompactOver && free > st.Size()/2 {
			size = st.Size()
		}
		return nil
	})
	return size, err
}

// rewrite copies all buckets into a new file and syncs it.
func (c *compaction) rewrite(src *bbolt.DB) (size int64, err error) {
	dst, err := bbolt.Open(c.temp, fileMode, &bbolt.Options{
		Timeout: lockTimeoutMin, FreelistType: bbolt.FreelistMapType, PageSize: pageSize, NoSync: true,
		OpenFile: keeping(&c.dst, os.O_EXCL)})
	if err != nil {
		return 0, err
	}
	dst.AllocSize = growBytesMin
	if err := bbolt.Compact(dst, src, compactTxBytes); err != nil {
		return 0, errors.Join(fmt.Errorf("copy: %w", err), dst.Close())
	}
	st, err := c.dst.Stat()
	if err == nil {
		size, err = st.Size(), c.dst.Sync()
	}
	return size, errors.Join(err, dst.Close())
}

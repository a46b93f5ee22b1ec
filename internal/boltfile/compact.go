package boltfile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
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
func compact(dir *os.File, path string, o Options) error {
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	temp := path + tempMark + hex.EncodeToString(random[:])
	var before, after int64
	err := guard(func() (err error) {
		src, err := bbolt.Open(path, fileMode, &bbolt.Options{
			ReadOnly: true, PreLoadFreelist: true, PageSize: pageSize, Timeout: lockTimeoutMin})
		if err != nil {
			return err
		}
		defer src.Close()
		if before, err = worthwhile(src, path, o); err != nil || before == 0 {
			return err
		}
		if after, err = rewrite(src, temp); err != nil {
			return err
		}
		// The lock on the old file is held until the new one has its name.
		return os.Rename(temp, path)
	})
	if before == 0 || err != nil {
		os.Remove(temp)
		return err
	}
	o.Log.Info().Str("path", path).Int64("bytes_before", before).Int64("bytes_after", after).Msg("store compacted")
	return dir.Sync()
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
func rewrite(src *bbolt.DB, temp string) (size int64, err error) {
	var fd *os.File
	dst, err := bbolt.Open(temp, fileMode, &bbolt.Options{
		Timeout: lockTimeoutMin, FreelistType: bbolt.FreelistMapType, PageSize: pageSize, NoSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			fd, err = os.OpenFile(name, flag|os.O_EXCL, mode)
			return fd, err
		},
	})
	if err != nil {
		return 0, err
	}
	dst.AllocSize = growBytesMin
	if err := bbolt.Compact(dst, src, compactTxBytes); err != nil {
		return 0, errors.Join(fmt.Errorf("copy: %w", err), dst.Close())
	}
	if err := fd.Sync(); err != nil {
		return 0, errors.Join(err, dst.Close())
	}
	st, err := fd.Stat()
	if err == nil {
		size = st.Size()
	}
	return size, errors.Join(err, dst.Close())
}

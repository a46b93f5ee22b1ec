package boltfile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// tempMark stands between a file's name and a random suffix while it is made.
const tempMark = ".new-"

// asideMark stands between a damaged file's name and its number.
const asideMark = ".corrupt-"

// lockStep is the pause between two tries for the directory's lock.
const lockStep = 20 * time.Millisecond

// asideMax bounds the search for a free number.
const asideMax = 10_000

// createMissing makes the file under a temporary name, complete and synced, and
// gives it its name last: bolt's own first write is four pages under the final
// name, and a power cut among them leaves a file that kills whoever opens it.
//
//   - Cut before the rename: a leftover under a temporary name; the next open
//     removes it and begins anew. Nothing had been promised.
//   - Cut after the rename: the name is on disk or not; what it names is whole.
//   - Killed after the rename: the next open finds the file and syncs its name.
//
// The directory is locked meanwhile, so that of two processes that find no file
// one makes it and the other finds it, and nobody's half-made file is taken for a
// leftover.
func createMissing(path string, o Options, deadline time.Time) (created bool, err error) {
	dir, err := lockDir(filepath.Dir(path), deadline)
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer dir.Close()
	if err := removeLeftovers(dir, path); err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	_, err = os.Lstat(path)
	if err == nil {
		if o.CompactOver > 0 && !o.Unverified {
			if err := compact(path, o); err != nil {
				o.Log.Debug().Err(err).Str("path", path).Msg("store not compacted")
			}
		}
		// Whoever gave the file its name may have been killed before he synced that: the
		// name stands in the page cache, and a power cut would take it with all that is
		// promised from now on.
		if err := dir.Sync(); err != nil {
			return false, fmt.Errorf("open %s: sync directory: %w", path, err)
		}
		return false, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	if err := create(dir, path, o); err != nil {
		return false, fmt.Errorf("create %s: %w", path, err)
	}
	return true, nil
}

// lockDir opens and locks a directory. The lock ends with the descriptor.
func lockDir(name string, deadline time.Time) (*os.File, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			break
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("directory %s is %w", name, ErrLocked)
			break
		}
		time.Sleep(lockStep)
	}
	dir.Close()
	return nil, err
}

// removeLeftovers removes what a cut creation left. The caller holds the
// directory's lock, so nobody is at work on them.
func removeLeftovers(dir *os.File, path string) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	prefix := filepath.Base(path) + tempMark
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func create(dir *os.File, path string, o Options) error {
	var random [24]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	temp := path + tempMark + hex.EncodeToString(random[16:])
	if err := fill(temp, o, random[:16]); err != nil {
		os.Remove(temp)
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system without the flag; under the directory's lock the name is
		// known to be free.
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// fill makes a whole file: buckets, kind, schema, identity, all synced.
func fill(temp string, o Options, id []byte) error {
	var fd *os.File
	db, err := bbolt.Open(temp, fileMode, &bbolt.Options{
		Timeout:      o.LockTimeout,
		FreelistType: bbolt.FreelistMapType,
		PageSize:     pageSize,
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			fd, err = os.OpenFile(name, flag|os.O_EXCL, mode)
			return fd, err
		},
	})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		own, err := tx.CreateBucket([]byte(ownBucket))
		if err != nil {
			return err
		}
		for _, name := range o.Buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return fmt.Errorf("bucket %s: %w", name, err)
			}
		}
		if err := own.Put(keyKind, []byte(o.Kind)); err != nil {
			return err
		}
		if err := own.Put(keySchema, binary.BigEndian.AppendUint64(nil, o.Schema)); err != nil {
			return err
		}
		return own.Put(keyID, id)
	})
	if err == nil {
		err = fd.Sync()
	}
	return errors.Join(err, db.Close())
}

// SetAside renames the file at path to path.corrupt-N with the first free N from
// 1, and syncs the directory. It refuses with ErrLocked while a process holds the
// file. Nothing is ever removed: what was damaged may still be read by hand.
func SetAside(path string) (newName string, err error) {
	dir, err := lockDir(filepath.Dir(path), time.Now().Add(lockTimeoutDefault))
	if err != nil {
		return "", fmt.Errorf("set aside %s: %w", path, err)
	}
	defer dir.Close()
	fd, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	defer fd.Close()
	if err := unix.Flock(int(fd.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return "", fmt.Errorf("set aside %s: %w", path, err)
	}
	newName, err = freeAside(path)
	if err != nil {
		return "", fmt.Errorf("set aside %s: %w", path, err)
	}
	// Whoever sets aside holds the directory's lock, so the name stays free.
	if err := os.Rename(path, newName); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return newName, fmt.Errorf("set aside %s: sync directory: %w", path, err)
	}
	return newName, nil
}

func freeAside(path string) (string, error) {
	for n := 1; n <= asideMax; n++ {
		name := fmt.Sprintf("%s%s%d", path, asideMark, n)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%d damaged files are there already", asideMax)
}

package boltfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// MakeDir makes the directory that stores are to be in, and those above it, and
// syncs the name of each that it made in the one above: the file system may keep a
// synced file and forget the directory that it is in (POSIX promises no more).
func MakeDir(path string, perm os.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	var fresh []string // the deepest first
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		fresh = append(fresh, at)
	}
	if err := os.MkdirAll(path, perm); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for _, made := range fresh {
		if err := syncName(made); err != nil {
			return fmt.Errorf("sync the name of directory %s: %w", made, err)
		}
	}
	if len(fresh) == 0 {
		// One that was there may be of a process that was killed before it synced this.
		// Where we may not look, somebody else has made it, long ago.
		for at := path; at != filepath.Dir(at) && syncName(at) == nil; at = filepath.Dir(at) {
		}
	}
	return nil
}

// syncName syncs the directory that a name is in.
func syncName(path string) error {
	above, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}

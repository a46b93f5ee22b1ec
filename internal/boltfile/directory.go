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
		above, err := os.Open(filepath.Dir(made))
		if err != nil {
			return fmt.Errorf("sync the name of directory %s: %w", made, err)
		}
		if err := errors.Join(above.Sync(), above.Close()); err != nil {
			return fmt.Errorf("sync the name of directory %s: %w", made, err)
		}
	}
	return nil
}

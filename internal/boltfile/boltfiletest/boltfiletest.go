// Package boltfiletest ends tests that touch a store with that store's check.
package boltfiletest

import (
	"errors"
	"testing"

	berrors "go.etcd.io/bbolt/errors"

	"oxyd/internal/boltfile"
)

// CheckOnCleanup checks f when the test ends and closes it; a file that the test
// has closed is checked under its path. Call it right after Open.
func CheckOnCleanup(tb testing.TB, f *boltfile.File) {
	tb.Helper()
	path := f.Path()
	tb.Cleanup(func() {
		err := f.Check()
		if errors.Is(err, berrors.ErrDatabaseNotOpen) {
			err = boltfile.CheckPath(path)
		}
		if err != nil {
			tb.Errorf("store at the end of the test: %v", err)
		}
		if err := f.Close(); err != nil {
			tb.Errorf("store at the end of the test: %v", err)
		}
	})
}

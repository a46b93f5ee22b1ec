package boltfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMakeDir(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b", "c")
	for range 2 { // the second time there is nothing to do
		if err := MakeDir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat(deep); err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v, want a directory with rights 0700", st, err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeDir(filepath.Join(file, "x"), 0o700); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v, want ENOTDIR", err)
	}
}

package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"oxyd/internal/boltfile"
)

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// swell makes the file large and empties all but a few records.
func swell(t *testing.T, path string, o boltfile.Options, keep int) {
	t.Helper()
	f, err := boltfile.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(i))) }
	for i := range 60 {
		if err := put(f, key(i), bytes.Repeat([]byte{byte(i)}, 50_000)); err != nil {
			t.Fatal(err)
		}
	}
	for i := keep; i < 60; i++ {
		if err := put(f, key(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenCompacts(t *testing.T) {
	for _, c := range []struct {
		name    string
		over    int64
		keep    int
		shrinks bool
	}{
		{"mostly free", 1 << 20, 5, true},
		{"less than the bound", 8 << 20, 5, false},
		{"less than half", 1 << 20, 40, false},
		{"not asked for", 0, 5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			o := options()
			o.MaxBytes = 0
			swell(t, path, o, c.keep)
			before := size(t, path)
			// What a kill -9 amid an earlier try has left.
			mustWrite(t, path+".new-0123456789abcdef", make([]byte, 70_000))
			o.CompactOver = c.over
			f := open(t, path, o)
			if after := size(t, path); after < before/2 != c.shrinks {
				t.Errorf("%d bytes, were %d, want less than half: %t", after, before, c.shrinks)
			}
			if v := get(t, f, string(binary.BigEndian.AppendUint32(nil, 4))); !bytes.Equal(v, bytes.Repeat([]byte{4}, 50_000)) {
				t.Errorf("a record of %d bytes, want it as it was", len(v))
			}
			if f.Created() || f.Unclean() {
				t.Errorf("created %t, unclean %t, want neither: it is the same store", f.Created(), f.Unclean())
			}
			if err := f.Check(); err != nil {
				t.Error(err)
			}
			left, err := filepath.Glob(path + ".new-*")
			if err != nil || len(left) != 0 {
				t.Errorf("leftovers %v, %v, want none", left, err)
			}
			// The new file is held like any other.
			if err := put(f, "more", []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// What cannot be compacted is opened, or refused, as without it.
func TestCompactLeavesDoubtfulFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	o := options()
	o.MaxBytes = 0
	swell(t, path, o, 5)
	other := o
	other.Kind, other.CompactOver = "another", 1<<20
	before := mustRead(t, path)
	if _, err := boltfile.Open(path, other); !errors.Is(err, boltfile.ErrSchema) {
		t.Errorf("Open of another kind = %v, want ErrSchema", err)
	}
	o.CompactOver = 1 << 20
	for _, part := range []int{2, 3, 50, 400} {
		mustWrite(t, path, before[:len(before)/part])
		if _, err := boltfile.Open(path, o); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("Open of a file cut to 1/%d = %v, want ErrDamaged: no lock is left behind", part, err)
		}
		if got := mustRead(t, path); !bytes.Equal(got, before[:len(before)/part]) {
			t.Error("the doubtful file was changed")
		}
	}
}

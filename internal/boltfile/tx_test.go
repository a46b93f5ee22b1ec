package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func openTest(t *testing.T, path string, maxBytes int64) *File {
	t.Helper()
	f, err := Open(path, Options{Kind: "outbox", Schema: 1, Buckets: []string{"rows"}, MaxBytes: maxBytes, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.release() })
	return f
}

func put(f *File, n int, size int) error {
	return f.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("rows")).Put(fmt.Appendf(nil, "%08d", n), bytes.Repeat([]byte{byte(n)}, size))
	})
}

func count(t *testing.T, f *File) (n int) {
	t.Helper()
	if err := f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("rows")).ForEach(func(_, _ []byte) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// fillUp puts rows until one is refused and returns how many there are.
func fillUp(t *testing.T, f *File) int {
	t.Helper()
	for n := count(t, f); n < 100_000; n++ {
		if err := put(f, n, 2000); err != nil {
			if !IsFull(err) || !strings.Contains(err.Error(), f.Path()) {
				t.Fatalf("put %d = %v, want one that IsFull and names the path", n, err)
			}
			if got := count(t, f); got != n {
				t.Fatalf("%d rows after the refusal, want %d", got, n)
			}
			return n
		}
	}
	t.Fatal("never full")
	return 0
}

// afterFull makes room inside the file and goes on with the same handle.
func afterFull(t *testing.T, f *File, n int) {
	t.Helper()
	if err := f.Err(); err != nil {
		t.Fatalf("Err = %v, want a File that goes on", err)
	}
	if err := f.Update(func(tx *bbolt.Tx) error {
		for i := range n / 2 {
			if err := tx.Bucket([]byte("rows")).Delete(fmt.Appendf(nil, "%08d", i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("delete while full: %v", err)
	}
	for i := range n / 4 {
		if err := put(f, n+i, 2000); err != nil {
			t.Fatalf("put %d after making room: %v", i, err)
		}
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := CheckPath(f.Path()); err != nil {
		t.Error(err)
	}
}

func TestFullAtMaxBytes(t *testing.T) {
	const maxBytes = 2 << 20
	f := openTest(t, filepath.Join(t.TempDir(), "a.db"), maxBytes)
	n := fillUp(t, f)
	u, err := f.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.File > maxBytes || u.Used > u.Limit || u.Used < u.Limit*9/10 {
		t.Errorf("full at %+v, want within %d and nearly at the limit", u, maxBytes)
	}
	afterFull(t, f, n)
}

func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIPPED: a small file system cannot be mounted here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestFC12DiskFullResumesWithoutReopen(t *testing.T) {
	dir := smallDisk(t)
	f := openTest(t, filepath.Join(dir, "a.db"), 0)
	n := fillUp(t, f)
	afterFull(t, f, n)

	// The other way: space comes back outside the file.
	if err := os.Remove(f.Path()); err != nil {
		t.Fatal(err)
	}
	g := openTest(t, filepath.Join(dir, "b.db"), 0)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	n = fillUp(t, g)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := put(g, n, 2000); err != nil {
		t.Errorf("put after space returned = %v, want nil", err)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
}

// A disk may be so full that not even a deletion finds its pages: the reserve has
// them, and comes back once there is room.
func TestFC12ReserveEmptiesAFullDisk(t *testing.T) {
	path := filepath.Join(smallDisk(t), "a.db")
	o := Options{Kind: "outbox", Schema: 1, Buckets: []string{"rows"}, ReserveBytes: 128 << 10, Log: zerolog.Nop()}
	f, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.release() })
	n := fillUp(t, f)
	for i := 0; put(f, n, 10+i%2000) == nil; i++ {
		n++ // the last free pages
	}
	erase := func(from, to int) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			for i := from; i < to; i++ {
				if err := tx.Bucket([]byte("rows")).Delete(fmt.Appendf(nil, "%08d", i)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	// Touch every other leaf: more pages than are left.
	scattered := func(tx *bbolt.Tx) error {
		for i := 0; i < 80; i += 2 {
			if err := erase(i, i+1)(tx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := f.Update(scattered); !IsFull(err) {
		t.Fatalf("Update = %v, want one that IsFull: the test needs a tighter disk", err)
	}
	if err := f.UpdateTight(scattered); err != nil {
		t.Fatalf("UpdateTight = %v", err)
	}
	if err := f.UpdateTight(erase(0, n/2)); err != nil {
		t.Fatalf("UpdateTight = %v", err)
	}
	f.reserveTried = time.Time{}
	if err := f.UpdateTight(erase(n/2, n/2+1)); err != nil {
		t.Fatalf("UpdateTight = %v", err)
	}
	if f.reserved != f.reserveWant || f.reserveWant != 32 {
		t.Errorf("reserve of %d pages, want %d again", f.reserved, f.reserveWant)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	g, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.reserved != 32 {
		t.Errorf("reserve of %d pages after opening again, want 32", g.reserved)
	}
}

func TestUnknownOutcomeEndsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := openTest(t, path, 0)
	if err := put(f, 1, 10); err != nil {
		t.Fatal(err)
	}
	f.fd.Close() // every write from now on fails, and not for want of room
	err := put(f, 2, 10)
	if !errors.Is(err, ErrFailed) || !errors.Is(err, os.ErrClosed) || IsFull(err) {
		t.Errorf("put = %v, want ErrFailed and its cause", err)
	}
	if again := put(f, 3, 10); again == nil || again.Error() != err.Error() {
		t.Errorf("next put = %v, want the first failure again", again)
	}
	if err := f.Err(); !errors.Is(err, ErrFailed) {
		t.Errorf("Err = %v, want ErrFailed", err)
	}
	f.Close()
	g := openTest(t, path, 0)
	if !g.Unclean() {
		t.Error("clean after a failure, want unclean")
	}
	if err := put(g, 2, 10); err != nil {
		t.Errorf("put after opening again = %v, want nil", err)
	}
}

func TestFullButVisibleIsUnknown(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "a.db"), 0)
	var last int
	if err := f.Update(func(tx *bbolt.Tx) error { last = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	if !f.visible(last) {
		t.Error("the last committed transaction is not visible")
	}
	if f.visible(last + 1) {
		t.Error("a transaction that was never committed is visible")
	}
}

func TestErrorOfFnChangesNothing(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "a.db"), 0)
	want := errors.New("no")
	err := f.Update(func(tx *bbolt.Tx) error {
		tx.Bucket([]byte("rows")).Put([]byte("k"), []byte("v"))
		return want
	})
	if err != want || count(t, f) != 0 || f.Err() != nil {
		t.Errorf("Update = %v, rows %d, Err %v, want %v, 0, nil", err, count(t, f), f.Err(), want)
	}
}

func TestPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := openTest(t, path, 0)
	if err := f.View(func(*bbolt.Tx) error { panic("page 7: wrong type") }); err == nil || !strings.Contains(err.Error(), "page 7") {
		t.Errorf("View = %v, want the panic as an error", err)
	}
	if err := put(f, 1, 10); err != nil {
		t.Errorf("put after a panic in View = %v, want nil", err)
	}
	if err := f.Update(func(*bbolt.Tx) error { panic("page 8: already freed") }); !errors.Is(err, ErrFailed) {
		t.Errorf("Update = %v, want ErrFailed", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if g := openTest(t, path, 0); count(t, g) != 1 {
		t.Errorf("%d rows, want 1", count(t, g))
	}
}

// When bolt panics once more while it rolls back, it keeps its locks for ever.
func TestWedgedFileCanBeClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := openTest(t, path, 0)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 2 * pageSize; at+pageSize <= len(b); at += pageSize {
		if b[at+8] == 0x10 { // page flags: free list
			if _, err := f.fd.WriteAt(make([]byte, pageSize), int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Update(func(*bbolt.Tx) error { panic("page 8: already freed") }); !errors.Is(err, ErrFailed) {
		t.Errorf("Update = %v, want ErrFailed", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("Close = %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for ever")
	}
	if _, err := Open(path, Options{Kind: "outbox", Schema: 1}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open = %v, want ErrDamaged", err)
	}
	if _, err := SetAside(path); err != nil {
		t.Errorf("SetAside = %v: the lock was kept", err)
	}
}

// A file cut under a running process is a fault in the mapping, not an error of
// a system call.
func TestFileCutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := openTest(t, path, 0)
	for i := range 50 {
		if err := put(f, i, 3000); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	err := f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("rows")).ForEach(func(_, v []byte) error { _ = bytes.Count(v, []byte{0}); return nil })
	})
	if err == nil {
		t.Error("View = nil, want the fault as an error")
	}
}

func TestIsFull(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fmt.Errorf("write: %w", unix.ENOSPC), true},
		{fmt.Errorf("write: %w", unix.EDQUOT), true},
		{fmt.Errorf("file resize error: %s", &os.PathError{Op: "truncate", Path: "a", Err: unix.EFBIG}), true},
		{fmt.Errorf("outbox: %w", ErrFull), true},
		{fmt.Errorf("write: %w", unix.EIO), false},
		{fmt.Errorf("write: %w", unix.EROFS), false},
	} {
		if got := IsFull(c.err); got != c.want {
			t.Errorf("IsFull(%v) = %t, want %t", c.err, got, c.want)
		}
	}
}

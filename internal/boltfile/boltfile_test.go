package boltfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/boltfile/boltfiletest"
)

// holdEnv makes the test binary a process that opens the named file and holds it.
const holdEnv = "OXYD_TEST_HOLD_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		hold(path)
	}
	os.Exit(m.Run())
}

func hold(path string) {
	f, err := boltfile.Open(path, options())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("holding")
	io.Copy(io.Discard, os.Stdin) // until the parent lets go
	f.Close()
	os.Exit(0)
}

func options() boltfile.Options {
	return boltfile.Options{Kind: "outbox", Schema: 1, Buckets: []string{"rows"}, Log: zerolog.Nop()}
}

func open(t *testing.T, path string, o boltfile.Options) *boltfile.File {
	t.Helper()
	f, err := boltfile.Open(path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	boltfiletest.CheckOnCleanup(t, f)
	return f
}

func put(f *boltfile.File, key string, value []byte) error {
	return f.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("rows")).Put([]byte(key), value)
	})
}

func get(t *testing.T, f *boltfile.File, key string) (v []byte) {
	t.Helper()
	err := f.View(func(tx *bbolt.Tx) error {
		v = bytes.Clone(tx.Bucket([]byte("rows")).Get([]byte(key)))
		return nil
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return v
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustWrite(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenMakesThenFinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := open(t, path, options())
	if !f.Created() || f.Unclean() || f.Schema() != 1 {
		t.Errorf("new file: created %t unclean %t schema %d, want true false 1", f.Created(), f.Unclean(), f.Schema())
	}
	if err := put(f, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	id := f.ID()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, options())
	if again.Created() || again.ID() != id || id == [16]byte{} {
		t.Errorf("reopened: created %t id %x, want false %x", again.Created(), again.ID(), id)
	}
	if got := get(t, again, "k"); string(got) != "v" {
		t.Errorf("k = %q, want v", got)
	}
}

// What a killed process leaves is the file as it stands in the page cache.
func TestUncleanAfterCrash(t *testing.T) {
	dir := t.TempDir()
	path, crashed := filepath.Join(dir, "a.db"), filepath.Join(dir, "crashed.db")
	f := open(t, path, options())
	mustWrite(t, crashed, mustRead(t, path))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path, options()).Unclean(); got {
		t.Error("unclean after Close, want clean")
	}
	f = open(t, crashed, options())
	if !f.Unclean() {
		t.Error("clean after a crash, want unclean")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if open(t, crashed, options()).Unclean() {
		t.Error("unclean after the Close that followed a crash, want clean")
	}
}

func TestOpenEndsWithABarrierCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	txid := func(f *boltfile.File) (id int) {
		f.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil })
		return id
	}
	f := open(t, path, options())
	before := txid(f)
	if err := f.Close(); err != nil { // one commit
		t.Fatal(err)
	}
	if got, want := txid(open(t, path, options())), before+2; got != want {
		t.Errorf("transaction %d visible after Open, want %d: Close's and a barrier", got, want)
	}
}

func TestFC89PartialFileIsSetAsideAndMadeAnew(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	if err := open(t, whole, options()).Close(); err != nil {
		t.Fatal(err)
	}
	pages := mustRead(t, whole)
	fresh := filepath.Join(t.TempDir(), "fresh.db") // bolt's own first write, cut
	db, err := bbolt.Open(fresh, 0o600, &bbolt.Options{PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	init := mustRead(t, fresh)

	for name, partial := range map[string][]byte{
		"0 bytes":             nil,
		"1 page":              pages[:4096],
		"2 pages":             pages[:2*4096],
		"3 pages":             pages[:3*4096],
		"first page of init":  init[:4096],
		"3 pages of init":     init[:3*4096],
		"init, torn mid page": init[:4096+512],
		"all zeros":           make([]byte, 64<<10),
		"no bolt file":        bytes.Repeat([]byte("oxygen "), 4000),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			mustWrite(t, path, partial)
			for n := 1; n <= 2; n++ {
				_, err := boltfile.Open(path, options())
				if !errors.Is(err, boltfile.ErrDamaged) || !strings.Contains(err.Error(), path) {
					t.Fatalf("Open = %v, want ErrDamaged naming %s", err, path)
				}
				if got := mustRead(t, path); !bytes.Equal(got, partial) {
					t.Fatal("Open wrote to a damaged file")
				}
			}
			for n := 1; n <= 2; n++ {
				aside, err := boltfile.SetAside(path)
				if want := fmt.Sprintf("%s.corrupt-%d", path, n); err != nil || aside != want {
					t.Fatalf("SetAside = %q, %v, want %q", aside, err, want)
				}
				if got := mustRead(t, aside); !bytes.Equal(got, partial) {
					t.Error("the file set aside has changed")
				}
				if n == 1 {
					mustWrite(t, path, partial)
				}
			}
			f := open(t, path, options())
			if err := put(f, "k", []byte("v")); err != nil || !f.Created() {
				t.Errorf("put = %v, created %t, want a new file that works", err, f.Created())
			}
		})
	}
}

func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	f := open(t, path, options())
	for i := range 200 {
		if err := put(f, fmt.Sprint(i), bytes.Repeat([]byte{1}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	good := mustRead(t, path)

	t.Run("cut", func(t *testing.T) {
		// Whatever page the cut hits: either it is seen, or it hit nothing.
		whole := 0
		for size := 4096; size < len(good); size += 9 * 4096 {
			cut := filepath.Join(t.TempDir(), "a.db")
			mustWrite(t, cut, good[:size])
			f, err := boltfile.Open(cut, options())
			if errors.Is(err, boltfile.ErrDamaged) {
				continue
			}
			if err != nil {
				t.Fatalf("cut to %d: Open = %v, want ErrDamaged or nil", size, err)
			}
			whole++
			for i := range 200 {
				if got := get(t, f, fmt.Sprint(i)); len(got) != 1000 {
					t.Fatalf("cut to %d: record of %d bytes", size, len(got))
				}
			}
			f.Close()
		}
		t.Logf("%d cuts hit nothing", whole)
	})
	for page := range 2 {
		t.Run(fmt.Sprintf("meta page %d", page), func(t *testing.T) {
			one := filepath.Join(t.TempDir(), "a.db")
			b := bytes.Clone(good)
			clear(b[page*4096 : (page+1)*4096])
			mustWrite(t, one, b)
			f := open(t, one, options())
			if got := get(t, f, "7"); len(got) != 1000 {
				t.Errorf("record of %d bytes, want 1000: the other meta page should do", len(got))
			}
		})
	}
	t.Run("free list page", func(t *testing.T) {
		// bbolt panics here and leaks its descriptor with the lock.
		bad := filepath.Join(t.TempDir(), "a.db")
		b := bytes.Clone(good)
		for at := 2 * 4096; at < len(b); at += 4096 {
			if b[at+8] == 0x10 { // page flags: free list
				clear(b[at : at+4096])
			}
		}
		mustWrite(t, bad, b)
		if _, err := boltfile.Open(bad, options()); !errors.Is(err, boltfile.ErrDamaged) {
			t.Fatalf("Open = %v, want ErrDamaged", err)
		}
		if _, err := boltfile.SetAside(bad); err != nil {
			t.Errorf("SetAside = %v: the lock was leaked", err)
		}
	})
}

func TestForeignFilesAreNotTouched(t *testing.T) {
	dir := t.TempDir()
	ours := filepath.Join(dir, "ours.db")
	o := options()
	o.Schema = 2
	if err := open(t, ours, o).Close(); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()

	kind := options()
	kind.Kind, kind.Schema = "ledger", 2
	later := options()
	later.Schema, later.Oldest = 3, 3
	for _, c := range []struct {
		name, path, says string
		o                boltfile.Options
	}{
		{"newer schema", ours, "schema is 2", options()},
		{"older schema", ours, "schema is 2, known are those from 3", later},
		{"other kind", ours, `kind "outbox"`, kind},
		{"none of ours", foreign, "none of oxyd's", options()},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := mustRead(t, c.path)
			_, err := boltfile.Open(c.path, c.o)
			if !errors.Is(err, boltfile.ErrSchema) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("Open = %v, want ErrSchema saying %s", err, c.says)
			}
			if !bytes.Equal(before, mustRead(t, c.path)) {
				t.Error("the file was written to")
			}
		})
	}
}

func TestFC91SecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	cmd.Stderr = os.Stderr
	release, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("holding\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatalf("holder said %q, %v", line, err)
	}

	start := time.Now()
	_, err = boltfile.Open(path, options())
	if took := time.Since(start); took >= 5*time.Second {
		t.Errorf("refused after %v, want under 5 s", took)
	}
	if !errors.Is(err, boltfile.ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another oxyd") {
		t.Errorf("Open = %v, want ErrLocked naming the path and another oxyd", err)
	}
	if _, err := boltfile.SetAside(path); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("SetAside of a held file = %v, want ErrLocked", err)
	}
	release.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("holder: %v", err)
	}
	if open(t, path, options()).Created() {
		t.Error("the file was made again, want that of the holder")
	}
}

// Of many that find no file, one makes it; nobody ends up with a file of his own.
func TestConcurrentCreation(t *testing.T) {
	for range 10 {
		path := filepath.Join(t.TempDir(), "a.db")
		var mu sync.Mutex
		created, opened := 0, map[[16]byte]int{}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				o := options()
				o.LockTimeout = 10 * time.Second
				f, err := boltfile.Open(path, o)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				mu.Lock()
				opened[f.ID()]++
				if f.Created() {
					created++
				}
				mu.Unlock()
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(opened) != 1 || created != 1 {
			t.Fatalf("identities %d, created %d, want 1 and 1", len(opened), created)
		}
	}
}

func TestLeftoversOfACutCreationGo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	mustWrite(t, path+".new-0011", []byte("half"))
	other := filepath.Join(dir, "b.db.new-0011")
	mustWrite(t, other, []byte("of another store"))
	open(t, path, options())
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range names {
		got = append(got, n.Name())
	}
	if want := "a.db b.db.new-0011"; strings.Join(got, " ") != want {
		t.Errorf("directory holds %q, want %q", got, want)
	}
}

func TestOpenErrorsNameThePath(t *testing.T) {
	for _, path := range []string{
		filepath.Join(t.TempDir(), "missing", "a.db"),
		t.TempDir(), // a directory
	} {
		if _, err := boltfile.Open(path, options()); err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("Open(%s) = %v, want an error that names it and does not call it damaged", path, err)
		}
	}
}

// What a child asks before it looks through a file, without writing to it.
func TestUncleanPath(t *testing.T) {
	dir := t.TempDir()
	path, crashed := filepath.Join(dir, "a.db"), filepath.Join(dir, "crashed.db")
	f := open(t, path, options())
	if _, err := boltfile.UncleanPath(path); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("held: %v", err)
	}
	mustWrite(t, crashed, mustRead(t, path))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{path: false, crashed: true} {
		before := mustRead(t, name)
		if got, err := boltfile.UncleanPath(name); err != nil || got != want {
			t.Errorf("%s: got %t, %v, want %t", name, got, err, want)
		}
		if !bytes.Equal(mustRead(t, name), before) {
			t.Errorf("%s was written to", name)
		}
	}
	mustWrite(t, crashed, nil)
	if _, err := boltfile.UncleanPath(crashed); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("empty: %v", err)
	}
}

package integrity

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// TestMain makes the test binary the child that it starts.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 0 && args[0] == Command {
		all := len(args) > 1 && args[1] == always
		sound, err := Main(args[len(args)-2], args[len(args)-1], all, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if !sound {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second longer under -race
	os.Exit(m.Run())
}

// patience is more than any look at these small files takes.
const patience = time.Minute

// dir is in memory where there is such a place: many files are written.
func dir(t *testing.T) string {
	t.Helper()
	if st, err := os.Stat("/dev/shm"); err != nil || !st.IsDir() {
		return t.TempDir()
	}
	d, err := os.MkdirTemp("/dev/shm", "oxyd-integrity-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func account(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	opening := 847 * physic.Gram
	l, err := ledger.Open(ledger.Options{Path: path, Log: zerolog.Nop(), Tanks: []ledger.Tank{{ID: "A", Initial: &opening}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// clock is a board's clocks that stand still.
type clock struct{ at time.Time }

func (c clock) Now() time.Time      { return c.at }
func (c clock) Mono() time.Duration { return time.Hour }
func (c clock) BootID() string      { return "boot" }
func (c clock) Synced() bool        { return true }

func queue(t *testing.T, path string) *outbox.Outbox {
	t.Helper()
	o, err := outbox.Open(outbox.Options{Path: path, Source: "ctl", Clock: clock{time.Now()}, Log: zerolog.Nop(),
		Topic: func(k event.Type, tank string) string { return tank + "/" + k.Topic() }})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// killed gives a store as a kill -9 leaves it, with some hundred events in it.
func killed(t *testing.T, kind string) (path string, text []byte) {
	t.Helper()
	live := filepath.Join(dir(t), kind+".bolt")
	var end func() error
	switch kind {
	case Ledger:
		l := account(t, live)
		end = l.Close
		for n := range 300 {
			e := event.Event{Type: event.Consumed, Tank: "A", ID: fmt.Sprint("e-", n), Amount: physic.Gram, Version: 1, Source: fmt.Sprint("s", n%3)}
			if n%10 == 0 {
				e.Type = event.Measured
			}
			if _, err := l.Apply([]ledger.Delivery{{Event: e, Topic: "t"}}); err != nil {
				t.Fatal(err)
			}
		}
	case Outbox:
		o := queue(t, live)
		end = o.Close
		for n := range 300 {
			if _, err := o.Append(event.Event{Type: event.Consumed, Tank: fmt.Sprint("T", n%3), Amount: physic.Gram, Version: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if rows, err := o.Next(0, 100); err != nil || len(rows) == 0 {
			t.Fatal(len(rows), err)
		}
	}
	text, err := os.ReadFile(live)
	if err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir(t), kind+".bolt")
	put(t, path, text)
	return path, text
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, kind, path string) Verdict {
	t.Helper()
	return Check(t.Context(), Self, kind, path, patience)
}

const page = 4096

func zeros(text []byte) []byte { return make([]byte, len(text)) }

// half cuts at the half of what is used: behind it the file has room to grow.
func half(text []byte) []byte { return text[:len(bytes.TrimRight(text, "\x00"))/2] }

// inverted turns all bits of a page from an offset on. With its header left as it
// is, what the page leads to is anywhere.
func inverted(text []byte, n, from int) []byte {
	out := bytes.Clone(text)
	for i := n*page + from; i < (n+1)*page; i++ {
		out[i] = ^out[i]
	}
	return out
}

// headerBytes is a page's header.
const headerBytes = 16

// stores runs a test for both kinds.
func stores(t *testing.T, test func(t *testing.T, kind, path string, text []byte)) {
	for _, kind := range []string{Ledger, Outbox} {
		t.Run(kind, func(t *testing.T) {
			path, text := killed(t, kind)
			if v := check(t, kind, path); v.State != Trusted || !v.Looked {
				t.Fatalf("the store that was only killed: %+v", v)
			}
			test(t, kind, path, text)
		})
	}
}

func TestFC88aAllZeros(t *testing.T) {
	stores(t, func(t *testing.T, kind, path string, text []byte) {
		put(t, path, zeros(text))
		if v := check(t, kind, path); v.State != Damaged || v.Reason == "" {
			t.Errorf("%+v", v)
		}
		put(t, path, nil)
		if v := check(t, kind, path); v.State != Damaged {
			t.Errorf("empty: %+v", v)
		}
	})
}

func TestFC88bHalf(t *testing.T) {
	stores(t, func(t *testing.T, kind, path string, text []byte) {
		put(t, path, half(text))
		if v := check(t, kind, path); v.State != Damaged || v.Reason == "" {
			t.Errorf("%+v", v)
		}
	})
}

// The other meta page is that of the transaction before: the last one was not yet
// acknowledged, or is the barrier of the process that was killed.
func TestFC88cFirstMetaPageDamaged(t *testing.T) {
	stores(t, func(t *testing.T, kind, path string, text []byte) {
		for _, n := range []int{0, 1} {
			for _, from := range []int{0, headerBytes} {
				put(t, path, inverted(text, n, from))
				if v := check(t, kind, path); v.State != Trusted || !v.Looked {
					t.Errorf("meta page %d from %d: %+v", n, from, v)
				}
				open(t, kind, path)
				if v := Look(t.Context(), Self, kind, path, patience); v.State != Trusted {
					t.Errorf("meta page %d from %d, once opened: %+v", n, from, v)
				}
			}
		}
	})
}

var (
	seed     = flag.Uint64("seed", rand.Uint64(), "chooses the pages that are flipped")
	allPages = flag.Bool("pages", false, "flip every page in turn (minutes)")
)

// pages is how many are flipped of each store.
const pages = 10

// A page at random, many times over. Whatever reading it does to the child, the parent gets a
// verdict; a file that is trusted is one in which the store finds nothing either.
func TestFC88dPageFlipped(t *testing.T) {
	stores(t, func(t *testing.T, kind, path string, text []byte) {
		t.Logf("-seed %d", *seed)
		used := []int{}
		for n := 2; n < len(text)/page; n++ {
			if !allZero(text[n*page : (n+1)*page]) { // else beyond what was ever written
				used = append(used, n)
			}
		}
		if !*allPages {
			random := rand.New(rand.NewPCG(*seed, 0))
			random.Shuffle(len(used), func(i, j int) { used[i], used[j] = used[j], used[i] })
			used = used[:min(pages, len(used))]
		}
		found, died, trusted := 0, 0, 0
		for _, n := range used {
			for _, from := range []int{0, headerBytes} {
				put(t, path, inverted(text, n, from))
				v := check(t, kind, path)
				switch v.State {
				case Damaged:
					found++
					if strings.Contains(v.Reason, "ended the reader") {
						died++
					}
				case Trusted:
					trusted++
					open(t, kind, path)
				default:
					t.Errorf("page %d from %d: %+v", n, from, v)
				}
			}
		}
		t.Logf("%d of %d found, %d of them by the child's death", found, found+trusted, died)
		if found == 0 {
			t.Error("none is found")
		}
	})
}

// A page that leads far behind the mapping ends the child; one that leads to itself
// would keep it busy for ever.
func TestWildAndCircularPages(t *testing.T) {
	stores(t, func(t *testing.T, kind, path string, text []byte) {
		died := 0
		for n := 2; n < len(text)/page; n++ {
			if binary.NativeEndian.Uint16(text[n*page+8:]) != 1 { // a branch page
				continue
			}
			for _, to := range []uint64{1 << 20, uint64(n)} {
				changed := bytes.Clone(text)
				binary.NativeEndian.PutUint64(changed[n*page+headerBytes+8:], to) // its first child
				put(t, path, changed)
				v := check(t, kind, path)
				if v.State == Trusted { // a page that is free
					open(t, kind, path)
				} else if v.State != Damaged {
					t.Errorf("page %d leads to %d: %+v", n, to, v)
				}
				if strings.Contains(v.Reason, "ended the reader") {
					died++
				}
			}
		}
		if died == 0 {
			t.Error("no child has died: the test shows nothing")
		}
	})
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// open opens a store that was trusted and checks it in this process.
func open(t *testing.T, kind, path string) {
	t.Helper()
	switch kind {
	case Ledger:
		l := account(t, path)
		if err := l.Check(); err != nil {
			t.Errorf("trusted, and then: %v", err)
		}
		l.Close()
	case Outbox:
		o := queue(t, path)
		for after := uint64(0); ; { // moves damaged rows out of the way
			rows, err := o.Next(after, 100)
			if err != nil {
				t.Errorf("trusted, and then: %v", err)
			}
			if len(rows) == 0 {
				break
			}
			after = rows[len(rows)-1].Row
		}
		if err := o.Check(); err != nil {
			t.Errorf("trusted, and then: %v", err)
		}
		o.Close()
	}
}

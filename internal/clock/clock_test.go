package clock

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestSystem(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	a := s.Mono()
	b := s.Mono()
	if a <= 0 || b < a {
		t.Errorf("Mono = %v, then %v, want a rising time since boot", a, b)
	}
	if d := time.Since(s.Now()).Abs(); d > time.Second {
		t.Errorf("Now is %v off", d)
	}
	if now := s.Now(); now == now.Round(0) {
		t.Error("Now has no monotonic reading")
	}
	again, err := New()
	if err != nil || again.BootID() != s.BootID() || s.BootID() == "" {
		t.Errorf("BootID = %q and %q, %v, want one", s.BootID(), again.BootID(), err)
	}
}

func TestBootIDWithoutProc(t *testing.T) {
	none := filepath.Join(t.TempDir(), "boot_id")
	if a, b := readBootID(none), readBootID(none); a == b || a == "" {
		t.Errorf("boot ids %q and %q, want one for each process", a, b)
	}
}

// FC-47: a plausible date alone never counts as synchronised, and where adjtimex is
// forbidden, neither does the mere file of a time daemon that has long been silent.
func TestSynced(t *testing.T) {
	there := filepath.Join(t.TempDir(), "synchronized")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	touched := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if err := os.Chtimes(there, touched, touched); err != nil {
		t.Fatal(err)
	}
	absent := there + "-not"
	for _, c := range []struct {
		name     string
		maxError int // µs
		status   int32
		err      error
		path     string
		since    time.Duration // since the file was touched
		want     bool
	}{
		{"after boot: 16 s and unsynchronised", 16_000_000, unix.STA_UNSYNC, nil, there, 0, false},
		{"disciplined", 5_000, unix.STA_PLL, nil, absent, 0, true},
		{"disciplined, the flag left standing", 15_999_999, unix.STA_UNSYNC, nil, absent, 0, true},
		{"flag clear, the bound says nothing", 16_000_000, 0, nil, there, 0, false},
		{"forbidden, timesyncd has synchronised", 0, 0, unix.EPERM, there, time.Hour, true},
		{"forbidden by a filter with another error", 0, 0, unix.EACCES, there, time.Hour, true},
		{"unknown to a filter", 0, 0, unix.ENOSYS, there, time.Hour, true},
		{"forbidden, timesyncd has not", 0, 0, unix.EPERM, absent, 0, false},
		{"forbidden, timesyncd silent for 8.8 h", 0, 0, unix.EPERM, there, 8*time.Hour + 48*time.Minute, true},
		{"forbidden, timesyncd silent for 9 h", 0, 0, unix.EPERM, there, 9 * time.Hour, false},
		{"forbidden, the clock was set back since", 0, 0, unix.EPERM, there, -time.Hour, false},
		{"other error", 0, 0, unix.EFAULT, there, 0, false},
	} {
		s := &System{syncedPath: c.path, now: func() time.Time { return touched.Add(c.since) }, adjtimex: func(tx *unix.Timex) (int, error) {
			if tx.Modes != 0 {
				t.Errorf("%s: modes %#x, want 0: the clock is only read", c.name, tx.Modes)
			}
			setMaxError(tx, c.maxError)
			tx.Status = c.status
			return 0, c.err
		}}
		if got := s.Synced(); got != c.want {
			t.Errorf("%s: Synced = %t, want %t", c.name, got, c.want)
		}
	}
}

func TestWatchTellsStepsAndSync(t *testing.T) {
	maxError := 16_000_000
	var ahead time.Duration // of the wall clock
	s := &System{now: func() time.Time { return time.Now().Add(ahead) },
		adjtimex: func(tx *unix.Timex) (int, error) { setMaxError(tx, maxError); return 0, nil }}
	w := s.watching()
	for _, c := range []struct {
		name string
		do   func()
		want Change // the step to a tenth of a second
		news bool
	}{
		{"nothing", func() {}, Change{}, false},
		{"set by a day, not synchronised", func() { ahead = 24 * time.Hour }, Change{Step: 24 * time.Hour}, true},
		{"nothing more", func() {}, Change{}, false},
		{"slewed", func() { ahead += 100 * time.Millisecond }, Change{}, false},
		{"synchronised and set at once", func() { maxError, ahead = 0, 0 }, Change{Synced: true, Step: -24 * time.Hour}, true},
		{"stays so", func() { maxError = 15_999_999 }, Change{Synced: true, Was: true}, false},
		{"nobody disciplines it any more", func() { maxError = 16_000_000 }, Change{Was: true}, true},
	} {
		c.do()
		got, news := w.look()
		got.Step = got.Step.Round(time.Second)
		if got != c.want || news != c.news {
			t.Errorf("%s: got %+v, %t, want %+v, %t", c.name, got, news, c.want, c.news)
		}
	}
}

// The loop itself: a change is told, and the end of ctx ends it.
func TestWatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var synced atomic.Bool
		s := &System{now: time.Now, adjtimex: func(tx *unix.Timex) (int, error) {
			maxError := 16_000_000
			if synced.Load() {
				maxError = 0
			}
			setMaxError(tx, maxError)
			return 0, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		told, ended := make(chan Change, 100), make(chan error, 1)
		go func() { ended <- s.Watch(ctx, func(c Change) { told <- c }) }()
		time.Sleep(10 * lookEvery)
		synctest.Wait()
		for len(told) > 0 { // the test's wall clock runs, the time since boot does not
			if c := <-told; c.Synced || c.Was {
				t.Errorf("told %+v before anything was synchronised", c)
			}
		}
		synced.Store(true)
		time.Sleep(lookEvery)
		synctest.Wait()
		if c := <-told; !c.Synced || c.Was {
			t.Errorf("told %+v, want that it is synchronised now", c)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch = %v, want nil", err)
		}
	})
}

// setMaxError hides that the field has the machine's word size.
func setMaxError(tx *unix.Timex, v int) { setWord(&tx.Maxerror, v) }

func setWord[W int32 | int64](w *W, v int) { *w = W(v) }

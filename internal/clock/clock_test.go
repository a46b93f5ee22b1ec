package clock

import (
	"os"
	"path/filepath"
	"testing"
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
	if s.Now().Location() != time.UTC {
		t.Error("Now is not in UTC")
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

func TestSynced(t *testing.T) {
	there := filepath.Join(t.TempDir(), "synchronized")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		maxError int // µs
		status   int32
		err      error
		path     string
		want     bool
	}{
		{"after boot: 16 s and unsynchronised", 16_000_000, unix.STA_UNSYNC, nil, there, false},
		{"disciplined", 5_000, unix.STA_PLL, nil, "", true},
		{"disciplined, the flag left standing", 15_999_999, unix.STA_UNSYNC, nil, "", true},
		{"forbidden, timesyncd has synchronised", 0, 0, unix.EPERM, there, true},
		{"forbidden, timesyncd has not", 0, 0, unix.EPERM, there + "-not", false},
		{"other error", 0, 0, unix.EFAULT, there, false},
	} {
		s := &System{syncedPath: c.path, adjtimex: func(tx *unix.Timex) (int, error) {
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

// setMaxError hides that the field has the machine's word size.
func setMaxError(tx *unix.Timex, v int) { setWord(&tx.Maxerror, v) }

func setWord[W int32 | int64](w *W, v int) { *w = W(v) }

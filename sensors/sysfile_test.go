package sensors

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadAttr(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attr")
	if _, err := readAttr(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not there: got %v, want %v", err, fs.ErrNotExist)
	}
	for _, text := range []string{"", "21437\n", strings.Repeat("x", attrMax)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readAttr(path); err != nil || got != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	if err := os.WriteFile(path, make([]byte, attrMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readAttr(path); err == nil {
		t.Error("more than a page is taken")
	}
	if _, err := readAttr(filepath.Dir(path)); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: got %v, want %v", err, syscall.EISDIR)
	}
}

// TestFC70Interrupted: EINTR once is invisible, for ever it is an error.
func TestFC70Interrupted(t *testing.T) {
	calls := 0
	got, err := readWhole(func(p []byte) (int, error) {
		switch calls++; calls {
		case 1, 3:
			return -1, syscall.EINTR
		case 2:
			return copy(p, "21437\n"), nil
		}
		return 0, nil
	})
	if got != "21437\n" || err != nil || calls != 4 {
		t.Errorf("got %q, %v in %d calls, want the text in 4", got, err, calls)
	}
	if _, err := readWhole(func([]byte) (int, error) { return -1, syscall.EINTR }); err != syscall.EINTR {
		t.Errorf("got %v, want %v", err, syscall.EINTR)
	}
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.EBUSY, syscall.EIO} {
		if got, err := readWhole(func([]byte) (int, error) { return -1, errno }); err != errno || got != "" {
			t.Errorf("got %q, %v, want %v at once", got, err, errno)
		}
	}
}

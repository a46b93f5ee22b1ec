package integrity

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/boltfile"
	"oxyd/ledger"
)

// A store that was closed cleanly is not looked through, unless it is asked for.
func TestCleanStoreIsTrusted(t *testing.T) {
	path := filepath.Join(dir(t), "l.bolt")
	if v := check(t, Ledger, path); v.State != Trusted || v.Looked {
		t.Errorf("no store: %+v", v)
	}
	l := account(t, path)
	if v := check(t, Ledger, path); v.State != Held {
		t.Errorf("a live one: %+v", v)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if v := check(t, Ledger, path); v.State != Trusted || v.Looked {
		t.Errorf("closed cleanly: %+v", v)
	}
	if v := Look(t.Context(), Self, Ledger, path, patience); v.State != Trusted || !v.Looked || v.Ledger == nil || !v.Ledger.Folded {
		t.Errorf("looked through: %+v", v)
	}
}

// A file that nobody could look through is opened and stays marked.
func TestUnverifiedStoreStaysMarked(t *testing.T) {
	path, _ := killed(t, Ledger)
	for range 2 {
		l, err := ledger.Open(ledger.Options{Path: path, Log: zerolog.Nop(), Unverified: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if unclean, err := boltfile.UncleanPath(path); err != nil || !unclean {
			t.Errorf("closed: unclean %t, %v", unclean, err)
		}
	}
	if v := check(t, Ledger, path); v.State != Trusted || !v.Looked {
		t.Errorf("%+v", v)
	}
	account(t, path).Close()
	if unclean, err := boltfile.UncleanPath(path); err != nil || unclean {
		t.Errorf("verified and closed: unclean %t, %v", unclean, err)
	}
}

// shell makes a child of a shell's words.
func shell(words string) Program {
	return func(ctx context.Context, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "/bin/sh", "-c", words)
	}
}

// What a child's end means. Only what was found is damage.
func TestVerdicts(t *testing.T) {
	path := filepath.Join(dir(t), "store")
	put(t, path, []byte("x"))
	for _, c := range []struct {
		what, words string
		want        State
	}{
		{"sound", `echo '{}'`, Trusted},
		{"closed cleanly", `echo '{"clean":true}'`, Trusted},
		{"found", `echo '{"fault":"page 7"}'; exit 1`, Damaged},
		{"held", `echo '{"held":true}'; exit 1`, Held},
		{"trouble of another kind", `echo 'permission denied' >&2; exit 1`, Unverified},
		{"said nothing", `exit 0`, Unverified},
		{"fault in the mapping", `echo 'unexpected fault address 0x7f' >&2; echo 'fatal error: fault' >&2; exit 2`, Damaged},
		{"panic", `echo 'panic: page 9' >&2; exit 2`, Damaged},
		{"wrong use", `echo 'oxyd: error: unexpected argument' >&2; exit 2`, Unverified},
		{"no memory", `echo 'fatal error: runtime: out of memory' >&2; exit 2`, Unverified},
		{"bus error", `kill -BUS $$`, Damaged},
		{"segmentation fault", `kill -SEGV $$`, Damaged},
		{"killed for want of memory", `kill -KILL $$`, Unverified},
		{"stopped by somebody", `kill -TERM $$`, Unverified},
	} {
		if v := Check(t.Context(), shell(c.words), Ledger, path, patience); v.State != c.want {
			t.Errorf("%s: got %+v, want state %d", c.what, v, c.want)
		}
	}
	none := func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent/oxyd") }
	if v := Check(t.Context(), none, Ledger, path, patience); v.State != Unverified {
		t.Errorf("no program: %+v", v)
	}
}

// A check that takes too long has found nothing, and leaves nobody behind.
func TestTooSlowIsNotDamaged(t *testing.T) {
	path := filepath.Join(dir(t), "store")
	put(t, path, []byte("x"))
	began := time.Now()
	v := Check(t.Context(), shell(`exec sleep 600`), Ledger, path, 50*time.Millisecond)
	if v.State != Unverified || !strings.Contains(v.Reason, "took longer than 50ms") || time.Since(began) > 20*time.Second {
		t.Errorf("%+v after %v", v, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v := Check(ctx, shell(`exec sleep 600`), Ledger, path, patience); v.State != Unverified {
		t.Errorf("broken off: %+v", v)
	}
}

func TestTimeoutGrowsWithTheFile(t *testing.T) {
	path := filepath.Join(dir(t), "big")
	put(t, path, nil)
	if err := os.Truncate(path, 4<<30); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		configured, want time.Duration
		path             string
	}{{0, 30*time.Second + 2048*time.Second, path}, {time.Hour, time.Hour, path}, {0, 30 * time.Second, path + "-none"}} {
		if got := Timeout(c.configured, c.path); got != c.want {
			t.Errorf("%v of %s: got %v, want %v", c.configured, c.path, got, c.want)
		}
	}
}

// A child that never ends its words does not fill the parent's memory.
func TestOutputIsBounded(t *testing.T) {
	var k kept
	for range 100 {
		if n, err := k.Write(make([]byte, 100<<10)); n != 100<<10 || err != nil {
			t.Fatal(n, err)
		}
	}
	if k.Len() != keptOutput {
		t.Errorf("kept %d bytes, want %d", k.Len(), keptOutput)
	}
}

func TestReportIsReadBack(t *testing.T) {
	path, _ := killed(t, Outbox)
	var out bytes.Buffer
	sound, err := Main(Outbox, path, true, &out)
	var r report
	if jsonErr := json.Unmarshal(out.Bytes(), &r); err != nil || jsonErr != nil || !sound || r.Outbox == nil || r.Outbox.Pending != 300 {
		t.Errorf("%v %v %v %s", sound, err, jsonErr, &out)
	}
	if _, err := Main("shoe box", path, true, &out); err == nil {
		t.Error("a store of another kind is looked through")
	}
}

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oxyd/internal/mqtttest"
)

// A full disk: nothing is acknowledged or lost, reading goes on, and when there is
// room again the process goes on by itself, its embedded broker included.
func TestFullDisk(t *testing.T) {
	n := newNode(t, allInOne, "")
	data := filepath.Join(n.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("SKIPPED: a disk that can be filled needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		n.kill()
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n.startReady()
	n.until("readings applied", func() bool { return n.status().Outcomes["applied"] >= 3 })

	ballast := filepath.Join(data, "ballast")
	fill(t, ballast)
	n.until("the outbox to say that it takes nothing", func() bool {
		return strings.Contains(n.log.String(), "the outbox takes none")
	})
	n.until("the broker to fail a write", func() bool {
		return strings.Contains(n.log.String(), "JetStream failed to store a msg")
	})
	n.until("the broker to be found out of service", func() bool {
		return strings.Contains(n.log.String(), "it is started anew")
	})
	if doc := n.tank("hab-1"); doc.Balance == "" {
		t.Error("the account cannot be read while the disk is full")
	}
	before := n.status().Outcomes["applied"]
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mqtttest.EventuallyWithin(t, 90*time.Second, "new readings in the account", func() bool {
		return n.status().Outcomes["applied"] > before+10
	})
	n.until("every number accounted for", func() bool { return n.tank("hab-1").TotalsComplete })
	if n.log.String() == "" || n.status().Outcomes["conflict"] != 0 {
		t.Errorf("conflicts: %v", n.status().Outcomes)
	}
}

// fill writes until there is no room at all.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// A damaged account is set aside, kept and named; what takes its place measures on
// and claims no opening amount.
func TestDamagedAccountIsSetAside(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.until("readings applied", func() bool { return n.status().Outcomes["applied"] >= 1 })
	n.stop()
	path := filepath.Join(n.dir, "data", "ledger.bolt")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	n.startReady()
	if _, err := os.Stat(path + ".corrupt-1"); err != nil || !strings.Contains(n.log.String(), ".corrupt-1") {
		t.Errorf("set aside: %v; or the log does not name it", err)
	}
	n.until("readings in the new account", func() bool { return n.tank("hab-1").Balance != "" })
	if got := n.tank("A").Balance; got != "" {
		t.Errorf("a tank that was never measured shows %s", got)
	}
}

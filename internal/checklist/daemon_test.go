package checklist

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"oxyd/internal/config"
	"oxyd/ledger"
)

// talking is a running daemon.
type talking struct {
	status string
	tanks  string
	path   string // of the account that it backs up
}

func (d *talking) Get(_ context.Context, path string, doc any) error {
	switch path {
	case "/api/status":
		return json.Unmarshal([]byte(d.status), doc)
	case "/api/tanks":
		return json.Unmarshal([]byte(d.tanks), doc)
	}
	return fmt.Errorf("asked for %s", path)
}

func (d *talking) Backup(_ context.Context, w io.Writer) error {
	b, err := os.ReadFile(d.path)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// 5: windows, in the config and as a running daemon and its nodes tell them.
func TestShortWindowsAreSeen(t *testing.T) {
	cfg := parsed(t, whole)
	cfg.Ledger.DedupWindow = config.Duration(48 * time.Hour) // the config itself would be refused
	by := run(t, Subject{Config: cfg}, Window)
	by[Window].has(t, "fails: dedup_window 48h is shorter than redelivery_window 72h")
	by[Window].has(t, "fails: dedup_window 48h is shorter than this node's outbox.retention 72h")

	cfg = parsed(t, whole+"  dedup_window: 48h\n  redelivery_window: 24h\noutbox: {retention: 24h}\n")
	run(t, Subject{Config: cfg})[Window].has(t, "session expiry 48h")
	f := found(t)
	if f.session = 169 * time.Hour; f.window().OK {
		t.Error("a broker that keeps sessions for longer passes")
	}
	f = found(t)
	floor := time.Now().Add(-169 * time.Hour)
	if f.account = (&ledger.Inspection{Floor: &floor}); !f.window().OK {
		t.Error("marks that were dropped behind the window fail")
	}
	floor = floor.Add(2 * time.Hour)
	if f.window().OK {
		t.Error("marks that were dropped within the window pass")
	}

	cfg = parsed(t, whole)
	path := account(t, cfg, consumed("e-1"))
	d := &talking{path: path, tanks: `[]`,
		status: `{"dedup_window":"168h","announced":[{"node":"ctl-1","redelivery":"72h"},{"node":"ctl-9","redelivery":"100h"}]}`}
	by = run(t, Subject{Config: cfg, Daemon: d})
	by[Window].has(t, "warning: dedup_window 168h covers the redelivery that node ctl-9 announces, 100h")
	by[Atomic].has(t, "1 marks and 1 effects agree")
	d.status = `{"dedup_window":"168h","announced":[{"node":"ctl-9","redelivery":"200h"}]}`
	run(t, Subject{Config: cfg, Daemon: d}, Window)[Window].has(t, "fails: dedup_window 168h is shorter than the redelivery that node ctl-9 announces, 200h")
	d.status = `{"dedup_window":"96h"}`
	run(t, Subject{Config: cfg, Daemon: d}, Window)[Window].has(t, "the running daemon has dedup_window 96h")
}

// The daemon's account is looked through as a backup; one that is too large is not,
// and that is said.
func TestRunningAccountIsLookedThrough(t *testing.T) {
	cfg := parsed(t, whole)
	d := &talking{path: account(t, cfg, consumed("e-1")), tanks: `[{"tank":"C","baseline":{}}]`, status: `{}`}
	spoil(t, d.path, "entries")
	run(t, Subject{Config: cfg, Daemon: d}, Atomic)
	d.status = `{"file_bytes":2000000000}`
	by := run(t, Subject{Config: cfg, Daemon: d})
	by[Atomic].has(t, "account: not looked through: it has 1907 MiB")
	by[Natural].has(t, "tank C: its balance rests on a snapshot")
}

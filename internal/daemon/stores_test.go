package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"oxyd/internal/boltfile"
	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/integrity"
	"oxyd/ledger"
)

// TestMain makes the test binary the child that looks through a store.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) == 3 && args[0] == integrity.Command {
		if sound, err := integrity.Main(args[1], args[2], false, os.Stdout); err != nil || !sound {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench gives a board whose child is a shell's words, with a store that holds one
// event and was left by a killed process.
func bench(t *testing.T, words string) *board {
	t.Helper()
	cfg, err := config.Parse("config.yaml", []byte("node: n\ntanks: [{id: A, initial: 847 g}]\nledger:\ncheck_timeout: 1s\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = t.TempDir()
	clk, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &board{cfg: cfg, clock: clk, log: zerolog.Nop(), child: func(ctx context.Context, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "/bin/sh", "-c", words)
	}}
	l, err := ledger.Open(LedgerOptions(cfg, LedgerPath(cfg), zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	e := event.Event{Type: event.Consumed, ID: "e-8842", Tank: "A", Amount: 120e9, Version: 1}
	if _, err := l.Apply([]ledger.Delivery{{Event: e, Topic: "t"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(LedgerPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), os.WriteFile(LedgerPath(cfg), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.ledger != nil {
			b.ledger.Close()
		}
		if b.outbox != nil {
			b.outbox.Close()
		}
	})
	return b
}

func (b *board) want(t *testing.T, balance string) {
	t.Helper()
	doc, _, err := b.ledger.Balance("A")
	got := "none"
	if doc.Balance != nil {
		got = doc.Balance.String()
	}
	if err != nil || got != balance {
		t.Errorf("balance %s (%v), want %s", got, err, balance)
	}
}

// A good account that is too large to be looked through in the time there is stays
// in use. The node says so, is not ready, and looks again at the next start.
func TestTooSlowACheckKeepsTheAccount(t *testing.T) {
	b := bench(t, "exec sleep 600")
	if err := errors.Join(b.openOutbox(t.Context()), b.openLedger(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.want(t, "727 g")
	if err := b.ready(); err == nil || !strings.Contains(err.Error(), "ledger is not verified after an unclean stop: the check took longer than 1s") {
		t.Errorf("ready: %v", err)
	}
	if list := b.nodeAlarms.list(); len(list) != 1 || list[0].Kind != "storage_unverified" {
		t.Errorf("alarms %+v", list)
	}
	if err := b.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	if unclean, err := boltfile.UncleanPath(LedgerPath(b.cfg)); err != nil || !unclean {
		t.Errorf("after Close: unclean %t, %v", unclean, err)
	}
	if _, err := os.Stat(LedgerPath(b.cfg) + ".corrupt-1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("set aside: %v", err)
	}
}

// What the child has found decides, whether or not the file opens.
func TestFindingsSetTheAccountAside(t *testing.T) {
	for _, words := range []string{`echo '{"fault":"page 7"}'; exit 1`, `kill -BUS $$`} {
		b := bench(t, words)
		if err := b.openLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.want(t, "none") // and not the opening amount: what was taken meanwhile is not known
		if _, err := os.Stat(LedgerPath(b.cfg) + ".corrupt-1"); err != nil {
			t.Error(err)
		}
		if list := b.nodeAlarms.list(); len(list) != 1 || list[0].Kind != "storage_reset" || !strings.Contains(list[0].Text, ".corrupt-1") {
			t.Errorf("alarms %+v", list)
		}
	}
}

func TestHeldStoreIsNotOpened(t *testing.T) {
	b := bench(t, `echo '{"held":true}'; exit 1`)
	if err := b.openLedger(t.Context()); !errors.Is(err, boltfile.ErrLocked) || b.ledger != nil {
		t.Errorf("%v", err)
	}
}

// Damage that only opening meets, in a file that was closed cleanly or that nobody
// looked through.
func TestDamageMetOnOpeningSetsAside(t *testing.T) {
	for name, words := range map[string]string{"clean": `echo '{"clean":true}'`, "slow": "exec sleep 600"} {
		b := bench(t, words)
		text, err := os.ReadFile(LedgerPath(b.cfg))
		if err != nil {
			t.Fatal(err)
		}
		// The newest journal row, in every copy of its page, and all that agrees with it
		// but the chain.
		spoiled := bytes.ReplaceAll(text, []byte("e-8842"), []byte("e-8843"))
		if name == "clean" {
			spoiled = make([]byte, len(text))
		}
		if err := os.WriteFile(LedgerPath(b.cfg), spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.openLedger(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(LedgerPath(b.cfg) + ".corrupt-1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

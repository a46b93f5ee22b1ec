package outbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ledger"
)

// A ledger put back together with its broker finds nothing that it has published
// since, and keeps its incarnation. The node, which goes on, notices that it is told
// less than before: also the epochs that had not been spoken of for long go out again.
func TestLedgerSetBackUnderItsIncarnation(t *testing.T) {
	for name, idle := range map[string]bool{"in use": false, "idle": true} {
		t.Run(name, func(t *testing.T) { setBack(t, idle) })
	}
}

func setBack(t *testing.T, idle bool) {
	clock := newClock()
	dir := t.TempDir()
	open := func(name string) *ledger.Ledger {
		t.Helper()
		l, err := ledger.Open(ledger.Options{Path: filepath.Join(dir, name), Now: clock.Now, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := &pair{b: reopen(t, testOptions(path(t), clock)), l: open("ledger"), clock: clock}
	defer func() { checkAndClose(t, p.b); p.l.Close() }()
	mustAppend(t, p.b, append(deltas("A", 10), deltas("B", 10)...)...)
	p.turns(t, time.Minute)
	backup, err := os.Create(filepath.Join(dir, "backup"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.l.Backup(backup, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	backup.Close()

	for range 2 { // the first of these epochs is not spoken of any more in the end
		p.b, p.after = crash(t, p.b), 0
		mustAppend(t, p.b, append(deltas("A", 10), deltas("B", 10)...)...)
		p.turns(t, time.Minute)
	}
	clock.advance(2 * ledger.ConfirmRecent)
	p.turns(t, time.Minute)

	p.l.Close()
	p.l = open("backup")
	if !idle {
		mustAppend(t, p.b, deltas("A", 1)...)
	}
	p.turns(t, 5*time.Hour)
	for tank, want := range map[string]int64{"A": 30, "B": 30} {
		if tank == "A" && !idle {
			want++
		}
		got, _, err := p.l.Balance(tank)
		if err != nil {
			t.Fatal(err)
		}
		if got.Totals.Consumed != ledger.SumOf(delta(tank, want).Amount) || !got.TotalsComplete {
			t.Errorf("tank %s: consumed %v, complete %t, want %d, true", tank, got.Totals.Consumed, got.TotalsComplete, want)
		}
	}
}

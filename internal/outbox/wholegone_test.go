package outbox

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ledger"
)

// All of a tank's newest epoch was lost behind the broker, and given up here before
// any ledger had it. A ledger always names a tank's newest epoch, so that it is known
// to have nothing of it: that is said, and the account does not call itself complete.
func TestNewestStreamLostAndGone(t *testing.T) {
	clock := newClock()
	l, err := ledger.Open(ledger.Options{Path: filepath.Join(t.TempDir(), "ledger"), Now: clock.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &pair{b: reopen(t, testOptions(path(t), clock)), l: l, clock: clock}
	defer func() { checkAndClose(t, p.b) }()
	mustAppend(t, p.b, append(deltas("A", 5), deltas("B", 5)...)...)
	p.turns(t, time.Minute)
	p.b, p.after = crash(t, p.b), 0
	mustAppend(t, p.b, append(deltas("A", 3), deltas("B", 3)...)...)
	p.lose = lostSeqs("A", 1, 2, 3)
	p.turn(t)
	p.lose = nil
	for n := uint64(1); n <= p.b.st.nextRow; n++ {
		if err := p.b.update(func(c *change) error {
			if _, r, ok := decodeKept(c.bucket(bKept).Get(rowKey(n))); ok && r.epoch == p.b.epoch && r.tank == "A" {
				return c.remove(bKept, n, r)
			}
			return errUnchanged
		}); err != nil {
			t.Fatal(err)
		}
	}
	p.turns(t, 10*time.Minute)
	for tank, complete := range map[string]bool{"A": false, "B": true} {
		got, _, err := l.Balance(tank)
		if err != nil {
			t.Fatal(err)
		}
		if got.TotalsComplete != complete {
			t.Errorf("tank %s: consumed %v, totals complete %t, want %t", tank, got.Totals.Consumed, got.TotalsComplete, complete)
		}
	}
	if sent := p.turns(t, 3*time.Hour); len(sent) != 0 {
		t.Errorf("%d rows sent at rest: %+v", len(sent), sent)
	}
}

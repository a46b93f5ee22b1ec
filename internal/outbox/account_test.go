package outbox

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// pair is an outbox and a real ledger that talk to each other.
type pair struct {
	b     *Outbox
	l     *ledger.Ledger
	clock *fakeClock
	after uint64
	lose  func(event.Event) bool
}

// turn moves everything once, and says what was sent.
func (p *pair) turn(t *testing.T) (sent []event.Event) {
	t.Helper()
	for {
		rows := mustNext(t, p.b, p.after, 256)
		if len(rows) == 0 {
			break
		}
		var batch []ledger.Delivery
		for _, r := range rows {
			p.after = r.Row
			e := decode(t, r)
			sent = append(sent, e)
			if p.lose == nil || !p.lose(e) {
				batch = append(batch, ledger.Delivery{Event: e, Topic: r.Topic, Payload: r.Payload})
			}
		}
		if _, err := p.l.Apply(batch); err != nil {
			t.Fatal(err)
		}
		mustConfirm(t, p.b, rows)
	}
	c, err := p.l.Confirm("ctl-3")
	if err != nil {
		t.Fatal(err)
	}
	c.Ledger = "main"
	p.b.LedgerStatus("main", c.Incarnation, true)
	if err := p.b.Heard(c); err != nil {
		t.Fatal(err)
	}
	return sent
}

func (p *pair) turns(t *testing.T, d time.Duration) (sent []event.Event) {
	t.Helper()
	for end := p.clock.Mono() + d; p.clock.Mono() < end; p.clock.advance(reviewInterval) {
		sent = append(sent, p.turn(t)...)
	}
	return sent
}

// The resend against the real account: middle, tail and whole streams lost, rows
// that are gone, restarts of the node. In the end every sum is right, what is lost
// is said, and both are at rest.
func TestResendIntoTheAccount(t *testing.T) {
	clock := newClock()
	l, err := ledger.Open(ledger.Options{Path: filepath.Join(t.TempDir(), "ledger"), Now: clock.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &pair{b: reopen(t, testOptions(path(t), clock)), l: l, clock: clock}
	defer func() { checkAndClose(t, p.b) }()

	mustAppend(t, p.b, append(deltas("A", 400), deltas("B", 100)...)...)
	p.lose = func(e event.Event) bool { return e.Tank == "B" || e.Dot.Seq%3 == 0 || e.Dot.Seq > 390 }
	p.turns(t, 10*time.Second)
	p.lose = nil
	p.turns(t, 5*time.Minute)
	consumed := func(tank string, want int64, complete bool) {
		t.Helper()
		got, _, err := l.Balance(tank)
		if err != nil {
			t.Fatal(err)
		}
		if got.Totals.Consumed != ledger.SumOf(delta(tank, want).Amount) || got.TotalsComplete != complete {
			t.Errorf("tank %s: consumed %v, complete %t, want %d, %t", tank, got.Totals.Consumed, got.TotalsComplete, want, complete)
		}
	}
	consumed("A", 400, true)
	consumed("B", 100, true)

	// A restart long after: one row of each old stream is enough to know that the
	// ledger has it all.
	clock.advance(2 * ledger.ConfirmRecent)
	p.b, p.after = crash(t, p.b), 0
	mustAppend(t, p.b, append(deltas("A", 5), deltas("B", 5)...)...)
	if sent := p.turns(t, 5*time.Hour); len(sent) != 10+2 {
		t.Errorf("%d rows sent, want the 10 new ones and one of each old stream", len(sent))
	}

	// Two are lost and gone: said, and asked for no more.
	mustAppend(t, p.b, deltas("A", 5)...)
	p.lose = lostSeqs("A", 7, 8)
	p.turn(t)
	forget(t, p.b, 7, 8)
	p.turns(t, 5*time.Minute)
	consumed("A", 408, false)
	if s := mustStats(t, p.b); s.NumbersSkipped != 2 || s.Ledgers[0].Wanted != 0 {
		t.Errorf("skipped %d, wanted %+v, want 2 and none any more", s.NumbersSkipped, s.Ledgers)
	}
	if sent := p.turns(t, 3*time.Hour); len(sent) != 0 {
		t.Errorf("%d rows sent at rest, want none: %+v", len(sent), sent)
	}
}

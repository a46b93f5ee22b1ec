package daemon

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/integrity"
	"oxyd/ledger"
)

// An outbox in the place of a lost one begins above what the account beside it knows of
// this node, also where that is ahead of the clock by years.
func TestLostOutboxBeginsAboveTheAccount(t *testing.T) {
	cfg, err := config.Parse("config.yaml", []byte("node: n\nledger:\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = t.TempDir()
	clk, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	// An epoch is a second and 20 random bits.
	ahead := uint64(time.Now().AddDate(10, 0, 0).Unix()) << 20
	l, err := ledger.Open(LedgerOptions(cfg, LedgerPath(cfg), zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	dot := event.Dot{Epoch: ahead, Seq: 1}
	e := event.Event{Type: event.Measured, ID: event.NodeID("n", ahead, "A", 1), Source: "n", Dot: dot, Tank: "A", Amount: 847e9, Version: 1}
	results, err := l.Apply([]ledger.Delivery{{Event: e, Topic: "t"}})
	if err != nil || results[0].Outcome != ledger.Applied {
		t.Fatalf("the account takes %+v, %v", results, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	b := &board{cfg: cfg, clock: clk, log: zerolog.Nop(), child: integrity.Self}
	t.Cleanup(b.close)
	if err := b.openOutbox(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := b.outbox.Stats(); err != nil || s.Epoch > ahead {
		t.Fatalf("the clock alone gives epoch %d, %v: not behind %d", s.Epoch, err, ahead)
	}
	if err := b.recallEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := b.outbox.Stats(); err != nil || s.Epoch <= ahead {
		t.Errorf("epoch %d, %v, want above %d", s.Epoch, err, ahead)
	}
}

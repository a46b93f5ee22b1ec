package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// board is a receiving side on a real account, with a broker that a test plays:
// what is not acknowledged stays in window and comes again.
type board struct {
	t      *testing.T
	opt    ledger.Options
	l      *ledger.Ledger
	window []string // payloads not yet acknowledged, in order
	acked  []string
}

func newBoard(t *testing.T) *board {
	initial := 847 * physic.Gram
	b := &board{t: t, opt: ledger.Options{Path: filepath.Join(t.TempDir(), "ledger.bolt"),
		Tanks: []ledger.Tank{{ID: "A", Initial: &initial}}, Log: zerolog.Nop()}}
	b.open()
	t.Cleanup(func() {
		if err := b.l.Check(); err != nil {
			t.Errorf("check at the end: %v", err)
		}
		b.l.Close()
	})
	return b
}

func (b *board) open() {
	var err error
	if b.l, err = ledger.Open(b.opt); err != nil {
		b.t.Fatal(err)
	}
}

// restart is what a crash and a new start leave: memory is gone, the file and
// the broker's window stay.
func (b *board) restart() {
	b.l.Close()
	b.open()
}

func split(topic string) (string, string, bool) {
	rest, ok := strings.CutPrefix(topic, "oxyd/base/tank/")
	tank, leaf, ok2 := strings.Cut(rest, "/")
	return tank, leaf, ok && ok2
}

var errEnded = errors.New("connection ended")

// serve delivers the whole window once, as on a new connection.
func (b *board) serve(apply func([]ledger.Delivery) ([]ledger.Result, error), ack bool) error {
	in := &Ingest{Split: split, Apply: apply, Log: zerolog.Nop()}
	todo := slices.Clone(b.window)
	err := in.Run(context.Background(), func(_ context.Context, limit int) ([]Message, error) {
		if len(todo) == 0 {
			return nil, errEnded
		}
		n := min(limit, len(todo))
		var batch []Message
		for _, payload := range todo[:n] {
			batch = append(batch, Message{Topic: "oxyd/base/tank/A/consumed", Payload: []byte(payload), Ack: func() {
				if ack {
					b.acked = append(b.acked, payload)
					b.window = slices.DeleteFunc(b.window, func(w string) bool { return w == payload })
				}
			}})
		}
		todo = todo[n:]
		return batch, nil
	})
	if err == nil {
		b.t.Error("run hides why the connection ended")
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

func (b *board) balance() string {
	doc, _, err := b.l.Balance("A")
	if err != nil {
		b.t.Fatal(err)
	}
	return doc.Balance.String()
}

func TestFC20AckAfterCommit(t *testing.T) {
	t.Run("crash after receive before commit", func(t *testing.T) {
		b := newBoard(t)
		b.window = []string{`{"event_id":"e-8842","tank":"A","amount":120}`}
		crash := errors.New("crash")
		if err := b.serve(func([]ledger.Delivery) ([]ledger.Result, error) { return nil, crash }, true); !errors.Is(err, crash) {
			t.Fatalf("run: %v, want the crash", err)
		}
		if len(b.acked) > 0 {
			t.Fatalf("acknowledged %v before the commit", b.acked)
		}
		b.restart()
		if err := b.serve(b.l.Apply, true); err != nil || len(b.window) != 0 || b.balance() != "727 g" {
			t.Fatalf("redelivery: %v, window %v, balance %s", err, b.window, b.balance())
		}
	})
	t.Run("crash after commit before PUBACK", func(t *testing.T) {
		b := newBoard(t)
		b.window = []string{`{"event_id":"e-8842","tank":"A","amount":120}`}
		if err := b.serve(b.l.Apply, false); err != nil || b.balance() != "727 g" {
			t.Fatalf("%v, balance %s", err, b.balance())
		}
		b.restart()
		if err := b.serve(b.l.Apply, true); err != nil || len(b.window) != 0 || b.balance() != "727 g" {
			t.Fatalf("redelivery: %v, window %v, balance %s", err, b.window, b.balance())
		}
	})
}

// When the acknowledgements go out, the batch is on disk and the order is that
// of receipt; poison is among them.
func TestAcksInOrderAfterTheCommit(t *testing.T) {
	b := newBoard(t)
	for n := range 1200 {
		payload := fmt.Sprintf(`{"event_id":"e%d","tank":"A","amount":0.1}`, n)
		if n%7 == 0 {
			payload = fmt.Sprintf(`{"bad %d`, n)
		}
		b.window = append(b.window, payload)
	}
	want := slices.Clone(b.window)
	commits, applied := 0, 0
	err := b.serve(func(d []ledger.Delivery) ([]ledger.Result, error) {
		if len(b.acked) != applied {
			t.Errorf("%d acknowledged with %d committed", len(b.acked), applied)
		}
		commits++
		applied += len(d)
		return b.l.Apply(d)
	}, true)
	if err != nil || !slices.Equal(b.acked, want) {
		t.Fatalf("%v; acknowledged %d of %d in order", err, len(b.acked), len(want))
	}
	if commits != 3 {
		t.Errorf("%d commits, want 3 of at most %d", commits, MaxBatch)
	}
}

func TestUnknownTopicIsQuarantined(t *testing.T) {
	b := newBoard(t)
	in := &Ingest{Split: split, Apply: b.l.Apply, Log: zerolog.Nop()}
	for _, topic := range []string{"oxyd/base/tank/A/balance", "other", "oxyd/base/tank/A"} {
		acked := false
		if err := in.batch(new(event.Decoder), []Message{{Topic: topic, Payload: []byte("x"), Ack: func() { acked = true }}}); err != nil || !acked {
			t.Fatalf("%s: %v, acknowledged %v", topic, err, acked)
		}
	}
	list, err := b.l.Quarantine(10)
	if err != nil || len(list) != 3 {
		t.Fatalf("quarantine: %v, %v", list, err)
	}
}

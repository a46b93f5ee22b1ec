package mqtt

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// letter is a paho message that notes its acknowledgement.
type letter struct {
	payload string
	acks    int
}

func (l *letter) Duplicate() bool   { return false }
func (l *letter) Qos() byte         { return 1 }
func (l *letter) Retained() bool    { return false }
func (l *letter) Topic() string     { return "a" }
func (l *letter) MessageID() uint16 { return 1 }
func (l *letter) Payload() []byte   { return []byte(l.payload) }
func (l *letter) Ack()              { l.acks++ }

func openMailbox(limit int) (*Mailbox, *link) {
	l := &link{lost: make(chan struct{})}
	return newMailbox(limit, l), l
}

func TestMailboxTakesInOrderUpToMax(t *testing.T) {
	t.Parallel()
	box, _ := openMailbox(0)
	for i := range 5 {
		box.put(&letter{payload: fmt.Sprint(i)})
	}
	for _, want := range [][]string{{"0", "1"}, {"2", "3"}, {"4"}} {
		batch, err := box.Take(context.Background(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range batch {
			got = append(got, string(d.Payload))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batch (-want +got):\n%s", diff)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := box.Take(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("Take on an empty mailbox: %v, want the end of ctx", err)
	}
}

func TestMailboxEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	box, l := openMailbox(0)
	m := &letter{payload: "1"}
	box.put(m)
	batch, err := box.Take(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	box.put(&letter{payload: "2"})
	l.err = errDisk
	close(l.lost)
	if _, err := box.Take(context.Background(), 1); !errors.Is(err, errDisk) {
		t.Errorf("Take after the end: %v, want its reason: the broker delivers again", err)
	}
	batch[0].Ack()
	if m.acks != 0 {
		t.Error("acknowledged after the end of the connection")
	}
}

// The bytes stay within the bound, nothing is taken out of order, nothing behind
// a refused message gets in, and an empty mailbox takes anything.
func TestMailboxBoundHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3000
		box, _ := openMailbox(limit)
		var in, out []int
		closed := false
		for i, step := range rapid.SliceOfN(rapid.IntRange(-3, 4000), 1, 60).Draw(t, "steps") {
			if step < 0 {
				batch, err := box.takeWaiting(-step)
				for _, d := range batch {
					out = append(out, len(d.Payload))
				}
				if err != nil && (!closed || len(out) != len(in)) {
					t.Fatalf("step %d: %v with %d of %d taken, closed: %v", i, err, len(out), len(in), closed)
				}
				continue
			}
			waiting, bytes := box.waitingNow()
			fits := !closed && (waiting == 0 || bytes+step+1+deliveryOverhead <= limit)
			overflown := box.put(&letter{payload: string(make([]byte, step))})
			if overflown != (!fits && !closed) {
				t.Fatalf("step %d: overflown is %v, want %v", i, overflown, !fits && !closed)
			}
			if fits {
				in = append(in, step)
			} else {
				closed = true
			}
			if waiting, bytes := box.waitingNow(); waiting > 1 && bytes > limit || waiting == 0 && bytes != 0 {
				t.Fatalf("step %d: %d messages take %d bytes of %d", i, waiting, bytes, limit)
			}
		}
		if diff := cmp.Diff(in[:len(out)], out); diff != "" && len(out) > 0 {
			t.Fatalf("taken (-put +taken):\n%s", diff)
		}
	})
}

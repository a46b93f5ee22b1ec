package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"oxyd/ingest"
	"oxyd/ledger"
	"oxyd/mqtt"
)

// assignment is what a consumer's process is told, as one argument.
type assignment struct {
	Role   int    `json:"role"` // place in the cast
	Broker string `json:"broker"`
	File   string `json:"file"`
	Crash  bool   `json:"crash"` // stand still at the first delivery of the subject
}

// report is one line that a consumer's process writes. One of the fields is set.
type report struct {
	Subscribed bool      `json:"subscribed,omitempty"`
	Delivery   *Delivery `json:"delivery,omitempty"` // Killed: it stands still and waits for that
	Fault      string    `json:"fault,omitempty"`
}

// Consume is one consumer, in a process of its own: what Options.Consumer starts,
// with the argument that it was given. It reports on stdout and ends in good order
// when its standard input does, so that it does not outlive the demonstration.
func Consume(ctx context.Context, argument string, stdin io.Reader, stdout io.Writer) error {
	var a assignment
	cast := cast()
	if err := json.Unmarshal([]byte(argument), &a); err != nil || a.Role < 0 || a.Role >= len(cast) {
		return fmt.Errorf("%q is no assignment of a demonstration", argument)
	}
	book, err := cast[a.Role].open(a.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a read cannot be ended by anybody here: the process ends it
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	c := &consumer{book: book, crash: a.Crash, out: json.NewEncoder(stdout)}
	err = c.run(ctx, a.Broker, fmt.Sprintf("oxyd-demo-%d", a.Role), cast[a.Role].run.topics())
	if closed := book.Close(); err == nil {
		err = closed
	}
	return err
}

// consumer serves one subscription. It takes messages one at a time, so that each
// can be shown with what the file holds after it.
type consumer struct {
	book  book
	crash bool
	dup   bool // of the message in hand

	writing sync.Mutex
	out     *json.Encoder
}

func (c *consumer) run(ctx context.Context, broker, clientID string, topics mqtt.Topics) error {
	in := &ingest.Ingest{Split: topics.ParseTank, Log: zerolog.Nop(),
		Apply: func(batch []ledger.Delivery) ([]ledger.Result, error) { return c.apply(ctx, batch) }}
	sub := mqtt.NewSubscriber(mqtt.Options{Broker: "tcp://" + broker, ClientID: clientID,
		BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
		topics.EventFilters(), nil, func(ctx context.Context, box *mqtt.Mailbox) error {
			return in.Run(ctx, c.takeFrom(box))
		}, zerolog.Nop())
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return sub.Run(ctx) })
	both.Go(func() error {
		select {
		case <-sub.Subscribed():
			return c.report(report{Subscribed: true})
		case <-ctx.Done():
			return nil
		}
	})
	return both.Wait()
}

func (c *consumer) takeFrom(box *mqtt.Mailbox) func(context.Context, int) ([]ingest.Message, error) {
	return func(ctx context.Context, _ int) ([]ingest.Message, error) {
		got, err := box.Take(ctx, 1)
		batch := make([]ingest.Message, len(got))
		for i := range got {
			d := &got[i]
			c.dup = d.Duplicate
			batch[i] = ingest.Message{Topic: d.Topic, Payload: d.Payload, Retained: d.Retained, Ack: d.Ack}
		}
		return batch, err
	}
}

// apply is the one function in which the consumers differ, by their book.
func (c *consumer) apply(ctx context.Context, batch []ledger.Delivery) ([]ledger.Result, error) {
	for i := range batch {
		outcome, err := c.book.apply(&batch[i], func(outcome string) error {
			if !c.crash || batch[i].Event.ID != subject {
				return nil
			}
			if err := c.tell(&batch[i], outcome, true); err != nil {
				return err
			}
			<-ctx.Done() // not reached in a demonstration that goes on: SIGKILL comes first
			return ctx.Err()
		})
		if err == nil {
			err = c.tell(&batch[i], outcome, false)
		}
		if err != nil {
			if ctx.Err() == nil {
				_ = c.report(report{Fault: err.Error()}) // the connection ends with err all the same
			}
			return nil, err
		}
	}
	return make([]ledger.Result, len(batch)), nil // ingest only logs them
}

func (c *consumer) tell(d *ledger.Delivery, outcome string, killed bool) error {
	holds, err := c.book.holds()
	if err != nil {
		return err
	}
	return c.report(report{Delivery: &Delivery{EventID: d.Event.ID, Dup: c.dup, Outcome: outcome, Holds: holds, Killed: killed}})
}

func (c *consumer) report(r report) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.out.Encode(r); err != nil {
		return fmt.Errorf("report to the demonstration: %w", err)
	}
	return nil
}

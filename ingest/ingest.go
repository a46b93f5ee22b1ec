// Package ingest is the receiving side in reading order: take what waits, decode
// it, apply it in one ledger transaction, acknowledge it.
//
// The invariant it keeps: a message is acknowledged only after the commit that
// decided it, duplicates and refused messages included (R1). Whatever ends the
// run before that leaves the messages unacknowledged, and the broker brings them
// again. Nothing is queued here: what is not yet committed is the broker's.
//
// It does not connect, subscribe or keep a mailbox (package mqtt) and it does not
// decide what an event means (package ledger).
package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// MaxBatch bounds how many messages share one commit. Beyond a few hundred only
// the latency grows; below, the two syncs of a commit dominate.
const MaxBatch = 500

// Message is one delivery of a connection.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool
	// Ack sends the PUBACK. It is called at most once, after the commit, and does
	// nothing when the connection has ended meanwhile.
	Ack func()
}

// Ingest joins the mailboxes of connections, one after the other, to the account.
// Its fields are set once.
type Ingest struct {
	// Split reads tank and kind from a topic, such as A and consumed; ok is false
	// for a topic that carries no event.
	Split func(topic string) (tank, leaf string, ok bool)
	// Apply decides a batch durably; nil means that it is on disk.
	Apply func([]ledger.Delivery) ([]ledger.Result, error)
	Log   zerolog.Logger

	refused map[event.Reason]*refusals
}

// Run serves one connection until a batch cannot be applied or take gives an
// error: the mailbox says by it why the connection is to end, and Run returns it
// as it is. Batches are natural: block for the first
// message, then take all that wait, so that one message alone is committed at
// once and a flood shares its commits.
func (i *Ingest) Run(ctx context.Context, take func(ctx context.Context, limit int) ([]Message, error)) error {
	var d event.Decoder
	for {
		batch, err := take(ctx, MaxBatch)
		if err != nil {
			return err // what was not acknowledged comes again
		}
		if err := i.batch(&d, batch); err != nil {
			return err
		}
	}
}

// batch commits the messages and then acknowledges them, in the order in which
// they came [MQTT-4.6.0-2].
func (i *Ingest) batch(d *event.Decoder, batch []Message) error {
	deliveries := make([]ledger.Delivery, len(batch))
	for n := range batch {
		deliveries[n] = i.decode(d, &batch[n])
	}
	results, err := i.Apply(deliveries)
	if err != nil {
		return fmt.Errorf("messages stay unacknowledged: %w", err)
	}
	for n := range batch {
		batch[n].Ack()
	}
	i.report(deliveries, results)
	return nil
}

// decode makes a delivery of a message. What is no event stays a delivery, with
// the reason: it is quarantined with its bytes and acknowledged like the rest,
// since a message that is never acknowledged fills the broker's window.
func (i *Ingest) decode(decoder *event.Decoder, m *Message) ledger.Delivery {
	d := ledger.Delivery{Topic: m.Topic, Payload: m.Payload, Retained: m.Retained}
	tank, leaf, ok := i.Split(m.Topic)
	kind, known := event.TypeOfTopic(leaf)
	if !ok || !known {
		d.Form = &event.FormError{Reason: event.Malformed, Detail: "topic carries no event"}
		return d
	}
	var err error
	if d.Event, err = decoder.Decode(kind, tank, m.Payload); err != nil && !errors.As(err, &d.Form) {
		d.Form = &event.FormError{Reason: event.Malformed, Detail: err.Error()}
	}
	return d
}

// reportEvery is the least time between two lines about messages refused for one
// reason: a flood of poison must not become a flood of log. All are counted.
const reportEvery = 10 * time.Second

// refusals counts what was refused for one reason and not yet reported.
type refusals struct {
	reported time.Time
	messages int
}

// report logs what a person may want to look at.
func (i *Ingest) report(deliveries []ledger.Delivery, results []ledger.Result) {
	for n, r := range results {
		i.Log.Debug().Str("topic", deliveries[n].Topic).Stringer("outcome", r.Outcome).
			Str("event_id", deliveries[n].Event.ID).Uint64("lsn", r.LSN).Msg("decided")
		if r.Outcome != ledger.Quarantined && r.Outcome != ledger.Conflict {
			continue
		}
		if i.refused == nil {
			i.refused = map[event.Reason]*refusals{}
		}
		if i.refused[r.Reason] == nil {
			i.refused[r.Reason] = &refusals{}
		}
		i.refused[r.Reason].messages++
	}
	for reason, c := range i.refused {
		if c.messages > 0 && time.Since(c.reported) >= reportEvery {
			i.Log.Warn().Str("reason", string(reason)).Int("messages", c.messages).Msg("messages quarantined")
			c.reported, c.messages = time.Now(), 0
		}
	}
}

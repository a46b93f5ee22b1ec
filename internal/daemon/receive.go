package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/ingest"
	"oxyd/internal/config"
	"oxyd/ledger"
	"oxyd/mqtt"
)

// subscriberBackoffMax is the longest pause between two connects of the ledger.
const subscriberBackoffMax = 3 * time.Second

// Pauses of the publishing of committed state.
const (
	// balancePause joins the changes of a moment into one publication a tank.
	balancePause = 250 * time.Millisecond
	// ledgerStatusPause is the least time between two status documents of the
	// ledger, whose digest changes with every event.
	ledgerStatusPause = time.Second
	// staleEvery is how often balances are looked at without a change, for time
	// alone makes them stale.
	staleEvery = 5 * time.Second
	// republishEvery is when the documents are published again unchanged. The
	// embedded broker can pass over a subscriber that comes in the same moment as
	// a retained value; the value must not stay hidden from it for ever.
	republishEvery = 10 * time.Minute
)

func ledgerTanks(cfg *config.Config) []ledger.Tank {
	list := make([]ledger.Tank, 0, len(cfg.Tanks))
	for _, t := range cfg.Tanks {
		list = append(list, ledger.Tank{ID: t.ID, Name: t.Name, Capacity: physic.Mass(t.Capacity), Initial: (*physic.Mass)(t.Initial)})
	}
	return list
}

// openConnections makes the two clients of this node. They never share a
// connection: the publisher must not wait for a slow subscriber, nor mix its
// packet ids with the broker's.
func (b *board) openConnections() error {
	presence := mqtt.Presence{Topic: b.topics.NodeStatus(b.cfg.Node), Birth: b.nodeStatus,
		Will: func() []byte { return b.nodeOffline("connection lost") }, Goodbye: func() []byte { return b.nodeOffline("shutdown") }}
	b.publisher = mqtt.NewPublisher(b.connection(b.cfg.PublisherClientID()), queue{b.outbox}, presence,
		b.log.With().Str("part", "publisher").Logger())
	b.publisher.Follow(b.following())
	if b.ledger == nil {
		return nil
	}
	presence = mqtt.Presence{Topic: b.topics.LedgerStatus(b.cfg.Ledger.ID), Birth: b.ledgerStatus,
		Will: func() []byte { return b.ledgerOffline("connection lost") }, Goodbye: func() []byte { return b.ledgerOffline("shutdown") }}
	b.ingest = &ingest.Ingest{Split: b.topics.ParseTank, Apply: b.ledger.Apply, Log: b.log.With().Str("part", "ingest").Logger()}
	o := b.connection(b.cfg.LedgerClientID())
	// A base has one ledger or two, not a fleet: it comes back soon, for until its
	// session is there again a broker that lost it takes events for nobody.
	o.BackoffMax = subscriberBackoffMax
	b.subscriber = mqtt.NewSubscriber(o, b.topics.EventFilters(), &presence,
		b.receive, b.log.With().Str("part", "subscriber").Logger())
	return nil
}

// connection says how to reach the broker with one of the node's client ids.
func (b *board) connection(clientID string) mqtt.Options {
	o := Connection(b.cfg, b.brokerAddress(), clientID)
	o.Clock = b.clock
	return o
}

// receive serves one connection of the subscriber: it gives the mailbox to
// ingest. A store whose state is not known ends the process; every other trouble
// ends the connection, and the broker brings the messages again.
func (b *board) receive(ctx context.Context, box *mqtt.Mailbox) error {
	err := b.ingest.Run(ctx, takeFrom(box))
	if storeFailed(err) {
		select {
		case b.failed <- fmt.Errorf("ledger: %w", err):
		default: // the first one is enough
		}
	}
	return err
}

// takeFrom shows a mailbox to ingest, which does not know mqtt.
func takeFrom(box *mqtt.Mailbox) func(context.Context, int) ([]ingest.Message, error) {
	return func(ctx context.Context, limit int) ([]ingest.Message, error) {
		got, err := box.Take(ctx, limit)
		batch := make([]ingest.Message, len(got))
		for i := range got {
			d := &got[i]
			batch[i] = ingest.Message{Topic: d.Topic, Payload: d.Payload, Retained: d.Retained, Ack: d.Ack}
		}
		return batch, err
	}
}

// publishAccount publishes what the last commit changed, from committed state: a
// crash in between costs a publication, and the next start makes it again.
func (b *board) publishAccount(ctx context.Context) error {
	published := map[string]string{} // topic → payload
	confirms := confirmations{due: map[string]bool{}}
	var gaps gapWatch
	var statusDue, republish time.Time
	status := repeated{every: ledgerStatusEvery}
	for {
		if time.Now().After(republish) { // at the start too
			clear(published)
			republish = time.Now().Add(republishEvery)
			if err := confirms.all(b); err != nil {
				return err
			}
		}
		changed := b.ledger.Changed() // before reading, so that no commit is missed
		if b.cfg.Ledger.Publish {
			if err := b.publishBalances(published); err != nil {
				return err
			}
		}
		if err := confirms.publish(b, published); err != nil {
			return err
		}
		if err := gaps.look(b); err != nil {
			return err
		}
		if now := time.Now(); now.After(statusDue) {
			statusDue = now.Add(ledgerStatusPause)
			s, err := b.ledger.Status()
			if err != nil {
				return fmt.Errorf("read ledger status: %w", err)
			}
			b.judgeAccount(&s)
			if body := b.ledgerOnline(&s); status.due(body, now) {
				b.subscriber.SetPresence(body)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(min(confirms.patience(), gaps.patience())):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(balancePause):
		}
	}
}

// publishBalances publishes the documents that differ from what was published.
func (b *board) publishBalances(published map[string]string) error {
	balances, err := b.ledger.Balances()
	if err != nil {
		return fmt.Errorf("read balances: %w", err)
	}
	due := map[string]string{}
	for i := range balances {
		doc := &balances[i]
		body, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("write balance of tank %s: %w", doc.Tank, err)
		}
		due[b.topics.Tank(doc.Tank, "balance")] = string(body)
		due[b.topics.Tank(doc.Tank, "availability")] = availability(doc)
	}
	maps.DeleteFunc(due, func(topic, body string) bool { return published[topic] == body })
	for topic, body := range due {
		if err := b.publisher.SetRetained(topic, []byte(body)); err != nil {
			b.log.Warn().Err(err).Msg("balance not published")
			continue
		}
		published[topic] = body
	}
	return nil
}

// sayOffline marks the tanks of a ledger that stops: nobody follows their numbers
// any more. After a crash the ledger's own status says it, by its will.
func (b *board) sayOffline() {
	if b.ledger == nil || !b.cfg.Ledger.Publish {
		return
	}
	balances, err := b.ledger.Balances()
	if err != nil {
		b.log.Warn().Err(err).Msg("availability not published")
		return
	}
	for i := range balances {
		if err := b.publisher.SetRetained(b.topics.Tank(balances[i].Tank, "availability"), []byte("offline")); err != nil {
			b.log.Warn().Err(err).Msg("availability not published")
		}
	}
}

// availability says in one word whether the tank's number can be followed.
func availability(doc *ledger.Balance) string {
	if doc.Stale {
		return "stale"
	}
	return "online"
}

// ledgerDocument is the retained status of a ledger (contract section 9).
type ledgerDocument struct {
	Status           string `json:"status"`
	Ledger           string `json:"ledger"`
	Reason           string `json:"reason,omitempty"`
	Incarnation      uint64 `json:"incarnation,omitempty"`
	Digest           string `json:"digest,omitempty"`
	Facts            string `json:"facts,omitempty"`
	Revision         uint64 `json:"revision,omitempty"`
	DedupWindow      string `json:"dedup_window,omitempty"`
	RedeliveryWindow string `json:"redelivery_window,omitempty"`
	Clock            string `json:"clock,omitempty"`
	// Alarms are what an operator has to see to, of this ledger as a whole.
	Alarms []alarmDocument `json:"alarms,omitempty"`
}

// ledgerStatus is the birth of the ledger's client.
func (b *board) ledgerStatus() []byte {
	s, err := b.ledger.Status()
	if err != nil {
		b.log.Error().Err(err).Msg("read ledger status")
		return b.ledgerOffline("store cannot be read")
	}
	return b.ledgerOnline(&s)
}

func (b *board) ledgerOnline(s *ledger.Status) []byte {
	c := b.cfg.Ledger
	return mustJSON(ledgerDocument{Status: "online", Ledger: c.ID, Incarnation: s.Incarnation, Digest: s.Digest,
		Facts: s.Facts, Revision: s.Revision, DedupWindow: c.DedupWindow.String(), RedeliveryWindow: c.RedeliveryWindow.String(),
		Clock: b.clockWord(), Alarms: b.ledgerAlarms.list()})
}

// ledgerOffline keeps how far the ledger was, by which it knows at its next start
// whether its store was set back.
func (b *board) ledgerOffline(reason string) []byte {
	doc := ledgerDocument{Status: "offline", Ledger: b.cfg.Ledger.ID, Reason: reason}
	if s, err := b.ledger.Status(); err == nil {
		doc.Incarnation, doc.Revision = s.Incarnation, s.Revision
	}
	return mustJSON(doc)
}

// mustJSON writes a document of plain fields, which cannot fail.
func mustJSON(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(errors.Join(errors.New("document of plain fields does not marshal"), err))
	}
	return body
}

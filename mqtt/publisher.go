package mqtt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/rs/zerolog"
)

const (
	// Window is how many QoS 1 messages may be on their way: sent, and not yet
	// confirmed by the Queue. It is the most that is sent twice after a crash.
	Window = 500
	// confirmMax is the most rows in one call of Confirm: while half of the
	// window is being written to disk the other half is on the wire.
	confirmMax = Window / 2
	// readMax is the most rows in one call of Next.
	readMax = 256
	// recheckEvery is when the queue is asked although nothing has woken us:
	// the wake is a hint.
	recheckEvery = 10 * time.Second
	// drainPatience bounds the wait, at a stop, for the PUBACKs still owed.
	drainPatience = 2 * time.Second
	// TelemetryBuffer is how many telemetry messages may wait for the sender.
	TelemetryBuffer = 256
)

// Outgoing is one message of the Queue. Rows count from 1.
type Outgoing struct {
	Row     uint64
	Topic   string
	Payload []byte
}

// Queue is the durable source of the messages: the outbox.
type Queue interface {
	// Next returns up to max pending messages with Row > after, in row order,
	// and has durably marked them as handed over before it returns. It returns
	// none when none wait.
	Next(after uint64, max int) ([]Outgoing, error)
	// Confirm says that the broker has acknowledged these rows, ascending, on the
	// connection that sent them. On return Next gives them no more, other than after
	// a crash: a queue may put off its commit. It may be called at the same time as
	// Next.
	Confirm(rows []uint64) error
	// Wake is signalled when Next may have more. Capacity 1; a hint.
	Wake() <-chan struct{}
}

// PublisherCounts are totals since the start of the process, but for the last
// three, which are of this moment.
type PublisherCounts struct {
	Published        uint64 // rows handed to the broker, repeats included
	Resent           uint64 // of these, rows that had been sent before
	Acknowledged     uint64 // PUBACKs, for rows and for retained values
	Confirmed        uint64 // rows acknowledged and confirmed to the queue
	AckTimeouts      uint64 // connections ended because no PUBACK came
	QueueErrors      uint64 // connections ended because Next or Confirm failed
	RetainedSent     uint64 // retained values handed to the broker
	RetainedRefused  uint64 // values that SetRetained did not take
	TelemetrySent    uint64
	TelemetryDropped uint64 // not connected, or more than TelemetryBuffer waited
	FollowRefused    uint64 // followed documents passed over at a bound
	FollowFaults     uint64 // connections on which the following was refused

	InFlight            int // messages sent and not settled
	Retained            int // topics in the table of retained values
	RetainedUndelivered int // of these, values without a PUBACK on this connection
}

// Publisher sends the rows of a Queue, retained values and telemetry on one
// connection, and listens there to what is said of them. It owns the client id of its Options.
type Publisher struct {
	queue    Queue
	presence Presence
	conn     *connector
	log      zerolog.Logger

	retained  *retainedTable
	telemetry chan telemetryMessage
	following Following
	heard     *newest

	reading  sync.Mutex    // held while a sender reads the queue
	highest  atomic.Uint64 // the highest row ever sent by this process
	inFlight atomic.Pointer[window]

	published, resent               atomic.Uint64
	acknowledged, confirmed         atomic.Uint64
	ackTimeouts, queueErrors        atomic.Uint64
	retainedSent, retainedRefused   atomic.Uint64
	telemetrySent, telemetryDropped atomic.Uint64
	followRefused, followFaults     atomic.Uint64
}

type telemetryMessage struct {
	topic   string
	payload []byte
}

// NewPublisher makes a Publisher; Run starts it.
func NewPublisher(o Options, q Queue, p Presence, log zerolog.Logger) *Publisher {
	return &Publisher{
		queue:     q,
		presence:  p,
		conn:      newConnector(o, log),
		log:       log,
		retained:  newRetainedTable(),
		telemetry: make(chan telemetryMessage, TelemetryBuffer),
		heard:     newNewest(),
	}
}

// Run publishes until ctx ends. Then it waits a little for the PUBACKs still
// owed, publishes the goodbye, disconnects and returns nil. Trouble with the
// broker or the queue ends a connection, never Run; an error means options that
// can never work.
func (p *Publisher) Run(ctx context.Context) error {
	if err := errors.Join(p.presence.validate(), p.following.validate()); err != nil {
		return fmt.Errorf("mqtt publisher: %w", err)
	}
	if !p.following.none() {
		defer p.startFollowing(ctx)()
	}
	return p.conn.run(ctx, p.begin)
}

func (p *Publisher) begin(o *paho.ClientOptions, l *link) func(context.Context) error {
	// The queue is the session. A clean one also makes paho fail the tokens of a
	// lost connection, and the broker forget half-sent messages.
	o.SetCleanSession(true)
	p.presence.setWill(o)
	p.listen(o)
	return func(ctx context.Context) error { return p.serve(ctx, l) }
}

// serve runs one connection: a sender, which may be stuck in a lost link and is
// then left behind, and the settling of what it has sent.
func (p *Publisher) serve(ctx context.Context, l *link) error {
	w := newWindow()
	p.inFlight.Store(w)
	defer p.dropTelemetry()
	connection := p.retained.renew(p.presence.Topic)
	stopped := make(chan struct{})
	go func() {
		defer close(w.sent)
		defer close(stopped)
		p.subscribe(ctx, l)
		if err := p.send(ctx, l, w, connection); err != nil {
			l.end(err)
		}
	}()
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainPatience, giveUp) })()

	err := p.settle(patience, l, w)
	if err == nil {
		err = p.farewell(l, stopped)
	}
	if err != nil && ctx.Err() != nil {
		p.log.Warn().Err(err).Msg("stopped without a goodbye, the broker publishes the will")
	}
	return err
}

// farewell publishes the goodbye behind everything else that was sent.
func (p *Publisher) farewell(l *link, senderStopped <-chan struct{}) error {
	if p.presence.none() {
		return nil
	}
	select {
	case <-senderStopped:
		return l.sayGoodbye(&p.presence)
	default: // stuck in a link that does not move; a status after the goodbye would undo it
		return errOutOfPatience
	}
}

// SetRetained makes payload the value of a retained topic: published, QoS 1, now
// or when connected, and anew at each connect, until a newer value takes its
// place. An empty payload clears the topic. On the topic of the Presence it
// refreshes the status until the next birth. The payload is copied. It returns an
// error for a value beyond MaxRetainedTopics or MaxRetainedBytes, which changes
// nothing, and for a topic that is none.
func (p *Publisher) SetRetained(topic string, payload []byte) error {
	err := p.retained.set(topic, payload)
	if err != nil {
		p.retainedRefused.Add(1)
	}
	return err
}

// Telemetry sends payload with QoS 0, at most once, and reports whether it was
// taken. It never blocks; while not connected it takes nothing.
func (p *Publisher) Telemetry(topic string, payload []byte) bool {
	if p.conn.snapshot().Connected && ValidTopic(topic) {
		select {
		case p.telemetry <- telemetryMessage{topic, slices.Clone(payload)}:
			return true
		default:
		}
	}
	p.telemetryDropped.Add(1)
	return false
}

// dropTelemetry forgets what a connection leaves behind: it would be stale.
func (p *Publisher) dropTelemetry() {
	for {
		select {
		case <-p.telemetry:
			p.telemetryDropped.Add(1)
		default:
			return
		}
	}
}

// Status returns the state of the connection.
func (p *Publisher) Status() Status { return p.conn.snapshot() }

// Counts returns the counters.
func (p *Publisher) Counts() PublisherCounts {
	kept, undelivered := p.retained.counts()
	c := PublisherCounts{
		Published:           p.published.Load(),
		Resent:              p.resent.Load(),
		Acknowledged:        p.acknowledged.Load(),
		Confirmed:           p.confirmed.Load(),
		AckTimeouts:         p.ackTimeouts.Load(),
		QueueErrors:         p.queueErrors.Load(),
		RetainedSent:        p.retainedSent.Load(),
		RetainedRefused:     p.retainedRefused.Load(),
		TelemetrySent:       p.telemetrySent.Load(),
		TelemetryDropped:    p.telemetryDropped.Load(),
		FollowRefused:       p.followRefused.Load(),
		FollowFaults:        p.followFaults.Load(),
		Retained:            kept,
		RetainedUndelivered: undelivered,
	}
	if w := p.inFlight.Load(); w != nil && p.conn.snapshot().Connected {
		c.InFlight = len(w.slots)
	}
	return c
}

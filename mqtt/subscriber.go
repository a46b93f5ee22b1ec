package mqtt

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/rs/zerolog"
)

const (
	// stopPatience bounds the wait, at a stop, for the handler before the goodbye.
	stopPatience = 2 * time.Second
	// handlerPatience is when a handler that holds up the next connection is
	// reported.
	handlerPatience = 10 * time.Second
)

// SubscriberCounts are totals since the start of the process, but for the last
// two, which are of this moment.
type SubscriberCounts struct {
	Received         uint64 // messages read from the broker, repeats included
	MailboxOverflows uint64 // connections ended because the mailbox was full
	SessionsLost     uint64 // connects to a broker that had forgotten the session
	Refused          uint64 // subscriptions refused or granted below QoS 1
	HandlerErrors    uint64 // connections ended by the handler

	Waiting      int // messages in the mailbox
	WaitingBytes int
}

// Subscriber receives what its filters match, QoS 1, in a persistent session,
// and acknowledges a message when its handler says so. It owns the client id of
// its Options.
type Subscriber struct {
	// MailboxBytes bounds the mailbox; 0: DefaultMailboxBytes. Set before Run.
	MailboxBytes int
	// OnSessionLost, if set, is called when the broker has forgotten the session
	// that an earlier connection of this process subscribed in: what was queued
	// there is gone. It holds up the new connection until it returns. Set before
	// Run.
	OnSessionLost func()

	filters  []string
	presence *Presence
	handle   func(ctx context.Context, box *Mailbox) error
	conn     *connector
	log      zerolog.Logger

	status     statusDocument
	subscribed atomic.Bool // a connection of this process has subscribed
	granted    chan struct{}
	box        atomic.Pointer[Mailbox]

	received, overflows, sessionsLost atomic.Uint64
	refused, handlerErrors            atomic.Uint64
}

// NewSubscriber makes a Subscriber; Run starts it. p may be nil.
//
// handle is called once for each connection, in a goroutine of its own, before
// the subscription is made. It takes messages from the mailbox until Take returns
// an error, and returns it or its own; any return ends the connection. Its ctx
// ends with the connection. The next connection is not made before it has
// returned, so that no two work at a time. While it is busy the connection stays
// alive.
func NewSubscriber(o Options, filters []string, p *Presence, handle func(ctx context.Context, box *Mailbox) error, log zerolog.Logger) *Subscriber {
	return &Subscriber{
		filters:  filters,
		presence: p,
		handle:   handle,
		conn:     newConnector(o, log),
		log:      log,
		status:   statusDocument{wake: make(chan struct{}, 1)},
		granted:  make(chan struct{}),
	}
}

// Run receives until ctx ends. Then it lets the handler finish, publishes the
// goodbye, disconnects and returns nil; the session stays at the broker. Trouble
// with the broker or the handler ends a connection, never Run; an error means
// options that can never work.
func (s *Subscriber) Run(ctx context.Context) error {
	if err := s.presence.validate(); err != nil {
		return fmt.Errorf("mqtt subscriber: %w", err)
	}
	if len(s.filters) == 0 {
		return errors.New("mqtt subscriber: no topic filter")
	}
	for _, f := range s.filters {
		if !ValidFilter(f) {
			return fmt.Errorf("mqtt subscriber: %q is not a topic filter", f)
		}
	}
	return s.conn.run(ctx, s.begin)
}

func (s *Subscriber) begin(o *paho.ClientOptions, l *link) func(context.Context) error {
	box := newMailbox(s.MailboxBytes, l)
	o.SetCleanSession(false)
	o.SetAutoAckDisabled(true)
	// Set before the connect: the broker may deliver before CONNACK is read, and
	// what finds no handler is never acknowledged.
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { s.receive(box, m) })
	s.presence.setWill(o)
	return func(ctx context.Context) error { return s.serve(ctx, l, box) }
}

// receive is called by the reader of the socket and must not wait.
func (s *Subscriber) receive(box *Mailbox, m paho.Message) {
	s.received.Add(1)
	if box.put(m) {
		s.overflows.Add(1)
		s.log.Warn().Int("limit_bytes", box.limit).Msg("mailbox is full, the broker will deliver again")
	}
}

// serve runs one connection: the handler, and beside it what else the connection
// needs.
func (s *Subscriber) serve(ctx context.Context, l *link, box *Mailbox) error {
	s.box.Store(box)
	s.noteSession(l)
	working, stop := context.WithCancel(ctx)
	defer stop()
	handled := make(chan error, 1)
	go func() { handled <- s.handle(working, box) }()
	announced := make(chan error, 1)
	go func() { announced <- s.announce(working, l) }()

	var err error
	select {
	case err = <-handled:
		handled <- nil // for those who wait for the handler below
		err = s.handlerEnd(ctx, l, err)
	case err = <-announced:
		announced <- nil
	case <-l.lost:
		err = l.err
	case <-ctx.Done():
	}
	stop()
	if ctx.Err() != nil {
		return s.farewell(l, handled, announced)
	}
	if !errors.Is(err, ErrMailboxFull) {
		l.end(err)
	}
	s.awaitHandler(handled)
	return err
}

// noteSession compares the broker's memory of the session with ours.
func (s *Subscriber) noteSession(l *link) {
	if l.sessionPresent || !s.subscribed.Load() {
		return
	}
	s.sessionsLost.Add(1)
	s.log.Warn().Msg("broker has lost the session, what it had queued is gone")
	if s.OnSessionLost != nil {
		s.OnSessionLost()
	}
}

// handlerEnd says why a connection ends whose handler has returned.
func (s *Subscriber) handlerEnd(ctx context.Context, l *link, err error) error {
	switch {
	case errors.Is(err, ErrMailboxFull):
		return err
	case l.isLost():
		return l.err
	case ctx.Err() != nil:
		return nil
	case err == nil:
		err = errors.New("returned without a reason")
	}
	s.handlerErrors.Add(1)
	return fmt.Errorf("handle messages: %w", err)
}

// awaitHandler waits until the handler of a connection that has ended is done. A
// commit may take its time; its acknowledgements do nothing any more.
func (s *Subscriber) awaitHandler(handled <-chan error) {
	slow := time.NewTimer(handlerPatience)
	defer slow.Stop()
	select {
	case <-handled:
		return
	case <-slow.C:
		s.log.Warn().Msg("handler is still busy, the next connection waits for it")
	}
	<-handled
}

// farewell ends the last connection: the handler first, whose acknowledgements
// still count, then the goodbye. An error lets the broker publish the will.
func (s *Subscriber) farewell(l *link, handled, announced <-chan error) error {
	patience, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	busy := !settled(patience, handled)
	announcing := !settled(patience, announced) // a document after the goodbye would undo it
	err := l.endedOr(nil)
	if err == nil && announcing {
		err = fmt.Errorf("%w for the status document", ErrNoAnswer)
	}
	if err == nil && !s.presence.none() {
		err = l.sayGoodbye(s.presence)
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("stopped without a goodbye, the broker publishes the will")
	}
	if busy {
		l.close(err == nil, err)
		s.awaitHandler(handled)
	}
	return err
}

func settled(patience context.Context, done <-chan error) bool {
	select {
	case <-done:
		return true
	default: // of two that are ready select would take either
	}
	select {
	case <-done:
		return true
	case <-patience.Done():
		return false
	}
}

// Subscribed gives a channel that is closed once the broker has granted the
// subscription for the first time in this process.
func (s *Subscriber) Subscribed() <-chan struct{} { return s.granted }

// Status returns the state of the connection.
func (s *Subscriber) Status() Status { return s.conn.snapshot() }

// Counts returns the counters.
func (s *Subscriber) Counts() SubscriberCounts {
	c := SubscriberCounts{
		Received:         s.received.Load(),
		MailboxOverflows: s.overflows.Load(),
		SessionsLost:     s.sessionsLost.Load(),
		Refused:          s.refused.Load(),
		HandlerErrors:    s.handlerErrors.Load(),
	}
	if box := s.box.Load(); box != nil {
		c.Waiting, c.WaitingBytes = box.waitingNow()
	}
	return c
}

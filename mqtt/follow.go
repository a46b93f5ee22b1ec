package mqtt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// MaxFollowedBytes bounds one document that a Publisher follows. A longer one
	// is passed over, counted.
	MaxFollowedBytes = 64 << 10
	// MaxFollowedTopics bounds the topics whose newest document waits to be
	// handled. What comes beyond it is passed over, counted; it comes again with
	// the next change, or at the next connect.
	MaxFollowedTopics = 4096
	// maxWaitingBytes bounds all that waits to be handled, topics included, or that
	// one Fetch takes: whoever may publish could fill the memory of a small board.
	maxWaitingBytes = 8 << 20
)

// Following is what a Publisher listens to on its own connection: small documents
// about what it sends, as confirmations are. It is a convenience and no delivery:
// of each topic the newest document is handled, those that it overtook are not,
// and a broker that refuses the subscription is told of in the log and published
// to all the same.
type Following struct {
	Filters []string // subscribed, QoS 1, at each connect
	// Handle is called by one goroutine for all connections, one document at a
	// time. An empty payload says that a retained document was cleared.
	Handle func(topic string, payload []byte)
}

// Follow sets what is listened to. Call it before Run.
func (p *Publisher) Follow(f Following) { p.following = f }

func (f *Following) none() bool { return f.Handle == nil || len(f.Filters) == 0 }

func (f *Following) validate() error {
	if f.none() {
		return nil
	}
	for _, filter := range f.Filters {
		if !ValidFilter(filter) {
			return fmt.Errorf("%q is not a topic filter", filter)
		}
	}
	return nil
}

// listen is called before the connect, for the broker may deliver at once.
func (p *Publisher) listen(o *paho.ClientOptions) {
	if p.following.none() {
		return
	}
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { // must not wait
		if !p.heard.put(m.Topic(), m.Payload()) {
			p.followRefused.Add(1)
		}
	})
}

// subscribe asks for the filters, ahead of everything that is sent, and does not
// wait for the answer. A refusal ends nothing: events go out whether anybody
// confirms them or not.
func (p *Publisher) subscribe(ctx context.Context, l *link) {
	if p.following.none() {
		return
	}
	filters := make(map[string]byte, len(p.following.Filters))
	for _, f := range p.following.Filters {
		filters[f] = 1
	}
	token := l.client.SubscribeMultiple(filters, nil).(*paho.SubscribeToken)
	go p.awaitFollowing(ctx, l, token)
}

func (p *Publisher) awaitFollowing(ctx context.Context, l *link, token *paho.SubscribeToken) {
	err := l.awaitSubscription(ctx, token, p.conn.opts.AckTimeout)
	if err == nil || ctx.Err() != nil || l.isLost() {
		return
	}
	if p.followFaults.Add(1) == 1 {
		p.log.Warn().Err(err).Strs("filters", p.following.Filters).
			Msg("confirmations cannot be followed on this broker: nothing is sent again on its own")
	}
}

// awaitSubscription waits for the SUBACK. The error is ErrSubscriptionRefused where it
// grants a filter nothing.
func (l *link) awaitSubscription(ctx context.Context, token *paho.SubscribeToken, patience time.Duration) error {
	err := l.await(ctx, token, patience, "the subscription")
	for filter, code := range token.Result() {
		if code > 2 { // MQTT 3.9.3: 0x80 is the only failure
			err = errors.Join(err, fmt.Errorf("%w: filter %q, code 0x%02x", ErrSubscriptionRefused, filter, code))
		}
	}
	return err
}

// startFollowing gives what ends the handling and waits for it.
func (p *Publisher) startFollowing(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.follow(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// follow hands the documents to the handler until ctx ends.
func (p *Publisher) follow(ctx context.Context) {
	for {
		topic, payload, ok := p.heard.take()
		if ok {
			p.following.Handle(topic, payload)
			continue
		}
		select {
		case <-p.heard.wake:
		case <-ctx.Done():
			return
		}
	}
}

// newest keeps the last document of each topic until it is taken, in the order in
// which the topics were first heard.
type newest struct {
	mu    sync.Mutex
	docs  map[string][]byte
	order []string
	bytes int // of docs
	wake  chan struct{}
}

func newNewest() *newest {
	return &newest{docs: map[string][]byte{}, wake: make(chan struct{}, 1)}
}

// put reports false for what is beyond the bounds.
func (n *newest) put(topic string, payload []byte) bool {
	if len(payload) > MaxFollowedBytes {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	was, waits := n.docs[topic]
	grows := len(payload) - len(was)
	if !waits {
		grows += len(topic)
	}
	if n.bytes+grows > maxWaitingBytes || !waits && len(n.order) >= MaxFollowedTopics {
		return false
	}
	if !waits {
		n.order = append(n.order, topic)
	}
	n.bytes += grows
	n.docs[topic] = slices.Clone(payload)
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return true
}

func (n *newest) take() (topic string, payload []byte, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return "", nil, false
	}
	topic = n.order[0]
	n.order = n.order[1:]
	payload = n.docs[topic]
	n.bytes -= len(topic) + len(payload)
	delete(n.docs, topic)
	return topic, payload, true
}

package mqtt

import (
	"context"
	"fmt"
	"slices"
	"sync"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// SetPresence refreshes the retained status document, QoS 1, on this connection;
// while one is being published the newest of the later ones follows. Without a
// connection it does nothing: the next birth says it all. The payload is copied.
func (s *Subscriber) SetPresence(payload []byte) {
	if !s.presence.none() && len(payload) > 0 {
		s.status.set(slices.Clone(payload))
	}
}

// announce publishes the birth, subscribes, and then keeps the status document
// fresh, one on its way at a time, until ctx or the connection ends.
func (s *Subscriber) announce(ctx context.Context, l *link) error {
	var birth paho.Token
	if !s.presence.none() {
		s.status.take() // older than the birth about to be made
		birth = l.publish(s.presence.Topic, true, s.presence.Birth())
	}
	// The birth comes first, but a broker that keeps no status still delivers.
	if err := s.subscribe(ctx, l); err != nil {
		return err
	}
	if birth != nil {
		if err := s.awaitStatus(ctx, l, birth); err != nil {
			return err
		}
	}
	for {
		select {
		case <-s.status.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		if payload := s.status.take(); payload != nil {
			if err := s.awaitStatus(ctx, l, l.publish(s.presence.Topic, true, payload)); err != nil {
				return err
			}
		}
	}
}

func (s *Subscriber) awaitStatus(ctx context.Context, l *link, token paho.Token) error {
	return l.await(ctx, token, s.conn.opts.AckTimeout, "the status document")
}

// subscribe asks for the filters on every connect, whatever the session holds: a
// broker may have lost it, or an older configuration made it.
func (s *Subscriber) subscribe(ctx context.Context, l *link) error {
	filters := make(map[string]byte, len(s.filters))
	for _, f := range s.filters {
		filters[f] = eventQoS
	}
	token := l.client.SubscribeMultiple(filters, nil).(*paho.SubscribeToken)
	if err := l.await(ctx, token, s.conn.opts.AckTimeout, "the subscription"); err != nil {
		return err
	}
	granted := token.Result()
	for _, f := range s.filters {
		if code, ok := granted[f]; !ok || code != eventQoS {
			s.refused.Add(1)
			return fmt.Errorf("%w: filter %q, code 0x%02x instead of QoS %d", ErrSubscriptionRefused, f, code, eventQoS)
		}
	}
	if !s.subscribed.Swap(true) {
		close(s.granted)
	}
	s.conn.noteSubscribed(l)
	return nil
}

// statusDocument holds the newest status document that is not published yet.
type statusDocument struct {
	mu      sync.Mutex
	payload []byte
	wake    chan struct{}
}

func (d *statusDocument) set(payload []byte) {
	d.mu.Lock()
	d.payload = payload
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *statusDocument) take() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	payload := d.payload
	d.payload = nil
	return payload
}

package mqtt

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/rs/zerolog"
)

const (
	// fetchQuiet is how long nothing may come, after the broker has granted the
	// subscription, for the retained documents to be all there. MQTT has no end mark.
	fetchQuiet = 500 * time.Millisecond
	// FetchMax bounds how many documents one Fetch takes; others are left out.
	FetchMax = 4096
)

// Fetch connects once with the client id of o, reads the retained documents that
// the filters match, and disconnects. It returns them by topic, none being an empty
// map. Documents beyond FetchMax, MaxFollowedBytes or 8 MiB in all are left out. The error is
// ErrSubscriptionRefused where the broker does not let this client read them.
func Fetch(ctx context.Context, o Options, filters []string, log zerolog.Logger) (map[string][]byte, error) {
	for _, f := range filters {
		if !ValidFilter(f) {
			return nil, fmt.Errorf("fetch: %q is not a topic filter", f)
		}
	}
	c := newConnector(o, log)
	if err := c.opts.Validate(); err != nil {
		return nil, fmt.Errorf("fetch: mqtt options: %w", err)
	}
	f := fetched{docs: map[string][]byte{}, heard: make(chan struct{}, 1)}
	_, err := c.once(ctx, func(po *paho.ClientOptions, l *link) func(context.Context) error {
		po.SetCleanSession(true)
		po.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { f.put(m) })
		return func(ctx context.Context) error { return f.read(ctx, l, filters, c.opts.AckTimeout) }
	})
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return f.docs, nil
}

// fetched collects what a Fetch receives.
type fetched struct {
	mu    sync.Mutex
	docs  map[string][]byte
	bytes int
	heard chan struct{}
}

func (f *fetched) put(m paho.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := len(m.Topic()) + len(m.Payload())
	if m.Retained() && len(m.Payload()) <= MaxFollowedBytes && len(f.docs) < FetchMax && f.bytes+size <= maxWaitingBytes {
		f.bytes += size
		f.docs[m.Topic()] = slices.Clone(m.Payload())
	}
	select {
	case f.heard <- struct{}{}:
	default:
	}
}

func (f *fetched) read(ctx context.Context, l *link, filters []string, patience time.Duration) error {
	want := make(map[string]byte, len(filters))
	for _, filter := range filters {
		want[filter] = 1
	}
	token := l.client.SubscribeMultiple(want, nil).(*paho.SubscribeToken)
	if err := l.awaitSubscription(ctx, token, patience); err != nil {
		return err
	}
	for {
		quiet := time.NewTimer(fetchQuiet)
		select {
		case <-f.heard:
			quiet.Stop()
		case <-quiet.C:
			return nil
		case <-l.lost:
			return l.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

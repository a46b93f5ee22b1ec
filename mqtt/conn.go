package mqtt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/rs/zerolog"
)

const (
	// RefusedPause is the least pause after the broker refused the credentials
	// (CONNACK 4 or 5): a human must act, and brokers lock out who insists.
	RefusedPause = 60 * time.Second
	// stableAfter is how long a connection must have held for the next pause to
	// start again at BackoffMin.
	stableAfter = 10 * time.Second
	// kickedTimes is how many of them make it worth a word.
	kickedTimes = 3
)

// connector keeps one client connected: one connection after the other, each
// with its own paho client, with a pause between them.
type connector struct {
	opts     Options
	log      zerolog.Logger
	clockSet chan struct{} // capacity 1

	mu     sync.Mutex
	status Status
	warned string // the trouble last logged, so that each is logged once
	// flapping: the last connection did not hold, so that the next is no news.
	flapping bool
	// kicked counts connections that the broker closed soon after they stood, as it
	// does when another client comes with the same id (MQTT-3.1.4-2), since one held.
	kicked int
}

func newConnector(o Options, log zerolog.Logger) *connector {
	return &connector{
		opts:     o.withDefaults(),
		log:      log.With().Str("client_id", o.ClientID).Logger(),
		clockSet: make(chan struct{}, 1),
		status:   Status{Broker: o.Broker, ClientID: o.ClientID},
	}
}

// beginFunc adds to the options what its role needs, before the connect: the
// broker may send messages before anything else. It returns what serves the
// connection once it is up, and returns when the connection is to end: with nil
// for a clean stop after ctx has ended, otherwise with the reason.
type beginFunc func(*paho.ClientOptions, *link) (serve func(context.Context) error)

// run connects and serves until ctx ends. It returns an error only for options
// that can never work.
func (c *connector) run(ctx context.Context, begin beginFunc) error {
	if err := c.opts.Validate(); err != nil {
		return fmt.Errorf("mqtt options: %w", err)
	}
	for failures := 0; ; failures++ {
		up, err := c.once(ctx, begin)
		if ctx.Err() != nil {
			return nil
		}
		if up >= stableAfter || errors.Is(err, ErrMailboxFull) {
			failures = 0 // it worked
		}
		pause := c.pause(err, failures)
		c.noteDown(err, pause, up)
		select {
		case <-ctx.Done():
			return nil
		case <-c.cureFor(err):
		case <-time.After(pause):
		}
	}
}

// once serves one connection and says how long it was up and why it ended.
func (c *connector) once(ctx context.Context, begin beginFunc) (time.Duration, error) {
	c.noteAttempt()
	l, serve, err := c.open(ctx, begin)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	c.noteUp(l)
	err = serve(ctx)
	l.close(err == nil || errors.Is(err, ErrMailboxFull), err)
	return time.Since(began), err
}

// open makes one attempt. It returns soon after ctx has ended.
func (c *connector) open(ctx context.Context, begin beginFunc) (*link, func(context.Context) error, error) {
	po, err := c.opts.client()
	if err != nil {
		return nil, nil, err
	}
	l := &link{lost: make(chan struct{}), onEnd: c.noteLost}
	attempt, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	unwatch := func() bool { return true }
	po.SetCustomOpenConnectionFn(func(u *url.URL, _ paho.ClientOptions) (net.Conn, error) {
		conn, err := dial(attempt, u, c.opts)
		if err != nil {
			return nil, err
		}
		l.sock = newSocket(conn, c.opts.WriteTimeout)
		// A stop does not wait for a CONNACK.
		unwatch = context.AfterFunc(ctx, func() { _ = conn.Close() })
		return l.sock, nil
	})
	po.SetConnectionLostHandler(func(_ paho.Client, err error) { l.end(err) })
	serve := begin(po, l)
	l.client = paho.NewClient(po)
	token := l.client.Connect().(*paho.ConnectToken)
	<-token.Done()
	unwatch()
	if err := token.Error(); err != nil {
		return nil, nil, fmt.Errorf("connect to broker: %w", err)
	}
	l.sessionPresent = token.SessionPresent()
	return l, serve, nil
}

// pause is the time until the next attempt: fully jittered, so that a fleet does
// not return in step when its broker does.
func (c *connector) pause(err error, failures int) time.Duration {
	if RefusedCredentials(err) {
		return RefusedPause + rand.N(RefusedPause/2)
	}
	ceiling := c.opts.BackoffMin
	for i := 0; i < failures && ceiling < c.opts.BackoffMax; i++ {
		ceiling *= 2
	}
	return rand.N(min(ceiling, c.opts.BackoffMax))
}

// RefusedCredentials reports whether a connect ended because the broker refused who
// asked. Whoever tries again waits at least RefusedPause.
func RefusedCredentials(err error) bool {
	return errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword) || errors.Is(err, packets.ErrorRefusedNotAuthorised)
}

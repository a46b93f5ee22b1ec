package mqtt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// goodbyePatience bounds the wait for the PUBACK of the goodbye.
	goodbyePatience = 2 * time.Second
	// disconnectPatience bounds the wait for acknowledgements and DISCONNECT to
	// be written.
	disconnectPatience = 250 * time.Millisecond
	// closePatience bounds the wait for paho to close an aborted socket.
	closePatience = time.Second
)

// errClosed is the end of a connection that nobody complains about.
var errClosed = errors.New("connection closed by this side")

// link is one connection to the broker, from CONNACK to its end.
type link struct {
	client         paho.Client
	sock           *socket
	sessionPresent bool

	once  sync.Once
	lost  chan struct{} // closed when the connection has ended or must end
	err   error         // why; set before lost is closed
	onEnd func(error)
}

// end makes the connection end, without DISCONNECT: the broker publishes the
// will. It never blocks; the first reason counts.
func (l *link) end(err error) {
	if err == nil {
		err = errClosed
	}
	l.once.Do(func() {
		l.err = err
		close(l.lost)
		l.onEnd(err)
	})
	l.sock.abort(err)
}

// close releases the connection. Politely, it writes the acknowledgements that
// wait and a DISCONNECT first, after which the broker does not publish the will.
func (l *link) close(politely bool, reason error) {
	if politely {
		l.client.Disconnect(uint(disconnectPatience.Milliseconds()))
	}
	l.end(reason)
	l.client.Disconnect(0) // ends paho's goroutines where the loss has not done it
	select {
	case <-l.sock.closed:
	case <-time.After(closePatience):
		_ = l.sock.Close()
	}
}

// isLost says whether the connection has ended.
func (l *link) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// publish sends one QoS 1 message. It may block for WriteTimeout.
func (l *link) publish(topic string, retained bool, payload []byte) paho.Token {
	return l.client.Publish(topic, eventQoS, retained, payload)
}

// await waits for token, which belongs to this connection. Nil means that the
// broker's answer has come.
func (l *link) await(ctx context.Context, token paho.Token, patience time.Duration, what string) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-token.Done():
		return token.Error()
	case <-l.lost:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return fmt.Errorf("%w for %s in %v", ErrNoAnswer, what, patience)
	}
}

// sayGoodbye publishes the goodbye of p and waits a little for its PUBACK.
func (l *link) sayGoodbye(p *Presence) error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyePatience)
	defer cancel()
	said := make(chan error, 1)
	go func() { // publish may block for longer
		said <- l.await(ctx, l.publish(p.Topic, true, p.Goodbye()), goodbyePatience, "the goodbye")
	}()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w for the goodbye in %v", ErrNoAnswer, goodbyePatience)
	}
}

// endedOr returns why the connection has ended, or err while it is up.
func (l *link) endedOr(err error) error {
	if l.isLost() {
		return l.err
	}
	return err
}

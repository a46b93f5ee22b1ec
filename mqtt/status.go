package mqtt

import (
	"errors"
	"io"
	"net"
	"time"
)

// Errors by which a connection ends. LastError of Status contains their text.
var (
	// ErrNoAnswer: the broker owes an answer (PUBACK, SUBACK) for too long.
	ErrNoAnswer = errors.New("no answer from the broker")
	// ErrSubscriptionRefused: a SUBACK refused a filter, or granted less than QoS 1.
	ErrSubscriptionRefused = errors.New("broker refused the subscription")
	// ErrMailboxFull: messages came faster than they were taken, up to the bound.
	ErrMailboxFull = errors.New("mailbox is full")
)

// Status is the state of one client's connection.
type Status struct {
	Broker         string    // as configured
	ClientID       string    // as configured
	Connected      bool      // CONNACK has come and the link is not known to be lost
	Subscribed     bool      // this connection's subscription is granted; subscriber only
	Since          time.Time // when Connected last changed; zero before the first connect
	Attempts       int       // attempts since the last connect, the running one included
	Connects       uint64    // connects since the start of the process
	SessionPresent bool      // the broker's answer at the last connect
	Refused        bool      // the last attempt was refused for its credentials
	LastError      string    // why the last attempt or connection ended; stays after recovery
	NextAttempt    time.Time // of the next attempt while not connected; zero while one runs
}

// snapshot returns the state of this moment.
func (c *connector) snapshot() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *connector) noteAttempt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Attempts++
	c.status.NextAttempt = time.Time{}
}

func (c *connector) noteUp(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.isLost() {
		return
	}
	line := c.log.Info()
	if c.flapping {
		line = c.log.Debug()
	}
	line.Bool("session_present", l.sessionPresent).Int("attempts", c.status.Attempts).Msg("connected to broker")
	c.status.Connected, c.status.Since = true, time.Now()
	c.status.Attempts = 0
	c.status.Connects++
	c.status.SessionPresent = l.sessionPresent
	c.status.Refused = false
}

func (c *connector) noteSubscribed(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Subscribed = c.status.Connected && !l.isLost()
}

// noteLost is called at once when a connection is known to be lost; its handler
// may still be busy for long.
func (c *connector) noteLost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Subscribed = false
	if c.status.Connected {
		c.status.Connected, c.status.Since = false, time.Now()
	}
	if !errors.Is(err, errClosed) {
		c.status.LastError = err.Error()
	}
}

// noteDown logs the end of a connection or attempt: each trouble once, until it
// changes or a connection has held for stableAfter.
func (c *connector) noteDown(err error, pause, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if up >= stableAfter {
		c.warned, c.kicked = "", 0
	}
	c.flapping = up > 0 && up < stableAfter
	if c.flapping && errors.Is(err, io.EOF) {
		c.kicked++
		c.namePossibleTwin()
	}
	c.status.Refused = RefusedCredentials(err)
	c.status.LastError = err.Error()
	c.status.NextAttempt = time.Now().Add(pause)
	event := c.log.Debug()
	if text := withoutPorts(err); text != c.warned {
		c.warned = text
		event = c.log.Warn()
		if RefusedCredentials(err) || errors.Is(err, ErrSubscriptionRefused) {
			event = c.log.Error()
		}
	}
	event.Err(err).Dur("next_attempt_in", pause).Msg("not connected to broker")
}

// namePossibleTwin says once what else closes one connection after the other.
func (c *connector) namePossibleTwin() {
	if c.kicked == kickedTimes {
		c.log.Error().Msg("broker closes the connection again and again: does another client use this client id? every process needs a node name of its own")
	}
}

// withoutPorts is the text of err without the addresses of a socket, whose port
// is another one each time.
func withoutPorts(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

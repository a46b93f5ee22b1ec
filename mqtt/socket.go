package mqtt

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// readBufferBytes saves paho's reader, which asks for one byte at a time, from
// three system calls for each packet.
const readBufferBytes = 4096

// errRefusedUnknown is the end of a connect that was answered with a code which
// MQTT 3.1.1 does not know.
var errRefusedUnknown = errors.New("broker refused the connection with an unknown code")

// dial opens the transport that u names. The context bounds it, the TLS
// handshake included.
func dial(ctx context.Context, u *url.URL, o Options) (net.Conn, error) {
	switch u.Scheme {
	case "mqtt", "tcp":
		return (&net.Dialer{}).DialContext(ctx, "tcp", hostPort(u, "1883"))
	case "mqtts", "tls", "ssl":
		config, err := o.tlsConfig(u.Hostname())
		if err != nil {
			return nil, err
		}
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", hostPort(u, "8883"))
		return conn, o.datedError(err)
	case "unix":
		return (&net.Dialer{}).DialContext(ctx, "unix", u.Path)
	}
	return nil, fmt.Errorf("unknown scheme %q in the broker address", u.Scheme)
}

func hostPort(u *url.URL, port string) string {
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// socket is the transport of one connection. Beyond a net.Conn it gives every
// write a deadline, of which paho has none for PUBACK and PINGREQ; it can be
// ended from outside in a way that paho notices; and it refuses a CONNACK code
// that paho would take for success.
type socket struct {
	net.Conn
	in           *bufio.Reader
	greeted      bool // the CONNACK has been looked at; reader only
	writeTimeout time.Duration
	writing      sync.Mutex

	closed    chan struct{} // closed by the first Close
	closeOnce sync.Once

	mu    sync.Mutex
	cause error // why no byte may pass any more
}

func newSocket(c net.Conn, writeTimeout time.Duration) *socket {
	return &socket{
		Conn:         c,
		in:           bufio.NewReaderSize(c, readBufferBytes),
		writeTimeout: writeTimeout,
		closed:       make(chan struct{}),
	}
}

// Read implements net.Conn; after abort it returns the cause.
func (s *socket) Read(p []byte) (int, error) {
	if err := s.ended(); err != nil {
		return 0, err
	}
	n, err := s.read(p)
	if err != nil {
		if cause := s.ended(); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (s *socket) read(p []byte) (int, error) {
	if !s.greeted {
		if err := s.checkConnack(); err != nil {
			return 0, err
		}
		s.greeted = true
	}
	return s.in.Read(p)
}

// checkConnack looks at the code of the first packet. paho maps the codes 1 to 5
// to errors, and takes any other for a success, on a socket that it has closed.
func (s *socket) checkConnack() error {
	head, err := s.in.Peek(4)
	if err != nil {
		return err
	}
	const connack, lastKnown = 2, 5
	if head[0]>>4 == connack && head[3] > lastKnown {
		return fmt.Errorf("%w 0x%02x", errRefusedUnknown, head[3])
	}
	return nil
}

// Write implements net.Conn. A packet that could not be written whole makes the
// stream useless, so its error ends the connection.
func (s *socket) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.ended(); err != nil {
		return 0, err
	}
	if err := s.Conn.SetWriteDeadline(time.Now().Add(s.writeTimeout)); err != nil {
		s.abort(err)
		return 0, err
	}
	n, err := s.Conn.Write(p)
	if err != nil {
		s.abort(fmt.Errorf("write to broker: %w", err))
	}
	return n, err
}

// SetWriteDeadline does nothing: each Write sets its own, and clearing one here
// would take it away from another packet that is being written.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn.
func (s *socket) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// abort ends the connection without a DISCONNECT, so that the broker publishes
// the will. It does not close: paho takes "use of closed network connection" for
// its own doing and would stay connected for ever. The reader's error does it.
func (s *socket) abort(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.mu.Unlock()
	_ = s.Conn.SetReadDeadline(time.Unix(1, 0)) // fails only where the reader has failed too
}

func (s *socket) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

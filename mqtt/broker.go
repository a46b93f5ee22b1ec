package mqtt

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Defaults of BrokerOptions, in force where a field is zero.
const (
	DefaultBrokerMaxBytes      = 256 << 20
	DefaultBrokerAckWait       = 10 * time.Second
	DefaultBrokerMaxAckPending = 2000
	DefaultBrokerMaxPayload    = 256 << 10
	DefaultBrokerMaxClients    = 1024
	DefaultBrokerSessionExpiry = 72 * time.Hour
)

// MinBrokerMaxBytes keeps the share of the sessions large enough for some
// thousand clients: with it full, nobody could connect.
const MinBrokerMaxBytes = 16 << 20

const (
	// brokerStartPatience bounds the start: opening a large store on a slow disk
	// included.
	brokerStartPatience = 60 * time.Second
	// brokerMemory bounds what the broker's streams may keep in memory. They are
	// all on disk; zero would mean a share of the machine's memory.
	brokerMemory = 1 << 20
	// brokerStore is no bound. Those are the streams' own (boundStreams), which
	// can be lowered over a store that is fuller already; this one could not.
	brokerStore = 1 << 50
	// sessionAckBudget is the most unacknowledged messages of one session: packet
	// ids have 16 bits. A broker that would exceed it refuses the subscription.
	sessionAckBudget = 65535
)

// BrokerOptions configure the embedded broker.
type BrokerOptions struct {
	Listen string // host:port; port 0 takes a free one
	Dir    string // made if missing; belongs to the broker alone

	// MaxBytes bounds what all sessions and retained messages together take in
	// Dir, at least MinBrokerMaxBytes. Eleven sixteenths are for messages that
	// wait in sessions. When these are full the broker answers a QoS 1 publish
	// with no PUBACK but the end of the connection, so that the publisher keeps
	// the message and comes again; subscribers can still connect and take what is
	// stored, which makes room. Nothing is dropped. A persistent session that
	// nobody takes from fills the store in the end.
	MaxBytes int64
	// AckWait is when a message without PUBACK is sent again, on a live
	// connection too. After a reconnect a subscriber waits up to that long for
	// what it had not acknowledged.
	AckWait time.Duration
	// MaxAckPending is how many unacknowledged messages one subscription may
	// have. The sum over a session's filters is at most 65535 (a filter that ends
	// in # counts twice), or the broker refuses the subscription.
	MaxAckPending int
	MaxPayload    int // bytes of one message
	// SessionExpiry is when a subscription of a session that nobody has taken up
	// again is forgotten, with what waited for it; 0: 72 h. It must not be shorter
	// than what a ledger may be away.
	SessionExpiry time.Duration
	MaxClients    int // connections at a time

	// Username and PasswordFile, both or neither: what every client must give.
	Username     string
	PasswordFile string
}

// Broker is an MQTT 3.1.1 broker within this process: nats-server's MQTT gateway
// over a JetStream directory. Every acknowledged message, retained value and
// session is on disk (synced) before its PUBACK, and survives a kill.
type Broker struct {
	server *server.Server
	addr   string
	lock   *os.File

	unwritable atomic.Bool // a store has failed a write
}

// StartBroker starts a broker and returns when it takes connections.
func StartBroker(o BrokerOptions, log zerolog.Logger) (*Broker, error) {
	o = o.withDefaults()
	options, err := o.server()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("make broker directory: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	b := &Broker{lock: lock}
	if err := b.start(options, o.MaxBytes, log); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (o BrokerOptions) withDefaults() BrokerOptions {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultBrokerMaxBytes
	}
	if o.AckWait <= 0 {
		o.AckWait = DefaultBrokerAckWait
	}
	if o.MaxAckPending <= 0 {
		o.MaxAckPending = DefaultBrokerMaxAckPending
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultBrokerMaxPayload
	}
	if o.MaxClients <= 0 {
		o.MaxClients = DefaultBrokerMaxClients
	}
	if o.SessionExpiry <= 0 {
		o.SessionExpiry = DefaultBrokerSessionExpiry
	}
	return o
}

// server makes the options of nats-server.
func (o BrokerOptions) server() (*server.Options, error) {
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("broker directory is not set")
	}
	if o.MaxBytes < MinBrokerMaxBytes {
		return nil, fmt.Errorf("broker max_bytes %d is below %d", o.MaxBytes, MinBrokerMaxBytes)
	}
	if o.MaxAckPending > sessionAckBudget {
		return nil, fmt.Errorf("broker max_ack_pending %d is above %d", o.MaxAckPending, sessionAckBudget)
	}
	if (o.Username == "") != (o.PasswordFile == "") {
		return nil, errors.New("broker username and password file go together")
	}
	var password string
	if o.PasswordFile != "" {
		if password, err = readSecret(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	return &server.Options{
		ServerName: "oxyd",
		DontListen: true, // no port for NATS clients
		NoSigs:     true, // signals are the daemon's
		MaxPayload: int32(min(o.MaxPayload, 64<<20)),
		MaxConn:    o.MaxClients,

		JetStream:              true,
		StoreDir:               o.Dir,
		SyncAlways:             true, // a PUBACK holds through a power cut
		JetStreamMaxStore:      brokerStore,
		JetStreamMaxMemory:     brokerMemory,
		DisableJetStreamBanner: true,

		MQTT: server.MQTTOpts{
			Host:          host,
			Port:          port,
			Username:      o.Username,
			Password:      password,
			AckWait:       o.AckWait,
			MaxAckPending: uint16(o.MaxAckPending),
			// Else what nobody takes up again would fill the store for ever.
			ConsumerInactiveThreshold: o.SessionExpiry,
			// A single server; replicas are a cluster's.
			StreamReplicas: 1,
		},
	}, nil
}

// splitListen returns the port as nats-server wants it: -1 for a free one.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("parse broker listen address: %w", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("parse broker listen address %s: port %q is not a number up to 65535", listen, text)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if n == 0 {
		return host, -1, nil
	}
	return host, int(n), nil
}

// lockDir keeps a second broker, whatever its port, out of the directory.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "broker.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open broker lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock broker directory %s: in use by another process: %w", dir, err)
	}
	return f, nil
}

func (b *Broker) start(o *server.Options, maxBytes int64, log zerolog.Logger) error {
	if err := probe(o); err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("configure broker: %w", err)
	}
	b.server = s
	fatal := make(chan error, 1)
	s.SetLoggerV2(brokerLog{log: log, fatal: fatal, unwritable: &b.unwritable}, log.GetLevel() <= zerolog.TraceLevel, false, false)
	s.Start() // returns when everything is started, or has failed
	select {
	case err := <-fatal:
		return fmt.Errorf("start broker: %w", err)
	default:
	}
	if !s.ReadyForConnections(brokerStartPatience) {
		return fmt.Errorf("start broker: not ready in %v", brokerStartPatience)
	}
	if err := boundStreams(s, maxBytes); err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	b.addr = net.JoinHostPort(o.MQTT.Host, strconv.Itoa(o.MQTT.Port))
	return nil
}

// probe finds out, with a clear answer, whether the address can be used.
func probe(o *server.Options) error {
	addr := net.JoinHostPort(o.MQTT.Host, strconv.Itoa(max(0, o.MQTT.Port)))
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: %w (if a broker runs there already, leave out the broker section and name it in mqtt.broker; otherwise choose another broker.listen)", addr, syscall.EADDRINUSE)
	case err != nil:
		return fmt.Errorf("listen for MQTT clients: %w", err)
	}
	return l.Close()
}

// Addr returns the host:port it listens on.
func (b *Broker) Addr() string { return b.addr }

// Check reports whether the broker can still store. After a write error, as on a
// full disk, its store stays out of service until it is started again; publishers
// get no PUBACK meanwhile.
func (b *Broker) Check() error {
	if b.server == nil || !b.server.JetStreamEnabled() || b.unwritable.Load() {
		return errors.New("broker store is out of service (after a write error, or closed); make room and restart")
	}
	return nil
}

// Close ends all connections, closes the store and returns when everything has
// ended. It may be called again.
func (b *Broker) Close() {
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.lock != nil {
		_ = b.lock.Close()
		b.lock = nil
	}
}

package mqtt

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

// Trap 8: after a failed attempt paho would go back to MQTT 3.1.
func TestNeverFallsBackToMQTT31(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	startPublisher(t, options(fake.URL(), "n-pub"), newMemQueue(), Presence{})
	for range 3 {
		peer := fake.Next(t)
		if c := peer.Connect; c.ProtocolName != "MQTT" || c.ProtocolVersion != 4 {
			t.Errorf("CONNECT says %s %d, want MQTT 4", c.ProtocolName, c.ProtocolVersion)
		}
		peer.Close()
	}
}

// Trap 9: a CONNACK code that 3.1.1 does not know is no success.
func TestUnknownConnackCodeIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []byte{6, 0x80, 0x87} {
		fake := mqtttest.Listen(t)
		q := newMemQueue()
		q.add("a", 1)
		pub, r := startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
		fake.Next(t).Connack(false, code)
		mqtttest.Eventually(t, "the error", func() bool {
			return strings.Contains(pub.Status().LastError, fmt.Sprintf("unknown code 0x%02x", code))
		})
		if got := pub.Status().Connects; got != 0 {
			t.Errorf("code 0x%02x: counted as %d connects", code, got)
		}
		peer := fake.Accept(t, false)
		peer.Puback(peer.NextPublish(t).MessageID)
		r.stop(t)
	}
}

func TestRefusedCredentialsPauseLong(t *testing.T) {
	t.Parallel()
	for code, want := range map[byte]bool{4: true, 5: true, 3: false} {
		fake := mqtttest.Listen(t)
		pub, r := startPublisher(t, options(fake.URL(), "n-pub"), newMemQueue(), Presence{})
		fake.Next(t).Connack(false, code)
		mqtttest.Eventually(t, "the pause", func() bool { return !pub.Status().NextAttempt.IsZero() || pub.Status().Attempts > 1 })
		if got := time.Until(pub.Status().NextAttempt) > RefusedPause-5*time.Second; got != want {
			t.Errorf("code %d: next attempt at %v, want a long pause: %v", code, pub.Status().NextAttempt, want)
		}
		r.stop(t)
	}
}

func TestPauseIsJitteredAndBounded(t *testing.T) {
	t.Parallel()
	o := options("tcp://127.0.0.1:1", "x")
	o.BackoffMin, o.BackoffMax = 250*time.Millisecond, 30*time.Second
	c := newConnector(o, logTo(t))
	for failures := range 100 {
		ceiling := min(o.BackoffMin<<min(failures, 20), o.BackoffMax)
		var least, most time.Duration = time.Hour, 0
		for range 200 {
			p := c.pause(errDisk, failures)
			least, most = min(least, p), max(most, p)
		}
		if most >= ceiling || most < ceiling/2 || least > ceiling/2 {
			t.Fatalf("after %d failures pauses lie in %v to %v, want all of 0 to %v", failures, least, most, ceiling)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := Options{}.withDefaults()
	want := Options{
		KeepAlive: 15 * time.Second, ConnectTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second,
		AckTimeout: 20 * time.Second, BackoffMin: 250 * time.Millisecond, BackoffMax: 30 * time.Second,
	}
	if got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
}

// paho's own reconnect would lie about tokens (FC-01), its unordered mode about
// the order.
func TestClientOptionsThatMatter(t *testing.T) {
	t.Parallel()
	o, err := options("tcp://127.0.0.1:1", "x").withDefaults().client()
	if err != nil {
		t.Fatal(err)
	}
	if o.AutoReconnect || o.ConnectRetry || !o.Order || o.ProtocolVersion != 4 || o.WriteTimeout == 0 || o.KeepAlive == 0 {
		t.Errorf("paho's options are %+v", o)
	}
}

func TestOptionsThatCanNeverWork(t *testing.T) {
	t.Parallel()
	good := Options{Broker: "mqtt://h", ClientID: "c"}
	if err := good.Validate(); err != nil {
		t.Fatalf("%+v: %v", good, err)
	}
	for name, spoil := range map[string]func(*Options){
		"scheme":         func(o *Options) { o.Broker = "http://h" },
		"no scheme":      func(o *Options) { o.Broker = "h:1883" },
		"no host":        func(o *Options) { o.Broker = "mqtt://" },
		"no path":        func(o *Options) { o.Broker = "unix://" },
		"unparsable":     func(o *Options) { o.Broker = "mqtt://h:port:secret" },
		"secret in URL":  func(o *Options) { o.Broker = "mqtt://u:hunter2@h" },
		"no client id":   func(o *Options) { o.ClientID = "" },
		"half a pair":    func(o *Options) { o.Broker, o.CertFile = "mqtts://h", "c.pem" },
		"CA without TLS": func(o *Options) { o.CAFile = "ca.pem" },
		"keepalive":      func(o *Options) { o.KeepAlive = 500 * time.Millisecond },
		"odd keepalive":  func(o *Options) { o.KeepAlive = 1500 * time.Millisecond },
		"long keepalive": func(o *Options) { o.KeepAlive = 24 * time.Hour },
		"no username":    func(o *Options) { o.PasswordFile = "p" },
	} {
		o := good
		spoil(&o)
		err := o.Validate()
		if err == nil {
			t.Errorf("%s: %+v is valid, want an error", name, o)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %q tells a secret", name, err)
		}
		if err := NewPublisher(o, newMemQueue(), Presence{}, logTo(t)).Run(context.Background()); err == nil {
			t.Errorf("%s: Run returned nil, want an error", name)
		}
	}
}

// Credentials are read at each connect: a corrected file works without restart.
func TestPasswordFileIsReadAtEachConnect(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fake := mqtttest.Listen(t)
	o := options(fake.URL(), "n-pub")
	o.Username, o.PasswordFile = "edge", file
	pub, _ := startPublisher(t, o, newMemQueue(), Presence{})
	mqtttest.Eventually(t, "a complaint", func() bool { return strings.Contains(pub.Status().LastError, "open password file") })
	for _, password := range []string{"first", "second "} {
		write(password + "\n")
		peer := fake.Next(t)
		for string(peer.Connect.Password) != password {
			peer.Close()
			peer = fake.Next(t)
		}
		if got := peer.Connect.Username; got != "edge" {
			t.Errorf("user is %q, want edge", got)
		}
		peer.Close()
	}
	for _, bad := range []string{"", "\n", "two\nlines", strings.Repeat("x", maxSecretBytes+1)} {
		write(bad)
		if _, err := readSecret(file); err == nil {
			t.Errorf("password file %.20q was taken", bad)
		}
	}
}

// A stop does not wait for a broker that says nothing.
func TestStopDuringTheHandshake(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	o := options(fake.URL(), "n-pub")
	o.ConnectTimeout = time.Minute
	_, r := startPublisher(t, o, newMemQueue(), Presence{})
	fake.Next(t)
	began := time.Now()
	r.stop(t)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("stop took %v", took)
	}
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	o := options(fake.URL(), "n-pub")
	o.ConnectTimeout = 100 * time.Millisecond
	startPublisher(t, o, newMemQueue(), Presence{})
	fake.Next(t).AwaitEnd(t)
	fake.Next(t)
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("lives", func(t *testing.T) {
		fake := mqtttest.Listen(t)
		q := newMemQueue()
		startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
		startSubscriber(t, options(fake.URL(), "base-ledger"), "a", newRecorder().handle)
		for i := range 100 {
			q.add("a", 10)
			peer := fake.Accept(t, false)
			if i%2 == 0 {
				peer.TryPacket(10 * time.Millisecond)
			}
			peer.Close()
		}
	})
	mqtttest.Eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before+1 })
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	other := newAuthority(t, dir, "other")
	server := ca.issue(t, dir, "server", x509.ExtKeyUsageServerAuth)
	client := ca.issue(t, dir, "client", x509.ExtKeyUsageClientAuth)
	pair, err := tls.LoadX509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.x509)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	fake := mqtttest.ListenOn(t, l)
	url := "mqtts://" + fake.Addr()

	trusted := options(url, "n-pub")
	trusted.CAFile, trusted.CertFile, trusted.KeyFile = ca.cert, client.cert, client.key
	q := newMemQueue()
	q.add("a", 1)
	_, r := startPublisher(t, trusted, q, Presence{})
	peer := fake.Accept(t, false)
	m := peer.NextPublish(t)
	if string(m.Payload) != "1" {
		t.Errorf("got %q over TLS, want 1", m.Payload)
	}
	peer.Puback(m.MessageID)
	r.stop(t)

	for name, spoil := range map[string]func(*Options){
		"wrong CA":     func(o *Options) { o.CAFile = other.cert },
		"system roots": func(o *Options) { o.CAFile = "" },
		"other host":   func(o *Options) { o.Broker = strings.Replace(url, "127.0.0.1", "localhost", 1) },
		"no cert file": func(o *Options) { o.CertFile, o.KeyFile = dir+"/gone", dir+"/gone" },
		"not PEM":      func(o *Options) { o.CAFile = client.key },
	} {
		o := trusted
		spoil(&o)
		pub, r := startPublisher(t, o, newMemQueue(), Presence{})
		mqtttest.Eventually(t, name+" to be refused twice", func() bool { return pub.Status().Attempts >= 2 })
		if s := pub.Status(); s.Connects != 0 || s.LastError == "" {
			t.Errorf("%s: status is %+v, want no connect and an error", name, s)
		}
		r.stop(t)
	}
	if fake.TryNext(0) != nil {
		t.Error("a CONNECT came over a connection that should not be")
	}
}

// A renewed CA file works at the next attempt.
func TestCAFileIsReadAtEachConnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, other := newAuthority(t, dir, "ca"), newAuthority(t, dir, "other")
	server := ca.issue(t, dir, "server", x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	fake := mqtttest.ListenOn(t, l)
	o := options("tls://"+fake.Addr(), "n-pub")
	o.CAFile = other.cert
	pub, _ := startPublisher(t, o, newMemQueue(), Presence{})
	mqtttest.Eventually(t, "a refusal", func() bool { return strings.Contains(pub.Status().LastError, "unknown authority") })
	if err := os.Rename(ca.cert, other.cert); err != nil {
		t.Fatal(err)
	}
	fake.Accept(t, false)
	mqtttest.Eventually(t, "the connection", func() bool { return pub.Status().Connected })
}

type identity struct {
	cert, key string // files
	x509      *x509.Certificate
	private   *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) identity {
	t.Helper()
	return makeCert(t, dir, name, &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

func (ca identity) issue(t *testing.T, dir, name string, use x509.ExtKeyUsage) identity {
	t.Helper()
	return makeCert(t, dir, name, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{use}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &ca)
}

func makeCert(t *testing.T, dir, name string, c *x509.Certificate, ca *identity) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if ca != nil {
		parent, signer = ca.x509, ca.private
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	id := identity{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"), parsed, key}
	for file, block := range map[string]*pem.Block{
		id.cert: {Type: "CERTIFICATE", Bytes: der}, id.key: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// Trap 17: an abort must reach paho as an error that it does not swallow.
func TestSocketAbortTellsTheReader(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	s := newSocket(near, time.Minute)
	read := make(chan error, 1)
	go func() { _, err := s.Read(make([]byte, 1)); read <- err }()
	s.abort(errDisk)
	if err := <-read; !errors.Is(err, errDisk) {
		t.Errorf("Read returned %v, want the cause", err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, errDisk) {
		t.Errorf("Write returned %v, want the cause: no DISCONNECT may follow", err)
	}
}

func TestSocketWriteDeadline(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	s := newSocket(near, 50*time.Millisecond)
	if _, err := s.Write([]byte("nobody reads")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write returned %v, want a timeout", err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read returned %v, want the failed write: the stream is broken", err)
	}
}

// Two clients of one id throw each other out for ever; both say so, once.
func TestTakeoverIsNamed(t *testing.T) {
	t.Parallel()
	b := startBroker(t, BrokerOptions{})
	var logs [2]lockedLog
	for i := range logs {
		sub := NewSubscriber(calm("tcp://"+b.Addr(), "same-id"), []string{"a"}, nil, newRecorder().handle, zerolog.New(&logs[i]))
		start(t, sub.Run)
	}
	for i := range logs {
		mqtttest.Eventually(t, "a word about the other client", func() bool {
			return strings.Contains(logs[i].text(), "does another client use this client id?")
		})
	}
}

// lockedLog takes lines while a test reads them.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

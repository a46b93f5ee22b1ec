package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

// boardClock is a wall clock in the hands of the test.
type boardClock struct {
	mu     sync.Mutex
	ahead  time.Duration
	synced bool
}

func (c *boardClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *boardClock) Synced() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.synced }

func (c *boardClock) set(ahead time.Duration, synced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.synced = ahead, synced
}

// in1970 is a clock that began with the boot.
func in1970() *boardClock { return &boardClock{ahead: -time.Since(time.Unix(10, 0))} }

// tlsBroker is a broker in the test's hands with a valid certificate.
func tlsBroker(t *testing.T) (*mqtttest.Fake, identity, identity) {
	t.Helper()
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	server := ca.issue(t, dir, "server", x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	return mqtttest.ListenOn(t, l), ca, server
}

// FC-50: in 1970 no certificate is valid yet. The status says what is wrong, once in
// the log; nothing is skipped and nothing lost; when the clock is set the connection
// comes at once, however long the pause under way is.
func TestFC50TLSBeforeTheClockIsRight(t *testing.T) {
	t.Parallel()
	fake, ca, server := tlsBroker(t)
	clock, log := in1970(), &lockedLog{}
	o := options("mqtts://"+fake.Addr(), "n-pub")
	o.CAFile, o.Clock = ca.cert, clock
	o.BackoffMin, o.BackoffMax = 10*time.Millisecond, 10*time.Millisecond
	key, err := os.ReadFile(server.key)
	if err != nil {
		t.Fatal(err)
	}
	q := newMemQueue()
	q.add("a", 3)
	pub := NewPublisher(o, q, Presence{}, zerolog.New(log))
	start(t, pub.Run)

	mqtttest.Eventually(t, "three attempts", func() bool { return pub.Status().Attempts >= 3 })
	s := pub.Status()
	if s.Connects != 0 || !strings.Contains(s.LastError, "clock not synchronised, certificate not yet valid") {
		t.Errorf("status %+v, want no connect, and that the clock is not synchronised", s)
	}
	if fake.TryNext(0) != nil {
		t.Error("a CONNECT came although the certificate was not valid: the verification was skipped")
	}
	if warned := countLines(t, log.text(), "warn"); warned != 1 {
		t.Errorf("%d warnings, want one:\n%s", warned, log.text())
	}
	q.add("a", 2) // measuring goes on

	clock.set(0, true)
	pub.ClockSet()
	peer := fake.Accept(t, false)
	ids, got := payloads(t, peer, 5)
	for _, id := range ids {
		peer.Puback(id)
	}
	if want := "1 2 3 4 5"; strings.Join(got, " ") != want {
		t.Errorf("sent %v, want %s", got, want)
	}
	mqtttest.Eventually(t, "all to be confirmed", func() bool { return len(q.pending()) == 0 })
	q.check(t)
	if now, err := os.ReadFile(server.key); err != nil || string(now) != string(key) {
		t.Errorf("the key file was touched: %v", err)
	}
}

// noRole is a connection that serves nobody.
func noRole(*paho.ClientOptions, *link) func(context.Context) error {
	return func(context.Context) error { return nil }
}

func countLines(t *testing.T, text, level string) (n int) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l struct{ Level string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Level == level {
			n++
		}
	}
	return n
}

// A pause of an hour: the setting of the clock ends it where the date was the
// trouble, and not where it was not.
func TestFC50SettingTheClockEndsThePause(t *testing.T) {
	t.Parallel()
	fake, ca, _ := tlsBroker(t)
	for _, c := range []struct {
		name  string
		spoil func(*Options, *boardClock)
		ends  bool
	}{
		{"not yet valid", func(*Options, *boardClock) {}, true},
		{"expired by a clock that runs ahead", func(_ *Options, k *boardClock) { k.set(24*time.Hour, false) }, true},
		{"not our authority's", func(o *Options, k *boardClock) { o.CAFile = ""; k.set(0, true) }, false},
	} {
		clock := in1970()
		o := options("mqtts://"+fake.Addr(), "n-pub")
		o.CAFile, o.Clock = ca.cert, clock
		c.spoil(&o, clock)
		conn := newConnector(o, zerolog.Nop())
		_, err := conn.once(t.Context(), noRole)
		if err == nil {
			t.Fatalf("%s: connected", c.name)
		}
		conn.clockWasSet()
		conn.clockWasSet() // never blocks
		select {
		case <-conn.cureFor(err):
			if !c.ends {
				t.Errorf("%s: %v: the pause ends", c.name, err)
			}
		default:
			if c.ends {
				t.Errorf("%s: %v: the pause goes on", c.name, err)
			}
		}
	}
}

// In the loop itself: only the setting of the clock can end a pause of an hour.
func TestFC50ConnectsWithinOneStepAfterSync(t *testing.T) {
	t.Parallel()
	fake, ca, _ := tlsBroker(t)
	clock := in1970()
	o := options("mqtts://"+fake.Addr(), "n-sub")
	o.CAFile, o.Clock = ca.cert, clock
	o.BackoffMin, o.BackoffMax = 100*time.Hour, 100*time.Hour // jittered, but hardly below the test's patience
	sub, _ := startSubscriber(t, o, "a", newRecorder().handle)
	mqtttest.Eventually(t, "the first attempt to fail", func() bool { return !sub.Status().NextAttempt.IsZero() })
	clock.set(0, true)
	sub.ClockSet()
	fake.Accept(t, false)
}

// Every combination of date and clock is named for what it is, and none connects.
func TestCertificateTimeErrors(t *testing.T) {
	t.Parallel()
	fake, ca, _ := tlsBroker(t)
	for _, c := range []struct {
		ahead  time.Duration
		synced bool
		want   string
	}{
		{-24 * time.Hour, false, "clock not synchronised, certificate not yet valid: it holds from "},
		{-24 * time.Hour, true, "certificate not yet valid: it holds from "},
		{24 * time.Hour, false, "clock not synchronised, certificate has expired: it holds from "},
		{24 * time.Hour, true, "certificate has expired: it holds from "},
	} {
		o := options("mqtts://"+fake.Addr(), "n-pub")
		o.CAFile, o.Clock = ca.cert, &boardClock{ahead: c.ahead, synced: c.synced}
		_, err := newConnector(o, zerolog.Nop()).once(t.Context(), noRole)
		var dated *CertificateTimeError
		var invalid x509.CertificateInvalidError
		if !errors.As(err, &dated) || !errors.As(err, &invalid) || !strings.HasPrefix(dated.Error(), c.want) {
			t.Errorf("clock %v ahead, synchronised %t: %v, want %q", c.ahead, c.synced, err, c.want)
		}
	}
	if fake.TryNext(0) != nil {
		t.Error("a CONNECT came over a connection that should not be")
	}
}

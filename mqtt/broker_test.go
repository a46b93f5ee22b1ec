package mqtt

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

func startBroker(t *testing.T, o BrokerOptions) *Broker {
	t.Helper()
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.AckWait == 0 {
		o.AckWait = time.Second
	}
	b, err := StartBroker(o, logTo(t).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// subscribeOnce leaves a persistent session behind.
func subscribeOnce(t *testing.T, url, id, filter string) {
	t.Helper()
	sub, r := startSubscriber(t, calm(url, id), filter, newRecorder().handle)
	mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
	r.stop(t)
}

func TestBrokerSaysWhichAddressIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = StartBroker(BrokerOptions{Listen: l.Addr().String(), Dir: t.TempDir()}, zerolog.Nop())
	if err == nil {
		t.Fatal("it started on an address in use")
	}
	for _, want := range []string{l.Addr().String(), "address already in use", "broker.listen", "mqtt.broker"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestBrokerDirectoryHasOneUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, BrokerOptions{Dir: dir})
	_, err := StartBroker(BrokerOptions{Listen: "127.0.0.1:0", Dir: dir}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second broker on the directory: %v, want an error that names it", err)
	}
	b.Close()
	startBroker(t, BrokerOptions{Dir: dir}).Close()
}

func TestBrokerOptionsThatCanNeverWork(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]BrokerOptions{
		"no port":       {Listen: "127.0.0.1", Dir: t.TempDir()},
		"bad port":      {Listen: "127.0.0.1:70000", Dir: t.TempDir()},
		"no directory":  {Listen: "127.0.0.1:0"},
		"not a dir":     {Listen: "127.0.0.1:0", Dir: file},
		"foreign host":  {Listen: "203.0.113.1:0", Dir: t.TempDir()},
		"tiny store":    {Listen: "127.0.0.1:0", Dir: t.TempDir(), MaxBytes: 1000},
		"ack budget":    {Listen: "127.0.0.1:0", Dir: t.TempDir(), MaxAckPending: 70000},
		"no password":   {Listen: "127.0.0.1:0", Dir: t.TempDir(), Username: "u"},
		"empty secret":  {Listen: "127.0.0.1:0", Dir: t.TempDir(), Username: "u", PasswordFile: file},
		"secret absent": {Listen: "127.0.0.1:0", Dir: t.TempDir(), Username: "u", PasswordFile: file + "x"},
	} {
		if b, err := StartBroker(o, zerolog.Nop()); err == nil {
			t.Errorf("%s: it started", name)
			b.Close()
		}
	}
}

func TestBrokerPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	right, wrong := filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	for file, secret := range map[string]string{right: "hunter2", wrong: "hunter3"} {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := startBroker(t, BrokerOptions{Username: "edge", PasswordFile: right})
	o := calm("tcp://"+b.Addr(), "n-pub")
	for name, spoil := range map[string]func(*Options){
		"wrong password": func(o *Options) { o.Username, o.PasswordFile = "edge", wrong },
		"wrong user":     func(o *Options) { o.Username, o.PasswordFile = "edgy", right },
		"anonymous":      func(*Options) {},
	} {
		bad := o
		spoil(&bad)
		pub, r := startPublisher(t, bad, newMemQueue(), Presence{})
		mqtttest.Eventually(t, name+" to be refused", func() bool { return pub.Status().LastError != "" })
		if s := pub.Status(); time.Until(s.NextAttempt) < RefusedPause-5*time.Second || !strings.Contains(s.LastError, "not Authorized") {
			t.Errorf("%s: status is %+v, want a refusal and a long pause", name, s)
		}
		r.stop(t)
	}
	o.Username, o.PasswordFile = "edge", right
	q := newMemQueue()
	q.add("a", 1)
	startPublisher(t, o, q, Presence{})
	mqtttest.Eventually(t, "the row", func() bool { return len(q.pending()) == 0 })
}

func TestBrokerCloseLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("life", func(t *testing.T) {
		b := startBroker(t, BrokerOptions{})
		subscribeOnce(t, "tcp://"+b.Addr(), "ledger", "a")
		if err := b.Check(); err != nil {
			t.Errorf("Check while it runs: %v", err)
		}
		b.Close()
		if b.Check() == nil {
			t.Error("Check after Close has nothing to say")
		}
		b.Close() // again is nothing
		if _, err := net.Dial("tcp", b.Addr()); err == nil {
			t.Error("it still listens")
		}
	})
	mqtttest.Eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before+1 })
}

// What got a PUBACK is there after kill -9 and after a clean stop: queued
// messages, the session, retained values.
func TestBrokerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, end := range map[string]func(*child){"kill": (*child).kill, "stop": (*child).stop} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(dir, name)
			c := startChild(t, "broker", dir, "127.0.0.1:0")
			subscribeOnce(t, "tcp://"+c.line, "base-ledger", "a")
			q := newMemQueue()
			q.add("a", 300)
			pub, r := startPublisher(t, calm("tcp://"+c.line, "n-pub"), q, Presence{})
			if err := pub.SetRetained("balance", []byte("727")); err != nil {
				t.Fatal(err)
			}
			mqtttest.Eventually(t, "all PUBACKs", func() bool { return len(q.pending()) == 0 && pub.Counts().RetainedUndelivered == 0 })
			end(c)
			r.cancel()

			c = startChild(t, "broker", dir, c.line)
			url := "tcp://" + c.line
			awaitRetained(t, url, "balance", "727")
			got := newRecorder()
			sub, _ := startSubscriber(t, calm(url, "base-ledger"), "a", got.handle)
			mqtttest.Eventually(t, "300 deliveries", func() bool { return len(got.firsts()) == 300 })
			if diff := cmp.Diff(numbers(1, 300), got.firsts()); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
			if !sub.Status().SessionPresent {
				t.Error("the session was not there")
			}
		})
	}
}

// A full store refuses new messages, which stay at the publisher, and still lets
// the subscriber in that makes room.
func TestBrokerAtItsBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const maxBytes = 2 * MinBrokerMaxBytes
	b := startBroker(t, BrokerOptions{Dir: dir, MaxBytes: maxBytes})
	url := "tcp://" + b.Addr()
	subscribeOnce(t, url, "base-ledger", "a")
	q := newMemQueue()
	const rows = 500
	for i := range rows { // 30 MB, in a share of 22
		q.rows = append(q.rows, Outgoing{Row: uint64(i + 1), Topic: "a", Payload: make([]byte, 60_000)})
		q.rows[i].Payload[0], q.rows[i].Payload[1] = byte(i), byte(i>>8)
	}
	pub, _ := startPublisher(t, calm(url, "n-pub"), q, presence("s"))
	mqtttest.Eventually(t, "several refusals", func() bool { return pub.Status().Connects >= 4 })
	refused := len(q.pending())
	if refused == 0 || refused == rows {
		t.Fatalf("%d of %d rows pending at the bound, want some", refused, rows)
	}
	if used := diskUse(t, dir); used > maxBytes {
		t.Errorf("%d bytes on disk, want no more than about %d", used, maxBytes)
	}
	awaitRetained(t, url, "s", "online") // retained values have their own room

	// A restart with a lower bound opens, and refuses no less.
	b.Close()
	startBroker(t, BrokerOptions{Dir: dir, MaxBytes: maxBytes / 2, Listen: b.Addr()})
	got := newRecorder()
	startSubscriber(t, calm(url, "base-ledger"), "a", got.handle)
	mqtttest.Eventually(t, "all rows", func() bool { return len(got.firsts()) == rows && len(q.pending()) == 0 })
	q.check(t)
}

func diskUse(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, f os.FileInfo, err error) error {
		if err == nil && f.Mode().IsRegular() {
			total += f.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Traps 11 and 13: a window of one, and a handler that is slower than AckWait,
// cost repeats and nothing else.
func TestBrokerWindowAndAckWait(t *testing.T) {
	t.Parallel()
	b := startBroker(t, BrokerOptions{MaxAckPending: 1, AckWait: 100 * time.Millisecond})
	url := "tcp://" + b.Addr()
	got := newRecorder()
	slow := time.NewTicker(300 * time.Millisecond)
	t.Cleanup(slow.Stop)
	got.beforeOK = func() { <-slow.C }
	sub, _ := startSubscriber(t, calm(url, "base-ledger"), "a", got.handle)
	mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
	q := newMemQueue()
	q.add("a", 5)
	startPublisher(t, calm(url, "n-pub"), q, Presence{})
	mqtttest.Eventually(t, "five deliveries", func() bool { return len(got.firsts()) == 5 })
	if diff := cmp.Diff(numbers(1, 5), got.firsts()); diff != "" {
		t.Errorf("first deliveries (-want +got):\n%s", diff)
	}
	if sub.Status().Connects != 1 {
		t.Error("the connection did not hold")
	}
}

// What waits for a session that nobody takes up again is forgotten after
// SessionExpiry, so that a stranger who subscribed once and left does not fill the
// store for ever.
func TestAbandonedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	b := startBroker(t, BrokerOptions{SessionExpiry: time.Second})
	url := "tcp://" + b.Addr()
	subscribeOnce(t, url, "dash", "a")
	q := newMemQueue()
	q.add("a", 5)
	startPublisher(t, calm(url, "n-pub"), q, Presence{})
	mqtttest.Eventually(t, "the rows to be taken", func() bool { return len(q.pending()) == 0 })
	mqtttest.Eventually(t, "what waited to go", func() bool {
		s, err := b.server.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range s.AccountDetails[0].Streams {
			if stream.Name == "$MQTT_msgs" {
				return stream.State.Msgs == 0
			}
		}
		return false
	})
}

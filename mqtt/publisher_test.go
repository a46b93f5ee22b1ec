package mqtt

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/google/go-cmp/cmp"

	"oxyd/internal/mqtttest"
)

// Also traps 1 and 2: the token of a lost connection is no PUBACK, and the wait
// for it ends.
func TestFC01TokenIsNotAPUBACK(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 1)
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})

	first := fake.Accept(t, false)
	first.NextPublish(t)
	first.Close()
	second := fake.Accept(t, false)
	id := second.NextPublish(t).MessageID
	quiet(t, second, 300*time.Millisecond)

	if got, want := q.pending(), []uint64{1}; !slices.Equal(got, want) {
		t.Fatalf("pending rows are %v, want %v", got, want)
	}
	if c := pub.Counts(); c.Published != 2 || c.Resent != 1 || c.Confirmed != 0 {
		t.Errorf("counts before the PUBACK are %+v, want 2 published, 1 resent, 0 confirmed", c)
	}
	second.Puback(id)
	mqtttest.Eventually(t, "the row to be confirmed", func() bool { return len(q.pending()) == 0 })
	if got := pub.Counts().Confirmed; got != 1 {
		t.Errorf("confirmed %d, want 1", got)
	}
	q.check(t)
}

// Trap 12, and FC-01's broker that never acknowledges: the connection ends after
// AckTimeout, the row stays and comes again.
func TestNoPUBACKEndsTheConnection(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 3)
	o := options(fake.URL(), "n-pub")
	o.AckTimeout = 200 * time.Millisecond
	pub, _ := startPublisher(t, o, q, Presence{})

	first := fake.Accept(t, false)
	ids, _ := payloads(t, first, 3)
	first.Puback(ids[1]) // out of turn: row 2 is not confirmed before row 1
	if rest := first.AwaitEnd(t); len(rest) != 0 {
		t.Errorf("after the silence came %v, want nothing, not even DISCONNECT", rest)
	}
	if got, want := q.pending(), []uint64{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("pending rows are %v, want %v", got, want)
	}
	second := fake.Accept(t, false)
	defer second.Close()
	_, got := payloads(t, second, 3)
	if diff := cmp.Diff(numbers(1, 3), got); diff != "" {
		t.Errorf("resent (-want +got):\n%s", diff)
	}
	if c := pub.Counts(); c.AckTimeouts != 1 {
		t.Errorf("ack timeouts are %d, want 1", c.AckTimeouts)
	}
	if s := pub.Status(); s.LastError == "" {
		t.Errorf("status %+v names no error", s)
	}
}

func TestRowLeavesAtOnce(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	quiet(t, peer, 50*time.Millisecond)
	for range 20 {
		began := time.Now()
		q.add("a", 1)
		peer.Puback(peer.NextPublish(t).MessageID)
		if took := time.Since(began); took > recheckEvery/2 {
			t.Fatalf("the row left after %v: the wake was missed", took)
		}
	}
}

// A broker that is slow but acknowledges is alive, however long the last message
// of a full window waits.
func TestSlowPUBACKsKeepTheConnection(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 5)
	o := options(fake.URL(), "n-pub")
	o.AckTimeout = 400 * time.Millisecond
	pub, _ := startPublisher(t, o, q, Presence{})
	peer := fake.Accept(t, false)
	ids, _ := payloads(t, peer, 5)
	for _, id := range ids { // together 1 s, more than AckTimeout
		quiet(t, peer, 200*time.Millisecond)
		peer.Puback(id)
	}
	mqtttest.Eventually(t, "all rows", func() bool { return len(q.pending()) == 0 })
	if c := pub.Counts(); c.AckTimeouts != 0 || c.Resent != 0 {
		t.Errorf("counts are %+v, want no timeout and nothing resent", c)
	}
}

func TestFC02OfflineRowsGoOutWithoutRestart(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t)
	got := watch(t, broker.URL(), "a")
	proxy := mqtttest.NewProxy(t, broker.Addr())
	proxy.Refuse(true)
	q := newMemQueue()
	pub, _ := startPublisher(t, options(proxy.URL(), "n-pub"), q, Presence{})
	mqtttest.Eventually(t, "attempts", func() bool { return pub.Status().Attempts >= 2 })
	q.add("a", 5)
	proxy.Refuse(false)
	mqtttest.Eventually(t, "five deliveries", func() bool { return len(got.deliveries()) >= 5 && len(q.pending()) == 0 })
	if diff := cmp.Diff(numbers(1, 5), got.firsts()); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if n := len(got.deliveries()); n != 5 {
		t.Errorf("%d deliveries, want 5: once each", n)
	}
}

func TestFC03OrderSurvivesABlackhole(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t, "max_inflight_messages 1000")
	got := watch(t, broker.URL(), "a")
	proxy := mqtttest.NewProxy(t, broker.Addr())
	q := newMemQueue()
	pub, _ := startPublisher(t, options(proxy.URL(), "n-pub"), q, Presence{})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 1; i <= 20; i++ {
		<-tick.C
		switch i {
		case 6:
			mqtttest.Eventually(t, "the first five", func() bool { return len(q.pending()) == 0 })
			proxy.Freeze()
		case 15: // the connection has been given up by keepalive: a real outage
			mqtttest.Eventually(t, "the loss to be noticed", func() bool { return !pub.Status().Connected })
			proxy.Thaw()
		}
		q.add("a", 1)
	}
	mqtttest.Eventually(t, "all rows", func() bool { return len(q.pending()) == 0 && len(got.firsts()) == 20 })
	if diff := cmp.Diff(numbers(1, 20), got.firsts()); diff != "" {
		t.Errorf("first deliveries (-want +got):\n%s", diff)
	}
	q.check(t)
}

func TestFC05DeleteOnlyAfterPUBACKWhileDraining(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	proxy := mqtttest.NewProxy(t, fake.Addr())
	q := newMemQueue()
	q.add("a", 12)
	pub, _ := startPublisher(t, options(proxy.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	ids, _ := payloads(t, peer, 12)
	peer.Puback(ids[0])
	peer.Puback(ids[1])
	mqtttest.Eventually(t, "two rows", func() bool { return len(q.pending()) == 10 })
	proxy.Freeze()
	for _, id := range ids[2:] {
		peer.Puback(id) // into the hole
	}
	mqtttest.Eventually(t, "the loss to be noticed", func() bool { return !pub.Status().Connected })
	if got := len(q.pending()); got != 10 {
		t.Fatalf("%d rows pending, want 10", got)
	}
	proxy.Thaw()
	first, again := firstPublish(t, fake)
	_, got := payloads(t, again, 9)
	got = append([]string{string(first.Payload)}, got...)
	again.Close()
	if diff := cmp.Diff(numbers(3, 12), got); diff != "" {
		t.Errorf("sent again (-want +got):\n%s", diff)
	}
}

// firstPublish accepts connections until one publishes: behind a proxy that was
// frozen, attempts that were given up long ago come first.
func firstPublish(t *testing.T, fake *mqtttest.Fake) (*packets.PublishPacket, *mqtttest.Peer) {
	t.Helper()
	for {
		peer := fake.Accept(t, false)
		if m, ok := peer.Packet(t).(*packets.PublishPacket); ok {
			return m, peer
		}
	}
}

func TestFC08CleanRestartResendsNothing(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 3)
	_, first := startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	ids, _ := payloads(t, peer, 3)
	for _, id := range ids {
		peer.Puback(id)
	}
	mqtttest.Eventually(t, "three rows", func() bool { return len(q.pending()) == 0 })
	first.stop(t)

	startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	quiet(t, fake.Accept(t, false), 300*time.Millisecond)
}

// The crash falls between PUBACK and Confirm: what comes again is exactly the
// window, with the same bytes.
func TestFC08CrashResendsExactlyTheWindow(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", Window+300)
	crash := make(chan struct{})
	var confirming atomic.Int32
	q.commits(func([]uint64) error {
		confirming.Add(1)
		<-crash
		return errDisk
	})
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	ids, before := payloads(t, peer, Window)
	for _, id := range ids {
		peer.Puback(id)
	}
	mqtttest.Eventually(t, "the confirm", func() bool { return confirming.Load() == 1 })
	quiet(t, peer, 200*time.Millisecond) // acknowledged, but not confirmed: no more leaves
	if got := pub.Counts().InFlight; got != Window {
		t.Errorf("in flight are %d, want %d", got, Window)
	}

	q.commits(nil)
	close(crash)
	again := fake.Accept(t, false)
	_, after := payloads(t, again, Window)
	defer again.Close()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("resent (-first +second):\n%s", diff)
	}
	if c := pub.Counts(); c.Resent != Window || c.QueueErrors != 1 {
		t.Errorf("counts are %+v, want %d resent and 1 queue error", c, Window)
	}
}

func TestConfirmsInGroups(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", Window)
	var calls []int
	gate := make(chan struct{})
	q.commits(func(rows []uint64) error {
		calls = append(calls, len(rows))
		<-gate
		return nil
	})
	startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	ids, _ := payloads(t, peer, Window)
	for _, id := range ids {
		peer.Puback(id)
	}
	// All PUBACKs have been read once this later exchange is through.
	mqtttest.Eventually(t, "a ping after them", func() bool { return peer.Pings.Load() > 0 })
	close(gate)
	mqtttest.Eventually(t, "all rows", func() bool { return len(q.pending()) == 0 })
	if len(calls) > 4 {
		t.Errorf("groups are %v, want few and up to %d", calls, confirmMax)
	}
	q.check(t)
}

func TestQueueErrorEndsTheConnectionAndLosesNothing(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	var fails atomic.Int32
	fails.Store(1)
	q.failNext = func() error {
		if fails.Add(-1) == 0 {
			return errDisk
		}
		return nil
	}
	q.add("a", 2)
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), q, presence("s"))
	if rest := fake.Accept(t, false).AwaitEnd(t); containsDisconnect(rest) {
		t.Errorf("got DISCONNECT, want none: the will must tell that this node publishes no more")
	}
	peer := fake.Accept(t, false)
	defer peer.Close()
	_, got := payloads(t, peer, 3)
	if diff := cmp.Diff([]string{"online", "1", "2"}, got); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if c := pub.Counts(); c.QueueErrors != 1 {
		t.Errorf("queue errors are %d, want 1", c.QueueErrors)
	}
}

func containsDisconnect(all []packets.ControlPacket) bool {
	return slices.ContainsFunc(all, func(p packets.ControlPacket) bool {
		_, ok := p.(*packets.DisconnectPacket)
		return ok
	})
}

// Trap 4: the peer stops reading. With WriteTimeout this is noticed although the
// keepalive's own PINGREQ is stuck behind.
func TestPeerThatStopsReadingIsNoticed(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	big := make([]byte, 60<<10)
	for i := range 400 { // 24 MB, more than the buffers between
		q.rows = append(q.rows, Outgoing{Row: uint64(i + 1), Topic: "a", Payload: big})
	}
	o := options(fake.URL(), "n-pub")
	o.AckTimeout = time.Minute
	pub, _ := startPublisher(t, o, q, Presence{})
	peer := fake.Accept(t, false)
	peer.Pause()
	defer peer.Resume()
	mqtttest.Eventually(t, "the connection", func() bool { return pub.Status().Connects == 1 })
	began := time.Now()
	mqtttest.Eventually(t, "the loss", func() bool { return !pub.Status().Connected })
	if took := time.Since(began); took > 3*o.WriteTimeout {
		t.Errorf("noticed after %v, want about %v", took, o.WriteTimeout)
	}
	if got := len(q.pending()); got != 400 {
		t.Errorf("%d rows pending, want 400", got)
	}
}

// Trap 3: paho's Publish blocks for WriteTimeout when the link is lost under it.
// The sender that is stuck there is left behind.
func TestConnectionEndsFastWhilePublishing(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t)
	proxy := mqtttest.NewProxy(t, broker.Addr())
	q := newMemQueue()
	o := options(proxy.URL(), "n-pub")
	o.WriteTimeout = 10 * time.Second
	pub, _ := startPublisher(t, o, q, Presence{})
	for i := range 10 {
		q.add("a", 5000)
		mqtttest.Eventually(t, "traffic", func() bool { return pub.Status().Connected && pub.Counts().Confirmed > uint64(i)*300 })
		connects := pub.Status().Connects
		began := time.Now()
		proxy.Cut()
		mqtttest.Eventually(t, "the next connection", func() bool { return pub.Status().Connects > connects })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("round %d: reconnected after %v, want well below WriteTimeout", i, took)
		}
	}
	mqtttest.Eventually(t, "all rows", func() bool { return len(q.pending()) == 0 })
	q.check(t)
}

func TestBirthComesFirstAndAfreshOnEachConnect(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 2)
	p := presence("s")
	births := 0
	p.Birth = func() []byte { births++; return fmt.Appendf(nil, "online %d", births) }
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), q, p)
	for i := 1; i <= 2; i++ {
		peer := fake.Accept(t, false)
		c := peer.Connect
		if !c.WillFlag || !c.WillRetain || c.WillQos != 1 || c.WillTopic != "s" || string(c.WillMessage) != "offline will" {
			t.Errorf("will of CONNECT is %v", c)
		}
		if !c.CleanSession || c.ProtocolVersion != 4 || c.ProtocolName != "MQTT" {
			t.Errorf("CONNECT is %v, want a clean session of MQTT 3.1.1", c)
		}
		m := peer.NextPublish(t)
		if got, want := string(m.Payload), fmt.Sprintf("online %d", i); got != want || !m.Retain || m.Qos != 1 || m.TopicName != "s" {
			t.Errorf("first publish is %v %q, want the retained birth %q", m, got, want)
		}
		// An older refresh of the status must not follow the birth of the next connect.
		if err := pub.SetRetained("s", []byte("refreshed")); err != nil {
			t.Fatal(err)
		}
		_, got := payloads(t, peer, 3)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"1", "2", "refreshed"}, got); diff != "" {
			t.Errorf("then (-want +got):\n%s", diff)
		}
		quiet(t, peer, 50*time.Millisecond)
		peer.Close()
	}
}

func TestRetainedValues(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), newMemQueue(), Presence{})
	set := func(topic, payload string) {
		t.Helper()
		if err := pub.SetRetained(topic, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	set("x", "old")
	set("x", "new")
	set("y", "1")
	peer := fake.Accept(t, false)
	m := peer.NextPublish(t)
	if string(m.Payload) != "new" || !m.Retain || m.Qos != 1 {
		t.Errorf("got %v %q, want the newest value, retained, QoS 1", m, m.Payload)
	}
	peer.Puback(m.MessageID)
	peer.NextPublish(t) // y, no PUBACK
	mqtttest.Eventually(t, "one value without PUBACK", func() bool { return pub.Counts().RetainedUndelivered == 1 })
	peer.Close()

	peer = fake.Accept(t, false)
	ids, got := payloads(t, peer, 2)
	if diff := cmp.Diff([]string{"new", "1"}, got); diff != "" {
		t.Errorf("after the reconnect (-want +got):\n%s", diff)
	}
	set("x", "") // clears
	m = peer.NextPublish(t)
	if len(m.Payload) != 0 || !m.Retain || m.TopicName != "x" {
		t.Errorf("got %v, want an empty retained x", m)
	}
	for _, id := range append(ids, m.MessageID) {
		peer.Puback(id)
	}
	mqtttest.Eventually(t, "x to be forgotten", func() bool { c := pub.Counts(); return c.Retained == 1 && c.RetainedUndelivered == 0 })
	peer.Close()
	peer = fake.Accept(t, false)
	defer peer.Close()
	_, got = payloads(t, peer, 1)
	if diff := cmp.Diff([]string{"1"}, got); diff != "" {
		t.Errorf("after the clearing (-want +got):\n%s", diff)
	}
}

// Rows and retained values come by turns, whichever there are more of.
func TestNeitherRowsNorRetainedValuesStarve(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), q, Presence{})
	peer := fake.Accept(t, false)
	defer peer.Close()
	const topics = 5000
	for i := range topics {
		if err := pub.SetRetained(fmt.Sprintf("r/%d", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	// The window is full of values, and more wait: the sender is not idle.
	mqtttest.Eventually(t, "a full window", func() bool { return pub.Counts().InFlight == Window })
	q.add("a", 4000)
	var rows, values []int // of each kind, by the place among all messages
	for i := range topics + 4000 {
		m := peer.NextPublish(t)
		peer.Puback(m.MessageID)
		if m.Retain {
			values = append(values, i)
		} else {
			rows = append(rows, i)
		}
	}
	if first, most := rows[0], Window+10; first > most {
		t.Errorf("the first row was message %d, want at most %d: behind the window", first, most)
	}
	const sample = 1000
	if took := rows[sample] - rows[0]; took > 3*sample {
		t.Errorf("%d rows took %d messages: they starve", sample, took)
	}
	if took := values[Window+sample] - values[Window]; took > 3*sample {
		t.Errorf("%d values took %d messages: they starve", sample, took)
	}
}

func TestRetainedTableIsBounded(t *testing.T) {
	t.Parallel()
	pub := NewPublisher(options("tcp://127.0.0.1:1", "n-pub"), newMemQueue(), Presence{}, logTo(t))
	for i := range MaxRetainedTopics {
		if err := pub.SetRetained(fmt.Sprintf("t/%d", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.SetRetained("one/more", []byte("1")); !errors.Is(err, ErrRetainedFull) {
		t.Errorf("beyond the bound: %v, want ErrRetainedFull", err)
	}
	if err := pub.SetRetained("t/7", []byte("2")); err != nil {
		t.Errorf("a known topic at the bound: %v, want nil", err)
	}
	if err := pub.SetRetained("t/7", make([]byte, MaxRetainedBytes+1)); err == nil {
		t.Error("a value that is too large was taken")
	}
	if err := pub.SetRetained("t/+", []byte("1")); err == nil {
		t.Error("a wildcard was taken for a topic")
	}
	if c := pub.Counts(); c.RetainedRefused != 3 || c.Retained != MaxRetainedTopics {
		t.Errorf("counts are %+v, want 3 refused and %d kept", c, MaxRetainedTopics)
	}
}

func TestTelemetryIsAtMostOnce(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	pub, _ := startPublisher(t, options(fake.URL(), "n-pub"), newMemQueue(), Presence{})
	if pub.Telemetry("tele", []byte("early")) {
		t.Error("telemetry was taken without a connection")
	}
	peer := fake.Accept(t, false)
	mqtttest.Eventually(t, "the connection", func() bool { return pub.Status().Connected })
	if !pub.Telemetry("tele", []byte("1")) {
		t.Error("telemetry was not taken")
	}
	m := peer.NextPublish(t)
	if string(m.Payload) != "1" || m.Qos != 0 || m.Retain {
		t.Errorf("got %v %q, want QoS 0, not retained", m, m.Payload)
	}
	peer.Close()
	quiet(t, fake.Accept(t, false), 100*time.Millisecond)
	if c := pub.Counts(); c.TelemetrySent != 1 || c.TelemetryDropped != 1 {
		t.Errorf("counts are %+v, want 1 sent and 1 dropped", c)
	}
}

// At a stop the PUBACKs still owed get their chance, the goodbye is the last
// message, and its PUBACK comes before DISCONNECT.
func TestStopDrainsThenSaysGoodbye(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 3)
	pub, r := startPublisher(t, options(fake.URL(), "n-pub"), q, presence("s"))
	peer := fake.Accept(t, false)
	ids, _ := payloads(t, peer, 4)
	r.cancel()
	quiet(t, peer, 50*time.Millisecond) // no goodbye while rows are on their way
	_ = pub.SetRetained("s", []byte("too late"))
	for _, id := range ids {
		peer.Puback(id)
	}
	m := peer.NextPublish(t)
	if string(m.Payload) != "offline shutdown" || !m.Retain || m.TopicName != "s" {
		t.Errorf("got %v %q, want the goodbye", m, m.Payload)
	}
	if got := len(q.pending()); got != 0 {
		t.Errorf("%d rows pending at the goodbye, want 0", got)
	}
	quiet(t, peer, 50*time.Millisecond)
	peer.Puback(m.MessageID)
	if _, ok := peer.Packet(t).(*packets.DisconnectPacket); !ok {
		t.Error("the goodbye was not followed by DISCONNECT")
	}
	r.stop(t)
}

// A goodbye without PUBACK may not have arrived: the broker is left to publish
// the will, and the stop takes its bounded time.
func TestStopWithoutAnswersIsBounded(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 1)
	o := options(fake.URL(), "n-pub")
	o.AckTimeout = time.Minute
	_, r := startPublisher(t, o, q, presence("s"))
	peer := fake.Accept(t, false)
	payloads(t, peer, 2)
	began := time.Now()
	r.stop(t)
	if took, most := time.Since(began), drainPatience+goodbyePatience+2*time.Second; took > most {
		t.Errorf("stop took %v, want at most %v", took, most)
	}
	if rest := peer.AwaitEnd(t); containsDisconnect(rest) {
		t.Errorf("got DISCONNECT in %v, want the will to be published", rest)
	}
	if got := len(q.pending()); got != 1 {
		t.Errorf("%d rows pending, want 1", got)
	}
}

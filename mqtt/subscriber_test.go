package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/google/go-cmp/cmp"

	"oxyd/internal/mqtttest"
)

// take returns a handler that passes batches to the test, which acknowledges.
func take(batches chan<- []Delivery) func(context.Context, *Mailbox) error {
	return func(ctx context.Context, box *Mailbox) error {
		for {
			batch, err := box.Take(ctx, 500)
			if err != nil {
				return err
			}
			batches <- batch
		}
	}
}

func receive(t *testing.T, batches <-chan []Delivery) []Delivery {
	t.Helper()
	select {
	case b := <-batches:
		return b
	case <-time.After(mqtttest.Patience):
		t.Fatal("no delivery")
		return nil
	}
}

// Messages come before the subscription is made anew, and more of them than the
// broker's window holds.
func TestFC30QueuedMessagesBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	eachBroker(t, []string{"max_inflight_messages 10"}, func(t *testing.T, b anyBroker) {
		o := calm(b.url, "base-ledger")
		first, stopFirst := startSubscriber(t, o, "a", newRecorder().handle)
		mqtttest.Eventually(t, "the subscription", func() bool { return first.Status().Subscribed })
		stopFirst.stop(t)

		q := newMemQueue()
		q.add("a", 25)
		startPublisher(t, calm(b.url, "n-pub"), q, Presence{})
		mqtttest.Eventually(t, "25 rows at the broker", func() bool { return len(q.pending()) == 0 })

		got := newRecorder()
		began := time.Now()
		second, _ := startSubscriber(t, o, "a", got.handle)
		mqtttest.Eventually(t, "25 deliveries", func() bool { return len(got.firsts()) == 25 })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v, want at most 5s", took)
		}
		if s := second.Status(); !s.SessionPresent {
			t.Error("the session was not there")
		}
		q.add("a", 25)
		mqtttest.Eventually(t, "later traffic", func() bool { return len(got.firsts()) == 50 })
		if diff := cmp.Diff(numbers(1, 50), got.firsts()); diff != "" {
			t.Errorf("first deliveries (-want +got):\n%s", diff)
		}
	})
}

// Trap 5 too: the handler is busy for longer than the keepalive allows.
func TestFC32KeepaliveWhileTheHandlerIsBusy(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	got := newRecorder()
	commit := make(chan struct{})
	got.beforeOK = func() { <-commit }
	sub, _ := startSubscriber(t, options(fake.URL(), "base-ledger"), "a", got.handle)
	peer := fake.Accept(t, false)
	peer.Grant(peer.NextSubscribe(t))
	for i := 1; i <= 50; i++ {
		peer.Publish(uint16(i), "a", fmt.Sprint(i))
	}
	pings := peer.Pings.Load()
	mqtttest.Eventually(t, "three keepalives", func() bool { return peer.Pings.Load() >= pings+3 })
	if s := sub.Status(); !s.Connected || s.Connects != 1 {
		t.Errorf("status is %+v, want the first connection kept", s)
	}
	close(commit)
	for i := 1; i <= 50; i++ {
		if id := peer.NextPuback(t).MessageID; id != uint16(i) {
			t.Fatalf("PUBACK %d is for id %d, want the order of arrival", i, id)
		}
	}
}

// Trap 6 too. The link drops while a commit runs; the broker reuses the packet
// id for another message.
func TestFC34AckAfterReconnect(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	batches := make(chan []Delivery)
	startSubscriber(t, options(fake.URL(), "base-ledger"), "a", take(batches))
	peer := fake.Accept(t, false)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(5, "a", "first")
	old := receive(t, batches)
	peer.Close()

	peer = fake.Accept(t, true)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(5, "a", "second")
	fresh := receive(t, batches)
	old[0].Ack() // its commit is done only now
	quiet(t, peer, 200*time.Millisecond)
	if got := string(fresh[0].Payload); got != "second" {
		t.Errorf("got %q, want the second message", got)
	}
	fresh[0].Ack()
	fresh[0].Ack() // once is enough
	if id := peer.NextPuback(t).MessageID; id != 5 {
		t.Errorf("PUBACK is for %d, want 5", id)
	}
	quiet(t, peer, 50*time.Millisecond)
}

// No two handlers work at a time, however long the old one's commit takes.
func TestNextConnectionWaitsForTheHandler(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	got := newRecorder()
	commit := make(chan struct{})
	got.beforeOK = func() { <-commit }
	sub, _ := startSubscriber(t, options(fake.URL(), "base-ledger"), "a", got.handle)
	peer := fake.Accept(t, false)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(1, "a", "1")
	mqtttest.Eventually(t, "the handler", func() bool { return len(got.firsts()) == 1 })
	peer.Close()
	mqtttest.Eventually(t, "the loss", func() bool { return !sub.Status().Connected })
	if fake.TryNext(300*time.Millisecond) != nil { // longer than any pause of the test
		t.Error("it connects while a handler works")
	}
	close(commit)
	fake.Accept(t, true).NextSubscribe(t)
}

// The broker dies with all it knows.
func TestFC100ResubscribeAfterBrokerRestart(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t) // persistence is off
	got := newRecorder()
	sub := NewSubscriber(options(broker.URL(), "base-ledger"), []string{"a"}, nil, got.handle, logTo(t))
	var lost atomic.Int32
	sub.OnSessionLost = func() { lost.Add(1) }
	start(t, sub.Run)
	mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
	broker.Kill()
	broker.Start(t)
	mqtttest.Eventually(t, "the new subscription", func() bool { return sub.Status().Connects == 2 && sub.Status().Subscribed })
	q := newMemQueue()
	q.add("a", 1)
	startPublisher(t, options(broker.URL(), "n-pub"), q, Presence{})
	mqtttest.Eventually(t, "the first message after it", func() bool { return len(got.firsts()) == 1 })
	if n, c := lost.Load(), sub.Counts(); n != 1 || c.SessionsLost != 1 {
		t.Errorf("session loss was told %d times and counted %d, want 1 and 1", n, c.SessionsLost)
	}
}

// Trap 10 and FC-100: a refused filter is tried again; the token alone has no error.
func TestFC100RefusedSubscriptionIsRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []byte{0x80, 0x91, 0} { // 0: granted, but at most once
		t.Run(fmt.Sprintf("0x%02x", code), func(t *testing.T) {
			fake := mqtttest.Listen(t)
			sub := NewSubscriber(options(fake.URL(), "base-ledger"), []string{"a", "b"}, nil, newRecorder().handle, logTo(t))
			start(t, sub.Run)
			peer := fake.Accept(t, false)
			peer.Suback(peer.NextSubscribe(t), 1, code)
			peer.AwaitEnd(t)
			peer = fake.Accept(t, false)
			if sub.Status().Subscribed {
				t.Error("status says subscribed after a refusal")
			}
			peer.Grant(peer.NextSubscribe(t))
			mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
			if c := sub.Counts(); c.Refused != 1 || c.SessionsLost != 0 {
				t.Errorf("counts are %+v, want 1 refused, no session lost", c)
			}
		})
	}
}

func TestNoSUBACKEndsTheConnection(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	o := options(fake.URL(), "base-ledger")
	o.AckTimeout = 200 * time.Millisecond
	startSubscriber(t, o, "a", newRecorder().handle)
	fake.Accept(t, false).AwaitEnd(t)
	fake.Accept(t, false).NextSubscribe(t)
}

// At the bound the reader goes on, what is in the mailbox is dealt with and
// acknowledged, then the connection ends and the rest comes again.
func TestMailboxBound(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	got := newRecorder()
	busy := make(chan struct{})
	got.beforeOK = func() { <-busy }
	sub := NewSubscriber(options(fake.URL(), "base-ledger"), []string{"a"}, nil, got.handle, logTo(t))
	sub.MailboxBytes = 10 * (deliveryOverhead + 2)
	start(t, sub.Run)
	peer := fake.Accept(t, false)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(1, "a", "1")
	mqtttest.Eventually(t, "the handler to be busy", func() bool { return len(got.firsts()) == 1 })
	for i := 2; i <= 20; i++ {
		peer.Publish(uint16(i), "a", fmt.Sprint(i%10))
	}
	mqtttest.Eventually(t, "the overflow", func() bool { return sub.Counts().MailboxOverflows == 1 })
	mqtttest.Eventually(t, "all to be read", func() bool { return sub.Counts().Received == 20 })
	if c := sub.Counts(); c.Waiting != 10 || c.WaitingBytes > sub.MailboxBytes {
		t.Errorf("counts are %+v, want 10 waiting in at most %d bytes", c, sub.MailboxBytes)
	}
	if !sub.Status().Connected {
		t.Error("the connection has ended before the mailbox was dealt with")
	}
	close(busy)
	var acked []uint16
	rest := peer.AwaitEnd(t)
	if !containsDisconnect(rest) {
		t.Error("no DISCONNECT: the last acknowledgements may be lost with the socket")
	}
	for _, p := range rest {
		if a, ok := p.(*packets.PubackPacket); ok {
			acked = append(acked, a.MessageID)
		}
	}
	if diff := cmp.Diff([]uint16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, acked); diff != "" {
		t.Errorf("acknowledged (-want +got):\n%s", diff)
	}
	peer = fake.Accept(t, true)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(12, "a", "12")
	if id := peer.NextPuback(t).MessageID; id != 12 {
		t.Errorf("PUBACK is for %d, want 12", id)
	}
}

// PUBACKs have no write deadline of paho's own: a peer that stops reading must
// not hold the handler for ever. The buffers of a unix socket are small.
func TestAckToADeadPeerDoesNotHang(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	fake := mqtttest.ListenOn(t, l)
	got := newRecorder()
	sub, _ := startSubscriber(t, options("unix://"+path, "base-ledger"), "a", got.handle)
	peer := fake.Accept(t, false)
	peer.Grant(peer.NextSubscribe(t))
	mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
	peer.Pause()
	defer peer.Resume()
	go func() {
		for i := 1; i <= 5000; i++ {
			peer.Publish(uint16(i), "a", fmt.Sprint(i))
		}
	}()
	next := fake.Accept(t, true) // without a deadline it never comes
	next.NextSubscribe(t)
}

func TestHandlerErrorEndsTheConnection(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	var calls atomic.Int32
	sub, _ := startSubscriber(t, options(fake.URL(), "base-ledger"), "a", func(ctx context.Context, box *Mailbox) error {
		if _, err := box.Take(ctx, 1); err != nil {
			return err
		}
		calls.Add(1)
		return errDisk
	})
	for i := range 2 {
		peer := fake.Accept(t, i > 0)
		peer.Grant(peer.NextSubscribe(t))
		peer.Publish(1, "a", "1")
		if rest := peer.AwaitEnd(t); len(rest) != 0 {
			t.Errorf("after the error came %v, want no PUBACK and no DISCONNECT", rest)
		}
	}
	mqtttest.Eventually(t, "both errors", func() bool { return sub.Counts().HandlerErrors == 2 })
	if got := sub.Status().LastError; got != "handle messages: "+errDisk.Error() {
		t.Errorf("last error is %q", got)
	}
}

func TestSubscriberPresence(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	p := presence("ledger/status")
	sub := NewSubscriber(options(fake.URL(), "base-ledger"), []string{"a"}, &p, newRecorder().handle, logTo(t))
	sub.SetPresence([]byte("older than the birth"))
	r := start(t, sub.Run)
	peer := fake.Accept(t, false)
	if c := peer.Connect; !c.WillFlag || c.CleanSession || c.WillTopic != "ledger/status" {
		t.Errorf("CONNECT is %v, want a will and a persistent session", c)
	}
	birth := peer.NextPublish(t)
	peer.Grant(peer.NextSubscribe(t)) // does not wait for the birth's PUBACK
	peer.Puback(birth.MessageID)
	sub.SetPresence([]byte("1"))
	first := peer.NextPublish(t)
	sub.SetPresence([]byte("2"))
	sub.SetPresence([]byte("3"))
	quiet(t, peer, 50*time.Millisecond) // one on its way at a time
	peer.Puback(first.MessageID)
	last := peer.NextPublish(t)
	peer.Puback(last.MessageID)
	var got []string
	for _, m := range []*packets.PublishPacket{birth, first, last} {
		if !m.Retain || m.Qos != 1 || m.TopicName != "ledger/status" {
			t.Errorf("status document is %v, want retained, QoS 1", m)
		}
		got = append(got, string(m.Payload))
	}
	if diff := cmp.Diff([]string{"online", "1", "3"}, got); diff != "" {
		t.Errorf("status documents (-want +got):\n%s", diff)
	}
	quiet(t, peer, 50*time.Millisecond)
	r.cancel()
	bye := peer.NextPublish(t)
	sub.SetPresence([]byte("too late"))
	peer.Puback(bye.MessageID)
	if string(bye.Payload) != "offline shutdown" {
		t.Errorf("got %q, want the goodbye", bye.Payload)
	}
	if _, ok := peer.Packet(t).(*packets.DisconnectPacket); !ok {
		t.Error("the goodbye was not followed by DISCONNECT")
	}
}

// What the handler commits while it is being stopped is still acknowledged.
func TestStopLetsTheHandlerFinish(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	p := presence("ledger/status")
	got := newRecorder()
	working, commit := make(chan struct{}), make(chan struct{})
	got.beforeOK = func() { close(working); <-commit }
	sub := NewSubscriber(options(fake.URL(), "base-ledger"), []string{"a"}, &p, got.handle, logTo(t))
	r := start(t, sub.Run)
	peer := fake.Accept(t, false)
	peer.Puback(peer.NextPublish(t).MessageID)
	peer.Grant(peer.NextSubscribe(t))
	peer.Publish(7, "a", "7")
	<-working
	r.cancel()
	quiet(t, peer, 50*time.Millisecond)
	close(commit)
	if id := peer.NextPuback(t).MessageID; id != 7 {
		t.Errorf("PUBACK is for %d, want 7", id)
	}
	peer.Puback(peer.NextPublish(t).MessageID)
	if _, ok := peer.Packet(t).(*packets.DisconnectPacket); !ok {
		t.Error("no DISCONNECT at the end")
	}
	r.stop(t)
}

func TestSubscriberRefusesBadFilters(t *testing.T) {
	t.Parallel()
	for _, filters := range [][]string{nil, {""}, {"a/#/b"}, {"a+"}} {
		sub := NewSubscriber(options("tcp://127.0.0.1:1", "x"), filters, nil, newRecorder().handle, logTo(t))
		if err := sub.Run(context.Background()); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("filters %q: Run returned %v, want an error", filters, err)
		}
	}
}

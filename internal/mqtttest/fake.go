// Package mqtttest is the other side of an MQTT connection, for tests: a fake
// broker that does what the test says and nothing else, a TCP proxy that cuts
// and freezes links, and a real mosquitto. All of them listen on 127.0.0.1 only.
package mqtttest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// Patience is how long everything here waits before it fails the test.
const Patience = 15 * time.Second

// packetsKept is the room for packets that the test has not asked for yet. A
// peer that is full stops reading.
const packetsKept = 1 << 16

// Fake is a scriptable broker. It accepts connections, reads CONNECT and leaves
// the rest, CONNACK included, to the test. It answers PINGREQ by itself.
type Fake struct {
	listener net.Listener
	peers    chan *Peer

	mu    sync.Mutex
	conns []net.Conn
}

// Listen starts a fake broker that ends with the test.
func Listen(t testing.TB) *Fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	return ListenOn(t, l)
}

// ListenOn is Listen on any listener, as one for TLS or a unix socket.
func ListenOn(t testing.TB, l net.Listener) *Fake {
	t.Helper()
	f := &Fake{listener: l, peers: make(chan *Peer, 1024)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			go f.serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.conns {
			_ = c.Close()
		}
	})
	return f
}

// URL returns the address for the client's options.
func (f *Fake) URL() string { return "tcp://" + f.Addr() }

// Addr returns host:port.
func (f *Fake) Addr() string { return f.listener.Addr().String() }

func (f *Fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	first, err := packets.ReadPacket(r)
	connect, ok := first.(*packets.ConnectPacket)
	if err != nil || !ok {
		_ = c.Close()
		return
	}
	p := &Peer{Connect: connect, conn: c, in: make(chan packets.ControlPacket, packetsKept)}
	p.unpaused = sync.NewCond(&p.pausing)
	f.peers <- p
	defer close(p.in)
	for {
		p.awaitUnpaused()
		packet, err := packets.ReadPacket(r)
		if err != nil {
			return
		}
		if _, ok := packet.(*packets.PingreqPacket); ok {
			p.Pings.Add(1)
			if !p.Silent.Load() {
				p.send(packets.NewControlPacket(packets.Pingresp))
			}
			continue
		}
		p.in <- packet
	}
}

// Next returns the next connection whose CONNECT has been read.
func (f *Fake) Next(t testing.TB) *Peer {
	t.Helper()
	select {
	case p := <-f.peers:
		return p
	case <-time.After(Patience):
		t.Fatalf("no connection in %v", Patience)
		return nil
	}
}

// TryNext returns the next connection if it comes within d.
func (f *Fake) TryNext(d time.Duration) *Peer {
	select {
	case p := <-f.peers:
		return p
	case <-time.After(d):
		return nil
	}
}

// Accept returns the next connection, accepted with a CONNACK.
func (f *Fake) Accept(t testing.TB, sessionPresent bool) *Peer {
	t.Helper()
	p := f.Next(t)
	p.Connack(sessionPresent, packets.Accepted)
	return p
}

// Peer is the broker's side of one connection.
type Peer struct {
	Connect *packets.ConnectPacket
	Silent  atomic.Bool  // leave PINGREQ without an answer
	Pings   atomic.Int64 // PINGREQs seen

	conn    net.Conn
	in      chan packets.ControlPacket
	writing sync.Mutex

	pausing  sync.Mutex
	unpaused *sync.Cond
	paused   bool
}

// Connack answers the CONNECT.
func (p *Peer) Connack(sessionPresent bool, code byte) {
	c := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
	c.SessionPresent, c.ReturnCode = sessionPresent, code
	p.send(c)
}

// Suback answers a SUBSCRIBE with one code for each of its filters.
func (p *Peer) Suback(s *packets.SubscribePacket, codes ...byte) {
	a := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	a.MessageID, a.ReturnCodes = s.MessageID, codes
	p.send(a)
}

// Grant answers a SUBSCRIBE with QoS 1 for each of its filters.
func (p *Peer) Grant(s *packets.SubscribePacket) {
	codes := make([]byte, len(s.Topics))
	for i := range codes {
		codes[i] = 1
	}
	p.Suback(s, codes...)
}

// Puback acknowledges a PUBLISH.
func (p *Peer) Puback(id uint16) {
	a := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
	a.MessageID = id
	p.send(a)
}

// Publish sends a QoS 1 message under any packet id, used or not.
func (p *Peer) Publish(id uint16, topic, payload string) {
	m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	m.Qos, m.MessageID, m.TopicName, m.Payload = 1, id, topic, []byte(payload)
	p.send(m)
}

func (p *Peer) send(c packets.ControlPacket) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = c.Write(p.conn) // a lost link shows in what the test waits for
}

// Close closes the connection, as a dying broker does.
func (p *Peer) Close() { _ = p.conn.Close() }

// Pause stops reading, as a stopped process does: the client's writes get stuck
// once the buffers between are full.
func (p *Peer) Pause() {
	p.pausing.Lock()
	p.paused = true
	p.pausing.Unlock()
}

// Resume reads on.
func (p *Peer) Resume() {
	p.pausing.Lock()
	p.paused = false
	p.pausing.Unlock()
	p.unpaused.Broadcast()
}

func (p *Peer) awaitUnpaused() {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	for p.paused {
		p.unpaused.Wait()
	}
}

// Packet returns the next packet, or nil when the connection has ended.
func (p *Peer) Packet(t testing.TB) packets.ControlPacket {
	t.Helper()
	select {
	case c := <-p.in:
		return c
	case <-time.After(Patience):
		t.Fatalf("no packet in %v", Patience)
		return nil
	}
}

// TryPacket returns the next packet if it comes within d.
func (p *Peer) TryPacket(d time.Duration) packets.ControlPacket {
	select {
	case c := <-p.in:
		return c
	case <-time.After(d):
		return nil
	}
}

// NextPublish returns the next packet, which must be a PUBLISH.
func (p *Peer) NextPublish(t testing.TB) *packets.PublishPacket {
	t.Helper()
	return next[*packets.PublishPacket](t, p)
}

// NextSubscribe returns the next packet, which must be a SUBSCRIBE.
func (p *Peer) NextSubscribe(t testing.TB) *packets.SubscribePacket {
	t.Helper()
	return next[*packets.SubscribePacket](t, p)
}

// NextPuback returns the next packet, which must be a PUBACK.
func (p *Peer) NextPuback(t testing.TB) *packets.PubackPacket {
	t.Helper()
	return next[*packets.PubackPacket](t, p)
}

func next[P packets.ControlPacket](t testing.TB, p *Peer) P {
	t.Helper()
	c := p.Packet(t)
	got, ok := c.(P)
	if !ok {
		t.Fatalf("got packet %v, want a %T", c, got)
	}
	return got
}

// AwaitEnd reads on until the client has ended the connection, and returns what
// came before.
func (p *Peer) AwaitEnd(t testing.TB) []packets.ControlPacket {
	t.Helper()
	var rest []packets.ControlPacket
	deadline := time.After(Patience)
	for {
		select {
		case c, ok := <-p.in:
			if !ok {
				return rest
			}
			rest = append(rest, c)
		case <-deadline:
			t.Fatalf("connection has not ended in %v", Patience)
		}
	}
}

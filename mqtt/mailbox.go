package mqtt

import (
	"context"
	"sync"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// DefaultMailboxBytes is the bound of a Mailbox unless the Subscriber says
// otherwise.
const DefaultMailboxBytes = 8 << 20

// deliveryOverhead is what a waiting message costs beside topic and payload,
// roughly; it keeps a flood of empty messages within the bound.
const deliveryOverhead = 256

// Delivery is one message as it arrived.
type Delivery struct {
	Topic     string
	Payload   []byte // the receiver's own
	Retained  bool   // the broker's stored value, not news
	Duplicate bool   // the broker says that it may have sent it before

	message paho.Message
	conn    *link
}

// Ack tells the broker that the message is done with. Call it in the order of
// arrival (MQTT-4.6.0-2), for every message, also for those that cannot be
// understood: what is not acknowledged fills the broker's window. After the end
// of its connection it does nothing: the broker delivers the message again, and
// the packet id may stand for another one by then. It may block for WriteTimeout.
func (d *Delivery) Ack() {
	if !d.conn.isLost() {
		d.message.Ack()
	}
}

// Mailbox holds the messages of one connection between the reader of the socket,
// which must never wait, and the handler, which may.
//
// It is bounded in bytes. At the bound it closes: what comes after is left
// unacknowledged, and when the handler has taken and dealt with what the mailbox
// holds, the connection ends and the broker delivers the rest again. A single
// message of any size finds room in an empty mailbox, so every connection gets
// on.
type Mailbox struct {
	limit   int
	conn    *link
	arrived chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []Delivery
	bytes   int
	full    bool
}

func newMailbox(limit int, conn *link) *Mailbox {
	if limit <= 0 {
		limit = DefaultMailboxBytes
	}
	return &Mailbox{limit: limit, conn: conn, arrived: make(chan struct{}, 1)}
}

// put is called by the reader. It reports whether the mailbox has just closed.
func (m *Mailbox) put(msg paho.Message) (overflown bool) {
	d := Delivery{
		Topic:     msg.Topic(),
		Payload:   msg.Payload(),
		Retained:  msg.Retained(),
		Duplicate: msg.Duplicate(),
		message:   msg,
		conn:      m.conn,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full || len(m.waiting) > 0 && m.bytes+d.size() > m.limit {
		overflown = !m.full
		m.full = true
		m.signal()
		return overflown
	}
	m.waiting = append(m.waiting, d)
	m.bytes += d.size()
	m.signal()
	return false
}

func (d *Delivery) size() int { return len(d.Topic) + len(d.Payload) + deliveryOverhead }

func (m *Mailbox) signal() {
	select {
	case m.arrived <- struct{}{}:
	default:
	}
}

// Take waits for a message and returns it with those that wait behind it, at
// most max, in order of arrival. It returns an error when ctx or the connection
// has ended; messages still waiting then come again on a later connection. The
// handler must be done with what it took before, acknowledgements included.
func (m *Mailbox) Take(ctx context.Context, max int) ([]Delivery, error) {
	for {
		taken, err := m.takeWaiting(max)
		if len(taken) > 0 || err != nil {
			return taken, err
		}
		select {
		case <-m.arrived:
		case <-m.conn.lost:
			return nil, m.conn.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *Mailbox) takeWaiting(max int) ([]Delivery, error) {
	if m.conn.isLost() {
		return nil, m.conn.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		if m.full {
			return nil, ErrMailboxFull
		}
		return nil, nil
	}
	n := min(max, len(m.waiting))
	taken := m.waiting[:n:n]
	m.waiting = m.waiting[n:]
	for i := range taken {
		m.bytes -= taken[i].size()
	}
	if len(m.waiting) == 0 {
		m.waiting = nil
	}
	return taken, nil
}

// waitingNow returns the number of messages that wait, and their size.
func (m *Mailbox) waitingNow() (messages, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting), m.bytes
}

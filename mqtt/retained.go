package mqtt

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	// MaxRetainedTopics bounds the values of SetRetained, which are kept in
	// memory so that each connect can publish them anew.
	MaxRetainedTopics = 8192
	// MaxRetainedBytes bounds one such value.
	MaxRetainedBytes = 256 << 10
)

// ErrRetainedFull is returned for a value beyond MaxRetainedTopics.
var ErrRetainedFull = errors.New("table of retained values is full")

// retainedTable keeps the last value of each retained topic, and which of them
// the present connection has not published yet.
type retainedTable struct {
	mu         sync.Mutex
	values     map[string]*retainedValue
	due        []string // topics to publish, oldest change first
	connection uint64   // counts connections
	wake       chan struct{}
}

type retainedValue struct {
	payload   []byte
	version   uint64 // grows with each change
	due       bool   // stands in due
	delivered bool   // PUBACK came for this version on this connection
}

// retainedMessage is one version of one value on its way to the broker.
type retainedMessage struct {
	topic   string
	payload []byte
	version uint64
}

func newRetainedTable() *retainedTable {
	return &retainedTable{values: map[string]*retainedValue{}, wake: make(chan struct{}, 1)}
}

func (t *retainedTable) set(topic string, payload []byte) error {
	if !ValidTopic(topic) {
		return fmt.Errorf("set retained value: %q is not a topic name", topic)
	}
	if len(payload) > MaxRetainedBytes {
		return fmt.Errorf("set retained value of %s: %d bytes are more than %d", topic, len(payload), MaxRetainedBytes)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.values[topic]
	if v == nil {
		if len(t.values) >= MaxRetainedTopics {
			return fmt.Errorf("set retained value of %s: %w (%d topics)", topic, ErrRetainedFull, MaxRetainedTopics)
		}
		v = &retainedValue{}
		t.values[topic] = v
	}
	v.payload = slices.Clone(payload)
	v.version++
	v.delivered = false
	t.makeDue(topic, v)
	return nil
}

func (t *retainedTable) makeDue(topic string, v *retainedValue) {
	if !v.due {
		v.due = true
		t.due = append(t.due, topic)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// renew makes every value due for a new connection, whose number it returns. The
// value of the presence topic is dropped: the birth, made later, replaces it.
func (t *retainedTable) renew(presence string) (connection uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.values, presence)
	t.due = t.due[:0]
	for topic := range t.values {
		t.due = append(t.due, topic)
	}
	slices.Sort(t.due)
	for _, v := range t.values {
		v.due, v.delivered = true, false
	}
	t.connection++
	return t.connection
}

// take hands out the next value that is due on the connection. An abandoned
// sender of an earlier connection gets none.
func (t *retainedTable) take(connection uint64) (retainedMessage, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if connection != t.connection || len(t.due) == 0 {
		return retainedMessage{}, false
	}
	topic := t.due[0]
	t.due = t.due[1:]
	v := t.values[topic]
	v.due = false
	return retainedMessage{topic, v.payload, v.version}, true
}

// acked notes the PUBACK of m. A cleared topic is then forgotten.
func (t *retainedTable) acked(connection uint64, m retainedMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.values[m.topic]
	if v == nil || v.version != m.version || connection != t.connection {
		return // it has changed since, or is to be published anew
	}
	v.delivered = true
	if len(v.payload) == 0 {
		delete(t.values, m.topic)
	}
}

// counts returns the number of topics kept and of those not delivered yet.
func (t *retainedTable) counts() (kept, undelivered int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.values {
		if !v.delivered {
			undelivered++
		}
	}
	return len(t.values), undelivered
}

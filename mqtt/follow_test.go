package mqtt

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"

	"oxyd/internal/mqtttest"
)

// notebook writes down what was followed.
type notebook struct {
	mu   sync.Mutex
	docs []string // topic and payload
}

func (n *notebook) handle(topic string, payload []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.docs = append(n.docs, topic+" "+string(payload))
}

func (n *notebook) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.docs...)
}

func followPublisher(t *testing.T, o Options, q Queue, f Following) *Publisher {
	t.Helper()
	pub := NewPublisher(o, q, Presence{}, logTo(t))
	pub.Follow(f)
	start(t, pub.Run)
	return pub
}

func TestFollowsWhatIsRetainedAndItsChanges(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t)
	other, _ := startPublisher(t, options(broker.URL(), "ledger-pub"), newMemQueue(), Presence{})
	retain := func(payload string) {
		if err := other.SetRetained("l/confirm", []byte(payload)); err != nil {
			t.Fatal(err)
		}
		mqtttest.Eventually(t, "the document to be taken", func() bool { return other.Counts().RetainedUndelivered == 0 })
	}
	retain("first")
	var book notebook
	proxy := mqtttest.NewProxy(t, broker.Addr())
	q := newMemQueue()
	pub := followPublisher(t, options(proxy.URL(), "n-pub"), q, Following{Filters: []string{"l/+"}, Handle: book.handle})
	mqtttest.Eventually(t, "the retained document", func() bool { return len(book.all()) == 1 })
	retain("second")
	mqtttest.Eventually(t, "its change", func() bool { return len(book.all()) == 2 })
	connects := pub.Status().Connects
	proxy.Freeze()
	mqtttest.Eventually(t, "the loss", func() bool { return !pub.Status().Connected })
	proxy.Thaw()
	mqtttest.Eventually(t, "the document after a reconnect", func() bool { return len(book.all()) >= 3 && pub.Status().Connects > connects })
	if diff := cmp.Diff([]string{"l/confirm first", "l/confirm second", "l/confirm second"}, book.all()[:3]); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
}

// A broker whose access list does not know of confirmations still gets the events.
func TestRefusedFollowingStopsNoEvent(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	q := newMemQueue()
	q.add("a", 3)
	pub := followPublisher(t, options(fake.URL(), "n-pub"), q, Following{Filters: []string{"l/+"}, Handle: new(notebook).handle})
	peer := fake.Accept(t, false)
	peer.Suback(peer.NextSubscribe(t), 0x80)
	ids, _ := payloads(t, peer, 3)
	for _, id := range ids {
		peer.Puback(id)
	}
	mqtttest.Eventually(t, "all rows and the fault", func() bool {
		return len(q.pending()) == 0 && pub.Counts().FollowFaults == 1
	})
	if s := pub.Status(); !s.Connected || s.Connects != 1 {
		t.Errorf("status is %+v, want the first connection still up", s)
	}
}

// While the handler is busy the newest document of each topic waits, and no more
// than the bounds allow.
func TestNewestKeepsTheLastOfEachTopic(t *testing.T) {
	t.Parallel()
	n := newNewest()
	for i := range 10 {
		for _, topic := range []string{"b", "a"} {
			if !n.put(topic, fmt.Append(nil, i)) {
				t.Fatalf("document %d of %s refused", i, topic)
			}
		}
	}
	var got []string
	for topic, payload, ok := n.take(); ok; topic, payload, ok = n.take() {
		got = append(got, topic+string(payload))
	}
	if diff := cmp.Diff([]string{"b9", "a9"}, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if n.put("a", bytes.Repeat([]byte("x"), MaxFollowedBytes+1)) {
		t.Error("a document beyond MaxFollowedBytes was taken")
	}
	for i := range MaxFollowedTopics {
		if !n.put(fmt.Sprint(i), nil) {
			t.Fatalf("topic %d refused", i)
		}
	}
	if n.put("one more", nil) {
		t.Error("a topic beyond MaxFollowedTopics was taken")
	}
	if !n.put("7", []byte("new")) {
		t.Error("the newest of a topic that waits was refused at the bound")
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	names := Topics{Prefix: "habitat/oxyd", Site: "base"}
	for topic, want := range map[string]StatusTopic{
		names.NodeStatus("n"):               {Node: "n"},
		names.LedgerStatus("l"):             {Ledger: "l"},
		names.Confirm("l", "s"):             {Ledger: "l", Confirms: "s"},
		names.Telemetry("n", "cpu"):         {},
		names.Tank("A", "status"):           {},
		"oxyd/base/node/n/status":           {},
		"habitat/oxyd/other/node/n/status":  {},
		"habitat/oxyd/base/node/status":     {},
		"habitat/oxyd/base/node/n/x/status": {},
	} {
		got, ok := names.ParseStatus(topic)
		if got != want || ok != (want != StatusTopic{}) {
			t.Errorf("ParseStatus(%q) is %+v, %v, want %+v", topic, got, ok, want)
		}
	}
}

// Long documents on many topics do not fill the memory; what is taken makes room.
func TestNewestIsBoundedInBytes(t *testing.T) {
	n := newNewest()
	long := make([]byte, MaxFollowedBytes)
	taken := 0
	for i := range MaxFollowedTopics {
		if n.put(fmt.Sprint("t", i), long) {
			taken++
		}
	}
	if size := taken * MaxFollowedBytes; size > maxWaitingBytes || size < maxWaitingBytes-2*MaxFollowedBytes {
		t.Errorf("%d bytes wait, want about %d", size, maxWaitingBytes)
	}
	if !n.put("t0", nil) || !n.put("t0", long) || n.put("another", long) {
		t.Error("a topic that waits must get its newest document, a further one has no room")
	}
	for range taken {
		n.take()
	}
	if n.bytes != 0 || !n.put("another", long) {
		t.Errorf("%d bytes are counted, none waits", n.bytes)
	}
}

// payloadOf is a retained message of some size.
type payloadOf struct {
	paho.Message
	topic string
	bytes []byte
}

func (m payloadOf) Topic() string   { return m.topic }
func (m payloadOf) Payload() []byte { return m.bytes }
func (m payloadOf) Retained() bool  { return true }

func TestFetchIsBoundedInBytes(t *testing.T) {
	f := fetched{docs: map[string][]byte{}, heard: make(chan struct{}, 1)}
	long := make([]byte, MaxFollowedBytes)
	for i := range FetchMax {
		f.put(payloadOf{topic: fmt.Sprint("t", i), bytes: long})
	}
	if size := len(f.docs) * MaxFollowedBytes; size > maxWaitingBytes || size < maxWaitingBytes-2*MaxFollowedBytes {
		t.Errorf("%d bytes fetched, want about %d", size, maxWaitingBytes)
	}
}

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oxyd/internal/mqtttest"
)

const consume120 = `{"type":"OxygenConsumed","tank":"A","amount":120}`

// entry posts an entry and gives status and body as they are.
func (n *node) entry(key, body string) (int, string) {
	n.t.Helper()
	var text string
	return n.call(http.MethodPost, "/api/events", key, body, &text), text
}

func (n *node) wantEntry(what, key, body string, status int, text string) {
	n.t.Helper()
	gotStatus, gotText := n.entry(key, body)
	if gotStatus != status || text != "" && gotText != text {
		n.t.Errorf("%s: %d %s, want %d %s", what, gotStatus, gotText, status, text)
	}
}

// R15: a repeat gets the first answer, to the byte, and changes nothing: at once,
// after the balance has moved on, after restarts, and when the outbox has been
// lost; the same key with another body is refused each time.
func TestRepeatedEntryGetsTheFirstAnswer(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	status, first := n.entry("k", consume120)
	if status != http.StatusOK || !strings.Contains(first, `"outcome":"applied"`) || !strings.Contains(first, `"balance":727,`) {
		t.Fatalf("first answer: %d %s", status, first)
	}
	const bad = `{"type":"reversed","tank":"A","reverses":"m"}`
	if status, _ := n.entry("m", `{"type":"measured","tank":"A","remaining":500}`); status != http.StatusOK {
		t.Fatalf("measured: %d", status)
	}
	status, refused := n.entry("r", bad)
	if status != http.StatusUnprocessableEntity || !strings.Contains(refused, "not_reversible") {
		t.Fatalf("reversal of a measurement: %d %s", status, refused)
	}
	again := func(when string) {
		t.Helper()
		// First of all the account learns this start's epoch: what an earlier one of it
		// has left in the broker would be old_epoch, without a clock to go by.
		n.wantEntry("measured "+when, when, `{"type":"measured","tank":"A","remaining":500}`, http.StatusOK, "")
		n.wantEntry("repeat "+when, "k", consume120, http.StatusOK, first)
		n.wantEntry("repeat "+when+", otherwise written", "k", `{ "amount": 0.120, "unit": "kg", "tank": "A", "type": "consumed" }`, http.StatusOK, first)
		n.wantEntry("refused one "+when, "r", bad, http.StatusUnprocessableEntity, refused)
		n.wantEntry("same key, other body "+when, "k", `{"type":"OxygenConsumed","tank":"A","amount":121}`, http.StatusUnprocessableEntity, "")
		n.wantEntry("same key, other tank "+when, "k", `{"type":"OxygenConsumed","tank":"hab-1","amount":120}`, http.StatusUnprocessableEntity, "")
		if doc := n.tank("A"); doc.Balance != "500" || doc.Totals.Consumed != "120" {
			t.Errorf("%s the tank is %+v, want 500 and 120 consumed", when, doc)
		}
	}
	again("at once")
	n.stop()
	n.startReady()
	again("after a restart")
	n.kill()
	n.startReady()
	again("after kill -9")
	n.stop()
	if err := os.Remove(filepath.Join(n.dir, "data", "outbox.bolt")); err != nil {
		t.Fatal(err)
	}
	n.startReady()
	again("with another outbox") // its epoch is above those that ran ahead of the clock
	if status, answer := n.entry("behind", `{"type":"refilled","tank":"A","amount":1}`); status != http.StatusOK {
		t.Errorf("an entry behind all others: %d %s", status, answer) // whatever the repeats have sent is decided before it
	}
	if got := n.status().Outcomes["conflict"]; got != 0 {
		t.Errorf("%d conflicts", got)
	}
	var kept []struct {
		Reason  string `json:"reason"`
		EventID string `json:"event_id"`
	}
	n.get("/api/quarantine", &kept)
	for _, k := range kept {
		if k.Reason != "not_reversible" {
			t.Errorf("%s is in quarantine, want the reversal alone: %s", k.Reason, k.EventID)
		}
	}
}

// A repeated measurement must not look like a measurement of now, before which
// nothing can be booked any more.
func TestRepeatedMeasurementIsNoNewOne(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.wantEntry("measured", "m", `{"type":"measured","tank":"A","remaining":500}`, http.StatusOK, "")
	at := time.Now().UTC()
	n.until("the clock to have gone on", func() bool { return time.Since(at) > 20*time.Millisecond })
	n.wantEntry("repeat", "m", `{"type":"measured","tank":"A","remaining":500}`, http.StatusOK, "")
	n.wantEntry("between the two", "c", `{"type":"consumed","tank":"A","amount":1,"occurred_at":"`+at.Format(time.RFC3339Nano)+`"}`, http.StatusOK, "")
}

// The client that lost its connection repeats, and the entry counts once.
func TestEntryWhoseAnswerWasLost(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	conn, err := net.Dial("unix", filepath.Join(n.dir, "data", "oxyd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s",
		len(consume120), consume120)
	n.until("the entry to have counted", func() bool { return n.tank("A").Balance == "727" })
	conn.Close()
	n.until("the first answer", func() bool {
		status, text := n.entry("k", consume120)
		return status == http.StatusOK && strings.Contains(text, `"outcome":"applied"`)
	})
	if got := n.tank("A").Balance; got != "727" {
		t.Errorf("balance %s, want 727", got)
	}
}

// stalled is a node with the account alone whose broker has gone, so that entries
// wait for their answer.
func stalled(t *testing.T) (*node, *mqtttest.Proxy) {
	t.Helper()
	broker := mqtttest.StartMosquitto(t)
	proxy := mqtttest.NewProxy(t, broker.Addr())
	n := newNode(t, ledgerOnly, proxy.Addr())
	n.startReady()
	proxy.Refuse(true)
	proxy.Cut()
	return n, proxy
}

// While the first request waits, a second one is told so, and another fact under
// its key is refused; after 5 s the first is told where to ask. What it is told
// there, and by a repeat, is the outcome once there is one.
func TestEntryWhileTheLedgerHasNotAnswered(t *testing.T) {
	n, proxy := stalled(t)
	type answer struct {
		status int
		text   string
	}
	first := make(chan answer, 1)
	go func() {
		status, text := n.entry("k", consume120)
		first <- answer{status, text}
	}()
	n.until("the entry to be on disk", func() bool { return n.outbox().Outbox.Pending == 1 })
	n.wantEntry("a second one", "k", consume120, http.StatusConflict, "")
	n.wantEntry("another fact", "k", `{"type":"OxygenConsumed","tank":"A","amount":121}`, http.StatusUnprocessableEntity, "")
	got := <-first
	ask := "/api/events?event_id=k&source=room"
	if got.status != http.StatusAccepted || !strings.Contains(got.text, `"pending":true`) || !strings.Contains(got.text, strings.ReplaceAll(ask, "&", `\u0026`)) {
		t.Fatalf("the first is told %d %s, want 202 and %s", got.status, got.text, ask)
	}
	var doc struct {
		Pending bool   `json:"pending"`
		Outcome string `json:"outcome"`
	}
	if status := n.get(ask, &doc); status != http.StatusAccepted || !doc.Pending {
		t.Errorf("there: %d %+v, want 202", status, doc)
	}
	if status := n.get("/api/events?event_id=other", nil); status != http.StatusNotFound {
		t.Errorf("of an entry that nobody made: %d", status)
	}
	proxy.Refuse(false)
	mqtttest.EventuallyWithin(t, 4*mqtttest.Patience, "the outcome there", func() bool {
		doc.Pending = false
		return n.get(ask, &doc) == http.StatusOK && doc.Outcome == "applied" && !doc.Pending
	})
	status, text := n.entry("k", consume120)
	if status != http.StatusOK || !strings.Contains(text, `"balance":727,`) {
		t.Errorf("the repeat: %d %s", status, text)
	}
	n.wantEntry("the repeat's repeat", "k", consume120, http.StatusOK, text)
}

// The daemon is killed between taking the entry and answering it.
func TestEntryTakenAndNotAnswered(t *testing.T) {
	n, proxy := stalled(t)
	ended := make(chan struct{})
	go func() { n.entry("k", consume120); close(ended) }()
	n.until("the entry to be on disk", func() bool { return n.outbox().Outbox.Pending == 1 })
	n.kill()
	<-ended
	proxy.Refuse(false)
	n.startReady()
	n.until("the answer", func() bool {
		status, text := n.entry("k", consume120)
		return status == http.StatusOK && strings.Contains(text, `"outcome":"applied"`)
	})
	n.wantEntry("other body", "k", `{"type":"OxygenConsumed","tank":"A","amount":121}`, http.StatusUnprocessableEntity, "")
	if doc := n.tank("A"); doc.Balance != "727" || doc.Totals.Consumed != "120" {
		t.Errorf("the tank is %+v, want 727 and 120 consumed", doc)
	}
}

// A node without an account takes the entry and says that another one decides: each
// time the same, and the entry counts once there.
func TestEntryOnANodeWithoutAccount(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	room, meter := newNode(t, ledgerOnly, broker.Addr()), newNode(t, meterOnly, broker.Addr())
	room.startReady()
	meter.startReady()
	status, first := meter.entry("k", consume120)
	if status != http.StatusAccepted || !strings.Contains(first, `"decided_elsewhere":true`) {
		t.Fatalf("first answer: %d %s", status, first)
	}
	ask := "/api/events?event_id=k&source=meter"
	again := func(when string) {
		t.Helper()
		meter.wantEntry("repeat "+when, "k", consume120, http.StatusAccepted, first)
		meter.wantEntry("other body "+when, "k", `{"type":"OxygenConsumed","tank":"A","amount":121}`, http.StatusUnprocessableEntity, "")
		if got := meter.get(ask, nil); got != http.StatusAccepted {
			t.Errorf("asked here, %s: %d, want 202", when, got)
		}
	}
	again("at once")
	room.until("the outcome, asked there", func() bool { return room.get(ask, nil) == http.StatusOK })
	again("after the ledger has decided")
	meter.kill()
	meter.startReady()
	again("after kill -9")
	room.until("the balance", func() bool { return room.tank("A").Balance == "727" })
}

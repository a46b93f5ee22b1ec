package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oxyd/internal/mqtttest"
)

// quickResend is a meter whose events count as lost soon.
var quickResend = strings.Replace(meterOnly, "web:", "outbox: {resend_after: 1s}\nweb:", 1)

// holds waits until the account has n consumptions of 1 g of tank A, each once, and
// nothing missing.
func (n *node) holds(count int) {
	n.t.Helper()
	n.until(fmt.Sprintf("%d entries in the account, nothing missing", count), func() bool {
		doc := n.tank("A")
		return doc.Totals.Consumed == json.Number(fmt.Sprint(count)) && doc.TotalsComplete
	})
	if doc, want := n.tank("A"), json.Number(fmt.Sprint(847-count)); doc.Balance != want || !doc.Complete {
		n.t.Errorf("tank is %+v, want a balance of %s, complete", doc, want)
	}
}

// A PUBACK is no delivery. Mosquitto without persistence, killed while a ledger was
// away and the meter idles from then on, forgets what it had acknowledged; no later
// number shows a gap. The ledger's confirmation does, and the meter sends again.
func TestBrokerThatForgetsEverythingLosesNothing(t *testing.T) {
	broker := mqtttest.StartMosquitto(t, "persistence false")
	meter, room := newNode(t, quickResend, broker.Addr()), newNode(t, ledgerOnly, broker.Addr())
	room.startReady()
	meter.startReady()
	meter.book(1, 5)
	room.holds(5)
	room.stop()
	meter.book(6, 5)
	meter.until("the broker to have taken all", func() bool { return meter.outbox().Outbox.Pending == 0 })
	broker.Kill()
	broker.Start(t)
	room.startReady()
	room.holds(10)
	if n := room.status().Outcomes["conflict"]; n != 0 {
		t.Errorf("%d conflicts", n)
	}
	var counts string
	meter.until("the resend to be counted", func() bool {
		counts = meter.metrics()
		return strings.Contains(counts, "oxyd_outbox_sent_again_total ") && !strings.Contains(counts, "oxyd_outbox_sent_again_total 0\n")
	})
}

// FC-15 with real parts: a hole in the middle is asked for and filled, in order of
// the numbers, with the same ids.
func TestHoleInTheMiddleIsFilled(t *testing.T) {
	broker := mqtttest.StartMosquitto(t, "persistence false")
	meter, room := newNode(t, quickResend, broker.Addr()), newNode(t, ledgerOnly, broker.Addr())
	room.startReady()
	meter.startReady()
	meter.book(1, 3)
	room.holds(3)
	room.stop()
	meter.book(4, 4)
	meter.until("the broker to have taken all", func() bool { return meter.outbox().Outbox.Pending == 0 })
	broker.Kill()
	broker.Start(t)
	room.startReady()
	meter.until("the new broker to be reached", func() bool { return meter.get("/readyz", nil) == 200 })
	meter.book(8, 3)
	room.holds(10)
}

// A ledger that is restored from an old backup shows what it lacks, and the edges
// bring it: all that is within their retention.
func TestRestoredLedgerCatchesUp(t *testing.T) {
	broker := mqtttest.StartMosquitto(t, "persistence true")
	meter, room := newNode(t, quickResend, broker.Addr()), newNode(t, ledgerOnly, broker.Addr())
	room.startReady()
	meter.startReady()
	meter.book(1, 4)
	room.holds(4)
	backup := filepath.Join(room.dir, "backup.bolt")
	if out, err := room.command("backup", backup); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	meter.book(5, 6)
	room.holds(10)
	before := incarnation(room)
	room.stop()
	live := filepath.Join(room.dir, "data", "ledger.bolt")
	image, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(live, image, 0o600); err != nil { // as cp does
		t.Fatal(err)
	}
	room.startReady()
	room.holds(10)
	room.until("another incarnation", func() bool { return incarnation(room) > before })
}

func incarnation(n *node) uint64 {
	var doc struct {
		Incarnation uint64 `json:"incarnation"`
	}
	n.get("/api/status", &doc)
	return doc.Incarnation
}

// A broker that is not there yet is waited for: the ledger must hear what it has
// published before, or nobody would learn that its store was set back.
func TestRestoredLedgerThatStartsBeforeItsBroker(t *testing.T) {
	broker := mqtttest.StartMosquitto(t, "persistence true")
	proxy := mqtttest.NewProxy(t, broker.Addr())
	meter, room := newNode(t, quickResend, broker.Addr()), newNode(t, ledgerOnly, proxy.Addr())
	room.startReady()
	meter.startReady()
	meter.book(1, 2)
	room.holds(2)
	backup := filepath.Join(room.dir, "backup.bolt")
	if out, err := room.command("backup", backup); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	meter.book(3, 2)
	room.holds(4)
	before := incarnation(room)
	s := newStranger(t, broker.Addr())
	room.until("the confirmation of all four", func() bool {
		return strings.Contains(s.newest("oxyd/base/ledger/main/confirm/meter"), `"through":4`)
	})
	room.kill()
	if err := os.Rename(backup, filepath.Join(room.dir, "data", "ledger.bolt")); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	room.start()
	var said string
	room.until("the unreached broker to be told", func() bool {
		return room.get("/readyz", &said) == 503 && strings.Contains(said, "not reached: ") && strings.Contains(room.log.String(), "tried again until it answers")
	})
	proxy.Refuse(false)
	room.holds(4)
	room.until("another incarnation", func() bool { return incarnation(room) > before })
}

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"oxyd/internal/mqtttest"
)

const spareLedger = `
site: base
node: spare
data_dir: DIR
tanks: [{id: hab-1, capacity: 14.3 kg}, {id: A, initial: 847 g}]
mqtt: {broker: "tcp://OUTSIDE"}
ledger: {id: spare, publish: false}
web: {listen: WEB}
`

// R16: two ledgers on two machines that consume the same events reach the same
// state and can prove it by their digests, in their status on the broker; one
// publishes balances, the other stands by. One of them comes late, is killed, and
// gets some of it twice.
func TestTwoLedgersAgree(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	edge := newNode(t, edgeOnly, broker.Addr())
	room, spare := newNode(t, ledgerOnly, broker.Addr()), newNode(t, spareLedger, broker.Addr())
	room.startReady()
	spare.startReady()
	s := newStranger(t, broker.Addr())
	edge.startReady()
	for _, event := range []string{
		`consumed {"event_id":"e-8842","tank":"A","amount":120}`,
		`measured {"event_id":"m-1","tank":"A","remaining":700,"occurred_at":"2026-05-01T00:00:00Z"}`,
		`refilled {"event_id":"r-1","tank":"A","amount":50,"occurred_at":"2026-05-01T00:00:01Z"}`,
		`consumed {"event_id":"e-8842","tank":"A","amount":120}`,
	} {
		leaf, payload, _ := strings.Cut(event, " ")
		s.publish("oxyd/base/tank/A/"+leaf, payload)
	}
	spare.kill()
	s.publish("oxyd/base/tank/A/reversed", `{"event_id":"v-1","tank":"A","reverses":"r-1","occurred_at":"2026-05-01T00:00:02Z"}`)
	room.until("readings of the edge", func() bool { return room.status().Outcomes["applied"] >= 20 })
	spare.startReady()
	edge.stop()

	digest := func(id string) string {
		var doc struct{ Status, Digest string }
		_ = json.Unmarshal([]byte(s.newest("oxyd/base/ledger/"+id+"/status")), &doc)
		if doc.Status != "online" {
			return doc.Status
		}
		return doc.Digest
	}
	room.until("equal digests on the broker", func() bool {
		return len(digest("main")) == 64 && digest("main") == digest("spare") &&
			room.status().Digest == spare.status().Digest && digest("main") == room.status().Digest
	})
	if got := room.tank("A").Balance; got != spare.tank("A").Balance {
		t.Errorf("balances of A are %s and %s", got, spare.tank("A").Balance)
	}
	room.stop()
	s.publish("oxyd/marker", "behind all that the first ledger has published")
	spare.until("the marker", func() bool { return s.newest("oxyd/marker") != "" })
	before := len(s.received("oxyd/base/tank/A/balance"))
	s.publish("oxyd/base/tank/A/consumed", `{"event_id":"e-9","tank":"A","amount":1}`)
	spare.until("the next event in the spare ledger", func() bool {
		return spare.status().Outcomes["applied"]+spare.status().Outcomes["late"] > 0 && spare.tank("A").Totals.Consumed == "121"
	})
	spare.settled()
	if after := len(s.received("oxyd/base/tank/A/balance")); after != before {
		t.Errorf("the ledger that stands by has published %d balances", after-before)
	}
	room.startReady() // it takes what it missed from its session
	room.until("equal digests again", func() bool { return room.status().Digest == spare.status().Digest })
}

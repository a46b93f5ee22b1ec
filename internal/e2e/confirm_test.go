package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// alarms lists the kinds of the alarms that the node's ledger shows.
func (n *node) alarms() string {
	var doc struct {
		Alarms []struct {
			Kind string `json:"kind"`
		} `json:"alarms"`
	}
	n.get("/api/status", &doc)
	var kinds []string
	for _, a := range doc.Alarms {
		kinds = append(kinds, a.Kind)
	}
	return strings.Join(kinds, " ")
}

// R5: what was compared at the start is what the config says; a node may do
// otherwise, and says so in its status.
func TestNodeThatAnnouncesMoreThanTheWindow(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.settled()
	s := newStranger(t, n.broker)
	topic := "oxyd/base/node/old-board/status"
	s.wait(s.client.Publish(topic, 1, true, `{"status":"online","node":"old-board","redelivery":"168h"}`))
	s.wait(s.client.Publish(topic, 1, true, `{"status":"online","node":"old-board","redelivery":"169h"}`))
	n.until("the alarm", func() bool { return strings.Contains(n.alarms(), "window") })
	n.until("the alarm in the ledger's status", func() bool {
		doc := s.newest("oxyd/base/ledger/main/status")
		return strings.Contains(doc, `"kind":"window"`) && strings.Contains(doc, "old-board")
	})
	if m := n.metrics(); !strings.Contains(m, `oxyd_alarm{kind="window"`) {
		t.Errorf("metrics do not show the alarm:\n%s", m)
	}
	s.wait(s.client.Publish(topic, 1, true, `{"status":"offline","node":"old-board","reason":"connection lost"}`))
	s.wait(s.client.Publish(topic, 1, true, "")) // the board is taken away
	n.until("the end of the alarm", func() bool { return !strings.Contains(n.alarms(), "window") })
}

// Contract section 7: what has arrived of each named source stands on a retained
// topic, with what is missing, and is there for whoever comes later.
func TestConfirmationIsPublished(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.settled()
	s := newStranger(t, n.broker)
	for _, seq := range []int{1, 2, 5} {
		s.publish("oxyd/base/tank/A/consumed", fmt.Sprintf(`{"event_id":"c-%d","tank":"A","amount":1,"source":"meter","epoch":7,"seq":%d}`, seq, seq))
	}
	topic := "oxyd/base/ledger/main/confirm/meter"
	says := func(s *stranger, want string) {
		t.Helper()
		n.until(topic+" to say "+want, func() bool { return strings.Contains(s.newest(topic), want) })
	}
	says(s, `"source":"meter","newest_epoch":7,"fenced":[],"more":false,"streams":[{"epoch":7,"tank":"A","through":5,"missing":[[3,4]]}]`)
	n.kill()
	n.startReady()
	n.settled()
	says(newStranger(t, n.broker), `"through":5,"missing":[[3,4]]`)
	s = newStranger(t, n.broker)
	s.publish("oxyd/base/tank/A/consumed", `{"event_id":"c-4","tank":"A","amount":1,"source":"meter","epoch":7,"seq":4,"stands_for":[3,4]}`)
	says(s, `"through":5,"missing":[]`)
}

// A number that comes half a second late is no news; one that does not come is.
func TestFC29GapsAreToldAfterAGrace(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.settled()
	s := newStranger(t, n.broker)
	send := func(seqs ...int) {
		for _, seq := range seqs {
			s.publish("oxyd/base/tank/A/consumed", fmt.Sprintf(`{"event_id":"g-%d","tank":"A","amount":1,"source":"meter","epoch":7,"seq":%d}`, seq, seq))
		}
	}
	topic := "oxyd/base/ledger/main/confirm/meter"
	send(1, 2, 4, 3, 5, 7)
	n.until("the alarm for 6", func() bool { return n.alarms() == "gap" })
	n.until("the log to tell of 6", func() bool { return strings.Contains(n.log.String(), "lacks number 6 of source meter") })
	if strings.Contains(n.log.String(), "lacks number 3 ") {
		t.Error("the log tells of 3, which came a moment later")
	}
	n.until("number 6 to be asked for", func() bool { return strings.Contains(s.newest(topic), `[[6,6]]`) })
	if doc := n.tank("A"); doc.TotalsComplete || doc.Totals.Consumed != "6" {
		t.Errorf("tank is %+v, want 6 consumed and totals that are not complete", doc)
	}
	send(6)
	n.until("the end of the alarm", func() bool { return n.alarms() == "" })
}

// What a rule refused may be oxygen that the balance lacks: it is told until
// somebody has decided.
func TestQuarantineIsToldUntilDecided(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.settled()
	s := newStranger(t, n.broker)
	s.publish("oxyd/base/tank/A/consumed", `{"event_id":"old","tank":"A","amount":1,"occurred_at":"2026-01-01T00:00:00Z"}`)
	n.until("the alarm", func() bool { return n.alarms() == "quarantine" })
	var kept []struct {
		ID string `json:"id"`
	}
	n.get("/api/quarantine", &kept)
	if len(kept) != 1 {
		t.Fatalf("quarantine holds %v", kept)
	}
	if out, err := n.command("quarantine", "retry", kept[0].ID, "--reason", "seen by the crew"); err != nil {
		t.Fatalf("retry: %v\n%s", err, out)
	}
	n.until("the end of the alarm", func() bool { return n.alarms() == "" })
	if got := n.tank("A").Balance; got != "846" {
		t.Errorf("balance is %s, want 846", got)
	}
}

// A bound that is reached is told before anybody wonders what became of his events.
func TestBoundThatIsReachedIsTold(t *testing.T) {
	n := newNode(t, strings.Replace(allInOne, "\nledger:\n", "\nledger: {max_tanks: 2}\n", 1), "")
	n.startReady()
	s := newStranger(t, n.broker)
	s.publish("oxyd/base/tank/X/consumed", `{"event_id":"x","tank":"X","amount":1}`)
	n.until("both alarms", func() bool { return n.alarms() == "limit quarantine" })
	n.until("the bound in the ledger's status", func() bool {
		return strings.Contains(s.newest("oxyd/base/ledger/main/status"), "ledger.max_tanks 2")
	})
}

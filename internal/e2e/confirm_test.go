package e2e

import (
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

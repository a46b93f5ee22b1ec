package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"oxyd/internal/config"
)

// announcedMax bounds the nodes whose announcement is remembered. Beyond it the
// shortest one goes: the alarm is about the longest.
const announcedMax = 4096

// announcements remembers how long each node says that it may bring an event back
// (`redelivery` of its status). The configured windows were compared at the start;
// what the nodes do is known only when they say it (contract section 5, R5).
type announcements struct {
	mu   sync.Mutex
	node map[string]time.Duration
}

// note remembers a node's announcement; 0 forgets it.
func (a *announcements) note(node string, redelivery time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if redelivery <= 0 {
		delete(a.node, node)
		return
	}
	if a.node == nil {
		a.node = map[string]time.Duration{}
	}
	a.node[node] = redelivery
	if len(a.node) > announcedMax {
		least := node
		for name, d := range a.node {
			if d < a.node[least] {
				least = name
			}
		}
		delete(a.node, least)
	}
}

// longest gives the node that announces most; the first by name of equal ones.
func (a *announcements) longest() (node string, redelivery time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, d := range a.node {
		if d > redelivery || d == redelivery && name < node {
			node, redelivery = name, d
		}
	}
	return node, redelivery
}

// all gives every announcement, by node.
func (a *announcements) all() []announcement {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]announcement, 0, len(a.node))
	for name, d := range a.node {
		list = append(list, announcement{name, config.Duration(d).String()})
	}
	slices.SortFunc(list, func(x, y announcement) int { return strings.Compare(x.Node, y.Node) })
	return list
}

// announcement is what a node's status says of its redelivery (contract section 3).
type announcement struct {
	Node       string `json:"node"`
	Redelivery string `json:"redelivery"`
}

// heardNode takes the status of a node. An offline one says nothing of its outbox,
// which still holds what it holds: its last word stands. A cleared topic is a node
// that was taken away.
func (b *board) heardNode(node string, payload []byte) {
	if len(payload) == 0 {
		b.announced.note(node, 0)
		b.judgeWindows()
		return
	}
	var doc struct {
		Redelivery string `json:"redelivery"`
	}
	if json.Unmarshal(payload, &doc) != nil || doc.Redelivery == "" {
		return
	}
	var d config.Duration
	if err := d.UnmarshalText([]byte(doc.Redelivery)); err != nil {
		b.log.Debug().Err(err).Str("node", node).Msg("redelivery of a node not understood")
		return
	}
	b.announced.note(node, time.Duration(d))
	b.judgeWindows()
}

// judgeWindows raises the alarm while a node can bring events back later than the
// ledger can recognise those that have no number.
func (b *board) judgeWindows() {
	node, longest := b.announced.longest()
	window := time.Duration(b.cfg.Ledger.DedupWindow)
	text := ""
	if longest > window {
		text = fmt.Sprintf("node %s announces that it may bring an event back for %v, dedup_window is %v: an event without a number that comes later is quarantined",
			node, longest, b.cfg.Ledger.DedupWindow)
	}
	b.raise(&b.ledgerAlarms, "window", warning, text)
}

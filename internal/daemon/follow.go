package daemon

import (
	"oxyd/mqtt"
)

// following says what this node listens to on its publisher's connection: what the
// ledgers say of its events, and, where it keeps an account itself, what the
// nodes say of theirs.
func (b *board) following() mqtt.Following {
	f := mqtt.Following{Handle: b.heard}
	if b.ledger != nil {
		f.Filters = append(f.Filters, b.topics.NodeStatus("+"))
	}
	return f
}

// heard takes one followed document to where it belongs.
func (b *board) heard(topic string, payload []byte) {
	of, ok := b.topics.ParseStatus(topic)
	if !ok {
		return
	}
	switch {
	case of.Node != "" && b.ledger != nil:
		b.heardNode(of.Node, payload)
	}
}

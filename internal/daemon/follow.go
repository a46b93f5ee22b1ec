package daemon

import (
	"encoding/json"

	"oxyd/internal/event"
	"oxyd/mqtt"
)

// following says what this node listens to on its publisher's connection: what the
// ledgers say of its events, and, where it keeps an account itself, what the
// nodes say of theirs.
func (b *board) following() mqtt.Following {
	f := mqtt.Following{Handle: b.heard,
		Filters: []string{b.topics.LedgerStatus("+"), b.topics.Confirm("+", b.cfg.Node)}}
	if b.ledger != nil {
		f.Filters = append(f.Filters, b.topics.NodeStatus("+"))
	}
	return f
}

// heard takes one followed document to where it belongs.
func (b *board) heard(topic string, payload []byte) {
	of, ok := b.topics.ParseStatus(topic)
	switch {
	case !ok:
	case of.Confirms != "":
		b.heardConfirmation(of.Ledger, payload)
	case of.Ledger != "":
		b.heardLedger(of.Ledger, payload)
	case of.Node != "" && b.ledger != nil:
		b.heardNode(of.Node, payload)
	}
}

// heardConfirmation takes what a ledger says of this node's events. A document
// that is at fault, or speaks for another ledger than its topic, changes nothing.
func (b *board) heardConfirmation(ledger string, payload []byte) {
	if len(payload) == 0 {
		return // cleared: the ledger was taken away, its status says the rest
	}
	c, err := event.DecodeConfirm(payload)
	if err == nil && c.Ledger == ledger {
		err = b.outbox.Heard(c)
	}
	if err != nil {
		b.log.Debug().Err(err).Str("ledger", ledger).Msg("confirmation not taken") // the outbox counts what it refuses
	}
}

// heardLedger takes a ledger's status: only one that is online is sent anything
// again. A status that cannot be read is no word that it is.
func (b *board) heardLedger(ledger string, payload []byte) {
	var doc ledgerDocument
	if len(payload) > 0 && json.Unmarshal(payload, &doc) != nil {
		doc = ledgerDocument{}
	}
	b.outbox.LedgerStatus(ledger, doc.Incarnation, doc.Status == "online")
}

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"oxyd/internal/event"
	"oxyd/ledger"
	"oxyd/mqtt"
)

const (
	// recallPause is the first pause between two tries to reach the broker; it doubles
	// up to subscriberBackoffMax.
	recallPause = 250 * time.Millisecond
	// recallMax is the greatest incarnation that is believed of a document: beyond
	// the second that time draws in the year 2242, less room for a million more. One
	// that a stranger has left there must not hinder the raising above the true ones.
	recallMax = event.MaxEpoch - 1<<40
)

// recallPast compares the ledger with its own retained documents before either
// client goes online and replaces them. Where they say more than the store knows,
// somebody has put a backup in its place, or another file: the store draws a new
// incarnation, so that nobody takes what was confirmed by its former self for
// confirmed. The publisher's client id is free until then; that of the subscriber
// must not be used, for a clean session would end its own.
func (b *board) recallPast(ctx context.Context) {
	if b.ledger == nil {
		return
	}
	id := b.cfg.Ledger.ID
	for pause := recallPause; ; pause = min(2*pause, subscriberBackoffMax) {
		docs, err := mqtt.Fetch(ctx, b.connection(b.cfg.PublisherClientID()),
			[]string{b.topics.LedgerStatus(id), b.topics.Confirm(id, "+")}, b.log.With().Str("part", "recall").Logger())
		if err == nil {
			b.compare(docs)
			return
		}
		if errors.Is(err, mqtt.ErrSubscriptionRefused) || errors.Is(err, mqtt.ErrNoAnswer) {
			b.log.Warn().Err(err).Msg("what this ledger has published before is not known: a store that was set back would go unnoticed")
			return
		}
		if b.recalling.Swap(&err) == nil { // no broker, so that neither client could work
			b.log.Warn().Err(err).Msg("not connected to broker, tried again until it answers")
		}
		if mqtt.RefusedCredentials(err) {
			pause = mqtt.RefusedPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// recallError says why the broker was not reached before either client has started.
func (b *board) recallError() string {
	if err := b.recalling.Load(); err != nil {
		return (*err).Error()
	}
	return ""
}

// compare draws a new incarnation where one of the documents shows a further state.
func (b *board) compare(docs map[string][]byte) {
	status, err := b.ledger.Status()
	if err != nil {
		b.log.Error().Err(err).Msg("read ledger status")
		return
	}
	var above uint64
	setBack := false
	for topic, payload := range docs {
		of, _ := b.topics.ParseStatus(topic)
		if of.Confirms == "" {
			var was ledgerDocument
			if json.Unmarshal(payload, &was) == nil && possible(was.Incarnation, &status) { // else it is not ours
				setBack = setBack || status.SetBack(was.Incarnation, was.Revision)
				above = max(above, was.Incarnation)
			}
			continue
		}
		was, err := event.DecodeConfirm(payload)
		if err != nil || !possible(was.Incarnation, &status) {
			continue
		}
		is, err := b.ledger.Confirm(of.Confirms)
		if err != nil {
			b.log.Error().Err(err).Msg("read confirmation")
			return
		}
		setBack = setBack || ledger.SetBackSince(&was, &is)
		above = max(above, was.Incarnation)
	}
	if !setBack {
		return
	}
	n, err := b.ledger.RaiseIncarnation(above)
	if err != nil {
		b.log.Error().Err(err).Msg("store was set back, and keeps its incarnation")
		return
	}
	b.log.Warn().Uint64("was", status.Incarnation).Uint64("incarnation", n).
		Msg("store knows less than it has published: it was restored or replaced, its sources send again what they keep")
}

// possible reports whether this ledger can have published the incarnation.
func possible(incarnation uint64, now *ledger.Status) bool {
	return incarnation <= max(recallMax, now.Incarnation)
}

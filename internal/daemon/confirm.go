package daemon

import (
	"fmt"
	"time"

	"oxyd/internal/event"
)

// confirmPause is the least time between two confirmations of one source (contract
// section 7).
const confirmPause = time.Second

// confirmations publishes what has arrived of each source, retained, from committed
// state: all of them at the start, then those that a commit has changed.
type confirmations struct {
	due map[string]bool // sources
	at  time.Time       // when they may be published
}

// publish publishes the confirmations that are due and differ from what was
// published. A source whose document was not taken stays due.
func (c *confirmations) publish(b *board, published map[string]string) error {
	for _, source := range b.ledger.TakeTouched() {
		c.due[source] = true
	}
	now := time.Now()
	if len(c.due) == 0 || now.Before(c.at) {
		return nil
	}
	c.at = now.Add(confirmPause)
	for source := range c.due {
		doc, err := b.ledger.Confirm(source)
		if err != nil {
			return fmt.Errorf("read the confirmation of %s: %w", source, err)
		}
		doc.Ledger = b.cfg.Ledger.ID
		body, err := event.EncodeConfirm(&doc)
		if err != nil {
			return err
		}
		topic := b.topics.Confirm(doc.Ledger, source)
		if published[topic] == string(body) {
			delete(c.due, source)
			continue
		}
		if err := b.publisher.SetRetained(topic, body); err != nil {
			b.log.Warn().Err(err).Str("source", source).Msg("confirmation not published")
			continue
		}
		published[topic] = string(body)
		delete(c.due, source)
	}
	return nil
}

// all makes every named source due.
func (c *confirmations) all(b *board) error {
	sources, err := b.ledger.Sources()
	if err != nil {
		return fmt.Errorf("read sources: %w", err)
	}
	for i := range sources {
		if sources[i].Source != "" {
			c.due[sources[i].Source] = true
		}
	}
	return nil
}

// patience is how long to wait for a commit before looking again.
func (c *confirmations) patience() time.Duration {
	if len(c.due) > 0 {
		return min(staleEvery, max(0, time.Until(c.at)))
	}
	return staleEvery
}

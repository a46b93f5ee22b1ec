package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/web"
	"oxyd/ledger"
)

// answerPatience is how long an operator's entry waits for the ledger's outcome
// before the answer is "pending, ask there" (contract section 8).
const answerPatience = 5 * time.Second

// entries are the entries by hand that wait for their answer, by the caller's key.
// The connections of the API bound them.
type entries struct {
	mu sync.Mutex
	on map[string]event.Hash
}

// begin claims the key of an entry until end is called. A second request with it
// meanwhile has no answer yet, and may be another fact altogether.
func (s *entries) begin(e *event.Event) (end func(), err error) {
	hash := e.Hash()
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, busy := s.on[e.ID]; busy {
		if was != hash {
			return nil, web.ErrKeyReused
		}
		return nil, web.ErrBusy
	}
	if s.on == nil {
		s.on = map[string]event.Hash{}
	}
	s.on[e.ID] = hash
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.on, e.ID)
	}, nil
}

// record books an operator's entry. It goes the one way that every event goes:
// the node's outbox, MQTT, the ledger. The caller's key is the event_id, so that a
// repeat finds what the first one did: it gets the first answer and changes
// nothing. That the ledger has not answered yet is no answer, and is not repeated.
func (b *board) record(ctx context.Context, r web.Record) (web.Answer, error) {
	end, err := b.entries.begin(&r.Event)
	if err != nil {
		return web.Answer{}, err
	}
	defer end()
	answer := web.Answer{EventID: r.Event.ID, Source: b.cfg.Node, Tank: r.Event.Tank, Pending: true, Elsewhere: b.ledger == nil}
	_, taken, err := b.outbox.Lookup(r.Event.ID)
	if err != nil {
		return web.Answer{}, refusal(err)
	}
	if !taken {
		if known, err := b.booked(&r.Event); err != nil {
			return web.Answer{}, err
		} else if known {
			return b.await(ctx, answer)
		}
		if err := b.admit(&r.Event); err != nil {
			return web.Answer{}, err
		}
	}
	receipts, err := b.outbox.Append(r.Event)
	if err != nil {
		return web.Answer{}, refusal(err)
	}
	if r.Event.Type == event.Measured && !receipts[0].Again {
		b.measured.note(r.Event.Tank, time.Now())
	}
	return b.await(ctx, answer)
}

// booked reports whether the account has the entry although the outbox knows its
// key no more: it was forgotten at the bound, or the outbox is a new one. A second
// event under the key would be a conflict and put the tank in doubt.
func (b *board) booked(e *event.Event) (bool, error) {
	if b.ledger == nil {
		return false, nil
	}
	first, known, err := b.ledger.Content(event.Identity{Source: b.cfg.Node, ID: e.ID})
	if err != nil || !known {
		return false, err
	}
	// What the outbox gave is not the caller's word.
	if e.OccurredAt.IsZero() || first.Unsynced {
		first.OccurredAt = e.OccurredAt
	}
	first.Dot, first.Unsynced = event.Dot{}, false
	if first.Hash() != e.Hash() {
		return false, fmt.Errorf("%w: %q", web.ErrKeyReused, e.ID)
	}
	return true, nil
}

// admit refuses a new entry that cannot be booked here.
func (b *board) admit(e *event.Event) error {
	if b.cfg.TanksMode == config.TanksClosed && b.cfg.Tank(e.Tank) == nil {
		return fmt.Errorf("%w: %q is not in the config, and tanks_mode is closed", web.ErrUnknownTank, e.Tank)
	}
	return b.timely(e)
}

// await gives the first answer, or waits a while for what it will be made of.
func (b *board) await(ctx context.Context, answer web.Answer) (web.Answer, error) {
	if b.ledger == nil { // another board keeps the account
		return answer, nil
	}
	id := event.Identity{Source: answer.Source, ID: answer.EventID}
	if kept, ok, err := b.ledger.Answer(id); err != nil {
		return answer, err
	} else if ok {
		return readAnswer(kept)
	}
	deadline := time.After(answerPatience)
	for {
		changed := b.ledger.Changed()
		res, known, err := b.ledger.Outcome(id)
		if err != nil {
			return answer, err
		}
		if known {
			return b.decided(id, answer, res)
		}
		select {
		case <-changed:
		case <-deadline:
			return answer, nil
		case <-ctx.Done():
			return answer, nil
		}
	}
}

// decided makes the first answer and keeps it. Where there is no room to keep it
// the outcome stands with the event all the same, and a repeat is answered anew.
func (b *board) decided(id event.Identity, a web.Answer, res ledger.Result) (web.Answer, error) {
	a.Pending, a.Outcome, a.Reason, a.LSN = false, res.Outcome.String(), string(res.Reason), res.LSN
	doc, ok, err := b.ledger.Balance(a.Tank)
	if err != nil {
		return a, err
	}
	if ok {
		a.Balance = &doc
	}
	text, err := json.Marshal(a)
	if err != nil {
		return a, fmt.Errorf("write answer: %w", err)
	}
	kept, err := b.ledger.KeepAnswer(id, text)
	if err != nil {
		b.log.Warn().Err(err).Str("event_id", id.ID).Msg("answer not kept, a repeat will be answered with the balance of then")
		return a, nil
	}
	return readAnswer(kept)
}

func readAnswer(text []byte) (a web.Answer, err error) {
	if err = json.Unmarshal(text, &a); err != nil {
		err = fmt.Errorf("read kept answer: %w", err)
	}
	return a, err
}

// taken reports whether the outbox holds or remembers an event of this node.
func (b *board) taken(eventID string) (bool, error) {
	_, found, err := b.outbox.Lookup(eventID)
	return found, err
}

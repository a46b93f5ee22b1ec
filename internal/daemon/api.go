package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/internal/web"
	"oxyd/ledger"
	"oxyd/mqtt"
)

func (b *board) handler() http.Handler {
	return web.New(web.Board{Version: b.version, Source: b.cfg.Node, Account: b.ledger, Status: b.status,
		Node: func() any { return b.node() }, Record: b.record, Taken: b.taken, Metrics: b.metrics, Ready: b.ready},
		b.log.With().Str("part", "api").Logger())
}

// timely refuses an entry whose instant cannot be meant, or cannot be placed: this
// node's numbers say that what it sends now came after what it measured before,
// so that an earlier movement would be subtracted from a measurement that has it
// in already.
func (b *board) timely(e *event.Event) error {
	at := e.OccurredAt
	switch {
	case at.IsZero():
		return nil
	case at.Before(earliestEntry) || at.After(time.Now().Add(ledger.MaxAhead)):
		return fmt.Errorf("%w: occurred_at %s is before 2020 or in the future", web.ErrInvalid, at.Format(time.RFC3339))
	}
	if last, ok := b.measured.last(e.Tank); ok && !at.After(last) {
		return fmt.Errorf("%w: this node has measured tank %s at %s, and the measurement has in it what happened at %s",
			web.ErrInvalid, e.Tank, last.UTC().Format(time.RFC3339), at.Format(time.RFC3339))
	}
	return nil
}

// earliestEntry is the first instant that an entry by hand may have.
var earliestEntry = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// measuredTanks remembers when this process last measured each tank.
type measuredTanks struct{ at sync.Map }

func (m *measuredTanks) note(tank string, at time.Time) { m.at.Store(tank, at) }

func (m *measuredTanks) last(tank string) (time.Time, bool) {
	at, ok := m.at.Load(tank)
	if !ok {
		return time.Time{}, false
	}
	return at.(time.Time), true
}

// refusal gives the outbox's error the meaning that the API answers with.
func refusal(err error) error {
	for _, m := range []struct{ is, meaning error }{
		{outbox.ErrIDReused, web.ErrKeyReused}, {outbox.ErrFull, web.ErrFull}, {outbox.ErrDraft, web.ErrInvalid},
		{outbox.ErrClosed, web.ErrUnavailable}, {boltfile.ErrFailed, web.ErrUnavailable},
	} {
		if errors.Is(err, m.is) {
			return fmt.Errorf("%w: %w", m.meaning, err)
		}
	}
	return err
}

// ready is nil when the stores are verified and work, and the broker is reached.
func (b *board) ready() error {
	if _, err := b.outbox.Stats(); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	if len(b.notVerified) > 0 {
		return errors.New(strings.Join(b.notVerified, "; "))
	}
	if s := b.publisher.Status(); !s.Connected {
		return fmt.Errorf("broker %s is not reached: %s", s.Broker, cmp.Or(s.LastError, b.recallError()))
	}
	if b.subscriber != nil {
		if s, err := b.ledger.Status(); err != nil || s.Full {
			return fmt.Errorf("ledger has no room or cannot be read (%v)", err)
		}
		if s := b.subscriber.Status(); !s.Subscribed {
			return fmt.Errorf("ledger is not subscribed at %s: %s", s.Broker, s.LastError)
		}
	}
	return nil
}

// connectionDocument shows one client's connection.
type connectionDocument struct {
	ClientID  string     `json:"client_id"`
	Broker    string     `json:"broker"`
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since"`
	Connects  uint64     `json:"connects"`
	Attempts  int        `json:"attempts"`
	LastError string     `json:"last_error,omitempty"`
}

func connectionOf(s mqtt.Status) connectionDocument {
	d := connectionDocument{ClientID: s.ClientID, Broker: s.Broker, Connected: s.Connected, Connects: s.Connects,
		Attempts: s.Attempts, LastError: s.LastError}
	if !s.Since.IsZero() {
		since := s.Since.UTC().Round(0)
		d.Since = &since
	}
	return d
}

// metrics gives what the stations count, beside the ledger's own.
func (b *board) metrics() []web.Metric {
	list := counters("oxyd_publisher_", b.publisherCounts())
	if s, err := b.outbox.Stats(); err == nil {
		list = append(list, counters("oxyd_outbox_", outboxCounts(&s))...)
	}
	if b.cfg.Broker != nil {
		list = append(list, counters("oxyd_broker_", b.brokerCounts())...)
	}
	if b.ledger != nil {
		if c, err := b.ledger.OutCounts(); err == nil {
			list = append(list, counters("oxyd_webhook_", outCounts(&c))...)
		}
	}
	if b.subscriber != nil {
		list = append(list, counters("oxyd_subscriber_", b.subscriberCounts())...)
		list = append(list, alarmMetrics("ledger", &b.ledgerAlarms)...)
	}
	list = append(list, alarmMetrics("node", &b.nodeAlarms)...) // behind those of the same name
	if b.poller == nil {
		return list
	}
	list = append(list, sensorMetrics(b.poller.States())...)
	return append(list, busMetrics(b.poller.Buses())...)
}

package daemon

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"oxyd/internal/outbox"
	"oxyd/ledger"
	"oxyd/sensors"
)

// nodeStatusEvery is how often a node says how it does while nothing changes; a
// change of a sensor's state is said at once.
const nodeStatusEvery = 30 * time.Second

// nodeDocument is the retained status of a node (contract section 3).
type nodeDocument struct {
	Status     string           `json:"status"`
	Node       string           `json:"node"`
	Reason     string           `json:"reason,omitempty"`
	Version    string           `json:"version,omitempty"`
	Epoch      uint64           `json:"epoch,omitempty"`
	Boot       string           `json:"boot,omitempty"`
	Clock      string           `json:"clock,omitempty"`
	Redelivery string           `json:"redelivery,omitempty"`
	Outbox     *outboxDocument  `json:"outbox,omitempty"`
	Alarms     []alarmDocument  `json:"alarms,omitempty"`
	Sensors    []sensorDocument `json:"sensors,omitempty"`
}

type outboxDocument struct {
	Pending          uint64 `json:"pending"`
	OldestAgeSeconds int64  `json:"oldest_age_s"`
	Bytes            int64  `json:"bytes"`
	Retained         uint64 `json:"retained"`
	Full             bool   `json:"full"`
	Damaged          uint64 `json:"damaged"`
	// What the ledgers have told, and what was done about it.
	Wanted    uint64   `json:"wanted"`     // numbers that online ledgers lack
	SentAgain uint64   `json:"sent_again"` // since the start
	Skipped   uint64   `json:"skipped"`    // numbers said to be gone, since the start
	ConfirmBy []string `json:"confirm_by,omitempty"`
}

type sensorDocument struct {
	Tank     string            `json:"tank"`
	Name     string            `json:"name"`
	State    sensors.State     `json:"state"`
	Reason   sensors.Reason    `json:"reason"`
	Detail   string            `json:"detail,omitempty"`
	Since    time.Time         `json:"since,omitzero"` // not known while the clock was never set
	LastGood *lastGoodDocument `json:"last_good"`      // null until there was one
	Faults   uint64            `json:"faults"`
}

type lastGoodDocument struct {
	Remaining ledger.Sum `json:"remaining"`   // grams
	At        time.Time  `json:"at,omitzero"` // likewise
}

// nodeStatus writes the node's status as it stands.
func (b *board) nodeStatus() []byte { return mustJSON(b.node()) }

func (b *board) node() nodeDocument {
	doc := nodeDocument{Status: "online", Node: b.cfg.Node, Version: b.version, Boot: b.clock.BootID(),
		Clock: b.clockWord(), Redelivery: b.cfg.Outbox.Retention.String()}
	if s, err := b.outbox.Stats(); err == nil {
		doc.Epoch = s.Epoch
		b.outboxAlarms(&s)
		doc.Alarms = b.nodeAlarms.list()
		doc.Outbox = &outboxDocument{Wanted: wanted(&s), SentAgain: s.SentAgain, Skipped: s.NumbersSkipped, ConfirmBy: s.ConfirmBy,
			Pending: s.Pending, OldestAgeSeconds: int64(s.OldestAge.Seconds()),
			Bytes: s.FileBytes, Retained: s.Retained, Full: s.Full, Damaged: s.DamagedRows}
	} else {
		b.log.Error().Err(err).Msg("read outbox")
	}
	if b.poller == nil {
		return doc
	}
	for _, c := range b.poller.States() {
		doc.Sensors = append(doc.Sensors, sensorOf(&c))
	}
	return doc
}

// wanted sums up what online ledgers lack.
func wanted(s *outbox.Stats) (n uint64) {
	for _, l := range s.Ledgers {
		if l.Online {
			n += l.Wanted
		}
	}
	return n
}

func sensorOf(c *sensors.ChannelState) sensorDocument {
	s := sensorDocument{Tank: c.Tank, Name: c.Name, State: c.State, Reason: c.Reason, Detail: c.Detail,
		Since: shown(c.Since), Faults: c.Faults}
	if !c.LastGood.At.IsZero() {
		s.LastGood = &lastGoodDocument{Remaining: ledger.SumOf(c.LastGood.Remaining), At: shown(c.LastGood.At)}
	}
	return s
}

func (b *board) nodeOffline(reason string) []byte {
	return mustJSON(nodeDocument{Status: "offline", Node: b.cfg.Node, Reason: reason})
}

func (b *board) clockWord() string {
	if b.clock.Synced() {
		return "synced"
	}
	return "unsynced"
}

func (b *board) touchStatus() {
	select {
	case b.wakeStatus <- struct{}{}:
	default:
	}
}

// keepStatus refreshes the retained status on each change and now and then.
func (b *board) keepStatus(ctx context.Context) error {
	tick := time.NewTicker(nodeStatusEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wakeStatus:
		case <-tick.C:
		}
		if err := b.publisher.SetRetained(b.topics.NodeStatus(b.cfg.Node), b.nodeStatus()); err != nil {
			b.log.Warn().Err(err).Msg("node status not published")
		}
	}
}

// Words for the service manager.
const (
	notifyReady    = daemon.SdNotifyReady
	notifyStopping = daemon.SdNotifyStopping
)

// notify tells systemd, where it listens.
func notify(log zerolog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn().Err(err).Str("state", state).Msg("service manager not told")
	}
}

// pulseAge is how long the sensors' loops may stand still before the watchdog is
// no longer fed. They turn every few seconds even when a bus hangs.
const pulseAge = 20 * time.Second

// watchdog feeds systemd's watchdog at half its time, as long as the loops that
// read the sensors turn and the outbox answers.
func (b *board) watchdog(ctx context.Context) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return nil // none is asked for, or not of this process
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if b.poller != nil && time.Since(b.poller.Pulse()) > pulseAge {
			b.log.Error().Time("pulse", b.poller.Pulse()).Msg("sensor loops stand still, the watchdog is not fed")
			continue
		}
		if _, err := b.outbox.Stats(); err != nil {
			b.log.Error().Err(err).Msg("outbox does not answer, the watchdog is not fed")
			continue
		}
		notify(b.log, daemon.SdNotifyWatchdog)
	}
}

// status is the document of GET /api/status.
type status struct {
	Version   string         `json:"version"`
	Site      string         `json:"site"`
	Node      string         `json:"node"`
	Roles     []string       `json:"roles"`
	Clock     string         `json:"clock"`
	UptimeSec int64          `json:"uptime_s"`
	MQTT      map[string]any `json:"mqtt"`
	*ledger.Status
	LedgerID string          `json:"ledger,omitempty"`
	Alarms   []alarmDocument `json:"alarms"`

	// The windows that this process runs with, and how late the nodes that it knows
	// of say that they may bring an event back.
	DedupWindow      string         `json:"dedup_window,omitempty"`
	RedeliveryWindow string         `json:"redelivery_window,omitempty"`
	Announced        []announcement `json:"announced,omitempty"`
}

func (b *board) status() (any, error) {
	s := status{Version: b.version, Site: b.cfg.Site, Node: b.cfg.Node, Roles: b.cfg.Roles(), Clock: b.clockWord(),
		UptimeSec: int64(time.Since(b.started).Seconds()), MQTT: map[string]any{"publisher": connectionOf(b.publisher.Status())}}
	if b.ledger != nil {
		s.MQTT["subscriber"] = connectionOf(b.subscriber.Status())
		account, err := b.ledger.Status()
		if err != nil {
			return nil, err
		}
		s.Status, s.LedgerID, s.Alarms = &account, b.cfg.Ledger.ID, b.ledgerAlarms.list()
		s.DedupWindow, s.RedeliveryWindow = b.cfg.Ledger.DedupWindow.String(), b.cfg.Ledger.RedeliveryWindow.String()
		s.Announced = b.announced.all()
	}
	return s, nil
}

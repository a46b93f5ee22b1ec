package daemon

import (
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"

	"oxyd/mqtt"
)

const (
	// subscribeFirst bounds how long the publisher waits, at the start, for the
	// subscription of this process's own ledger.
	subscribeFirst = 10 * time.Second
	// brokerLookEvery is how often the embedded broker is looked at, and
	// brokerPatience how many looks in a row may find that it does not serve this
	// node's own publisher before it is started anew.
	brokerLookEvery = 5 * time.Second
	brokerPatience  = 4
	// brokerRestPause is the least time between two new starts; it doubles up to
	// brokerRestMax while they do not help.
	brokerRestPause = 20 * time.Second
	brokerRestMax   = 5 * time.Minute
	// brokerLines bounds the broker's lines in the log, a minute: what strangers
	// send it must not fill the card.
	brokerLines = 30
)

func (b *board) openBroker() error {
	if b.cfg.Broker == nil {
		return nil
	}
	return b.startBroker(b.cfg.Broker.Listen)
}

func (b *board) startBroker(listen string) (err error) {
	c := b.cfg.Broker
	b.broker, err = mqtt.StartBroker(mqtt.BrokerOptions{Listen: listen, Dir: b.path(brokerDir),
		MaxBytes: int64(c.MaxBytes), AckWait: time.Duration(c.AckWait), MaxAckPending: c.MaxAckPending,
		SessionExpiry: SessionExpiry(b.cfg), Username: c.Username, PasswordFile: c.PasswordFile},
		b.log.With().Str("part", "broker").Logger().Sample(&zerolog.BurstSampler{Burst: brokerLines, Period: time.Minute}))
	return err
}

// brokerAddress is the configured one, or where the embedded broker really
// listens when its port was left to the system.
func (b *board) brokerAddress() string {
	if b.broker == nil || !b.cfg.UsesEmbeddedBroker() {
		return b.cfg.MQTT.Broker
	}
	host, port, err := net.SplitHostPort(b.broker.Addr())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "tcp://" + net.JoinHostPort(host, port)
}

// superviseBroker starts the embedded broker anew when it no longer serves this
// node: its own publisher has no connection, or is owed PUBACKs and gets none. After a full disk its stores refuse every write for good, also when there
// is room again; only a new start reads them afresh. Nothing is lost by it: what
// it acknowledged is on disk, the rest is still with its senders.
func (b *board) superviseBroker(ctx context.Context) error {
	if !b.cfg.UsesEmbeddedBroker() {
		return nil // this node's own connections tell nothing of it
	}
	listen := b.broker.Addr()
	tick := time.NewTicker(brokerLookEvery)
	defer tick.Stop()
	var acknowledged uint64
	var rested time.Time // of the last new start
	pause := brokerRestPause
	for without := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		counts, status := b.publisher.Counts(), b.publisher.Status()
		without++
		switch {
		case !b.subscriberServed():
		case counts.Acknowledged > acknowledged || counts.InFlight == 0 && status.Connected:
			without, pause = 0, brokerRestPause
		case status.Refused: // it answers; what is wrong is our password
			without = 0
		}
		acknowledged = counts.Acknowledged
		outOfService := b.broker != nil && b.broker.Check() != nil
		if without < brokerPatience && !outOfService || time.Since(rested) < pause {
			continue
		}
		without, rested = 0, time.Now()
		if b.restartBroker(listen, status.LastError) {
			pause = min(2*pause, brokerRestMax)
		}
	}
}

// subscriberServed reports whether the ledger of this process has what it needs of
// the broker. Its session is another store than the messages, and fails alone.
func (b *board) subscriberServed() bool {
	if b.subscriber == nil {
		return true
	}
	s := b.subscriber.Status()
	return s.Subscribed || s.Refused
}

// restartBroker reports whether there is a broker again.
func (b *board) restartBroker(listen, lastError string) bool {
	b.brokerRestarts.Add(1)
	b.log.Warn().Str("last_error", lastError).Msg("embedded broker does not serve its own node, it is started anew")
	if b.broker != nil {
		b.broker.Close()
	}
	if err := b.startBroker(listen); err != nil {
		b.broker = nil
		b.log.Error().Err(err).Msg("embedded broker does not start, it is tried again")
	}
	return b.broker != nil
}

// awaitSubscription keeps the publisher back, at the start, until the ledger of
// this process is subscribed: what is sent before a session exists reaches nobody.
// Without a ledger, or when the subscription does not come, it does not wait.
func (b *board) awaitSubscription(ctx context.Context) {
	if b.subscriber == nil {
		return
	}
	select {
	case <-b.subscriber.Subscribed():
	case <-time.After(subscribeFirst):
	case <-ctx.Done():
	}
}

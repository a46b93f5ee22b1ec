package daemon

import (
	"context"
	"net"
	"time"

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
	brokerPatience  = 3
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
		Username: c.Username, PasswordFile: c.PasswordFile}, b.log.With().Str("part", "broker").Logger())
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
	for without := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		counts := b.publisher.Counts()
		without++
		if counts.Acknowledged > acknowledged || counts.InFlight == 0 && b.publisher.Status().Connected {
			without = 0
		}
		acknowledged = counts.Acknowledged
		outOfService := b.broker != nil && b.broker.Check() != nil
		if without < brokerPatience && !outOfService {
			continue
		}
		without = 0
		b.log.Warn().Str("last_error", b.publisher.Status().LastError).Msg("embedded broker does not serve its own node, it is started anew")
		if b.broker != nil {
			b.broker.Close()
		}
		if err := b.startBroker(listen); err != nil {
			b.broker = nil
			b.log.Error().Err(err).Msg("embedded broker does not start, it is tried again")
		}
	}
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

package daemon

import (
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/ledger"
	"oxyd/mqtt"
)

// What the daemon makes of a config. Whoever wants to know how it will run asks
// here and not the config: these are the options that the stations get.

// OutboxPath and LedgerPath are where the stores of a config are.
func OutboxPath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, outboxFile) }
func LedgerPath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, ledgerFile) }

// Topics are the topics of the config's site.
func Topics(cfg *config.Config) mqtt.Topics {
	return mqtt.Topics{Prefix: cfg.TopicPrefix, Site: cfg.Site}
}

// OutboxOptions are those of the outbox of a config, at a path.
func OutboxOptions(cfg *config.Config, path string, clock outbox.Clock, log zerolog.Logger) outbox.Options {
	topics := Topics(cfg)
	return outbox.Options{Path: path, Source: cfg.Node,
		MaxBytes: int64(cfg.Outbox.MaxBytes), Retention: time.Duration(cfg.Outbox.Retention),
		ConfirmBy: cfg.Outbox.ConfirmBy, CommitInterval: time.Duration(cfg.Outbox.CommitInterval),
		TailPatience: time.Duration(cfg.Outbox.ResendAfter), Clock: clock,
		Topic: func(t event.Type, tank string) string { return topics.Tank(tank, t.Topic()) }, Log: log}
}

// LedgerOptions are those of the account of a config that has one, at a path.
func LedgerOptions(cfg *config.Config, path string, log zerolog.Logger) ledger.Options {
	c := cfg.Ledger
	return ledger.Options{Path: path, MaxBytes: int64(c.MaxBytes), Tanks: ledgerTanks(cfg),
		Closed: cfg.TanksMode == config.TanksClosed, DedupWindow: time.Duration(c.DedupWindow), History: time.Duration(c.History),
		StaleAfter: time.Duration(c.StaleAfter), MaxTanks: c.MaxTanks, MaxSources: c.MaxSources,
		MaxTankSources: c.MaxSourcesPerTank, MaxParked: c.MaxParked, MaxMarks: c.MaxMarks, QuarantineBytes: int64(c.QuarantineBytes),
		Notify: notifies(cfg), Log: log}
}

// SessionExpiry is how long the embedded broker keeps what waits for a session that
// nobody takes up: as long as a ledger may be away, but never so long that it could
// bring back what this process's own ledger no longer recognises (R5).
func SessionExpiry(cfg *config.Config) time.Duration {
	l := cfg.Ledger
	if l == nil {
		return mqtt.DefaultBrokerSessionExpiry
	}
	return min(max(mqtt.DefaultBrokerSessionExpiry, time.Duration(l.RedeliveryWindow)), time.Duration(l.DedupWindow))
}

// Connection says how one of a config's clients reaches the broker at an address.
func Connection(cfg *config.Config, broker, clientID string) mqtt.Options {
	c := cfg.MQTT
	return mqtt.Options{Broker: broker, ClientID: clientID, Username: c.Username, PasswordFile: c.PasswordFile,
		CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, KeepAlive: time.Duration(c.KeepAlive)}
}

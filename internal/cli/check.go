package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
)

type checkCmd struct {
	configFlag
}

// Help is the long text of `oxyd check --help`.
func (checkCmd) Help() string {
	return "It reads the config and nothing else: no bus, broker, store or secret is touched. Exit code 1 when there is a fault; warnings leave it 0."
}

// Run prints what the config comes to, or every fault of it.
func (c *checkCmd) Run(s *terminal) error {
	cfg, path, err := c.load()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(s.stderr, "oxyd: warning: %s\n", printable(w.String()))
	}
	t := newTable(s.stdout)
	t.row("config", path+": no fault")
	t.row("roles", orNone(strings.Join(cfg.Roles(), ", ")))
	t.row("site", cfg.Site)
	t.row("node", cfg.Node)
	t.row("data", cfg.DataDir+", control socket "+filepath.Join(cfg.DataDir, daemon.SocketFile))
	t.row("tanks", fmt.Sprintf("%d named, %s", len(cfg.Tanks), tanksMode(cfg)))
	for i := range cfg.Sensors {
		sensor := &cfg.Sensors[i]
		t.row("sensor", fmt.Sprintf("%s: %s every %s, stale after %s", sensor.Tank, sensor.Driver, sensor.Interval, sensor.StaleAfter))
	}
	t.row("mqtt", fmt.Sprintf("%s, keep-alive %s", cfg.MQTT.Broker, cfg.MQTT.KeepAlive))
	t.row("client id", cfg.PublisherClientID())
	o := &cfg.Outbox
	t.row("outbox", fmt.Sprintf("at most %s, keeps %s after the broker's acknowledgement, commits readings every %s", o.MaxBytes, o.Retention, o.CommitInterval))
	if l := cfg.Ledger; l != nil {
		t.row("client id", cfg.LedgerClientID())
		t.row("ledger", fmt.Sprintf("%s, at most %s, quarantine %s, %d tanks, %d sources, %d sources a tank, %d parked", l.ID,
			l.MaxBytes, l.QuarantineBytes, l.MaxTanks, l.MaxSources, l.MaxSourcesPerTank, l.MaxParked))
		t.row("windows", fmt.Sprintf("dedup_window %s covers redelivery_window %s covers outbox.retention %s", l.DedupWindow, l.RedeliveryWindow, o.Retention))
	}
	if b := cfg.Broker; b != nil {
		t.row("broker", fmt.Sprintf("%s, at most %s, sends again after %s, %d on the way", b.Listen, b.MaxBytes, b.AckWait, b.MaxAckPending))
	}
	if cfg.Web != nil {
		t.row("web", "http://"+cfg.Web.Listen+"/")
	}
	return t.flush()
}

func tanksMode(cfg *config.Config) string {
	if cfg.TanksMode == config.TanksClosed {
		return "closed: events of others are quarantined"
	}
	return "open: others are registered when their first event comes"
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

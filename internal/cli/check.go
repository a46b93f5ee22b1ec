package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"oxyd/internal/checklist"
	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/sensors"
)

type checkCmd struct {
	configFlag
	JSON bool `help:"Print the answers alone, as an array of {question, ok, evidence}."`
}

// Help is the long text of `oxyd check --help`.
func (checkCmd) Help() string {
	return "It says every fault of the config. Without one it answers, from what it inspects, the six questions of an idempotent consumer: the options that the stations get; a trial of outbox, ingest and ledger in a scratch directory on the disk of data_dir, which is removed again; the stores, in a copy, or, while the daemon runs, a backup through its control socket. No bus, broker or secret is touched. Exit code 1 when there is a fault or a question is answered with no; warnings leave it 0."
}

// Run prints what the config comes to and the six answers, or every fault of the
// config.
func (c *checkCmd) Run(s *terminal) error {
	cfg, path, err := c.load()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(s.stderr, "oxyd: warning: %s\n", printable(w.String()))
	}
	specs, err := daemon.SensorSpecs(cfg)
	if err == nil {
		err = sensors.Check(specs)
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		if err := printConfig(s, cfg, path); err != nil {
			return err
		}
	}
	subject := checklist.Subject{Config: cfg, Daemon: c.running(cfg)}
	lookThrough(&subject)
	answers, err := checklist.Run(s.ctx, subject)
	if err != nil {
		return err
	}
	if err := c.print(s, answers); err != nil {
		return err
	}
	var no []string
	for _, a := range answers {
		if !a.OK {
			no = append(no, a.Question)
		}
	}
	if len(no) > 0 {
		return fmt.Errorf("%d of %d questions are answered with no: %s", len(no), len(answers), strings.Join(no, "; "))
	}
	return nil
}

// running gives the daemon of the config, or nil where nobody listens.
func (c *checkCmd) running(cfg *config.Config) checklist.Daemon {
	if _, err := os.Lstat(filepath.Join(cfg.DataDir, daemon.SocketFile)); err != nil {
		return nil
	}
	return asked{clientOf(cfg)}
}

// asked shows a daemon to the checklist.
type asked struct{ *client }

func (d asked) Get(ctx context.Context, path string, doc any) error {
	_, err := d.get(ctx, path, doc)
	return err
}

func (d asked) Backup(ctx context.Context, w io.Writer) error { return d.fetch(ctx, "/api/backup", w) }

// print writes the answers, each with what it rests on.
func (c *checkCmd) print(s *terminal, answers []checklist.Answer) error {
	if c.JSON {
		text, err := json.Marshal(answers)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stdout, "%s\n", text)
		return err
	}
	for i, a := range answers {
		word := "yes"
		if !a.OK {
			word = "NO"
		}
		if err := writeLine(s.stdout, fmt.Sprintf("\n%d. %s: %s", i+1, a.Question, word)); err != nil {
			return err
		}
		for _, line := range a.Evidence {
			if err := writeLine(s.stdout, "   "+printable(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

func printConfig(s *terminal, cfg *config.Config, path string) error {
	t := newTable(s.stdout)
	t.row("config", path+": no fault")
	t.row("roles", orNone(strings.Join(cfg.Roles(), ", ")))
	t.row("site", cfg.Site)
	t.row("node", cfg.Node)
	t.row("data", cfg.DataDir+", control socket "+filepath.Join(cfg.DataDir, daemon.SocketFile))
	t.row("tanks", fmt.Sprintf("%d named, %s", len(cfg.Tanks), tanksMode(cfg)))
	for i := range cfg.Sensors {
		sensor := &cfg.Sensors[i]
		called := sensor.Tank
		if sensor.Auxiliary() {
			called = sensor.Name + " (" + string(sensor.Measures) + ")"
		}
		t.row("sensor", fmt.Sprintf("%s: %s every %s, stale after %s", called, sensor.Driver, sensor.Interval, sensor.StaleAfter))
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

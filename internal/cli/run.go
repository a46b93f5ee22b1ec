package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
)

type runCmd struct {
	configFlag
}

// Help is the long text of `oxyd run --help`.
func (runCmd) Help() string {
	return "The sections of the config decide what runs: sensors, ledger, broker, web. It logs to stderr and stops in good order on SIGINT or SIGTERM; a second signal ends it at once."
}

// Run runs the daemon.
func (c *runCmd) Run(s *terminal) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	log, err := logger(cfg.Log, s.stderr)
	if err != nil {
		return err
	}
	return daemon.Run(s.ctx, cfg, readBuild().version, log)
}

// logger makes the log that the config asks for. Its times are UTC.
func logger(c config.Log, w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		return zerolog.Logger{}, fmt.Errorf("log.level: %w", err)
	}
	tty := isTerminal(w)
	if c.Format == config.LogText || c.Format == config.LogAuto && tty {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !tty || os.Getenv("NO_COLOR") != "",
			TimeFormat: time.RFC3339, TimeLocation: time.UTC}
	}
	return zerolog.New(w).Level(level).Hook(utcTime{}), nil
}

// utcTime stamps a line; zerolog's own stamp is in local time.
type utcTime struct{}

func (utcTime) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Time(zerolog.TimestampFieldName, time.Now().UTC())
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

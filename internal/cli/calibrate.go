package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/sensors"
)

// calibrationDir is where records go, below data_dir.
const calibrationDir = "calibration"

type sensorsCalibrateCmd struct {
	configFlag
	Name  string        `arg:"" help:"The channel's name, or the tank that it measures."`
	Reads int           `default:"25" help:"Good reads for each point; their median counts (${default})."`
	Every time.Duration `default:"200ms" help:"Time between two reads (${default})."`
	By    string        `help:"Who calibrates, for the record."`
	Out   string        `type:"path" help:"The record's file; without it {data_dir}/calibration/{channel}.json."`
}

// Help is the long text of `oxyd sensors calibrate --help`.
func (sensorsCalibrateCmd) Help() string {
	return "It asks for the true quantity at each point, in words such as \"0 bar\" or \"14.3 kg\", and reads the sensor meanwhile. Two points make a line, more make a table. An empty line ends it; with fewer than two points nothing is written.\n\nStop the daemon first: two programs must not share a chip. The record keeps the date, the chip's own numbers and what was typed; the config names it with calibration_file. A record in its place is kept beside it under its date."
}

// Run asks for the points and writes the record.
func (c *sensorsCalibrateCmd) Run(s *terminal) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	sensor, spec, err := c.channel(cfg)
	if err != nil {
		return err
	}
	kind := sensor.Quantity()
	if kind == "" || sensor.Signal == config.SignalDirect {
		return fmt.Errorf("channel %q gives its quantity itself, there is nothing to calibrate", c.Name)
	}
	if c.Reads < 1 || c.Every < 0 {
		return errors.New("--reads must be at least 1, and --every not negative")
	}
	if err := c.alone(s, cfg); err != nil {
		return err
	}
	bench, err := sensors.OpenBench(s.ctx, spec, sensors.OpenOptions{OpenBus: s.openBus})
	if err != nil {
		return err
	}
	defer bench.Close()
	name := spec.Name
	if name == "" {
		name = spec.Tank
	}
	record := &sensors.Record{Version: sensors.RecordVersion, Channel: name, Driver: spec.Driver, Place: bench.Place,
		Signal: bench.Signal, Over: bench.Signal.Over(), Unit: daemon.UnitOf(kind), By: c.By}
	if err := c.points(s, bench, kind, record); err != nil {
		return err
	}
	return c.write(s, cfg, record)
}

// channel finds the one channel that is meant.
func (c *sensorsCalibrateCmd) channel(cfg *config.Config) (*config.Sensor, sensors.Spec, error) {
	for i := range cfg.Sensors {
		cfg.Sensors[i].CalibrationFile = "" // it may not be there yet, and what it says is of no use here
	}
	specs, err := daemon.SensorSpecs(cfg)
	if err != nil {
		return nil, sensors.Spec{}, err
	}
	found := -1
	for i := range cfg.Sensors {
		if n := &cfg.Sensors[i]; n.Name == c.Name || n.Tank == c.Name {
			if found >= 0 {
				return nil, sensors.Spec{}, fmt.Errorf("%q is several channels: give the channel's name", c.Name)
			}
			found = i
		}
	}
	if found < 0 {
		return nil, sensors.Spec{}, &hinted{fmt.Errorf("there is no channel and no measured tank %q", c.Name), "oxyd sensors read shows them all"}
	}
	return &cfg.Sensors[found], specs[found], nil
}

// alone refuses while a daemon may be reading the chips.
func (c *sensorsCalibrateCmd) alone(s *terminal, cfg *config.Config) error {
	_, err := (&running{clientOf(cfg)}).channels(s.ctx)
	if noDaemon(err) {
		return nil
	}
	if _, cannotTell := errors.AsType[*unreached](err); cannotTell {
		return err
	}
	return &hinted{errors.New("a daemon runs with this config, and two programs must not share a chip"), "stop it first (systemctl stop oxyd)"}
}

// points asks for one point after the other.
func (c *sensorsCalibrateCmd) points(s *terminal, bench *sensors.Bench, kind config.Kind, record *sensors.Record) error {
	fmt.Fprintf(s.stdout, "%s at %s. Bring it to a known %s, let it settle, and type it with its unit.\n", record.Channel, bench.Place, kind)
	in := answersOf(s)
	for {
		fmt.Fprintf(s.stdout, "point %d (empty: done): ", len(record.Points)+1)
		said, err := in.next(s.ctx)
		if err != nil || said == "" {
			fmt.Fprintln(s.stdout)
			return err
		}
		var q config.Quantity
		if err := q.UnmarshalText([]byte(said)); err != nil || q.Kind != kind {
			if err == nil {
				err = fmt.Errorf("%q is no %s", said, kind)
			}
			s.complain(err)
			continue
		}
		steady, err := bench.Settle(s.ctx, c.Reads, c.Every)
		if s.ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			s.complain(fmt.Errorf("the sensor does not read: %w", err))
			continue
		}
		record.Points = append(record.Points, sensors.RecordPoint{Steady: steady, Is: q.SI(), Said: said})
		if len(record.Points) > 1 {
			if _, err := record.Scale(); err != nil {
				s.complain(fmt.Errorf("this point is not taken: %w", err))
				record.Points = record.Points[:len(record.Points)-1]
				continue
			}
		}
		fmt.Fprintf(s.stdout, "  raw %d, %.6g %s (%d reads, spread %.3g)\n", steady.Raw, steady.At, record.Over, steady.Reads, steady.Spread)
	}
}

var errInterrupted = errors.New("interrupted: nothing is written, and the calibration stays as it is")

// answers are the lines that somebody types. A read of a terminal cannot be cancelled,
// so a goroutine of its own waits for it, which an interrupt leaves behind.
type answers struct {
	lines <-chan string
	err   <-chan error
}

func answersOf(s *terminal) answers {
	lines, ended := make(chan string), make(chan error, 1)
	go func() {
		in := bufio.NewScanner(s.stdin)
		for in.Scan() {
			select {
			case lines <- strings.TrimSpace(in.Text()):
			case <-s.ctx.Done():
				return
			}
		}
		ended <- in.Err()
	}()
	return answers{lines, ended}
}

// next gives the next line without the spaces around it, "" where there is none.
func (a answers) next(ctx context.Context) (string, error) {
	select {
	case line := <-a.lines:
		return line, nil
	case err := <-a.err:
		return "", err
	case <-ctx.Done():
		return "", errInterrupted
	}
}

// write keeps the record, and says how the config names it.
func (c *sensorsCalibrateCmd) write(s *terminal, cfg *config.Config, record *sensors.Record) error {
	if len(record.Points) < 2 {
		return errors.New("fewer than two points: nothing is written, and the calibration stays as it is")
	}
	record.MadeAt, record.Clock = time.Now().UTC().Round(time.Second), "unsynced"
	if k, err := clock.New(); err == nil && k.Synced() {
		record.Clock = "synced"
	}
	path := c.Out
	if path == "" {
		path = filepath.Join(cfg.DataDir, calibrationDir, fileName(record.Channel)+".json")
	}
	if err := record.Save(path); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "%s is written. In the config, in place of calibration and range:\n\n    calibration_file: %s\n", path, path)
	return nil
}

// fileName makes a file's name of a channel's.
func fileName(channel string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, channel)
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/sensors"
)

// readPatience is how long the first readings of a bench may take: the slowest chip
// needs a second, and a bus that hangs gives up after some.
const readPatience = 5 * time.Second

type sensorsCmd struct {
	Read      sensorsReadCmd      `cmd:"" help:"Show what each channel reads: raw, on the wire, as a quantity, and its quality."`
	Scan      sensorsScanCmd      `cmd:"" help:"Show which buses and chips are there."`
	Calibrate sensorsCalibrateCmd `cmd:"" help:"Calibrate a channel at two or more known points, and write a dated record."`
}

type sensorsReadCmd struct {
	configFlag
	JSON   bool     `help:"Print the channels as the node's status has them."`
	Watch  bool     `short:"w" help:"Print again each second, until interrupted."`
	Direct bool     `help:"Read the chips from here, without asking a daemon. Not while one reads them."`
	Names  []string `arg:"" optional:"" name:"name" help:"Channels or tanks; all without any."`
}

// Help is the long text of `oxyd sensors read --help`.
func (sensorsReadCmd) Help() string {
	return "A running daemon is asked, for two programs must not share a chip. Where none runs, the chips are read from here, and nothing is published or kept.\n\nRAW is the chip's own number. WIRE is what stands on the sensor's wire, QUANTITY what the sensor measures, VALUE what is made of it; they are of the last read as far as it came, VALUE of the last good one, AGE ago."
}

// reading is where the channels come from: a daemon, or the chips themselves.
type reading interface {
	channels(ctx context.Context) ([]daemon.SensorDocument, error)
	close() error
}

// Run shows the channels once, or again and again.
func (c *sensorsReadCmd) Run(s *terminal) error {
	from, err := c.open(s)
	if err != nil {
		return err
	}
	redraw := isTerminal(s.stdout) && !c.JSON
	for first := true; ; first = false {
		shown, err := c.render(s.ctx, from)
		if err == nil {
			err = writeBlock(s.stdout, shown, redraw && c.Watch, first || c.JSON)
		}
		if s.ctx.Err() != nil {
			return from.close() // interrupted, which is how --watch ends
		}
		if err != nil || !c.Watch {
			return errors.Join(err, from.close())
		}
		select {
		case <-time.After(watchInterval):
		case <-s.ctx.Done():
		}
	}
}

// open asks the daemon, and reads the chips where there is none.
func (c *sensorsReadCmd) open(s *terminal) (reading, error) {
	cfg, _, err := c.load()
	if err != nil {
		return nil, err
	}
	ask := &running{clientOf(cfg)}
	_, err = ask.channels(s.ctx)
	switch {
	case c.Direct && err == nil:
		return nil, &hinted{errors.New("a daemon runs with this config, and it may be reading the chips"), "ask it: oxyd sensors read; or stop it"}
	case err == nil:
		return ask, nil
	case !noDaemon(err): // one may be reading the chips
		return nil, err
	}
	return openBench(s, cfg)
}

// render gives what is to be shown.
func (c *sensorsReadCmd) render(ctx context.Context, from reading) ([]byte, error) {
	list, err := from.channels(ctx)
	if err != nil {
		return nil, err
	}
	if list, err = chosen(list, c.Names); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if c.JSON {
		if list == nil {
			list = []daemon.SensorDocument{} // none is an array too
		}
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(list)
		return b.Bytes(), err
	}
	err = writeChannels(&b, list)
	return b.Bytes(), err
}

// chosen leaves the channels that are named, by their own name or their tank's.
func chosen(list []daemon.SensorDocument, names []string) ([]daemon.SensorDocument, error) {
	if len(names) == 0 {
		return list, nil
	}
	var out []daemon.SensorDocument
	for _, name := range names {
		found := false
		for i := range list {
			if list[i].Name == name || list[i].Tank == name {
				out, found = append(out, list[i]), true
			}
		}
		if !found {
			return nil, &hinted{fmt.Errorf("there is no channel and no measured tank %q", name), "oxyd sensors read, without a name, shows them all"}
		}
	}
	return out, nil
}

// running is a running daemon.
type running struct{ *client }

func (a *running) channels(ctx context.Context) ([]daemon.SensorDocument, error) {
	var node struct {
		Sensors []daemon.SensorDocument `json:"sensors"`
	}
	_, err := a.get(ctx, "/api/node", &node)
	return node.Sensors, err
}

func (a *running) close() error { return nil }

// bench is a poller of this process's own, with nobody behind it.
type bench struct {
	poller *sensors.Poller
	stop   context.CancelFunc
	ended  chan error
	first  chan struct{} // closed once every channel has been read, or could not be
}

// openBench reads the channels of a config. A bus that is not there is a channel
// without a value here, not an end: somebody looks for what is missing.
func openBench(s *terminal, cfg *config.Config) (*bench, error) {
	specs, err := daemon.SensorSpecs(cfg)
	if err != nil && len(specs) > 0 {
		s.complain(err) // of some channels: the others can be looked at
	} else if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, &hinted{errors.New("the config has no sensors"), "see the section sensors of config.example.yaml"}
	}
	for i := range specs {
		specs[i].Optional = true
	}
	poller, err := sensors.Open(specs, sensors.OpenOptions{Options: sensors.Options{Log: zerolog.Nop()}})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(s.ctx)
	b := &bench{poller: poller, stop: stop, ended: make(chan error, 1), first: make(chan struct{})}
	go func() { b.ended <- poller.Run(ctx) }()
	go b.awaitFirst(ctx)
	return b, nil
}

// awaitFirst looks until each channel has been read once.
func (b *bench) awaitFirst(ctx context.Context) {
	defer close(b.first)
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		waiting := false
		for _, c := range b.poller.States() {
			waiting = waiting || c.Reads+c.Late == 0
		}
		if !waiting {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *bench) channels(context.Context) ([]daemon.SensorDocument, error) {
	<-b.first
	return daemon.SensorDocuments(b.poller.States()), nil
}

func (b *bench) close() error {
	b.stop()
	return <-b.ended
}

func writeChannels(b *bytes.Buffer, list []daemon.SensorDocument) error {
	t := newTable(b)
	t.row("CHANNEL", "TANK", "STATE", "RAW", "WIRE", "QUANTITY", "VALUE", "QUALITY", "AGE", "WHY")
	for i := range list {
		c := &list[i]
		raw, wire, quantity := "-", "-", "-"
		if seen := c.Seen; seen != nil {
			raw, wire, quantity = strconv.FormatInt(seen.Raw, 10), orDash(seen.Electrical), orDash(seen.Physical)
		}
		value, quality, age := "-", "-", "-"
		if good := c.LastGood; good != nil {
			quality = good.Quality
			if good.Uncompensated {
				quality += ", uncompensated"
			}
			if !good.At.IsZero() { // else the clock was never set
				age = time.Since(good.At).Round(time.Second).String()
			}
			switch {
			case good.Remaining != nil:
				value = good.Remaining.String()
			case c.Quantity == sensors.Flow && good.Value != nil:
				value = fmt.Sprintf("%.4g g/min", *good.Value*60e3)
			}
		}
		why := c.Detail
		if why == "" {
			why = string(c.Reason)
		}
		t.row(c.Name, orDash(c.Tank), string(c.State), raw, wire, quantity, value, quality, age, orDash(why))
	}
	return t.flush()
}

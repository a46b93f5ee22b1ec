package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
)

// simulatedBus is the name that simulated tanks share in place of a bus.
const simulatedBus = "simulated"

// OpenOptions are what Open needs beside the specs.
type OpenOptions struct {
	Options
	// OpenBus opens an I2C bus by its device node; nil means OpenI2C.
	OpenBus func(name string) (i2c.BusCloser, error)
	// OpenSPI opens a chip select; nil means OpenSPI.
	OpenSPI func(name string, mode spi.Mode, speed physic.Frequency) (SPIConn, error)
}

// Open makes a poller of the specs, which it checks completely: the error lists
// all that is wrong with all of them. It then opens the buses that a channel
// needs which is not optional; a bus that is not there is a *BusError. Chips are
// first talked to when the poller runs: one that does not answer leaves its
// channel StateMissing, is logged as an error, and is tried again.
func Open(specs []Spec, o OpenOptions) (*Poller, error) {
	l, err := lay(specs, o)
	if err != nil {
		return nil, err
	}
	p, err := NewPoller(l.buses, o.Options)
	if err != nil {
		return nil, err
	}
	if err := l.openRequired(); err != nil {
		return nil, err
	}
	return p, nil
}

// Check lists all that is wrong with the specs, as Open does, and touches no hardware.
func Check(specs []Spec) error {
	l, err := lay(specs, OpenOptions{})
	if err != nil {
		return err
	}
	_, err = NewPoller(l.buses, Options{})
	return err
}

// lay makes channels of all specs.
func lay(specs []Spec, o OpenOptions) (*layout, error) {
	l := newLayout(o)
	l.declare(specs)
	var errs []error
	for i, s := range specs {
		s.complete()
		if err := l.add(&s); err != nil {
			errs = append(errs, fmt.Errorf("sensor %d (%s): %w", i+1, s.called(), err))
		}
	}
	return l, errors.Join(errs...)
}

// called names a channel in an error.
func (s *Spec) called() string {
	if s.Tank == "" {
		return fmt.Sprintf("probe %q", s.Name)
	}
	return fmt.Sprintf("tank %q", s.Tank)
}

// layout sorts channels by the bus that they are on.
type layout struct {
	openBus func(name string) (i2c.BusCloser, error)
	buses   []Bus
	openSPI func(name string, mode spi.Mode, speed physic.Frequency) (SPIConn, error)
	late    map[string]*lateBus // I2C buses, by name
	spis    map[string]*lateSPI // chip selects, by device node
	handles map[string][]handle // of each bus
	needed  []handle            // by a channel that is not optional
	taken   map[string]string   // place on a bus → whose it is
	shared  *shared
	probes  map[string]Quantity // auxiliary ones, by name
}

func newLayout(o OpenOptions) *layout {
	if o.OpenBus == nil {
		o.OpenBus = OpenI2C
	}
	if o.OpenSPI == nil {
		o.OpenSPI = OpenSPI
	}
	return &layout{openBus: o.OpenBus, openSPI: o.OpenSPI, late: map[string]*lateBus{}, spis: map[string]*lateSPI{}, handles: map[string][]handle{}, taken: map[string]string{},
		shared: newShared(time.Now), probes: map[string]Quantity{}}
}

// declare makes the auxiliary probes known, so that a model may name one that stands
// further down.
func (l *layout) declare(specs []Spec) {
	for i := range specs {
		s := &specs[i]
		fresh := max(s.StaleAfter, 3*s.Interval)
		if s.Tank == "" && s.Name != "" {
			l.probes[s.Name] = s.Measures
			l.shared.declare(s.Name, fresh)
		}
		if s.metered() && s.Tank != "" && l.shared.tallies[s.Tank] == nil {
			l.shared.tallies[s.Tank] = &tally{fresh: fresh}
		}
	}
}

// device is an input of a chip, before anybody has talked to it.
type device struct {
	bus     string // whose loop reads it
	name    string // of a channel that has none of its own
	place   string // on the bus: no two channels may have the same
	handle  handle
	wire    *lateBus      // the handle, where it is an I2C bus
	signal  Signal        // what the chip gives if nobody says otherwise
	unit    unit          // of what it gives, for people
	timeout time.Duration // of a read; 0 means ReadTimeout
	gives   Quantity      // that the chip gives by itself; "" where only a calibration tells
	// open talks to the chip and gives inputs of it, by their names.
	open func(ctx context.Context, inputs ...string) ([]Input, error)
}

// add makes a channel of a complete spec.
func (l *layout) add(s *Spec) error {
	if s.Driver == DriverSimulated {
		return l.simulated(s)
	}
	d, err := l.device(s)
	if d == nil {
		return err
	}
	errs := []error{err}
	if s.Name == "" {
		s.Name = d.name
	}
	if owner, ok := l.taken[d.place]; ok && err == nil {
		errs = append(errs, fmt.Errorf("%s is %s's already", d.place, owner))
	}
	c := Channel{Tank: s.Tank, Name: s.Name, Interval: s.Interval, StaleAfter: s.StaleAfter, Optional: s.Optional}
	errs = append(errs, l.chain(s, d, &c))
	if c.Open != nil {
		errs = append(errs, c.complete())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.taken[d.place] = s.called()
	if d.handle != nil && !s.Optional {
		l.needed = append(l.needed, d.handle)
	}
	l.put(d.bus, c, d)
	return nil
}

// put places a channel on its bus.
func (l *layout) put(bus string, c Channel, d *device) {
	i := slices.IndexFunc(l.buses, func(b Bus) bool { return b.Name == bus })
	if i < 0 {
		i = len(l.buses)
		l.buses = append(l.buses, Bus{Name: bus, Close: func() error { return closeAll(l.handles[bus]) }})
	}
	l.buses[i].Channels = append(l.buses[i].Channels, c)
	if d != nil {
		l.buses[i].wire = d.wire
		l.handles[bus] = append(l.handles[bus], d.handle)
	}
}

// closeAll closes handles, of which some may stand there twice or be closed.
func closeAll(list []handle) error {
	var errs []error
	for _, h := range list {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// bus gives the one handle of an I2C bus, which opens when it is needed.
func (l *layout) bus(name string) *lateBus {
	if l.late[name] == nil {
		l.late[name] = &lateBus{name: name, open: l.openBus}
	}
	return l.late[name]
}

// simulated adds a tank without hardware. Its time begins here, not at its first read.
func (l *layout) simulated(s *Spec) error {
	tank, err := NewSimulated(s.Simulated)
	if s.Tank == "" {
		err = errors.Join(err, errors.New("no tank"))
	}
	if s.Name == "" {
		s.Name = DriverSimulated
	}
	c := Channel{Tank: s.Tank, Name: s.Name, Interval: s.Interval, StaleAfter: s.StaleAfter, Optional: s.Optional,
		Open: func(context.Context) (Probe, error) { return tank, nil }}
	if err := errors.Join(err, l.refine(s, &c), c.complete()); err != nil {
		return err
	}
	l.put(simulatedBus, c, nil)
	return nil
}

// openRequired opens the buses that must be there, and names all that are not.
// Those opened are closed again then.
func (l *layout) openRequired() error {
	var errs []error
	for _, h := range l.needed {
		if err := h.Open(); err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.Join(errors.Join(errs...), closeAll(l.needed))
}

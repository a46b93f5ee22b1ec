package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"
)

// simulatedBus is the name that simulated tanks share in place of a bus.
const simulatedBus = "simulated"

// OpenOptions are what Open needs beside the specs.
type OpenOptions struct {
	Options
	// OpenBus opens an I2C bus by its device node; nil means OpenI2C.
	OpenBus func(name string) (i2c.BusCloser, error)
}

// Open makes a poller of the specs, which it checks completely: the error lists
// all that is wrong with all of them. It then opens the buses that a channel
// needs which is not optional; a bus that is not there is a *BusError. Chips are
// first talked to when the poller runs: one that does not answer leaves its
// channel StateMissing, is logged as an error, and is tried again.
func Open(specs []Spec, o OpenOptions) (*Poller, error) {
	l := newLayout(o)
	l.declare(specs)
	var errs []error
	for i, s := range specs {
		s.complete()
		if err := l.add(&s); err != nil {
			errs = append(errs, fmt.Errorf("sensor %d (%s): %w", i+1, s.called(), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
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
	late    map[string]*lateBus // by bus name; only real ones
	needed  []*lateBus          // by a channel that is not optional
	taken   map[string]string   // place on a bus → whose it is
	shared  *shared
	probes  map[string]Quantity // auxiliary ones, by name
}

func newLayout(o OpenOptions) *layout {
	if o.OpenBus == nil {
		o.OpenBus = OpenI2C
	}
	return &layout{openBus: o.OpenBus, late: map[string]*lateBus{}, taken: map[string]string{},
		shared: newShared(time.Now), probes: map[string]Quantity{}}
}

// closeAll closes every bus that is open.
func (l *layout) closeAll() error {
	var errs []error
	for _, b := range l.late {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
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
	bus    string // whose loop reads it
	name   string // of a channel that has none of its own
	place  string // on the bus: no two channels may have the same
	signal Signal // what the chip gives if nobody says otherwise
	unit   unit   // of what it gives, for people
	flow   bool   // it measures what flows, not what is there
	late   *lateBus
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
	if d.late != nil && !s.Optional && !slices.Contains(l.needed, d.late) {
		l.needed = append(l.needed, d.late)
	}
	l.put(d.bus, c, d.late)
	return nil
}

// device finds the chip of a spec. This is the one place that knows the drivers by
// name.
func (l *layout) device(s *Spec) (*device, error) {
	switch s.Driver {
	case DriverADS1115:
		return l.ads1115(s)
	}
	return nil, fmt.Errorf("unknown driver %q: there are %s and %s", s.Driver, DriverADS1115, DriverSimulated)
}

// put places a channel on its bus.
func (l *layout) put(bus string, c Channel, late *lateBus) {
	for i := range l.buses {
		if l.buses[i].Name == bus {
			l.buses[i].Channels = append(l.buses[i].Channels, c)
			return
		}
	}
	b := Bus{Name: bus, Channels: []Channel{c}}
	if late != nil {
		b.Close, b.wire = late.Close, late
	}
	l.buses = append(l.buses, b)
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

// ads1115 finds an input of an ADS1115.
func (l *layout) ads1115(s *Spec) (*device, error) {
	d := s.Device
	number, busErr := busNumber(d.Bus)
	bus := fmt.Sprintf("%s%d", i2cDevices, number)
	_, setErr := ads1115Setting(d.Input, d.Gain, d.Rate)
	errs := []error{busErr, setErr}
	if !ads1115Address(d.Address) {
		errs = append(errs, fmt.Errorf("ads1115 has no address %#x: it answers at 0x48 to 0x4b by its ADDR pin", d.Address))
	}
	full := float64(d.Gain) / 1e9
	if setErr == nil {
		errs = append(errs, s.Wire.clips(full))
		if s.Interval > 0 && s.Interval < time.Second/time.Duration(d.Rate)*5/4 {
			errs = append(errs, fmt.Errorf("interval %s is shorter than a conversion at %d samples a second", s.Interval, d.Rate))
		}
	}
	late := l.bus(bus)
	return &device{bus: bus, name: fmt.Sprintf("%s %#x AIN%s", s.Driver, d.Address, d.Input), place: fmt.Sprintf("%s %#x AIN%s", bus, d.Address, d.Input), signal: SignalVoltage, unit: volts, late: late,
		open: func(_ context.Context, inputs ...string) ([]Input, error) {
			// A handle for each channel will do: a chip's driver remembers nothing.
			chip, err := NewADS1115(late, d.Address, nil)
			if err != nil {
				return nil, err
			}
			var list []Input
			for _, name := range inputs {
				in, err := chip.Channel(name, d.Gain, d.Rate)
				if err != nil {
					return nil, err
				}
				list = append(list, in)
			}
			return list, nil
		}}, errors.Join(errs...)
}

// openRequired opens the buses that must be there, and names all that are not.
// Those opened are closed again then.
func (l *layout) openRequired() error {
	var errs []error
	for _, b := range l.needed {
		if err := b.Open(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.Join(errors.Join(errs...), l.closeAll())
}

package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
)

// The drivers that a Spec can name.
const (
	DriverADS1115   = "ads1115"
	DriverSimulated = "simulated"
)

// simulatedBus is the name that simulated tanks share in place of a bus.
const simulatedBus = "simulated"

// Spec says in plain values what one channel is. Fields of another driver than
// the named one are ignored.
type Spec struct {
	Tank   string
	Name   string // "" makes one of the driver and the place
	Driver string // DriverADS1115 or DriverSimulated

	Interval   time.Duration // between two reads, > 0
	StaleAfter time.Duration // 0 means three intervals
	Optional   bool          // its bus and chip may be absent

	// Capacity is the mass of the full tank; 0 means unknown. More than that is a
	// fault. A simulated tank has its own.
	Capacity physic.Mass

	// ADS1115.
	Bus         string                   // "1", "I2C1" or "/dev/i2c-1"
	Address     uint16                   // 0 means 0x48
	Input       int                      // 0 to 3, against ground
	Gain        physic.ElectricPotential // as the full scale: 0 means 6.144 V
	Rate        int                      // samples a second: 0 means 128
	Calibration [2]Point
	VoltsMin    physic.ElectricPotential // the sensor's valid electrical range
	VoltsMax    physic.ElectricPotential

	Simulated SimulatedOptions
}

// complete fills in the driver's defaults.
func (s *Spec) complete() {
	switch s.Driver {
	case DriverADS1115:
		if s.Address == 0 {
			s.Address = DefaultADS1115Address
		}
		if s.Gain == 0 {
			s.Gain = DefaultADS1115FullScale
		}
		if s.Rate == 0 {
			s.Rate = DefaultADS1115Rate
		}
		if s.Name == "" {
			s.Name = fmt.Sprintf("ads1115 %#x AIN%d", s.Address, s.Input)
		}
	default:
		if s.Name == "" {
			s.Name = s.Driver
		}
	}
}

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
	if o.OpenBus == nil {
		o.OpenBus = OpenI2C
	}
	layout := layout{openBus: o.OpenBus, late: map[string]*lateBus{}, taken: map[string]string{}}
	var errs []error
	for i, s := range specs {
		s.complete()
		if err := layout.add(s); err != nil {
			errs = append(errs, fmt.Errorf("sensor %d (tank %q): %w", i+1, s.Tank, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p, err := NewPoller(layout.buses, o.Options)
	if err != nil {
		return nil, err
	}
	if err := layout.openRequired(); err != nil {
		return nil, err
	}
	return p, nil
}

// layout sorts channels by the bus that they are on.
type layout struct {
	openBus func(name string) (i2c.BusCloser, error)
	buses   []Bus
	late    map[string]*lateBus // by bus name; only real ones
	needed  []*lateBus          // by a channel that is not optional
	taken   map[string]string   // place on a bus → tank
}

// add makes a channel of a complete spec. This is the one place that knows the
// drivers by name.
func (l *layout) add(s Spec) error {
	c := Channel{Tank: s.Tank, Name: s.Name, Interval: s.Interval, StaleAfter: s.StaleAfter, Optional: s.Optional}
	var bus string
	var err error
	switch s.Driver {
	case DriverADS1115:
		bus, err = l.ads1115(s, &c)
	case DriverSimulated:
		bus, err = simulatedBus, simulated(s, &c)
	default:
		return fmt.Errorf("unknown driver %q: there are %s and %s", s.Driver, DriverADS1115, DriverSimulated)
	}
	if s.Tank == "" {
		err = errors.Join(err, errors.New("no tank"))
	}
	if err == nil || c.Open != nil {
		err = errors.Join(err, c.complete())
	}
	if err != nil {
		return err
	}
	for i := range l.buses {
		if l.buses[i].Name == bus {
			l.buses[i].Channels = append(l.buses[i].Channels, c)
			return nil
		}
	}
	b := Bus{Name: bus, Channels: []Channel{c}}
	if late := l.late[bus]; late != nil {
		b.Close, b.wire = late.Close, late
	}
	l.buses = append(l.buses, b)
	return nil
}

// simulated completes the channel of a tank without hardware. Its time begins
// here, not at its first read.
func simulated(s Spec, c *Channel) error {
	tank, err := NewSimulated(s.Simulated)
	if err != nil {
		return err
	}
	c.Open = func(context.Context) (Probe, error) { return tank, nil }
	return nil
}

// ads1115 completes the channel of a converter's input and names its bus.
func (l *layout) ads1115(s Spec, c *Channel) (bus string, err error) {
	number, busErr := busNumber(s.Bus)
	bus = fmt.Sprintf("%s%d", i2cDevices, number)
	calibration, calErr := NewLinear(s.Calibration[0], s.Calibration[1], s.VoltsMin, s.VoltsMax, s.Capacity)
	_, setErr := ads1115Setting(s.Input, s.Gain, s.Rate)
	errs := []error{busErr, calErr, setErr}
	if !ads1115Address(s.Address) {
		errs = append(errs, fmt.Errorf("ads1115 has no address %#x: it answers at 0x48 to 0x4b by its ADDR pin", s.Address))
	}
	if setErr == nil && s.VoltsMax >= s.Gain {
		errs = append(errs, fmt.Errorf("full scale %s clips the valid range, which ends at %s: take a larger one", s.Gain, s.VoltsMax))
	}
	if setErr == nil && s.Interval > 0 && s.Interval < time.Second/time.Duration(s.Rate)*5/4 {
		errs = append(errs, fmt.Errorf("interval %s is shorter than a conversion at %d samples a second", s.Interval, s.Rate))
	}
	place := fmt.Sprintf("%s %#x AIN%d", bus, s.Address, s.Input)
	if tank, ok := l.taken[place]; ok && busErr == nil {
		errs = append(errs, fmt.Errorf("%s is tank %q's already", place, tank))
	}
	if err := errors.Join(errs...); err != nil {
		return bus, err
	}
	l.taken[place] = s.Tank
	late := l.late[bus]
	if late == nil {
		late = &lateBus{name: bus, open: l.openBus}
		l.late[bus] = late
	}
	if !s.Optional && !slices.Contains(l.needed, late) {
		l.needed = append(l.needed, late)
	}
	c.Open = func(context.Context) (Probe, error) {
		// A handle for each channel will do: a chip's driver remembers nothing.
		chip, err := NewADS1115(late, s.Address, nil)
		if err != nil {
			return nil, err
		}
		input, err := chip.Channel(s.Input, s.Gain, s.Rate)
		if err != nil {
			return nil, err
		}
		return gauge{input, calibration}, nil
	}
	return bus, nil
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
	for _, b := range l.needed {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
)

// handle is what a channel's bus is reached by. It opens when it is needed.
type handle interface {
	Open() error
	Close() error
}

// present is the handle of a bus that the kernel keeps open: it only says whether the
// bus is there.
type present func() error

func (p present) Open() error  { return p() }
func (p present) Close() error { return nil }

// The loops of what is no I2C bus. All 1-wire buses are one: a chip's conversion blocks.
const loopW1 = "w1"

// device finds the chip of a spec. This is the one place that knows the drivers by
// name.
func (l *layout) device(s *Spec) (*device, error) {
	switch s.Driver {
	case DriverADS1115:
		return l.ads1115(s)
	case DriverMCP3208, DriverMCP3008:
		return l.mcp3x08(s)
	case DriverMAX31865:
		return l.max31865(s)
	case DriverSFM:
		return l.sfm(s)
	case DriverHX711:
		return l.hx711(s)
	case DriverPulse:
		return l.pulse(s)
	case DriverDS18B20:
		return l.ds18b20(s)
	case DriverIIO:
		return l.iio(s)
	}
	return nil, fmt.Errorf("unknown driver %q: there are %s", s.Driver, strings.Join(Drivers(), ", "))
}

// Drivers are the names that a Spec can give.
func Drivers() []string {
	return []string{DriverADS1115, DriverMCP3208, DriverMCP3008, DriverHX711, DriverDS18B20, DriverMAX31865, DriverSFM, DriverPulse, DriverIIO, DriverSimulated}
}

// ads1115 finds an input of an ADS1115.
func (l *layout) ads1115(s *Spec) (*device, error) {
	d := s.Device
	bus, err := i2cName(d.Bus)
	_, setErr := ads1115Setting(d.Input, d.Gain, d.Rate)
	errs := []error{err, setErr}
	if !ads1115Address(d.Address) {
		errs = append(errs, fmt.Errorf("ads1115 has no address %#x: it answers at 0x48 to 0x4b by its ADDR pin", d.Address))
	}
	if setErr == nil {
		errs = append(errs, s.Wire.clips(float64(d.Gain)/1e9))
		if s.Interval > 0 && s.Interval < time.Second/time.Duration(d.Rate)*5/4 {
			errs = append(errs, fmt.Errorf("interval %s is shorter than a conversion at %d samples a second", s.Interval, d.Rate))
		}
	}
	wire := l.bus(bus)
	return &device{bus: bus, handle: wire, wire: wire, name: fmt.Sprintf("%s %#x AIN%s", s.Driver, d.Address, d.Input),
		place: fmt.Sprintf("%s %#x AIN%s", bus, d.Address, d.Input), signal: SignalVoltage, unit: volts,
		open: func(_ context.Context, inputs ...string) ([]Input, error) {
			// A handle for each channel will do: a chip's driver remembers nothing.
			chip, err := NewADS1115(wire, d.Address, nil)
			if err != nil {
				return nil, err
			}
			return inputsOf(inputs, func(name string) (Input, error) { return chip.Channel(name, d.Gain, d.Rate) })
		}}, errors.Join(errs...)
}

// i2cName is the device node of an I2C bus.
func i2cName(bus string) (string, error) {
	number, err := busNumber(bus)
	return fmt.Sprintf("%s%d", i2cDevices, number), err
}

// inputsOf opens inputs of a chip by name.
func inputsOf(names []string, open func(name string) (Input, error)) ([]Input, error) {
	list := make([]Input, 0, len(names))
	for _, name := range names {
		in, err := open(name)
		if err != nil {
			return nil, err
		}
		list = append(list, in)
	}
	return list, nil
}

// mcp3x08 finds an input of an MCP3208 or MCP3008.
func (l *layout) mcp3x08(s *Spec) (*device, error) {
	d := s.Device
	conn, loop, err := l.spi(d.SPI, MCP3x08Mode, MCP3x08Speed)
	if err != nil {
		return nil, err
	}
	return &device{bus: loop, handle: conn, name: fmt.Sprintf("%s %s CH%s", s.Driver, conn.name, d.Input),
		place: fmt.Sprintf("%s CH%s", conn.name, d.Input), signal: SignalVoltage, unit: volts,
		open: func(_ context.Context, inputs ...string) ([]Input, error) {
			newChip := NewMCP3208
			if s.Driver == DriverMCP3008 {
				newChip = NewMCP3008
			}
			chip, err := newChip(conn, d.VRef)
			if err != nil {
				return nil, err
			}
			return inputsOf(inputs, chip.named)
		}}, errors.Join(mcpInput(d.Input), s.Wire.clips(d.VRef))
}

// named is the input that a config calls "0", or "0-1" between two.
func (d *MCP3x08) named(name string) (Input, error) {
	plus, minus, pair := strings.Cut(name, "-")
	p, err := strconv.Atoi(plus)
	if err != nil {
		return nil, mcpInput(name)
	}
	if !pair {
		return d.Input(p)
	}
	m, err := strconv.Atoi(minus)
	if err != nil {
		return nil, mcpInput(name)
	}
	return d.Differential(p, m)
}

// mcpInput says when a name is no input.
func mcpInput(name string) error {
	var names []string
	for i := range mcpInputs {
		names = append(names, strconv.Itoa(i), fmt.Sprintf("%d-%d", i, i^1))
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("%q is no input: there are %s", name, strings.Join(names, ", "))
}

// spi gives the one handle of a chip select, and the name of its bus's loop.
func (l *layout) spi(name string, mode spi.Mode, speed physic.Frequency) (*lateSPI, string, error) {
	bus, chipSelect, err := spiNumbers(name)
	if err != nil {
		return nil, "", err
	}
	node := spiNode(bus, chipSelect)
	if l.spis[node] == nil {
		l.spis[node] = &lateSPI{name: node, mode: mode, speed: speed, open: l.openSPI}
	}
	return l.spis[node], fmt.Sprintf("spi%d", bus), nil
}

// max31865 finds a resistance thermometer's converter.
func (l *layout) max31865(s *Spec) (*device, error) {
	d := s.Device
	conn, loop, err := l.spi(d.SPI, MAX31865Mode, MAX31865Speed)
	if err != nil {
		return nil, err
	}
	rtd := RTD{Reference: d.Reference, Wires: d.Wires, Mains: d.Mains}
	switch d.RTD {
	case "PT100":
		rtd.Nominal = 100
	case "PT1000":
		rtd.Nominal = 1000
	}
	return &device{bus: loop, handle: conn, name: "max31865 " + conn.name, place: conn.name, signal: SignalDirect, unit: celsius,
		gives: Temperature,
		open: func(context.Context, ...string) ([]Input, error) {
			chip, err := NewMAX31865(conn, rtd, nil)
			return []Input{chip}, err
		}}, errors.Join(rtd.check()...)
}

// sfm finds a flow meter.
func (l *layout) sfm(s *Spec) (*device, error) {
	d := s.Device
	bus, err := i2cName(d.Bus)
	wire := l.bus(bus)
	return &device{bus: bus, handle: wire, wire: wire, name: fmt.Sprintf("%s %#x", d.Part, d.Address), place: fmt.Sprintf("%s %#x", bus, d.Address),
		signal: SignalDirect, unit: gramsAMinute, gives: Flow,
		open: func(context.Context, ...string) ([]Input, error) {
			chip, err := NewSFM(wire, d.Address, SFMOptions{Part: SFMPart(d.Part), Gas: Gas(d.Gas), Unit: FlowUnit(d.FlowUnit)}, nil)
			return []Input{chip}, err
		}}, err
}

// ds18b20 finds a thermometer on 1-wire.
func (l *layout) ds18b20(s *Spec) (*device, error) {
	id := s.Device.ID
	var err error
	if !ds18b20ID.MatchString(id) {
		err = fmt.Errorf("%q is no id of a DS18B20: it is 28- and twelve of 0-9 and a-f", id)
	}
	return &device{bus: loopW1, handle: present(func() error { return w1Present(DefaultW1Root) }), name: "ds18b20 " + id, place: "w1 " + id,
		signal: SignalDirect, unit: celsius, gives: Temperature,
		open: func(context.Context, ...string) ([]Input, error) {
			chip, err := NewDS18B20("", id, nil)
			return []Input{chip}, err
		}}, err
}

// iio finds a channel of a device that the kernel drives. Each device is a bus of its
// own: which of them share a wire the kernel knows.
func (l *layout) iio(s *Spec) (*device, error) {
	d := s.Device
	out := &device{bus: "iio " + d.IIODevice, name: fmt.Sprintf("iio %s %s", d.IIODevice, d.IIOChannel), place: fmt.Sprintf("iio %s %s", d.IIODevice, d.IIOChannel),
		handle: present(func() error { _, err := FindIIO(""); return err }), signal: SignalDirect,
		open: func(_ context.Context, inputs ...string) ([]Input, error) {
			return inputsOf(inputs, func(name string) (Input, error) {
				if name == "" || name == s.Device.Input {
					name = d.IIOChannel
				}
				return NewIIO("", d.IIODevice, name)
			})
		}}
	m := iioChannel.FindStringSubmatch(d.IIOChannel)
	if m == nil {
		return nil, fmt.Errorf("%q is no channel of the kernel's that has a unit here: write in_voltage0, in_temp, in_pressure and the like", d.IIOChannel)
	}
	switch m[1] {
	case "voltage":
		out.signal, out.unit = SignalVoltage, volts
	case "temp":
		out.unit, out.gives = celsius, Temperature
	case "pressure":
		out.unit, out.gives = bar, Pressure
	default:
		out.unit = unit{"", 1, 0}
	}
	return out, nil
}

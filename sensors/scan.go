package sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"periph.io/x/conn/v3/i2c"
)

// Found is one thing that a scan has found.
type Found struct {
	Bus   string `json:"bus"`             // device node, "w1" or "iio"
	Place string `json:"place,omitempty"` // address, id or channel; "" for the bus itself
	What  string `json:"what,omitempty"`  // what it is, or may be
	Error string `json:"error,omitempty"` // why the bus could not be looked through
	Hint  string `json:"hint,omitempty"`  // what to do about it
}

// The addresses that a scan asks: all that a chip can have, without those that I2C
// reserves (NXP UM10204, table 4).
const scanFirst, scanLast = 0x08, 0x77

// scanTime bounds the look at one I2C bus: one that hangs takes its adapter's timeout
// for each address. After scanFailures of them in a row it is given up.
const (
	scanTime     = 20 * time.Second
	scanFailures = 3
)

// Scan looks what answers on each bus of this board. An I2C address is asked by reading
// one byte, which no chip that oxyd knows minds, and that of a flow meter, which answers
// so only while it measures, for what it is; other programs should not use the bus
// meanwhile. SPI has no addresses, so only its chip selects are listed, and of GPIO the
// chips. openI2C nil means OpenI2C.
func Scan(ctx context.Context, openI2C func(name string) (i2c.BusCloser, error)) []Found {
	if openI2C == nil {
		openI2C = OpenI2C
	}
	var list []Found
	buses := foundBuses(i2cDevices)
	if len(buses) == 0 {
		list = append(list, found(newBusError(i2cDevices+"1", fs.ErrNotExist), "i2c"))
	}
	for _, bus := range buses {
		list = append(list, scanI2C(ctx, bus, openI2C)...)
	}
	for _, node := range FindSPI() {
		list = append(list, Found{Bus: node, What: "chip select: SPI has no addresses, try the driver"})
	}
	list = append(list, scanW1()...)
	list = append(list, scanIIO()...)
	chips, _ := filepath.Glob(gpioDevices + "*") // the pattern is well formed
	slices.Sort(chips)
	for _, chip := range chips {
		list = append(list, Found{Bus: chip, What: gpioLabel(chip)})
	}
	return list
}

// found says why a bus cannot be looked through.
func found(err error, bus string) Found {
	f := Found{Bus: bus, Error: err.Error()}
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		f.Hint = hinted.Hint()
	}
	return f
}

// scanI2C asks every address of a bus.
func scanI2C(ctx context.Context, name string, open func(string) (i2c.BusCloser, error)) []Found {
	bus, err := open(name)
	if err != nil {
		return []Found{found(err, name)}
	}
	defer bus.Close()
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	var list []Found
	for addr, failed := uint16(scanFirst), 0; addr <= scanLast; addr++ {
		if ctx.Err() != nil || failed == scanFailures {
			list = append(list, Found{Bus: name, Error: fmt.Sprintf("given up at address %#x: the bus hangs, or is slow", addr)})
			break
		}
		what, err := ask(ctx, bus, addr)
		if err != nil {
			failed++
			list = append(list, Found{Bus: name, Place: fmt.Sprintf("%#x", addr), Error: err.Error()})
			continue
		}
		failed = 0
		if what != "" {
			list = append(list, Found{Bus: name, Place: fmt.Sprintf("%#x", addr), What: what})
		}
	}
	if len(list) == 0 {
		list = append(list, Found{Bus: name, What: "nobody answers"})
	}
	return list
}

// ask gives what answers at an address, "" where nobody does.
func ask(ctx context.Context, bus i2c.Bus, addr uint16) (what string, err error) {
	switch err := bus.Tx(addr, nil, make([]byte, 1)); {
	case err == nil:
		return identify(bus, addr), nil
	case !unacknowledged(err):
		return "", err
	}
	return idleMeter(ctx, bus, addr), nil
}

// idleMeter asks for a flow meter that does not measure, as after power-on: it
// acknowledges commands, and no read without one. It is "" where none answers. It is
// asked for its scale: a daemon that reads this answer in place of a flow refuses it,
// since it is out of range or the offset no temperature.
func idleMeter(ctx context.Context, bus i2c.Bus, addr uint16) string {
	parts := partsAt(addr)
	if len(parts) == 0 {
		return ""
	}
	spec, _ := sfmSpecOf(SFMPart(parts[0])) // those that share an address speak alike
	d := &SFM{dev: i2c.Dev{Bus: bus, Addr: addr}, clock: systemClock{}, spec: spec}
	idle := "may be " + strings.Join(parts, " or ") + ", not measuring: counts "
	if spec.old {
		if w, err := d.ask(ctx, 1, sfmOldScale); err == nil {
			return idle + fmt.Sprintf("%d a unit", w[0])
		}
	} else if w, err := d.ask(ctx, 3, sfmScaling, sfmStartOxygen); err == nil {
		return idle + fmt.Sprintf("%d a unit from %d, unit %#04x", int16(w[0]), int16(w[1]), w[2])
	}
	return ""
}

// partsAt are the flow meters that can have an address.
func partsAt(addr uint16) (parts []string) {
	for _, part := range []SFMPart{SFM3003, SFM3013, SFM3019, SFM3119, SFM4300, SFM3000, SFM3300} {
		if spec, err := sfmSpecOf(part); err == nil && slices.Contains(spec.addresses, addr) {
			parts = append(parts, string(part))
		}
	}
	return parts
}

// identify says what a chip at an address is, as far as reading can tell.
func identify(bus i2c.Bus, addr uint16) string {
	if ads1115Address(addr) {
		chip := ADS1115{dev: i2c.Dev{Bus: bus, Addr: addr}, clock: systemClock{}}
		if err := chip.point(ads1115Config); err == nil {
			if v, err := chip.readRegister(); err == nil && v&0x000f != 0 && v != 0xffff && v != 0x7fff {
				return fmt.Sprintf("ads1115, or one like it: config %#04x", v)
			}
		}
		return "something at an address of an ads1115"
	}
	if parts := partsAt(addr); len(parts) > 0 {
		return "may be " + strings.Join(parts, " or ")
	}
	return "no chip that oxyd drives"
}

func scanW1() (list []Found) {
	ids, err := FindDS18B20("")
	if missing, _ := errors.AsType[*BusError](err); missing != nil {
		return nil // most boards have none
	}
	if err != nil {
		return []Found{found(err, loopW1)}
	}
	for _, id := range ids {
		list = append(list, Found{Bus: loopW1, Place: id, What: "ds18b20"})
	}
	if len(ids) == 0 {
		list = append(list, Found{Bus: loopW1, What: "no thermometer answers"})
	}
	return list
}

func scanIIO() (list []Found) {
	devices, err := FindIIO("")
	if missing, _ := errors.AsType[*BusError](err); missing != nil {
		return nil
	}
	if err != nil {
		return []Found{found(err, "iio")}
	}
	for _, d := range devices {
		what := d.Name
		if d.Label != "" {
			what += ", labelled " + d.Label
		}
		list = append(list, Found{Bus: "iio", Place: d.Dir, What: what + ": " + strings.Join(d.Channels, ", ")})
	}
	return list
}

// gpioLabel is a GPIO chip's label and size, or why it cannot be told.
func gpioLabel(node string) string {
	f, info, err := tryChip(node)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	return fmt.Sprintf("%s, %d lines", gpioText(info.Label[:]), info.Lines)
}

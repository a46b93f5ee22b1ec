package sensors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
)

// Registers of the ADS1115, selected by the two low bits of the pointer byte
// (TI SBAS444, "Register Map": address pointer register).
const (
	ads1115Conversion = 0x00
	ads1115Config     = 0x01
)

// Fields of the config register (TI SBAS444, "Register Map": config register).
const (
	ads1115Start    = 1 << 15 // write: start a conversion; ignored while one runs
	ads1115Ready    = 1 << 15 // read: 0 while a conversion runs
	ads1115MuxAIN0  = 0b100 << 12
	ads1115MuxShift = 12
	ads1115PGAShift = 9
	ads1115Single   = 1 << 8 // single-shot; the chip powers down in between
	ads1115DRShift  = 5
	ads1115CompPol  = 1 << 3 // comparator polarity: without effect while it is off
	ads1115CompOff  = 0b11   // no comparator, ALERT/RDY high-impedance

	ads1115PowerOn = 0x8583 // the register after power-on or a brown-out
)

// What the chip takes when the config says nothing, and its bounds.
const (
	DefaultADS1115Address   = 0x48                    // ADDR pin at GND
	DefaultADS1115FullScale = 6144 * physic.MilliVolt // fits a 0.5 V to 4.5 V transducer
	DefaultADS1115Rate      = 128                     // samples a second
	ads1115SlowestPeriod    = time.Second / 8         // of the lowest rate
	ads1115WakeUp           = 5 * time.Millisecond    // wake-up (about 30 µs) and scheduling, generously
	ads1115PollStep         = 250 * time.Microsecond  // between two looks at the ready bit, at least
)

// ads1115Ranges is the full scale for each value of the PGA field. 0b110 and
// 0b111 mean the last one too and are not used.
var ads1115Ranges = [...]physic.ElectricPotential{
	6144 * physic.MilliVolt, 4096 * physic.MilliVolt, 2048 * physic.MilliVolt,
	1024 * physic.MilliVolt, 512 * physic.MilliVolt, 256 * physic.MilliVolt,
}

// ads1115Rates is the rate in samples a second for each value of the DR field.
var ads1115Rates = [...]int{8, 16, 32, 64, 128, 250, 475, 860}

// ADS1115 is a 16-bit converter with four inputs on one multiplexer. It does not
// own its bus, and it keeps nothing about the chip between two reads: every read
// begins by asking. One goroutine at a time may use a chip, and one program: a
// second one is noticed unless it starts its conversion in the instant between
// the last look at the idle chip and our start.
//
// Datasheet: Texas Instruments SBAS444.
type ADS1115 struct {
	dev   i2c.Dev
	clock Clock
}

// NewADS1115 talks to the chip at addr (0x48 to 0x4b) once: it writes a setting
// that starts nothing and reads it back, so that a wiring fault shows here. The
// error is then a *Fault. A nil clock is the system's.
func NewADS1115(bus i2c.Bus, addr uint16, clock Clock) (*ADS1115, error) {
	if !ads1115Address(addr) {
		return nil, fmt.Errorf("ads1115 has no address %#x: it answers at 0x48 to 0x4b by its ADDR pin", addr)
	}
	if clock == nil {
		clock = systemClock{}
	}
	d := &ADS1115{dev: i2c.Dev{Bus: bus, Addr: addr}, clock: clock}
	const idle = ads1115MuxAIN0 | ads1115Single | ads1115CompOff
	if err := d.writeConfig(idle); err != nil {
		return nil, err
	}
	if _, err := d.readConfig(idle); err != nil {
		return nil, err
	}
	return d, nil
}

// ads1115Address reports whether the ADDR pin can select the address (TI SBAS444,
// "I2C Address Selection").
func ads1115Address(addr uint16) bool { return addr >= 0x48 && addr <= 0x4b }

// String names the chip: its bus and address.
func (d *ADS1115) String() string { return fmt.Sprintf("ads1115 %s %#x", d.dev.Bus, d.dev.Addr) }

// ads1115Inputs is the input for each value of the MUX field: "0" is AIN0 against
// ground, "0-1" AIN0 against AIN1.
var ads1115Inputs = [...]string{"0-1", "0-3", "1-3", "2-3", "0", "1", "2", "3"}

// Channel is an input, "0" to "3" against ground, or "0-1", "0-3", "1-3" or "2-3"
// between two, with a full scale of ±6.144, 4.096, 2.048, 1.024, 0.512 or 0.256 V and 8, 16, 32, 64, 128, 250, 475
// or 860 samples a second. The full scale is the converter's: the input itself
// must stay within the chip's supply, whatever the full scale.
func (d *ADS1115) Channel(input string, fullScale physic.ElectricPotential, rate int) (*ADS1115Channel, error) {
	config, err := ads1115Setting(input, fullScale, rate)
	if err != nil {
		return nil, err
	}
	return &ADS1115Channel{
		chip:      d,
		config:    config,
		fullScale: fullScale,
		period:    time.Second / time.Duration(rate),
	}, nil
}

// ads1115Setting is the config register of a channel, without the start bit. It is
// never the chip's own after power-on: one channel's would be, 0-1 at ±2.048 V and 128
// samples a second, and a chip that lost its value in the midst of a read would pass
// for ours, at 0 V. The comparator's polarity, which does nothing, makes the difference.
func ads1115Setting(input string, fullScale physic.ElectricPotential, rate int) (uint16, error) {
	var errs []error
	mux := slices.Index(ads1115Inputs[:], input)
	if mux < 0 {
		errs = append(errs, fmt.Errorf("ads1115 has no input %q: it has %s", input, strings.Join(ads1115Inputs[:], ", ")))
	}
	pga := slices.Index(ads1115Ranges[:], fullScale)
	if pga < 0 {
		errs = append(errs, fmt.Errorf("ads1115 has no full scale %s: it has %v", fullScale, ads1115Ranges))
	}
	dr := slices.Index(ads1115Rates[:], rate)
	if dr < 0 {
		errs = append(errs, fmt.Errorf("ads1115 has no rate of %d samples a second: it has %v", rate, ads1115Rates))
	}
	if len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	setting := uint16(mux)<<ads1115MuxShift | uint16(pga)<<ads1115PGAShift |
		ads1115Single | uint16(dr)<<ads1115DRShift | ads1115CompOff
	if setting == ads1115PowerOn&^ads1115Ready {
		setting |= ads1115CompPol
	}
	return setting, nil
}

// ADS1115Channel is one input of an ADS1115 with its own full scale and rate.
type ADS1115Channel struct {
	chip      *ADS1115
	config    uint16 // as it reads back, without bit 15
	fullScale physic.ElectricPotential
	period    time.Duration // nominal conversion time
}

// Read makes one conversion of this input and returns its code and volts, or a
// *Fault; when ctx is cancelled, ctx's error.
//
// The multiplexer is the trap: the conversion register holds the last finished
// conversion of whichever input, and the chip's oscillator may be 10 % slow
// (TI SBAS444, "Electrical Characteristics": data rate variation). Who sleeps for
// the nominal time and reads gets the other tank. So the value is taken only if
// the chip was idle before the start, took our setting, was seen busy or had the
// time to be, said that it is ready, and still holds our setting after the value
// has been read.
func (c *ADS1115Channel) Read(ctx context.Context) (Sample, error) {
	if err := ctx.Err(); err != nil {
		return Sample{}, waitFault(err)
	}
	if err := c.park(ctx); err != nil {
		return Sample{}, err
	}
	if err := c.convert(ctx); err != nil {
		return Sample{}, err
	}
	code, err := c.chip.readConversion()
	if err != nil {
		return Sample{}, err
	}
	if err := c.confirm(code); err != nil {
		return Sample{}, err
	}
	return Sample{Raw: int32(code), Volts: c.volts(code)}, nil
}

// Measure implements Input: the code, and the volts that it means.
func (c *ADS1115Channel) Measure(ctx context.Context) (Measured, error) {
	s, err := c.Read(ctx)
	return Measured{Raw: int64(s.Raw), Value: float64(s.Volts) / 1e9}, err
}

// park sets the channel's setting with one idle bit turned, starts nothing, and
// waits until the chip is idle. A conversion may be running still, left behind by
// an abandoned read or an earlier process; a start would be ignored then and the
// result be the old input's. The turned bit makes a start that the bus loses
// visible, also where the last read was of the same channel.
func (c *ADS1115Channel) park(ctx context.Context) error {
	parked := c.config ^ ads1115CompPol
	if err := c.chip.writeConfig(parked); err != nil {
		return err
	}
	return c.chip.poll(ctx, c.chip.clock.Now(), ads1115SlowestPeriod, parked)
}

// convert starts a conversion, sees that it runs with our setting, and waits
// until the chip says that it is done.
func (c *ADS1115Channel) convert(ctx context.Context) error {
	started := c.chip.clock.Now()
	if err := c.chip.writeConfig(c.config | ads1115Start); err != nil {
		return err
	}
	ready, err := c.chip.readConfig(c.config)
	if err != nil {
		return err
	}
	wait := c.period * 9 / 10 // what the fastest oscillator needs
	if ready {
		wait = ads1115PollStep // over already, or not yet awake: look again
	}
	if err := c.chip.clock.Sleep(ctx, wait); err != nil {
		return waitFault(err)
	}
	if err := c.chip.poll(ctx, started, c.period, c.config); err != nil {
		return err
	}
	// started lies before the start, so this can only overstate the time taken.
	if took := c.chip.clock.Now().Sub(started); ready && took < c.period*8/10 {
		return &Fault{Reason: ReasonIgnored, Detail: fmt.Sprintf("ready after %s, a conversion takes %s", took, c.period)}
	}
	return nil
}

// confirm judges a code that was read: the setting must still be ours, or the
// value is from a chip that was reset or that somebody else uses too.
func (c *ADS1115Channel) confirm(code int16) error {
	if err := c.chip.point(ads1115Config); err != nil {
		return err
	}
	ready, err := c.chip.readConfig(c.config)
	switch {
	case err != nil:
		return err
	case !ready:
		return &Fault{Reason: ReasonReadback, Detail: "a conversion was started meanwhile: is a second program using the chip?"}
	case uint16(code) == c.config|ads1115Ready:
		// No input against ground reads that far below zero; between two inputs it is
		// one code in 65536, given up for not taking the register for a voltage.
		return &Fault{Reason: ReasonReadback, Detail: "the value is that of the config register: the pointer write was lost"}
	case code == 32767 || code <= -32767:
		return &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("code %d: the input is beyond the full scale of %s", code, c.fullScale)}
	}
	return nil
}

// volts is the input voltage that a code means, to the nanovolt: one step is a
// 32768th of the full scale (TI SBAS444, "Data Format").
func (c *ADS1115Channel) volts(code int16) physic.ElectricPotential {
	return physic.ElectricPotential(code) * c.fullScale / 32768
}

// poll reads the config until it says ready, at most until 1.25 of the period and
// the wake-up time have passed since started. The last look is at or after that
// deadline, so that a late wake-up of this process is not taken for a slow chip.
func (d *ADS1115) poll(ctx context.Context, started time.Time, period time.Duration, config uint16) error {
	allowed := period*5/4 + ads1115WakeUp
	step := max(period/20, ads1115PollStep)
	for {
		if err := ctx.Err(); err != nil {
			return waitFault(err)
		}
		waited := d.clock.Now().Sub(started)
		if ready, err := d.readConfig(config); ready || err != nil {
			return err
		}
		if waited >= allowed {
			return &Fault{Reason: ReasonTimeout, Detail: fmt.Sprintf("chip still busy after %s, allowed are %s", waited, allowed)}
		}
		if err := d.clock.Sleep(ctx, min(step, allowed-waited)); err != nil {
			return waitFault(err)
		}
	}
}

// waitFault tells a read whose time is up, a fault, from one that was cancelled.
func waitFault(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Fault{Reason: ReasonTimeout, Detail: "read took too long", Err: err}
	}
	return err
}

// writeConfig sets the config register. The pointer is then left on it.
func (d *ADS1115) writeConfig(v uint16) error {
	w := binary.BigEndian.AppendUint16([]byte{ads1115Config}, v)
	if err := d.dev.Tx(w, nil); err != nil {
		return busFault("write config", err)
	}
	return nil
}

// readConfig reads the config register, on which the pointer must stand, and
// demands our setting in all but bit 15, which it returns as ready.
func (d *ADS1115) readConfig(want uint16) (ready bool, err error) {
	got, err := d.readRegister()
	if err != nil {
		return false, err
	}
	switch {
	case got&^ads1115Ready == want:
		return got&ads1115Ready != 0, nil
	case got == 0xffff: // no setting of ours is all ones, or all zeros
		return false, &Fault{Reason: ReasonBus, Detail: "config reads all ones: SDA is stuck high, or the chip has no power"}
	case got == 0x0000:
		return false, &Fault{Reason: ReasonBus, Detail: "config reads all zeros: SDA is stuck low"}
	case got&^ads1115Ready == ads1115PowerOn&^ads1115Ready:
		return false, &Fault{Reason: ReasonReset, Detail: fmt.Sprintf("config is back at its power-on value %#04x: the supply browned out", got)}
	}
	return false, &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("config reads %#04x, written was %#04x", got, want)}
}

// readConversion reads the conversion register. Pointer and value go in two
// transfers: where the write half of a combined one is not acknowledged, the
// controller of Raspberry Pi 0 to 4 may go on and "read" all the same
// (raspberrypi/linux#5429).
func (d *ADS1115) readConversion() (int16, error) {
	if err := d.point(ads1115Conversion); err != nil {
		return 0, err
	}
	v, err := d.readRegister()
	return int16(v), err
}

// point selects the register that the next reads are of.
func (d *ADS1115) point(register byte) error {
	if err := d.dev.Tx([]byte{register}, nil); err != nil {
		return busFault("write pointer", err)
	}
	return nil
}

// readRegister reads the register that the pointer stands on. The buffer is new
// each time and begins as a value that is none of ours: as a config it is a
// mismatch, as a conversion saturated. So a transfer that reports success and
// moved nothing, as some adapters do, is a fault and not the value of an earlier
// read.
func (d *ADS1115) readRegister() (uint16, error) {
	r := []byte{0x7f, 0xff}
	if err := d.dev.Tx(nil, r); err != nil {
		return 0, busFault("read register", err)
	}
	return binary.BigEndian.Uint16(r), nil
}

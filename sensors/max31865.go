package sensors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
)

// How the MAX31865 wants to be connected (Maxim 19-6478, "Serial Interface"; 5 MHz
// at most). The clock leaves room for wires as they are laid on boards.
const (
	MAX31865Mode  = spi.Mode1 // or 3
	MAX31865Speed = 500 * physic.KiloHertz
)

// Registers (19-6478, table 1): eight, read from 0 on, written with the top bit
// set.
const (
	max31865Config    = 0x00
	max31865RTD       = 0x01 // two bytes; bit 0 says that there is a fault
	max31865High      = 0x03 // two bytes, bit 0 is not used
	max31865Low       = 0x05 // two bytes, bit 0 is not used
	max31865Status    = 0x07
	max31865Registers = 8
	max31865Write     = 0x80
	max31865Codes     = 1 << 15 // a code is this part of the reference
)

// Bits of the config register (19-6478, "Configuration Register"). The chip turns
// off by itself: the start bit, the cycle's bits when the cycle is over, and clear.
const (
	max31865Bias    = 1 << 7 // current through the sensor
	max31865Start   = 1 << 5 // one conversion
	max31865ThreeW  = 1 << 4
	max31865Cycle   = 0b11 << 2 // look for faults of the wires:
	max31865CycleA  = 0b10 << 2 // with FORCE- closed, then open it, and wait to be told
	max31865CycleB  = 0b11 << 2 // with FORCE- open, then close it
	max31865Clear   = 1 << 1    // forget the faults; without start and cycle bits only
	max31865Notch50 = 1 << 0
)

// Bits of the fault status (19-6478, tables 10 to 12).
const (
	max31865AboveHigh  = 1 << 7
	max31865BelowLow   = 1 << 6
	max31865RefOpen    = 1 << 5
	max31865RefShorted = 1 << 4
	max31865RTDShorted = 1 << 3
	max31865Voltage    = 1 << 2
)

// Times (19-6478, "Electrical Characteristics" and "Configuration Register").
const (
	max31865Settle = 10 * time.Millisecond // the input's capacitors, 10.5 time constants and 1 ms
	max31865Force  = 2 * time.Millisecond  // 5 time constants with FORCE- open
	max31865Cycled = 5 * time.Millisecond  // for the cycle's end, generously
	max31865At50   = 66 * time.Millisecond // the longest single conversion; typically 62.5 ms
	max31865At60   = 55 * time.Millisecond // typically 52 ms
	max31865Step   = time.Millisecond      // between two looks at a bit
)

// MAX31865 is a converter for one platinum resistance thermometer on SPI. It does
// not own its bus. One goroutine at a time may use it. The current through the
// sensor flows only during a read: it heats the sensor.
//
// Datasheet: Maxim 19-6478.
type MAX31865 struct {
	conn      spi.Conn
	clock     Clock
	rtd       RTD
	idle      byte // the config between two reads
	low, high int  // the codes from which on the chip sees a fault
}

// NewMAX31865 talks to the chip once: it writes its setting and reads it back, so
// that a wiring fault shows here. The error is then a *Fault. A nil clock is the
// system's.
func NewMAX31865(conn spi.Conn, rtd RTD, clock Clock) (*MAX31865, error) {
	if err := errors.Join(rtd.check()...); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = systemClock{}
	}
	d := &MAX31865{conn: conn, clock: clock, rtd: rtd}
	d.low, d.high = rtd.limits()
	if rtd.Wires == 3 {
		d.idle |= max31865ThreeW
	}
	if rtd.Mains == 50 {
		d.idle |= max31865Notch50
	}
	w := []byte{max31865Write | max31865High, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(w[1:], uint16(d.high)<<1)
	binary.BigEndian.PutUint16(w[3:], uint16(d.low)<<1)
	if err := d.conn.Tx(w, nil); err != nil {
		return nil, busFault("write thresholds", err)
	}
	// With the current on the setting is not all zeros, as that of a chip that was
	// reset is.
	if err := d.setConfig(d.idle|max31865Bias, 0); err != nil {
		return nil, err
	}
	if err := d.rest(max31865Clear); err != nil {
		return nil, err
	}
	return d, nil
}

// String names the chip and its chip select.
func (d *MAX31865) String() string { return fmt.Sprintf("max31865 %s", d.conn) }

// Measure implements Input: the code and kelvins of Read.
func (d *MAX31865) Measure(ctx context.Context) (Measured, error) {
	r, err := d.Read(ctx)
	if err != nil {
		return Measured{}, err
	}
	return Measured{Raw: int64(r.Code), Value: r.Kelvin}, nil
}

// RTDReading is one measurement of a resistance thermometer.
type RTDReading struct {
	Code   int     // 0 to 32767: resistance as part of the reference
	Ohms   float64 // in steps of a 32768th of the reference
	Kelvin float64 // of the resistance exactly to 1e-9 K; a step of 430 Ohm is 0.034 K of a PT100
}

// Read looks for faults of the wires, makes one conversion, and returns it, or a
// *Fault; when ctx is cancelled, ctx's error. It takes about 85 ms.
//
// The chip compares only the code with its thresholds by itself. A RTDIN- wire
// that is shorted to ground "appears to be valid" in the code (19-6478, tables 10
// to 12): it shows in a fault detection cycle, which is therefore run each time.
func (d *MAX31865) Read(ctx context.Context) (r RTDReading, err error) {
	if err := ctx.Err(); err != nil {
		return RTDReading{}, waitFault(err)
	}
	code, err := d.measure(ctx)
	if err != nil {
		// The read's fault matters more than that of going to rest.
		_ = d.rest(max31865Clear)
		return RTDReading{}, err
	}
	if err := d.rest(0); err != nil {
		return RTDReading{}, err
	}
	return d.reading(code)
}

// reading judges a code by what platinum can have.
func (d *MAX31865) reading(code int) (RTDReading, error) {
	ohms := float64(code) / max31865Codes * d.rtd.Reference
	switch {
	case code <= d.low:
		return RTDReading{}, &Fault{Reason: ReasonShort, Detail: fmt.Sprintf("%.2f Ohm is less than a PT%g has at -200 °C", ohms, d.rtd.Nominal)}
	case code >= d.high:
		return RTDReading{}, &Fault{Reason: ReasonOpen, Detail: fmt.Sprintf("%.2f Ohm is more than a PT%g has at 850 °C, or at the end of the converter's range", ohms, d.rtd.Nominal)}
	}
	celsius, ok := cvdCelsius(ohms / d.rtd.Nominal)
	if !ok {
		return RTDReading{}, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%.2f Ohm is no temperature", ohms)}
	}
	return RTDReading{Code: code, Ohms: ohms, Kelvin: celsius + zeroCelsius}, nil
}

// measure goes through one read and leaves the current on.
//
// Until the conversion starts the notch is set to the other frequency. The write
// that starts it sets it right, so that a start that the bus lost shows when the
// setting is read back: the code would be that of an earlier read.
func (d *MAX31865) measure(ctx context.Context) (code int, err error) {
	parked := d.idle ^ max31865Notch50 | max31865Bias
	if err := d.setConfig(parked, max31865Clear); err != nil {
		return 0, err
	}
	if err := d.sleep(ctx, max31865Settle); err != nil {
		return 0, err
	}
	if err := d.cycle(ctx, parked); err != nil {
		return 0, err
	}
	conversion := max31865At60
	if d.rtd.Mains == 50 {
		conversion = max31865At50
	}
	running := d.idle | max31865Bias
	if err := d.setConfig(running, max31865Start); err != nil {
		return 0, err
	}
	if err := d.sleep(ctx, conversion); err != nil {
		return 0, err
	}
	regs, err := d.await(ctx, running, max31865Start, conversion/4)
	if err != nil {
		return 0, err
	}
	if err := d.faults(regs); err != nil {
		return 0, err
	}
	return d.confirm(binary.BigEndian.Uint16(regs[max31865RTD:]), running)
}

// confirm reads the code once more, which stands still now: no check sum guards it
// on its way.
func (d *MAX31865) confirm(first uint16, running byte) (code int, err error) {
	regs, err := d.registers(running, 0)
	if err != nil {
		return 0, err
	}
	if err := d.faults(regs); err != nil {
		return 0, err
	}
	if again := binary.BigEndian.Uint16(regs[max31865RTD:]); again != first {
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("the code reads %#04x and then %#04x: noise on the bus", first, again)}
	}
	return int(first >> 1), nil
}

// cycle runs the fault detection with timing by hand, which suits any filter at
// the input.
func (d *MAX31865) cycle(ctx context.Context, parked byte) error {
	if err := d.setConfig(parked|max31865CycleA, 0); err != nil {
		return err
	}
	if err := d.sleep(ctx, max31865Force); err != nil {
		return err
	}
	if err := d.setConfig(parked, max31865CycleB); err != nil {
		return err
	}
	regs, err := d.await(ctx, parked, max31865Cycle, max31865Cycled)
	if err != nil {
		return err
	}
	return d.faults(regs)
}

// await reads the registers until the chip has turned off the bits by itself, at
// most for the time allowed. The last look is after it.
func (d *MAX31865) await(ctx context.Context, config, bits byte, allowed time.Duration) ([]byte, error) {
	started := d.clock.Now()
	for {
		waited := d.clock.Now().Sub(started)
		regs, err := d.registers(config, bits)
		if err != nil || regs[max31865Config]&bits == 0 {
			return regs, err
		}
		if waited >= allowed {
			return nil, &Fault{Reason: ReasonTimeout, Detail: fmt.Sprintf("config still reads %#02x after %s more than it takes", regs[max31865Config], waited)}
		}
		if err := d.sleep(ctx, max31865Step); err != nil {
			return nil, err
		}
	}
}

// faults names what the chip says of its wires.
func (d *MAX31865) faults(regs []byte) error {
	status := regs[max31865Status]
	if status == 0 && regs[max31865RTD+1]&1 == 0 {
		return nil
	}
	var causes []string
	seen := func(bits byte, cause string) bool {
		if status&bits != 0 {
			causes = append(causes, cause)
		}
		return status&bits != 0
	}
	open := seen(max31865AboveHigh, "resistance above what the sensor can have: element or wire open")
	open = seen(max31865RefOpen, "REFIN- above 85 % of the bias: element or a FORCE wire open") || open
	short := seen(max31865BelowLow, "resistance below what the sensor can have: element shorted")
	short = seen(max31865RefShorted, "REFIN- below 85 % of the bias: FORCE- or RTDIN- shorted to ground") || short
	short = seen(max31865RTDShorted, "RTDIN- below 85 % of the bias: RTDIN- or FORCE+ shorted to ground") || short
	voltage := seen(max31865Voltage, "a wire is above the supply or below ground")
	f := &Fault{Reason: ReasonWiring, Detail: fmt.Sprintf("fault status %#02x: %s", status, strings.Join(causes, "; "))}
	switch {
	case open && !short && !voltage:
		f.Reason = ReasonOpen
	case short && !open && !voltage:
		f.Reason = ReasonShort
	}
	return f
}

// rest turns the current off, and with max31865Clear forgets the faults. It is not
// read back: the next read begins by asking.
func (d *MAX31865) rest(clear byte) error {
	if err := d.conn.Tx([]byte{max31865Write | max31865Config, d.idle | clear}, nil); err != nil {
		return busFault("switch the current off", err)
	}
	return nil
}

// setConfig writes the config with bits that the chip turns off by itself, and
// demands the rest of it back.
func (d *MAX31865) setConfig(config, passing byte) error {
	if err := d.conn.Tx([]byte{max31865Write | max31865Config, config | passing}, nil); err != nil {
		return busFault("write config", err)
	}
	_, err := d.registers(config, passing)
	return err
}

// registers reads all eight and demands our thresholds and our config, but for its
// passing bits. The buffer begins as all ones, which no chip of ours reads, so that
// a transfer that reports success and moved nothing is a fault.
func (d *MAX31865) registers(config, passing byte) ([]byte, error) {
	w, r := make([]byte, 1+max31865Registers), make([]byte, 1+max31865Registers)
	for i := range r {
		r[i] = 0xff
	}
	if err := d.conn.Tx(w, r); err != nil {
		return nil, busFault("read registers", err)
	}
	regs := r[1:] // the first byte came while the address went
	return regs, d.judge(regs, config, passing)
}

// judge demands our thresholds and config of a chip's eight registers.
func (d *MAX31865) judge(regs []byte, config, passing byte) error {
	got := regs[max31865Config]
	high, low := binary.BigEndian.Uint16(regs[max31865High:])&^1, binary.BigEndian.Uint16(regs[max31865Low:])&^1
	every := func(v byte) bool { return !slices.ContainsFunc(regs, func(b byte) bool { return b != v }) }
	switch {
	case every(0xff):
		return &Fault{Reason: ReasonBus, Detail: "all registers read ones: MISO is stuck high, or no chip drives it"}
	case every(0x00):
		return &Fault{Reason: ReasonBus, Detail: "all registers read zeros: MISO is stuck low, or the chip has no power"}
	case high == 0xfffe && low == 0: // the config may have been written anew since
		return &Fault{Reason: ReasonReset, Detail: "the thresholds are back at their power-on values: the supply browned out"}
	case got&^passing != config&^passing:
		return &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("config reads %#02x, written was %#02x", got, config|passing)}
	case high != uint16(d.high)<<1 || low != uint16(d.low)<<1:
		return &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("thresholds read %#04x and %#04x, written were %#04x and %#04x", high, low, d.high<<1, d.low<<1)}
	}
	return nil
}

// sleep waits on the driver's clock.
func (d *MAX31865) sleep(ctx context.Context, wait time.Duration) error {
	if err := d.clock.Sleep(ctx, wait); err != nil {
		return waitFault(err)
	}
	return nil
}

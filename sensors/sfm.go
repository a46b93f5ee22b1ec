package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"periph.io/x/conn/v3/i2c"
)

// Commands (SF06: SFM4300 data sheet, "I2C commands"; SF05: application note "SFM
// I2C functional description").
const (
	sfmStartOxygen = 0x3603
	sfmStartAir    = 0x3608
	sfmStop        = 0x3ff9
	sfmScaling     = 0x3661 // and a start command: scale, offset, unit
	sfmIdentity    = 0xe102 // product identifier, serial number; only while idle
	sfmResetByte   = 0x06   // to all chips of the bus, at address 0

	sfmOldStart  = 0x1000
	sfmOldScale  = 0x30de
	sfmOldOffset = 0x30df
)

// Times of the parts (ibid.).
const (
	sfmCommandTime = time.Millisecond       // a stop takes 0.5 ms, the answer to a command as long
	sfmResetTime   = 50 * time.Millisecond  // reset and first start, SF05: 50 ms
	sfmWarmUp      = 30 * time.Millisecond  // the first result comes after 12 ms, a few per cent off until here
	sfmOldWarmUp   = 100 * time.Millisecond // of SF05
	sfmNextResult  = 2 * time.Millisecond   // a result comes every 0.5 ms
)

const (
	sfmUnitSLM  = 0x0148 // flow unit words of SF06: volume, time and prefix
	sfmUnitNLM  = 0x0048
	sfmSlack    = 0.02 // of the range, by which a flow may be beyond it
	sfmPerDeg   = 200  // raw temperature for a degree Celsius
	sfmColdest  = -40 * sfmPerDeg
	sfmHottest  = 90 * sfmPerDeg
	sfmNewCRC   = 0xff // what the check sum begins with
	sfmOldCRC   = 0x00
	litreMinute = 1.0 / 1000 / 60 // cubic metres a second
)

// SFMOptions are how a flow meter is read. Part, Gas and Unit have no default: a
// guess at any of them is a wrong number.
type SFMOptions struct {
	Part SFMPart
	Gas  Gas
	Unit FlowUnit

	// ResetBus resets the part at the start by a general call, which resets every
	// chip on the bus that heeds one, an ADS1115 too.
	ResetBus bool
}

// SFM is a mass flow meter of Sensirion's SFM series. It measures for itself once
// it was started, and says so by not acknowledging a read when it was not, after a
// brown-out for one. One goroutine owns it.
type SFM struct {
	dev     i2c.Dev
	clock   Clock
	options SFMOptions
	spec    sfmSpec
	density float64

	product   uint32 // SF06: product identifier
	scale     float64
	offset    int32
	low, high float64 // the part's range, in units
	running   bool
	started   time.Time
	warm      bool // the results of the warm-up are gone
}

// FlowReading is one measurement.
type FlowReading struct {
	Raw  int32
	Mass float64 // kilograms of the gas a second; negative backwards
	// Temperature is the gas's in kelvins; 0 for the parts that do not tell it.
	Temperature float64
	Status      uint16 // SF06: what the part says of itself
}

// NewSFM stops the part at addr, asks who it is and by what its numbers are to be
// divided, and starts it, so that a wiring fault shows here. The error is then a
// *Fault. A nil clock is the system's.
func NewSFM(bus i2c.Bus, addr uint16, o SFMOptions, clock Clock) (*SFM, error) {
	spec, err := sfmSpecOf(o.Part)
	errs := []error{err}
	if err == nil && !slices.Contains(spec.addresses, addr) {
		errs = append(errs, fmt.Errorf("%s has no address %#x: it answers at %#x", o.Part, addr, spec.addresses))
	}
	if o.Gas != GasOxygen && o.Gas != GasAir {
		errs = append(errs, fmt.Errorf("unknown gas %q: there are %s and %s", o.Gas, GasOxygen, GasAir))
	}
	if o.Unit != FlowSLM && o.Unit != FlowNLM {
		errs = append(errs, fmt.Errorf("flow unit %q: %s (at 20 °C) or %s (at 0 °C), as the part's data sheet has it", o.Unit, FlowSLM, FlowNLM))
	}
	if err == nil && spec.old && o.Unit == FlowNLM { // it has no word for its unit that would tell
		errs = append(errs, fmt.Errorf("flow unit %s: the %s counts in %s, and cannot say so itself", o.Unit, o.Part, FlowSLM))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = systemClock{}
	}
	d := &SFM{dev: i2c.Dev{Bus: bus, Addr: addr}, clock: clock, options: o, spec: spec}
	d.density, _ = density(o.Gas, o.Unit)
	if o.ResetBus {
		if err := bus.Tx(0, []byte{sfmResetByte}, nil); err != nil {
			return nil, busFault("reset the bus", err)
		}
		if err := clock.Sleep(context.Background(), sfmResetTime); err != nil {
			return nil, err
		}
	}
	if err := d.start(context.Background()); err != nil {
		return nil, err
	}
	return d, nil
}

// String names the part: its kind, bus, address and product identifier.
func (d *SFM) String() string {
	return fmt.Sprintf("%s %s %#x product %08x", d.options.Part, d.dev.Bus, d.dev.Addr, d.product)
}

// Measure implements Input: kilograms of the gas a second.
func (d *SFM) Measure(ctx context.Context) (Measured, error) {
	f, err := d.Read(ctx)
	if err != nil {
		return Measured{}, err
	}
	return Measured{Raw: int64(f.Raw), Value: f.Mass}, nil
}

// Read reads the newest result: of an SF06 the mean since the read before. A part that does not measure is started anew and
// gives a *Fault reset; the next Read works. The first results after a start do not
// count: Read waits until the part is warm.
func (d *SFM) Read(ctx context.Context) (FlowReading, error) {
	if err := ctx.Err(); err != nil {
		return FlowReading{}, waitFault(err)
	}
	if !d.running {
		if err := d.start(ctx); err != nil {
			return FlowReading{}, err
		}
	}
	if err := d.warmUp(ctx); err != nil {
		return FlowReading{}, err
	}
	frame, err := d.result(ctx)
	if err != nil {
		return FlowReading{}, err
	}
	f, err := d.flow(frame)
	if err == nil {
		err = d.confirm(ctx)
	}
	if err != nil {
		return FlowReading{}, err
	}
	return f, nil
}

// confirm demands a result after the one that was read. Nothing in a frame says that it
// is one: where another program asked the part something, the answer comes first, and an
// old part's offset reads as no flow, an SF06's identity as 150 litres a minute. It has
// stopped the part for that, which then acknowledges no second read.
func (d *SFM) confirm(ctx context.Context) error {
	if err := d.clock.Sleep(ctx, sfmNextResult); err != nil {
		return waitFault(err)
	}
	frame, err := d.result(ctx)
	if err != nil {
		return err
	}
	_, err = d.flow(frame)
	return err
}

// start identifies the part anew, it may be another one than before, and starts it.
func (d *SFM) start(ctx context.Context) error {
	d.running, d.warm = false, false
	identify := d.identify
	if d.spec.old {
		identify = d.identifyOld
	}
	if err := identify(ctx); err != nil {
		return err
	}
	if err := d.command(d.startCommand()); err != nil {
		if f, ok := errors.AsType[*Fault](err); ok && f.Reason == ReasonNack {
			f.Detail += ": it answered a moment ago, so it has frozen and needs its power off and on"
		}
		return err
	}
	d.running, d.started = true, d.clock.Now()
	return nil
}

func (d *SFM) startCommand() uint16 {
	switch {
	case d.spec.old:
		return sfmOldStart
	case d.options.Gas == GasOxygen:
		return sfmStartOxygen
	}
	return sfmStartAir
}

// identify asks an SF06, which must be idle for that: who it is, and its scale,
// offset and unit for our gas.
func (d *SFM) identify(ctx context.Context) error {
	_ = d.command(sfmStop) // an idle part need not acknowledge; what follows tells
	id, err := d.ask(ctx, 6, sfmIdentity)
	if err != nil {
		return err
	}
	d.product = uint32(id[0])<<16 | uint32(id[1])
	if family := d.product >> 16; d.product == 0 || (family == sfm4300Family) != (d.spec.family == sfm4300Family) {
		return &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("product identifier %08x is none of %s", d.product, d.options.Part)}
	}
	s, err := d.ask(ctx, 3, sfmScaling, d.startCommand())
	if err != nil {
		return err
	}
	want := map[FlowUnit]uint16{FlowSLM: sfmUnitSLM, FlowNLM: sfmUnitNLM}[d.options.Unit]
	if s[2] != want {
		return &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("the part's flow unit is %#04x, %s is %#04x: correct flow_unit", s[2], d.options.Unit, want)}
	}
	d.low, d.high = d.spec.sfmRange(d.product)
	return d.scaling(int32(int16(s[0])), int32(int16(s[1])), 1)
}

// identifyOld asks an SF05. Any command stops its measurement.
func (d *SFM) identifyOld(ctx context.Context) error {
	scale, err := d.ask(ctx, 1, sfmOldScale)
	if err != nil {
		return err
	}
	offset, err := d.ask(ctx, 1, sfmOldOffset)
	if err != nil {
		return err
	}
	d.low, d.high = d.spec.low, d.spec.high
	factor := 1.0
	if d.options.Gas == GasOxygen {
		factor = d.spec.oxygen
	}
	return d.scaling(int32(scale[0]), int32(offset[0]), factor)
}

// scaling holds what the part says against what is known of it, and keeps it.
func (d *SFM) scaling(scale, offset int32, factor float64) error {
	if scale <= 0 || d.spec.scale != 0 && (scale != d.spec.scale || offset != d.spec.offset) {
		return &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("the part counts %d for a unit from %d, %s %d from %d: is it another part?",
			scale, offset, d.options.Part, d.spec.scale, d.spec.offset)}
	}
	d.scale, d.offset = float64(scale)*factor, offset
	return nil
}

// warmUp waits until the part has warmed up and takes the result that stands then:
// it is the mean since the start.
func (d *SFM) warmUp(ctx context.Context) error {
	if d.warm {
		return nil
	}
	length := sfmWarmUp
	if d.spec.old {
		length = sfmOldWarmUp
	}
	if left := length - d.clock.Now().Sub(d.started); left > 0 {
		if err := d.clock.Sleep(ctx, left); err != nil {
			return waitFault(err)
		}
	}
	if _, err := d.result(ctx); err != nil {
		return err
	}
	if err := d.clock.Sleep(ctx, sfmNextResult); err != nil {
		return waitFault(err)
	}
	d.warm = true
	return nil
}

// result reads the words of a result: flow, and of an SF06 temperature and status.
// A part that does not acknowledge is not measuring, or not there.
func (d *SFM) result(ctx context.Context) ([]uint16, error) {
	n := 3
	if d.spec.old {
		n = 1
	}
	words, err := d.read(n)
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Reason != ReasonNack {
		return words, err
	}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	return nil, &Fault{Reason: ReasonReset, Detail: "the part did not measure: its supply browned out, or another program uses it. It was started anew", Err: f.Err}
}

// flow judges a result.
func (d *SFM) flow(words []uint16) (FlowReading, error) {
	f := FlowReading{Raw: int32(words[0])}
	rail := f.Raw == 0 || f.Raw == math.MaxUint16
	if !d.spec.old {
		f.Raw = int32(int16(words[0]))
		rail = f.Raw == math.MinInt16 || f.Raw == math.MaxInt16
		t := int16(words[1])
		f.Status = words[2]
		f.Temperature = 273.15 + float64(t)/sfmPerDeg
		if running := f.Status >> 12; running != d.statusGas() {
			d.running = false // the next read starts it anew
			return FlowReading{}, &Fault{Reason: ReasonReadback, Detail: fmt.Sprintf("the part measures by its table %d, ours is %d", running, d.statusGas())}
		}
		if t < sfmColdest || t > sfmHottest {
			return FlowReading{}, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("gas temperature %.1f °C", float64(t)/sfmPerDeg)}
		}
	}
	units := float64(f.Raw-d.offset) / d.scale
	if slack := sfmSlack * (d.high - d.low); rail || units < d.low-slack || units > d.high+slack {
		return FlowReading{}, &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("flow %.1f %s, the range is %g to %g", units, d.options.Unit, d.low, d.high)}
	}
	f.Mass = units * litreMinute * d.density
	return f, nil
}

// statusGas is the number in the upper four bits of an SF06's status word of the
// table by which it measures our gas.
func (d *SFM) statusGas() uint16 {
	if d.options.Gas == GasOxygen {
		return 0
	}
	return 1
}

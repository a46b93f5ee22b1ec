package sensors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"periph.io/x/conn/v3/gpio"
)

// hx711Refusal is a word that does not count; the next one may.
type hx711Refusal struct{ Fault }

func refuse(reason Reason, detail string, values ...any) error {
	return &hx711Refusal{Fault{Reason: reason, Detail: fmt.Sprintf(detail, values...)}}
}

// next reads a word of a chip that converts our input.
func (d *HX711) next(ctx context.Context) (code int32, fresh bool, err error) {
	if !d.settled {
		if err := d.restart(ctx); err != nil {
			return 0, false, err
		}
	}
	return d.word(ctx)
}

// restart powers the chip down, up, and onto our input. It begins with A128; the
// first word selects another one, and the filter settles anew.
func (d *HX711) restart(ctx context.Context) error {
	d.settled = false
	if err := d.sck.Out(gpio.High); err != nil {
		return lineFault("raise PD_SCK", err)
	}
	slept := d.clock.Sleep(ctx, hx711PowerDown)
	if err := d.sck.Out(gpio.Low); err != nil {
		return lineFault("lower PD_SCK", err)
	}
	if slept != nil {
		return waitFault(slept)
	}
	if err := d.clock.Sleep(ctx, hx711Settling*d.period); err != nil {
		return waitFault(err)
	}
	if d.options.Input == HX711InputA128 {
		d.settled = true
		return nil
	}
	d.settled = true // word says if it is not
	_, _, err := d.word(ctx)
	selected := d.settled
	d.settled = false
	if _, refused := errors.AsType[*hx711Refusal](err); err != nil && !(refused && selected) {
		return err
	}
	if err := d.clock.Sleep(ctx, hx711Settling*d.period); err != nil {
		return waitFault(err)
	}
	d.settled = true
	return nil
}

// word waits for a conversion to end and reads it: the code, a refusal, or a *Fault
// that ends the measurement. A word that is not fresh ended before anybody looked:
// the next conversion may have replaced it while it was read.
func (d *HX711) word(ctx context.Context) (code int32, fresh bool, err error) {
	busy, fresh, err := d.ready(ctx)
	if err != nil {
		return 0, false, err
	}
	var raw uint32
	for range hx711Bits {
		level, err := d.bit()
		if err != nil {
			return 0, false, err
		}
		raw <<= 1
		if level {
			raw |= 1
		}
	}
	after, err := d.bit()
	for range d.options.Input.pulses() - hx711Bits - 1 {
		if err == nil {
			_, err = d.bit()
		}
	}
	if err != nil {
		return 0, false, err
	}
	if took := d.clock.Now().Sub(busy); took > d.period/2 {
		return 0, false, refuse(ReasonTimeout, "a word took until %s after its conversion, half a period is %s: it may be of two", took, d.period/2)
	}
	code, err = judgeHX711(int32(raw<<8)>>8, after)
	return code, fresh, err
}

// judgeHX711 refuses the words that no working chip and cell give. after is DOUT
// after the 25th clock, which the chip pulls high.
func judgeHX711(code int32, after gpio.Level) (int32, error) {
	switch {
	case after == gpio.Low:
		return 0, refuse(ReasonBus, "DOUT is low after the last clock: no chip drives it, or it is shorted to ground")
	case code == hx711Most, code == hx711Least:
		return 0, refuse(ReasonSaturated, "code %d: the bridge is beyond the full scale, or one of its wires is off", code)
	case code == 0, code == -1:
		return 0, refuse(ReasonImplausible, "code %d: all bits are the same", code)
	case code&(1<<hx711GlitchOnes-1) == 1<<hx711GlitchOnes-1:
		return 0, refuse(ReasonImplausible, "code %#x ends in ones: the chip was off for part of the word", uint32(code)&0xffffff)
	}
	return code, nil
}

// ready waits until DOUT is low, which ends a conversion, and returns when it was
// last seen high. It is not fresh where DOUT was low at once; busy is now then.
func (d *HX711) ready(ctx context.Context) (busy time.Time, fresh bool, err error) {
	began := d.clock.Now()
	busy = began
	for {
		now := d.clock.Now()
		level, err := d.dout.Level()
		if err != nil {
			return busy, false, lineFault("read DOUT", err)
		}
		if level == gpio.Low {
			return busy, fresh, nil
		}
		busy, fresh = now, true
		if waited := now.Sub(began); waited >= hx711ReadyMax*d.period {
			d.settled = false
			return busy, false, &Fault{Reason: ReasonTimeout, Detail: fmt.Sprintf("DOUT did not fall in %s: the chip has no power, or a wire is off", waited)}
		}
		if err := d.clock.Sleep(ctx, d.period/hx711PollSteps); err != nil {
			return busy, false, waitFault(err)
		}
	}
}

// bit gives one clock and reads DOUT after it: the level stands until the next
// clock rises, and reading it while the clock is high would make that longer. A
// clock that was high for too long ends the word.
func (d *HX711) bit() (gpio.Level, error) {
	rose := d.clock.Now()
	if err := errors.Join(d.sck.Out(gpio.High), d.sck.Out(gpio.Low)); err != nil {
		d.settled = false
		return gpio.Low, lineFault("give a clock", err)
	}
	if high := d.clock.Now().Sub(rose); high > hx711HighMax {
		d.settled = false
		return gpio.Low, refuse(ReasonTimeout, "a clock was high for up to %s, allowed are %s: the chip may have powered down", high, hx711HighMax)
	}
	level, err := d.dout.Level()
	if err != nil {
		d.settled = false
		return gpio.Low, lineFault("read DOUT", err)
	}
	return level, nil
}

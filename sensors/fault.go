package sensors

import (
	"context"
	"errors"
	"syscall"
)

// Reason is the short stable word for why a channel is not ok. It stands in the
// node's status and in the log, so a word once used keeps its meaning.
type Reason string

// The reasons. The first group is about reaching the chip, the second about what
// the chip said, the third about the value.
const (
	ReasonNoBus   Reason = "no_bus"  // the bus does not exist, or went away
	ReasonNack    Reason = "nack"    // nobody acknowledges at the chip's address
	ReasonBus     Reason = "bus"     // the transfer failed, or the lines are stuck
	ReasonTimeout Reason = "timeout" // the chip never got ready, or the read hung

	ReasonReset    Reason = "reset"           // the chip lost its setting: brown-out
	ReasonReadback Reason = "config_readback" // the chip holds another setting than ours
	ReasonIgnored  Reason = "not_started"     // the chip took the command but did not measure

	ReasonCRC         Reason = "crc"               // the frame's check sum does not fit
	ReasonImplausible Reason = "implausible_frame" // a frame that a working chip cannot send: all zeros, all ones, a glitch
	ReasonPowerOn     Reason = "power_on"          // the chip's value after power-on, not a measurement
	ReasonPower       Reason = "weak_power"        // the chip says that its supply is too weak
	ReasonNotReady    Reason = "not_ready"         // the chip has nothing new in the time that it has
	ReasonOpen        Reason = "open"              // the sensor's wire is broken
	ReasonShort       Reason = "short"             // the sensor's wires are shorted
	ReasonWiring      Reason = "wiring"            // the chip sees a wire off or shorted, not which
	ReasonLost        Reason = "lost_pulses"       // the kernel says that pulses were not seen

	ReasonSaturated  Reason = "saturated"               // the converter is at its rail
	ReasonRangeLow   Reason = "range_low"               // volts below the valid range: wire off, short to ground
	ReasonRangeHigh  Reason = "range_high"              // volts above it: short to supply, ground wire off
	ReasonUnderRange Reason = "under_range"             // less than an empty tank: calibration wrong
	ReasonOverRange  Reason = "over_range"              // more than a full tank: calibration or capacity wrong
	ReasonSupply     Reason = "supply"                  // the sensor's supply is outside of what it needs
	ReasonLoopLow    Reason = "loop_low"                // 4-20 mA: below the measuring range, not yet a failure
	ReasonLoopHigh   Reason = "loop_high"               // 4-20 mA: above it, not yet a failure
	ReasonElectrical Reason = "out_of_electrical_range" // outside of the sensor's span, inside of what a working one can give
	ReasonNotFinite  Reason = "not_finite"              // a computed value is NaN or infinite
	ReasonModel      Reason = "outside_model"           // outside of the range in which the tank's model holds

	ReasonSpike         Reason = "spike"         // far from its neighbours: dropped, unless it lasts
	ReasonRate          Reason = "rate"          // changes faster than the tank can
	ReasonStuck         Reason = "stuck"         // the same code for too long
	ReasonUnconfirmed   Reason = "unconfirmed"   // the first after a start or a gap: no second one yet agrees
	ReasonCounterDip    Reason = "counter_dip"   // a meter's total below the one before
	ReasonOutOfOrder    Reason = "out_of_order"  // not measured after the value before it
	ReasonUncompensated Reason = "uncompensated" // no temperature: an assumed one was used
	ReasonAuxiliary     Reason = "auxiliary"     // a probe that the model needs has no value

	ReasonStarting  Reason = "starting"   // not read yet
	ReasonNoReading Reason = "no_reading" // no read ended: the bus is busy with another chip
	ReasonError     Reason = "error"      // an error that no driver classified
)

// Fault is a failed read: why there is no value.
type Fault struct {
	Reason Reason
	Detail string // for a human: what was expected and what was seen
	Err    error  // the cause, where there is one
}

// Error gives the reason, the detail and the cause, as far as they are known.
func (f *Fault) Error() string {
	s := string(f.Reason)
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// asFault makes a Fault of any error of a read.
func asFault(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Fault{Reason: ReasonTimeout, Err: err}
	}
	return &Fault{Reason: ReasonError, Err: err}
}

// busFault makes a Fault of a failed transfer.
//
// Adapter drivers of the kernel name the trouble by errno: a missing acknowledge
// is EREMOTEIO (bcm2835, OMAP, DesignWare) or ENXIO (i.MX, i2c-gpio). All else is
// trouble of the bus (EIO, ETIMEDOUT, EAGAIN): arbitration, a stretched clock, a
// stuck line, a short transfer.
func busFault(detail string, err error) *Fault {
	f := &Fault{Reason: ReasonBus, Detail: detail, Err: err}
	_, missing := errors.AsType[*BusError](err)
	switch {
	case missing, gone(err):
		f.Reason = ReasonNoBus
	case unacknowledged(err):
		f.Reason = ReasonNack
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason = ReasonTimeout
	}
	return f
}

// unacknowledged reports whether nobody answered at the chip's address: it is
// absent, or busy.
func unacknowledged(err error) bool {
	return errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EREMOTEIO)
}

// gone reports whether the bus behind an open handle no longer exists: ENODEV and
// ESHUTDOWN where the adapter was unplugged, ENOTCONN and ECONNABORTED where a
// program was the bus (CUSE) and ended.
func gone(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENODEV, syscall.ENOENT, syscall.EBADF,
		syscall.ESHUTDOWN, syscall.ENOTCONN, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Reasons gives all reasons, in the order above.
func Reasons() []Reason {
	return []Reason{
		ReasonNoBus, ReasonNack, ReasonBus, ReasonTimeout,
		ReasonReset, ReasonReadback, ReasonIgnored,
		ReasonCRC, ReasonImplausible, ReasonPowerOn, ReasonPower, ReasonNotReady,
		ReasonOpen, ReasonShort, ReasonWiring, ReasonLost,
		ReasonSaturated, ReasonRangeLow, ReasonRangeHigh, ReasonUnderRange, ReasonOverRange,
		ReasonSupply, ReasonLoopLow, ReasonLoopHigh, ReasonElectrical, ReasonNotFinite, ReasonModel,
		ReasonSpike, ReasonRate, ReasonStuck, ReasonUnconfirmed, ReasonCounterDip, ReasonOutOfOrder, ReasonUncompensated, ReasonAuxiliary,
		ReasonStarting, ReasonNoReading, ReasonError,
	}
}

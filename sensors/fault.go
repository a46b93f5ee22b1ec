package sensors

import (
	"context"
	"errors"
	"strings"
	"syscall"
)

// Reason is the short stable word for why a channel is not ok. It stands in the
// node's status and in metric labels, so a word once used keeps its meaning.
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

	ReasonSaturated  Reason = "saturated"   // the converter is at its rail
	ReasonRangeLow   Reason = "range_low"   // volts below the valid range: wire off, short to ground
	ReasonRangeHigh  Reason = "range_high"  // volts above it: short to supply, ground wire off
	ReasonUnderRange Reason = "under_range" // less than an empty tank: calibration wrong
	ReasonOverRange  Reason = "over_range"  // more than a full tank: calibration or capacity wrong

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
// is EREMOTEIO (bcm2835, OMAP, DesignWare) or ENXIO (i.MX, i2c-gpio); a device
// node whose adapter was unplugged gives ENODEV. All else is trouble of the bus
// (EIO, ETIMEDOUT, EAGAIN): arbitration, a stretched clock, a stuck line.
func busFault(detail string, err error) *Fault {
	f := &Fault{Reason: ReasonBus, Detail: detail, Err: err}
	_, missing := errors.AsType[*BusError](err)
	switch {
	case missing, gone(err):
		f.Reason = ReasonNoBus
	case isErrno(err, syscall.ENXIO), isErrno(err, syscall.EREMOTEIO):
		f.Reason = ReasonNack
	}
	return f
}

// gone reports whether the bus behind an open handle no longer exists.
func gone(err error) bool {
	return isErrno(err, syscall.ENODEV) || isErrno(err, syscall.ENOENT) || isErrno(err, syscall.EBADF)
}

// isErrno reports whether err comes from the errno. periph's sysfs bus formats
// the cause with %v and so hides it from errors.Is; its text is then the end of
// the message.
func isErrno(err error, errno syscall.Errno) bool {
	return errors.Is(err, errno) || err != nil && strings.HasSuffix(err.Error(), ": "+errno.Error())
}

package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Signal is how a sensor speaks: what its wire carries, and so which electrical
// faults can be told from a value.
type Signal string

// The signals.
const (
	SignalVoltage     Signal = "voltage"     // volts, at the converter or before a divider
	SignalRatiometric Signal = "ratiometric" // 10 % to 90 % of the sensor's own supply
	SignalLoop        Signal = "4-20mA"      // a current through a shunt
	SignalBridge      Signal = "bridge"      // counts of a load cell's converter
	SignalDirect      Signal = "direct"      // a digital chip gives the quantity itself
)

// Figure is a number for people to see, with its unit.
type Figure struct {
	Value float64
	Unit  string // "V", "mA", "%", "counts", "bar", "°C", …
}

// String writes the number with six digits and its unit; nothing where there is none.
func (f Figure) String() string {
	if f.Unit == "" {
		return ""
	}
	return fmt.Sprintf("%.6g %s", f.Value, f.Unit)
}

// electrical is what stands on a sensor's wire.
type electrical struct {
	raw   int64
	value float64 // in the law's unit: volts, a part of the sensor's span, counts, or the quantity itself
	show  Figure  // for people
	why   Reason  // "" or why the value deserves a look
}

// law measures what stands on a sensor's wire and tells values from faults.
type law interface {
	sense(ctx context.Context) (electrical, error)
}

// voltage is the law of a sensor whose volts mean something by calibration alone.
type voltage struct {
	input    Input
	divider  float64 // volts at the sensor for one volt at the converter, > 0
	min, max float64 // the sensor's valid volts
}

func (l voltage) sense(ctx context.Context) (electrical, error) {
	m, err := l.input.Measure(ctx)
	if err != nil {
		return electrical{}, err
	}
	v := m.Value * l.divider
	e := electrical{raw: m.Raw, value: v, show: Figure{v, "V"}, why: m.Why}
	switch {
	case !(v >= l.min): // also what is not a number
		return e, &Fault{Reason: ReasonRangeLow, Detail: fmt.Sprintf("%.4g V is below the valid %.4g V: wire off, or shorted to ground?", v, l.min)}
	case v > l.max:
		return e, &Fault{Reason: ReasonRangeHigh, Detail: fmt.Sprintf("%.4g V is above the valid %.4g V: shorted to supply, or ground wire off?", v, l.max)}
	}
	return e, nil
}

// A ratiometric sensor's span, as parts of its supply. Beyond the outer limits a wire is
// off or shorted; between them and the inner ones the sensor is out of its span, which
// its value is then taken to end at; up to the inner ones it is its own error.
const (
	ratiometricLow, ratiometricHigh           = 0.10, 0.90
	ratiometricFaultLow, ratiometricFaultHigh = 0.05, 0.95
	ratiometricOutLow, ratiometricOutHigh     = 0.095, 0.905
)

// The supply that a 0.5 V to 4.5 V sensor needs, where the config says nothing.
const (
	DefaultSupplyMin = 4.5
	DefaultSupplyMax = 5.5
)

// ratiometric is the law of a sensor that gives a part of its own supply, which is
// measured beside it in the same pass: a sagging rail is then no loss of pressure.
type ratiometric struct {
	input, supply        Input
	divider, railDivider float64
	supplyMin, supplyMax float64 // volts
}

func (l ratiometric) sense(ctx context.Context) (electrical, error) {
	rail, err := l.supply.Measure(ctx)
	if err != nil {
		return electrical{}, about("supply of the sensor", err)
	}
	if v := rail.Value * l.railDivider; !(v >= l.supplyMin && v <= l.supplyMax) {
		return electrical{}, &Fault{Reason: ReasonSupply, Detail: fmt.Sprintf("the sensor's supply is %.4g V, it needs %.4g V to %.4g V", v, l.supplyMin, l.supplyMax)}
	}
	m, err := l.input.Measure(ctx)
	if err != nil {
		return electrical{}, err
	}
	x := m.Value * l.divider / (rail.Value * l.railDivider)
	e := electrical{raw: m.Raw, value: part(min(max(x, ratiometricOutLow), ratiometricOutHigh), ratiometricLow, ratiometricHigh), show: Figure{x * 100, "% of supply"}}
	switch {
	case !(x >= ratiometricFaultLow):
		return e, &Fault{Reason: ReasonRangeLow, Detail: fmt.Sprintf("%.3g %% of the supply: signal wire off, or shorted to ground", x*100)}
	case x > ratiometricFaultHigh:
		return e, &Fault{Reason: ReasonRangeHigh, Detail: fmt.Sprintf("%.3g %% of the supply: shorted to the supply, or ground wire off", x*100)}
	case x < ratiometricOutLow, x > ratiometricOutHigh:
		e.why = ReasonElectrical
	}
	return e, nil
}

// LoopLimits are the four currents in amperes by which a 4-20 mA transmitter tells
// a value from a failure: at and below the first and at and above the last it
// signals failure; between the middle ones it measures; in between it is out of
// its range.
type LoopLimits [4]float64

// NE43 are the limits of NAMUR NE 43.
var NE43 = LoopLimits{3.6e-3, 3.8e-3, 20.5e-3, 21e-3}

// The span of a loop, in amperes.
const loopLow, loopHigh = 4e-3, 20e-3

// loopFault is how long a loop must signal failure before that is believed of the
// transmitter and not of a moment (NAMUR NE 43). A value there is none from the first.
const loopFault = 4 * time.Second

// loopOpen is the current below which a wire is off: no transmitter can live on it.
const loopOpen = 1e-3

// loop is the law of a 4-20 mA transmitter behind a shunt.
type loop struct {
	input   Input
	divider float64
	shunt   float64 // ohms
	limits  LoopLimits
}

func (l loop) sense(ctx context.Context) (electrical, error) {
	m, err := l.input.Measure(ctx)
	if err != nil {
		return electrical{}, err
	}
	i := m.Value * l.divider / l.shunt
	e := electrical{raw: m.Raw, value: part(min(max(i, l.limits[1]), l.limits[2]), loopLow, loopHigh), show: Figure{i * 1e3, "mA"}}
	switch {
	case !(i >= loopOpen):
		return e, &Fault{Reason: ReasonOpen, Detail: fmt.Sprintf("%.3g mA: the loop is open", i*1e3)}
	case i <= l.limits[0]:
		return e, &Fault{Reason: ReasonRangeLow, Detail: fmt.Sprintf("%.4g mA: the transmitter signals failure (low)", i*1e3)}
	case i >= l.limits[3]:
		return e, &Fault{Reason: ReasonRangeHigh, Detail: fmt.Sprintf("%.4g mA: the transmitter signals failure (high), or the loop is shorted", i*1e3)}
	case i < l.limits[1]:
		e.why = ReasonLoopLow
	case i > l.limits[2]:
		e.why = ReasonLoopHigh
	}
	return e, nil
}

// part is where v lies from low (0) to high (1).
func part(v, low, high float64) float64 { return (v - low) / (high - low) }

// bare is the law of an input that needs none: counts of a bridge, or the quantity
// itself from a digital chip. What is impossible was the driver's to refuse.
type bare struct {
	input  Input
	unit   unit
	counts bool // the chip's number counts, whatever the driver makes of it
}

func (l bare) sense(ctx context.Context) (electrical, error) {
	m, err := l.input.Measure(ctx)
	if err != nil {
		return electrical{}, err
	}
	if l.counts {
		m.Value = float64(m.Raw)
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		return electrical{}, &Fault{Reason: ReasonNotFinite, Detail: fmt.Sprintf("driver measured %v", m.Value)}
	}
	return electrical{raw: m.Raw, value: m.Value, show: l.unit.figure(m.Value), why: m.Why}, nil
}

// about says in a fault's detail what of the channel it is about.
func about(what string, err error) error {
	if f, ok := errors.AsType[*Fault](err); ok {
		g := *f
		g.Detail = what + ": " + f.Detail
		return &g
	}
	return err
}

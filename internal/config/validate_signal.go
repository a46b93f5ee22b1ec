package config

import (
	"fmt"
	"slices"
)

// Bounds of the electrical side.
const (
	MaxDivider = Number(1000e9)
	MaxShunt   = Resistance(10_000e9)
	MaxSupply  = Volts(30_000_000_000)

	loopOpen = Current(1_000_000) // package sensors takes a loop of no more for open

	// Of a ratiometric sensor: within these a working one can still be, though its
	// range ends at 0.1 and 0.9.
	RatiometricLow  = Fraction(50_000_000)
	RatiometricHigh = Fraction(950_000_000)
)

// signalsOf are the signals that an analog driver can take.
func signalsOf(driver string) []string {
	switch driver {
	case DriverADS1115:
		return []string{SignalVoltage, SignalRatiometric, SignalLoop, SignalBridge}
	case DriverMCP3208, DriverMCP3008:
		return []string{SignalVoltage, SignalRatiometric, SignalLoop}
	case DriverHX711:
		return []string{SignalBridge}
	}
	return []string{SignalVoltage, SignalLoop, SignalBridge, SignalDirect} // iio
}

// validateSignal checks the way from the sensor's wire to the converter.
func (r *reader) validateSignal(s *Sensor, path string) {
	signal := path + ".signal"
	r.oneOf(signal, s.Signal, signalsOf(s.Driver)...)
	if r.unclear(signal) {
		return
	}
	if s.Measures == KindVoltage && s.Signal != SignalVoltage {
		r.fault(signal, []string{path + ".measures"}, "%s%s gives no voltage, which the probe is to measure", s.Signal, r.byDefault(signal))
	}
	if s.Driver == DriverIIO {
		r.validateIIOSignal(s, path)
	}
	if s.Divider != 0 || r.stands(path+".divider") {
		within(r, path+".divider", s.Divider, DefaultDivider, MaxDivider)
	}
	switch s.Signal {
	case SignalRatiometric:
		r.validateRatiometric(s, path)
	case SignalLoop:
		r.validateLoop(s, path)
	}
}

// validateIIOSignal checks that the kernel's channel gives what the signal means.
func (r *reader) validateIIOSignal(s *Sensor, path string) {
	signal, channel := path+".signal", path+".channel"
	kind := iioKind(s.Channel)
	switch {
	case kind == "":
	case s.Signal == SignalDirect && kind == KindVoltage:
		r.fault(signal, []string{channel}, "direct gives the quantity itself, and %s gives a voltage", s.Channel)
	case s.Signal != SignalDirect && kind != KindVoltage:
		r.fault(signal, []string{channel}, "%s is made of a voltage, and %s gives a %s", s.Signal, s.Channel, kind)
	case s.Signal == SignalDirect && s.Quantity() != "" && kind != s.Quantity():
		r.fault(channel, []string{path + ".model", path + ".measures"}, "gives a %s, and a %s is needed%s", kind, s.Quantity(), neededBy(s))
	}
}

// neededBy says why a kind of quantity is needed.
func neededBy(s *Sensor) string {
	if s.Auxiliary() {
		return " for measures: " + string(s.Measures)
	}
	return " by the model " + s.Model
}

// validateRatiometric checks the supply, and that the converter sees it and all that
// a broken sensor gives.
func (r *reader) validateRatiometric(s *Sensor, path string) {
	least, most := path+".supply_min", path+".supply_max"
	within(r, path+".supply_divider", s.SupplyDivider, DefaultDivider, MaxDivider)
	if s.SupplyMin == 0 {
		r.fault(least, nil, "must be more than 0 V, which is what a supply that is off gives")
	}
	if s.SupplyMin >= s.SupplyMax {
		r.fault(least, []string{most}, "%v%s is not below supply_max %v%s", s.SupplyMin, r.byDefault(least), s.SupplyMax, r.byDefault(most))
	}
	atMost(r, most, s.SupplyMax, MaxSupply)
	full := s.FullScale()
	if full == 0 || r.unclear(most) || r.unclear(least) {
		return
	}
	highest := Volts(scaledBy(int64(s.SupplyMax), int64(RatiometricHigh), 1e9))
	r.fitsConverter(s, path, "divider", highest, s.Divider, fmt.Sprintf("%v of supply_max %v%s", RatiometricHigh, s.SupplyMax, r.byDefault(most)))
	r.fitsConverter(s, path, "supply_divider", s.SupplyMax, s.SupplyDivider, fmt.Sprintf("supply_max %v%s", s.SupplyMax, r.byDefault(most)))
}

// fitsConverter checks that the volts, behind their divider, stay below the full
// scale of the converter: at it, it clips, and a fault would look like a value.
func (r *reader) fitsConverter(s *Sensor, path, dividerKey string, highest Volts, divider Number, what string) {
	full, key, at := s.FullScale(), path+"."+dividerKey, path+"."+scaleKey(s)
	if full == 0 || divider == 0 || r.unclear(at) {
		return
	}
	if seen := Volts(scaledBy(int64(highest), 1e9, int64(divider))); seen >= full {
		place := key
		if !r.stands(key) && r.stands(at) {
			place = at
		}
		r.fault(place, []string{key, at}, "%s is %v at the converter, which clips at %s %v%s: a broken wire would look like a value; take a %s above %v",
			what, seen, scaleKey(s), full, r.byDefault(at), dividerKey, Number(scaledBy(int64(highest), 1e9, int64(full))))
	}
}

// scaleKey is the key that holds the converter's full scale.
func scaleKey(s *Sensor) string {
	if s.Driver == DriverADS1115 {
		return "gain"
	}
	return "vref"
}

// validateLoop checks the shunt and the limits, and that a transmitter which says
// that it failed is seen to say so.
func (r *reader) validateLoop(s *Sensor, path string) {
	limits, shunt := path+".loop_limits", path+".shunt"
	if n := len(s.LoopLimits); n != 4 {
		r.fault(limits, nil, "has %d currents: four, failure and uncertain at the low end, uncertain and failure at the high end", n)
	}
	for i := 1; i < len(s.LoopLimits); i++ {
		if s.LoopLimits[i] <= s.LoopLimits[i-1] {
			r.fault(index(limits, i), []string{index(limits, i-1)}, "%v is not above %v: the limits rise", s.LoopLimits[i], s.LoopLimits[i-1])
		}
	}
	if len(s.LoopLimits) == 4 {
		if l := s.LoopLimits; l[0] <= loopOpen || l[1] > 4_000_000 || l[2] < 20_000_000 || l[3] > 30_000_000 {
			r.fault(limits, nil, "%s do not enclose 4 to 20 mA: the first above 1 mA, below which the loop is open, the second at most 4 mA, the third at least 20 mA, the last at most 30 mA", listed(l))
		}
	}
	if !r.mustStand(shunt, "the resistor through which the loop's current flows, such as 100 Ohm") {
		return
	}
	if s.Shunt == 0 || s.Shunt > MaxShunt {
		r.fault(shunt, nil, "%v is out of bounds: more than 0 Ohm, up to %v", s.Shunt, MaxShunt)
	}
	if r.unclear(shunt) || r.faultyBelow(limits) || r.unclear(path+"."+scaleKey(s)) || r.unclear(path+".divider") {
		return
	}
	r.shuntClips(s, path)
}

// shuntClips refuses a shunt with which the converter is at its end before the
// current is at the failure limit: 100 Ohm at 21 mA are 2.1 V, and a range of
// 2.048 V shows them as 20.48 mA, a valid value.
func (r *reader) shuntClips(s *Sensor, path string) {
	failure, full := s.LoopLimits[3], s.FullScale()
	drop := Volts(scaledBy(int64(s.Shunt), int64(failure), 1e9))
	if full == 0 || scaledBy(int64(drop), 1e9, int64(s.Divider)) < int64(full) {
		return
	}
	at := path + "." + scaleKey(s)
	most := Resistance(scaledBy(int64(s.FullScaleAtSensor()), 1e9, int64(failure)))
	advice := fmt.Sprintf("take less than %v", Resistance(int64(most)/1e7*1e7))
	if s.Driver == DriverADS1115 {
		gains := ads1115Gains()
		slices.Reverse(gains)
		if i := slices.IndexFunc(gains, func(g Volts) bool { return times(g, s.Divider) > drop }); i >= 0 {
			advice += fmt.Sprintf(" or a gain of %v", gains[i])
		}
	}
	r.fault(path+".shunt", []string{at}, "%v × %v%s = %v, and the converter clips at %s %v%s: a transmitter that failed would look like a reading; %s",
		s.Shunt, failure, r.byDefault(path+".loop_limits"), drop, scaleKey(s), full, r.byDefault(at), advice)
}

// faultyBelow reports whether a key or anything in it has a fault.
func (r *reader) faultyBelow(path string) bool {
	return r.unclear(path) || slices.ContainsFunc(r.faults, func(f Fault) bool {
		return len(f.Key) > len(path) && f.Key[:len(path)] == path && (f.Key[len(path)] == '[' || f.Key[len(path)] == '.')
	})
}

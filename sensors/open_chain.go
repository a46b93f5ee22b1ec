package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Units as people read them.
var (
	volts        = unit{"V", 1, 0}
	counts       = unit{"counts", 1, 0}
	grams        = unit{"g", 1e3, 0}
	celsius      = unit{"°C", 1, -273.15}
	bar          = unit{"bar", 1e-5, 0}
	pascals      = unit{"Pa", 1, 0}
	gramsAMinute = unit{"g/min", 60e3, 0}
	millimetres  = unit{"mm", 1e3, 0}
)

// clips says when a converter's full scale, in volts, hides what the law must see:
// the end of the valid range, or the current by which a transmitter signals failure.
// A clipped failure looks like a value just under it.
func (w *WireSpec) clips(full float64) error {
	var most float64
	switch w.Signal {
	case "", SignalVoltage:
		most = w.VoltsMax / w.Divider
	case SignalRatiometric:
		most = ratiometricFaultHigh * w.SupplyMin / w.Divider
		if rail := w.SupplyMax / w.SupplyDivider; rail >= full {
			return fmt.Errorf("full scale %.4g V clips the supply, which may be %.4g V at the converter: take a larger one, or a divider", full, rail)
		}
	case SignalLoop:
		most = w.LoopLimits[3] * w.Shunt / w.Divider
	}
	if most >= full {
		return fmt.Errorf("full scale %.4g V clips the valid range, which ends at %.4g V: take a larger one, or a divider or shunt of less", full, most)
	}
	return nil
}

// chain completes a channel with everything from the wire to the quantity.
func (l *layout) chain(s *Spec, d *device, c *Channel) error {
	signal := s.Wire.Signal
	if signal == "" {
		signal = d.signal
	}
	c.Timeout = d.timeout
	if signal == SignalLoop {
		c.FaultAfter = loopFault
	}
	c.Quantity = s.Measures
	switch {
	case s.Tank != "" && d.gives == Flow:
		c.Quantity = Flow
	case s.Tank != "":
		c.Quantity = Content
	}
	proto := chain{quantity: c.Quantity, capacity: kilograms(s.Capacity), shared: l.shared, bounds: unbounded, physical: physicalUnit(s, d)}
	errs := []error{s.Wire.faults(signal, s.Device.Input), s.place()}
	if d.signal != signal && d.signal != SignalVoltage {
		errs = append(errs, fmt.Errorf("%s gives %s, not %s", s.Driver, d.signal, signal))
	}
	if signal == SignalDirect {
		errs = append(errs, s.fits(d.gives))
	}
	switch {
	case len(s.Scale) > 0:
		errs = append(errs, proto.calibrate(s, signal))
	case signal != SignalDirect && s.Measures != Voltage:
		errs = append(errs, fmt.Errorf("nothing says what the %s means: no range and no calibration", signal))
	}
	if c.Quantity == Content {
		var err error
		proto.model, err = s.model(proto.bounds.slack)
		errs = append(errs, err, l.sources(s))
	}
	if s.Tank == "" && s.Measures == Pressure && s.Model.Gauge {
		proto.ambient = &s.Model.Ambient
		errs = append(errs, l.need(s.Model.Ambient, Pressure))
	}
	switch {
	case c.Quantity == Flow && l.shared.tallies[s.Tank] == nil: // place has said why
	case c.Quantity == Flow:
		errs = append(errs, l.meter(s, c))
	default:
		errs = append(errs, l.refine(s, c))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	wire, inputs := s.Wire, s.Wire.inputs(signal, s.Device.Input)
	c.Open = func(ctx context.Context) (Probe, error) {
		in, err := d.open(ctx, inputs...)
		if err != nil {
			return nil, err
		}
		probe := proto
		probe.law = wire.law(signal, in, d.unit)
		return &probe, nil
	}
	return nil
}

// fits says when a chip that gives a quantity by itself does not give what the channel
// is for.
func (s *Spec) fits(gives Quantity) error {
	switch {
	case s.Tank == "" && gives != s.Measures:
		return fmt.Errorf("%s gives %s, not %s", s.Driver, gives, s.Measures)
	case s.Tank == "" || gives == Flow:
		return nil
	case gives == Pressure && (s.Model.Kind == ModelGas || s.Model.Kind == ModelLOX):
		return nil
	}
	return fmt.Errorf("%s gives %s, which is no content by the model %s", s.Driver, gives, s.Model.Kind)
}

// calibrate gives the chain its scale, and the bounds that follow from it.
func (c *chain) calibrate(s *Spec, signal Signal) error {
	scale, err := NewScale(s.Scale)
	if err != nil {
		return err
	}
	c.scale = &scale
	if signal == SignalVoltage {
		err = within(s.Scale, s.Wire.VoltsMin, s.Wire.VoltsMax)
	}
	if s.Tank == "" {
		return err
	}
	var boundsErr error
	c.bounds, boundsErr = s.bounds(scale, signal)
	return errors.Join(err, boundsErr)
}

// sources says which probes a model names that do not give what it needs.
func (l *layout) sources(s *Spec) error {
	var errs []error
	switch s.Model.Kind {
	case ModelGas:
		errs = append(errs, l.need(s.Model.Temperature, Temperature))
		if s.Model.Gauge {
			errs = append(errs, l.need(s.Model.Ambient, Pressure))
		}
	case ModelLOX:
		errs = append(errs, l.need(s.Model.VesselPressure, Pressure))
	}
	return errors.Join(errs...)
}

// need says when a source does not give what is needed of it.
func (l *layout) need(from Source, what Quantity) error {
	if from.Fixed() {
		return nil
	}
	got, known := l.probes[from.Probe]
	switch {
	case !known:
		return fmt.Errorf("there is no probe %q", from.Probe)
	case got != what:
		return fmt.Errorf("probe %q measures %s, not %s", from.Probe, got, what)
	}
	return nil
}

// bounds are those of the quantity that a tank's sensor measures. A mass is bounded above
// by the capacity where that is known. What a pressure or a level can be, the model knows;
// a sensor with a span gives no more than there is at its ends, but the points of a
// calibration are no ends: they lie where somebody could bring the tank.
func (s *Spec) bounds(scale Scale, signal Signal) (bounds, error) {
	least, most := scale.Ends()
	if s.Model.Kind == ModelLinear {
		return s.massBounds(least, most, slackOf(signal))
	}
	b := unbounded
	switch {
	case signal == SignalRatiometric || signal == SignalLoop:
		low, high := scale.line(0), scale.line(1)
		least, most = min(low, high), max(low, high)
		b.least, b.most = least, most
	case s.Model.Kind == ModelStrapping && len(s.Model.Levels) == 0: // a volume of liquid
		b.least = 0
	}
	b.slack = slackOf(signal) * (most - least)
	return b, nil
}

// massBounds are those of a mass that is measured itself, by a scale that ends at least
// and most.
func (s *Spec) massBounds(least, most, slack float64) (bounds, error) {
	limit, capacity := kilograms(maxRemaining), kilograms(s.Capacity)
	switch {
	case least < 0 || most > limit || capacity < 0 || capacity > limit:
		return bounds{}, fmt.Errorf("calibration masses %.6g kg and %.6g kg or capacity %.6g kg are not between 0 and %.6g kg", least, most, capacity, limit)
	case capacity > 0 && most > capacity:
		return bounds{}, fmt.Errorf("calibration point %.6g kg exceeds the capacity %.6g kg", most, capacity)
	case capacity > 0:
		return bounds{least: 0, most: capacity, slack: slack * capacity}, nil
	}
	return bounds{least: 0, most: limit, slack: slack * most}, nil
}

// slackOf is how far beyond its ends a quantity is taken for the end.
func slackOf(signal Signal) float64 {
	if signal == SignalLoop {
		return loopSlack
	}
	return ScaleSlack
}

// place says what is missing of who the channel is for.
func (s *Spec) place() error {
	switch {
	case s.Tank == "" && s.Name == "":
		return errors.New("no tank, and no name for others to use it by")
	case s.Tank == "" && !slices.Contains([]Quantity{Temperature, Pressure, Voltage}, s.Measures):
		return fmt.Errorf("no tank, and it does not say what it measures: %s, %s or %s", Temperature, Pressure, Voltage)
	case s.Tank != "" && s.Measures != "":
		return fmt.Errorf("both a tank and a measured %s: a tank's channel gives its content", s.Measures)
	}
	return nil
}

// faults lists all that is wrong with the wire's description.
func (w *WireSpec) faults(signal Signal, input string) error {
	var errs []error
	if !(w.Divider > 0) || !(w.SupplyDivider > 0) {
		errs = append(errs, errors.New("a divider must be above zero"))
	}
	switch signal {
	case SignalVoltage:
		if !(w.VoltsMin > 0) {
			errs = append(errs, fmt.Errorf("valid voltage range begins at %.4g V: it must begin above 0 V, which a wire that came off reads", w.VoltsMin))
		}
		if !(w.VoltsMin < w.VoltsMax) {
			errs = append(errs, fmt.Errorf("valid voltage range is empty: minimum %.4g V, maximum %.4g V", w.VoltsMin, w.VoltsMax))
		}
	case SignalRatiometric:
		if w.SupplyInput == "" || w.SupplyInput == input {
			errs = append(errs, errors.New("a ratiometric sensor needs its supply measured on an input of its own"))
		}
		if !(w.SupplyMin > 0 && w.SupplyMin < w.SupplyMax) {
			errs = append(errs, fmt.Errorf("supply from %.4g V to %.4g V is no range", w.SupplyMin, w.SupplyMax))
		}
	case SignalLoop:
		if !(w.Shunt > 0) {
			errs = append(errs, errors.New("a 4-20 mA loop needs its shunt's resistance"))
		}
		if l := w.LoopLimits; !(l[0] > loopOpen && l[0] < l[1] && l[1] <= 4e-3 && l[2] >= 20e-3 && l[2] < l[3]) {
			errs = append(errs, fmt.Errorf("loop limits %.4g mA do not rise around 4 mA to 20 mA", []float64{l[0] * 1e3, l[1] * 1e3, l[2] * 1e3, l[3] * 1e3}))
		}
	case SignalBridge, SignalDirect:
	default:
		errs = append(errs, fmt.Errorf("unknown signal %q", signal))
	}
	return errors.Join(errs...)
}

// within says when calibration points lie outside of the valid volts.
func within(points []ScalePoint, least, most float64) error {
	for _, p := range points {
		if p.At < least || p.At > most {
			return fmt.Errorf("calibration point at %.4g V lies outside of the valid range %.4g V to %.4g V", p.At, least, most)
		}
	}
	return nil
}

// inputs are those that the wire's law reads, in its order.
func (w *WireSpec) inputs(signal Signal, input string) []string {
	if signal == SignalRatiometric {
		return []string{input, w.SupplyInput}
	}
	return []string{input}
}

// law is the wire's law over inputs that are open.
func (w *WireSpec) law(signal Signal, in []Input, u unit) law {
	switch signal {
	case SignalVoltage:
		return voltage{input: in[0], divider: w.Divider, min: w.VoltsMin, max: w.VoltsMax}
	case SignalRatiometric:
		return ratiometric{input: in[0], supply: in[1], divider: w.Divider, railDivider: w.SupplyDivider,
			supplyMin: w.SupplyMin, supplyMax: w.SupplyMax}
	case SignalLoop:
		return loop{input: in[0], divider: w.Divider, shunt: w.Shunt, limits: w.LoopLimits}
	}
	if signal == SignalBridge {
		u = counts
	}
	return bare{input: in[0], unit: u, counts: signal == SignalBridge}
}

// physicalUnit is how people read what the channel's sensor measures.
func physicalUnit(s *Spec, d *device) unit {
	if d.gives == Flow && s.Driver != DriverPulse {
		return gramsAMinute
	}
	if s.Tank != "" && d.gives != Flow {
		return s.Model.Kind.unit()
	}
	switch s.Measures {
	case Temperature:
		return celsius
	case Pressure:
		return bar
	}
	return d.unit
}

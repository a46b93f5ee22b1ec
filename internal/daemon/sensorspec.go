package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/sensors"
	"oxyd/sensors/vessel"
)

// SensorSpecs are the configured channels, in the config's order. The error is of
// calibration records that cannot be read or are of something else; the channels that
// have none such are there all the same.
func SensorSpecs(cfg *config.Config) ([]sensors.Spec, error) {
	specs := make([]sensors.Spec, 0, len(cfg.Sensors))
	var errs []error
	for i := range cfg.Sensors {
		spec, err := specOf(cfg, &cfg.Sensors[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("sensors[%d]: %w", i, err))
			continue
		}
		specs = append(specs, spec)
	}
	return specs, errors.Join(errs...)
}

// specOf writes a configured channel in the units of package sensors.
func specOf(cfg *config.Config, s *config.Sensor) (sensors.Spec, error) {
	spec := sensors.Spec{Tank: s.Tank, Name: s.Name, Measures: sensors.Quantity(s.Measures), Driver: s.Driver,
		Interval: time.Duration(s.Interval), StaleAfter: time.Duration(s.StaleAfter), Optional: s.Optional,
		Device: deviceOf(s), Wire: wireOf(s), Model: modelOf(s), Simulated: simulatedOf(s.Simulated),
		Meter: sensors.MeterSpec{PulsesPerLitre: s.PulsesPerLitre.Float(),
			LinePressure:    sensors.Source{Probe: s.LinePressure.Probe, Value: s.LinePressure.Value.SI()},
			LineTemperature: sensors.Source{Probe: s.LineTemperature.Probe, Value: s.LineTemperature.Value.SI()}}}
	if t := cfg.Tank(s.Tank); t != nil {
		spec.Capacity = physic.Mass(t.Capacity)
	}
	capacity := float64(spec.Capacity) / 1e12
	spec.Refine = refineOf(s, capacity)
	spec.Refine.AbnormalFrom = capacity * (abnormalParts/3600 + s.BoilOff.Fraction()/(24*3600))
	if spec.Refine.AbnormalFrom > 0 { // what nobody draws is abnormal before the usual rate is known
		var configured *config.MassRate
		if s.Consumption != nil {
			configured = s.Consumption.MaxRate
		}
		spec.Refine.AbnormalAlways = max(fastest(configured, capacity), spec.Refine.AbnormalFrom)
	}
	for _, p := range s.Scale() {
		spec.Scale = append(spec.Scale, sensors.ScalePoint{At: p.At, Is: p.Is})
	}
	if s.CalibrationFile == "" {
		return spec, nil
	}
	return spec, calibrateOf(s, &spec)
}

// calibrateOf takes the scale from a record, which must be of this channel: a chip's
// numbers mean nothing on another.
func calibrateOf(s *config.Sensor, spec *sensors.Spec) error {
	r, err := sensors.LoadRecord(s.CalibrationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it is made by: oxyd sensors calibrate %s", err, cmp.Or(s.Name, s.Tank))
	}
	if err != nil {
		return err
	}
	if want := UnitOf(s.Quantity()); r.Unit != want || string(r.Signal) != s.Signal || r.Driver != s.Driver {
		return fmt.Errorf("calibration record %s is of %s by %s in %s, the sensor is %s by %s in %s",
			s.CalibrationFile, r.Driver, r.Signal, r.Unit, s.Driver, s.Signal, want)
	}
	if name := cmp.Or(s.Name, s.Tank); r.Channel != name {
		return fmt.Errorf("calibration record %s was made of %q, the sensor is %q", s.CalibrationFile, r.Channel, name)
	}
	if spec.Scale, err = r.Scale(); err != nil {
		return fmt.Errorf("calibration record %s: %w", s.CalibrationFile, err)
	}
	if s.Signal == config.SignalVoltage { // what the config does not bound: it did not know the points
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range spec.Scale {
			low, high = min(low, p.At), max(high, p.At)
		}
		least, most := s.VoltsAround(voltsOf(low), voltsOf(high))
		if s.VoltsMin == 0 {
			spec.Wire.VoltsMin = least.Float()
		}
		if s.VoltsMax == 0 {
			spec.Wire.VoltsMax = most.Float()
		}
	}
	return nil
}

func voltsOf(v float64) config.Volts { return config.Volts(v * 1e9) }

// UnitOf is the SI unit of a quantity of the config.
func UnitOf(kind config.Kind) string {
	switch kind {
	case config.KindPressure:
		return "Pa"
	case config.KindTemperature:
		return "K"
	case config.KindLevel:
		return "m"
	case config.KindMass:
		return "kg"
	case config.KindVolume:
		return "m3"
	}
	return "V"
}

func deviceOf(s *config.Sensor) sensors.DeviceSpec {
	return sensors.DeviceSpec{Bus: s.Bus, Address: s.Address, Input: s.Input.String(), Gain: physic.ElectricPotential(s.Gain), Rate: s.Rate,
		SPI: s.SPI, VRef: s.VRef.Float(), GPIOChip: s.GPIOChip, ClockLine: s.ClockLine, DataLine: s.DataLine, Line: s.Line,
		Bridge: s.BridgeInput, ID: s.ID, RTD: s.RTD, Reference: s.Reference.SI(), Wires: s.Wires, Mains: int(s.Mains.SI()),
		Part: s.Part, Gas: s.Gas, FlowUnit: s.FlowUnit, Edge: s.Edge, Bias: s.Bias, Debounce: time.Duration(s.Debounce),
		IIODevice: s.Device, IIOChannel: s.Channel}
}

func wireOf(s *config.Sensor) sensors.WireSpec {
	w := sensors.WireSpec{Signal: sensors.Signal(s.Signal), Divider: s.Divider.Float(), VoltsMin: s.VoltsMin.Float(), VoltsMax: s.VoltsMax.Float(),
		SupplyInput: s.SupplyInput.String(), SupplyDivider: s.SupplyDivider.Float(), SupplyMin: s.SupplyMin.Float(), SupplyMax: s.SupplyMax.Float(),
		Shunt: s.Shunt.SI()}
	for i := range min(len(s.LoopLimits), len(w.LoopLimits)) {
		w.LoopLimits[i] = s.LoopLimits[i].SI()
	}
	return w
}

func modelOf(s *config.Sensor) sensors.ModelSpec {
	m := sensors.ModelSpec{Kind: sensors.Model(s.Model), Volume: s.Volume.SI(), Purity: fraction(s.Purity), Reserve: s.Reserve.SI(),
		ReserveMass: s.ReserveMass.SI(), Gauge: s.Pressure == config.PressureGauge,
		Ambient:        sensors.Source{Probe: s.Ambient.Probe, Value: s.Ambient.Value.SI()},
		Temperature:    sensors.Source{Probe: s.Temperature.Probe, Value: s.Temperature.Value.SI()},
		VesselPressure: sensors.Source{Probe: s.VesselPressure.Probe, Value: s.VesselPressure.Value.SI()},
		ShellGrowth:    fraction(s.Shell), Density: s.Density.SI(), Tare: s.Tare.SI()}
	for _, row := range s.Table {
		m.Levels = append(m.Levels, vessel.Point{X: row.Level.SI(), Y: row.Volume.SI()})
	}
	return m
}

// fraction is a percentage as a part of one.
func fraction(p config.Percent) float64 { return float64(p) / 100_0000 }

func refineOf(s *config.Sensor, capacity float64) (r sensors.RefineSpec) {
	if f := s.Filter; f != nil {
		r.Filter = &sensors.FilterSpec{Window: f.Window, Sigmas: f.Sigmas.Float(), Floor: f.Floor.SI(), MaxRate: f.MaxRate.SI(),
			StuckAfter: time.Duration(f.StuckAfter), Coarse: coarse(s)}
	}
	if p := s.Report; p != nil {
		r.Report = &sensors.ReportSpec{Deadband: p.Deadband.SI(), Heartbeat: time.Duration(p.Heartbeat)}
	}
	if c := s.Consumption; c != nil {
		r.Consumption = &sensors.ConsumptionSpec{Deadband: c.Deadband.SI(), RefillAbove: c.RefillAbove.SI(), MaxRate: fastest(c.MaxRate, capacity),
			Settle: time.Duration(c.Settle)}
	}
	return r
}

// abnormalParts is the part of a tank's capacity that may go in an hour without being
// looked at: a cylinder whose temperature is not measured seems to lose 5 % when it
// cools by 10 K.
const abnormalParts = 0.05

// emptyIn is the shortest time in which a tank is drawn empty, where nobody says.
const emptyIn = 20 * time.Minute

// fastest is the fastest use of a tank of that many kilograms, 0 for no bound.
func fastest(configured *config.MassRate, capacity float64) float64 {
	if configured != nil {
		return configured.SI()
	}
	return capacity / emptyIn.Seconds()
}

// coarse reports whether a chip's step is larger than its noise, so that a number that
// stands still is no sign of a stuck one.
func coarse(s *config.Sensor) bool {
	if sim := s.Simulated; sim != nil {
		return sim.Noise < sim.LSB || sim.Noise == 0
	}
	return s.Driver == config.DriverDS18B20 || s.Driver == config.DriverMCP3008
}

func simulatedOf(sim *config.Simulated) sensors.SimulatedOptions {
	if sim == nil {
		return sensors.SimulatedOptions{}
	}
	o := sensors.SimulatedOptions{Capacity: physic.Mass(sim.Full), Start: physic.Mass(sim.Start), PerHour: physic.Mass(sim.ConsumptionPerHour),
		RefillAt: physic.Mass(sim.RefillBelow.Of(sim.Full)), NoRefill: sim.NoRefill, Day: time.Duration(sim.Day),
		AsleepAfter: time.Duration(sim.AsleepAfter), AsleepFor: time.Duration(sim.AsleepFor), AsleepPerHour: physic.Mass(sim.AsleepPerHour),
		NoiseSigma: physic.Mass(sim.Noise), LSB: physic.Mass(sim.LSB), Seed: uint64(sim.Seed)}
	for _, e := range sim.Events {
		o.Events = append(o.Events, sensors.SimulatedEvent{At: time.Duration(e.At), For: time.Duration(e.For), Every: time.Duration(e.Every),
			Do: sensors.SimulatedKind(e.Do), Rate: physic.Mass(e.Rate), To: levelOf(&e, sim.Full), By: physic.Mass(e.By),
			Sigma: physic.Mass(e.Sigma), Reason: sensors.Reason(e.Reason)})
	}
	return o
}

// levelOf is where a refill leads; other events have no level, and the config none of
// theirs.
func levelOf(e *config.SimulatedEvent, full config.Mass) physic.Mass {
	if e.Do != config.DoRefill {
		return 0
	}
	return physic.Mass(e.To.Of(full))
}

package sensors

import (
	"errors"
	"fmt"

	"oxyd/sensors/vessel"
)

// Model is how the content of a tank follows from what its sensor measures.
type Model string

// The models of a tank.
const (
	ModelLinear    Model = "linear"    // the calibration gives the mass itself
	ModelGas       Model = "gas"       // a cylinder: pressure and temperature
	ModelLOX       Model = "lox_level" // a dewar: differential pressure, and the vessel's own
	ModelWeighed   Model = "weighed"   // a vessel on a load cell
	ModelStrapping Model = "strapping" // a level or a volume of liquid of a known density
)

// ModelSpec says what a tank is, in SI units.
type ModelSpec struct {
	Kind Model // "" means ModelLinear

	Volume      float64 // m3: gas, lox_level
	Purity      float64 // share of oxygen; 0 means 1
	Reserve     float64 // gas: the pressure below which the content is of no use, against what Gauge says
	ReserveMass float64 // kg: the others

	Gauge       bool    // gas, and a probe of a pressure: the transducer measures against Ambient
	Ambient     Source  // of a gauge: absolute pressure around it
	Temperature Source  // gas: of the gas; a fixed one makes every reading uncompensated
	ShellGrowth float64 // gas: part of the volume for each 200 bar

	VesselPressure Source         // lox_level: absolute
	Levels         []vessel.Point // lox_level, strapping: level in m, volume in m3
	Density        float64        // strapping: kg/m3
	Tare           float64        // weighed: kg
}

// unit is how people read the quantity that the model begins with.
func (m Model) unit() unit {
	switch m {
	case ModelGas:
		return bar
	case ModelLOX:
		return pascals
	case ModelStrapping:
		return millimetres
	case ModelWeighed:
		return unit{"kg", 1, 0}
	}
	return grams
}

// held is the content of a tank, and what is to be said of it.
type held struct {
	kg            float64 // that can be used
	why           Reason  // "" or why it deserves a look
	uncompensated bool    // a temperature was assumed
}

// model turns the quantity that a tank's sensor measures into the content of the tank.
type model interface {
	content(quantity float64, s *shared) (held, error)
}

// model makes the model of a tank's channel. slack is the sensor's error in the unit
// of its quantity: so far beyond its end a quantity is still the end.
func (s *Spec) model(slack float64) (model, error) {
	m := &s.Model
	purity := m.Purity
	if purity == 0 {
		purity = 1
	}
	levels := vessel.StrappingOptions{Levels: m.Levels, Slack: ScaleSlack, Density: m.Density, Volume: m.Volume, Purity: purity, Reserve: m.ReserveMass}
	switch m.Kind {
	case ModelLinear:
		return linear{}, nil
	case ModelGas:
		reserve := m.Reserve
		if m.Gauge && reserve > 0 {
			reserve += standardAmbient
		}
		tank, err := vessel.NewGas(vessel.GasOptions{Volume: m.Volume, Purity: purity, Reserve: reserve, ShellGrowth: m.ShellGrowth, Slack: slack})
		return gas{tank, m}, err
	case ModelLOX:
		tank, err := vessel.NewLOX(vessel.LOXOptions{StrappingOptions: levels})
		return lox{tank, m.VesselPressure}, err
	case ModelWeighed:
		tank, err := vessel.NewWeighed(vessel.WeighedOptions{Tare: m.Tare, Purity: purity, Reserve: m.ReserveMass, Slack: slack})
		return weighed{tank}, err
	case ModelStrapping:
		if len(m.Levels) == 0 { // the sensor is calibrated in volume
			return volumetric{m.Density * purity, m.ReserveMass}, positiveDensity(m.Density)
		}
		tank, err := vessel.NewStrapping(levels)
		return strapped{tank}, err
	}
	return nil, fmt.Errorf("unknown model %q: there are %s, %s, %s, %s and %s", m.Kind, ModelLinear, ModelGas, ModelLOX, ModelWeighed, ModelStrapping)
}

// standardAmbient is the pressure by which a reserve that is given as a gauge pressure
// becomes an absolute one: the reserve is a rule of people's, not a measurement.
const standardAmbient = 101325.0

func positiveDensity(d float64) error {
	if d > 0 {
		return nil
	}
	return errors.New("a strapping tank needs the density of what is in it")
}

// linear is the model of a sensor whose calibration gives kilograms.
type linear struct{}

func (linear) content(kg float64, _ *shared) (held, error) { return held{kg: kg}, nil }

// gas is a cylinder.
type gas struct {
	tank vessel.Gas
	spec *ModelSpec
}

func (g gas) content(pressure float64, s *shared) (held, error) {
	temperature, why, err := s.get(g.spec.Temperature)
	if err != nil {
		return held{}, about("temperature of the gas", err)
	}
	if g.spec.Gauge {
		ambient, ambientWhy, err := s.get(g.spec.Ambient)
		if err != nil {
			return held{}, about("ambient pressure", err)
		}
		if why == "" {
			why = ambientWhy
		}
		if pressure, err = vessel.Absolute(pressure, ambient); err != nil {
			return held{}, modelFault(err)
		}
	}
	c, err := g.tank.Content(pressure, temperature)
	return held{kg: c.Usable, why: why, uncompensated: g.spec.Temperature.Fixed()}, modelFault(err)
}

// lox is a dewar with a differential pressure transmitter.
type lox struct {
	tank     vessel.LOX
	pressure Source
}

func (l lox) content(differential float64, s *shared) (held, error) {
	pressure, why, err := s.get(l.pressure)
	if err != nil {
		return held{}, about("pressure of the vessel", err)
	}
	c, err := l.tank.Content(differential, pressure)
	return held{kg: c.Usable, why: why, uncompensated: l.pressure.Fixed()}, modelFault(err)
}

// weighed is a vessel on a load cell.
type weighed struct{ tank vessel.Weighed }

func (w weighed) content(gross float64, _ *shared) (held, error) {
	c, err := w.tank.Content(gross)
	return held{kg: c.Usable}, modelFault(err)
}

// strapped is a tank whose level is measured.
type strapped struct{ tank vessel.Strapping }

func (t strapped) content(level float64, _ *shared) (held, error) {
	c, err := t.tank.Content(level, 0)
	return held{kg: c.Usable}, modelFault(err)
}

// volumetric is a tank whose sensor is calibrated in the volume of the liquid.
type volumetric struct{ density, reserve float64 }

func (v volumetric) content(volume float64, _ *shared) (held, error) {
	return held{kg: max(volume*v.density-v.reserve, 0)}, nil
}

// modelFault makes a Fault of an error of a vessel's model; nil stays nil.
func modelFault(err error) error {
	if err == nil {
		return nil
	}
	f := &Fault{Reason: ReasonModel, Err: err}
	switch {
	case errors.Is(err, vessel.ErrNotFinite):
		f.Reason = ReasonNotFinite
	case errors.Is(err, vessel.ErrUnderRange):
		f.Reason = ReasonUnderRange
	case errors.Is(err, vessel.ErrOverRange):
		f.Reason = ReasonOverRange
	}
	return f
}

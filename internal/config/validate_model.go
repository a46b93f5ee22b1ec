package config

import "slices"

// Bounds of the tank models.
const (
	MaxVolume  = Volume(1_000_000e9) // 1000 m3
	MaxDensity = Density(1350e9)     // liquid oxygen has 1306 kg/m3 at its triple point (package vessel)
	MaxShell   = Percent(5_0000)

	// The equation of state holds for gas of 200 to 350 K, up to 35 MPa.
	MinGasTemperature = Temperature(200e9)
	MaxGasTemperature = Temperature(350e9)
	MaxGasPressure    = Pressure(35_000_000e9)

	// Of a habitat or the open (package vessel).
	MinAmbient = Pressure(10_000e9)
	MaxAmbient = Pressure(300_000e9)

	// The densities of boiling oxygen are computed between these (package oxygen); the
	// critical point is at 5.043 MPa.
	MinVesselPressure = Pressure(10_000e9)
	MaxVesselPressure = Pressure(4_000_000e9)

	// SuspiciousPercent is where a percentage begins to look like a ratio: "0.63 %"
	// for 63 % (field case FC-71).
	SuspiciousPercent = Percent(1_0000)
)

// validateModel checks the way from the quantity to the mass, and the pressure of a
// probe.
func (r *reader) validateModel(c *Config, s *Sensor, path string) {
	if s.Measures == KindPressure {
		r.validateReference(c, s, path)
	}
	if s.Auxiliary() {
		return
	}
	r.oneOf(path+".model", s.Model, ModelLinear, ModelGas, ModelLOXLevel, ModelWeighed, ModelStrapping)
	switch s.Model {
	case ModelGas:
		r.validateGas(c, s, path)
	case ModelLOXLevel:
		r.validateLOX(c, s, path)
	case ModelWeighed:
		r.validateWeighed(c, s, path)
	case ModelStrapping:
		r.validateStrapping(s, path)
	}
}

// validateReference checks what a pressure is measured against.
func (r *reader) validateReference(c *Config, s *Sensor, path string) {
	pressure, ambient := path+".pressure", path+".ambient"
	if !r.mustStand(pressure, "gauge (against the surroundings) or absolute, as the transducer says: they differ by an atmosphere") {
		return
	}
	r.oneOf(pressure, s.Pressure, PressureGauge, PressureAbsolute)
	if s.Pressure != PressureGauge {
		r.notStanding(ambient, []string{pressure}, "has no effect on an absolute pressure")
		return
	}
	r.pressureSource(c, ambient, s.Ambient)
	if i := c.probe(s.Ambient.Probe); i >= 0 && c.Sensors[i].Pressure == PressureGauge {
		r.fault(ambient, []string{index("sensors", i) + ".pressure"}, "%q (%s, line %d) is a gauge itself: an absolute pressure is needed",
			s.Ambient.Probe, index("sensors", i), r.lineOf("sensors", i))
	}
	if s.Ambient.Probe == "" {
		within(r, ambient, s.Ambient.Value, MinAmbient, MaxAmbient)
	}
}

func (r *reader) validateGas(c *Config, s *Sensor, path string) {
	r.validateReference(c, s, path)
	r.validateVolume(s, path)
	r.purity(s, path)
	atMost(r, path+".shell", s.Shell, MaxShell)
	temperature := path + ".temperature"
	if r.mustStand(temperature, "the gas's, a probe that measures it or an assumed value such as 20 °C") {
		r.temperatureSource(c, temperature, s.Temperature)
		if s.Temperature.Probe == "" {
			within(r, temperature, s.Temperature.Value, MinGasTemperature, MaxGasTemperature)
			if !r.unclear(temperature) {
				r.warn(temperature, "is an assumed %v: readings are labelled uncompensated, and 1 K is half a percent of the mass", s.Temperature)
			}
		}
	}
	most := MaxGasPressure
	if s.Pressure == PressureGauge {
		most -= DefaultAmbient // which package sensors makes an absolute reserve with
	}
	atMost(r, path+".reserve", s.Reserve, most)
	high, known := s.highest()
	if !known || r.faultyBelow(path+".range") || r.faultyBelow(path+".calibration") {
		return
	}
	if int64(s.Reserve) >= high.Steps {
		r.fault(path+".reserve", nil, "%v is not below the high end of the sensor, %v: nothing would ever be usable", s.Reserve, high)
	}
	if Pressure(high.Steps) > MaxGasPressure {
		key := path + ".range"
		if !r.stands(key) {
			key = path + ".calibration"
		}
		r.warn(key, "goes up to %v: above %v the equation of state does not hold, and a value there is a fault", high, MaxGasPressure)
	}
}

// highest gives the larger end of what the range or the calibration spans.
func (s *Sensor) highest() (q Quantity, known bool) {
	q.Kind = s.Quantity()
	for _, end := range s.Range {
		q.Steps, known = max(q.Steps, end.Steps), true
	}
	for i := range s.Calibration {
		if y := s.Calibration[i].physical(s.quantityKey()); y.given {
			q.Steps, known = max(q.Steps, y.steps), true
		}
	}
	return q, known
}

func (r *reader) validateVolume(s *Sensor, path string) {
	if !r.mustStand(path+".volume", "of the vessel, such as 50 L") {
		return
	}
	if s.Volume == 0 || s.Volume > MaxVolume {
		r.fault(path+".volume", nil, "%v is out of bounds: more than 0 L, up to %v", s.Volume, MaxVolume)
	}
}

func (r *reader) purity(s *Sensor, path string) {
	purity := path + ".purity"
	if s.Purity == 0 {
		r.fault(purity, nil, "must be more than 0 %%")
	}
	atMost(r, purity, s.Purity, 100_0000)
	r.suspicious(purity, s.Purity)
}

// suspicious warns about a percentage that looks like a ratio with a percent sign.
func (r *reader) suspicious(path string, p Percent) {
	if p > 0 && p < SuspiciousPercent && r.stands(path) && !r.unclear(path) {
		r.warn(path, "%v is less than a hundredth: was %v meant?", p, p*100)
	}
}

func (r *reader) validateLOX(c *Config, s *Sensor, path string) {
	r.validateVolume(s, path)
	r.purity(s, path)
	r.validateReserveMass(c, s, path)
	atMost(r, path+".boil_off", s.BoilOff, 100_0000)
	vessel := path + ".vessel_pressure"
	if r.mustStand(vessel, "the absolute one above the liquid, a probe or a value such as 2.5 bar") {
		r.pressureSource(c, vessel, s.VesselPressure)
		if s.VesselPressure.Probe == "" {
			within(r, vessel, s.VesselPressure.Value, MinVesselPressure, MaxVesselPressure)
		}
	}
	if r.mustStand(path+".table", "the vessel's volume by level, two rows or more") {
		r.validateTable(s, path)
		if n := len(s.Table); n > 0 && s.Table[n-1].Volume > s.Volume {
			r.fault(path+".volume", []string{path + ".table", index(path+".table", n-1) + ".volume"}, "%v is less than the table's last, %v", s.Volume, s.Table[n-1].Volume)
		}
	}
}

func (r *reader) validateReserveMass(c *Config, s *Sensor, path string) {
	if full, capacity := capacityOf(c, s.Tank); full > 0 && s.ReserveMass >= full {
		r.fault(path+".reserve_mass", []string{capacity}, "%v is not below the tank's capacity %v: nothing would ever be usable", s.ReserveMass, full)
	}
}

func (r *reader) validateWeighed(c *Config, s *Sensor, path string) {
	r.purity(s, path)
	r.validateReserveMass(c, s, path)
	if !r.mustStand(path+".tare", "the mass of the empty vessel") {
		return
	}
	if high, known := s.highest(); known && int64(s.Tare) >= high.Steps && !r.faultyBelow(path+".calibration") && !r.faultyBelow(path+".range") {
		r.fault(path+".tare", nil, "%v is not below the most that the scale is made for, %v", s.Tare, high)
	}
}

func (r *reader) validateStrapping(s *Sensor, path string) {
	table := path + ".table"
	switch {
	case s.Quantity() == KindVolume:
	case r.mustStand(table, "the vessel's volume by level, two rows or more; or calibrate in volume"):
		r.validateTable(s, path)
	}
	if r.mustStand(path+".density", "of the liquid, such as 1141 kg/m3") && (s.Density == 0 || s.Density > MaxDensity) {
		r.fault(path+".density", nil, "%v is out of bounds: more than 0 kg/m3, up to %v", s.Density, MaxDensity)
	}
}

// validateTable checks that level and volume rise together.
func (r *reader) validateTable(s *Sensor, sensor string) {
	path := sensor + ".table"
	if n := len(s.Table); n < 2 || n > MaxTableRows {
		r.fault(path, nil, "has %d rows: 2 to %d", n, MaxTableRows)
	}
	for i := 1; i < len(s.Table); i++ {
		before, row, at := s.Table[i-1], s.Table[i], index(path, i)
		if row.Level <= before.Level {
			r.fault(at+".level", []string{index(path, i-1) + ".level"}, "%v is not above the row before, %v: levels rise", row.Level, before.Level)
		}
		if row.Volume <= before.Volume {
			r.fault(at+".volume", []string{index(path, i-1) + ".volume"}, "%v is not above the row before, %v: volumes rise with the level", row.Volume, before.Volume)
		}
	}
}

// probe gives the index of the sensor of that name, -1 where there is none.
func (c *Config) probe(name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(c.Sensors, func(s Sensor) bool { return s.Name == name })
}

func (r *reader) temperatureSource(c *Config, path string, s TemperatureSource) {
	r.refersTo(c, path, s.Probe, KindTemperature)
	if s.Probe == "" && s.Value == 0 {
		r.fault(path, nil, "must be above absolute zero")
	}
}

func (r *reader) pressureSource(c *Config, path string, s PressureSource) {
	r.refersTo(c, path, s.Probe, KindPressure)
	if s.Probe == "" && s.Value == 0 {
		r.fault(path, nil, "must be more than 0 bar")
	}
}

// refersTo checks that the named probe is there and measures that kind. Chains end:
// a probe refers to nothing but the absolute pressure around a gauge.
func (r *reader) refersTo(c *Config, path, name string, kind Kind) {
	if name == "" {
		return
	}
	i := c.probe(name)
	if i < 0 {
		var able []string
		for j := range c.Sensors {
			at := index("sensors", j)
			if r.unclear(at+".name") || r.unclear(at+".measures") {
				return // it may be the one
			}
			if c.Sensors[j].Measures == kind {
				able = append(able, c.Sensors[j].Name)
			}
		}
		there := "no probe measures a " + string(kind)
		if len(able) > 0 {
			there = "there are " + listed(able)
		}
		r.fault(path, []string{"sensors"}, "%q is no probe that measures a %s: %s%s", shorten(name), kind, there, didYouMean(name, able))
		return
	}
	at := index("sensors", i)
	switch s := &c.Sensors[i]; {
	case !s.Auxiliary():
		r.fault(path, []string{at + ".measures", at + ".tank"}, "%q (%s, line %d) is on a tank: a probe that measures a %s is needed", name, at, r.lineOf("sensors", i), kind)
	case s.Measures != kind:
		r.fault(path, []string{at + ".measures"}, "%q (%s, line %d) measures a %s, not a %s", name, at, r.lineOf("sensors", i), s.Measures, kind)
	}
}

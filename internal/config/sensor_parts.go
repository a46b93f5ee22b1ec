package config

// CalibrationPoint pairs what the converter gives with what it stands for. One of
// each side stands: of the electrical side the one of the signal (voltage: volts,
// at the sensor; ratiometric: fraction of the supply; 4-20mA: current; bridge:
// counts), of the other the one of Sensor.Quantity, which for a linear model is
// called remaining.
type CalibrationPoint struct {
	Volts    *Volts    `yaml:"volts"`
	Fraction *Fraction `yaml:"fraction"`
	Current  *Current  `yaml:"current"`
	Counts   *Counts   `yaml:"counts"`

	Remaining   *Mass        `yaml:"remaining"`
	Mass        *Mass        `yaml:"mass"`
	Pressure    *Pressure    `yaml:"pressure"`
	Temperature *Temperature `yaml:"temperature"`
	Level       *Length      `yaml:"level"`
	Volume      *Volume      `yaml:"volume"`
}

// Point is one point of a scale: where the sensor stands, and the quantity there.
type Point struct {
	// At is volts at the sensor; of a ratiometric sensor and a loop the part of the
	// span, 0 at 10 % and 4 mA, 1 at 90 % and 20 mA; counts of a bridge.
	At float64
	Is float64 // in the SI unit of Sensor.Quantity
}

// Scale gives Range or Calibration in numbers, a calibration in rising order of At;
// nil where there is neither, and a CalibrationFile has it or the chip gives the
// quantity itself.
func (s *Sensor) Scale() []Point {
	if len(s.Range) == 2 {
		return []Point{{0, s.Range[0].SI()}, {1, s.Range[1].SI()}}
	}
	var points []Point
	for i := range s.Calibration {
		p := &s.Calibration[i]
		points = append(points, Point{p.electrical(s.Signal).at, p.physical(s.quantityKey()).at})
	}
	return points
}

// coordinate is one side of a point: exactly, in its own small steps, to be
// compared; as Point has it, to be worked with; in words.
type coordinate struct {
	steps int64
	at    float64
	text  string
	given bool
}

// quantityKey is the key of a point's physical side.
func (s *Sensor) quantityKey() string {
	if s.Model == ModelLinear {
		return "remaining"
	}
	return string(s.Quantity())
}

// signalKey is the key of a point's electrical side, "" for a signal without one.
func signalKey(signal string) string {
	switch signal {
	case SignalVoltage:
		return "volts"
	case SignalRatiometric:
		return "fraction"
	case SignalLoop:
		return "current"
	case SignalBridge:
		return "counts"
	}
	return ""
}

func (p *CalibrationPoint) electrical(signal string) coordinate {
	switch {
	case signal == SignalVoltage && p.Volts != nil:
		return coordinate{int64(*p.Volts), p.Volts.Float(), p.Volts.String(), true}
	case signal == SignalRatiometric && p.Fraction != nil:
		return coordinate{int64(*p.Fraction), float64(*p.Fraction-100_000_000) / 800e6, p.Fraction.String(), true}
	case signal == SignalLoop && p.Current != nil:
		return coordinate{int64(*p.Current), float64(*p.Current-4_000_000) / 16e6, p.Current.String(), true}
	case signal == SignalBridge && p.Counts != nil:
		return coordinate{int64(*p.Counts), float64(*p.Counts), p.Counts.String(), true}
	}
	return coordinate{}
}

func (p *CalibrationPoint) physical(key string) coordinate {
	switch {
	case key == "remaining" && p.Remaining != nil:
		return coordinate{int64(*p.Remaining), p.Remaining.SI(), p.Remaining.String(), true}
	case key == string(KindMass) && p.Mass != nil:
		return coordinate{int64(*p.Mass), p.Mass.SI(), p.Mass.String(), true}
	case key == string(KindPressure) && p.Pressure != nil:
		return coordinate{int64(*p.Pressure), p.Pressure.SI(), p.Pressure.String(), true}
	case key == string(KindTemperature) && p.Temperature != nil:
		return coordinate{int64(*p.Temperature), p.Temperature.SI(), p.Temperature.String(), true}
	case key == string(KindLevel) && p.Level != nil:
		return coordinate{int64(*p.Level), p.Level.SI(), p.Level.String(), true}
	case key == string(KindVolume) && p.Volume != nil:
		return coordinate{int64(*p.Volume), p.Volume.SI(), p.Volume.String(), true}
	}
	return coordinate{}
}

// TableRow is one row of a strapping table: the volume up to a level.
type TableRow struct {
	Level  Length `yaml:"level,required"`
	Volume Volume `yaml:"volume,required"`
}

// Filter says what a value must be to be believed.
type Filter struct {
	// Window is the number of values that one is held against: the Hampel filter's.
	// Default 7, odd, 5 to 31.
	Window int `yaml:"window"`

	// Sigmas is how far from the window's median a value may be. Default 3, 1 to 20.
	Sigmas Number `yaml:"sigmas"`

	// Floor is the least deviation that is held to be one: a quiet signal has a
	// spread of 0. Default 0 g: a ten-thousandth of the tank's capacity, a gram where that is not known. Not for a probe.
	Floor Mass `yaml:"floor"`

	// MaxRate is the fastest change that the tank can make. Default 0: no bound. Not
	// for a probe.
	MaxRate MassRate `yaml:"max_rate"`

	// StuckAfter is how long the raw code may stay the same. Default 0s: for ever;
	// else at least three intervals, up to 168h.
	StuckAfter Duration `yaml:"stuck_after"`
}

// Report says which values are published.
type Report struct {
	// Deadband is the change that is worth a report. Default 0 g: any.
	Deadband Mass `yaml:"deadband"`

	// Heartbeat is the longest time without a report. Default 5m, Interval to 24h.
	Heartbeat Duration `yaml:"heartbeat"`
}

// Consumption makes events of what a tank's mass loses and gains. Not beside a
// flow sensor on the same tank: it would be booked twice.
type Consumption struct {
	// Deadband is the loss that is booked at once. Default 50 g, more than 0; not
	// below Report.Deadband.
	Deadband Mass `yaml:"deadband"`

	// Settle is how long a new level must stand before a refill, a removal, or what
	// went while nobody measured, is booked. Default 3m,
	// Interval to 24h.
	Settle Duration `yaml:"settle"`

	// MaxRate is the fastest that people and machines can draw. A faster fall is a
	// removal, such as a cylinder that is taken off: told, and not booked as used.
	// Default: the tank's Capacity in 20 minutes; 0 g/h: every fall is use.
	MaxRate *MassRate `yaml:"max_rate"`

	// RefillAbove is the gain that is a refill and no noise. Default 200 g; not below
	// Deadband.
	RefillAbove Mass `yaml:"refill_above"`
}

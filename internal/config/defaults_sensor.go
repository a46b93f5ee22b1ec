package config

import (
	"cmp"
	"strings"
	"time"
)

// Every default of a sensor stands here; the doc comment of its field repeats it.
const (
	DefaultInterval          = Duration(10 * time.Second)
	DefaultStaleIntervals    = 3                          // stale_after, in intervals
	DefaultStaleAfterAtLeast = Duration(10 * time.Second) // … but never less than this

	DefaultBus              = "1"
	DefaultAddress          = 0x48
	DefaultGain             = Volts(6_144_000_000)
	DefaultRate             = 128
	DefaultVoltsMarginParts = 20   // volts_min, volts_max: this part of the calibrated span beyond it
	DefaultVoltsEndParts    = 1000 // of a probe of a voltage: this part of the full scale from each of its ends
	DefaultVRef             = Volts(3_300_000_000)
	DefaultGPIOChip         = "0"
	DefaultBridgeInput      = "A128"
	DefaultReferencePT100   = Resistance(430e9)
	DefaultReferencePT1000  = Resistance(4300e9)
	DefaultMains            = Frequency(50e6)
	DefaultFlowGas          = "oxygen"
	DefaultEdge             = "falling"
	DefaultBias             = "pull-up"
	DefaultDebounce         = Duration(time.Millisecond)

	DefaultDivider   = Number(1e9)
	DefaultSupplyMin = Volts(4_500_000_000)
	DefaultSupplyMax = Volts(5_500_000_000)

	DefaultAmbient = Pressure(101_325e9)
	DefaultPurity  = Percent(100_0000)

	DefaultReportParts            = 1000 // report.deadband: this part of the tank's capacity
	DefaultFilterWindow           = 7
	DefaultFilterSigmas           = Number(3e9)
	DefaultHeartbeat              = Duration(5 * time.Minute)
	DefaultConsumptionDeadband    = Mass(50e9)
	DefaultConsumptionSettle      = Duration(3 * time.Minute)
	DefaultConsumptionRefillAbove = Mass(200e9)

	DefaultSimulatedStart              = Mass(1000e9)
	DefaultSimulatedConsumptionPerHour = Mass(35e9)
	DefaultSimulatedDay                = Duration(24 * time.Hour)
	DefaultSimulatedRefillBelow        = Percent(10_0000)
	DefaultSimulatedSeed               = 1
)

// defaultLoopLimits are those of NAMUR NE 43.
func defaultLoopLimits() []Current { return []Current{3_600_000, 3_800_000, 20_500_000, 21_000_000} }

// setDefaults fills in what depends on no driver.
func (s *Sensor) setDefaults() { s.Interval = DefaultInterval }

func (f *Filter) setDefaults() { f.Window, f.Sigmas = DefaultFilterWindow, DefaultFilterSigmas }

func (p *Report) setDefaults() { p.Heartbeat = DefaultHeartbeat }

func (c *Consumption) setDefaults() {
	c.Deadband, c.Settle, c.RefillAbove = DefaultConsumptionDeadband, DefaultConsumptionSettle, DefaultConsumptionRefillAbove
}

func (s *Simulated) setDefaults() {
	s.ConsumptionPerHour, s.Day = DefaultSimulatedConsumptionPerHour, DefaultSimulatedDay
	s.RefillBelow, s.Seed = DefaultSimulatedRefillBelow, DefaultSimulatedSeed
}

// completeSensor fills in what depends on the driver, the signal and the model.
func (r *reader) completeSensor(c *Config, s *Sensor, path string) {
	if !r.stands(path + ".stale_after") {
		s.StaleAfter = max(DefaultStaleIntervals*s.Interval, DefaultStaleAfterAtLeast)
	}
	r.completePlace(s, path)
	if !r.stands(path + ".signal") {
		s.Signal = defaultSignal(s)
	}
	switch s.Driver {
	case DriverADS1115:
		orDefault(r, path+".gain", &s.Gain, DefaultGain)
		orDefault(r, path+".rate", &s.Rate, DefaultRate)
	case DriverMCP3208, DriverMCP3008:
		orDefault(r, path+".vref", &s.VRef, DefaultVRef)
	case DriverHX711:
		orDefault(r, path+".bridge_input", &s.BridgeInput, DefaultBridgeInput)
	case DriverMAX31865:
		r.completeRTD(s, path)
	case DriverSFM:
		orDefault(r, path+".gas", &s.Gas, DefaultFlowGas)
	case DriverPulse:
		orDefault(r, path+".edge", &s.Edge, DefaultEdge)
		orDefault(r, path+".bias", &s.Bias, DefaultBias)
		orDefault(r, path+".debounce", &s.Debounce, DefaultDebounce)
	case DriverSimulated:
		if s.Simulated == nil {
			s.Simulated = new(Simulated)
			s.Simulated.setDefaults()
		}
		s.Simulated.complete(c.Tank(s.Tank), r.stands(path+".simulated.start"))
		return
	}
	if analog(s.Driver) {
		r.completeSignal(s, path)
		r.completeModel(s, path)
		r.completeVolts(s, path)
	}
	if !s.Flow() {
		s.completeReporting(c)
	}
}

// completeReporting gives a chip's values what no config should have to ask for: a
// filter against single outliers, and for a tank whose capacity is known a report by
// exception. Each thousandth of a tank is told at once; a change below it, and a tank
// at rest, cost no writes on the card.
func (s *Sensor) completeReporting(c *Config) {
	if s.Filter == nil {
		s.Filter = new(Filter)
		s.Filter.setDefaults()
	}
	tank := c.Tank(s.Tank)
	if s.Report != nil || s.Auxiliary() || tank == nil || tank.Capacity < DefaultReportParts {
		return
	}
	s.Report = &Report{Deadband: tank.Capacity / DefaultReportParts, Heartbeat: max(DefaultHeartbeat, s.Interval)}
	if s.Consumption != nil {
		s.Report.Deadband = min(s.Report.Deadband, s.Consumption.Deadband)
	}
}

// orDefault gives a key that does not stand its default.
func orDefault[T any](r *reader, path string, value *T, standard T) {
	if !r.stands(path) {
		*value = standard
	}
}

// completePlace fills in where the chip is, and writes buses the one way.
func (r *reader) completePlace(s *Sensor, path string) {
	switch s.Driver {
	case DriverADS1115, DriverSFM:
		orDefault(r, path+".bus", &s.Bus, DefaultBus)
		if bus, ok := busPath(s.Bus); ok {
			s.Bus = bus
		}
		address := uint16(DefaultAddress)
		if s.Driver == DriverSFM {
			address = 0
			if of := sfmAddresses()[s.Part]; len(of) > 0 {
				address = of[0]
			}
		}
		orDefault(r, path+".address", &s.Address, address)
	case DriverMCP3208, DriverMCP3008, DriverMAX31865:
		if spi, ok := spiPath(s.SPI); ok {
			s.SPI = spi
		}
	case DriverHX711, DriverPulse:
		orDefault(r, path+".gpio_chip", &s.GPIOChip, DefaultGPIOChip)
		if chip, ok := gpioPath(s.GPIOChip); ok {
			s.GPIOChip = chip
		}
	case DriverDS18B20:
		s.ID = strings.ToLower(s.ID)
	}
}

func defaultSignal(s *Sensor) string {
	switch s.Driver {
	case DriverADS1115, DriverMCP3208, DriverMCP3008:
		return SignalVoltage
	case DriverHX711:
		return SignalBridge
	case DriverSimulated:
		return ""
	case DriverIIO:
		if iioKind(s.Channel) == KindVoltage {
			return SignalVoltage
		}
	}
	return SignalDirect
}

func (r *reader) completeRTD(s *Sensor, path string) {
	reference := DefaultReferencePT100
	if s.RTD == "PT1000" {
		reference = DefaultReferencePT1000
	}
	orDefault(r, path+".reference", &s.Reference, reference)
	orDefault(r, path+".mains", &s.Mains, DefaultMains)
}

func (r *reader) completeSignal(s *Sensor, path string) {
	switch s.Signal {
	case SignalRatiometric:
		orDefault(r, path+".supply_divider", &s.SupplyDivider, DefaultDivider)
		orDefault(r, path+".supply_min", &s.SupplyMin, DefaultSupplyMin)
		orDefault(r, path+".supply_max", &s.SupplyMax, DefaultSupplyMax)
	case SignalLoop:
		orDefault(r, path+".loop_limits", &s.LoopLimits, defaultLoopLimits())
	case SignalVoltage:
	default:
		return
	}
	orDefault(r, path+".divider", &s.Divider, DefaultDivider)
}

func (r *reader) completeModel(s *Sensor, path string) {
	if !s.Auxiliary() {
		orDefault(r, path+".model", &s.Model, ModelLinear)
	}
	switch s.Model {
	case ModelGas, ModelLOXLevel, ModelWeighed:
		orDefault(r, path+".purity", &s.Purity, DefaultPurity)
	}
	if s.Pressure == PressureGauge {
		orDefault(r, path+".ambient", &s.Ambient, PressureSource{Value: DefaultAmbient})
	}
}

func (s *Simulated) complete(t *Tank, hasStart bool) {
	full := Mass(0)
	if t != nil {
		full = t.Capacity
	}
	if !hasStart {
		s.Start = cmp.Or(full, DefaultSimulatedStart)
	}
	s.Full = cmp.Or(full, s.Start)
}

// completeVolts sets the plausible volts around the calibration, where there is
// one in volts.
func (r *reader) completeVolts(s *Sensor, path string) {
	if s.Signal != SignalVoltage {
		return
	}
	var low, high Volts
	found := false
	for _, p := range s.Calibration {
		if p.Volts == nil {
			continue
		}
		if !found {
			low, high, found = *p.Volts, *p.Volts, true
		}
		low, high = min(low, *p.Volts), max(high, *p.Volts)
	}
	full := s.FullScaleAtSensor()
	switch {
	case found:
		least, most := s.VoltsAround(low, high)
		orDefault(r, path+".volts_min", &s.VoltsMin, least)
		orDefault(r, path+".volts_max", &s.VoltsMax, most)
	case s.Measures == KindVoltage && full > 0:
		orDefault(r, path+".volts_min", &s.VoltsMin, full/DefaultVoltsEndParts)
		orDefault(r, path+".volts_max", &s.VoltsMax, full-full/DefaultVoltsEndParts)
	}
}

// VoltsAround gives the plausible volts around those of a calibration, as VoltsMin and
// VoltsMax have them by default.
func (s *Sensor) VoltsAround(low, high Volts) (least, most Volts) {
	margin := (high - low) / DefaultVoltsMarginParts
	least, most = max(low-margin, low-low/2), high+margin
	if full := s.FullScaleAtSensor(); full > 0 {
		most = min(most, high+(full-high)/2)
	}
	return least, most
}

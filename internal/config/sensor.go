package config

import (
	"math"
	"math/bits"
	"slices"
)

// Driver names.
const (
	DriverADS1115   = "ads1115"
	DriverMCP3208   = "mcp3208"
	DriverMCP3008   = "mcp3008"
	DriverHX711     = "hx711"
	DriverDS18B20   = "ds18b20"
	DriverMAX31865  = "max31865"
	DriverSFM       = "sfm"
	DriverPulse     = "pulse"
	DriverIIO       = "iio"
	DriverSimulated = "simulated"
)

// drivers are the names that sensors[].driver may have.
func drivers() []string {
	return append(analogDrivers(), DriverDS18B20, DriverMAX31865, DriverSFM, DriverPulse, DriverSimulated)
}

// analogDrivers read what a sensor of any kind puts out: they have a signal and a
// calibration. A driver tag calls them "analog".
func analogDrivers() []string {
	return []string{DriverADS1115, DriverMCP3208, DriverMCP3008, DriverHX711, DriverIIO}
}

func analog(driver string) bool { return slices.Contains(analogDrivers(), driver) }

// Signals: the electrical law between sensor and converter.
const (
	SignalVoltage     = "voltage"     // volts, as the calibration says
	SignalRatiometric = "ratiometric" // a part of the sensor's supply: 0.1 is the range's low end, 0.9 its high one
	SignalLoop        = "4-20mA"      // a current, through a shunt
	SignalBridge      = "bridge"      // the converter's code, which only a calibration gives a meaning
	SignalDirect      = "direct"      // the chip gives the quantity itself
)

// Models: from the quantity to the mass of oxygen.
const (
	ModelLinear    = "linear"
	ModelGas       = "gas"
	ModelLOXLevel  = "lox_level"
	ModelWeighed   = "weighed"
	ModelStrapping = "strapping"
)

// References of a pressure.
const (
	PressureGauge    = "gauge"    // against the surroundings: ambient is added
	PressureAbsolute = "absolute" // against a vacuum
)

// Sensor is one measuring channel: on a tank, or a probe that others refer to.
//
// Beside the yaml tags, the tags driver, signal and model name those that a key
// belongs to; "measures:pressure" in the last means a probe of a pressure.
type Sensor struct {
	// Tank is the id of the tank that it measures, or whose flow. A tank has at
	// most one sensor of its content and any number of flow sensors. Must stand
	// where Measures does not.
	Tank string `yaml:"tank"`

	// Name is shown to people: at most MaxNameRunes printable characters, each
	// sensor's its own. Default: empty, and the driver makes one of its kind and
	// place. It must stand where a tank has several sensors, and for a probe,
	// which others refer to by it: that one is a name (see event.ValidName)
	// and begins with a letter.
	Name string `yaml:"name"`

	// Measures makes it a probe on no tank: temperature, pressure or voltage.
	Measures Kind `yaml:"measures"`

	// Driver is one of the Driver constants.
	Driver string `yaml:"driver,required"`

	// Interval is the time from reading to reading. Default 10s, 100ms to 24h, and
	// no shorter than the chip needs.
	Interval Duration `yaml:"interval"`

	// StaleAfter is the time without a good reading after which the sensor is
	// stale. Default three intervals, at least 10s; never below Interval; at
	// most 168h.
	StaleAfter Duration `yaml:"stale_after"`

	// Optional: true lets the process start where the sensor's bus does not
	// exist; its tank then has a fault instead. Default false: no start.
	Optional bool `yaml:"optional"`

	// Bus is the I2C bus: "1", "I2C1" or "/dev/i2c-1". Default "1", the bus on
	// a Raspberry Pi's header. After parsing it is always the device's path.
	Bus string `yaml:"bus" driver:"ads1115,sfm"`

	// Address is the chip's I2C address. ads1115: 0x48 to 0x4b by its ADDR pin
	// (datasheet SBAS444, table of addresses), default 0x48, ADDR to ground. sfm:
	// those of the part, the first by default (see sfmAddresses).
	Address uint16 `yaml:"address" driver:"ads1115,sfm"`

	// Input is the converter's input: 0 to 3 for A0 to A3 of an ads1115, or 0-1,
	// 0-3, 1-3, 2-3, the difference of two; 0 to 7 of an mcp3208 or mcp3008. Must
	// stand.
	Input Input `yaml:"input" driver:"ads1115,mcp3208,mcp3008"`

	// Gain is the full-scale voltage of the programmable amplifier: 6.144 V
	// (default), 4.096 V, 2.048 V, 1.024 V, 512 mV or 256 mV (SBAS444, PGA
	// field of the config register). It is the converter's own: an input must stay
	// within the chip's supply too, which no config can check.
	Gain Volts `yaml:"gain" driver:"ads1115"`

	// Rate is in conversions a second: 8, 16, 32, 64, 128 (default), 250, 475
	// or 860 (SBAS444, DR field of the config register).
	Rate int `yaml:"rate" driver:"ads1115"`

	// SPI is the bus and the chip select: "0.0", "SPI0.0" or "/dev/spidev0.0". Must
	// stand. After parsing it is always the device's path.
	SPI string `yaml:"spi" driver:"mcp3208,mcp3008,max31865"`

	// VRef is the voltage at the converter's reference pin, its full scale. Default
	// 3.3 V, 0.25 V to 5.5 V; the same for every input of a chip.
	VRef Volts `yaml:"vref" driver:"mcp3208,mcp3008"`

	// GPIOChip is the chip of the lines: "0", "gpiochip0", "/dev/gpiochip0", or its label, which other
	// than the number does not change with the kernel: pinctrl-bcm2711.
	// Default 0. After parsing it is always the device's path.
	GPIOChip string `yaml:"gpio_chip" driver:"hx711,pulse"`

	// ClockLine and DataLine are the offsets of PD_SCK and DOUT on GPIOChip. Must
	// stand.
	ClockLine int `yaml:"clock_line" driver:"hx711"`
	DataLine  int `yaml:"data_line" driver:"hx711"`

	// BridgeInput is the chip's input and gain: A128 (default), A64 or B32.
	BridgeInput string `yaml:"bridge_input" driver:"hx711"`

	// ID is the chip's on the 1-Wire bus, as the kernel writes it: 28-0316a2793bff.
	// Must stand.
	ID string `yaml:"id" driver:"ds18b20"`

	// RTD is PT100 or PT1000. Must stand.
	RTD string `yaml:"rtd" driver:"max31865"`

	// Reference is the reference resistor. Default 430 Ohm for a PT100, 4300 Ohm
	// for a PT1000, as the common boards have them.
	Reference Resistance `yaml:"reference" driver:"max31865"`

	// Wires is how many the sensor has: 2, 3 or 4. Must stand.
	Wires int `yaml:"wires" driver:"max31865"`

	// Mains is what the filter takes out: 50 Hz (default) or 60 Hz.
	Mains Frequency `yaml:"mains" driver:"max31865"`

	// Part is the type of Sensirion's flow meter (see sfmAddresses). Must stand.
	Part string `yaml:"part" driver:"sfm"`

	// Gas is what flows: oxygen (default) or air.
	Gas string `yaml:"gas" driver:"sfm"`

	// FlowUnit says at which temperature the part's litre holds: slm is 20 °C, nlm
	// is 0 °C. They differ by 7 %, so it must stand.
	FlowUnit string `yaml:"flow_unit" driver:"sfm"`

	// Line is the offset of the meter's line on GPIOChip. Must stand.
	Line int `yaml:"line" driver:"pulse"`

	// Edge is what is counted: falling (default) or rising.
	Edge string `yaml:"edge" driver:"pulse"`

	// Bias is pull-up (default), pull-down or as-is.
	Bias string `yaml:"bias" driver:"pulse,hx711"`

	// Debounce is how long the line must hold for a pulse to count. Default 1ms, 0s
	// (none) to 1s.
	Debounce Duration `yaml:"debounce" driver:"pulse"`

	// PulsesPerLitre is the meter's factor, more than 0. Must stand.
	PulsesPerLitre Number `yaml:"pulses_per_litre" driver:"pulse"`

	// LinePressure (absolute) and LineTemperature are those of the gas in the meter,
	// which make a mass of its litres. Must stand.
	LinePressure    PressureSource    `yaml:"line_pressure" driver:"pulse"`
	LineTemperature TemperatureSource `yaml:"line_temperature" driver:"pulse"`

	// Device is the kernel's: iio:device0, or the name that it shows there. Must
	// stand.
	Device string `yaml:"device" driver:"iio"`

	// Channel is the device's: in_voltage0, in_temp, in_pressure … Must stand.
	Channel string `yaml:"channel" driver:"iio"`

	// Signal is the electrical law. Default: bridge for hx711, direct for a chip
	// that gives the quantity itself (iio: for in_temp and in_pressure), else
	// voltage. "" for a simulated tank.
	Signal string `yaml:"signal" driver:"analog,ds18b20,max31865,sfm,pulse"`

	// Divider: the volts at the sensor are those at the converter times this.
	// Default 1, at least 1.
	Divider Number `yaml:"divider" driver:"analog" signal:"voltage,ratiometric,4-20mA"`

	// SupplyInput is the input, of the same chip, that measures the sensor's supply.
	// Must stand.
	SupplyInput Input `yaml:"supply_input" driver:"ads1115,mcp3208,mcp3008" signal:"ratiometric"`

	// SupplyDivider is the Divider of SupplyInput. Default 1.
	SupplyDivider Number `yaml:"supply_divider" driver:"ads1115,mcp3208,mcp3008" signal:"ratiometric"`

	// SupplyMin and SupplyMax bound the supply at which the sensor's law holds.
	// Default 4.5 V and 5.5 V.
	SupplyMin Volts `yaml:"supply_min" driver:"ads1115,mcp3208,mcp3008" signal:"ratiometric"`
	SupplyMax Volts `yaml:"supply_max" driver:"ads1115,mcp3208,mcp3008" signal:"ratiometric"`

	// Shunt is the resistor through which the loop's current flows, more than 0. At
	// the last of LoopLimits the converter must not clip. Must stand.
	Shunt Resistance `yaml:"shunt" driver:"analog" signal:"4-20mA"`

	// LoopLimits are four rising currents: up to the first and from the last the
	// transmitter says that it failed; between the first two and the last two the
	// value is uncertain. Default 3.6, 3.8, 20.5 and 21 mA (NAMUR NE 43).
	LoopLimits []Current `yaml:"loop_limits" driver:"analog" signal:"4-20mA"`

	// Range is the quantity at the low and at the high end of the signal's span: 10 %
	// and 90 % of the supply, 4 and 20 mA. Two values that differ, of the kind that
	// Quantity tells; instead of a calibration.
	Range []Quantity `yaml:"range" driver:"analog" signal:"ratiometric,4-20mA"`

	// Calibration turns the signal into the quantity, along the lines through its
	// points: two or more, strictly monotone; exactly two where the model is linear.
	// After parsing they are in rising order of the signal.
	Calibration []CalibrationPoint `yaml:"calibration" driver:"analog" signal:"voltage,ratiometric,4-20mA,bridge"`

	// CalibrationFile is the dated record that `oxyd sensors calibrate` wrote,
	// instead of Calibration. A relative path is taken from the working directory.
	CalibrationFile string `yaml:"calibration_file" driver:"analog" signal:"voltage,ratiometric,4-20mA,bridge"`

	// VoltsMin and VoltsMax bound what a working transducer gives; outside it
	// the reading is a fault (a broken wire, a short). They contain the
	// calibration; VoltsMin is above 0 V, which is what a wire that came off
	// gives, and VoltsMax below the full scale, where the chip clips. Default: a
	// twentieth of the calibration's span beyond it, but at most half the way
	// to 0 V and to the full scale. A probe of a voltage has all but a thousandth of
	// the full scale at each end; of iio, whose full scale only the kernel knows, they
	// must stand there. 0 where a CalibrationFile holds the points: see VoltsAround.
	VoltsMin Volts `yaml:"volts_min" driver:"analog" signal:"voltage"`
	VoltsMax Volts `yaml:"volts_max" driver:"analog" signal:"voltage"`

	// Model makes the mass of the quantity. Default linear for what measures a tank's
	// content, "" for a simulated tank, a flow and a probe.
	Model string `yaml:"model" driver:"analog"`

	// Volume is the vessel's: the water capacity of a cylinder, all of a dewar. Must
	// stand.
	Volume Volume `yaml:"volume" driver:"analog" model:"gas,lox_level"`

	// Pressure is what the transducer's is measured against: gauge or absolute. Must
	// stand.
	Pressure string `yaml:"pressure" driver:"analog" model:"gas,measures:pressure"`

	// Ambient is the absolute pressure around a gauge: a probe that measures an
	// absolute one, or a value. Default 1.01325 bar.
	Ambient PressureSource `yaml:"ambient" driver:"analog" model:"gas,measures:pressure"`

	// Temperature is the gas's: a probe, or an assumed value, with which readings are
	// labelled uncompensated. Must stand.
	Temperature TemperatureSource `yaml:"temperature" driver:"analog" model:"gas"`

	// Reserve is the pressure, against what Pressure says, below which the gas is of
	// no use. Default 0 bar; below the range's high end.
	Reserve Pressure `yaml:"reserve" driver:"analog" model:"gas"`

	// Purity is the share of oxygen. Default 100 %, more than 0 %.
	Purity Percent `yaml:"purity" driver:"analog" model:"gas,lox_level,weighed"`

	// Shell is how much a cylinder's volume grows for each 200 bar. Default 0 %, up
	// to 5 %.
	Shell Percent `yaml:"shell" driver:"analog" model:"gas"`

	// VesselPressure is the absolute one above the liquid, which gives the densities:
	// a probe or a value. Must stand.
	VesselPressure PressureSource `yaml:"vessel_pressure" driver:"analog" model:"lox_level"`

	// Table is the vessel's volume by level, both strictly rising: two rows or more.
	// Must stand, but where a strapping sensor is calibrated in volume.
	Table []TableRow `yaml:"table" driver:"analog" model:"lox_level,strapping"`

	// Density makes a mass of the volume. Must stand.
	Density Density `yaml:"density" driver:"analog" model:"strapping"`

	// ReserveMass is what cannot be used. Default 0 g; below the tank's capacity.
	ReserveMass Mass `yaml:"reserve_mass" driver:"analog" model:"lox_level,weighed"`

	// BoilOff is what a dewar may lose without being taken for leaking. Default
	// 0 %/day, up to 100 %/day.
	BoilOff PercentPerDay `yaml:"boil_off" driver:"analog" model:"lox_level"`

	// Tare is the mass of the empty vessel and what it stands on. Must stand.
	Tare Mass `yaml:"tare" driver:"analog" model:"weighed"`

	// Filter, Report and Consumption say what becomes of the values. A chip's values
	// have a Filter by default, and a Report where the tank's capacity is known: a
	// thousandth of it, and a heartbeat. A simulated tank has neither: every value is
	// taken and told. Nil Consumption: what was consumed is not derived.
	Filter      *Filter      `yaml:"filter" driver:"analog,ds18b20,max31865,simulated"`
	Report      *Report      `yaml:"report" driver:"analog,simulated"`
	Consumption *Consumption `yaml:"consumption" driver:"analog,simulated"`

	// Simulated shapes the made-up tank of the driver "simulated". Not nil
	// for that driver.
	Simulated *Simulated `yaml:"simulated" driver:"simulated"`
}

// Auxiliary reports whether it is a probe on no tank.
func (s *Sensor) Auxiliary() bool { return s.Measures != "" }

// Flow reports whether it measures what flows out of its tank.
func (s *Sensor) Flow() bool { return s.Driver == DriverSFM || s.Driver == DriverPulse }

// Quantity is the kind of what Range and Calibration give, "" where there are
// none: a simulated tank, a flow, a probe of a voltage.
func (s *Sensor) Quantity() Kind {
	switch s.Model {
	case ModelGas, ModelLOXLevel:
		return KindPressure
	case ModelLinear, ModelWeighed:
		return KindMass
	case ModelStrapping:
		if len(s.Table) == 0 && slices.ContainsFunc(s.Calibration, func(p CalibrationPoint) bool { return p.Volume != nil }) {
			return KindVolume
		}
		return KindLevel
	}
	if s.Measures == KindVoltage {
		return ""
	}
	return s.Measures
}

// FullScale is the most that the converter can measure, at its own pin; 0 where
// only the kernel knows it, or the signal is not a voltage.
func (s *Sensor) FullScale() Volts {
	switch s.Driver {
	case DriverADS1115:
		return s.Gain
	case DriverMCP3208, DriverMCP3008:
		return s.VRef
	}
	return 0
}

// FullScaleAtSensor is FullScale before the divider.
func (s *Sensor) FullScaleAtSensor() Volts { return times(s.FullScale(), s.Divider) }

// times gives the volts before a divider.
func times(v Volts, n Number) Volts { return Volts(scaledBy(int64(v), int64(n), 1e9)) }

// scaledBy gives v × n / d, rounded down, or the largest number where that is too
// large. None is negative, and d is not 0.
func scaledBy(v, n, d int64) int64 {
	high, low := bits.Mul64(uint64(v), uint64(n))
	if high >= uint64(d) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(high, low, uint64(d))
	return int64(min(q, math.MaxInt64))
}

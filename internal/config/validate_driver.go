package config

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Bounds of the drivers' own keys.
const (
	MaxGPIOLine = 1<<16 - 1
	MaxDebounce = Duration(time.Second)

	minDS18B20Interval = Duration(time.Second) // 750 ms for a conversion of 12 bits (datasheet, table 2) and the bus
	minHX711Interval   = Duration(625 * time.Millisecond)
	minVRef            = Volts(250_000_000)
	maxVRef            = Volts(5_500_000_000)
)

// validateDriver checks the keys that are the driver's own.
func (r *reader) validateDriver(c *Config, s *Sensor, path string) {
	switch s.Driver {
	case DriverADS1115:
		r.validateADS1115(s, path)
	case DriverMCP3208, DriverMCP3008:
		r.validateSPI(s, path)
		r.validateInput(s, path)
		within(r, path+".vref", s.VRef, minVRef, maxVRef)
	case DriverHX711:
		r.validateHX711(s, path)
	case DriverDS18B20:
		if r.mustStand(path+".id", "the chip's on the 1-Wire bus, such as 28-0316a2793bff") && !w1ID(s.ID) {
			r.fault(path+".id", nil, "%q is not the id of a DS18B20, such as 28-0316a2793bff", shorten(s.ID))
		}
		r.noFaster(s, path, minDS18B20Interval, "a conversion of 12 bits and its reading")
		r.oneOf(path+".signal", s.Signal, SignalDirect)
	case DriverMAX31865:
		r.validateMAX31865(s, path)
	case DriverSFM:
		r.validateSFM(s, path)
	case DriverPulse:
		r.validatePulse(c, s, path)
	case DriverIIO:
		r.validateIIO(s, path)
	case DriverSimulated:
		r.validateSimulated(c, s, path)
	}
}

func (r *reader) validateADS1115(s *Sensor, path string) {
	r.validateBus(s, path)
	if s.Address < 0x48 || s.Address > 0x4b {
		r.fault(path+".address", nil, "0x%02x is not an address of the chip: 0x48 to 0x4b", s.Address)
	}
	r.validateInput(s, path)
	gains := ads1115Gains()
	if !slices.Contains(gains, s.Gain) {
		r.fault(path+".gain", nil, "%v is not a full scale of the chip: %s", s.Gain, listed(gains))
	}
	rates := []int{8, 16, 32, 64, 128, 250, 475, 860}
	if !slices.Contains(rates, s.Rate) {
		r.fault(path+".rate", nil, "%d is not a rate of the chip: %s", s.Rate, listed(rates))
		return
	}
	least := conversion(s.Rate)
	what := "a conversion"
	if s.Signal == SignalRatiometric {
		least, what = 2*least, "two conversions"
	}
	if s.Interval < least {
		r.fault(path+".interval", []string{path + ".rate", path + ".signal"}, "%v is shorter than %s at %d a second%s, which can take %v",
			s.Interval, what, s.Rate, r.byDefault(path+".rate"), least)
	}
}

func ads1115Gains() []Volts {
	return []Volts{6_144_000_000, 4_096_000_000, 2_048_000_000, 1_024_000_000, 512_000_000, 256_000_000}
}

// conversion is how long one can take: the chip's oscillator may be 10 % slow
// (SBAS444, data rate variation), and the bus takes its time too.
func conversion(rate int) Duration { return Duration(time.Second) / Duration(rate) * 5 / 4 }

func (r *reader) validateBus(s *Sensor, path string) {
	if _, ok := busPath(s.Bus); !ok {
		r.fault(path+".bus", nil, "%q is not an I2C bus such as 1 or /dev/i2c-1", shorten(s.Bus))
	}
}

func (r *reader) validateSPI(s *Sensor, path string) {
	if !r.mustStand(path+".spi", "the bus and the chip select, such as 0.0") {
		return
	}
	if _, ok := spiPath(s.SPI); !ok {
		r.fault(path+".spi", nil, "%q is not an SPI bus and chip select such as 0.0 or /dev/spidev0.0", shorten(s.SPI))
	}
}

func (r *reader) validateGPIOChip(s *Sensor, path string) {
	if _, ok := gpioPath(s.GPIOChip); !ok {
		r.fault(path+".gpio_chip", nil, "%q is not a GPIO chip such as 0, gpiochip0, /dev/gpiochip0 or a label", shorten(s.GPIOChip))
	}
}

func (r *reader) validateGPIOLine(path string, line int) {
	if r.mustStand(path, "the line's offset on the chip") {
		within(r, path, line, 0, MaxGPIOLine)
	}
}

// validateInput checks the converter's inputs.
func (r *reader) validateInput(s *Sensor, path string) {
	last, what := 3, "0 to 3, for A0 to A3"
	if s.Driver != DriverADS1115 {
		last, what = 7, "0 to 7"
	}
	if r.mustStand(path+".input", what) {
		r.inputWithin(path+".input", s, s.Input, last)
	}
	if s.Signal != SignalRatiometric {
		return
	}
	supply := path + ".supply_input"
	if !r.mustStand(supply, "the input of the same chip that measures the sensor's supply") {
		return
	}
	r.inputWithin(supply, s, s.SupplyInput, last)
	if s.SupplyInput == s.Input {
		r.fault(supply, []string{path + ".input"}, "%v is input too: the sensor would be measured against itself", s.SupplyInput)
	}
}

func (r *reader) inputWithin(path string, s *Sensor, in Input, last int) {
	switch {
	case in.Minus == 0:
		within(r, path, in.Plus, 0, last)
	case s.Driver != DriverADS1115:
		r.fault(path, nil, "%v is a difference: the driver %s measures against ground, 0 to %d", in, s.Driver, last)
	case !slices.Contains([]Input{{0, 1}, {0, 3}, {1, 3}, {2, 3}}, in):
		r.fault(path, nil, "%v is not a difference of the chip: 0-1, 0-3, 1-3, 2-3", in)
	}
}

// noFaster checks that the interval gives the chip its time.
func (r *reader) noFaster(s *Sensor, path string, least Duration, what string) {
	if s.Interval < least {
		r.fault(path+".interval", nil, "%v is shorter than %s: at least %v", s.Interval, what, least)
	}
}

func (r *reader) validateHX711(s *Sensor, path string) {
	r.validateGPIOChip(s, path)
	r.validateGPIOLine(path+".clock_line", s.ClockLine)
	r.validateGPIOLine(path+".data_line", s.DataLine)
	if s.ClockLine == s.DataLine && r.stands(path+".clock_line") && r.stands(path+".data_line") {
		r.fault(path+".data_line", []string{path + ".clock_line"}, "%d is clock_line too", s.DataLine)
	}
	r.oneOf(path+".bridge_input", s.BridgeInput, "A128", "A64", "B32")
	r.noFaster(s, path, minHX711Interval, "five words at 10 a second, of which the middle one is taken")
}

func (r *reader) validateMAX31865(s *Sensor, path string) {
	r.validateSPI(s, path)
	r.oneOf(path+".signal", s.Signal, SignalDirect)
	if r.mustStand(path+".wires", "how many the sensor has, 2, 3 or 4") {
		within(r, path+".wires", s.Wires, 2, 4)
	}
	if s.Mains != 50e6 && s.Mains != 60e6 {
		r.fault(path+".mains", nil, "%v is not one of 50 Hz, 60 Hz", s.Mains)
	}
	if !r.mustStand(path+".rtd", "PT100 or PT1000") {
		return
	}
	r.oneOf(path+".rtd", s.RTD, "PT100", "PT1000")
	// The chip measures up to its reference; a platinum sensor has 1.385 times its
	// nominal resistance at 100 °C (IEC 60751).
	nominal := Resistance(100e9)
	if s.RTD == "PT1000" {
		nominal = 1000e9
	}
	if least, most := nominal*14/10, nominal*10; s.Reference < least || s.Reference > most {
		r.fault(path+".reference", []string{path + ".rtd"}, "%v%s does not fit a %s: %v to %v, usually %v", s.Reference,
			r.byDefault(path+".reference"), s.RTD, least, most, nominal*43/10)
	}
}

func (r *reader) validateSFM(s *Sensor, path string) {
	r.validateBus(s, path)
	r.oneOf(path+".signal", s.Signal, SignalDirect)
	r.oneOf(path+".gas", s.Gas, "oxygen", "air")
	if r.mustStand(path+".flow_unit", "slm (litres of 20 °C) or nlm (of 0 °C): the part's datasheet says which, and they differ by 7 %") {
		r.oneOf(path+".flow_unit", s.FlowUnit, "slm", "nlm")
	}
	if !r.mustStand(path+".part", listed(sfmParts())) {
		return
	}
	r.oneOf(path+".part", s.Part, sfmParts()...)
	if (s.Part == "SFM3000" || s.Part == "SFM3300") && s.FlowUnit == "nlm" {
		r.fault(path+".flow_unit", []string{path + ".part"}, "the %s counts in slm (its datasheet: litres of 20 °C, 1013 hPa)", s.Part)
	}
	if of := sfmAddresses()[s.Part]; !slices.Contains(of, s.Address) {
		words := make([]string, len(of))
		for i, a := range of {
			words[i] = fmt.Sprintf("0x%02x", a)
		}
		r.fault(path+".address", []string{path + ".part"}, "0x%02x is not an address of the %s: %s", s.Address, s.Part, listed(words))
	}
}

func (r *reader) validatePulse(c *Config, s *Sensor, path string) {
	r.validateGPIOChip(s, path)
	r.validateGPIOLine(path+".line", s.Line)
	r.oneOf(path+".signal", s.Signal, SignalDirect)
	r.oneOf(path+".edge", s.Edge, "rising", "falling")
	r.oneOf(path+".bias", s.Bias, "pull-up", "pull-down", "as-is")
	atMost(r, path+".debounce", s.Debounce, MaxDebounce)
	if r.mustStand(path+".pulses_per_litre", "the meter's factor") && s.PulsesPerLitre == 0 {
		r.fault(path+".pulses_per_litre", nil, "must be more than 0")
	}
	if r.mustStand(path+".line_pressure", "the absolute pressure in the meter, a probe or a value such as 4 bar") {
		r.pressureSource(c, path+".line_pressure", s.LinePressure)
		atMost(r, path+".line_pressure", s.LinePressure.Value, MaxGasPressure)
	}
	if r.mustStand(path+".line_temperature", "the gas's in the meter, a probe or a value such as 20 °C") {
		r.temperatureSource(c, path+".line_temperature", s.LineTemperature)
		if s.LineTemperature.Probe == "" {
			within(r, path+".line_temperature", s.LineTemperature.Value, MinGasTemperature, MaxGasTemperature)
		}
	}
}

func (r *reader) validateIIO(s *Sensor, path string) {
	if r.mustStand(path+".device", "the kernel's, such as iio:device0, or the name it has there") &&
		!regexp.MustCompile(iioDevicePattern).MatchString(s.Device) {
		r.fault(path+".device", nil, "%q is not a device such as iio:device0", shorten(s.Device))
	}
	if r.mustStand(path+".channel", "the device's, such as in_voltage0") && iioKind(s.Channel) == "" {
		r.fault(path+".channel", nil, "%q is not a channel such as in_voltage0, in_temp or in_pressure", shorten(s.Channel))
	}
}

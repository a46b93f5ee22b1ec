package sensors

import (
	"time"

	"periph.io/x/conn/v3/physic"
)

// The drivers that a Spec can name.
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

// Spec says in plain values what one channel is: which chip, what stands on its wire,
// what that means, and what is made of it. Values are in SI units. Fields of another
// driver, signal or model than the named one are ignored.
type Spec struct {
	Tank string // "" for an auxiliary probe
	Name string // unique; "" makes one of the driver and the place, of a tank's channel
	// Measures is what an auxiliary probe gives to the models that name it: Temperature,
	// Pressure or Voltage.
	Measures Quantity
	Driver   string

	Interval   time.Duration // between two reads, > 0
	StaleAfter time.Duration // 0 means three intervals
	Optional   bool          // its bus and chip may be absent

	// Capacity is the mass of the full tank; 0 means unknown. More than that is a
	// fault. A simulated tank has its own.
	Capacity physic.Mass

	Device DeviceSpec
	Wire   WireSpec
	// Scale turns where the sensor stands into the quantity that it measures: over
	// volts, counts, or parts of its span, which is 10 % (0) to 90 % (1) of a supply, or
	// 4 mA (0) to 20 mA (1).
	// Empty where the chip gives the quantity itself.
	Scale     []ScalePoint
	Model     ModelSpec
	Meter     MeterSpec // of a pulse meter
	Refine    RefineSpec
	Simulated SimulatedOptions
}

// DeviceSpec says which input of which chip is read.
type DeviceSpec struct {
	Bus     string // I2C: "1", "I2C1" or "/dev/i2c-1"
	Address uint16 // on it; 0 means the chip's first
	Input   string // "0", or "0-1" between two; "" means the first

	Gain physic.ElectricPotential // ADS1115, as the full scale: 0 means 6.144 V
	Rate int                      // ADS1115, samples a second: 0 means 128

	SPI  string  // MCP3x08, MAX31865: "0.0"
	VRef float64 // MCP3x08: volts

	RTD       string  // MAX31865: PT100 or PT1000
	Reference float64 // ohms
	Wires     int
	Mains     int // hertz

	GPIOChip            string // HX711, pulse: "gpiochip0", or a label
	ClockLine, DataLine int    // HX711
	Bridge              string // HX711: A128, A64 or B32; "" means A128
	Line                int    // pulse
	Edge, Bias          string
	Debounce            time.Duration

	ID string // DS18B20: 28-0316a2793bff

	IIODevice, IIOChannel string

	Part, Gas, FlowUnit string // SFM
}

// WireSpec says what stands on the sensor's wire.
type WireSpec struct {
	Signal  Signal  // "" means what the chip gives: volts, counts or the quantity
	Divider float64 // volts at the sensor for one at the converter; 0 means 1

	VoltsMin, VoltsMax float64 // SignalVoltage: the valid range, VoltsMin above 0

	// SignalRatiometric: the input of the same chip that measures the supply.
	SupplyInput          string
	SupplyDivider        float64 // 0 means 1
	SupplyMin, SupplyMax float64 // 0 means DefaultSupplyMin, DefaultSupplyMax

	Shunt      float64    // SignalLoop: ohms
	LoopLimits LoopLimits // zero means NE43
}

// complete fills in what the config may leave out.
func (s *Spec) complete() {
	d, w := &s.Device, &s.Wire
	if s.Model.Kind == "" {
		s.Model.Kind = ModelLinear
	}
	if s.Driver == DriverADS1115 {
		if d.Address == 0 {
			d.Address = DefaultADS1115Address
		}
		if d.Gain == 0 {
			d.Gain = DefaultADS1115FullScale
		}
		if d.Rate == 0 {
			d.Rate = DefaultADS1115Rate
		}
	}
	for _, divider := range []*float64{&w.Divider, &w.SupplyDivider} {
		if *divider == 0 {
			*divider = 1
		}
	}
	if w.SupplyMin == 0 {
		w.SupplyMin = DefaultSupplyMin
	}
	if w.SupplyMax == 0 {
		w.SupplyMax = DefaultSupplyMax
	}
	if w.LoopLimits == (LoopLimits{}) {
		w.LoopLimits = NE43
	}
}

package config

import (
	"fmt"
	"strings"

	"periph.io/x/conn/v3/physic"
)

// The quantities of sensors. Each is a whole number of small steps, so that a
// value of the file is held exactly, and gives its SI value with SI. None but a
// Temperature and Counts is ever negative.

// Pressure is in nanopascals: "200 bar", "101.325 kPa". Units: Pa, hPa, mbar,
// kPa, bar, MPa, psi (6894.757293168 Pa; rounded to a nanopascal).
type Pressure physic.Pressure

// Temperature is in nanokelvins above absolute zero: "20 °C", "-18.5 C", "293 K".
type Temperature physic.Temperature

// Volume is in nanolitres: "50 L", "0.05 m3". Units: mL, L (l), m3 (m³).
type Volume int64

// Length is in nanometres: "500 mm". Units: mm, cm, m.
type Length physic.Distance

// Resistance is in nanoohms: "100 Ohm", "4.3 kOhm" (also Ω, kΩ, ohm).
type Resistance physic.ElectricResistance

// Current is in nanoamperes: "20.5 mA". Units: uA, mA, A.
type Current physic.ElectricCurrent

// MassRate is in nanograms an hour: "500 g/min", "0.8 kg/h". Units: g/h, g/min,
// g/s, kg/h, kg/min.
type MassRate int64

// MassChange is a mass that may be negative: "-20 g".
type MassChange physic.Mass

// RateChange is a MassRate that may be negative: "-5 g/h".
type RateChange int64

// PercentPerDay is in ten-thousandths of a percent: "1.5 %/day", "1.5 %/d".
type PercentPerDay int64

// Density is in micrograms a cubic metre: "1141 kg/m3". Units: kg/m3 (kg/m³),
// g/L, kg/L.
type Density int64

// Frequency is in microhertz: "50 Hz".
type Frequency physic.Frequency

// zeroCelsius is 0 °C in nanokelvins.
const zeroCelsius = 273_150_000_000

func pressureUnits() []unit {
	return []unit{
		{name: "Pa", size: 1e9}, {name: "bar", size: 1e14}, {name: "kPa", size: 1e12}, {name: "MPa", size: 1e15},
		{name: "hPa", size: 1e11}, {name: "mbar", size: 1e11},
		{name: "psi", size: 6_894_757_293_168, rounds: true}, // 0.45359237 kg × 9.80665 m/s² / (25.4 mm)²
	}
}

func temperatureUnits() []unit {
	return []unit{{name: "C", size: 1e9}, {name: "°C", size: 1e9}, {name: "K", size: 1e9}}
}

func volumeUnits() []unit {
	return []unit{{name: "mL", size: 1e6}, {name: "L", size: 1e9}, {name: "m3", size: 1e12},
		{name: "ml", size: 1e6}, {name: "l", size: 1e9}, {name: "m³", size: 1e12}}
}

func lengthUnits() []unit {
	return []unit{{name: "cm", size: 1e7}, {name: "mm", size: 1e6}, {name: "m", size: 1e9}}
}

func resistanceUnits() []unit {
	return []unit{{name: "ohm", size: 1e9}, {name: "Ohm", size: 1e9}, {name: "kOhm", size: 1e12},
		{name: "\u03a9", size: 1e9}, {name: "k\u03a9", size: 1e12}, // the Greek letter
		{name: "\u2126", size: 1e9}, {name: "k\u2126", size: 1e12}} // the ohm sign, which looks the same
}

func currentUnits() []unit {
	return []unit{{name: "uA", size: 1e3}, {name: "mA", size: 1e6}, {name: "A", size: 1e9}}
}

func massRateUnits() []unit {
	return []unit{{name: "g/h", size: 1e9}, {name: "g/min", size: 60e9}, {name: "kg/h", size: 1e12},
		{name: "g/s", size: 3600e9}, {name: "kg/min", size: 60e12}}
}

func percentPerDayUnits() []unit {
	return []unit{{name: "%/day", size: 1e4}, {name: "%/d", size: 1e4}}
}

func densityUnits() []unit {
	return []unit{{name: "g/L", size: 1e9}, {name: "kg/m3", size: 1e9}, {name: "kg/L", size: 1e12}, {name: "kg/m³", size: 1e9}}
}

func frequencyUnits() []unit { return []unit{{name: "Hz", size: 1e6}} }

// UnmarshalText parses a pressure such as "200 bar".
func (p *Pressure) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanopascal", pressureUnits())
	*p = Pressure(n)
	return err
}

// String gives the pressure in bar, exactly.
func (p Pressure) String() string { return decimal(int64(p), 1e14) + " bar" }

// SI gives pascals.
func (p Pressure) SI() float64 { return float64(p) / 1e9 }

// UnmarshalText parses a temperature such as "-18.5 °C".
func (t *Temperature) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	magnitude, negative := cutSign(s)
	n, err := quantity(magnitude, "a nanokelvin", temperatureUnits())
	if err != nil {
		return err
	}
	if negative {
		n = -n
	}
	if _, name := cutNumber(magnitude); name != "K" {
		if n > MaxTemperature.nano()-zeroCelsius {
			return fmt.Errorf("%s is too hot to be meant", s)
		}
		n += zeroCelsius
	}
	switch {
	case n < 0:
		return fmt.Errorf("%s is below absolute zero", s)
	case n > MaxTemperature.nano():
		return fmt.Errorf("%s is too hot to be meant", s)
	}
	*t = Temperature(n)
	return nil
}

// MaxTemperature bounds every temperature of a config.
const MaxTemperature = Temperature(10_000e9)

func (t Temperature) nano() int64 { return int64(t) }

// String gives the temperature in degrees Celsius, exactly.
func (t Temperature) String() string {
	n, sign := int64(t)-zeroCelsius, ""
	if n < 0 {
		n, sign = -n, "-"
	}
	return sign + decimal(n, 1e9) + " °C"
}

// SI gives kelvins.
func (t Temperature) SI() float64 { return float64(t) / 1e9 }

// UnmarshalText parses a volume such as "50 L".
func (v *Volume) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanolitre", volumeUnits())
	*v = Volume(n)
	return err
}

// String gives the volume in litres, exactly.
func (v Volume) String() string { return decimal(int64(v), 1e9) + " L" }

// SI gives cubic metres.
func (v Volume) SI() float64 { return float64(v) / 1e12 }

// UnmarshalText parses a length such as "500 mm".
func (l *Length) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanometre", lengthUnits())
	*l = Length(n)
	return err
}

// String gives the length in millimetres, exactly.
func (l Length) String() string { return decimal(int64(l), 1e6) + " mm" }

// SI gives metres.
func (l Length) SI() float64 { return float64(l) / 1e9 }

// UnmarshalText parses a resistance such as "100 Ohm".
func (r *Resistance) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanoohm", resistanceUnits())
	*r = Resistance(n)
	return err
}

// String gives the resistance in ohms, exactly.
func (r Resistance) String() string { return decimal(int64(r), 1e9) + " Ohm" }

// SI gives ohms.
func (r Resistance) SI() float64 { return float64(r) / 1e9 }

// UnmarshalText parses a current such as "20.5 mA".
func (c *Current) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanoampere", currentUnits())
	*c = Current(n)
	return err
}

// String gives the current in milliamperes, exactly.
func (c Current) String() string { return decimal(int64(c), 1e6) + " mA" }

// SI gives amperes.
func (c Current) SI() float64 { return float64(c) / 1e9 }

// UnmarshalText parses a rate such as "500 g/min".
func (r *MassRate) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanogram an hour", massRateUnits())
	*r = MassRate(n)
	return err
}

// String gives the rate in grams an hour, exactly.
func (r MassRate) String() string { return decimal(int64(r), 1e9) + " g/h" }

// SI gives kilograms a second.
func (r MassRate) SI() float64 { return float64(r) / 1e12 / 3600 }

// UnmarshalText parses a change such as "-20 g".
func (c *MassChange) UnmarshalText(text []byte) error {
	magnitude, negative := cutSign(string(text))
	var m Mass
	err := m.UnmarshalText([]byte(magnitude))
	*c = MassChange(m)
	if negative {
		*c = -*c
	}
	return err
}

// String gives the change in grams, exactly.
func (c MassChange) String() string {
	if c < 0 {
		return "-" + Mass(-c).String()
	}
	return Mass(c).String()
}

// UnmarshalText parses a rate such as "-5 g/h".
func (r *RateChange) UnmarshalText(text []byte) error {
	magnitude, negative := cutSign(string(text))
	var m MassRate
	err := m.UnmarshalText([]byte(magnitude))
	*r = RateChange(m)
	if negative {
		*r = -*r
	}
	return err
}

// String gives the rate in grams an hour, exactly.
func (r RateChange) String() string {
	if r < 0 {
		return "-" + MassRate(-r).String()
	}
	return MassRate(r).String()
}

// SI gives kilograms a second.
func (r RateChange) SI() float64 { return float64(r) / 1e12 / 3600 }

// cutSign takes the minus sign, also the one of typesetters, from a number.
func cutSign(text string) (magnitude string, negative bool) {
	text = strings.TrimSpace(text)
	if magnitude, negative = strings.CutPrefix(text, "-"); negative {
		return magnitude, true
	}
	return strings.CutPrefix(text, "\u2212")
}

// UnmarshalText parses a share of a day such as "1.5 %/day".
func (p *PercentPerDay) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a ten-thousandth of a percent", percentPerDayUnits())
	*p = PercentPerDay(n)
	return err
}

// String gives the share, exactly.
func (p PercentPerDay) String() string { return decimal(int64(p), 1e4) + " %/day" }

// Fraction gives the share of a day as a fraction: 0.01 for "1 %/day".
func (p PercentPerDay) Fraction() float64 { return float64(p) / 1e6 }

// UnmarshalText parses a density such as "1141 kg/m3".
func (d *Density) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a microgram a cubic metre", densityUnits())
	*d = Density(n)
	return err
}

// String gives the density in kilograms a cubic metre, exactly.
func (d Density) String() string { return decimal(int64(d), 1e9) + " kg/m3" }

// SI gives kilograms a cubic metre.
func (d Density) SI() float64 { return float64(d) / 1e9 }

// UnmarshalText parses a frequency such as "50 Hz".
func (f *Frequency) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a microhertz", frequencyUnits())
	*f = Frequency(n)
	return err
}

// String gives the frequency in hertz, exactly.
func (f Frequency) String() string { return decimal(int64(f), 1e6) + " Hz" }

// SI gives hertz.
func (f Frequency) SI() float64 { return float64(f) / 1e6 }

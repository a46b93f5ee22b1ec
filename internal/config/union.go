package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a physical quantity is a quantity of.
type Kind string

// The kinds. A calibration point's key of the quantity is the kind's word.
const (
	KindPressure    Kind = "pressure"
	KindTemperature Kind = "temperature"
	KindLevel       Kind = "level"
	KindMass        Kind = "mass"
	KindVolume      Kind = "volume"
	KindVoltage     Kind = "voltage"
)

// Quantity is a value whose unit says of what kind it is: "250 bar" is a pressure,
// "1.2 m" a level. Steps are those of the kind's own type. There is no voltage.
type Quantity struct {
	Kind  Kind
	Steps int64
}

// UnmarshalText parses a pressure, temperature, level, mass or volume.
func (q *Quantity) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	magnitude, _ := cutSign(s)
	number, name := cutNumber(magnitude)
	for _, kind := range []Kind{KindPressure, KindTemperature, KindLevel, KindMass, KindVolume} {
		if !slices.ContainsFunc(unitsOf(kind), func(u unit) bool { return u.name == name }) {
			continue
		}
		steps, err := stepsOf(kind, text)
		*q = Quantity{kind, steps}
		return err
	}
	switch {
	case strings.HasPrefix(name, ","):
		return fmt.Errorf("%q: write the fraction with a point", s)
	case !plainDecimal(number):
		return fmt.Errorf("%q is not a number with a unit such as bar, °C, mm, kg or L", s)
	case name == "":
		return errors.New("needs a unit such as bar, °C, mm, kg or L")
	}
	return fmt.Errorf("%q has no unit that is known here: use one of a pressure, temperature, length, mass or volume", s)
}

func unitsOf(kind Kind) []unit {
	switch kind {
	case KindPressure:
		return pressureUnits()
	case KindTemperature:
		return temperatureUnits()
	case KindLevel:
		return lengthUnits()
	case KindMass:
		return massUnits()
	default:
		return volumeUnits()
	}
}

func stepsOf(kind Kind, text []byte) (int64, error) {
	switch kind {
	case KindPressure:
		var p Pressure
		err := p.UnmarshalText(text)
		return int64(p), err
	case KindTemperature:
		var t Temperature
		err := t.UnmarshalText(text)
		return int64(t), err
	case KindLevel:
		var l Length
		err := l.UnmarshalText(text)
		return int64(l), err
	case KindMass:
		var m Mass
		err := m.UnmarshalText(text)
		return int64(m), err
	default:
		var v Volume
		err := v.UnmarshalText(text)
		return int64(v), err
	}
}

// String gives the value as its kind does.
func (q Quantity) String() string {
	switch q.Kind {
	case KindPressure:
		return Pressure(q.Steps).String()
	case KindTemperature:
		return Temperature(q.Steps).String()
	case KindLevel:
		return Length(q.Steps).String()
	case KindMass:
		return Mass(q.Steps).String()
	case KindVolume:
		return Volume(q.Steps).String()
	}
	return strconv.FormatInt(q.Steps, 10)
}

// SI gives the value in pascals, kelvins, metres, kilograms or cubic metres.
func (q Quantity) SI() float64 {
	switch q.Kind {
	case KindPressure:
		return Pressure(q.Steps).SI()
	case KindTemperature:
		return Temperature(q.Steps).SI()
	case KindLevel:
		return Length(q.Steps).SI()
	case KindMass:
		return Mass(q.Steps).SI()
	case KindVolume:
		return Volume(q.Steps).SI()
	}
	return float64(q.Steps)
}

// SI gives kilograms.
func (m Mass) SI() float64 { return float64(m) / 1e12 }

// TemperatureSource is the name of a probe that measures a temperature, or an
// assumed value. The zero value is neither.
type TemperatureSource struct {
	Probe string
	Value Temperature // where Probe is ""
}

// UnmarshalText takes what begins with a letter for the name of a probe, and all
// else for a value.
func (s *TemperatureSource) UnmarshalText(text []byte) error {
	if name := strings.TrimSpace(string(text)); beginsWithLetter(name) {
		*s = TemperatureSource{Probe: name}
		return nil
	}
	*s = TemperatureSource{}
	return s.Value.UnmarshalText(text)
}

// String gives the name or the value.
func (s TemperatureSource) String() string {
	if s.Probe != "" {
		return s.Probe
	}
	return s.Value.String()
}

// PressureSource is the name of a probe that measures a pressure, or a fixed
// value. The zero value is neither.
type PressureSource struct {
	Probe string
	Value Pressure // where Probe is ""
}

// UnmarshalText takes what begins with a letter for the name of a probe, and all
// else for a value.
func (s *PressureSource) UnmarshalText(text []byte) error {
	if name := strings.TrimSpace(string(text)); beginsWithLetter(name) {
		*s = PressureSource{Probe: name}
		return nil
	}
	*s = PressureSource{}
	return s.Value.UnmarshalText(text)
}

// String gives the name or the value.
func (s PressureSource) String() string {
	if s.Probe != "" {
		return s.Probe
	}
	return s.Value.String()
}

func beginsWithLetter(text string) bool {
	return text != "" && ('a' <= text[0] && text[0] <= 'z' || 'A' <= text[0] && text[0] <= 'Z')
}

// Input is one input of a converter: "2" against ground, or "0-1", the difference
// of two.
type Input struct {
	Plus  int
	Minus int // 0: against ground. No chip here has its input 0 as the lower one.
}

// UnmarshalText parses an input. Which ones a chip has is the driver's to say.
func (in *Input) UnmarshalText(text []byte) error {
	plus, minus, differential := strings.Cut(strings.TrimSpace(string(text)), "-")
	p, err := wholeNumber(plus)
	m := uint32(0)
	if err == nil && differential {
		m, err = wholeNumber(minus)
	}
	if err != nil || differential && m == 0 {
		return fmt.Errorf("%q is not an input such as 2 or 0-1", shorten(string(text)))
	}
	*in = Input{int(p), int(m)}
	return nil
}

// String gives the input as it is written.
func (in Input) String() string {
	if in.Minus == 0 {
		return strconv.Itoa(in.Plus)
	}
	return strconv.Itoa(in.Plus) + "-" + strconv.Itoa(in.Minus)
}

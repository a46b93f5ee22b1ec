package config

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
	"time"

	"periph.io/x/conn/v3/physic"
)

// Mass is an amount of what the tanks hold, in whole nanograms: "850 g",
// "14.3 kg". Units: mg, g, kg, t. Never negative, at most MaxMass.
type Mass physic.Mass

// Duration is a span of time as Go writes it: "5s", "1h30m", "168h". Never
// negative. Days are written as hours.
type Duration time.Duration

// Percent is a share of a whole in millionths: "20 %" is 200 000.
type Percent int64

// Size is a number of bytes: "64 MiB", "512KiB". Units: B, KiB, MiB, GiB, and
// the decimal kB, MB, GB.
type Size int64

// Volts is a voltage in whole nanovolts: "0.5 V", "500 mV". Never negative.
type Volts physic.ElectricPotential

// MaxMass is the largest amount that an event can carry: 10⁹ g.
const MaxMass = Mass(1e18)

// unit is a name after a number and what one of it is worth.
type unit struct {
	name string
	size int64
	// rounds: one of it is no whole number of steps, so that a value in it is
	// rounded to the nearest step instead of refused.
	rounds bool
}

func massUnits() []unit {
	return []unit{{name: "mg", size: 1e6}, {name: "g", size: 1e9}, {name: "kg", size: 1e12}, {name: "t", size: 1e15}}
}

func sizeUnits() []unit {
	return []unit{
		{name: "B", size: 1}, {name: "KiB", size: 1 << 10}, {name: "MiB", size: 1 << 20}, {name: "GiB", size: 1 << 30},
		{name: "kB", size: 1e3}, {name: "MB", size: 1e6}, {name: "GB", size: 1e9},
	}
}

func voltUnits() []unit {
	return []unit{{name: "uV", size: 1e3}, {name: "mV", size: 1e6}, {name: "V", size: 1e9}}
}

func percentUnits() []unit { return []unit{{name: "%", size: 1e4}} }

// UnmarshalText parses a mass such as "14.3 kg".
func (m *Mass) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanogram", massUnits())
	if err == nil && n > int64(MaxMass) {
		err = fmt.Errorf("%s is more than 1000000 kg", text)
	}
	*m = Mass(n)
	return err
}

// String gives the mass in grams, exactly.
func (m Mass) String() string { return decimal(int64(m), 1e9) + " g" }

// UnmarshalText parses a duration such as "168h".
func (d *Duration) UnmarshalText(text []byte) error {
	s := strings.ReplaceAll(string(text), " ", "")
	v, err := time.ParseDuration(s)
	switch {
	case strings.Trim(s, "0123456789.") == "": // also 0, which ParseDuration takes
		return errors.New("needs a unit such as s, m or h")
	case err != nil && strings.HasSuffix(s, "d"):
		return fmt.Errorf("%q is not a duration: write days as hours, such as 168h", text)
	case err != nil:
		return fmt.Errorf("%q is not a duration such as 5s, 1h30m or 168h", text)
	case v < 0:
		return errors.New("must not be negative")
	}
	*d = Duration(v)
	return nil
}

// String gives the duration without empty parts: 168h, not 168h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// UnmarshalText parses a percentage such as "20 %".
func (p *Percent) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a ten-thousandth of a percent", percentUnits())
	*p = Percent(n)
	return err
}

// String gives the percentage, exactly.
func (p Percent) String() string { return decimal(int64(p), 1e4) + " %" }

// Float gives the percentage as a number: 20 for "20 %".
func (p Percent) Float() float64 { return float64(p) / 1e4 }

// Of gives that share of m, rounded down to a nanogram. p is at most 100 %.
func (p Percent) Of(m Mass) Mass {
	high, low := bits.Mul64(uint64(m), uint64(p))
	share, _ := bits.Div64(high, low, 100_0000)
	return Mass(share)
}

// UnmarshalText parses a size such as "64 MiB".
func (s *Size) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a byte", sizeUnits())
	*s = Size(n)
	return err
}

// String gives the size in the largest binary unit that leaves no fraction.
func (s Size) String() string {
	for _, u := range []unit{{name: "GiB", size: 1 << 30}, {name: "MiB", size: 1 << 20}, {name: "KiB", size: 1 << 10}} {
		if int64(s) >= u.size && int64(s)%u.size == 0 {
			return fmt.Sprintf("%d %s", int64(s)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", int64(s))
}

// UnmarshalText parses a voltage such as "500 mV".
func (v *Volts) UnmarshalText(text []byte) error {
	n, err := quantity(string(text), "a nanovolt", voltUnits())
	*v = Volts(n)
	return err
}

// String gives the voltage in volts, exactly.
func (v Volts) String() string { return decimal(int64(v), 1e9) + " V" }

// Float gives the voltage in volts.
func (v Volts) Float() float64 { return float64(v) / 1e9 }

// maxDigits bounds a number before it is parsed: 10⁹ g in nanograms has 19.
const maxDigits = 40

// quantity parses a plain decimal number followed by one of units and gives it
// in the smallest step, exactly: no float ever holds it. least names the step
// for the message about a number that is finer.
func quantity(text, least string, units []unit) (int64, error) {
	text = strings.TrimSpace(text)
	number, name := cutNumber(text)
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, errors.New("must not be negative")
	case strings.HasPrefix(name, ","):
		return 0, fmt.Errorf("%q: write the fraction with a point", text)
	case !plainDecimal(number):
		return 0, fmt.Errorf("%q is not a number with a unit such as %s", text, someUnits(units))
	case name == "":
		return 0, fmt.Errorf("needs a unit such as %s", someUnits(units))
	}
	for _, u := range units {
		if u.name == name {
			return scaled(number, u, least)
		}
	}
	return 0, fmt.Errorf("%q has no unit that is known here: use %s", text, allUnits(units))
}

// cutNumber parts a number from the unit that follows.
func cutNumber(text string) (number, name string) {
	end := 0
	for end < len(text) && strings.IndexByte("0123456789.", text[end]) >= 0 {
		end++
	}
	return text[:end], strings.TrimSpace(text[end:])
}

func scaled(number string, u unit, least string) (int64, error) {
	value, ok := new(big.Rat).SetString(number)
	if !ok { // cannot be: number is digits and at most one point
		return 0, fmt.Errorf("%q is not a number", number)
	}
	value.Mul(value, new(big.Rat).SetInt64(u.size))
	if u.rounds {
		value.SetString(value.FloatString(0)) // a whole number: it cannot fail
	}
	switch {
	case !value.IsInt():
		return 0, fmt.Errorf("%s %s is finer than %s", number, u.name, least)
	case !value.Num().IsInt64():
		return 0, fmt.Errorf("%s %s is too large", number, u.name)
	}
	return value.Num().Int64(), nil
}

// plainDecimal reports whether s is digits, with at most one point between them.
func plainDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return len(s) <= maxDigits && whole != "" && (!point || fraction != "") && !strings.Contains(fraction, ".")
}

// decimal writes n/one in shortest form; one is a power of ten.
func decimal(n, one int64) string {
	digits := len(fmt.Sprint(one)) - 1
	s := fmt.Sprintf("%d.%0*d", n/one, digits, n%one)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func someUnits(units []unit) string {
	switch len(units) {
	case 1:
		return units[0].name
	case 2:
		return units[0].name + " or " + units[1].name
	}
	return units[1].name + " or " + units[2].name
}

func allUnits(units []unit) string {
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.name
	}
	return strings.Join(names, ", ")
}

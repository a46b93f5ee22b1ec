package config

import (
	"encoding"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// si is a quantity that can be read, shown and worked with.
type si interface {
	encoding.TextUnmarshaler
	fmt.Stringer
	SI() float64
}

// FC-73: one atmosphere in every unit.
func TestFC73PressureUnits(t *testing.T) {
	for _, text := range []string{"1013.25 mbar", "101325 Pa", "1.01325 bar", "14.6959 psi", "101.325 kPa", "1013.25 hPa", "0.101325 MPa"} {
		var p Pressure
		if err := p.UnmarshalText([]byte(text)); err != nil || math.Abs(p.SI()-101325) > 1 {
			t.Errorf("%s is %v Pa, %v", text, p.SI(), err)
		}
	}
	for text, want := range map[string]string{
		"1013.25": "needs a unit such as bar or kPa", "1 atm": "use Pa, bar, kPa, MPa, hPa, mbar, psi", "1 Bar": "no unit", "-1 bar": "must not be negative",
		"1 pa": "no unit", "1,5 bar": "with a point", "1e5 Pa": "no unit", "99999999999 bar": "too large",
	} {
		if err := new(Pressure).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}

func TestSIQuantities(t *testing.T) {
	for _, tc := range []struct {
		into si
		text string
		want float64
		err  string
	}{
		{new(Pressure), "35 MPa", 35e6, ""},
		{new(Temperature), "20 °C", 293.15, ""},
		{new(Temperature), "20C", 293.15, ""},
		{new(Temperature), "-40 °C", 233.15, ""},
		{new(Temperature), "\u221240 °C", 233.15, ""},
		{new(Temperature), "-273.15 °C", 0, ""},
		{new(Temperature), "293.15 K", 293.15, ""},
		{new(Temperature), "20", 0, "needs a unit such as °C or K"},
		{new(Temperature), "-273.16 °C", 0, "below absolute zero"},
		{new(Temperature), "-1 K", 0, "below absolute zero"},
		{new(Temperature), "70 F", 0, "use C, °C, K"},
		{new(Temperature), "9999999999 °C", 0, "too"},
		{new(Temperature), "--1 °C", 0, "negative"},
		{new(Volume), "50 L", 0.05, ""},
		{new(Volume), "50 l", 0.05, ""},
		{new(Volume), "0.05 m3", 0.05, ""},
		{new(Volume), "0.05 m³", 0.05, ""},
		{new(Volume), "50000 mL", 0.05, ""},
		{new(Volume), "50", 0, "needs a unit such as L or m3"},
		{new(Length), "1.2 m", 1.2, ""},
		{new(Length), "120 cm", 1.2, ""},
		{new(Length), "1200 mm", 1.2, ""},
		{new(Length), "1 km", 0, "use cm, mm, m"},
		{new(Resistance), "4.3 kOhm", 4300, ""},
		{new(Resistance), "100 Ω", 100, ""},
		{new(Resistance), "100 \u2126", 100, ""},
		{new(Resistance), "100 ohm", 100, ""},
		{new(Resistance), "100", 0, "needs a unit such as Ohm or kOhm"},
		{new(Current), "20.5 mA", 0.0205, ""},
		{new(Current), "21", 0, "needs a unit such as mA or A"},
		{new(MassRate), "600 g/min", 0.01, ""},
		{new(MassRate), "36 kg/h", 0.01, ""},
		{new(MassRate), "36000 g/h", 0.01, ""},
		{new(MassRate), "10 g/s", 0.01, ""},
		{new(MassRate), "10 g", 0, "use g/h, g/min, kg/h, g/s, kg/min"},
		{new(RateChange), "-36 kg/h", -0.01, ""},
		{new(Density), "1141 kg/m3", 1141, ""},
		{new(Density), "1.141 kg/L", 1141, ""},
		{new(Density), "1141 g/L", 1141, ""},
		{new(Density), "1141", 0, "needs a unit such as kg/m3 or kg/L"},
		{new(Frequency), "50 Hz", 50, ""},
		{new(Frequency), "50", 0, "needs a unit such as Hz"},
		{new(Quantity), "250 bar", 25e6, ""},
		{new(Quantity), "-10 °C", 263.15, ""},
		{new(Quantity), "10 mm", 0.01, ""},
		{new(Quantity), "10 kg", 10, ""},
		{new(Quantity), "10 L", 0.01, ""},
		{new(Quantity), "10", 0, "needs a unit such as bar, °C, mm, kg or L"},
		{new(Quantity), "10 V", 0, "no unit that is known here"},
		{new(Quantity), "-10 kg", 0, "must not be negative"},
		{new(Quantity), "1,5 bar", 0, "with a point"},
		{new(Quantity), "bar", 0, "not a number"},
	} {
		err := tc.into.UnmarshalText([]byte(tc.text))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%T %q: got error %v, want one with %q", tc.into, tc.text, err, tc.err)
			}
			continue
		}
		if got := tc.into.SI(); err != nil || math.Abs(got-tc.want) > 1e-12*math.Abs(tc.want) {
			t.Errorf("%T %q: got %v, %v, want %v", tc.into, tc.text, got, err, tc.want)
		}
	}
}

func TestPlainNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"2": "2", "2.0": "2", "0.000000001": "0.000000001", "0": "0",
		"-1": "must not be negative", "2 V": "has a unit", "2,5": "with a point", "1e3": "has a unit", "x": "not a number", "": "not a number",
		"0.0000000001": "finer than a billionth", "9999999999999": "too large", "50 %": "has a unit",
	} {
		var n Number
		got := ""
		if err := n.UnmarshalText([]byte(text)); err != nil {
			got = err.Error()
		} else {
			got = n.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("number %q gives %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"0.63": "0.63", "1": "1", "0": "0", "1.000000001": "more than 1", "63": "did you mean 0.63?", "101": "0 to 1", "-0.1": "negative"} {
		var f Fraction
		got := ""
		if err := f.UnmarshalText([]byte(text)); err != nil {
			got = err.Error()
		} else {
			got = f.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("fraction %q gives %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"-8388608": "-8388608", "8388607": "8388607", "0": "0", "1.5": "not a whole number", "2147483649": "out of bounds", "--1": "negative", "0x10": "has a unit"} {
		var c Counts
		got := ""
		if err := c.UnmarshalText([]byte(text)); err != nil {
			got = err.Error()
		} else {
			got = c.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("counts %q give %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]Input{"2": {2, 0}, "0-1": {0, 1}, "2-3": {2, 3}} {
		var in Input
		if err := in.UnmarshalText([]byte(text)); err != nil || in != want || in.String() != text {
			t.Errorf("input %q is %v, %v", text, in, err)
		}
	}
	for _, text := range []string{"", "-1", "1-", "1-0", "a", "0-1-2", "01", "1.0"} {
		if err := new(Input).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for an input", text)
		}
	}
}

// quantities gives one of every type that a text of the config can become.
func quantities() []encoding.TextUnmarshaler {
	return []encoding.TextUnmarshaler{new(Mass), new(Duration), new(Percent), new(Size), new(Volts),
		new(Pressure), new(Temperature), new(Volume), new(Length), new(Resistance), new(Current), new(MassRate), new(MassChange), new(RateChange),
		new(PercentPerDay), new(Density), new(Frequency), new(Number), new(Fraction), new(Counts), new(Quantity), new(TemperatureSource), new(PressureSource), new(Input)}
}

// Whatever a quantity prints as, it parses to the same quantity.
func TestSIQuantityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(0, 1e12)).Draw(t, "n")
		for _, q := range []fmt.Stringer{
			Pressure(n), Temperature(n % int64(MaxTemperature)), Volume(n), Length(n), Resistance(n), Current(n), MassRate(n), Density(n), Frequency(n),
			PercentPerDay(n), Number(n), Fraction(n % 1e9), Counts(n%MaxCounts - MaxCounts/2), RateChange(-n), MassChange(-(n % int64(MaxMass))),
			Quantity{KindPressure, n}, Quantity{KindTemperature, n % int64(MaxTemperature)}, Quantity{KindLevel, n}, Quantity{KindVolume, n},
			TemperatureSource{Value: Temperature(n % int64(MaxTemperature))}, PressureSource{Value: Pressure(n)},
		} {
			for _, into := range quantities() {
				if fmt.Sprintf("%T", into) != "*"+fmt.Sprintf("%T", q) {
					continue
				}
				if err := into.UnmarshalText([]byte(q.String())); err != nil || into.(fmt.Stringer).String() != q.String() {
					t.Fatalf("%T prints as %q and parses to %v, %v", q, q, into, err)
				}
			}
		}
	})
}

// FuzzQuantities: no text makes a parser panic, and what one takes prints as what
// it takes again.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"850 g", "14.6959 psi", "-18.5 °C", "\u221240 C", "0.05 m³", "100 \u2126", "500 g/min", "1.5 %/day", "20.5 mA", "63", "0-1", "skin-1",
		"1e9 V", "..", "-", "168h", "64 MiB", "9223372036854775807 Pa", "0.000000001 bar", "1,5 L"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, q := range quantities() {
			if q.UnmarshalText([]byte(text)) != nil {
				continue
			}
			shown := q.(fmt.Stringer).String()
			for _, again := range quantities() {
				if fmt.Sprintf("%T", again) != fmt.Sprintf("%T", q) {
					continue
				}
				if err := again.UnmarshalText([]byte(shown)); err != nil {
					t.Errorf("%T takes %q, prints %q and refuses it: %v", q, text, shown, err)
				}
				if diff := cmp.Diff(q, again); diff != "" {
					t.Errorf("%T %q, printed as %q (-first +again):\n%s", q, text, shown, diff)
				}
			}
		}
	})
}

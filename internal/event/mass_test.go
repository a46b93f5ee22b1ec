package event

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

// reasonOf gives the reason of a form error, and a word that is none for any
// other error.
func reasonOf(err error) Reason {
	fault, ok := errors.AsType[*FormError](err)
	if !ok {
		return "no form error"
	}
	return fault.Reason
}

func TestParseMass(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       physic.Mass
		reason     Reason
	}{
		{"120", "g", 120 * physic.Gram, ""},
		{"1.2e2", "g", 120 * physic.Gram, ""},
		{"1.2E+2", "g", 120 * physic.Gram, ""},
		{"12000e-2", "g", 120 * physic.Gram, ""},
		{"0.12", "kg", 120 * physic.Gram, ""},
		{"120000", "mg", 120 * physic.Gram, ""},
		{"0.1", "g", 100 * physic.MilliGram, ""},
		{"0.3", "g", 300 * physic.MilliGram, ""},
		{"0", "g", 0, ""},
		{"-0", "g", 0, ""},
		{"-0.00e308", "kg", 0, ""},
		{"0e-308", "g", 0, ""},
		{"1e-9", "g", 1, ""},
		{"1e-12", "kg", 1, ""},
		{"1e-6", "mg", 1, ""},
		{"0.000000001000000000000000000000000000000", "g", 1, ""},
		{"1" + strings.Repeat("0", 100) + "e-109", "g", 1, ""},
		{"0." + strings.Repeat("0", 200) + "1e201", "g", physic.Gram, ""},
		{"0." + strings.Repeat("0", 400) + "1e+308", "g", 0, OutOfRange},
		{"999999999.999999999", "g", 1e18 - 1, ""},
		{"1e9", "g", MaxAmount, ""},
		{"1e6", "kg", MaxAmount, ""},
		{"1e12", "mg", MaxAmount, ""},
		{"1e00000000000000000000000000000000000000000000009", "g", MaxAmount, ""},

		{"1000000000.000000001", "g", 0, OutOfRange},
		{"1e10", "g", 0, OutOfRange},
		{"18446744073709551616e-9", "g", 0, OutOfRange}, // 2⁶⁴ ng would wrap to 0
		{"18446744073709551617e-9", "g", 0, OutOfRange}, // and this to 1
		{"36893488147419103232e-9", "g", 0, OutOfRange},
		{"1e308", "kg", 0, OutOfRange},
		{"1e-308", "g", 0, OutOfRange},
		{"5e-10", "g", 0, OutOfRange},
		{"1.0000000001", "g", 0, OutOfRange},
		{"0.00000000100000000000000000000000000000000001", "g", 0, OutOfRange},
		{strings.Repeat("9", 10000), "g", 0, OutOfRange},
		{"-5", "g", 0, OutOfRange},
		{"-1e-300", "g", 0, OutOfRange},

		{"1e309", "g", 0, Malformed},
		{"1e-309", "g", 0, Malformed},
		{"0e309", "g", 0, Malformed},
		{"1e" + strings.Repeat("9", 10000), "g", 0, Malformed},
		{"1e18446744073709551616", "g", 0, Malformed},
		{"", "g", 0, Malformed},
		{"-", "g", 0, Malformed},
		{"+1", "g", 0, Malformed},
		{"01", "g", 0, Malformed},
		{"00", "g", 0, Malformed},
		{"1.", "g", 0, Malformed},
		{".5", "g", 0, Malformed},
		{"1.e2", "g", 0, Malformed},
		{"1e", "g", 0, Malformed},
		{"1e+", "g", 0, Malformed},
		{"1e2.5", "g", 0, Malformed},
		{"1e--2", "g", 0, Malformed},
		{" 1", "g", 0, Malformed},
		{"1 ", "g", 0, Malformed},
		{"1_0", "g", 0, Malformed},
		{"0x10", "g", 0, Malformed},
		{"NaN", "g", 0, Malformed},
		{"Infinity", "g", 0, Malformed},
		{"١", "g", 0, Malformed},

		{"1", "", 0, BadUnit},
		{"1", "G", 0, BadUnit},
		{"1", "lb", 0, BadUnit},
		{"-1", "lb", 0, BadUnit},
		{"1e309", "lb", 0, Malformed},
	} {
		got, err := ParseMass(c.text, c.unit)
		name := c.text[:min(len(c.text), 40)]
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("ParseMass(%q, %q): got error %v, want %d", name, c.unit, err, c.want)
		case c.reason != "" && reasonOf(err) != c.reason:
			t.Errorf("ParseMass(%q, %q): got %d, %v, want %s", name, c.unit, got, err, c.reason)
		case got != c.want:
			t.Errorf("ParseMass(%q, %q): got %d, want %d", name, c.unit, got, c.want)
		}
	}
}

func TestAppendGrams(t *testing.T) {
	for _, c := range []struct {
		m    physic.Mass
		want string
	}{
		{0, "0"},
		{727 * physic.Gram, "727"},
		{1, "0.000000001"},
		{-1, "-0.000000001"},
		{100 * physic.MilliGram, "0.1"},
		{-3500 * physic.MilliGram, "-3.5"},
		{10 * physic.Gram, "10"},
		{1e9 + 10, "1.00000001"},
		{MaxAmount, "1000000000"},
		{MaxAmount - 1, "999999999.999999999"},
		{math.MaxInt64, "9223372036.854775807"},
		{math.MinInt64, "-9223372036.854775808"},
	} {
		if got := string(AppendGrams([]byte("m="), c.m)); got != "m="+c.want {
			t.Errorf("AppendGrams(%d): got %q, want %q", c.m, got, "m="+c.want)
		}
	}
}

// TestAppendGramsIsShortestAndExact: ParseMass gives the mass back, and no digit
// could be left out.
func TestAppendGramsIsShortestAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genMass(1).Draw(t, "mass")
		text := string(AppendGrams(nil, want))
		got, err := ParseMass(text, "g")
		if err != nil || got != want {
			t.Fatalf("%q: got %d, %v, want %d", text, got, err, want)
		}
		if strings.Contains(text, ".") && strings.HasSuffix(text, "0") {
			t.Fatalf("got %q for %d, want no trailing zero", text, want)
		}
	})
}

// exactMass is ParseMass by big rational numbers. ok is false where it cannot
// judge, for the exponent would make it work for hours.
func exactMass(text, unit string) (m physic.Mass, reason Reason, ok bool) {
	if !isJSONNumber(text) {
		return 0, Malformed, true
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, good := new(big.Int).SetString(strings.TrimPrefix(text[i+1:], "+"), 10)
		if !good {
			return 0, "", false
		}
		if exponent.CmpAbs(big.NewInt(308)) > 0 {
			return 0, Malformed, true
		}
	}
	scale, known := map[string]int64{"g": 1e9, "kg": 1e12, "mg": 1e6}[unit]
	if !known {
		return 0, BadUnit, true
	}
	r, good := new(big.Rat).SetString(text)
	if !good {
		return 0, "", false
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	if !r.IsInt() || r.Sign() < 0 || r.Num().Cmp(big.NewInt(int64(MaxAmount))) > 0 {
		return 0, OutOfRange, true
	}
	return physic.Mass(r.Num().Int64()), "", true
}

// isJSONNumber asks the standard library.
func isJSONNumber(text string) bool {
	return text != "" && strings.Trim(text, " \t\r\n") == text && strings.IndexByte("-0123456789", text[0]) >= 0 &&
		json.Valid([]byte(text))
}

func checkMass(t interface{ Errorf(string, ...any) }, text, unit string) {
	want, reason, ok := exactMass(text, unit)
	if !ok {
		return
	}
	got, err := ParseMass(text, unit)
	switch {
	case reason != "" && reasonOf(err) != reason:
		t.Errorf("ParseMass(%q, %q): got %d, %v, want %s", text, unit, got, err, reason)
	case reason == "" && (err != nil || got != want):
		t.Errorf("ParseMass(%q, %q): got %d, %v, want %d", text, unit, got, err, want)
	}
}

// TestParseMassAgainstRationals draws numbers near the bounds, where the fuzzer
// needs long to arrive.
func TestParseMassAgainstRationals(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?`)
	near := rapid.StringMatching(`(999999999|1000000000|1844674407[0-9]{10})(\.[09]{1,14}[0-9])?(e-?[0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(number, near).Draw(t, "text")
		checkMass(t, text, rapid.SampledFrom([]string{"g", "kg", "mg", "t"}).Draw(t, "unit"))
	})
}

func FuzzParseMass(f *testing.F) {
	for _, text := range []string{"0", "-0", "120", "1.2e2", "1e-9", "1e309", "18446744073709551616e-9", "0.1", "01", "1.", "-"} {
		for _, unit := range []string{"g", "kg", "mg", "lb"} {
			f.Add(text, unit)
		}
	}
	f.Fuzz(func(t *testing.T, text, unit string) {
		if len(text) > 4096 {
			return // the rational numbers are slow there, ParseMass is not
		}
		checkMass(t, text, unit)
	})
}

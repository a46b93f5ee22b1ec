package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Number is a plain number without a unit, in billionths: "2", "0.5".
type Number int64

// Fraction is a part of a whole as a plain number of 0 to 1, in billionths. "63"
// is refused, for it is a percentage without its sign.
type Fraction int64

// Counts is a code of a converter as it comes, a whole number that may be
// negative.
type Counts int64

// MaxCounts bounds Counts to what a converter of 32 bits gives.
const MaxCounts = 1 << 31

// UnmarshalText parses a plain number such as "2.5".
func (n *Number) UnmarshalText(text []byte) error {
	v, err := plainNumber(string(text))
	*n = Number(v)
	return err
}

// plainNumber parses a number of the file that has no unit, in billionths.
func plainNumber(text string) (int64, error) {
	text = strings.TrimSpace(text)
	number, name := cutNumber(text)
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, errors.New("must not be negative")
	case strings.HasPrefix(name, ","):
		return 0, fmt.Errorf("%q: write the fraction with a point", text)
	case !plainDecimal(number):
		return 0, fmt.Errorf("%q is not a number", text)
	case name != "":
		return 0, fmt.Errorf("%q has a unit: it is a plain number here", text)
	}
	return scaled(number, unit{size: 1e9}, "a billionth")
}

// String gives the number, exactly.
func (n Number) String() string { return decimal(int64(n), 1e9) }

// Float gives the number.
func (n Number) Float() float64 { return float64(n) / 1e9 }

// UnmarshalText parses a fraction such as "0.63".
func (f *Fraction) UnmarshalText(text []byte) error {
	v, err := plainNumber(string(text))
	switch {
	case err != nil:
		return err
	case v > 1e9 && v <= 100e9:
		return fmt.Errorf("%s is more than 1: a fraction is 0 to 1, did you mean %s?", text, decimal(v/100, 1e9))
	case v > 1e9:
		return fmt.Errorf("%s is more than 1: a fraction is 0 to 1", text)
	}
	*f = Fraction(v)
	return nil
}

// String gives the fraction, exactly.
func (f Fraction) String() string { return decimal(int64(f), 1e9) }

// Float gives the fraction.
func (f Fraction) Float() float64 { return float64(f) / 1e9 }

// UnmarshalText parses a code such as "-8388608".
func (c *Counts) UnmarshalText(text []byte) error {
	digits, negative := cutSign(string(text))
	n, err := plainNumber(digits)
	switch {
	case err != nil:
		return err
	case n%1e9 != 0:
		return fmt.Errorf("%s is not a whole number", text)
	case n/1e9 > MaxCounts:
		return fmt.Errorf("%s is out of bounds: %d to %d", text, int64(-MaxCounts), int64(MaxCounts))
	}
	*c = Counts(n / 1e9)
	if negative {
		*c = -*c
	}
	return nil
}

// String gives the code.
func (c Counts) String() string { return strconv.FormatInt(int64(c), 10) }

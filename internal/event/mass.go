package event

import (
	"math/bits"
	"strconv"

	"periph.io/x/conn/v3/physic"
)

// maxExponent bounds the exponent of a JSON number, as it does in an IEEE 754
// double: what is written beyond it overflows in other readers.
const maxExponent = 308

// The units of amounts.
const (
	unitGram      = "g"
	unitKilogram  = "kg"
	unitMilligram = "mg"
)

// ParseMass reads a JSON number as an amount in the unit g, kg or mg. It is
// exact: no float and no big number takes part, and its work grows only with
// the length of the text. -0 is 0. The error is a *FormError: Malformed when
// the text is no JSON number or its exponent is beyond ±308, BadUnit for any
// other unit, OutOfRange when the value is negative, above MaxAmount or not a
// whole number of nanograms. The first of these that applies is given.
func ParseMass(text string, unit string) (physic.Mass, error) {
	m, fault := parseMass(text, unit)
	if fault != nil {
		return 0, fault
	}
	return m, nil
}

func parseMass(text, unit string) (physic.Mass, *FormError) {
	d, ok := parseDecimal(text)
	if !ok {
		return 0, &FormError{Malformed, "want a JSON number with an exponent within ±308"}
	}
	power, ok := nanogramPower(unit)
	if !ok {
		return 0, &FormError{BadUnit, "want g, kg or mg"}
	}
	v, exact, ok := d.scale(power)
	switch {
	case d.neg && d.coefficient != 0:
		return 0, &FormError{OutOfRange, "below zero"}
	case !ok || v > uint64(MaxAmount):
		return 0, &FormError{OutOfRange, "above 10⁹ g"}
	case !exact:
		return 0, &FormError{OutOfRange, "not a whole number of nanograms"}
	}
	return physic.Mass(v), nil
}

// nanogramPower gives the power of ten that turns the unit into nanograms.
func nanogramPower(unit string) (power int, ok bool) {
	switch unit {
	case unitGram:
		return 9, true
	case unitKilogram:
		return 12, true
	case unitMilligram:
		return 6, true
	}
	return 0, false
}

// AppendGrams appends the mass as a decimal number of grams in its shortest
// form: no exponent, no needless zero, such as 727, 0.000000001 or -3.5. It is
// a JSON number, and ParseMass reads it back where it is not negative.
func AppendGrams(dst []byte, m physic.Mass) []byte { return appendBillionths(dst, int64(m)) }

// appendBillionths appends n × 10⁻⁹ in shortest form.
func appendBillionths(dst []byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		u = -u // also right for the least int64
	}
	dst = strconv.AppendUint(dst, u/1e9, 10)
	fraction := u % 1e9
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for place := uint64(1e8); fraction > 0; place /= 10 {
		dst = append(dst, byte('0'+fraction/place))
		fraction %= place
	}
	return dst
}

// decimal is a JSON number taken apart: ±coefficient × 10^exponent. The
// coefficient holds the first nineteen digits from the first that is not 0;
// inexact says that a later digit, which is not held, was not 0 either.
type decimal struct {
	coefficient  uint64
	exponent     int
	neg, inexact bool
}

// parseDecimal reads the JSON grammar of a number (RFC 8259 section 6). ok is
// false for anything else, and for an exponent beyond ±maxExponent.
func parseDecimal(text string) (d decimal, ok bool) {
	i := 0
	if i < len(text) && text[i] == '-' {
		d.neg = true
		i++
	}
	first := i
	for ; i < len(text) && isDigit(text[i]); i++ {
		d.push(text[i])
	}
	if i == first || text[first] == '0' && i > first+1 {
		return d, false
	}
	if i < len(text) && text[i] == '.' {
		i++
		point := i
		for ; i < len(text) && isDigit(text[i]); i++ {
			d.push(text[i])
			d.exponent--
		}
		if i == point {
			return d, false
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		exponent, ok := parseExponent(text[i+1:])
		d.exponent += exponent
		return d, ok
	}
	return d, i == len(text)
}

// push appends a digit of the integer part. For one of the fraction the caller
// lowers the exponent by one.
func (d *decimal) push(digit byte) {
	if d.coefficient >= 1e18 { // nineteen digits are held
		d.inexact = d.inexact || digit != '0'
		d.exponent++
		return
	}
	d.coefficient = d.coefficient*10 + uint64(digit-'0')
}

func parseExponent(text string) (exponent int, ok bool) {
	i, neg := 0, false
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		neg = text[i] == '-'
		i++
	}
	if i == len(text) {
		return 0, false
	}
	for ; i < len(text); i++ {
		if !isDigit(text[i]) {
			return 0, false
		}
		exponent = min(exponent*10+int(text[i]-'0'), maxExponent+1)
	}
	if exponent > maxExponent {
		return 0, false
	}
	if neg {
		exponent = -exponent
	}
	return exponent, true
}

// scale gives |d| × 10^power, cut to a whole number. exact says that nothing
// was cut, ok that the result fits 64 bits.
func (d *decimal) scale(power int) (v uint64, exact, ok bool) {
	e := d.exponent + power
	switch {
	case d.coefficient == 0:
		return 0, true, true
	case e >= 20:
		return 0, false, false
	case e >= 0:
		over, v := bits.Mul64(d.coefficient, pow10(e))
		return v, !d.inexact, over == 0
	case e > -20:
		p := pow10(-e)
		return d.coefficient / p, d.coefficient%p == 0 && !d.inexact, true
	}
	return 0, false, true
}

// pow10 gives 10^e for e from 0 to 19.
func pow10(e int) uint64 {
	p := uint64(1)
	for range e {
		p *= 10
	}
	return p
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

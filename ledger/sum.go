package ledger

import (
	"bytes"
	"fmt"
	"math/big"
	"math/bits"

	"periph.io/x/conn/v3/physic"
)

// Sum is a signed 128-bit count of nanograms. One amount may be 10¹⁸ ng, so that
// ten of them already overflow an int64; 128 bits hold 10²⁰ events of that size.
// The zero Sum is nothing.
type Sum struct {
	hi int64
	lo uint64
}

// SumOf widens one amount.
func SumOf(m physic.Mass) Sum { return Sum{hi: int64(m) >> 63, lo: uint64(m)} }

// Add gives s + o.
func (s Sum) Add(o Sum) Sum {
	lo, carry := bits.Add64(s.lo, o.lo, 0)
	return Sum{hi: s.hi + o.hi + int64(carry), lo: lo}
}

// Sub gives s - o.
func (s Sum) Sub(o Sum) Sum {
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	return Sum{hi: s.hi - o.hi - int64(borrow), lo: lo}
}

// IsZero reports whether the sum is nothing; encoding/json's omitzero asks it.
func (s Sum) IsZero() bool { return s == Sum{} }

// Negative reports whether s < 0.
func (s Sum) Negative() bool { return s.hi < 0 }

// Grams gives the sum in grams for derived figures such as a percentage. It is
// never fed back into an account.
func (s Sum) Grams() float64 {
	f, _ := new(big.Float).SetInt(s.big()).Float64()
	return f / 1e9
}

// MarshalJSON writes the sum as an exact decimal number of grams in its shortest
// form, such as 727 or -0.000000001.
func (s Sum) MarshalJSON() ([]byte, error) {
	v := s.big()
	sign := ""
	if v.Sign() < 0 {
		sign = "-"
		v.Neg(v)
	}
	whole, frac := new(big.Int).QuoRem(v, big.NewInt(1e9), new(big.Int))
	if frac.Sign() == 0 {
		return fmt.Appendf(nil, "%s%d", sign, whole), nil
	}
	text := fmt.Appendf(nil, "%s%d.%09d", sign, whole, frac)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	return text, nil
}

// UnmarshalJSON reads what MarshalJSON writes: no exponent, whose size would be the
// size of the work, and no other base.
func (s *Sum) UnmarshalJSON(text []byte) error {
	if len(text) > 64 || len(bytes.Trim(text, "-.0123456789")) > 0 {
		return fmt.Errorf("parse sum %.64q", text)
	}
	r, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return fmt.Errorf("parse sum %q", text)
	}
	r.Mul(r, big.NewRat(1e9, 1))
	if !r.IsInt() || r.Num().BitLen() > 127 {
		return fmt.Errorf("sum %s is no 128-bit number of nanograms", text)
	}
	*s = sumOfBig(r.Num())
	return nil
}

func (s Sum) String() string {
	text, _ := s.MarshalJSON() // cannot fail
	return string(text) + " g"
}

func (s Sum) big() *big.Int {
	v := new(big.Int).Lsh(big.NewInt(s.hi), 64)
	return v.Add(v, new(big.Int).SetUint64(s.lo))
}

func sumOfBig(v *big.Int) Sum {
	mask := new(big.Int).SetUint64(^uint64(0))
	lo := new(big.Int).And(v, mask) // two's complement, as big.Int defines And
	return Sum{hi: new(big.Int).Rsh(v, 64).Int64(), lo: lo.Uint64()}
}

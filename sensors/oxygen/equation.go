package oxygen

import "math"

// term is one of the 32 terms n δ^d τ^t exp(-δ^l) of the residual Helmholtz
// energy, with δ the density and τ the inverse temperature, both over the
// critical ones. A term with l = 0 has no exponential.
type term struct {
	n      float64
	d, t2  int // t2 is 2t: all exponents of τ are multiples of a half
	family int // 0 for l = 0, 1 for l = 2, 2 for l = 4
}

// terms are the coefficients, in the order of the paper's table. Never written.
var terms = [32]term{
	{0.3983768749, 1, 0, 0},
	{-1.846157454, 1, 3, 0},
	{0.4183473197, 1, 5, 0},
	{0.02370620711, 2, -1, 0},
	{0.09771730573, 2, 3, 0},
	{0.03017891294, 2, 4, 0},
	{0.02273353212, 3, 0, 0},
	{0.01357254086, 3, 2, 0},
	{-0.04052698943, 3, 5, 0},
	{5.454628515e-4, 6, 0, 0},
	{5.113182277e-4, 7, 4, 0},
	{2.953466883e-7, 7, 10, 0},
	{-8.687645072e-5, 8, 4, 0},

	{-0.2127082589, 1, 10, 1},
	{0.08735941958, 1, 12, 1},
	{0.127550919, 2, 7, 1},
	{-0.09067701064, 2, 11, 1},
	{-0.03540084206, 3, 6, 1},
	{-0.03623278059, 3, 14, 1},
	{0.0132769929, 5, 12, 1},
	{-3.254111865e-4, 6, 17, 1},
	{-0.008313582932, 7, 8, 1},
	{0.002124570559, 8, 13, 1},
	{-8.325206232e-4, 10, 11, 1},

	{-2.626173276e-5, 2, 44, 2},
	{0.002599581482, 3, 22, 2},
	{0.009984649663, 3, 36, 2},
	{0.002199923153, 4, 22, 2},
	{-0.02591350486, 4, 46, 2},
	{-0.1259630848, 5, 34, 2},
	{0.1478355637, 5, 36, 2},
	{-0.01011251078, 5, 46, 2},
}

// degreeMax is the highest power of the density.
const degreeMax = 10

// isotherm is the equation at one temperature: polynomials in δ, one for each
// family of terms. Powers of τ are most of the work, and a solution for the density
// needs them once.
type isotherm struct {
	rt  float64 // R T / M in J/kg
	sum [3][degreeMax + 1]float64
}

// newIsotherm makes the isotherm of a temperature in K.
func newIsotherm(temperature float64) (i isotherm) {
	powers := powersOf(CriticalTemperature / temperature)
	i.rt = specificGasConstant * temperature
	for k := range terms {
		t := &terms[k]
		i.sum[t.family][t.d] += t.n * powers[t.t2+1]
	}
	return i
}

// slope makes τ ∂/∂τ of the isotherm: each term times its exponent t.
func slope(temperature float64) (i isotherm) {
	powers := powersOf(CriticalTemperature / temperature)
	i.rt = specificGasConstant * temperature
	for k := range terms {
		t := &terms[k]
		i.sum[t.family][t.d] += t.n * powers[t.t2+1] * float64(t.t2) / 2
	}
	return i
}

// powersOf gives τ^(k/2) at index k+1, from τ^(-1/2) up to τ^23.
func powersOf(tau float64) (p [48]float64) {
	root := math.Sqrt(tau)
	p[0], p[1] = 1/root, 1
	for k := 2; k < len(p); k += 2 {
		p[k], p[k+1] = p[k-1]*root, p[k-1]*tau
	}
	return p
}

// state is what an isotherm says of one density.
type state struct {
	energy   float64 // residual Helmholtz energy over RT
	z        float64 // compressibility factor
	pressure float64 // Pa
	rise     float64 // ∂p/∂ρ in J/kg
}

// at evaluates the isotherm at a density in kg/m3.
//
// With S0 = Σ c δ^d, S1 = Σ d c δ^d, S2 = Σ d² c δ^d and x = δ^l of each family,
// Z - 1 = Σ (S1 - l x S0) exp(-x), and its derivative by ln δ is
// Σ (S2 - 2 l x S1 + (l² x² - l² x) S0) exp(-x).
func (i *isotherm) at(density float64) state {
	delta := density / CriticalDensity
	s0, s1, s2 := powerSums(i.sum[0][:9], delta) // no l = 0 term beyond δ^8
	energy, z, dz := s0, 1+s1, s2

	x := delta * delta
	for family, l := 1, 2.0; family < 3; family, l = family+1, l*2 {
		s := i.sum[family][:]
		if family == 2 {
			s, x = s[:6], x*x // no l = 4 term beyond δ^5
		}
		s0, s1, s2 = powerSums(s, delta)
		e := math.Exp(-x)
		energy += s0 * e
		z += (s1 - l*x*s0) * e
		dz += (s2 - 2*l*x*s1 + l*l*x*(x-1)*s0) * e
	}
	return state{energy: energy, z: z, pressure: density * i.rt * z, rise: i.rt * (z + dz)}
}

// powerSums gives Σ c x^d, Σ d c x^d and Σ d² c x^d by Horner's rule, of the value
// and its first two derivatives.
func powerSums(c []float64, x float64) (s0, s1, s2 float64) {
	var v, first, second float64 // second is half of the second derivative
	for d := len(c) - 1; d >= 0; d-- {
		second = second*x + first
		first = first*x + v
		v = v*x + c[d]
	}
	return v, x * first, x*first + 2*x*x*second
}

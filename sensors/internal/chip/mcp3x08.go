package chip

import (
	"math"
	"sync"
)

// MCP3x08 models the converters MCP3008 and MCP3208 bit by bit (Microchip
// DS21295D and DS21298E, section 5): the start bit, the input's selection, the
// null bit, the code from its top bit down, the code from its second bit up, and
// zeros from then on.
type MCP3x08 struct {
	Bits int     // 10 or 12
	VRef float64 // V

	mu    sync.Mutex
	volts [8]float64
	idle  byte // what MISO reads while the chip does not drive it
	dead  bool // it never drives it
}

// NewMCP3x08 is a chip with all inputs at 0 V.
func NewMCP3x08(bits int, vref float64) *MCP3x08 { return &MCP3x08{Bits: bits, VRef: vref} }

// Set puts an input at a voltage.
func (c *MCP3x08) Set(input int, volts float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volts[input] = volts
}

// Kill takes the chip off MISO, which then reads idle.
func (c *MCP3x08) Kill(idle byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead, c.idle = true, idle
}

// Exchange implements SPIDevice.
func (c *MCP3x08) Exchange(w []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	bits := make([]byte, 8*len(w)) // what is clocked out, a bit each
	for i := range bits {
		bits[i] = c.idle & 1
	}
	bit := func(i int) int {
		if i >= 8*len(w) {
			return 0
		}
		return int(w[i/8]) >> (7 - i%8) & 1
	}
	start := 0
	for start < len(bits) && bit(start) == 0 {
		start++
	}
	if !c.dead {
		input := bit(start+2)<<2 | bit(start+3)<<1 | bit(start+4)
		c.answer(bits, start+6, bit(start+1) == 1, input)
	}
	r := make([]byte, len(w))
	for i, b := range bits {
		r[i/8] |= b << (7 - i%8)
	}
	return r
}

// answer writes all that the chip drives, from the null bit at index i on.
func (c *MCP3x08) answer(bits []byte, i int, single bool, input int) {
	code := c.code(single, input)
	out := []byte{0}
	for b := c.Bits - 1; b >= 0; b-- {
		out = append(out, byte(code>>b&1))
	}
	for b := 1; b < c.Bits; b++ {
		out = append(out, byte(code>>b&1))
	}
	for n := 0; i < len(bits); i, n = i+1, n+1 {
		bits[i] = 0
		if n < len(out) {
			bits[i] = out[n]
		}
	}
}

// code converts an input, or the difference of a pair with input as its plus.
func (c *MCP3x08) code(single bool, input int) int {
	v := c.volts[input]
	if !single {
		v -= c.volts[input^1]
	}
	full := float64(int(1) << c.Bits)
	return int(min(max(math.Floor(v/c.VRef*full+0.5), 0), full-1))
}

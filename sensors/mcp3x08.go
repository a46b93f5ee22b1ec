package sensors

import (
	"context"
	"fmt"

	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
)

// How the MCP3008 and MCP3208 want to be connected. At 2.7 V the slower of the two
// takes 1 MHz (Microchip DS21298E, "Electrical Characteristics"); below 10 kHz the
// held charge leaks away before the code is out.
const (
	MCP3x08Mode  = spi.Mode0 // or 3
	MCP3x08Speed = 500 * physic.KiloHertz
	mcpInputs    = 8
)

// The frame, by the bit: five zeros, the start bit, four that select the input;
// from the null bit on the chip drives MISO (DS21295D and DS21298E, figures 5-1 and
// 5-2).
const (
	mcpFrame    = 5  // bytes
	mcpStart    = 5  // the start bit's place
	mcpNull     = 11 // the null bit's place, after the sample; the code follows
	mcpLastBit  = 8*mcpFrame - 1
	mcpSingle   = uint64(1) << (mcpLastBit - mcpStart - 1)
	mcpInputLSB = mcpLastBit - mcpStart - 4
	mcpDriven   = uint64(1)<<(mcpLastBit-mcpNull+1) - 1 // what the chip drives
)

// MCP3x08 is a converter with eight inputs on SPI: the MCP3008 of 10 bits or the
// MCP3208 of 12. It does not own its bus. One goroutine at a time may use it.
//
// The chip has neither a register to read back nor a check sum, but it sends
// every code twice if it is clocked on: from the top bit down, then from the
// second bit up, then zeros. So a flipped bit is seen, unless it is the lowest, as
// are a stuck or cut line and the other of the two parts.
//
// Datasheets: Microchip DS21295D (MCP3008), DS21298E (MCP3208).
type MCP3x08 struct {
	conn spi.Conn
	name string
	bits int
	vref float64
}

// NewMCP3008 talks to a 10-bit MCP3008 once, so that a wiring fault shows here:
// the error is then a *Fault. vref is the reference voltage in volts, 0.25 V to
// 5.5 V.
func NewMCP3008(conn spi.Conn, vref float64) (*MCP3x08, error) {
	return newMCP3x08(&MCP3x08{conn: conn, name: "mcp3008", bits: 10, vref: vref})
}

// NewMCP3208 is NewMCP3008 for the 12-bit MCP3208.
func NewMCP3208(conn spi.Conn, vref float64) (*MCP3x08, error) {
	return newMCP3x08(&MCP3x08{conn: conn, name: "mcp3208", bits: 12, vref: vref})
}

func newMCP3x08(d *MCP3x08) (*MCP3x08, error) {
	if !(d.vref >= 0.25 && d.vref <= 5.5) {
		return nil, fmt.Errorf("%s takes no reference of %g V: it takes 0.25 V to 5.5 V", d.name, d.vref)
	}
	code, err := d.convert(true, 0)
	if err == nil && code == 0 {
		err = d.alive(true, 0)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// String names the chip and its chip select.
func (d *MCP3x08) String() string { return fmt.Sprintf("%s %s", d.name, d.conn) }

// Input is the input CH0 to CH7 (0 to 7) against ground.
func (d *MCP3x08) Input(input int) (*MCP3x08Input, error) {
	if input < 0 || input >= mcpInputs {
		return nil, fmt.Errorf("%s has no input %d: it has 0 to %d", d.name, input, mcpInputs-1)
	}
	return &MCP3x08Input{chip: d, single: true, input: input}, nil
}

// Differential is the voltage of one input above its neighbour: 0-1, 1-0, 2-3,
// 3-2 and so on to 7-6. The minus input must stay within 0.1 V of ground (DS21298E,
// "Electrical Characteristics": IN- voltage range): it takes an offset out, not
// the common mode of a bridge.
func (d *MCP3x08) Differential(plus, minus int) (*MCP3x08Input, error) {
	if plus < 0 || plus >= mcpInputs || minus != plus^1 {
		return nil, fmt.Errorf("%s has no pair %d-%d: it has 0-1, 1-0, 2-3, 3-2, 4-5, 5-4, 6-7 and 7-6", d.name, plus, minus)
	}
	return &MCP3x08Input{chip: d, input: plus}, nil
}

// MCP3x08Input is one input of a chip, or a pair with input as its plus.
type MCP3x08Input struct {
	chip   *MCP3x08
	single bool
	input  int
}

// Measure makes one conversion and gives its code and volts, or a *Fault; when ctx
// is cancelled, ctx's error. A code at the upper rail is saturated, and so is 0 of
// a pair, which all negative differences read.
//
// 0 of a single input is a voltage, but it is also what a dead line reads. It
// counts only if another input gives something else in the same call; a chip whose
// eight inputs are all at 0 V cannot be told from one that is off, and is a fault.
func (c *MCP3x08Input) Measure(ctx context.Context) (Measured, error) {
	if err := ctx.Err(); err != nil {
		return Measured{}, waitFault(err)
	}
	code, err := c.chip.convert(c.single, c.input)
	if err == nil && code == 0 {
		err = c.chip.alive(c.single, c.input)
	}
	if err != nil {
		return Measured{}, err
	}
	steps := 1 << c.chip.bits
	switch {
	case code == steps-1:
		return Measured{}, &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("code %d: the input is at or beyond the reference of %g V", code, c.chip.vref)}
	case code == 0 && !c.single:
		return Measured{}, &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("code 0: input %d is not above input %d", c.input, c.input^1)}
	}
	return Measured{Raw: int64(code), Value: float64(code) * c.chip.vref / float64(steps)}, nil
}

// convert makes one conversion. The buffer begins as all ones, which no chip
// sends, so that a transfer that reports success and moved nothing is a fault.
func (d *MCP3x08) convert(single bool, input int) (code int, err error) {
	w, r := mcpRequest(single, input), make([]byte, mcpFrame)
	for i := range r {
		r[i] = 0xff
	}
	if err := d.conn.Tx(w, r); err != nil {
		return 0, busFault("convert input", err)
	}
	return parseMCP(r, d.bits)
}

// mcpRequest is the frame that selects an input.
func mcpRequest(single bool, input int) []byte {
	v := uint64(1)<<(mcpLastBit-mcpStart) | uint64(input)<<mcpInputLSB
	if single {
		v |= mcpSingle
	}
	w := make([]byte, mcpFrame)
	for i := range w {
		w[i] = byte(v >> (8 * (mcpFrame - 1 - i)))
	}
	return w
}

// parseMCP judges a frame of a part with that many bits and gives its code. What
// stands before the null bit is nobody's. From there on the frame must be exactly
// what the chip sends for that code.
func parseMCP(r []byte, bits int) (code int, err error) {
	var v uint64
	for _, b := range r {
		v = v<<8 | uint64(b)
	}
	v &= mcpDriven
	code = int(v >> (mcpLastBit - mcpNull - bits) & (1<<bits - 1))
	switch {
	case v == mcpDriven:
		return 0, &Fault{Reason: ReasonBus, Detail: "all ones: MISO is stuck high, or no chip drives it"}
	case v != mcpRepeated(code, bits):
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("% x: code %d and its repetition differ: noise, or another part than the configured one", r, code)}
	}
	return code, nil
}

// mcpRepeated is what the chip sends for a code, from the null bit to the frame's
// end: the code, its bits again from the second lowest up, and zeros.
func mcpRepeated(code, bits int) uint64 {
	v := uint64(code)
	for b := 1; b < bits; b++ {
		v = v<<1 | uint64(code>>b&1)
	}
	return v << (mcpLastBit - mcpNull - bits - (bits - 1))
}

// alive looks for an input that reads something else than 0, after one that did.
// A pair may read 0 while its own plus does not, so that one comes first.
func (d *MCP3x08) alive(single bool, input int) error {
	first := 0
	if single {
		first = 1
	}
	for n := first; n < mcpInputs; n++ {
		code, err := d.convert(true, (input+n)%mcpInputs)
		if code != 0 || err != nil {
			return err
		}
	}
	return &Fault{Reason: ReasonBus, Detail: fmt.Sprintf("all zeros from every input: MISO is stuck low, the chip has no power or no reference, or all %d inputs are at 0 V", mcpInputs)}
}

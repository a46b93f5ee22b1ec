package chip

import (
	"math"
	"sync"
	"syscall"
	"time"
)

const (
	sfmFirst = 12 * time.Millisecond
	sfmWarm  = 30 * time.Millisecond
)

// SFM models Sensirion's flow meters, with the SF06 sensor chip or the older SF05
// (Old): commands, continuous results that a read gives, identity only while idle,
// no acknowledge of a read while it does not measure or has nothing yet, results
// that are 5 % off while it warms up, and, as a mean since the last read, in the
// first one after. Not modelled: mixtures, sleep, averaging of a fixed number.
type SFM struct {
	Now func() time.Time
	Old bool

	// Product, Scale, Offset and Unit are what the part says of itself; an old one
	// has neither Product nor Unit, and Scale is that for air.
	Product       uint32
	Scale, Offset int32
	Unit          uint16
	// Factor is what the results are scaled by beyond Scale, for an old part in a
	// gas other than air.
	Factor float64

	mu      sync.Mutex
	units   float64
	celsius float64
	gas     uint16 // the start command in force; 0 while idle
	started time.Time
	clean   bool // the results of the warm-up were read
	answer  []uint16
	asked   bool
	off     bool
	spoil   func(r []byte)
	starts  int
}

// NewSFM3019 is a part after power-on, 25 °C, without flow.
func NewSFM3019(now func() time.Time) *SFM {
	return &SFM{Now: now, Product: 0x04020611, Scale: 170, Offset: -24576, Unit: 0x0148, Factor: 1, celsius: 25}
}

// NewSFM3000 is an old part after power-on, in air, without flow.
func NewSFM3000(now func() time.Time) *SFM {
	return &SFM{Now: now, Old: true, Scale: 140, Offset: 32000, Factor: 1}
}

// Set sets the flow, in the part's unit, and the gas's temperature.
func (c *SFM) Set(units, celsius float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.units, c.celsius = units, celsius
}

// BrownOut resets the part as a dip of its supply does.
func (c *SFM) BrownOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gas, c.asked = 0, false
}

// Off takes the part's power, or gives it back.
func (c *SFM) Off(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.gas, c.asked = off, 0, false
}

// Spoil sees what every read gives and may change it; nil ends it.
func (c *SFM) Spoil(f func(r []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoil = f
}

// Starts is how often a measurement was started.
func (c *SFM) Starts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// GeneralCall is what stands at address 0.
func (c *SFM) GeneralCall() Device { return sfmGeneralCall{c} }

type sfmGeneralCall struct{ part *SFM }

func (g sfmGeneralCall) Transfer(w, _ []byte) error {
	if len(w) == 1 && w[0] == 0x06 && !g.part.Old {
		g.part.BrownOut()
	}
	return nil
}

// Transfer implements Device.
func (c *SFM) Transfer(w, r []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return Errno(syscall.EREMOTEIO)
	}
	if len(w) >= 2 {
		if err := c.command(uint16(w[0])<<8|uint16(w[1]), w[2:]); err != nil {
			return err
		}
	}
	if len(r) == 0 {
		return nil
	}
	words := c.answer
	if !c.asked {
		if c.gas == 0 || c.Now().Sub(c.started) < sfmFirst && !c.Old {
			return Errno(syscall.EREMOTEIO)
		}
		words = c.result()
	}
	c.asked = false
	c.put(r, words)
	return nil
}

func (c *SFM) command(command uint16, rest []byte) error {
	c.asked = false
	if c.Old {
		c.gas = 0 // any command ends the measurement
	}
	switch {
	case c.Old && command == 0x1000, !c.Old && (command == 0x3603 || command == 0x3608) && c.gas == 0:
		c.gas, c.started, c.clean = command, c.Now(), false
		c.starts++
	case c.Old && command == 0x2000, !c.Old && command == 0x3ff9:
		c.gas = 0
	case c.Old && command == 0x30de:
		c.reply(uint16(c.Scale))
	case c.Old && command == 0x30df:
		c.reply(uint16(c.Offset))
	case !c.Old && command == 0xe102 && c.gas == 0:
		c.reply(uint16(c.Product>>16), uint16(c.Product), 1, 2, 3, 4)
	case !c.Old && command == 0x3661 && len(rest) == 3 && rest[2] == c.crc(rest[:2]):
		c.reply(uint16(c.Scale), uint16(c.Offset), c.Unit)
	default:
		return Errno(syscall.EREMOTEIO)
	}
	return nil
}

func (c *SFM) reply(words ...uint16) { c.answer, c.asked = words, true }

// result is the words of the newest result.
func (c *SFM) result() []uint16 {
	units := c.units * c.Factor
	if warm := c.Now().Sub(c.started) >= sfmWarm; !warm || !c.clean {
		units, c.clean = units*1.05, warm
	}
	raw := math.Round(units*float64(c.Scale)) + float64(c.Offset)
	if c.Old {
		return []uint16{uint16(min(max(raw, 0), math.MaxUint16))}
	}
	var status uint16
	if c.gas == 0x3608 {
		status = 0x1000
	}
	flow := int16(min(max(raw, math.MinInt16), math.MaxInt16))
	return []uint16{uint16(flow), uint16(int16(math.Round(c.celsius * 200))), status}
}

// put sends words with their check sums, as far as the reader reads; past the end
// the line stays high.
func (c *SFM) put(r []byte, words []uint16) {
	var b []byte
	for _, w := range words {
		b = append(b, byte(w>>8), byte(w))
		b = append(b, c.crc(b[len(b)-2:]))
	}
	for i := range r {
		r[i] = 0xff
	}
	copy(r, b)
	if c.spoil != nil {
		c.spoil(r)
	}
}

// crc is the remainder of a division by x⁸+x⁵+x⁴+1.
func (c *SFM) crc(b []byte) byte {
	v := uint32(b[0])<<8 | uint32(b[1])
	if !c.Old {
		v ^= 0xff00
	}
	v <<= 8
	for bit := 23; bit >= 8; bit-- {
		if v>>bit&1 != 0 {
			v ^= 0x131 << (bit - 8)
		}
	}
	return byte(v)
}

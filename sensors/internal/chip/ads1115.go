package chip

import (
	"math"
	"sync"
	"time"

	"periph.io/x/conn/v3/physic"
)

const (
	ads1115PowerOn = 0x8583
	ads1115Wake    = 30 * time.Microsecond
)

// ADS1115 models the converter in single-shot mode (Texas Instruments SBAS444):
// pointer and registers, the start bit that is ignored while a conversion runs,
// the ready bit, and a conversion register that keeps the last finished value,
// whichever input it is of. Not modelled: continuous mode, the comparator.
type ADS1115 struct {
	// Now is the chip's time; Slow is how long a conversion takes, as a multiple
	// of the nominal time.
	Now  func() time.Time
	Slow float64

	mu         sync.Mutex
	volts      [4]physic.ElectricPotential
	pointer    byte
	config     uint16 // without the ready bit
	conversion int16
	thresholds [2]uint16
	busy       bool
	done       time.Time // when the running conversion ends
	pending    int16     // its result
	fixed      *uint16   // what every read yields, for stuck lines
	frozen     bool      // conversions never end
	asleep     bool      // starts are ignored
}

// NewADS1115 is a chip after power-on, of nominal speed, all inputs at 0 V.
func NewADS1115(now func() time.Time) *ADS1115 {
	c := &ADS1115{Now: now, Slow: 1}
	c.BrownOut()
	return c
}

// BrownOut resets the chip as a dip of its supply does.
func (c *ADS1115) BrownOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pointer, c.config, c.conversion, c.busy = 0, ads1115PowerOn&0x7fff, 0, false
	c.thresholds = [2]uint16{0x8000, 0x7fff}
}

// Set puts an input at a voltage.
func (c *ADS1115) Set(input int, v physic.ElectricPotential) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volts[input] = v
}

// Stick makes every read yield v, as lines do that something holds; nil ends it.
func (c *ADS1115) Stick(v *uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed = v
}

// Freeze makes conversions never end.
func (c *ADS1115) Freeze(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = on
}

// IgnoreStarts makes the chip take settings without measuring.
func (c *ADS1115) IgnoreStarts(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = on
}

// Transfer implements Device.
func (c *ADS1115) Transfer(w, r []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if c.busy && !c.frozen && !now.Before(c.done) {
		c.busy, c.conversion = false, c.pending
	}
	if len(w) > 0 {
		c.pointer = w[0] & 3
	}
	if len(w) >= 3 {
		c.write(uint16(w[1])<<8|uint16(w[2]), now)
	}
	if len(r) > 0 {
		v := c.read()
		for i := range r { // past two bytes nothing is specified
			r[i] = 0xff
		}
		r[0] = byte(v >> 8)
		if len(r) > 1 {
			r[1] = byte(v)
		}
	}
	return nil
}

// write sets the register that the pointer stands on.
func (c *ADS1115) write(v uint16, now time.Time) {
	switch c.pointer {
	case 1:
		c.config = v & 0x7fff
		if v&0x8000 != 0 && v&0x0100 != 0 && !c.busy && !c.asleep {
			c.start(now)
		}
	case 2, 3:
		c.thresholds[c.pointer-2] = v
	}
}

// start latches input and range, so a later setting does not touch the running
// conversion.
func (c *ADS1115) start(now time.Time) {
	rate := [8]int{8, 16, 32, 64, 128, 250, 475, 860}[c.config>>5&7]
	c.busy = true
	c.done = now.Add(ads1115Wake + time.Duration(c.Slow*float64(time.Second)/float64(rate)))
	c.pending = c.code(c.selected())
}

// selected is the voltage between the two inputs, or of one against ground, that the
// multiplexer selects.
func (c *ADS1115) selected() physic.ElectricPotential {
	switch mux := c.config >> 12 & 7; mux {
	case 0:
		return c.volts[0] - c.volts[1]
	case 1, 2, 3:
		return c.volts[mux-1] - c.volts[3]
	default:
		return c.volts[mux-4]
	}
}

// code is what the converter makes of a voltage in the set range.
func (c *ADS1115) code(v physic.ElectricPotential) int16 {
	scale := [8]float64{6.144, 4.096, 2.048, 1.024, .512, .256, .256, .256}[c.config>>9&7]
	code := math.Round(float64(v) / float64(physic.Volt) / scale * 32768)
	return int16(min(max(code, -32768), 32767))
}

func (c *ADS1115) read() uint16 {
	if c.fixed != nil {
		return *c.fixed
	}
	switch c.pointer {
	case 0:
		return uint16(c.conversion)
	case 1:
		if c.busy {
			return c.config
		}
		return c.config | 0x8000
	}
	return c.thresholds[c.pointer-2]
}

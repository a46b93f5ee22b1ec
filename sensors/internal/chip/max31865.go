package chip

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// MAX31865 models the resistance converter (Maxim 19-6478) in its normally-off
// mode: registers, the conversion that takes its time and then replaces the code,
// the faults that each conversion, each detection cycle and a voltage out of range
// latch. Not modelled: automatic conversion, the automatic cycle.
type MAX31865 struct {
	// Now is the chip's time; Slow is how long a conversion takes, as a multiple of
	// the typical time.
	Now  func() time.Time
	Slow float64

	Reference float64 // Ohm

	mu       sync.Mutex
	ohms     float64
	wires    byte // bits 5 to 3 that a cycle would find
	voltage  bool // an input is out of range
	regs     [8]byte
	done     time.Time // when the running conversion ends
	busy     bool
	pending  uint16 // its code
	biased   time.Time
	cycling  bool // in the first half of a cycle
	deaf     bool // writes do nothing
	frozen   bool // conversions never end
	unbiased int  // conversions that began before the input had settled
}

// NewMAX31865 is a chip after power-on with a sensor of 100 Ohm.
func NewMAX31865(now func() time.Time, reference float64) *MAX31865 {
	c := &MAX31865{Now: now, Slow: 1, Reference: reference, ohms: 100}
	c.BrownOut()
	return c
}

// BrownOut resets the chip as a dip of its supply does.
func (c *MAX31865) BrownOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regs = [8]byte{3: 0xff, 4: 0xff}
	c.busy, c.cycling = false, false
}

// Set gives the sensor a resistance.
func (c *MAX31865) Set(ohms float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ohms = ohms
}

// Wire makes detection cycles find the bits of the fault status, of 0x20, 0x10 and
// 0x08, and voltage the one that needs none.
func (c *MAX31865) Wire(cycle byte, voltage bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires, c.voltage = cycle&0x38, voltage
}

// Deafen makes the chip ignore writes; Freeze makes conversions never end.
func (c *MAX31865) Deafen(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = on
}

// Freeze makes conversions never end.
func (c *MAX31865) Freeze(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = on
}

// Status is the latched faults, Biased whether current flows, Unsettled how many
// conversions began too soon after it was switched on.
func (c *MAX31865) Status() (status byte, biased bool, unsettled int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regs[7], c.regs[0]&0x80 != 0, c.unbiased
}

// Exchange implements SPIDevice.
func (c *MAX31865) Exchange(w []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick()
	r := make([]byte, len(w))
	if len(w) == 0 {
		return r
	}
	address := w[0] & 0x7f
	for i := 1; i < len(w); i++ {
		register := (int(address) + i - 1) % 8
		if w[0]&0x80 == 0 {
			r[i] = c.regs[register]
		} else if !c.deaf {
			c.write(register, w[i])
		}
	}
	return r
}

// tick lets what has happened since the last frame happen.
func (c *MAX31865) tick() {
	if c.busy && !c.frozen && !c.Now().Before(c.done) {
		c.busy = false
		c.regs[0] &^= 0x20
		binary.BigEndian.PutUint16(c.regs[1:], c.pending<<1)
		if c.pending<<1 >= binary.BigEndian.Uint16(c.regs[3:])&^1 {
			c.regs[7] |= 0x80
		}
		if c.pending<<1 <= binary.BigEndian.Uint16(c.regs[5:])&^1 {
			c.regs[7] |= 0x40
		}
	}
	if c.voltage {
		c.regs[7] |= 0x04
	}
	c.regs[2] &^= 1
	if c.regs[7] != 0 {
		c.regs[2] |= 1
	}
}

func (c *MAX31865) write(register int, v byte) {
	switch register {
	case 3, 4, 5, 6:
		c.regs[register] = v
	case 0:
		c.configure(v)
	}
}

func (c *MAX31865) configure(v byte) {
	if v&0x80 != 0 && c.regs[0]&0x80 == 0 {
		c.biased = c.Now()
	}
	if v&0x02 != 0 && v&0x2c == 0 {
		c.regs[7] = 0
	}
	switch v & 0x0c {
	case 0x08:
		c.cycling = true
		c.regs[7] |= c.wires & 0x20
	case 0x0c:
		if c.cycling {
			c.regs[7] |= c.wires & 0x18
		}
		c.cycling = false
		v &^= 0x0c
	}
	c.regs[0] = v &^ 0x02
	if v&0x20 != 0 {
		c.start(v)
	}
	c.tick()
}

// start latches the sensor, so a later change does not touch the running
// conversion. Without current, or before it has settled, the code is that of a
// sensor that is not there yet.
func (c *MAX31865) start(v byte) {
	typical := 52 * time.Millisecond
	if v&0x01 != 0 {
		typical = 62500 * time.Microsecond
	}
	c.busy, c.done = true, c.Now().Add(time.Duration(c.Slow*float64(typical)))
	code := math.Round(c.ohms / c.Reference * 32768)
	if v&0x80 == 0 || c.Now().Sub(c.biased) < 10*time.Millisecond {
		c.unbiased++
		code /= 2
	}
	c.pending = uint16(min(max(code, 0), 32767))
}

package sensors

import (
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
)

// TestADS1115PowerOnSetting: the setting of one channel, input 0-1 at ±2.048 V and 128
// samples a second, is the chip's own after power-on. A brown-out at any moment of its
// read, and not only at a transfer, must still be seen: the register then holds 0 V.
func TestADS1115PowerOnSetting(t *testing.T) {
	const want = 700 * physic.MilliVolt
	read := func(at time.Duration) (got Sample, err error, hit bool) {
		r := newRig()
		r.model.Set(0, 1200*physic.MilliVolt)
		r.model.Set(1, 500*physic.MilliVolt)
		d, err := NewADS1115(r.bus, 0x48, r.clock)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Channel("0-1", 2048*physic.MilliVolt, 128)
		if err != nil {
			t.Fatal(err)
		}
		began := r.clock.Now()
		r.bus.Before = func(int, uint16, []byte, []byte) error {
			if !hit && r.clock.Now().Sub(began) >= at {
				hit = true
				r.model.BrownOut()
			}
			return nil
		}
		got, err = c.Read(t.Context())
		return got, err, hit
	}
	for at := time.Duration(0); ; at += 50 * time.Microsecond {
		got, err, hit := read(at)
		if !hit {
			if err != nil || !near(got.Volts, want) {
				t.Errorf("without a brown-out: got %v, %v, want %s", got, err, physic.ElectricPotential(want))
			}
			break
		}
		if err == nil && !near(got.Volts, want) {
			t.Errorf("brown-out after %s: got %s, want %s or a fault", at, got.Volts, physic.ElectricPotential(want))
		}
	}
}

package sensors

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
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

// TestADS1115EveryChannelSharesTheChip reads random channels of one chip in turn, single
// and differential, of any full scale and rate, while transfers go wrong. What is read is
// the voltage of that channel at that time, or a fault.
func TestADS1115EveryChannelSharesTheChip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		r.model.Slow = rapid.Float64Range(0.90, 1.10).Draw(t, "slow")
		d, err := NewADS1115(r.bus, 0x48, r.clock)
		if err != nil {
			t.Fatal(err)
		}
		kinds := rapid.SampledFrom([]string{"", "", "", "", "", "", "nack", "i/o error", "nothing moved", "brown-out", "late"})
		r.bus.Before = func(int, uint16, []byte, []byte) error {
			if kind := kinds.Draw(t, "injury"); kind != "" {
				return injuries[kind](r)
			}
			return nil
		}
		for range 12 {
			var at [4]float64 // volts at the inputs
			for i := range at {
				at[i] = rapid.Float64Range(-0.2, 5).Draw(t, "volts")
				r.model.Set(i, physic.ElectricPotential(at[i]*1e9))
			}
			name := rapid.SampledFrom(ads1115Inputs[:]).Draw(t, "input")
			full := rapid.SampledFrom(ads1115Ranges[:]).Draw(t, "full scale")
			c, err := d.Channel(name, full, rapid.SampledFrom(ads1115Rates[:]).Draw(t, "rate"))
			if err != nil {
				t.Fatal(err)
			}
			want := at[name[0]-'0']
			if plus, minus, ok := strings.Cut(name, "-"); ok {
				want = at[plus[0]-'0'] - at[minus[0]-'0']
			}
			got, err := c.Measure(context.Background())
			if err == nil && math.Abs(got.Value-want) > float64(full)/1e9/32768 {
				t.Fatalf("input %s at %s: got %g V, want %g V or a fault", name, full, got.Value, want)
			}
		}
	})
}

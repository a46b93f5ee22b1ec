package sensors

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/i2c"

	"oxyd/sensors/internal/chip"
)

// benchOf is a bench with an ADS1115 on it, in virtual time.
func benchOf(t *testing.T, s Spec) (*Bench, *chip.ADS1115, *chip.Bus) {
	t.Helper()
	model, bus := chip.NewADS1115(time.Now), &chip.Bus{Name: "/dev/i2c-1"}
	bus.Plug(0x48, model)
	b, err := OpenBench(t.Context(), s, OpenOptions{OpenBus: func(string) (i2c.BusCloser, error) { return bus, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return b, model, bus
}

// TestBenchSettles: the median of the good reads counts, and a failed one here and
// there is passed over; the bus is closed in the end.
func TestBenchSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, model, bus := benchOf(t, gaugeSpec("A", "1", 0))
		model.Set(0, 2500*mV)
		read := 0
		bus.After = func(int) { // each read is several transfers: now and then one shows a lamp that was switched on
			if read++; read%20 == 0 {
				model.Set(0, 2900*mV)
			} else {
				model.Set(0, 2500*mV)
			}
		}
		got, err := b.Settle(t.Context(), 25, 10*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if d := got.At - 2.5; got.Reads != 25 || max(d, -d) > 1e-3 || got.Raw == 0 {
			t.Errorf("got %+v, want 2.5 V of 25 reads", got)
		}
		if b.Signal != SignalVoltage || b.Place != "/dev/i2c-1 0x48 AIN0" {
			t.Errorf("got %s at %s", b.Signal, b.Place)
		}
		if err := b.Close(); err != nil || bus.Closed() != 1 {
			t.Errorf("close: %v, closed %d times", err, bus.Closed())
		}
	})
}

// TestBenchGivesUp: a chip that does not answer any more ends it with its reason, and
// not with what was read before.
func TestBenchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, model, bus := benchOf(t, gaugeSpec("A", "1", 0))
		model.Set(0, 2500*mV)
		bus.Before = func(n int, _ uint16, _, _ []byte) error {
			if n > 40 {
				return chip.Errno(syscall.EREMOTEIO)
			}
			return nil
		}
		got, err := b.Settle(t.Context(), 25, 10*time.Millisecond)
		if f, _ := errors.AsType[*Fault](err); f == nil || f.Reason != ReasonNack || got != (Steady{}) {
			t.Errorf("got %+v, %v, want a nack", got, err)
		}
	})
}

// TestBenchRefuses: a chip that is not there, and a spec that cannot be.
func TestBenchRefuses(t *testing.T) {
	bus := &chip.Bus{Name: "/dev/i2c-1"}
	o := OpenOptions{OpenBus: func(string) (i2c.BusCloser, error) { return bus, nil }}
	if _, err := OpenBench(t.Context(), gaugeSpec("A", "1", 0), o); asFault(err).Reason != ReasonNack || bus.Closed() != 1 {
		t.Errorf("got %v, closed %d times, want a nack and the bus closed", err, bus.Closed())
	}
	if _, err := OpenBench(t.Context(), Spec{Tank: "A", Driver: "hx712"}, o); err == nil {
		t.Error("an unknown driver is opened")
	}
}

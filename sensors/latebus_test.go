package sensors

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"

	"oxyd/sensors/internal/chip"
)

// lateRig is a lateBus whose device can be there or not, and fail.
type lateRig struct {
	*lateBus
	clock    *virtual
	there    bool
	fail     func(n int) error // of every transfer, by its number on the handle
	handles  []*chip.Bus
	attempts int // to open
}

func newLateRig() *lateRig {
	r := &lateRig{clock: newVirtual(), there: true}
	model := chip.NewADS1115(r.clock.Now)
	r.lateBus = &lateBus{name: "/dev/i2c-7", clock: r.clock, open: func(name string) (i2c.BusCloser, error) {
		r.attempts++
		if !r.there {
			return nil, &BusError{Bus: name, Err: fs.ErrNotExist}
		}
		bus := &chip.Bus{Name: name}
		bus.Before = func(n int, _ uint16, _, _ []byte) error {
			if r.fail == nil {
				return nil
			}
			return r.fail(n)
		}
		bus.Plug(0x48, model)
		r.handles = append(r.handles, bus)
		return bus, nil
	}}
	return r
}

// always fails every transfer.
func always(errno syscall.Errno) func(int) error {
	return func(int) error { return chip.Errno(errno) }
}

func (r *lateRig) tx(t *testing.T, want error) {
	t.Helper()
	if err := r.Tx(0x48, []byte{0}, nil); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// TestLateBus: the device is opened when needed, and anew after it went away; any
// other error leaves it open.
func TestLateBus(t *testing.T) {
	r := newLateRig()
	r.there = false
	r.tx(t, fs.ErrNotExist)
	r.there = true
	r.tx(t, nil)
	r.fail = always(syscall.EIO)
	r.tx(t, syscall.EIO)
	r.fail = always(syscall.ENXIO)
	r.tx(t, syscall.ENXIO)
	if len(r.handles) != 1 || r.handles[0].Closed() != 0 {
		t.Fatalf("got %d handles, want 1 that is open", len(r.handles))
	}
	for i, errno := range []syscall.Errno{syscall.ENODEV, syscall.ENOENT, syscall.EBADF, syscall.ESHUTDOWN, syscall.ENOTCONN} {
		r.fail = always(errno)
		r.tx(t, errno)
		if r.handles[i].Closed() != 1 {
			t.Errorf("%v: the dead handle is still open", errno)
		}
		r.there = false
		r.tx(t, fs.ErrNotExist)
		r.there, r.fail = true, nil
		r.clock.advance(reopenFirst)
		r.tx(t, nil)
	}
	if err := r.Close(); err != nil || len(r.handles) != 6 || r.handles[5].Closed() != 1 {
		t.Errorf("close: got %v, %d handles, want 6 and the last closed", err, len(r.handles))
	}
	if got := r.opened.Load(); got != 6 {
		t.Errorf("got %d openings counted, want 6", got)
	}
}

// TestLateBusBacksOff: a device that stays away is not tried at every transfer,
// and every transfer meanwhile says why.
func TestLateBusBacksOff(t *testing.T) {
	r := newLateRig()
	r.there = false
	for range 600 { // a minute of transfers
		r.tx(t, fs.ErrNotExist)
		r.clock.advance(100 * time.Millisecond)
	}
	if r.attempts < 12 || r.attempts > 18 {
		t.Errorf("got %d attempts in a minute, want about one each %s", r.attempts, reopenMax)
	}
	r.there = true
	r.clock.advance(reopenMax)
	r.tx(t, nil)

	// One that opens and is gone at the first transfer is no better.
	r.fail, r.attempts = always(syscall.ENODEV), 0
	for range 600 {
		if r.Tx(0x48, []byte{0}, nil) == nil {
			t.Fatal("got no error")
		}
		r.clock.advance(100 * time.Millisecond)
	}
	if r.attempts < 12 || r.attempts > 18 {
		t.Errorf("flapping: got %d attempts in a minute, want about one each %s", r.attempts, reopenMax)
	}
}

// TestLateBusAsksAgain: a chip that is busy for a moment is asked again at once; one
// that is absent is a fault after nackRetries; trouble of the bus is not repeated.
func TestLateBusAsksAgain(t *testing.T) {
	for _, tt := range []struct {
		name            string
		fail            func(n int) error
		want            error
		transfers       int
		nacks, failures uint64
	}{
		{"busy once", func(n int) error {
			if n == 0 {
				return chip.Errno(syscall.EREMOTEIO)
			}
			return nil
		}, nil, 2, 1, 0},
		{"busy twice", func(n int) error {
			if n < 2 {
				return chip.Errno(syscall.ENXIO)
			}
			return nil
		}, nil, 3, 2, 0},
		{"absent", always(syscall.EREMOTEIO), syscall.EREMOTEIO, 3, 3, 0},
		{"timeout", always(syscall.ETIMEDOUT), syscall.ETIMEDOUT, 1, 0, 1},
		{"arbitration", always(syscall.EAGAIN), syscall.EAGAIN, 1, 0, 1},
		{"short", func(int) error { return ErrShortTransfer }, ErrShortTransfer, 1, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLateRig()
			r.fail = tt.fail
			began := r.clock.Now()
			r.tx(t, tt.want)
			if got := r.handles[0].Transfers(); got != tt.transfers {
				t.Errorf("got %d transfers, want %d", got, tt.transfers)
			}
			if n, f := r.nacks.Load(), r.failures.Load(); n != tt.nacks || f != tt.failures {
				t.Errorf("got %d nacks and %d failures counted, want %d and %d", n, f, tt.nacks, tt.failures)
			}
			if got, want := r.clock.Now().Sub(began), time.Duration(tt.transfers-1)*nackPause; got != want {
				t.Errorf("took %s, want %s", got, want)
			}
		})
	}
}

// TestLateBusMindsTheReadsTime: after the read's time no further transfer begins.
func TestLateBusMindsTheReadsTime(t *testing.T) {
	r := newLateRig()
	r.begin(r.clock.Now().Add(300 * time.Millisecond))
	r.fail = func(int) error { r.clock.advance(200 * time.Millisecond); return nil }
	r.tx(t, nil)
	r.tx(t, nil)
	err := r.Tx(0x48, []byte{0}, nil)
	if f := busFault("read", err); f.Reason != ReasonTimeout {
		t.Errorf("got %v, want reason %s", f, ReasonTimeout)
	}
	if got := r.handles[0].Transfers(); got != 2 {
		t.Errorf("got %d transfers, want 2", got)
	}
	r.begin(r.clock.Now().Add(300 * time.Millisecond))
	r.tx(t, nil)
}

// TestLateBusLeavesAloneWhatHoldsItUp: the chip that held the bus up is not asked
// for a while, others are; a slow transfer that ends well is allowed its time.
func TestLateBusLeavesAloneWhatHoldsItUp(t *testing.T) {
	r := newLateRig()
	takes, fails := time.Duration(0), error(nil)
	r.fail = func(int) error { r.clock.advance(takes); return fails }
	takes = I2CTimeout - time.Millisecond
	r.tx(t, nil)
	r.tx(t, nil)
	takes, fails = time.Second, chip.Errno(syscall.ETIMEDOUT)
	r.tx(t, syscall.ETIMEDOUT)
	for i, pause := range []time.Duration{secondChance, holdShare * time.Second, holdShare * time.Second} {
		before := r.handles[0].Transfers()
		r.clock.advance(pause - time.Millisecond)
		r.tx(t, syscall.ETIMEDOUT)
		if got := r.handles[0].Transfers(); got != before {
			t.Errorf("rest %d: the chip was asked before %s", i, pause)
		}
		takes = 0
		if err := r.Tx(0x49, []byte{0}, nil); errors.Is(err, nil) || r.handles[0].Transfers() == before {
			t.Errorf("rest %d: the neighbour was not asked", i)
		}
		takes = time.Second
		r.clock.advance(10 * time.Millisecond)
		before = r.handles[0].Transfers()
		r.tx(t, syscall.ETIMEDOUT)
		if got := r.handles[0].Transfers(); got != before+1 {
			t.Errorf("rest %d: the chip was not asked after %s", i, pause)
		}
	}
	takes, fails = 0, nil
	r.clock.advance(holdShare * time.Second)
	r.tx(t, nil)
	takes, fails = time.Second, chip.Errno(syscall.ETIMEDOUT)
	r.tx(t, syscall.ETIMEDOUT)
	r.clock.advance(secondChance)
	takes, fails = 0, nil
	r.tx(t, nil) // the row began anew
}

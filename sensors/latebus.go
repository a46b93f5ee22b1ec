package sensors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
)

// Bounds of a bus that comes and goes.
const (
	// nackRetries is how often a transfer that nobody acknowledged is made again at
	// once: a chip may be busy for a moment. Then it is a fault.
	nackRetries = 2
	// nackPause lies between two of these.
	nackPause = 2 * time.Millisecond
	// reopenFirst is the pause after the second failure in a row to open a device;
	// the first is tried again at the next transfer. It doubles up to reopenMax.
	reopenFirst = 250 * time.Millisecond
	reopenMax   = 5 * time.Second
)

// lateBus is an i2c.Bus that opens its device when it is first used, and anew
// after the device went away. So a bus that appears late, or comes back, heals the
// channels on it without a restart. One goroutine owns it; its counters may be
// read by any.
type lateBus struct {
	name  string
	open  func(name string) (i2c.BusCloser, error)
	clock Clock // nil is the system's

	bus      i2c.BusCloser // nil while closed
	deadline time.Time     // no transfer begins after it; zero is none

	pause     time.Duration // after the next failure to open
	notBefore time.Time     // of the next attempt to open
	lost      error         // why the device is closed

	holds map[uint16]hold // chips that held the bus up, by address

	opened, nacks, failures atomic.Uint64
}

// hold is a chip that held the bus up at its latest transfer. It is left alone for a
// while, by all of its channels: what they ask of it meanwhile fails at once.
type hold struct {
	inRow int       // such transfers without a quick good one in between
	until time.Time // when it is asked again
	cause error
}

func (b *lateBus) String() string { return b.name }

// begin sets until when transfers of the read that now begins may start. A chip
// that holds up every transfer then costs its bus the read's time and one
// transfer more, and not as many transfers as its driver has to make.
func (b *lateBus) begin(deadline time.Time) { b.deadline = deadline }

// Open opens the device unless it is open. Soon after a failure it is not tried
// again, and the failure returned anew.
func (b *lateBus) Open() error {
	if b.bus != nil {
		return nil
	}
	if b.lost != nil && b.now().Before(b.notBefore) {
		return b.lost
	}
	bus, err := b.open(b.name)
	if err != nil {
		b.postpone(err)
		return err
	}
	b.bus = bus
	b.opened.Add(1)
	return nil
}

// postpone plans the next attempt to open: at once, then later and later until a
// transfer succeeds.
func (b *lateBus) postpone(err error) {
	b.lost, b.notBefore = err, b.now().Add(b.pause)
	b.pause = min(max(2*b.pause, reopenFirst), reopenMax)
}

// Tx implements i2c.Bus. A transfer that nobody acknowledges is tried nackRetries
// times more. A device that is gone is closed, so that the kernel can take it away
// (it waits for its last user), and opened by a later Tx.
func (b *lateBus) Tx(addr uint16, w, r []byte) error {
	for try := 0; ; try++ {
		err := b.once(addr, w, r)
		if !unacknowledged(err) || try == nackRetries {
			return err
		}
		if err := b.time().Sleep(context.Background(), nackPause); err != nil {
			return err
		}
	}
}

// once makes one transfer and counts how it ended.
func (b *lateBus) once(addr uint16, w, r []byte) error {
	if !b.deadline.IsZero() && !b.now().Before(b.deadline) {
		return fmt.Errorf("%s address %#x: the read's time is over: %w", b.name, addr, context.DeadlineExceeded)
	}
	if h := b.holds[addr]; b.now().Before(h.until) {
		return fmt.Errorf("%s address %#x is left alone since it held the bus up: %w", b.name, addr, h.cause)
	}
	if err := b.Open(); err != nil {
		return err
	}
	began := b.now()
	err := b.bus.Tx(addr, w, r)
	b.rate(addr, b.now().Sub(began), err)
	switch {
	case err == nil:
		b.pause, b.lost = 0, nil
	case gone(err):
		b.postpone(err)
		return errors.Join(err, b.Close())
	case unacknowledged(err):
		b.nacks.Add(1)
	default:
		b.failures.Add(1)
	}
	return err
}

// rate notes how long a transfer had the bus. One that ended well may take what the
// adapter allows to a chip that stretches the clock.
func (b *lateBus) rate(addr uint16, took time.Duration, err error) {
	if took < holdLimit || took < I2CTimeout && err == nil {
		if err == nil {
			delete(b.holds, addr)
		}
		return
	}
	h := b.holds[addr]
	h.inRow++
	h.until = b.now().Add(restOf(h.inRow, took))
	if h.cause = err; err == nil {
		h.cause = fmt.Errorf("a transfer took %s: %w", took, context.DeadlineExceeded)
	}
	if b.holds == nil {
		b.holds = map[uint16]hold{}
	}
	b.holds[addr] = h
}

// count fills in what the bus has counted. Any goroutine may call it.
func (b *lateBus) count(s *BusState) {
	s.Failures, s.Nacks = b.failures.Load(), b.nacks.Load()
	if n := b.opened.Load(); n > 1 {
		s.Reopens = n - 1
	}
}

// SetSpeed implements i2c.Bus.
func (b *lateBus) SetSpeed(f physic.Frequency) error {
	if err := b.Open(); err != nil {
		return err
	}
	return b.bus.SetSpeed(f)
}

// Close closes the device if it is open.
func (b *lateBus) Close() error {
	if b.bus == nil {
		return nil
	}
	err := b.bus.Close()
	b.bus = nil
	return err
}

func (b *lateBus) time() Clock {
	if b.clock == nil {
		return systemClock{}
	}
	return b.clock
}

func (b *lateBus) now() time.Time { return b.time().Now() }

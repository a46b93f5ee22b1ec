// Package chip models sensor chips and the bus that they sit on, for tests. A
// model keeps the chip's registers and its sense of time, and takes what a bus
// does to it: missing acknowledges, transfers that report success and moved
// nothing, stuck lines, brown-outs.
//
// The models take their time from a function, so the same model runs in virtual
// time in a unit test and in real time behind a kernel's bus. They know nothing
// of the drivers that they test.
package chip

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"periph.io/x/conn/v3/physic"
)

// ErrNothingMoved, returned by Bus.Before, makes the transfer report success
// without having moved a byte, as an adapter does that completes 0 of 1 messages
// under a bus that does not look.
var ErrNothingMoved = errors.New("nothing moved")

// Errno wraps an errno as a bus on i2c-dev does.
func Errno(e syscall.Errno) error { return fmt.Errorf("test bus: %w", e) }

// Device is a chip at one address. Transfer writes w, then reads into r; either
// may be empty.
type Device interface {
	Transfer(w, r []byte) error
}

// Bus implements i2c.BusCloser over models. Nobody answers at an address without
// a device.
type Bus struct {
	Name string

	// Before, if set, sees every transfer first, with its number from 0. An error
	// is the transfer's, and the device does not see it. It may block, as a hung
	// adapter does.
	Before func(n int, addr uint16, w, r []byte) error
	// After, if set, sees every transfer that a device did.
	After func(n int)

	mu      sync.Mutex
	devices map[uint16]Device
	n       int
	closed  int
}

// Plug puts a device at an address; nil takes it away.
func (b *Bus) Plug(addr uint16, d Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.devices == nil {
		b.devices = map[uint16]Device{}
	}
	if d == nil {
		delete(b.devices, addr)
		return
	}
	b.devices[addr] = d
}

// Transfers is how many there were.
func (b *Bus) Transfers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// Closed is how often the bus was closed.
func (b *Bus) Closed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *Bus) String() string { return b.Name }

// Tx implements i2c.Bus.
func (b *Bus) Tx(addr uint16, w, r []byte) error {
	b.mu.Lock()
	n, d := b.n, b.devices[addr]
	b.n++
	b.mu.Unlock()
	if b.Before != nil {
		if err := b.Before(n, addr, w, r); err == ErrNothingMoved {
			return nil
		} else if err != nil {
			return err
		}
	}
	if d == nil {
		return Errno(syscall.EREMOTEIO)
	}
	err := d.Transfer(w, r)
	if b.After != nil {
		b.After(n)
	}
	return err
}

// SetSpeed implements i2c.Bus.
func (b *Bus) SetSpeed(physic.Frequency) error { return nil }

// Close implements i2c.BusCloser.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return nil
}

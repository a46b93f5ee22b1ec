package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/host/v3/sysfs"
)

// i2cDevices is where i2c-dev puts the buses, one node each.
const i2cDevices = "/dev/i2c-"

// BusError says that a bus cannot be opened, and what to do about it.
type BusError struct {
	Bus    string   // the device node that was wanted
	Found  []string // the buses that are there, in order
	Advice string   // what to enable or change
	Err    error
}

// Error names the bus, the cause and the buses that are there. It leaves out the
// hint.
func (e *BusError) Error() string {
	found := "there is no I2C bus"
	if !strings.HasPrefix(e.Bus, i2cDevices) {
		found = "there is none here"
	}
	if len(e.Found) > 0 {
		found = "buses here: " + strings.Join(e.Found, ", ")
	}
	return fmt.Sprintf("open bus %s: %v (%s)", e.Bus, e.Err, found)
}

// Hint says what to enable or change.
func (e *BusError) Hint() string { return e.Advice }

// Unwrap gives the cause, fs.ErrNotExist for a bus that is not there.
func (e *BusError) Unwrap() error { return e.Err }

// OpenI2C opens the bus that "1", "/dev/i2c-1" or "I2C1" names. A bus that is not
// there or not permitted is a *BusError. Who opens it closes it.
//
// The bus is periph's on i2c-dev, opened by number and not through its registry:
// the registry is filled once per process and never sees a bus that appears
// later, such as a USB adapter, and filling it touches GPIO, SPI, LED and thermal
// files that no sensor here needs.
func OpenI2C(name string) (i2c.BusCloser, error) {
	number, err := busNumber(name)
	if err != nil {
		return nil, err
	}
	node := i2cDevices + strconv.Itoa(number)
	if err := tryNode(node); err != nil {
		return nil, newBusError(node, err)
	}
	bus, err := sysfs.NewI2C(number)
	if err != nil {
		return nil, newBusError(node, err)
	}
	return bus, nil
}

// busNumber reads the number out of a bus's name.
func busNumber(name string) (int, error) {
	digits, ok := strings.CutPrefix(name, i2cDevices)
	if !ok {
		digits = strings.TrimPrefix(name, "I2C")
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q names no I2C bus: write 1, I2C1 or /dev/i2c-1", name)
	}
	return int(n), nil
}

// tryNode sees whether the node can be opened and is a device. periph hides the
// cause of a failure, and leaks the handle of a node that is no bus.
func tryNode(node string) error {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return errors.Unwrap(err) // without the path, which BusError names
	}
	defer f.Close()
	if s, err := f.Stat(); err != nil {
		return err
	} else if s.Mode()&fs.ModeCharDevice == 0 {
		return errors.New("not a character device")
	}
	return nil
}

func newBusError(node string, err error) *BusError {
	e := &BusError{Bus: node, Found: foundBuses(i2cDevices), Err: err}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Advice = "add the daemon's user to the group i2c (usermod -aG i2c USER, or SupplementaryGroups=i2c in the unit), and allow the device (DeviceAllow=char-i2c rw)"
	case missing && len(e.Found) > 0:
		e.Advice = "name one of the buses that are there, or enable this one in the device tree"
	case missing:
		e.Advice = "enable I2C: on a Raspberry Pi add dtparam=i2c_arm=on to config.txt and reboot; " +
			"elsewhere load the module i2c-dev (modprobe i2c-dev) and enable the controller in the device tree; " +
			"in a container pass the device " + node
	default:
		e.Advice = "the node is there but does not open as an I2C bus: look at ls -l " + node + " and at the kernel's log"
	}
	return e
}

// foundBuses lists the nodes that begin with prefix and end in a number, by
// number.
func foundBuses(prefix string) []string {
	nodes, _ := filepath.Glob(prefix + "*") // the pattern is well formed
	number := func(node string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(node, prefix))
		if err != nil {
			return -1
		}
		return n
	}
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return number(n) < 0 })
	slices.SortFunc(nodes, func(a, b string) int { return number(a) - number(b) })
	return nodes
}

// lateBus is an i2c.Bus that opens its device when it is first used, and anew
// after the device went away. So a bus that appears late, or comes back, heals
// the channels on it without a restart. One goroutine owns it.
type lateBus struct {
	name string
	open func(name string) (i2c.BusCloser, error)
	bus  i2c.BusCloser // nil while closed
}

func (b *lateBus) String() string { return b.name }

// Open opens the device unless it is open.
func (b *lateBus) Open() error {
	if b.bus != nil {
		return nil
	}
	bus, err := b.open(b.name)
	if err != nil {
		return err
	}
	b.bus = bus
	return nil
}

// Tx implements i2c.Bus. A device that is gone is closed, and opened by the next
// Tx.
func (b *lateBus) Tx(addr uint16, w, r []byte) error {
	if err := b.Open(); err != nil {
		return err
	}
	err := b.bus.Tx(addr, w, r)
	if err != nil && gone(err) {
		return errors.Join(b.Close(), err) // err last: its text is looked at
	}
	return err
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

package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"periph.io/x/conn/v3/i2c"
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
// The bus is our own on i2c-dev (i2cDev), opened by number and not through periph's
// registry: that is filled once per process and never sees a bus that appears
// later, such as a USB adapter.
func OpenI2C(name string) (i2c.BusCloser, error) {
	number, err := busNumber(name)
	if err != nil {
		return nil, err
	}
	node := i2cDevices + strconv.Itoa(number)
	bus, err := openI2CDev(node)
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

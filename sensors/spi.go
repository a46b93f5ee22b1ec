package sensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"periph.io/x/conn/v3"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
	"periph.io/x/host/v3/sysfs"
)

// spiDevices is where spidev puts the chip selects, one node each: bus, dot,
// chip select.
const spiDevices = "/dev/spidev"

// spiName is a chip select's name: "0.0", "SPI0.0" or "/dev/spidev0.0".
var spiName = regexp.MustCompile(`^(?:SPI|/dev/spidev)?([0-9]{1,5})\.([0-9]{1,3})$`)

// SPIConn is one chip select of an SPI bus, open and set to a mode and a speed.
type SPIConn interface {
	spi.Conn
	io.Closer
}

// OpenSPI opens the chip select that "0.0", "SPI0.0" or "/dev/spidev0.0" names,
// with 8 bits a word. One that is not there or not permitted is a *BusError. Who
// opens it closes it.
//
// It is periph's on spidev, opened by number and not through its registry: that
// is filled once per process, and filling it touches GPIO, LED and thermal files
// that no sensor here needs. Unlike periph's own, its errors keep the errno.
func OpenSPI(name string, mode spi.Mode, speed physic.Frequency) (SPIConn, error) {
	bus, chipSelect, err := spiNumbers(name)
	if err != nil {
		return nil, err
	}
	node := spiNode(bus, chipSelect)
	if err := trySPI(node); err != nil {
		return nil, newSPIError(node, err)
	}
	port, err := sysfs.NewSPI(bus, chipSelect)
	if err != nil {
		return nil, newSPIError(node, withErrno(err))
	}
	c, err := port.Connect(speed, mode, 8)
	if err != nil {
		return nil, newSPIError(node, errors.Join(withErrno(err), port.Close()))
	}
	return &spiDev{Conn: c, port: port}, nil
}

// spiNumbers reads bus and chip select out of a name.
func spiNumbers(name string) (bus, chipSelect int, err error) {
	m := spiName.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, fmt.Errorf("%q names no SPI chip select: write 0.0, SPI0.0 or /dev/spidev0.0", name)
	}
	if _, err := fmt.Sscan(m[1]+" "+m[2], &bus, &chipSelect); err != nil || bus > 65535 || chipSelect > 255 {
		return 0, 0, fmt.Errorf("%q names no SPI chip select: the bus goes to 65535, the chip select to 255", name)
	}
	return bus, chipSelect, nil
}

func spiNode(bus, chipSelect int) string { return fmt.Sprintf("%s%d.%d", spiDevices, bus, chipSelect) }

// trySPI sees whether the node can be opened and is a device: periph hides the
// cause of a failure.
func trySPI(node string) error {
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

func newSPIError(node string, err error) *BusError {
	e := &BusError{Bus: node, Found: FindSPI(), Err: err}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Advice = "add the daemon's user to the group spi (usermod -aG spi USER, or SupplementaryGroups=spi in the unit), and allow the device (DeviceAllow=char-spi rw)"
	case missing && len(e.Found) > 0:
		e.Advice = "name one of the chip selects that are there, or enable this one in the device tree"
	case missing:
		e.Advice = "enable SPI: on a Raspberry Pi add dtparam=spi=on to config.txt and reboot; " +
			"elsewhere load the module spidev (modprobe spidev) and give the chip select a spidev node in the device tree; " +
			"in a container pass the device " + node
	default:
		e.Advice = "the node is there but does not open as an SPI device: look at ls -l " + node + " and at the kernel's log"
	}
	return e
}

// FindSPI lists the nodes of the chip selects that are there, by bus and chip
// select.
func FindSPI() []string { return foundSPI(spiDevices) }

func foundSPI(prefix string) []string {
	nodes, _ := filepath.Glob(prefix + "*") // the pattern is well formed
	numbers := func(node string) []int {
		bus, chipSelect, err := spiNumbers(strings.TrimPrefix(node, prefix))
		if err != nil {
			return nil
		}
		return []int{bus, chipSelect}
	}
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return numbers(n) == nil })
	slices.SortFunc(nodes, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	return nodes
}

// spiDev is periph's connection with its port, and with the errno in its errors.
type spiDev struct {
	spi.Conn
	port *sysfs.SPI
}

func (d *spiDev) Tx(w, r []byte) error           { return withErrno(d.Conn.Tx(w, r)) }
func (d *spiDev) TxPackets(p []spi.Packet) error { return withErrno(d.Conn.TxPackets(p)) }
func (d *spiDev) Close() error                   { return withErrno(d.port.Close()) }

// withErrno wraps the errno whose text ends err's: periph's sysfs packages format
// their causes with %v, and so hide them from errors.Is.
func withErrno(err error) error {
	if err == nil {
		return nil
	}
	for _, errno := range []syscall.Errno{
		syscall.ENODEV, syscall.ENOENT, syscall.EBADF, syscall.ESHUTDOWN, syscall.ENXIO, syscall.EREMOTEIO,
		syscall.EACCES, syscall.EPERM, syscall.EIO, syscall.ETIMEDOUT, syscall.EAGAIN, syscall.EBUSY, syscall.EINVAL,
	} {
		if text, ok := strings.CutSuffix(err.Error(), errno.Error()); ok && !errors.Is(err, errno) {
			return fmt.Errorf("%s%w", text, errno)
		}
	}
	return err
}

// lateSPI is an spi.Conn that opens its device when it is first used, and anew
// after the device went away, as lateBus does for I2C. One goroutine owns it.
type lateSPI struct {
	name  string
	mode  spi.Mode
	speed physic.Frequency
	open  func(name string, mode spi.Mode, speed physic.Frequency) (SPIConn, error)
	conn  SPIConn // nil while closed
}

func (l *lateSPI) String() string { return l.name }

// Duplex implements conn.Conn.
func (l *lateSPI) Duplex() conn.Duplex { return conn.Full }

// Open opens the device unless it is open.
func (l *lateSPI) Open() error {
	if l.conn != nil {
		return nil
	}
	c, err := l.open(l.name, l.mode, l.speed)
	if err != nil {
		return err
	}
	l.conn = c
	return nil
}

// Tx implements spi.Conn. A device that is gone is closed, and opened by the next
// Tx.
func (l *lateSPI) Tx(w, r []byte) error {
	return l.with(func(c SPIConn) error { return c.Tx(w, r) })
}

// TxPackets implements spi.Conn, as Tx.
func (l *lateSPI) TxPackets(p []spi.Packet) error {
	return l.with(func(c SPIConn) error { return c.TxPackets(p) })
}

func (l *lateSPI) with(transfer func(SPIConn) error) error {
	if err := l.Open(); err != nil {
		return err
	}
	err := transfer(l.conn)
	if err != nil && (gone(err) || errors.Is(err, syscall.ESHUTDOWN)) { // ESHUTDOWN: spidev was unbound
		return errors.Join(err, l.Close())
	}
	return err
}

// Close closes the device if it is open.
func (l *lateSPI) Close() error {
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}

package sensors

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/physic"
)

// The kernel's i2c-dev interface (Linux Documentation/i2c/dev-interface.rst,
// include/uapi/linux/i2c-dev.h and i2c.h).
const (
	i2cTimeoutRequest = 0x0702 // the adapter's patience, in i2cTimeoutUnit
	i2cFuncsRequest   = 0x0705 // what the adapter can do
	i2cRDWRRequest    = 0x0707 // one combined transfer

	i2cFuncPlain  = 1 << 0 // plain transfers, and not only SMBus commands
	i2cFuncTenBit = 1 << 1 // addresses of ten bits

	i2cFlagRead   = 0x0001
	i2cFlagTenBit = 0x0010

	i2cTimeoutUnit = 10 * time.Millisecond
)

// Bounds of a transfer.
const (
	// I2CTimeout is how long an adapter may wait for one transfer before it gives
	// it up by itself. Most have a second, in which a chip that holds the clock
	// line keeps every other chip waiting. The longest transfer of a driver here
	// takes a few milliseconds; the rest is for chips that stretch the clock.
	I2CTimeout = 250 * time.Millisecond
	// i2cMaxMessage is the longest message in bytes: the kernel refuses longer ones
	// (drivers/i2c/i2c-dev.c), and the length field would wrap at 65536.
	i2cMaxMessage = 8192
	// i2cInterrupts is how often in a row a transfer may be interrupted by a signal
	// before that is an error.
	i2cInterrupts = 10
)

// ErrShortTransfer says that the adapter did fewer messages than it was given,
// and called that a success. The bytes of such a transfer are none.
var ErrShortTransfer = errors.New("adapter did not complete the transfer")

// i2cMessage is the kernel's struct i2c_msg. The compiler pads it as C does: 12
// bytes where pointers have 4, 16 where they have 8.
type i2cMessage struct {
	address uint16
	flags   uint16
	length  uint16
	data    unsafe.Pointer
}

// i2cRDWR is the kernel's struct i2c_rdwr_ioctl_data.
type i2cRDWR struct {
	messages *i2cMessage
	n        uint32
}

// i2cDev is an open /dev/i2c-N. It implements i2c.BusCloser. Tx and Close may be
// called concurrently: transfers take turns, and Close waits for the running one,
// which the kernel ends after about I2CTimeout.
//
// It exists because of what periph's own bus for these nodes loses: the errno
// (formatted away), the number of messages done (ignored), and the timeout.
type i2cDev struct {
	node   string
	tenBit bool
	// ioctl is the system call; a test's kernel in its place.
	ioctl func(fd int, request uint, arg uintptr) (int, syscall.Errno)

	mu       sync.Mutex // guards what follows, and the wire
	fd       int        // -1 when closed
	messages [2]i2cMessage
	buffer   []byte // what the kernel reads and writes; kept between transfers
}

// openI2CDev opens the node, sees that it is a bus that can do plain transfers,
// and sets its timeout.
func openI2CDev(node string) (*i2cDev, error) {
	fd, err := openRetrying(node)
	if err != nil {
		return nil, err
	}
	d := &i2cDev{node: node, fd: fd, ioctl: systemIoctl}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return d, nil
}

// openRetrying opens a character device, also where a signal comes in between.
func openRetrying(node string) (fd int, err error) {
	for range i2cInterrupts {
		if fd, err = unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return -1, errors.Join(errors.New("not a character device"), unix.Close(fd))
	}
	return fd, nil
}

// systemIoctl is the kernel. The caller keeps what arg points to pinned.
func systemIoctl(fd int, request uint, arg uintptr) (int, syscall.Errno) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), arg)
	return int(n), errno
}

// prepare asks what the adapter can do and sets its timeout.
func (d *i2cDev) prepare() error {
	funcs := new(uintptr) // the kernel's unsigned long
	if _, err := d.pinned(i2cFuncsRequest, funcs, unsafe.Pointer(funcs)); err != nil {
		return fmt.Errorf("ask what the adapter can do: %w", err)
	}
	if *funcs&i2cFuncPlain == 0 {
		return errors.New("the adapter does SMBus commands only, no plain I2C transfers")
	}
	d.tenBit = *funcs&i2cFuncTenBit != 0
	if _, err := d.retrying(i2cTimeoutRequest, uintptr(I2CTimeout/i2cTimeoutUnit)); err != nil {
		return fmt.Errorf("set the adapter's timeout: %w", err)
	}
	return nil
}

// pinned makes a request whose argument is at p. The objects that the kernel is to
// see stay where they are until it has returned.
func (d *i2cDev) pinned(request uint, object any, p unsafe.Pointer) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(object)
	return d.retrying(request, uintptr(p))
}

// retrying makes a request, again while a signal interrupts it.
func (d *i2cDev) retrying(request uint, arg uintptr) (n int, err error) {
	for range i2cInterrupts {
		n, errno := d.ioctl(d.fd, request, arg)
		switch errno {
		case 0:
			return n, nil
		case unix.EINTR:
			err = errno
		default:
			return n, errno
		}
	}
	return 0, err
}

// String implements conn.Resource: the node's path.
func (d *i2cDev) String() string { return d.node }

// Tx writes w, then reads into r, in one transfer with a repeated start; either
// may be empty. Addresses have seven bits, or ten where the adapter can. The error
// wraps the errno of the kernel, or ErrShortTransfer; r is then as it was.
func (d *i2cDev) Tx(addr uint16, w, r []byte) error {
	if err := d.check(addr, w, r); err != nil {
		return fmt.Errorf("%s address %#x: %w", d.node, addr, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return fmt.Errorf("%s is closed: %w", d.node, unix.EBADF)
	}
	n := d.lay(addr, w, r)
	done, err := d.transfer(n)
	switch {
	case err != nil:
		return fmt.Errorf("%s address %#x: %w", d.node, addr, err)
	case done != n:
		return fmt.Errorf("%s address %#x: %w: %d of %d messages", d.node, addr, ErrShortTransfer, done, n)
	}
	copy(r, d.buffer[len(w):])
	return nil
}

// check refuses what the kernel would misread or the bus cannot do.
func (d *i2cDev) check(addr uint16, w, r []byte) error {
	switch {
	case addr > 0x3ff:
		return errors.New("an address has at most ten bits")
	case addr > 0x7f && !d.tenBit:
		return errors.New("the adapter has no addresses of ten bits")
	case len(w) > i2cMaxMessage || len(r) > i2cMaxMessage:
		return fmt.Errorf("%d bytes to write, %d to read: a message has at most %d", len(w), len(r), i2cMaxMessage)
	case len(w) == 0 && len(r) == 0:
		return errors.New("nothing to write and nothing to read")
	}
	return nil
}

// lay lays the messages and their bytes out for the kernel and returns their
// number. The caller's bytes are copied: so r changes only by a transfer that
// succeeded, and no pointer of the caller's reaches the kernel. What r held is
// laid out too, so that a transfer that moved nothing gives nothing.
func (d *i2cDev) lay(addr uint16, w, r []byte) (n int) {
	d.buffer = append(append(d.buffer[:0], w...), r...)
	var flags uint16
	if addr > 0x7f {
		flags = i2cFlagTenBit
	}
	if len(w) > 0 {
		d.messages[n] = i2cMessage{addr, flags, uint16(len(w)), unsafe.Pointer(&d.buffer[0])}
		n++
	}
	if len(r) > 0 {
		d.messages[n] = i2cMessage{addr, flags | i2cFlagRead, uint16(len(r)), unsafe.Pointer(&d.buffer[len(w)])}
		n++
	}
	return n
}

// transfer does the first n messages and returns how many were done.
func (d *i2cDev) transfer(n int) (done int, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(d) // the messages are part of it
	pin.Pin(&d.buffer[0])
	arg := &i2cRDWR{messages: &d.messages[0], n: uint32(n)}
	return d.pinned(i2cRDWRRequest, arg, unsafe.Pointer(arg))
}

// SetSpeed implements i2c.Bus. The speed of a kernel's bus is set in the device
// tree.
func (d *i2cDev) SetSpeed(physic.Frequency) error {
	return fmt.Errorf("%s: the bus speed is set in the device tree, not by a program", d.node)
}

// Close closes the node, after the running transfer. A second Close does nothing.
func (d *i2cDev) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return nil
	}
	fd := d.fd
	d.fd = -1
	if err := unix.Close(fd); err != nil && err != unix.EINTR { // EINTR: closed all the same
		return fmt.Errorf("close %s: %w", d.node, err)
	}
	return nil
}

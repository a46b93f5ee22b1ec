// Package cusei2c is a /dev/i2c-N that a program serves: it speaks the kernel's
// CUSE protocol (character devices in user space) and answers what i2c-dev answers,
// for tests that run a real binary against real system calls.
//
// It owns the device from Open to Close: the node appears, and goes away as an
// unplugged adapter's does. It keeps one invariant: a program that opens the node
// cannot tell it from i2c-dev by what I2C_FUNCS, I2C_TIMEOUT, I2C_RETRIES and
// I2C_RDWR do, in 32-bit and 64-bit programs: the bounds are the kernel's, transfers
// take turns, and whatever the Bus says, errno or number of messages, is what the
// caller gets. What is on the bus is the Bus's affair. SMBus commands, read and
// write without ioctl, and addresses of ten bits are not served.
//
// A program that serves the device must not open it too: the opening thread would
// wait for itself where there is one processor.
//
// Sources: Linux include/uapi/linux/fuse.h (protocol 7.31), fs/fuse/cuse.c,
// fs/fuse/ioctl.c, drivers/i2c/i2c-dev.c.
package cusei2c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Message is one message of a transfer. Data holds what is written, or takes what is
// read; until then it holds what the caller had there.
type Message struct {
	Addr uint16 // seven bits
	Read bool
	Data []byte
}

// Bus is what stands behind the device. Transfer does the messages of one combined
// transfer and returns how many it did; fewer than given is a short transfer. An
// error that wraps a syscall.Errno is the caller's errno, any other is EIO. It is
// called for one transfer at a time and may take as long as a hung adapter does.
type Bus interface {
	Transfer(messages []Message) (done int, err error)
}

// Opcodes of the protocol.
const (
	opOpen      = 14
	opRelease   = 18
	opFlush     = 25
	opInterrupt = 36
	opIoctl     = 39
	opCuseInit  = 4096
)

// Sizes and numbers of the protocol.
const (
	protocolMajor     = 7
	protocolMinor     = 31
	inHeader          = 40
	outHeader         = 16
	unrestrictedIoctl = 1 << 0  // the server says what of the caller's memory it needs
	maxIO             = 1 << 16 // of read and write, which are not served
	requestBuffer     = 1<<17 + 1<<12
)

// Device is a served /dev/i2c-N.
type Device struct {
	name    string
	bus     Bus
	channel io.ReadWriteCloser
	ready   chan struct{} // closed when the kernel has made the device
	ended   chan struct{} // closed when serving has ended
	err     error         // how it ended; to be read after that

	lines   sync.Mutex // held by the transfer that has the bus
	timeout atomic.Int64
	opens   atomic.Int64
}

// Open makes /dev/i2c-number and serves it until Close. /dev/cuse must be there (the
// module cuse), and the caller root.
func Open(number int, bus Bus) (*Device, error) {
	fd, err := unix.Open("/dev/cuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/cuse: %w", err)
	}
	// Non-blocking, so that Close ends a read that waits.
	d := serve("i2c-"+strconv.Itoa(number), bus, os.NewFile(uintptr(fd), "/dev/cuse"))
	select {
	case <-d.ready:
		return d, nil
	case <-d.ended:
		return nil, errors.Join(fmt.Errorf("serve %s: %w", d.name, d.err), d.channel.Close())
	}
}

// serve begins to answer the kernel.
func serve(name string, bus Bus, channel io.ReadWriteCloser) *Device {
	d := &Device{name: name, bus: bus, channel: channel, ready: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		d.err = d.answer()
	}()
	return d
}

// Timeout is what I2C_TIMEOUT last set; 0 is nothing yet.
func (d *Device) Timeout() time.Duration { return time.Duration(d.timeout.Load()) }

// Opens is how many handles there are.
func (d *Device) Opens() int { return int(d.opens.Load()) }

// Close takes the device away, under whoever uses it: as pulling a USB adapter does.
// A transfer that runs goes on, and its caller hears nothing of it.
func (d *Device) Close() error {
	err := d.channel.Close()
	<-d.ended
	return err
}

// answer reads requests until the channel is closed.
func (d *Device) answer() error {
	buffer := make([]byte, requestBuffer)
	made := false
	for {
		n, err := d.channel.Read(buffer)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // ENOENT: the request was taken back
			continue
		case err != nil:
			return err
		}
		r, err := parseRequest(buffer[:n])
		if err != nil {
			return err
		}
		if err := d.dispatch(r); err != nil {
			return err
		}
		if r.op == opCuseInit && !made { // the answer has made the node
			made = true
			close(d.ready)
		}
	}
}

// request is one request of the kernel's.
type request struct {
	op     uint32
	unique uint64 // names the request in its answer
	body   []byte // its own copy
}

var errGarbled = errors.New("the kernel's request is shorter than it says")

func parseRequest(b []byte) (request, error) {
	if len(b) < inHeader || int(binary.NativeEndian.Uint32(b)) != len(b) {
		return request{}, errGarbled
	}
	return request{
		op:     binary.NativeEndian.Uint32(b[4:]),
		unique: binary.NativeEndian.Uint64(b[8:]),
		body:   append([]byte(nil), b[inHeader:]...),
	}, nil
}

// dispatch answers one request. An ioctl may take its time and does so beside the
// reading of further requests.
func (d *Device) dispatch(r request) error {
	switch r.op {
	case opCuseInit:
		return d.reply(r, 0, d.initReply())
	case opOpen:
		d.opens.Add(1)
		return d.reply(r, 0, make([]byte, 16)) // no handle, no flags
	case opRelease:
		d.opens.Add(-1)
		return d.reply(r, 0, nil)
	case opFlush:
		return d.reply(r, 0, nil)
	case opInterrupt:
		return nil // a transfer on the wire cannot be taken back; it has no answer
	case opIoctl:
		go d.ioctl(r)
		return nil
	}
	return d.reply(r, unix.ENOSYS, nil)
}

// initReply is struct cuse_init_out and the device's name.
func (d *Device) initReply() []byte {
	b := appendUint32(nil, protocolMajor, protocolMinor, 0, unrestrictedIoctl, maxIO, maxIO, 0, 0)
	b = append(b, make([]byte, 10*4)...)
	return append(b, "DEVNAME="+d.name+"\x00"...)
}

// reply answers a request. A request whose caller was killed meanwhile is known no
// more (ENOENT), and one of a device that is gone has nobody to go to.
func (d *Device) reply(r request, errno syscall.Errno, body []byte) error {
	b := appendUint32(nil, uint32(outHeader+len(body)), uint32(-int32(errno)))
	b = binary.NativeEndian.AppendUint64(b, r.unique)
	_, err := d.channel.Write(append(b, body...))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func appendUint32(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

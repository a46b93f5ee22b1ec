package cusei2c

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// i2c-dev's requests and bounds (include/uapi/linux/i2c-dev.h, i2c.h;
// drivers/i2c/i2c-dev.c).
const (
	i2cRetries = 0x0701
	i2cTimeout = 0x0702
	i2cFuncs   = 0x0705
	i2cRDWR    = 0x0707

	funcI2C         = 1 << 0
	flagRead        = 1 << 0
	timeoutUnit     = 10 * time.Millisecond
	maxMessages     = 42
	maxMessageBytes = 8192
)

// Parts of an ioctl in the protocol.
const (
	ioctlHeader = 32     // struct fuse_ioctl_in
	ioctlRetry  = 1 << 2 // answer: call again with these parts of the memory
	ioctl32Bit  = 1 << 3 // the caller's pointers have 32 bits
)

// call is an ioctl as the kernel hands it over. The kernel knows nothing of what
// the argument points to, so it calls again and again, each time with the parts of
// the caller's memory that the last answer asked for: the head of the argument,
// then the messages, then their bytes.
type call struct {
	cmd     uint32
	arg     uint64 // an address in the caller's memory, or a number
	in      []byte // the parts asked for
	out     uint32 // room for what goes back
	pointer int    // bytes of the caller's pointers
}

// part is a part of the caller's memory.
type part struct{ base, length uint64 }

// answer is what becomes of a call: the result with what goes back to the parts for
// output, or a wish for parts of the memory.
type answer struct {
	result  int32 // negative: an errno
	data    []byte
	in, out []part // asked for, if any is
}

func failure(errno syscall.Errno) answer { return answer{result: -int32(errno)} }

func parseCall(body []byte) (call, error) {
	if len(body) < ioctlHeader {
		return call{}, errGarbled
	}
	ne := binary.NativeEndian
	c := call{
		cmd:     ne.Uint32(body[12:]),
		arg:     ne.Uint64(body[16:]),
		in:      body[ioctlHeader:],
		out:     ne.Uint32(body[28:]),
		pointer: 8,
	}
	if ne.Uint32(body[8:])&ioctl32Bit != 0 {
		c.pointer = 4
	}
	if uint64(ne.Uint32(body[24:])) != uint64(len(c.in)) {
		return call{}, errGarbled
	}
	return c, nil
}

// ioctl answers an ioctl. What goes wrong with the channel ends the reading of
// requests too, which tells.
func (d *Device) ioctl(r request) {
	c, err := parseCall(r.body)
	if err != nil {
		_ = d.reply(r, unix.EIO, nil)
		return
	}
	_ = d.reply(r, 0, d.do(c).encode())
}

// encode is struct fuse_ioctl_out and what follows it.
func (a answer) encode() []byte {
	if len(a.in)+len(a.out) == 0 {
		return append(appendUint32(nil, uint32(a.result), 0, 0, 0), a.data...)
	}
	b := appendUint32(nil, 0, ioctlRetry, uint32(len(a.in)), uint32(len(a.out)))
	for _, parts := range [][]part{a.in, a.out} {
		for _, p := range parts {
			b = binary.NativeEndian.AppendUint64(b, p.base)
			b = binary.NativeEndian.AppendUint64(b, p.length)
		}
	}
	return b
}

// do answers as i2c-dev does.
func (d *Device) do(c call) answer {
	switch c.cmd {
	case i2cFuncs:
		if c.out == 0 {
			return answer{out: []part{{c.arg, uint64(c.pointer)}}}
		}
		return answer{data: c.word(funcI2C)}
	case i2cTimeout:
		d.timeout.Store(int64(time.Duration(int32(c.arg)) * timeoutUnit))
		return answer{}
	case i2cRetries:
		return answer{}
	case i2cRDWR:
		return d.rdwr(c)
	}
	return failure(unix.ENOTTY)
}

// rdwr leads a transfer through its calls and does it in the last.
func (d *Device) rdwr(c call) answer {
	head := 2 * c.pointer // struct i2c_rdwr_ioctl_data: pointer, number, padding
	whole := part{c.arg, uint64(head)}
	if len(c.in) == 0 {
		return answer{in: []part{whole}}
	}
	if len(c.in) < head {
		return failure(unix.EFAULT)
	}
	n := int(binary.NativeEndian.Uint32(c.in[c.pointer:]))
	if n < 1 || n > maxMessages {
		return failure(unix.EINVAL)
	}
	size := 8 + c.pointer // struct i2c_msg: address, flags, length, padding, pointer
	list := part{c.address(c.in), uint64(n * size)}
	if len(c.in) == head {
		return answer{in: []part{whole, list}}
	}
	if len(c.in) < head+n*size {
		return failure(unix.EFAULT)
	}
	want := answer{in: []part{whole, list}}
	messages, errno := c.messages(c.in[head:head+n*size], &want)
	if errno != 0 {
		return failure(errno)
	}
	rest := c.in[head+n*size:]
	if asked := len(want.in) + len(want.out); asked > 2 && len(rest) == 0 && c.out == 0 {
		return want
	}
	room := uint64(c.out)
	for _, m := range messages {
		n := len(m.Data)
		if n > len(rest) || m.Read && uint64(n) > room {
			return failure(unix.EFAULT) // the caller changed its messages meanwhile
		}
		rest = rest[copy(m.Data, rest):]
		if m.Read {
			room -= uint64(n)
		}
	}
	return d.transfer(messages)
}

// messages reads the list of messages and adds the parts that hold their bytes to
// what is wanted.
func (c call) messages(list []byte, want *answer) ([]Message, syscall.Errno) {
	var messages []Message
	ne := binary.NativeEndian
	for size := 8 + c.pointer; len(list) > 0; list = list[size:] {
		flags, length := ne.Uint16(list[2:]), ne.Uint16(list[4:])
		if length > maxMessageBytes {
			return nil, unix.EINVAL
		}
		if flags&^flagRead != 0 {
			return nil, unix.EOPNOTSUPP // what I2C_FUNCS does not offer
		}
		m := Message{Addr: ne.Uint16(list), Read: flags&flagRead != 0, Data: make([]byte, length)}
		bytes := part{c.address(list[8:]), uint64(length)}
		if length > 0 {
			want.in = append(want.in, bytes) // of a read too: what does not move goes back as it was
			if m.Read {
				want.out = append(want.out, bytes)
			}
		}
		messages = append(messages, m)
	}
	return messages, 0
}

// transfer has the bus do the messages. Their bytes go back even after a short
// transfer, as i2c-dev does it.
func (d *Device) transfer(messages []Message) answer {
	d.lines.Lock()
	done, err := d.bus.Transfer(messages)
	d.lines.Unlock()
	if err != nil {
		errno := unix.EIO
		if e, ok := errors.AsType[syscall.Errno](err); ok {
			errno = e
		}
		return failure(errno)
	}
	a := answer{result: int32(done)}
	for _, m := range messages {
		if m.Read {
			a.data = append(a.data, m.Data...)
		}
	}
	return a
}

// address reads a pointer of the caller's.
func (c call) address(b []byte) uint64 {
	if c.pointer == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// word is an unsigned long of the caller's.
func (c call) word(v uint64) []byte {
	if c.pointer == 4 {
		return binary.NativeEndian.AppendUint32(nil, uint32(v))
	}
	return binary.NativeEndian.AppendUint64(nil, v)
}

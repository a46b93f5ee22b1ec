package cusei2c

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var ne = binary.NativeEndian

// kernel plays the kernel's side of the channel, and a program's memory.
type kernel struct {
	io.ReadWriteCloser // the kernel's end
	pointer            int
	memory             []byte
	unique             uint64
}

// packets is one end of a channel that keeps the bounds of what is written.
type packets struct {
	in   <-chan []byte
	out  chan<- []byte
	once *sync.Once
	gone chan struct{}
}

func pair() (a, b packets) {
	x, y, once, gone := make(chan []byte), make(chan []byte), new(sync.Once), make(chan struct{})
	return packets{x, y, once, gone}, packets{y, x, once, gone}
}

func (p packets) Read(b []byte) (int, error) {
	select {
	case m := <-p.in:
		return copy(b, m), nil
	case <-p.gone:
		return 0, io.EOF
	}
}

func (p packets) Write(b []byte) (int, error) {
	select {
	case p.out <- bytes.Clone(b):
		return len(b), nil
	case <-p.gone:
		return 0, io.ErrClosedPipe
	}
}

func (p packets) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}

// newKernel is a kernel that has made the device.
func newKernel(t testing.TB, pointer int, bus Bus) (*kernel, *Device) {
	t.Helper()
	server, client := pair()
	d := serve("i2c-7", bus, server)
	t.Cleanup(func() { d.Close() })
	k := &kernel{ReadWriteCloser: client, pointer: pointer, memory: make([]byte, 1<<19)}
	errno, init := k.ask(t, opCuseInit, make([]byte, 16))
	if errno != 0 || !bytes.HasSuffix(init, []byte("DEVNAME=i2c-7\x00")) || len(init) != 72+14 {
		t.Fatalf("init: got errno %d, % x", errno, init)
	}
	<-d.ready
	return k, d
}

// ask sends a request and takes its answer.
func (k *kernel) ask(t testing.TB, op uint32, body []byte) (errno int32, answer []byte) {
	t.Helper()
	k.unique += 2
	b := appendUint32(nil, uint32(inHeader+len(body)), op)
	b = ne.AppendUint64(b, k.unique)
	b = append(append(b, make([]byte, inHeader-len(b))...), body...)
	if _, err := k.Write(b); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<18)
	n, err := k.Read(buffer)
	if err != nil || n < outHeader || int(ne.Uint32(buffer)) != n || ne.Uint64(buffer[8:]) != k.unique {
		t.Fatalf("got an answer of %d bytes, %v: % x", n, err, buffer[:min(n, 64)])
	}
	return int32(ne.Uint32(buffer[4:])), buffer[outHeader:n]
}

// ioctl makes the call again until it has its result, as fs/fuse/ioctl.c does.
func (k *kernel) ioctl(t testing.TB, cmd uint32, arg uint64) int32 {
	t.Helper()
	var in, out []part
	for range 5 {
		var data []byte
		room := 0
		for _, p := range in {
			data = append(data, k.memory[p.base:p.base+p.length]...)
		}
		for _, p := range out {
			room += int(p.length)
		}
		flags := uint32(2)
		if k.pointer == 4 {
			flags |= ioctl32Bit
		}
		body := appendUint32(make([]byte, 8), flags, cmd)
		body = ne.AppendUint64(body, arg)
		body = append(appendUint32(body, uint32(len(data)), uint32(room)), data...)
		errno, answer := k.ask(t, opIoctl, body)
		if errno != 0 {
			t.Fatalf("ioctl %#x: got the protocol's error %d", cmd, errno)
		}
		result, again, payload := int32(ne.Uint32(answer)), ne.Uint32(answer[4:]), answer[16:]
		if again == 0 {
			for _, p := range out {
				n := copy(k.memory[p.base:p.base+p.length], payload)
				payload = payload[n:]
			}
			return result
		}
		var parts []part
		for ; len(payload) > 0; payload = payload[16:] {
			parts = append(parts, part{ne.Uint64(payload), ne.Uint64(payload[8:])})
		}
		n := ne.Uint32(answer[8:])
		in, out = parts[:n], parts[n:]
	}
	t.Fatalf("ioctl %#x: asks for memory without end", cmd)
	return 0
}

// The places of things in the program's memory.
const (
	argAt     = 0x100
	listAt    = 0x200
	bytesAt   = 0x1000
	bytesStep = 0x2100
)

// rdwr does a transfer whose messages are laid out in the program's memory.
func (k *kernel) rdwr(t testing.TB, messages ...Message) int32 {
	t.Helper()
	put := func(b []byte, v uint64) []byte {
		if k.pointer == 4 {
			return ne.AppendUint32(b, uint32(v))
		}
		return ne.AppendUint64(b, v)
	}
	var list []byte
	for i, m := range messages {
		at := uint64(bytesAt + i*bytesStep)
		copy(k.memory[at:], m.Data)
		flags := uint16(0)
		if m.Read {
			flags = flagRead
		}
		list = ne.AppendUint16(list, m.Addr)
		list = ne.AppendUint16(list, flags)
		list = ne.AppendUint16(list, uint16(len(m.Data)))
		list = put(append(list, 0, 0), at)
	}
	copy(k.memory[listAt:], list)
	copy(k.memory[argAt:], put(put(nil, listAt), uint64(len(messages))))
	result := k.ioctl(t, i2cRDWR, argAt)
	for i, m := range messages {
		if m.Read {
			copy(m.Data, k.memory[bytesAt+i*bytesStep:])
		}
	}
	return result
}

// busFunc is a Bus of a function.
type busFunc func([]Message) (int, error)

func (f busFunc) Transfer(m []Message) (int, error) { return f(m) }

// counting fills what is read with 1, 2, 3 … and keeps what it saw.
type counting struct{ saw []Message }

func (c *counting) Transfer(messages []Message) (int, error) {
	c.saw = nil
	for _, m := range messages {
		if m.Read {
			for i := range m.Data {
				m.Data[i] = byte(i + 1)
			}
		}
		c.saw = append(c.saw, Message{m.Addr, m.Read, bytes.Clone(m.Data)})
	}
	return len(messages), nil
}

func TestTransfers(t *testing.T) {
	for _, pointer := range []int{4, 8} {
		for name, messages := range map[string][]Message{
			"write":          {{0x48, false, []byte{1, 0xc1, 0x83}}},
			"read":           {{0x48, true, []byte{1, 2}}},
			"write and read": {{0x48, false, []byte{7}}, {0x48, true, []byte{1, 2, 3}}},
			"two reads":      {{0x48, true, []byte{1}}, {0x49, true, []byte{1, 2}}},
			"empty write":    {{0x48, false, []byte{}}},
			"longest":        {{0x48, false, bytes.Repeat([]byte{5}, maxMessageBytes)}},
		} {
			t.Run(fmt.Sprintf("%s with pointers of %d", name, pointer), func(t *testing.T) {
				bus := &counting{}
				k, _ := newKernel(t, pointer, bus)
				given := make([]Message, len(messages))
				for i, m := range messages {
					given[i] = Message{m.Addr, m.Read, bytes.Clone(m.Data)}
					if m.Read {
						clear(given[i].Data)
					}
				}
				if got := k.rdwr(t, given...); got != int32(len(messages)) {
					t.Errorf("got result %d, want %d", got, len(messages))
				}
				if diff := cmp.Diff(messages, bus.saw); diff != "" {
					t.Errorf("the bus saw: %s", diff)
				}
				if diff := cmp.Diff(messages, given); diff != "" {
					t.Errorf("the program has: %s", diff)
				}
			})
		}
	}
}

// TestErrors: what the bus says is what the caller gets.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		done int
		err  error
		want int32
	}{
		{0, unix.EREMOTEIO, -int32(unix.EREMOTEIO)},
		{0, fmt.Errorf("wrapped: %w", unix.ETIMEDOUT), -int32(unix.ETIMEDOUT)},
		{0, errors.New("no errno"), -int32(unix.EIO)},
		{1, nil, 1},
		{0, nil, 0},
	} {
		k, _ := newKernel(t, 8, busFunc(func([]Message) (int, error) { return tt.done, tt.err }))
		if got := k.rdwr(t, Message{0x48, false, []byte{0}}, Message{0x48, true, make([]byte, 2)}); got != tt.want {
			t.Errorf("%d, %v: got %d, want %d", tt.done, tt.err, got, tt.want)
		}
	}
}

// TestNothingMoved: what a transfer did not move, the caller has as it was.
func TestNothingMoved(t *testing.T) {
	k, _ := newKernel(t, 8, busFunc(func([]Message) (int, error) { return 1, nil }))
	read := []byte{0x7f, 0xff}
	if got := k.rdwr(t, Message{0x48, false, []byte{0}}, Message{0x48, true, read}); got != 1 || !bytes.Equal(read, []byte{0x7f, 0xff}) {
		t.Errorf("got %d, % x, want 1 and the bytes as they were", got, read)
	}
}

// TestRefuses: the kernel's bounds are this device's.
func TestRefuses(t *testing.T) {
	k, _ := newKernel(t, 8, busFunc(func([]Message) (int, error) { t.Error("the bus was asked"); return 0, nil }))
	if got := k.rdwr(t); got != -int32(unix.EINVAL) {
		t.Errorf("no message: got %d, want EINVAL", got)
	}
	if got := k.rdwr(t, make([]Message, maxMessages+1)...); got != -int32(unix.EINVAL) {
		t.Errorf("too many: got %d, want EINVAL", got)
	}
	if got := k.rdwr(t, Message{0x48, true, make([]byte, maxMessageBytes+1)}); got != -int32(unix.EINVAL) {
		t.Errorf("too long: got %d, want EINVAL", got)
	}
	for _, cmd := range []uint32{0x703, 0x720, 0x5401} {
		if got := k.ioctl(t, cmd, 0x48); got != -int32(unix.ENOTTY) {
			t.Errorf("request %#x: got %d, want ENOTTY", cmd, got)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, pointer := range []int{4, 8} {
		k, d := newKernel(t, pointer, &counting{})
		for range 2 {
			if errno, open := k.ask(t, opOpen, make([]byte, 8)); errno != 0 || len(open) != 16 {
				t.Errorf("open: got %d, % x", errno, open)
			}
		}
		if errno, _ := k.ask(t, opRelease, make([]byte, 24)); errno != 0 || d.Opens() != 1 {
			t.Errorf("release: got %d, %d handles, want one", errno, d.Opens())
		}
		k.memory[argAt+pointer] = 0xee
		if got := k.ioctl(t, i2cFuncs, argAt); got != 0 || k.memory[argAt] != funcI2C {
			t.Errorf("funcs: got %d, % x", got, k.memory[argAt:argAt+8])
		}
		if k.memory[argAt+pointer] != 0xee {
			t.Errorf("funcs: wrote more than an unsigned long of %d bytes", pointer)
		}
		if got := k.ioctl(t, i2cTimeout, 25); got != 0 || d.Timeout() != 250*time.Millisecond {
			t.Errorf("timeout: got %d, %s", got, d.Timeout())
		}
		if errno, _ := k.ask(t, 15, nil); errno != -int32(unix.ENOSYS) {
			t.Errorf("read: got %d, want ENOSYS", errno)
		}
	}
}

// FuzzIoctl: no request makes the device panic, ask for more memory than a transfer
// can have, or disturb the bus with what is not a whole transfer.
func FuzzIoctl(f *testing.F) {
	f.Add(uint32(i2cRDWR), uint64(argAt), true, []byte{}, uint32(0))
	f.Add(uint32(i2cRDWR), uint64(argAt), false, ne.AppendUint64(ne.AppendUint64(nil, listAt), 2), uint32(0))
	f.Add(uint32(i2cFuncs), uint64(argAt), true, []byte{}, uint32(8))
	f.Fuzz(func(t *testing.T, cmd uint32, arg uint64, small bool, in []byte, out uint32) {
		flags := uint32(0)
		if small {
			flags = ioctl32Bit
		}
		body := ne.AppendUint64(appendUint32(make([]byte, 8), flags, cmd), arg)
		body = append(appendUint32(body, uint32(len(in)), out), in...)
		c, err := parseCall(body)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		d := &Device{bus: busFunc(func(m []Message) (int, error) {
			for _, m := range m {
				total += len(m.Data)
			}
			return len(m), nil
		})}
		a := d.do(c)
		asked := uint64(0)
		for _, p := range append(a.in, a.out...) {
			asked += p.length
		}
		if limit := uint64(maxMessages * (maxMessageBytes + 16)); asked > limit+16 {
			t.Errorf("asks for %d bytes", asked)
		}
		if total > len(in)+int(out) {
			t.Errorf("%d bytes on the bus out of %d and %d", total, len(in), out)
		}
	})
}

package sensors

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/i2c"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

// kernel is i2c-dev as i2cDev sees it: it reads the caller's structures out of
// memory as the kernel does and does the messages on models.
type kernel struct {
	funcs uintptr
	bus   chip.Bus
	// answer, if set, may answer a transfer in the place of the models.
	answer func(transfer int, messages []i2cMessage) (n int, errno syscall.Errno, answered bool)

	mu        sync.Mutex
	timeout   uintptr
	transfers int
	flags     []uint16 // of the latest transfer's messages
	busy      int      // transfers under way
	overlap   bool     // two were
}

func newKernel() *kernel { return &kernel{funcs: i2cFuncPlain} }

// pointer is what an argument points to.
func pointer(arg uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&arg)) }

func (k *kernel) ioctl(_ int, request uint, arg uintptr) (int, syscall.Errno) {
	switch request {
	case i2cFuncsRequest:
		*(*uintptr)(pointer(arg)) = k.funcs
		return 0, 0
	case i2cTimeoutRequest:
		k.timeout = arg
		return 0, 0
	case i2cRDWRRequest:
		return k.transfer((*i2cRDWR)(pointer(arg)))
	}
	return -1, unix.ENOTTY
}

func (k *kernel) transfer(arg *i2cRDWR) (int, syscall.Errno) {
	k.enter(1)
	defer k.enter(-1)
	messages := unsafe.Slice(arg.messages, arg.n)
	k.mu.Lock()
	n := k.transfers
	k.transfers++
	k.flags = nil
	for _, m := range messages {
		k.flags = append(k.flags, m.flags)
	}
	k.mu.Unlock()
	if k.answer != nil {
		if done, errno, answered := k.answer(n, messages); answered {
			return done, errno
		}
	}
	var w, r []byte
	for _, m := range messages {
		if b := unsafe.Slice((*byte)(m.data), m.length); m.flags&i2cFlagRead != 0 {
			r = b
		} else {
			w = b
		}
	}
	if err := k.bus.Tx(messages[0].address, w, r); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		return -1, errno
	}
	return len(messages), 0
}

func (k *kernel) enter(by int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy += by
	k.overlap = k.overlap || k.busy > 1
}

// open is a bus on this kernel. Its handle is a real one, of /dev/null.
func (k *kernel) open(t testing.TB) *i2cDev {
	t.Helper()
	fd, err := openRetrying(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	d := &i2cDev{node: "/dev/i2c-7", fd: fd, ioctl: k.ioctl}
	t.Cleanup(func() { d.Close() })
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	return d
}

// echo answers a read with what was last written.
type echo struct{ last []byte }

func (e *echo) Transfer(w, r []byte) error {
	if len(w) > 0 {
		e.last = bytes.Clone(w)
	}
	copy(r, e.last)
	return nil
}

// TestI2CLayout: the structures have the sizes that the kernel's have, by the size
// of its pointers.
func TestI2CLayout(t *testing.T) {
	const pointerSize = unsafe.Sizeof(uintptr(0))
	if got, want := unsafe.Sizeof(i2cMessage{}), 8+pointerSize; got != want {
		t.Errorf("struct i2c_msg: got %d bytes, want %d", got, want)
	}
	if got := unsafe.Offsetof(i2cMessage{}.data); got != 8 {
		t.Errorf("i2c_msg.buf: got offset %d, want 8", got)
	}
	if got, want := unsafe.Sizeof(i2cRDWR{}), 2*pointerSize; got != want {
		t.Errorf("struct i2c_rdwr_ioctl_data: got %d bytes, want %d", got, want)
	}
}

func TestI2CDevPrepares(t *testing.T) {
	k := newKernel()
	k.open(t)
	if k.timeout != 25 {
		t.Errorf("got a timeout of %d, want 25: 250 ms in units of 10 ms", k.timeout)
	}
	k.funcs = 0x7fff0008 // what an SMBus-only adapter says
	if err := (&i2cDev{ioctl: k.ioctl}).prepare(); err == nil {
		t.Error("an adapter without plain transfers passes")
	}
	refusing := func(int, uint, uintptr) (int, syscall.Errno) { return -1, unix.ENOTTY }
	if err := (&i2cDev{ioctl: refusing}).prepare(); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("got %v, want ENOTTY", err)
	}
}

// TestI2CDevTx: any bytes written come back, in any split, and leave the caller's
// own alone, also while the garbage collector runs and the stack grows.
func TestI2CDevTx(t *testing.T) {
	k := newKernel()
	k.bus.Plug(0x48, &echo{})
	d := k.open(t)
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "w")
		r := make([]byte, len(w))
		kept := bytes.Clone(w)
		if rapid.Bool().Draw(t, "gc") {
			runtime.GC()
		}
		var err error
		if rapid.Bool().Draw(t, "combined") {
			err = d.Tx(0x48, w, r)
		} else {
			err = errors.Join(d.Tx(0x48, w, nil), deep(200, func() error { return d.Tx(0x48, nil, r) }))
		}
		if err != nil || !bytes.Equal(r, kept) || !bytes.Equal(w, kept) {
			t.Fatalf("got % x, %v, want % x", r, err, kept)
		}
	})
}

// deep calls f at the end of a stack that grows.
func deep(n int, f func() error) error {
	var space [256]byte
	if n == 0 {
		return f()
	}
	err := deep(n-1, f)
	runtime.KeepAlive(&space)
	return err
}

// TestI2CDevKeepsTheErrno: the cause can be asked for, and r is as it was.
func TestI2CDevKeepsTheErrno(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.ENXIO, unix.EREMOTEIO, unix.ETIMEDOUT, unix.EIO, unix.EAGAIN, unix.ENODEV} {
		k := newKernel()
		k.answer = func(_ int, m []i2cMessage) (int, syscall.Errno, bool) {
			*(*byte)(m[len(m)-1].data) = 0x55 // half a reading
			return -1, errno, true
		}
		r := []byte{0xaa, 0xaa}
		err := k.open(t).Tx(0x48, []byte{0}, r)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), "/dev/i2c-7 address 0x48") {
			t.Errorf("got %v, want %v with bus and address", err, errno)
		}
		if !bytes.Equal(r, []byte{0xaa, 0xaa}) {
			t.Errorf("%v: got bytes % x of a transfer that failed", errno, r)
		}
	}
}

// TestI2CDevShortTransfer: an adapter that did fewer messages than it was given
// and calls it a success is an error, and moves nothing.
func TestI2CDevShortTransfer(t *testing.T) {
	for done := range 2 {
		k := newKernel()
		k.answer = func(int, []i2cMessage) (int, syscall.Errno, bool) { return done, 0, true }
		r := []byte{0xaa, 0xaa}
		err := k.open(t).Tx(0x48, []byte{0}, r)
		if !errors.Is(err, ErrShortTransfer) || !bytes.Equal(r, []byte{0xaa, 0xaa}) {
			t.Errorf("%d of 2: got % x, %v, want ErrShortTransfer", done, r, err)
		}
		if f := busFault("read", err); f.Reason != ReasonBus {
			t.Errorf("got reason %s, want %s", f.Reason, ReasonBus)
		}
	}
}

// TestI2CDevNothingMoved: where the adapter claims success and moved nothing, the
// caller's bytes are neither zeroed nor those of an earlier transfer.
func TestI2CDevNothingMoved(t *testing.T) {
	k := newKernel()
	k.bus.Plug(0x48, &echo{last: []byte{1, 2}})
	d := k.open(t)
	r := make([]byte, 2)
	if err := d.Tx(0x48, nil, r); err != nil || !bytes.Equal(r, []byte{1, 2}) {
		t.Fatalf("got % x, %v", r, err)
	}
	k.answer = func(_ int, m []i2cMessage) (int, syscall.Errno, bool) { return len(m), 0, true }
	r = []byte{0x7f, 0xff}
	if err := d.Tx(0x48, nil, r); err != nil || !bytes.Equal(r, []byte{0x7f, 0xff}) {
		t.Errorf("got % x, %v, want what the caller put there", r, err)
	}
}

// TestI2CDevInterrupted: a signal in the middle is not seen, unless it never ends.
func TestI2CDevInterrupted(t *testing.T) {
	k := newKernel()
	k.bus.Plug(0x48, &echo{})
	k.answer = func(n int, _ []i2cMessage) (int, syscall.Errno, bool) { return -1, unix.EINTR, n < 3 }
	d := k.open(t)
	if err := d.Tx(0x48, []byte{1}, make([]byte, 1)); err != nil || k.transfers != 4 {
		t.Errorf("got %v after %d tries, want success at the fourth", err, k.transfers)
	}
	k.answer = func(int, []i2cMessage) (int, syscall.Errno, bool) { return -1, unix.EINTR, true }
	k.transfers = 0
	if err := d.Tx(0x48, []byte{1}, nil); !errors.Is(err, unix.EINTR) || k.transfers != i2cInterrupts {
		t.Errorf("got %v after %d tries, want EINTR after %d", err, k.transfers, i2cInterrupts)
	}
}

// TestI2CDevRefuses: what does not fit never reaches the kernel.
func TestI2CDevRefuses(t *testing.T) {
	k := newKernel()
	k.bus.Plug(0x123, &echo{})
	d := k.open(t)
	long := make([]byte, i2cMaxMessage+1)
	for name, err := range map[string]error{
		"nothing":       d.Tx(0x48, nil, nil),
		"long write":    d.Tx(0x48, long, nil),
		"long read":     d.Tx(0x48, []byte{0}, long),
		"16 bits wrap":  d.Tx(0x48, nil, make([]byte, 65536+2)),
		"ten bits":      d.Tx(0x123, []byte{0}, nil),
		"eleven bits":   d.Tx(0x400, []byte{0}, nil),
		"speed setting": d.SetSpeed(100_000),
	} {
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if k.transfers != 0 {
		t.Errorf("got %d transfers, want none", k.transfers)
	}
	k.funcs |= i2cFuncTenBit
	if err := k.open(t).Tx(0x123, []byte{0}, make([]byte, 1)); err != nil {
		t.Errorf("ten bits where the adapter can: got %v", err)
	}
	if diff := cmp.Diff([]uint16{i2cFlagTenBit, i2cFlagTenBit | i2cFlagRead}, k.flags); diff != "" {
		t.Error(diff)
	}
	if err := d.Tx(0x123, long[:i2cMaxMessage], nil); err == nil {
		t.Error("the first handle learned of ten bits")
	}
}

// TestI2CDevConcurrently: transfers take turns, and Close does not pull the handle
// away under one.
func TestI2CDevConcurrently(t *testing.T) {
	k := newKernel()
	k.bus.Plug(0x48, &echo{last: []byte{9}})
	d := k.open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				r := make([]byte, 1)
				if err := d.Tx(0x48, nil, r); errors.Is(err, unix.EBADF) {
					return
				} else if err != nil || r[0] != 9 {
					t.Errorf("got %v, %v", r, err)
				}
			}
		})
	}
	for transfers := 0; transfers < 100; {
		k.mu.Lock()
		transfers = k.transfers
		k.mu.Unlock()
		runtime.Gosched()
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := d.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if k.overlap {
		t.Error("two transfers at a time")
	}
	if err := d.Tx(0x48, nil, []byte{0}); !gone(err) {
		t.Errorf("after close: got %v, want one that says gone", err)
	}
}

// TestOpenI2CDevLeaksNothing: no error path keeps a handle.
func TestOpenI2CDevLeaksNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "i2c-1")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	handles := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := handles()
	for range 20 {
		if _, err := openI2CDev(file); err == nil {
			t.Fatal("a plain file passes for a bus")
		}
		if _, err := openI2CDev(os.DevNull); !errors.Is(err, unix.ENOTTY) {
			t.Fatalf("got %v, want ENOTTY of a device that is no bus", err)
		}
		if _, err := openI2CDev(file + "0"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %v, want that it is not there", err)
		}
	}
	if after := handles(); after > before+5 { // other tests' may come and go
		t.Errorf("got %d handles after 60 failures, %d before", after, before)
	}
}

var _ i2c.BusCloser = (*i2cDev)(nil)

// BenchmarkI2CDev is what a transfer costs on top of the kernel and the wire.
func BenchmarkI2CDev(b *testing.B) {
	k := newKernel()
	k.answer = func(_ int, m []i2cMessage) (int, syscall.Errno, bool) { return len(m), 0, true }
	d := k.open(b)
	w, r := []byte{0}, make([]byte, 2)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Tx(0x48, w, r); err != nil {
			b.Fatal(err)
		}
	}
}

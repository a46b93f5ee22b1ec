package sensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestGPIOLayout holds every field to its place in include/uapi/linux/gpio.h, where
// 64-bit fields are aligned to 8 on every machine.
func TestGPIOLayout(t *testing.T) {
	var r gpioRequest
	var a gpioConfigAttribute
	var i gpioLineInfo
	for _, tt := range []struct {
		name      string
		got, want uintptr
	}{
		{"chip label", unsafe.Offsetof(gpioChipInfo{}.Label), 32},
		{"chip lines", unsafe.Offsetof(gpioChipInfo{}.Lines), 64},
		{"consumer", unsafe.Offsetof(r.Consumer), 256},
		{"config", unsafe.Offsetof(r.Config), 288},
		{"flags", unsafe.Offsetof(r.Config.Flags), 0},
		{"num_attrs", unsafe.Offsetof(r.Config.NumAttrs), 8},
		{"attrs", unsafe.Offsetof(r.Config.Attrs), 32},
		{"attribute", unsafe.Sizeof(a), 24},
		{"attribute's value", unsafe.Offsetof(a.Attr.Value), 8},
		{"attribute's mask", unsafe.Offsetof(a.Mask), 16},
		{"num_lines", unsafe.Offsetof(r.NumLines), 560},
		{"event_buffer_size", unsafe.Offsetof(r.EventBufferSize), 564},
		{"fd", unsafe.Offsetof(r.FD), 588},
		{"request", unsafe.Sizeof(r), 592},
		{"info's consumer", unsafe.Offsetof(i.Consumer), 32},
		{"info's offset", unsafe.Offsetof(i.Offset), 64},
		{"info's flags", unsafe.Offsetof(i.Flags), 72},
		{"info's attrs", unsafe.Offsetof(i.Attrs), 80},
		{"info", unsafe.Sizeof(i), 256},
		{"values' mask", unsafe.Offsetof(gpioValues{}.Mask), 8},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is at %d, want %d", tt.name, tt.got, tt.want)
		}
	}
	for name, n := range map[string][2]uint{
		"chip info": {gpioGetChipInfo, 0x8044b401}, "line info": {gpioGetLineInfo, 0xc100b405}, "line": {gpioGetLine, 0xc250b407},
		"values": {gpioGetValues, 0xc010b40e}, "set values": {gpioSetValues, 0xc010b40f},
	} {
		if n[0] != n[1] {
			t.Errorf("request %s is %#x, want %#x", name, n[0], n[1])
		}
	}
}

// TestGPIORequestBytes: what the kernel gets, byte by byte; what is not named must
// be zero, the kernel refuses padding that is not.
func TestGPIORequestBytes(t *testing.T) {
	type at map[int]any // offset → uint32, uint64 or string
	for _, tt := range []struct {
		name   string
		config LineConfig
		want   at
	}{
		{"pulse meter", LineConfig{Line: 17, Edge: EdgeFalling, Bias: BiasPullUp, Debounce: 1500 * time.Microsecond},
			at{0: uint32(17), 256: "oxyd", 288: uint64(1<<2 | 1<<5 | 1<<8), 296: uint32(1),
				320: uint32(3), 328: uint32(1500), 336: uint64(1), 560: uint32(1), 564: uint32(1024)}},
		{"rising, pulled down", LineConfig{Line: 1, Edge: EdgeRising, Bias: BiasPullDown},
			at{0: uint32(1), 256: "oxyd", 288: uint64(1<<2 | 1<<4 | 1<<9), 560: uint32(1), 564: uint32(1024)}},
		{"plain input", LineConfig{Line: 2, Bias: BiasAsIs, Consumer: "scale"},
			at{0: uint32(2), 256: "scale", 288: uint64(1 << 2), 560: uint32(1)}},
		{"no bias", LineConfig{Bias: BiasDisabled},
			at{256: "oxyd", 288: uint64(1<<2 | 1<<10), 560: uint32(1)}},
		{"output, high", LineConfig{Line: 3, Output: true, High: true},
			at{0: uint32(3), 256: "oxyd", 288: uint64(1 << 3), 296: uint32(1), 320: uint32(2), 328: uint64(1), 336: uint64(1), 560: uint32(1)}},
		{"output, low; a name too long", LineConfig{Output: true, Consumer: strings.Repeat("x", 40)},
			at{256: strings.Repeat("x", 31), 288: uint64(1 << 3), 560: uint32(1)}},
	} {
		if err := tt.config.check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		want := make([]byte, 592)
		for offset, v := range tt.want {
			switch v := v.(type) {
			case uint32:
				binary.NativeEndian.PutUint32(want[offset:], v)
			case uint64:
				binary.NativeEndian.PutUint64(want[offset:], v)
			case string:
				copy(want[offset:], v)
			}
		}
		r := newGPIORequest(tt.config)
		got := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %s", tt.name, cmp.Diff(want, got))
		}
	}
}

func TestLineConfigRefusals(t *testing.T) {
	for _, c := range []LineConfig{
		{Line: -1}, {Edge: "both"}, {Bias: "up"}, {Debounce: -1}, {Debounce: 2 * time.Second}, {Debounce: 1500},
		{Output: true, Edge: EdgeRising}, {Output: true, Debounce: time.Millisecond},
	} {
		if _, err := OpenLine(c); err == nil {
			t.Errorf("%+v is taken", c)
		} else if _, opened := errors.AsType[*LineError](err); opened {
			t.Errorf("%+v was tried: %v", c, err)
		}
	}
}

// record is an event as the kernel writes it.
func record(e LineEvent) []byte {
	b := make([]byte, gpioEventSize)
	binary.NativeEndian.PutUint64(b, uint64(e.At))
	binary.NativeEndian.PutUint32(b[8:], map[bool]uint32{true: 1, false: 2}[e.Rising])
	binary.NativeEndian.PutUint32(b[12:], e.Line)
	binary.NativeEndian.PutUint32(b[16:], e.Seq)
	binary.NativeEndian.PutUint32(b[20:], e.LineSeq)
	return b
}

func TestParseLineEvents(t *testing.T) {
	a := LineEvent{At: 1234567890123 * time.Nanosecond, Rising: true, Line: 17, Seq: 9, LineSeq: 4}
	b := LineEvent{At: 2, Line: 0xfffffffe, Seq: 0xffffffff, LineSeq: 0xfffffff0}
	both := append(record(a), record(b)...)
	for _, tt := range []struct {
		name string
		in   []byte
		room int
		want []LineEvent
		err  string
	}{
		{"two", both, 4, []LineEvent{a, b}, ""},
		{"room for one", both, 1, []LineEvent{a}, ""},
		{"none", nil, 4, []LineEvent{}, ""},
		{"half a record", both[:60], 4, nil, "no whole number"},
		{"kind 0", make([]byte, 48), 4, nil, "kind 0"},
		{"kind 3", append(make([]byte, 8), bytes.Repeat([]byte{3, 3, 3, 3}, 10)...), 4, nil, "kind"},
		{"a time below zero", bytes.Repeat([]byte{0xff}, 48), 4, nil, "kind"},
	} {
		dst := make([]LineEvent, tt.room)
		n, err := parseLineEvents(dst, tt.in)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || n != 0 {
				t.Errorf("%s: got %d and %v, want %q", tt.name, n, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, dst[:n]); err != nil || diff != "" {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
}

// FuzzLineEvents: what is taken is what the bytes say, and nothing else.
func FuzzLineEvents(f *testing.F) {
	f.Add(record(LineEvent{At: 1, Rising: true, Line: 2, Seq: 3, LineSeq: 4}))
	f.Add(append(record(LineEvent{}), record(LineEvent{Rising: true})...))
	f.Fuzz(func(t *testing.T, in []byte) {
		dst := make([]LineEvent, len(in)/gpioEventSize+1)
		n, err := parseLineEvents(dst, in)
		if err != nil {
			if n != 0 {
				t.Fatalf("%d events and %v", n, err)
			}
			return
		}
		if n != len(in)/gpioEventSize {
			t.Fatalf("%d events of %d bytes", n, len(in))
		}
		for i, e := range dst[:n] {
			want := bytes.Clone(in[i*gpioEventSize : (i+1)*gpioEventSize])
			clear(want[24:]) // reserved
			if got := record(e); !bytes.Equal(got, want) || e.At < 0 {
				t.Fatalf("event %d: % x, want % x", i, got, want)
			}
		}
	})
}

// pipeLine is a Line whose events a test writes.
func pipeLine(t *testing.T) (l *Line, write func(...[]byte), hangUp func()) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	l, err := adoptLine(fds[0], "line 4 of test")
	if err != nil {
		t.Fatal(err)
	}
	open := true
	hangUp = func() {
		if open {
			unix.Close(fds[1])
			open = false
		}
	}
	t.Cleanup(func() { hangUp(); l.Close() })
	return l, func(records ...[]byte) {
		for _, r := range records {
			if _, err := unix.Write(fds[1], r); err != nil {
				t.Error(err)
			}
		}
	}, hangUp
}

func TestLineReadEvents(t *testing.T) {
	l, write, hangUp := pipeLine(t)
	dst := make([]LineEvent, 200)
	if n, err := l.ReadEvents(dst); n != 0 || err != nil {
		t.Fatalf("nothing waits: got %d, %v", n, err)
	}
	var want []LineEvent
	for i := range 150 { // more than the handle reads at once
		e := LineEvent{At: time.Duration(i), Rising: i%2 == 0, Line: 4, Seq: uint32(i + 1), LineSeq: uint32(i + 1)}
		want = append(want, e)
		write(record(e))
	}
	n, err := l.ReadEvents(dst[:100])
	m, err2 := l.ReadEvents(dst[n:])
	if diff := cmp.Diff(want, dst[:n+m]); n != 100 || m != 50 || err != nil || err2 != nil || diff != "" {
		t.Fatalf("got %d, %d, %v, %v %s", n, m, err, err2, diff)
	}
	write(make([]byte, 48))
	if n, err := l.ReadEvents(dst); n != 0 || err == nil {
		t.Errorf("a record of no kind: got %d, %v", n, err)
	}
	hangUp()
	if _, err := l.ReadEvents(dst); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("hung up: got %v", err)
	}
	l.Close()
	if _, err := l.ReadEvents(dst); err == nil {
		t.Error("a closed line reads")
	}
	if _, err := l.Level(); err == nil {
		t.Error("a closed line has a level")
	}
}

func TestLineWait(t *testing.T) {
	l, write, _ := pipeLine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for round := range 3 {
		cancelled, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- l.Wait(cancelled) }()
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("round %d: cancelled wait gives %v", round, err)
		}
		short, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("round %d: a wait without events gives %v", round, err)
		}
		stop()
		go func() { done <- l.Wait(ctx) }()
		write(record(LineEvent{Rising: true, LineSeq: uint32(round + 1)}))
		if err := <-done; err != nil {
			t.Fatalf("round %d: got %v", round, err)
		}
		dst := make([]LineEvent, 2)
		if n, err := l.ReadEvents(dst); n != 1 || err != nil || dst[0].LineSeq != uint32(round+1) {
			t.Fatalf("round %d: got %d, %v, %+v", round, n, err, dst[0])
		}
	}
}

func TestChipNode(t *testing.T) {
	for name, want := range map[string]string{
		"gpiochip0": "/dev/gpiochip0", "4": "/dev/gpiochip4", "/dev/gpiochip12": "/dev/gpiochip12", "007": "/dev/gpiochip7",
		"pinctrl-bcm2711": "", "gpiochip": "", "": "", "/dev/gpiochip-1": "", "../mem": "", "gpiochip99999": "",
	} {
		if got, ok := chipNode(gpioDevices, name); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", name, got, ok, want)
		}
	}
}

func TestLineErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		user   string
		advice string
		reason Reason
	}{
		{syscall.EACCES, "", "DeviceAllow=char-gpiochip", ReasonNoBus},
		{syscall.ENOENT, "", "gpiochip", ReasonNoBus},
		{syscall.EBUSY, `"w1"`, `"w1"`, ReasonNoBus},
		{syscall.EBUSY, "", "gpioinfo", ReasonNoBus},
		{syscall.ENXIO, "", "no interrupt", ReasonNoBus},
		{syscall.EINVAL, "", "5.10", ReasonNoBus},
		{syscall.EOPNOTSUPP, "", "as-is", ReasonNoBus},
		{syscall.Errno(524), "", "as-is", ReasonNoBus},
		{syscall.EIO, "", "kernel's log", ReasonNoBus},
	} {
		e := newLineError(LineConfig{Chip: "gpiochip9", Line: 3}, tt.user, tt.err)
		if !strings.Contains(e.Hint(), tt.advice) || !errors.Is(e, tt.err) || !strings.Contains(e.Error(), "line 3 of GPIO chip gpiochip9") {
			t.Errorf("%v: %v, hint %q", tt.err, e, e.Hint())
		}
		if f := lineFault("open", e); f.Reason != tt.reason {
			t.Errorf("%v: reason %s, want %s", tt.err, f.Reason, tt.reason)
		}
	}
	if f := lineFault("read", syscall.EIO); f.Reason != ReasonBus {
		t.Errorf("EIO of a line in use: %s", f.Reason)
	}
	if f := lineFault("read", syscall.ENODEV); f.Reason != ReasonNoBus {
		t.Errorf("ENODEV of a line in use: %s", f.Reason)
	}
}

// TestOpenLineWithoutChip runs on machines without the chip, which is most that
// build; nothing here reaches a real line.
func TestOpenLineWithoutChip(t *testing.T) {
	for _, name := range []string{"gpiochip9977", "no-such-label"} {
		_, err := OpenLine(LineConfig{Chip: name, Line: 1})
		if e, ok := errors.AsType[*LineError](err); !ok || !errors.Is(err, fs.ErrNotExist) || e.Advice == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	prefix := t.TempDir() + "/gpiochip"
	if err := unix.Mkfifo(prefix+"0", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openChip(prefix, "0"); err == nil || !strings.Contains(err.Error(), "not a character device") {
		t.Errorf("a pipe: got %v", err)
	}
	if err := unix.Symlink("/dev/null", prefix+"1"); err != nil {
		t.Fatal(err)
	}
	// An emulated processor's kernel may not know the request at all.
	if _, _, err := openChip(prefix, "1"); !errors.Is(err, syscall.ENOTTY) && !errors.Is(err, syscall.ENOSYS) {
		t.Errorf("another device: got %v", err)
	}
}

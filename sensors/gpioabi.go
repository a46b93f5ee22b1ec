package sensors

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of the kernel's GPIO character device, version 2 of its ABI, Linux
// 5.10 and later (include/uapi/linux/gpio.h). The numbers hold the size of the
// argument, which is the same on 32-bit and 64-bit machines.
const (
	gpioGetChipInfo = unix.GPIO_GET_CHIPINFO_IOCTL
	gpioGetLineInfo = unix.GPIO_V2_GET_LINEINFO_IOCTL
	gpioGetLine     = unix.GPIO_V2_GET_LINE_IOCTL
	gpioGetValues   = unix.GPIO_V2_LINE_GET_VALUES_IOCTL
	gpioSetValues   = unix.GPIO_V2_LINE_SET_VALUES_IOCTL
)

// Flags of a line (enum gpio_v2_line_flag).
const (
	gpioFlagUsed         = 1 << 0
	gpioFlagInput        = 1 << 2
	gpioFlagOutput       = 1 << 3
	gpioFlagRising       = 1 << 4
	gpioFlagFalling      = 1 << 5
	gpioFlagPullUp       = 1 << 8
	gpioFlagPullDown     = 1 << 9
	gpioFlagBiasDisabled = 1 << 10
)

const (
	gpioNameSize  = 32 // GPIO_MAX_NAME_SIZE
	gpioLinesMax  = 64 // GPIO_V2_LINES_MAX
	gpioAttrsMax  = 10 // GPIO_V2_LINE_NUM_ATTRS_MAX
	gpioEventSize = 48 // sizeof(struct gpio_v2_line_event)

	// lineEvents is how many events the kernel is asked to keep, which is the most
	// that it grants for one line. When it is full the oldest goes.
	lineEvents = 1024
)

// gpioChipInfo is struct gpiochip_info.
type gpioChipInfo struct {
	Name  [gpioNameSize]byte
	Label [gpioNameSize]byte
	Lines uint32
}

// gpioAttribute is struct gpio_v2_line_attribute; Value is its union: flags,
// output values, or in the first four bytes a debounce period in microseconds.
type gpioAttribute struct {
	ID, _ uint32
	Value [8]byte
}

// gpioConfigAttribute is struct gpio_v2_line_config_attribute.
type gpioConfigAttribute struct {
	Attr gpioAttribute
	Mask uint64
}

// gpioConfig is struct gpio_v2_line_config.
type gpioConfig struct {
	Flags    uint64
	NumAttrs uint32
	_        [5]uint32
	Attrs    [gpioAttrsMax]gpioConfigAttribute
}

// gpioRequest is struct gpio_v2_line_request.
type gpioRequest struct {
	Offsets         [gpioLinesMax]uint32
	Consumer        [gpioNameSize]byte
	Config          gpioConfig
	NumLines        uint32
	EventBufferSize uint32
	_               [5]uint32
	FD              int32
}

// gpioLineInfo is struct gpio_v2_line_info.
type gpioLineInfo struct {
	Name, Consumer   [gpioNameSize]byte
	Offset, NumAttrs uint32
	Flags            uint64
	Attrs            [gpioAttrsMax]gpioAttribute
	_                [4]uint32
}

// gpioValues is struct gpio_v2_line_values.
type gpioValues struct{ Bits, Mask uint64 }

// A struct of another size than the kernel's does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(gpioChipInfo{})-68]
	_ = [1]struct{}{}[unsafe.Sizeof(gpioConfig{})-272]
	_ = [1]struct{}{}[unsafe.Sizeof(gpioRequest{})-592]
	_ = [1]struct{}{}[unsafe.Sizeof(gpioLineInfo{})-256]
	_ = [1]struct{}{}[unsafe.Sizeof(gpioValues{})-16]
)

// newGPIORequest is the kernel's form of a config. The line is the only one of
// its request, so its index there, which masks speak of, is 0.
func newGPIORequest(c LineConfig) gpioRequest {
	r := gpioRequest{NumLines: 1}
	r.Offsets[0] = uint32(c.Line)
	copy(r.Consumer[:gpioNameSize-1], c.consumer())
	r.Config.Flags = c.flags()
	if c.Edge != "" {
		r.EventBufferSize = lineEvents
	}
	if c.Output && c.High {
		r.Config.add(unix.GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES, func(v []byte) { binary.NativeEndian.PutUint64(v, 1) })
	}
	if c.Debounce > 0 {
		r.Config.add(unix.GPIO_V2_LINE_ATTR_ID_DEBOUNCE, func(v []byte) {
			binary.NativeEndian.PutUint32(v, uint32(c.Debounce.Microseconds()))
		})
	}
	return r
}

// add adds an attribute of the request's only line.
func (c *gpioConfig) add(id uint32, put func(value []byte)) {
	a := &c.Attrs[c.NumAttrs]
	a.Attr.ID, a.Mask = id, 1
	put(a.Attr.Value[:])
	c.NumAttrs++
}

// flags is a config's direction, edge and bias as the kernel's flags.
func (c LineConfig) flags() uint64 {
	flags := uint64(gpioFlagInput)
	if c.Output {
		flags = gpioFlagOutput
	}
	switch c.Edge {
	case EdgeRising:
		flags |= gpioFlagRising
	case EdgeFalling:
		flags |= gpioFlagFalling
	}
	switch c.Bias {
	case BiasPullUp:
		flags |= gpioFlagPullUp
	case BiasPullDown:
		flags |= gpioFlagPullDown
	case BiasDisabled:
		flags |= gpioFlagBiasDisabled
	}
	return flags
}

// parseLineEvents reads the records that a line's handle gives (struct
// gpio_v2_line_event, in the machine's byte order), as many as dst has room for,
// and returns how many. The kernel gives whole records of known edges only;
// anything else is an error, and nothing of it is used.
//
//	0 timestamp u64 · 8 id u32 · 12 offset u32 · 16 seqno u32 · 20 line_seqno u32 · 24 padding
func parseLineEvents(dst []LineEvent, b []byte) (int, error) {
	if len(b)%gpioEventSize != 0 {
		return 0, fmt.Errorf("line events: %d bytes are no whole number of records of %d", len(b), gpioEventSize)
	}
	n := min(len(dst), len(b)/gpioEventSize)
	for i := range n {
		r := b[i*gpioEventSize:]
		id, at := binary.NativeEndian.Uint32(r[8:]), binary.NativeEndian.Uint64(r)
		if id != unix.GPIO_V2_LINE_EVENT_RISING_EDGE && id != unix.GPIO_V2_LINE_EVENT_FALLING_EDGE {
			return 0, fmt.Errorf("line events: record %d has the kind %d: there are 1 and 2", i, id)
		}
		if at > 1<<63-1 {
			return 0, fmt.Errorf("line events: record %d has the time %d", i, at)
		}
		dst[i] = LineEvent{
			At:      time.Duration(at),
			Rising:  id == unix.GPIO_V2_LINE_EVENT_RISING_EDGE,
			Line:    binary.NativeEndian.Uint32(r[12:]),
			Seq:     binary.NativeEndian.Uint32(r[16:]),
			LineSeq: binary.NativeEndian.Uint32(r[20:]),
		}
	}
	return n, nil
}

// gpioIoctl does a request, again where a signal interrupted it.
func gpioIoctl(fd uintptr, request uint, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

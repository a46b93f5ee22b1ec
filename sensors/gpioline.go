package sensors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/gpio"
)

// Edge is which change of a line is an event.
type Edge string

// Edges. A pulse has one of each; counting both would count it twice.
const (
	EdgeRising  Edge = "rising"
	EdgeFalling Edge = "falling"
)

// Bias is the resistor that the chip itself puts on a line.
type Bias string

// Biases. As is, the empty value too, leaves whatever is set.
const (
	BiasAsIs     Bias = "as-is"
	BiasPullUp   Bias = "pull-up"
	BiasPullDown Bias = "pull-down"
	BiasDisabled Bias = "disabled"
)

// LineDebounceMax is the longest debounce that a line takes. A meter whose pulses
// bounce for longer is broken.
const LineDebounceMax = time.Second

// lineConsumer is the name by which gpioinfo shows who has a line.
const lineConsumer = "oxyd"

// LineConfig is what a GPIO line is wanted for.
type LineConfig struct {
	// Chip is "gpiochip0", "0", "/dev/gpiochip0", or the chip's label, such as
	// "pinctrl-bcm2711". Numbers change with the kernel, labels do not.
	Chip string
	Line int // on the chip, from 0

	Output bool // drive the line; otherwise read it
	High   bool // the level that an output begins with

	Edge     Edge          // events of an input; empty for none
	Bias     Bias          // empty: as is
	Debounce time.Duration // whole microseconds, at most LineDebounceMax; 0: none
	Consumer string        // at most 31 bytes; empty: oxyd
}

// check says what no line can be.
func (c LineConfig) check() error {
	var errs []error
	if c.Line < 0 {
		errs = append(errs, fmt.Errorf("line %d: lines count from 0", c.Line))
	}
	switch c.Edge {
	case "", EdgeRising, EdgeFalling:
	default:
		errs = append(errs, fmt.Errorf("edge %q: there are %s and %s", c.Edge, EdgeRising, EdgeFalling))
	}
	switch c.Bias {
	case "", BiasAsIs, BiasPullUp, BiasPullDown, BiasDisabled:
	default:
		errs = append(errs, fmt.Errorf("bias %q: there are %s, %s, %s and %s", c.Bias, BiasPullUp, BiasPullDown, BiasDisabled, BiasAsIs))
	}
	if c.Debounce < 0 || c.Debounce > LineDebounceMax || c.Debounce%time.Microsecond != 0 {
		errs = append(errs, fmt.Errorf("debounce %s: at most %s, in whole microseconds", c.Debounce, LineDebounceMax))
	}
	if c.Output && (c.Edge != "" || c.Debounce != 0) {
		errs = append(errs, errors.New("an output has neither edges nor debounce"))
	}
	return errors.Join(errs...)
}

func (c LineConfig) consumer() string {
	if c.Consumer == "" {
		return lineConsumer
	}
	return c.Consumer
}

// LineEvent is one edge as the kernel saw it.
type LineEvent struct {
	At     time.Duration // when, by CLOCK_MONOTONIC, taken in the interrupt
	Rising bool
	Line   uint32 // the line's number on its chip

	// LineSeq numbers the line's events from 1, of those edges that were asked for
	// and outlived the debounce, and wraps. Seq is the same over all lines of a
	// request. An event that finds the buffer full pushes out the oldest one, and
	// keeps its number: so a gap is exactly the events that were not read. Edges
	// that come faster than the interrupt is served are merged by the hardware,
	// have no number, and leave no gap.
	Seq, LineSeq uint32
}

// Line is one GPIO line that is ours until Close. One goroutine uses it; Close may
// come from another.
//
// It speaks to the kernel itself and not through periph, whose GPIO drops the
// time and the number of an event, so that lost pulses cannot be seen, and
// returns a low level for an error.
type Line struct {
	file *os.File
	raw  syscall.RawConn
	name string
	buf  [64 * gpioEventSize]byte
}

// OpenLine takes a line. One that cannot be had is a *LineError.
func OpenLine(c LineConfig) (*Line, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	chip, info, err := openChip(gpioDevices, c.Chip)
	if err != nil {
		return nil, newLineError(c, "", err)
	}
	defer chip.Close() // the line lives on without it
	if c.Line >= int(info.Lines) {
		return nil, &LineError{Chip: c.Chip, Line: c.Line, Found: foundBuses(gpioDevices),
			Err:    fmt.Errorf("chip %s has %d lines", gpioText(info.Label[:]), info.Lines),
			Advice: "lines count from 0 on their chip; gpioinfo lists them"}
	}
	r := newGPIORequest(c)
	if err := control(chip, gpioGetLine, unsafe.Pointer(&r)); err != nil {
		return nil, newLineError(c, lineUser(chip, c.Line), err)
	}
	return adoptLine(int(r.FD), fmt.Sprintf("line %d of %s", c.Line, c.Chip))
}

// adoptLine takes over the handle of a line. It must not block, so that reads end
// when there is nothing and Go's poller waits for events.
func adoptLine(fd int, name string) (*Line, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set %s not to block: %w", name, err)
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Line{file: f, raw: raw, name: name}, nil
}

// String names the line and its chip.
func (l *Line) String() string { return l.name }

// Level reads the line, of an input with debounce the debounced level.
func (l *Line) Level() (gpio.Level, error) {
	v := gpioValues{Mask: 1}
	if err := l.control(gpioGetValues, unsafe.Pointer(&v)); err != nil {
		return gpio.Low, fmt.Errorf("read %s: %w", l.name, err)
	}
	return v.Bits&1 != 0, nil
}

// Out drives the line, which must be an output.
func (l *Line) Out(level gpio.Level) error {
	v := gpioValues{Mask: 1}
	if level {
		v.Bits = 1
	}
	if err := l.control(gpioSetValues, unsafe.Pointer(&v)); err != nil {
		return fmt.Errorf("set %s: %w", l.name, err)
	}
	return nil
}

// ReadEvents moves events that wait into dst, oldest first, and returns how many;
// 0 when none wait. It does not wait itself. A chip that went away is ENODEV.
func (l *Line) ReadEvents(dst []LineEvent) (int, error) {
	total := 0
	for total < len(dst) {
		room := min(len(l.buf), (len(dst)-total)*gpioEventSize)
		n, err := l.read(l.buf[:room])
		if errors.Is(err, unix.EAGAIN) {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("read events of %s: %w", l.name, err)
		}
		if n, err = parseLineEvents(dst[total:], l.buf[:n]); err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// Wait waits until there are events to read, or until ctx ends, and returns its
// error then.
func (l *Line) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		l.file.SetReadDeadline(time.Unix(1, 0)) // long past: the poller lets go
		close(woken)
	})
	err := l.raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0 // errors and hang-up too: ReadEvents names them
	})
	if !stop() {
		<-woken
		l.file.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// Close gives the line back.
func (l *Line) Close() error { return l.file.Close() }

// read reads what waits. Nothing at all is the end of a handle that lost its chip.
func (l *Line) read(b []byte) (n int, err error) {
	rawErr := l.raw.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), b); err != unix.EINTR {
				return true // never wait here
			}
		}
	})
	switch {
	case rawErr != nil:
		return 0, rawErr
	case err == nil && n == 0:
		return 0, unix.ENODEV
	}
	return n, err
}

func (l *Line) control(request uint, arg unsafe.Pointer) error {
	var done error
	if err := l.raw.Control(func(fd uintptr) { done = gpioIoctl(fd, request, arg) }); err != nil {
		return err
	}
	return done
}

package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gpioDevices is where the kernel puts the GPIO chips, one node each.
const gpioDevices = "/dev/gpiochip"

// LineError says that a GPIO line cannot be had, and what to do about it.
type LineError struct {
	Chip   string   // as it was asked for
	Line   int      // its number on the chip
	Found  []string // the chips that are there, in order
	Advice string   // what to enable or change
	Err    error
}

// Error names the line, the cause and the chips that are there. It leaves out the
// hint.
func (e *LineError) Error() string {
	found := "there is no GPIO chip"
	if len(e.Found) > 0 {
		found = "chips here: " + strings.Join(e.Found, ", ")
	}
	return fmt.Sprintf("open line %d of GPIO chip %s: %v (%s)", e.Line, e.Chip, e.Err, found)
}

// Hint says what to enable or change.
func (e *LineError) Hint() string { return e.Advice }

// Unwrap gives the cause, fs.ErrNotExist for a chip that is not there.
func (e *LineError) Unwrap() error { return e.Err }

// newLineError gives the advice that fits the cause; user is who has the line,
// where that is known.
func newLineError(c LineConfig, user string, err error) *LineError {
	e := &LineError{Chip: c.Chip, Line: c.Line, Found: foundBuses(gpioDevices), Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Advice = "add the daemon's user to the group gpio (usermod -aG gpio USER, or SupplementaryGroups=gpio in the unit), and allow the device (DeviceAllow=char-gpiochip rw)"
	case errors.Is(err, fs.ErrNotExist) && len(e.Found) > 0:
		e.Advice = "name one of the chips that are there, or one's label, which does not change with the kernel as its number may (gpiodetect lists both)"
	case errors.Is(err, fs.ErrNotExist):
		e.Advice = "the kernel has no GPIO character device: it needs CONFIG_GPIO_CDEV; in a container pass the device /dev/gpiochip0"
	case errors.Is(err, syscall.EBUSY) && user != "":
		e.Advice = "the line is in use by " + user + ": take another line, or end that use (an overlay in config.txt, another program)"
	case errors.Is(err, syscall.EBUSY):
		e.Advice = "the line is in use: gpioinfo says by whom"
	case errors.Is(err, syscall.ENXIO):
		e.Advice = "this line has no interrupt, so its edges cannot be seen: take a line of another chip"
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTTY):
		e.Advice = "the kernel does not know this request: Linux 5.10 or later is needed, with CONFIG_GPIO_CDEV"
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, errNoSupport):
		e.Advice = "this chip cannot do the bias: use bias as-is and a resistor"
	default:
		e.Advice = "look at gpioinfo and at the kernel's log"
	}
	return e
}

// errNoSupport is ENOTSUPP, which the kernel's drivers let out although it is
// none of the numbers that programs know (include/linux/errno.h).
const errNoSupport = syscall.Errno(524)

// lineFault makes a Fault of a line that cannot be had or used.
func lineFault(detail string, err error) *Fault {
	f := &Fault{Reason: ReasonBus, Detail: detail, Err: err}
	if _, missing := errors.AsType[*LineError](err); missing || gone(err) {
		f.Reason = ReasonNoBus
	}
	return f
}

// openChip opens the chip that "gpiochip0", "0", "/dev/gpiochip0" or a label such
// as "pinctrl-bcm2711" names. Who opens it closes it.
func openChip(prefix, name string) (*os.File, gpioChipInfo, error) {
	if node, ok := chipNode(prefix, name); ok {
		return tryChip(node)
	}
	var match *os.File
	var info gpioChipInfo
	var denied error
	for _, node := range foundBuses(prefix) {
		f, i, err := tryChip(node)
		if err != nil {
			denied = err
			continue
		}
		if gpioText(i.Label[:]) != name {
			f.Close()
			continue
		}
		if match != nil {
			f.Close()
			match.Close()
			return nil, info, fmt.Errorf("more than one chip has the label %q: name the node", name)
		}
		match, info = f, i
	}
	switch {
	case match != nil:
		return match, info, nil
	case denied != nil: // the label may be that of a chip that could not be asked
		return nil, info, denied
	}
	return nil, info, fmt.Errorf("no chip has the name or label %q: %w", name, fs.ErrNotExist)
}

// chipNode is the device node that a name other than a label means.
func chipNode(prefix, name string) (node string, ok bool) {
	base := prefix[strings.LastIndexByte(prefix, '/')+1:]
	number := strings.TrimPrefix(strings.TrimPrefix(name, prefix), base)
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return "", false
	}
	return prefix + strconv.FormatUint(n, 10), true
}

// tryChip opens a node and sees that it is a GPIO chip.
func tryChip(node string) (*os.File, gpioChipInfo, error) {
	var info gpioChipInfo
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return nil, info, errors.Unwrap(err) // without the path, which LineError names
	}
	if s, err := f.Stat(); err != nil || s.Mode()&fs.ModeCharDevice == 0 {
		f.Close()
		return nil, info, errors.Join(err, errors.New("not a character device"))
	}
	if err := control(f, gpioGetChipInfo, unsafe.Pointer(&info)); err != nil {
		f.Close()
		return nil, info, fmt.Errorf("read chip info: %w", err)
	}
	return f, info, nil
}

// lineUser is who uses a line, as far as the kernel says.
func lineUser(chip *os.File, line int) string {
	info := gpioLineInfo{Offset: uint32(line)}
	if err := control(chip, gpioGetLineInfo, unsafe.Pointer(&info)); err != nil || info.Flags&gpioFlagUsed == 0 {
		return ""
	}
	return strconv.Quote(gpioText(info.Consumer[:]))
}

// control does a request on an open file, which cannot be closed meanwhile.
func control(f *os.File, request uint, arg unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = gpioIoctl(fd, request, arg) }); err != nil {
		return err
	}
	return done
}

// gpioText is the text in one of the kernel's name fields.
func gpioText(field []byte) string { return unix.ByteSliceToString(field) }

package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Bounds of reading a file of sysfs.
const (
	attrMax     = 4096 // bytes: the kernel gives at most a page
	eintrsInRow = 10   // interrupted calls that are made again at once
)

// readAttr reads an attribute of sysfs whole. Its errors are *fs.PathError with
// the errno of the driver behind it.
//
// It does without os.File: that hands a file which can be polled, as those of sysfs
// can, to the runtime's poller, and a driver that answers EAGAIN would be waited
// for until the file changes, which may be never.
func readAttr(path string) (string, error) {
	var fd int
	err := uninterrupted(func() (err error) {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	text, err := readWhole(func(p []byte) (int, error) { return syscall.Read(fd, p) })
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, nil
}

// readWhole reads until nothing comes any more.
func readWhole(read func(p []byte) (int, error)) (string, error) {
	buf := make([]byte, attrMax+1)
	for end := 0; ; {
		var n int
		err := uninterrupted(func() (err error) {
			n, err = read(buf[end:])
			return err
		})
		switch end += max(n, 0); {
		case err != nil:
			return "", err
		case end > attrMax:
			return "", fmt.Errorf("more than %d bytes", attrMax)
		case n <= 0:
			return string(buf[:end]), nil
		}
	}
}

// uninterrupted makes a call again that a signal ended, at once.
func uninterrupted(call func() error) error {
	for n := 0; ; n++ {
		if err := call(); err != syscall.EINTR || n == eintrsInRow {
			return err
		}
	}
}

// attrFault makes a Fault of an attribute that could not be read.
func attrFault(detail string, err error) *Fault {
	f := busFault(detail, err)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EBUSY):
		f.Reason = ReasonNotReady
	case errors.Is(err, syscall.ETIMEDOUT):
		f.Reason = ReasonTimeout
	}
	return f
}

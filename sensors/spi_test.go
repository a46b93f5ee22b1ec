package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"

	"oxyd/sensors/internal/chip"
)

func TestSPINumbers(t *testing.T) {
	for name, want := range map[string]string{
		"0.0": "0.0", "SPI0.1": "0.1", "/dev/spidev10.2": "10.2", "65535.255": "65535.255",
		"": "", "0": "", "0.": "", ".0": "", "0.0.0": "", "-1.0": "", "1.-1": "", "spi0.0": "", "/dev/i2c-1": "", "65536.0": "", "0.256": "", "0.0\n": "", " 0.0": "",
	} {
		bus, chipSelect, err := spiNumbers(name)
		got := fmt.Sprintf("%d.%d", bus, chipSelect)
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestFC99OpenSPINamesTheMissing: a chip select that this board has not.
func TestFC99OpenSPINamesTheMissing(t *testing.T) {
	const node = "/dev/spidev65000.7" // beyond any that a kernel numbers by itself
	if _, err := os.Stat(node); err == nil {
		t.Skip(node + " exists here")
	}
	for _, name := range []string{"65000.7", "SPI65000.7", node} {
		_, err := OpenSPI(name, MCP3x08Mode, MCP3x08Speed)
		e, ok := errors.AsType[*BusError](err)
		if !ok {
			t.Fatalf("%s: got %v, want a *BusError", name, err)
		}
		if e.Bus != node || !errors.Is(err, fs.ErrNotExist) || e.Advice == "" || !strings.Contains(err.Error(), node) || strings.Contains(err.Error(), "I2C") {
			t.Errorf("%s: got %v, %+v", name, err, e)
		}
		if f := busFault("open", err); f.Reason != ReasonNoBus {
			t.Errorf("%s: got reason %s, want %s", name, f.Reason, ReasonNoBus)
		}
	}
	if len(FindSPI()) == 0 {
		if e := newSPIError(node, syscall.ENOENT); !strings.Contains(e.Advice, "dtparam=spi=on") {
			t.Errorf("no bus: got hint %q, want what to enable in it", e.Advice)
		}
	}
	if e := newSPIError(node, syscall.EACCES); !strings.Contains(e.Advice, "group spi") || !strings.Contains(e.Advice, "DeviceAllow=char-spi") {
		t.Errorf("not permitted: got hint %q, want group and device in it", e.Advice)
	}
	if e := newSPIError(node, errors.New("not a character device")); !strings.Contains(e.Advice, "ls -l") {
		t.Errorf("no device: got hint %q", e.Advice)
	}
}

func TestFoundSPI(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "spidev")
	for _, n := range []string{"10.0", "2.1", "2.0", "x", "3", ""} {
		if err := os.WriteFile(prefix+n, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{prefix + "2.0", prefix + "2.1", prefix + "10.0"}, foundSPI(prefix)); diff != "" {
		t.Error(diff)
	}
	if err := trySPI(prefix + "2.0"); err == nil {
		t.Error("a plain file passes for a chip select")
	}
}

func TestWithErrno(t *testing.T) {
	if err := withErrno(nil); err != nil {
		t.Errorf("got %v of none", err)
	}
	for _, errno := range []syscall.Errno{syscall.ENODEV, syscall.ENXIO, syscall.ESHUTDOWN, syscall.EIO, syscall.ETIMEDOUT} {
		hidden := fmt.Errorf("sysfs-spi: Tx() failed: %v", error(errno))
		if err := withErrno(hidden); !errors.Is(err, errno) || err.Error() != hidden.Error() {
			t.Errorf("got %v, want %v in it and the same text", err, errno)
		}
	}
	// The text of ENXIO begins with that of ENODEV.
	if err := withErrno(fmt.Errorf("x: %v", error(syscall.ENXIO))); errors.Is(err, syscall.ENODEV) {
		t.Errorf("%v is taken for %v", err, error(syscall.ENODEV))
	}
	hiding := &chip.SPI{Before: func(int, []byte) error { return fmt.Errorf("sysfs-spi: Tx() failed: %v", error(syscall.ENODEV)) }}
	d := &spiDev{Conn: hiding}
	for _, err := range []error{d.Tx([]byte{0}, nil), d.TxPackets([]spi.Packet{{W: []byte{0}}})} {
		if !gone(err) {
			t.Errorf("got %v of a device that is gone, want it recognised", err)
		}
	}
	other := errors.New("sysfs-spi: invalid bits 0")
	if err := withErrno(other); err != other {
		t.Errorf("got %v, want it as it was", err)
	}
}

// TestLateSPI: the device is opened when needed, and anew after it went away; any
// other error leaves it open.
func TestLateSPI(t *testing.T) {
	var opened []*chip.SPI
	there, fail := false, error(nil)
	l := &lateSPI{name: "/dev/spidev7.0", mode: spi.Mode1, speed: physic.MegaHertz, open: func(name string, mode spi.Mode, speed physic.Frequency) (SPIConn, error) {
		if !there {
			return nil, &BusError{Bus: name, Err: fs.ErrNotExist}
		}
		if mode != spi.Mode1 || speed != physic.MegaHertz {
			t.Errorf("got %v at %s", mode, speed)
		}
		opened = append(opened, &chip.SPI{Name: name, Before: func(int, []byte) error { return fail }})
		return opened[len(opened)-1], nil
	}}
	tx := func(want error) {
		t.Helper()
		if err := l.Tx([]byte{0}, make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	tx(fs.ErrNotExist)
	there = true
	tx(nil)
	fail = syscall.EIO
	tx(syscall.EIO)
	if err := l.TxPackets([]spi.Packet{{W: []byte{0}}}); !errors.Is(err, syscall.EIO) {
		t.Errorf("packets: got %v, want %v", err, syscall.EIO)
	}
	if len(opened) != 1 || opened[0].Closed() != 0 {
		t.Fatalf("got %d handles, want 1 that is open", len(opened))
	}
	for n, errno := range []syscall.Errno{syscall.ENODEV, syscall.ESHUTDOWN} {
		fail = errno
		tx(errno)
		if opened[n].Closed() != 1 {
			t.Errorf("%v: the dead handle is still open", error(errno))
		}
		there = false
		tx(fs.ErrNotExist)
		there, fail = true, nil
		tx(nil)
	}
	if err := l.Close(); err != nil || len(opened) != 3 || opened[2].Closed() != 1 {
		t.Errorf("close: got %v, %d handles, want 3 and the last closed", err, len(opened))
	}
}

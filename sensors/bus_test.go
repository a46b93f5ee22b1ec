package sensors

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBusNumber(t *testing.T) {
	for name, want := range map[string]int{
		"1": 1, "I2C1": 1, "/dev/i2c-1": 1, "/dev/i2c-22": 22, "0": 0,
		"": -1, "i2c1": -1, "/dev/i2c-": -1, "/dev/i2c-I2C1": -1, "-1": -1, "+1": -1, "1 ": -1, "99999": -1, "/dev/spidev0.0": -1,
	} {
		got, err := busNumber(name)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %d, %v, want %d", name, got, err, want)
		}
	}
}

func TestOpenI2CNamesTheMissingBus(t *testing.T) {
	const node = "/dev/i2c-65000" // beyond any that a kernel numbers by itself
	if _, err := os.Stat(node); err == nil {
		t.Skip(node + " exists here")
	}
	for _, name := range []string{"65000", "I2C65000", node} {
		_, err := OpenI2C(name)
		e, ok := errors.AsType[*BusError](err)
		if !ok {
			t.Fatalf("%s: got %v, want a *BusError", name, err)
		}
		if e.Bus != node || !errors.Is(err, fs.ErrNotExist) || e.Advice == "" || !strings.Contains(err.Error(), node) {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}

func TestBusErrorText(t *testing.T) {
	e := newBusError("/dev/i2c-65000", syscall.ENOENT)
	e.Found = nil
	if got, want := e.Error(), "open bus /dev/i2c-65000: no such file or directory (there is no I2C bus)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	e.Found = []string{"/dev/i2c-2", "/dev/i2c-10"}
	if got, want := e.Error(), "buses here: /dev/i2c-2, /dev/i2c-10"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	if e := newBusError("/dev/i2c-65000", syscall.EACCES); !strings.Contains(e.Advice, "group i2c") {
		t.Errorf("not permitted: got hint %q, want the group in it", e.Advice)
	}
	if len(foundBuses(i2cDevices)) == 0 {
		if e := newBusError("/dev/i2c-1", syscall.ENOENT); !strings.Contains(e.Advice, "dtparam=i2c_arm=on") || !strings.Contains(e.Advice, "i2c-dev") {
			t.Errorf("no bus: got hint %q, want what to enable in it", e.Advice)
		}
	}
}

func TestFoundBuses(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "i2c-")
	for _, n := range []string{"10", "2", "x", ""} {
		if err := os.WriteFile(prefix+n, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{prefix + "2", prefix + "10"}, foundBuses(prefix)); diff != "" {
		t.Error(diff)
	}
}

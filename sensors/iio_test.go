package sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"oxyd/sensors/internal/chip"
)

// newIIOTree is a tree with an ADC, a barometer, a load cell's HX711 and a trigger.
func newIIOTree(t testing.TB) *chip.IIO {
	t.Helper()
	tree, err := chip.NewIIO(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for number, files := range map[int]map[string]string{
		0: {"name": "ads1015\n", "label": "dock\n", "in_voltage0_raw": "1000\n", "in_voltage0_scale": "3.000000000\n", "in_voltage0-voltage1_raw": "-7\n",
			"in_voltage0-voltage1_scale": "1.000000000\n", "scan_elements/in_voltage0_type": "le:s12/16>>4\n", "scan_elements/in_voltage0-voltage1_type": "le:s12/16>>4\n"},
		1: {"name": "bmp280\n", "in_pressure_input": "101.325000000\n", "in_temp_input": "21437\n", "in_humidityrelative_input": "40000\n"},
		2: {"name": "hx711\n", "in_voltage0_raw": "8559608\n", "in_voltage1_raw": "8388700\n", "in_voltage_scale": "0.000002328\n"},
		3: {"name": "mcp9600\n", "in_temp_ambient_raw": "4\n", "in_temp_object_raw": "-160\n", "in_temp_object_offset": "32\n", "in_temp_scale": "62.500000000\n", "in_distance_raw": "77\n"},
	} {
		if err := tree.Add(number, files); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func newIIO(t testing.TB, tree *chip.IIO, device, channel string) *IIO {
	t.Helper()
	d, err := NewIIO(tree.Root, device, channel)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestIIOUnits(t *testing.T) {
	tree := newIIOTree(t)
	for _, tt := range []struct {
		device, channel string
		raw             int64
		value           float64
	}{
		{"ads1015", "in_voltage0", 1000, 3},
		{"dock", "in_voltage0", 1000, 3},
		{"iio:device0", "in_voltage0", 1000, 3},
		{"ads1015", "in_voltage0-voltage1", -7, -0.007},
		{"bmp280", "in_pressure", 101325000, 101325},
		{"bmp280", "in_temp", 21437000000, 294.587},
		{"hx711", "in_voltage0", 171000, 171000 * 2.328e-9},
		{"hx711", "in_voltage1", 92, 92 * 2.328e-9},
		{"mcp9600", "in_temp_ambient", 4, 273.4},
		{"mcp9600", "in_temp_object", -160, 265.15},
	} {
		got, err := newIIO(t, tree, tt.device, tt.channel).Measure(t.Context())
		if err != nil || got.Raw != tt.raw || math.Abs(got.Value-tt.value) > 1e-9*math.Abs(tt.value) {
			t.Errorf("%s %s: got %v, %v, want %d and %g", tt.device, tt.channel, got, err, tt.raw, tt.value)
		}
	}
}

func TestIIORefusesWhatHasNoMeaning(t *testing.T) {
	tree := newIIOTree(t)
	if err := tree.Add(4, map[string]string{"name": "max31865\n", "in_temp_raw": "8192\n", "in_temp_scale": "31.250000\n"}); err != nil {
		t.Fatal(err)
	}
	if err := tree.Add(5, map[string]string{"name": "ads1015\n"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ device, channel, want string }{
		{"ads1015", "in_voltage0", "label"},        // two of them
		{"dock", "in_voltage5", "in_voltage0"},     // names what is there
		{"mcp9600", "in_distance", "no scale"},     // its unit is not known
		{"max31865", "in_temp", "driver max31865"}, // reads 256 °C at 0 °C
		{"dock", "in_voltage0_raw", "without _raw"},
		{"dock", "in_accel_x", "unit"},
		{"dock", "../in_voltage0", "unit"},
		{"../iio:device0", "in_voltage0", "names no"},
		{"", "in_voltage0", "names no"},
	} {
		d, err := NewIIO(tree.Root, tt.device, tt.channel)
		if err == nil || d != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: got %v, want %q in it", tt.device, tt.channel, err, tt.want)
		}
	}
}

// TestIIONumberChanges: the number of a device may be another after each boot. A
// name finds it, also while running; a number does not take another chip for it.
func TestIIONumberChanges(t *testing.T) {
	tree := newIIOTree(t)
	byName, byNumber := newIIO(t, tree, "bmp280", "in_temp"), newIIO(t, tree, "iio:device1", "in_temp")
	for _, step := range [][2]int{{1, 9}, {3, 1}} { // the barometer to 9, the thermometer in its place
		if err := tree.Renumber(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Write(1, "in_temp_input", "99000\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := byName.Measure(t.Context()); err != nil || math.Abs(got.Value-294.587) > 1e-9 {
		t.Errorf("by name: got %v, %v, want 294.587 K", got, err)
	}
	got, err := byNumber.Measure(t.Context())
	wantFault(t, got, err, ReasonNack)
}

// TestFC70IIOVanishAndReappear: a device that is gone is missing, and measures when
// it is back, by the same driver; the others are not touched by it.
func TestFC70IIOVanishAndReappear(t *testing.T) {
	tree := newIIOTree(t)
	gone, other := newIIO(t, tree, "ads1015", "in_voltage0"), newIIO(t, tree, "bmp280", "in_temp")
	if err := tree.Renumber(0, 100); err != nil {
		t.Fatal(err)
	}
	if err := tree.Write(100, "name", "unbound\n"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := gone.Measure(t.Context())
		wantFault(t, got, err, ReasonNack)
		if _, err := other.Measure(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := tree.Write(100, "name", "ads1015\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := gone.Measure(t.Context()); err != nil || got.Value != 3 {
		t.Errorf("back: got %v, %v, want 3 V", got, err)
	}
}

func TestIIOFaults(t *testing.T) {
	for _, tt := range []struct {
		device, channel string
		file, text      string // a file that changes
		errno           syscall.Errno
		want            Reason
	}{
		{"ads1015", "in_voltage0", "in_voltage0_raw", "2047\n", 0, ReasonSaturated},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "-2048\n", 0, ReasonSaturated},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "12x\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "1.5\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "99999999999999999999\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "0.000000000\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "3.0 dB\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "1 2 3\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "NaN\n", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "1e300\n", 0, ReasonImplausible},
		{"bmp280", "in_temp", "in_temp_input", "-274000\n", 0, ReasonImplausible},
		{"bmp280", "in_temp", "in_temp_input", "nan\n", 0, ReasonImplausible},
		{"mcp9600", "in_temp_object", "in_temp_object_offset", "\x00", 0, ReasonImplausible},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.EAGAIN, ReasonNotReady},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.EBUSY, ReasonNotReady},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.ETIMEDOUT, ReasonTimeout},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.EIO, ReasonBus},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.EREMOTEIO, ReasonNack},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.ENXIO, ReasonNack},
		{"ads1015", "in_voltage0", "in_voltage0_raw", "", syscall.ENODEV, ReasonNoBus},
		{"ads1015", "in_voltage0", "in_voltage0_scale", "", syscall.EIO, ReasonBus},
		{"bmp280", "in_temp", "in_temp_input", "", syscall.EBUSY, ReasonNotReady},
	} {
		t.Run(fmt.Sprintf("%s %s %q %d", tt.channel, tt.file, tt.text, tt.errno), func(t *testing.T) {
			tree := newIIOTree(t)
			d := newIIO(t, tree, tt.device, tt.channel)
			d.read = func(path string) (string, error) {
				switch {
				case filepath.Base(path) != tt.file:
					return readAttr(path)
				case tt.errno != 0:
					return "", &fs.PathError{Op: "read", Path: path, Err: tt.errno}
				}
				return tt.text, nil
			}
			got, err := d.Measure(t.Context())
			wantFault(t, got, err, tt.want)
		})
	}
}

// TestFC55IIOHX711: words that a lost clock pulse leaves, through the kernel's
// driver, which stores them with the top bit turned.
func TestFC55IIOHX711(t *testing.T) {
	tree := newIIOTree(t)
	d := newIIO(t, tree, "hx711", "in_voltage0")
	read := func(word int) (Measured, error) {
		if err := tree.Write(2, "in_voltage0_raw", strconv.Itoa(word+1<<23)+"\n"); err != nil {
			t.Fatal(err)
		}
		return d.Measure(t.Context())
	}
	var accepted []int64
	for _, word := range []int{171000, 171020, 8388607, 4194303, 2097151, 0, 171010} {
		if got, err := read(word); err == nil {
			accepted = append(accepted, got.Raw)
		} else if f, ok := errors.AsType[*Fault](err); !ok || f.Reason == "" || got != (Measured{}) {
			t.Errorf("%d: got %v, %v, want a *Fault", word, got, err)
		}
	}
	if diff := cmp.Diff([]int64{171000, 171020, 171010}, accepted); diff != "" {
		t.Error(diff)
	}
	for word, want := range map[int]Reason{-1 << 23: ReasonSaturated, 1<<23 - 1: ReasonSaturated, -1<<23 - 5: ReasonSaturated, 1 << 23: ReasonSaturated, -1: ReasonImplausible, 0xffff: ReasonImplausible} {
		got, err := read(word)
		wantFault(t, got, err, want)
	}
	// A clock that was high for too long switches the chip off within the word of 171000,
	// 0x029bf8, and of -171000, 0xfd6408: the rest reads ones, whatever stands before.
	for _, word := range []int{171000, -171000} {
		for rest := 12; rest <= 24; rest++ {
			got, err := read(word | (1<<rest - 1))
			if f, ok := errors.AsType[*Fault](err); !ok || got != (Measured{}) {
				t.Errorf("%d with ones in the last %d bits: got %v, %v, want a *Fault (%v)", word, rest, got, err, f)
			}
		}
	}
	for _, word := range []int{-1<<23 + 1, 1<<23 - 2, 1, 255, -171000} {
		if got, err := read(word); err != nil || got.Raw != int64(word) {
			t.Errorf("got %v, %v, want %d", got, err, word)
		}
	}
}

func TestFC99NoIIO(t *testing.T) {
	empty := t.TempDir()
	for _, root := range []string{empty, filepath.Join(empty, "not", "there")} {
		_, err := NewIIO(root, "ads1015", "in_voltage0")
		f, ok := errors.AsType[*Fault](err)
		if e, bus := errors.AsType[*BusError](err); !ok || !bus || f.Reason != ReasonNoBus || e.Advice == "" {
			t.Errorf("got %v, want reason %s and advice", err, ReasonNoBus)
		}
		if _, err := FindIIO(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("find: got %v, want %v", err, fs.ErrNotExist)
		}
	}
	_, err := NewIIO(newIIOTree(t).Root, "ads1115", "in_voltage0")
	if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != ReasonNack || !strings.Contains(err.Error(), "labelled dock") {
		t.Errorf("got %v, want reason %s and what is there", err, ReasonNack)
	}
}

func TestFindIIO(t *testing.T) {
	tree := newIIOTree(t)
	if err := tree.Remove(3); err != nil {
		t.Fatal(err)
	}
	got, err := FindIIO(tree.Root)
	want := []IIODevice{
		{"iio:device0", "ads1015", "dock", []string{"in_voltage0-voltage1", "in_voltage0"}},
		{"iio:device1", "bmp280", "", []string{"in_pressure", "in_temp"}},
		{"iio:device2", "hx711", "", []string{"in_voltage0", "in_voltage1"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestIIOContext(t *testing.T) {
	d := newIIO(t, newIIOTree(t), "bmp280", "in_temp")
	d.read = func(string) (string, error) { t.Error("read after the end"); return "", nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// FuzzIIOText: whatever the files of a channel hold, a read gives a fault or a
// finite number; a code that is taken reads back as it was printed.
func FuzzIIOText(f *testing.F) {
	f.Add("1000\n", "3.000000000\n", "0\n", "le:s12/16>>4\n")
	f.Add("-1", "-0.5", "-12.25", "be:u24/32X2>>0")
	f.Add("nan", "1e9", "0x10", "le:s99/1")
	tree := newIIOTree(f)
	d := newIIO(f, tree, "mcp9600", "in_temp_object")
	f.Fuzz(func(t *testing.T, raw, scale, offset, stored string) {
		texts := map[string]string{"in_temp_object_raw": raw, "in_temp_scale": scale, "in_temp_object_offset": offset}
		d.read = func(path string) (string, error) {
			if text, ok := texts[filepath.Base(path)]; ok {
				return text, nil
			}
			return readAttr(path)
		}
		got, err := d.Measure(context.Background())
		if _, ok := errors.AsType[*Fault](err); err != nil && !ok {
			t.Fatalf("got %v, want a *Fault", err)
		}
		if err == nil && (math.IsNaN(got.Value) || math.IsInf(got.Value, 0) || got.Value <= 0) {
			t.Errorf("got %v", got)
		}
		if v, perr := strconv.ParseInt(strings.TrimSuffix(raw, "\n"), 10, 64); err == nil && (perr != nil || v != got.Raw) {
			t.Errorf("%q is taken for %d", raw, got.Raw)
		}
		if low, high := iioRails(stored); low >= high {
			t.Errorf("%q: rails %d and %d", stored, low, high)
		}
	})
}

package sensors

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/onewire"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

const testID = "28-0316a2793bff"

// w1Rig is a thermometer on a 1-wire bus, as files.
type w1Rig struct {
	tree  *chip.W1
	clock *virtual
}

func newW1Rig(t testing.TB) *w1Rig {
	t.Helper()
	tree, err := chip.NewW1(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &w1Rig{tree: tree, clock: newVirtual()}
	r.plug(t, chip.DS18B20{Celsius: 21.5, Bits: 12}.Scratchpad())
	return r
}

func (r *w1Rig) plug(t testing.TB, pad [9]byte) {
	t.Helper()
	r.text(t, chip.W1Text(pad))
}

func (r *w1Rig) text(t testing.TB, text string) {
	t.Helper()
	if err := r.tree.Plug(testID, text); err != nil {
		t.Fatal(err)
	}
}

func (r *w1Rig) chip(t testing.TB) *DS18B20 {
	t.Helper()
	d, err := NewDS18B20(r.tree.Root, testID, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// padOf reads nine bytes of hexadecimal digits.
func padOf(t testing.TB, text string) (pad [9]byte) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil || len(b) != 9 {
		t.Fatalf("%q: %v", text, err)
	}
	copy(pad[:], b)
	return pad
}

func TestDS18B20Vectors(t *testing.T) {
	for _, tt := range []struct {
		pad     string
		celsius float64
		want    Reason
	}{
		{"50 05 4b 46 7f ff 0c 10 1c", 0, ReasonPowerOn},
		{"50 05 4b 46 7f ff 10 10 bd", 85, ""},
		{"00 00 4b 46 7f ff 10 10 69", 0, ""},
		{"91 01 4b 46 7f ff 0f 10 25", 25.0625, ""},
		{"5e ff 4b 46 7f ff 02 10 b6", -10.125, ""},
		{"80 fd 4b 46 7f ff 10 10 87", -40, ""},
		{"01 01 4b 46 7f ff 0f 10 e3", 16.0625, ""},
		{"00 00 00 00 00 00 00 00 00", 0, ReasonImplausible},
		{"ff ff ff ff ff ff ff ff ff", 0, ReasonImplausible},
		{"91 01 4b 46 7f ff 0f 10 24", 0, ReasonCRC},
	} {
		t.Run(tt.pad, func(t *testing.T) {
			r := newW1Rig(t)
			r.plug(t, padOf(t, tt.pad))
			got, err := r.chip(t).Measure(t.Context())
			if tt.want != "" {
				wantFault(t, got, err, tt.want)
			} else if want := (Measured{Raw: int64(tt.celsius * 16), Value: tt.celsius + 273.15}); err != nil || got != want {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

// sealed makes the check sum of a scratchpad right.
func sealed(pad [9]byte) [9]byte {
	pad[8] = onewire.CalcCRC(pad[:8])
	return pad
}

func TestFC60DS18B20Sentinels(t *testing.T) {
	r := newW1Rig(t)
	d := r.chip(t)
	read := func(pad [9]byte) (Measured, error) {
		r.plug(t, pad)
		return d.Measure(t.Context())
	}
	celsius := func(c float64) [9]byte { return chip.DS18B20{Celsius: c, Bits: 12}.Scratchpad() }
	refused := func(name string, pad [9]byte, want Reason) {
		t.Helper()
		got, err := read(pad)
		t.Log(name, err)
		wantFault(t, got, err, want)
	}
	accepted := func(c float64) {
		t.Helper()
		if got, err := read(celsius(c)); err != nil || math.Abs(got.Value-273.15-c) > 1./16 {
			t.Errorf("%g °C: got %v, %v", c, got, err)
		}
	}
	refused("85.0 at boot", chip.DS18B20{Bits: 12, PowerOn: true}.Scratchpad(), ReasonPowerOn)
	accepted(21.3)
	accepted(21.4)
	minus127 := celsius(0)
	minus127[0], minus127[1] = 0x10, 0xf8
	refused("-127", sealed(minus127), ReasonImplausible)
	refused("0.0 from all zeros", [9]byte{}, ReasonImplausible)
	refused("all ones", [9]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ReasonImplausible)
	weak := celsius(0)
	weak[0], weak[1] = 0xff, 0x07
	refused("127.94", sealed(weak), ReasonPower)
	other := celsius(20)
	other[4] = 0xff
	refused("config byte of no DS18B20", sealed(other), ReasonImplausible)
	other = celsius(20)
	other[7] = 0xff
	refused("reserved byte of no DS18B20", sealed(other), ReasonImplausible)
	refused("-56", sealed(celsius(-56)), ReasonImplausible)
	refused("126", sealed(celsius(126)), ReasonImplausible)
	for _, c := range []float64{84.9, 85.0, 85.1, 0, -55, 125} {
		accepted(c)
	}
}

// TestFC61BadReadIsNotZero: a read that the kernel itself calls bad carries a
// temperature all the same, and older kernels put that of an earlier read beside
// it. Neither is taken.
func TestFC61BadReadIsNotZero(t *testing.T) {
	r := newW1Rig(t)
	d := r.chip(t)
	for _, text := range []string{
		"01 01 4b 46 7f ff 0f 10 e2 : crc=e3 NO\n91 01 4b 46 7f ff 0f 10 25 t=16062\n",
		"01 01 4b 46 7f ff 0f 10 e2 : crc=e3 NO\n01 01 4b 46 7f ff 0f 10 e2 t=16062\n",
		"01 01 4b 46 7f ff 0f 10 e3 : crc=e3 NO\n01 01 4b 46 7f ff 0f 10 e3 t=16062\n",  // "NO" against a right sum
		"01 01 4b 46 7f ff 0f 10 e2 : crc=e2 YES\n01 01 4b 46 7f ff 0f 10 e2 t=16062\n", // "YES" against a wrong one
	} {
		r.text(t, text)
		got, err := d.Measure(t.Context())
		wantFault(t, got, err, ReasonCRC)
	}
}

// TestDS18B20Resolution: what the chip leaves undefined at a coarse resolution does
// not reach the value.
func TestDS18B20Resolution(t *testing.T) {
	for bits, want := range map[int]float64{9: 25.5, 10: 25.75, 11: 25.875, 12: 25.9375} {
		pad := chip.DS18B20{Celsius: 25.9375, Bits: bits}.Scratchpad()
		pad[0] = 0x9f // undefined bits as ones
		r := newW1Rig(t)
		r.plug(t, sealed(pad))
		if got, err := r.chip(t).Measure(t.Context()); err != nil || got.Value != want+273.15 {
			t.Errorf("%d bits: got %v, %v, want %g °C", bits, got, err, want)
		}
	}
}

func TestDS18B20MalformedText(t *testing.T) {
	r := newW1Rig(t)
	d := r.chip(t)
	good := chip.W1Text(chip.DS18B20{Celsius: 25.0625, Bits: 12}.Scratchpad())
	for _, text := range []string{
		"\n", "21437\n", good[:20], good[:len(good)-1], good + "\n", good + good, strings.ToUpper(good),
		strings.Replace(good, "t=25062", "t=", 1), strings.Replace(good, "t=25062", "t=26000", 1), strings.Replace(good, "t=25062", "t=99999999999999999999", 1),
		strings.Replace(good, "YES", "YESNO", 1), strings.Replace(good, "\n91 01", "\n91 02", 1), strings.Replace(good, "crc=25", "crc=26", 1),
		strings.Repeat("x", 4096), strings.Replace(good, " ", "\x00", 3),
	} {
		r.text(t, text)
		got, err := d.Measure(t.Context())
		wantFault(t, got, err, ReasonImplausible)
	}
	r.text(t, strings.Repeat("x", 5000))
	got, err := d.Measure(t.Context())
	wantFault(t, got, err, ReasonBus)
	r.text(t, good)
	if got, err := d.Measure(t.Context()); err != nil {
		t.Errorf("got %v, %v of the text that the others were made of", got, err)
	}
}

// TestFC70W1VanishAndReappear: EINTR once is invisible; a chip that the kernel
// dropped is missing, with its bus still there; when it is back it measures, by
// the same driver.
func TestFC70W1VanishAndReappear(t *testing.T) {
	r := newW1Rig(t)
	d := r.chip(t)
	if err := r.tree.Unplug(testID); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := d.Measure(t.Context())
		wantFault(t, got, err, ReasonNack)
	}
	r.plug(t, chip.DS18B20{Celsius: 30, Bits: 12}.Scratchpad())
	if got, err := d.Measure(t.Context()); err != nil || got.Value != 303.15 {
		t.Errorf("back: got %v, %v, want 30 °C", got, err)
	}

	text := chip.W1Text(chip.DS18B20{Celsius: 22, Bits: 12}.Scratchpad())
	calls := 0
	d.read = func(string) (string, error) { // a signal ended the kernel's wait: an empty file
		if calls++; calls == 1 {
			return "", nil
		}
		return text, nil
	}
	if got, err := d.Measure(t.Context()); err != nil || got.Value != 295.15 || calls != 2 {
		t.Errorf("interrupted: got %v, %v in %d reads, want 22 °C in 2", got, err, calls)
	}
	for took, want := range map[time.Duration]int{0: 2, 900 * time.Millisecond: 1} {
		calls = 0
		d.read = func(string) (string, error) { calls++; r.clock.advance(took); return "", nil }
		got, err := d.Measure(t.Context())
		wantFault(t, got, err, ReasonNack)
		if calls != want {
			t.Errorf("empty after %s: got %d reads, want %d", took, calls, want)
		}
	}
	for errno, want := range map[syscall.Errno]Reason{
		syscall.EIO: ReasonBus, syscall.ENODEV: ReasonNoBus, syscall.EAGAIN: ReasonNotReady, syscall.EBUSY: ReasonNotReady, syscall.ETIMEDOUT: ReasonTimeout,
	} {
		d.read = func(path string) (string, error) { return "", &fs.PathError{Op: "read", Path: path, Err: errno} }
		got, err := d.Measure(t.Context())
		wantFault(t, got, err, want)
	}
}

func TestFC99NoW1Bus(t *testing.T) {
	for _, root := range []string{t.TempDir(), t.TempDir() + "/not/there"} {
		_, err := NewDS18B20(root, testID, nil)
		f, ok := errors.AsType[*Fault](err)
		e, bus := errors.AsType[*BusError](err)
		if !ok || !bus || f.Reason != ReasonNoBus || !strings.Contains(e.Advice, "dtoverlay=w1-gpio") {
			t.Errorf("got %v, want reason %s and what to enable", err, ReasonNoBus)
		}
		if _, err := FindDS18B20(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("find: got %v, want %v", err, fs.ErrNotExist)
		}
	}
	r := newW1Rig(t)
	_, err := NewDS18B20(r.tree.Root, "28-000000000001", nil)
	if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != ReasonNack || !strings.Contains(err.Error(), testID) {
		t.Errorf("another id: got %v, want reason %s and the id that is there", err, ReasonNack)
	}
	for _, id := range []string{"", "28", "10-0316a2793bff", "28-0316A2793BFF", "28-0316a2793bff/..", "../28-0316a2793bff", "28-0316a2793bff\n"} {
		if _, err := NewDS18B20(r.tree.Root, id, nil); err == nil {
			t.Errorf("id %q is taken", id)
		}
	}
}

func TestFindDS18B20(t *testing.T) {
	r := newW1Rig(t)
	for _, id := range []string{"28-000005305b33", "10-000802b53e8e", "00-400000000000"} {
		if err := r.tree.Plug(id, ""); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FindDS18B20(r.tree.Root)
	if diff := cmp.Diff([]string{"28-000005305b33", testID}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestDS18B20Context(t *testing.T) {
	d := newW1Rig(t).chip(t)
	d.read = func(string) (string, error) { t.Error("read after the end"); return "", nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestDS18B20FlippedBits: any one wrong bit of a scratchpad is refused, whatever the
// kernel says of it.
func TestDS18B20FlippedBits(t *testing.T) {
	for _, base := range []float64{-55, -10.125, 0, 0.0625, 21.5, 85, 125} {
		pad := chip.DS18B20{Celsius: base, Bits: 12}.Scratchpad()
		for i := range 72 {
			flipped := pad
			flipped[i/8] ^= 1 << (i % 8)
			if code, err := ds18b20Pad(flipped).code(); err == nil {
				t.Errorf("%g °C, bit %d: % x is taken for %d", base, i, flipped[:], code)
			}
			text := strings.Replace(chip.W1Text(flipped), "NO", "YES", 1)
			if code, err := parseW1Slave(text); err == nil {
				t.Errorf("%g °C, bit %d: %q is taken for %d", base, i, text, code)
			}
		}
	}
}

func TestCRC8MaximAgainstPeriph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "data")
		if got, want := crc8Maxim(data), onewire.CalcCRC(data); got != want {
			t.Errorf("got %#02x, want %#02x", got, want)
		}
	})
}

// FuzzW1Slave: whatever text is taken holds a scratchpad twice that is taken, with
// YES and a temperature near the kernel's.
func FuzzW1Slave(f *testing.F) {
	for _, c := range []float64{21.5, -10.125, 85, 0} {
		f.Add(chip.W1Text(chip.DS18B20{Celsius: c, Bits: 12}.Scratchpad()))
	}
	f.Add(chip.W1Text([9]byte{}))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		code, err := parseW1Slave(text)
		if err != nil {
			return
		}
		pad := scratchpad(text[:27])
		again, err := pad.code()
		if err != nil || again != code || pad == (ds18b20Pad{}) {
			t.Errorf("%q: got %d, but its bytes give %d, %v", text, code, again, err)
		}
		if !strings.HasPrefix(chip.W1Text(pad), text[:strings.Index(text, "t=")]) {
			t.Errorf("%q is not what the kernel prints", text)
		}
	})
}

// FuzzScratchpad: whatever bytes are taken have a right check sum, the fixed bits
// of the chip and a temperature that it can measure.
func FuzzScratchpad(f *testing.F) {
	for _, text := range []string{"50 05 4b 46 7f ff 0c 10 1c", "91 01 4b 46 7f ff 0f 10 25", "00 00 00 00 00 00 00 00 00"} {
		pad := padOf(f, text)
		f.Add(pad[:], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if len(b) != 9 {
			return
		}
		var pad [9]byte
		copy(pad[:], b)
		if seal { // else hardly any gets beyond the check sum
			pad = sealed(pad)
		}
		code, err := ds18b20Pad(pad).code()
		if err != nil {
			return
		}
		fixed := pad[7] == 0x10 && slices.Contains([]byte{0x1f, 0x3f, 0x5f, 0x7f}, pad[4])
		if !fixed || onewire.CalcCRC(pad[:8]) != pad[8] || code < -55*16 || code > 125*16 {
			t.Errorf("% x is taken for %s", pad[:], fmt.Sprint(code))
		}
	})
}

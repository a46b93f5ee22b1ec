package sensors

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/conntest"
	"periph.io/x/conn/v3/spi/spitest"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

var pt100 = RTD{Nominal: 100, Reference: 430, Wires: 4, Mains: 50}

// rtdRig is a model of the chip in virtual time.
type rtdRig struct {
	clock *virtual
	bus   *chip.SPI
	model *chip.MAX31865
	rtd   RTD
}

func newRTDRig(rtd RTD) *rtdRig {
	r := &rtdRig{clock: newVirtual(), bus: &chip.SPI{Name: "test"}, rtd: rtd}
	r.model = chip.NewMAX31865(r.clock.Now, rtd.Reference)
	r.model.Set(rtd.Nominal)
	r.bus.Plug(r.model)
	r.bus.After = func(int) { r.clock.advance(80 * time.Microsecond) }
	return r
}

func (r *rtdRig) chip(t rapid.TB) *MAX31865 {
	t.Helper()
	d, err := NewMAX31865(r.bus, r.rtd, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// set gives the sensor a temperature.
func (r *rtdRig) set(celsius float64) { r.model.Set(cvdRatio(celsius) * r.rtd.Nominal) }

// nearK reports whether a temperature is the true one to a step of the code.
func (r *rtdRig) nearK(kelvin, celsius float64) bool {
	return math.Abs(kelvin-celsius-273.15) < 1.2*r.rtd.Reference/32768/(0.0029*r.rtd.Nominal)
}

// TestMAX31865ByteVectors is one read to the byte.
func TestMAX31865ByteVectors(t *testing.T) {
	for _, tt := range []struct {
		name      string
		rtd       RTD
		thr       []byte // thresholds: those of 850 °C and -200 °C, or of the converter
		idle      byte
		code      uint16 // as the register holds it
		wantCode  int
		wantTempC float64
	}{
		{"PT1000, 0 °C, 50 Hz, 4 wires", RTD{1000, 4300, 4, 50}, []byte{0xe8, 0x7a, 0x0b, 0x06}, 0x01, 0x3b88, 7620, 0},
		{"PT1000, -40 °C, 60 Hz, 2 wires", RTD{1000, 4300, 2, 60}, []byte{0xe8, 0x7a, 0x0b, 0x06}, 0x00, 0x322c, 6422, -40},
		{"PT1000, 20 °C, 50 Hz, 3 wires", RTD{1000, 4300, 3, 50}, []byte{0xe8, 0x7a, 0x0b, 0x06}, 0x11, 0x402c, 8214, 20},
		{"PT1000, 25 °C", RTD{1000, 4300, 4, 50}, []byte{0xe8, 0x7a, 0x0b, 0x06}, 0x01, 0x4154, 8362, 25},
		{"PT1000, 100 °C", RTD{1000, 4300, 4, 50}, []byte{0xe8, 0x7a, 0x0b, 0x06}, 0x01, 0x5276, 10555, 100},
		{"PT1000 on 4000 Ohm, 0 °C", RTD{1000, 4000, 4, 50}, []byte{0xf9, 0xea, 0x0b, 0xda}, 0x01, 0x4000, 8192, 0},
		{"PT100 on 200 Ohm, 0 °C: the converter ends first", RTD{100, 200, 4, 50}, []byte{0xff, 0xfe, 0x17, 0xb4}, 0x01, 0x8000, 16384, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bus := &spitest.Playback{Playback: conntest.Playback{DontPanic: true}}
			write := func(w ...byte) { bus.Ops = append(bus.Ops, conntest.IO{W: w}) }
			read := func(config byte, code uint16) {
				r := append([]byte{0xff, config, byte(code >> 8), byte(code)}, tt.thr...)
				bus.Ops = append(bus.Ops, conntest.IO{W: make([]byte, 9), R: append(r, 0)})
			}
			parked := tt.idle ^ 0x81
			write(append([]byte{0x83}, tt.thr...)...) // New: thresholds
			write(0x80, tt.idle|0x80)                 // current on
			read(tt.idle|0x80, 0)                     // read back
			write(0x80, tt.idle|0x02)                 // current off, faults cleared
			write(0x80, parked|0x02)                  // Read: current on, other notch, faults cleared
			read(parked, 0)
			write(0x80, parked|0x08) // cycle, FORCE- closed, then open
			read(parked|0x08, 0)
			write(0x80, parked|0x0c) // FORCE- open, then closed
			read(parked|0x0c, 0)     // under way
			read(parked, 0)          // done
			write(0x80, tt.idle|0xa0)
			read(tt.idle|0xa0, 0)       // runs
			read(tt.idle|0xa0, 0)       // runs still
			read(tt.idle|0x80, tt.code) // done
			read(tt.idle|0x80, tt.code) // once more
			write(0x80, tt.idle)        // current off
			conn, err := bus.Connect(MAX31865Speed, MAX31865Mode, 8)
			if err != nil {
				t.Fatal(err)
			}
			d, err := NewMAX31865(conn, tt.rtd, newVirtual())
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Read(t.Context())
			if err != nil || got.Code != tt.wantCode || math.Abs(got.Kelvin-273.15-tt.wantTempC) > 0.02 ||
				math.Abs(got.Ohms-float64(tt.wantCode)/32768*tt.rtd.Reference) > 1e-9 {
				t.Errorf("got %+v, %v, want code %d and %g °C", got, err, tt.wantCode, tt.wantTempC)
			}
			if err := bus.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMAX31865Measures(t *testing.T) {
	for _, rtd := range []RTD{pt100, {100, 400, 2, 60}, {1000, 4300, 3, 50}, {1000, 4000, 4, 60}} {
		for _, slow := range []float64{0.9, 1, 1.05, 1.25} {
			r := newRTDRig(rtd)
			r.model.Slow = slow
			d := r.chip(t)
			for _, celsius := range []float64{-199, -100, -40, -0.1, 0, 21.5, 100, 420, 800} {
				r.set(celsius)
				got, err := d.Measure(t.Context())
				if err != nil || !r.nearK(got.Value, celsius) {
					t.Errorf("%+v ×%g: got %v, %v, want %g °C", rtd, slow, got, err, celsius)
				}
				if _, biased, unsettled := r.model.Status(); biased || unsettled != 0 {
					t.Errorf("%+v: current still on: %t; conversions before it settled: %d", rtd, biased, unsettled)
				}
			}
		}
	}
}

// TestFC65OpenShortAmbiguous: a broken element, a shorted one, and shorts whose
// code "appears to be valid" are named and give no number, also after a good one;
// nonsense in the config is an error.
func TestFC65OpenShortAmbiguous(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ohms    float64
		cycle   byte
		voltage bool
		want    Reason
		text    string
	}{
		{"10 Ohm", 10, 0, false, ReasonShort, "element shorted"},
		{"0 Ohm", 0, 0, false, ReasonShort, "element shorted"},
		{"open", math.Inf(1), 0, false, ReasonOpen, "element or wire open"},
		{"400 Ohm: the converter has room for it", 400, 0, false, ReasonOpen, "element or wire open"},
		{"FORCE+ off", 1e6, 0x20, false, ReasonOpen, "FORCE wire open"},
		{"RTDIN- to ground, appears valid", 108, 0x18, false, ReasonShort, "RTDIN- shorted to ground"},
		{"FORCE- to ground, appears valid", 108, 0x10, false, ReasonShort, "shorted to ground"},
		{"RTDIN+ to ground", 108, 0x08, false, ReasonShort, "RTDIN-"},
		{"a wire at 5 V", 108, 0, true, ReasonWiring, "above the supply"},
		{"everything at once", 108, 0x38, true, ReasonWiring, "above the supply"},
		{"open and shorted", 108, 0x30, false, ReasonWiring, "FORCE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRTDRig(pt100)
			d := r.chip(t)
			if _, err := d.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.model.Set(tt.ohms)
			r.model.Wire(tt.cycle, tt.voltage)
			got, err := d.Measure(t.Context())
			wantFault(t, got, err, tt.want)
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q in it", err, tt.text)
			}
			if status, biased, _ := r.model.Status(); biased || status != 0 && !tt.voltage {
				t.Errorf("after the fault: current on: %t, status %#02x, want off and cleared", biased, status)
			}
			r.model.Wire(0, false)
			r.set(20)
			if got, err := d.Measure(t.Context()); err != nil || !r.nearK(got.Value, 20) {
				t.Errorf("mended: got %v, %v, want 20 °C", got, err)
			}
		})
	}
	for _, rtd := range []RTD{
		{}, {Nominal: 500, Reference: 4300, Wires: 4, Mains: 50}, {Nominal: 1000, Reference: 430, Wires: 4, Mains: 50},
		{Nominal: 100, Reference: 4300, Wires: 4, Mains: 50}, {Nominal: 100, Reference: math.NaN(), Wires: 4, Mains: 50},
		{Nominal: 100, Reference: 430, Wires: 1, Mains: 50}, {Nominal: 100, Reference: 430, Wires: 5, Mains: 50},
		{Nominal: 100, Reference: 430, Wires: 4, Mains: 55},
	} {
		if _, err := NewMAX31865(newRTDRig(pt100).bus, rtd, nil); err == nil {
			t.Errorf("%+v is taken", rtd)
		}
	}
}

// TestMAX31865OwnLimits: the limits hold also where the chip does not see to them.
func TestMAX31865OwnLimits(t *testing.T) {
	d := newRTDRig(pt100).chip(t)
	for code, want := range map[int]Reason{0: ReasonShort, d.low: ReasonShort, d.high: ReasonOpen, 32767: ReasonOpen} {
		got, err := d.reading(code)
		if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != want {
			t.Errorf("code %d: got %v, %v, want reason %s", code, got, err, want)
		}
	}
	for _, code := range []int{d.low + 1, d.high - 1} {
		if got, err := d.reading(code); err != nil {
			t.Errorf("code %d: got %v, %v, want a temperature", code, got, err)
		}
	}
}

func TestMAX31865Faults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		injure func(*rtdRig)
		want   Reason
	}{
		{"no chip, MISO high", func(r *rtdRig) { r.bus.Plug(nil); r.bus.Idle = 0xff }, ReasonBus},
		{"no chip, MISO low", func(r *rtdRig) { r.bus.Plug(nil) }, ReasonBus},
		{"MISO half way", func(r *rtdRig) { r.bus.Plug(nil); r.bus.Idle = 0x81 }, ReasonReadback},
		{"nothing moved", func(r *rtdRig) { r.bus.Before = func(int, []byte) error { return chip.ErrNothingMoved } }, ReasonBus},
		{"i/o error", func(r *rtdRig) { r.bus.Before = func(int, []byte) error { return syscall.EIO } }, ReasonBus},
		{"spidev gone", func(r *rtdRig) { r.bus.Before = func(int, []byte) error { return syscall.ENODEV } }, ReasonNoBus},
		{"writes are lost", func(r *rtdRig) { r.model.Deafen(true) }, ReasonReadback},
		{"never ready", func(r *rtdRig) { r.model.Freeze(true) }, ReasonTimeout},
		{"thresholds of another program", func(r *rtdRig) { r.model.Exchange([]byte{0x83, 0xff, 0xf0, 0, 0x10}) }, ReasonReadback},
		{"browned out between two reads", func(r *rtdRig) { r.model.BrownOut() }, ReasonReset},
		{"browned out in the read", func(r *rtdRig) {
			n := r.bus.Frames()
			r.bus.Before = func(i int, _ []byte) error {
				if i == n+1 {
					r.model.BrownOut()
				}
				return nil
			}
		}, ReasonReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRTDRig(pt100)
			d := r.chip(t)
			tt.injure(r)
			got, err := d.Measure(t.Context())
			wantFault(t, got, err, tt.want)
		})
	}
	t.Run("at New", func(t *testing.T) {
		for idle, want := range map[byte]Reason{0x00: ReasonBus, 0xff: ReasonBus, 0x80: ReasonReadback} {
			r := newRTDRig(pt100)
			r.bus.Plug(nil)
			r.bus.Idle = idle
			d, err := NewMAX31865(r.bus, pt100, r.clock)
			if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != want || d != nil {
				t.Errorf("MISO %#02x: got %v, want reason %s", idle, err, want)
			}
		}
	})
}

// rtdInjuries are what can happen to one frame of a read.
var rtdInjuries = map[string]func(r *rtdRig) error{
	"i/o error":     func(*rtdRig) error { return syscall.EIO },
	"nothing moved": func(*rtdRig) error { return chip.ErrNothingMoved },
	"brown-out":     func(r *rtdRig) error { r.model.BrownOut(); return nil },
	"late":          func(r *rtdRig) error { r.clock.advance(time.Second); return nil },
}

// TestMAX31865InjuredFrames injures each frame of a read in each way. The read must
// give the right value or a fault. A lost start is among them: the register holds
// another temperature.
func TestMAX31865InjuredFrames(t *testing.T) {
	for name, injure := range rtdInjuries {
		faults, n := 0, 0
		for ; ; n++ {
			r := newRTDRig(pt100)
			d := r.chip(t)
			r.set(90)
			if _, err := d.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.set(20)
			first, hit := r.bus.Frames(), false
			r.bus.Before = func(i int, _ []byte) error {
				if i != first+n {
					return nil
				}
				hit = true
				return injure(r)
			}
			got, err := d.Measure(t.Context())
			if !hit {
				break
			}
			if err != nil {
				faults++
				if _, ok := errors.AsType[*Fault](err); !ok || got != (Measured{}) {
					t.Errorf("%s at frame %d: got %v, %v, want a *Fault", name, n, got, err)
				}
			} else if !r.nearK(got.Value, 20) {
				t.Errorf("%s at frame %d: got %v, want 20 °C or a fault", name, n, got)
			}
		}
		if n < 10 || faults == 0 && name != "late" {
			t.Errorf("%s: a read of %d frames with %d faults, want at least 10 and some", name, n, faults)
		}
	}
}

// TestMAX31865NeverAWrongValue injures at random, many frames of many reads, and
// flips bits of what is read, though not twice in a row.
func TestMAX31865NeverAWrongValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRTDRig(pt100)
		r.model.Slow = rapid.Float64Range(0.9, 1.2).Draw(t, "slow")
		d := r.chip(t)
		kinds := rapid.SampledFrom([]string{"", "", "", "", "", "", "", "i/o error", "nothing moved", "brown-out", "late", "flip"})
		flip := false
		r.bus.Before = func(int, []byte) error {
			kind := kinds.Draw(t, "injury")
			flip = kind == "flip" && !flip
			if injure := rtdInjuries[kind]; injure != nil {
				return injure(r)
			}
			return nil
		}
		r.bus.Garble = func(_ int, b []byte) {
			if i := rapid.IntRange(0, 71).Draw(t, "bit"); flip && len(b) == 9 {
				b[i/8] ^= 0x80 >> (i % 8)
			}
		}
		for range 10 {
			celsius := rapid.Float64Range(-190, 600).Draw(t, "celsius")
			r.set(celsius)
			got, err := d.Measure(context.Background())
			if err == nil && !r.nearK(got.Value, celsius) {
				t.Fatalf("got %v, want %g °C or a fault", got, celsius)
			}
			if f, ok := errors.AsType[*Fault](err); ok && f.Reason == ReasonReset {
				r.bus.Before, r.bus.Garble = nil, nil
				return
			}
		}
	})
}

func TestMAX31865Context(t *testing.T) {
	r := newRTDRig(pt100)
	d := r.chip(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := r.bus.Frames()
	r.bus.Before = func(n int, _ []byte) error {
		if n == first+8 {
			cancel()
		}
		return nil
	}
	if got, err := d.Measure(ctx); !errors.Is(err, context.Canceled) || got != (Measured{}) {
		t.Errorf("got %v, %v, want %v", got, err, context.Canceled)
	}
	if _, biased, _ := r.model.Status(); biased {
		t.Error("the current is still on")
	}
	began := r.clock.Now()
	r.model.Freeze(true)
	r.bus.Before = nil
	if _, err := d.Measure(t.Context()); err == nil {
		t.Error("got a reading of a frozen chip")
	}
	if took, want := r.clock.Now().Sub(began), 120*time.Millisecond; took > want {
		t.Errorf("gave up after %s, want at most %s", took, want)
	}
}

// FuzzMAX31865Registers: whatever registers come back, a read gives a fault or a
// temperature that the code means; and a number only with our config, our
// thresholds, and no fault.
func FuzzMAX31865Registers(f *testing.F) {
	d := newRTDRig(pt100).chip(f)
	good := []byte{0x81, 0x3b, 0x88, byte(d.high >> 7), byte(d.high << 1), byte(d.low >> 7), byte(d.low << 1), 0}
	f.Add(good)
	f.Add(make([]byte, 8))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 0xff, 0xff, 0, 0, 0})
	f.Fuzz(func(t *testing.T, regs []byte) {
		if len(regs) != max31865Registers {
			return
		}
		if d.judge(regs, 0x81, max31865Start) != nil || d.faults(regs) != nil {
			return
		}
		want := slices.Clone(good)
		want[0] |= regs[0] & max31865Start
		want[1], want[2], want[4], want[6] = regs[1], regs[2]&^1, want[4]|regs[4]&1, want[6]|regs[6]&1
		if !slices.Equal(regs, want) {
			t.Errorf("% x is taken", regs)
		}
		got, err := d.reading(int(uint16(regs[1])<<8|uint16(regs[2])) >> 1)
		if err == nil && math.Abs(cvdRatio(got.Kelvin-273.15)*100-got.Ohms) > 1e-6 {
			t.Errorf("got %+v, whose resistance is %g Ohm", got, cvdRatio(got.Kelvin-273.15)*100)
		}
	})
}

// TestCVDAgainstTheDatasheet: MAX31865, table 9: a PT100 on 400 Ohm.
func TestCVDAgainstTheDatasheet(t *testing.T) {
	for celsius, want := range map[float64]struct {
		ohms float64
		code int
	}{
		-200: {18.52, 1517}, -175: {29.22, 2394}, -150: {39.72, 3254}, -100: {60.26, 4936}, -50: {80.31, 6579}, -10: {96.09, 7871},
		0: {100, 8192}, 10: {103.90, 8512}, 50: {119.40, 9781}, 100: {138.51, 11346}, 200: {175.86, 14406}, 300: {212.05, 17371}, 500: {280.98, 23018},
	} {
		ohms := 100 * cvdRatio(celsius)
		if math.Abs(ohms-want.ohms) > 0.006 || math.Abs(ohms/400*32768-float64(want.code)) > 1 {
			t.Errorf("%g °C: got %.3f Ohm, code %.1f, want %.2f and %d", celsius, ohms, ohms/400*32768, want.ohms, want.code)
		}
	}
}

func TestCVDInverse(t *testing.T) {
	worst, last := 0.0, -300.0
	for i := range 105_001 {
		celsius := -200 + float64(i)/100
		got, ok := cvdCelsius(cvdRatio(celsius))
		if !ok || got <= last {
			t.Fatalf("%g °C: got %g, %t after %g", celsius, got, ok, last)
		}
		worst, last = max(worst, math.Abs(got-celsius)), got
	}
	if worst > 1e-9 {
		t.Errorf("the inverse is off by up to %g K, want 1e-9 K at most", worst)
	}
	for _, ratio := range []float64{0, -1, 0.18, 3.91, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, ok := cvdCelsius(ratio); ok {
			t.Errorf("ratio %g: got %g °C, want none", ratio, got)
		}
	}
	// What the quadratic alone gives, which the comment states.
	q := cvdRatio(-200)
	if off := (-cvdA+math.Sqrt(cvdA*cvdA-4*cvdB*(1-q)))/(2*cvdB) + 200; math.Abs(math.Abs(off)-2.4) > 0.1 {
		t.Errorf("the quadratic is off by %g K at -200 °C, want 2.4", off)
	}
}

// TestMAX31865FlippedBits flips each bit of the frames in which the code is read:
// none passes as another temperature.
func TestMAX31865FlippedBits(t *testing.T) {
	for _, fromEnd := range []int{2, 3} { // of the read's frames, the last switches the current off
		for bit := range 72 {
			r := newRTDRig(pt100)
			d := r.chip(t)
			r.set(20)
			first := r.bus.Frames()
			if _, err := d.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			frames := r.bus.Frames() - first
			r.bus.Garble = func(n int, b []byte) {
				if n == first+2*frames-fromEnd {
					b[bit/8] ^= 0x80 >> (bit % 8)
				}
			}
			got, err := d.Measure(t.Context())
			// The first byte comes before the chip answers, the thresholds' last bits are
			// not used, and a start bit that seems to stand is looked at again.
			harmless := bit < 8 || bit == 47 || bit == 63 || bit == 10
			if err == nil && (!harmless || !r.nearK(got.Value, 20)) {
				t.Errorf("bit %d: got %v, want a fault", bit, got)
			}
		}
	}
}

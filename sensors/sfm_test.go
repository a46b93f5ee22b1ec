package sensors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c/i2ctest"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

// flowRig is a part's model on a bus in virtual time.
type flowRig struct {
	clock *virtual
	bus   *chip.Bus
	model *chip.SFM
	addr  uint16
}

func newFlow(model func(func() time.Time) *chip.SFM, addr uint16) *flowRig {
	r := &flowRig{clock: newVirtual(), bus: &chip.Bus{Name: "test"}, addr: addr}
	r.model = model(r.clock.Now)
	r.bus.Plug(addr, r.model)
	r.bus.After = func(int) { r.clock.advance(100 * time.Microsecond) }
	return r
}

func (r *flowRig) open(t testing.TB, o SFMOptions) *SFM {
	t.Helper()
	d, err := NewSFM(r.bus, r.addr, o, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func oxygen3019(t testing.TB) (*SFM, *flowRig) {
	t.Helper()
	r := newFlow(chip.NewSFM3019, 0x2e)
	return r.open(t, SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}), r
}

func TestSFMChecksum(t *testing.T) {
	for _, tt := range []struct{ init, want byte }{{0xff, 0x92}, {0x00, 0x13}} {
		if got := sfmCRC([]byte{0xbe, 0xef}, tt.init); got != tt.want {
			t.Errorf("from %#02x: got %#02x, want %#02x", tt.init, got, tt.want)
		}
	}
}

// TestSFMFrameVectors are the SFM3019's frames at 25 °C.
func TestSFMFrameVectors(t *testing.T) {
	for _, tt := range []struct {
		flow []byte // the rest is the same
		slm  float64
	}{
		{[]byte{0xa0, 0x00, 0x7e}, 0}, {[]byte{0xa0, 0xaa, 0x59}, 1}, {[]byte{0xa6, 0xa4, 0x1c}, 10}, {[]byte{0x9c, 0xae, 0x9b}, -5},
	} {
		frame := append(tt.flow, 0x13, 0x88, 0x01, 0x00, 0x00, 0x81)
		zero := []byte{0xa0, 0x00, 0x7e, 0x13, 0x88, 0x01, 0x00, 0x00, 0x81}
		bus := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
			{Addr: 0x2e, W: []byte{0x3f, 0xf9}}, // stop
			{Addr: 0x2e, W: []byte{0xe1, 0x02}}, // who are you
			{Addr: 0x2e, R: words(0x0402, 0x0611, 0, 0, 0, 1)},
			{Addr: 0x2e, W: []byte{0x36, 0x61, 0x36, 0x03, sfmCRC([]byte{0x36, 0x03}, 0xff)}}, // scale for oxygen
			{Addr: 0x2e, R: words(170, 0xa000, 0x0148)},
			{Addr: 0x2e, W: []byte{0x36, 0x03}}, // start
			{Addr: 0x2e, R: zero},               // of the warm-up
			{Addr: 0x2e, R: frame},
			{Addr: 0x2e, R: zero}, // it measures still
		}}
		d, err := NewSFM(bus, 0x2e, SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}, newVirtual())
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := tt.slm * 1.3312 / 1000 / 60; math.Abs(got.Mass-want) > 1e-12 || math.Abs(got.Temperature-298.15) > 1e-9 || got.Status != 0 {
			t.Errorf("%g slm: got %+v, want %g kg/s", tt.slm, got, want)
		}
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	}
}

// words is what an SF06 sends.
func words(w ...uint16) []byte {
	var b []byte
	for _, v := range w {
		b = append(b, byte(v>>8), byte(v), sfmCRC([]byte{byte(v >> 8), byte(v)}, 0xff))
	}
	return b
}

// TestSFMUnits: the same number of litres is 7 % more of norm litres; the part's own
// word must agree.
func TestSFMUnits(t *testing.T) {
	for _, tt := range []struct {
		gas  Gas
		unit FlowUnit
		word uint16
		want float64 // kg/s of 60 litres a minute
	}{
		{GasOxygen, FlowSLM, 0x0148, 1.3312e-3}, {GasOxygen, FlowNLM, 0x0048, 1.4290e-3},
		{GasAir, FlowSLM, 0x0148, 1.2045e-3}, {GasAir, FlowNLM, 0x0048, 1.2930e-3},
		{GasOxygen, FlowNLM, 0x0148, 0}, {GasOxygen, FlowSLM, 0x0048, 0}, {GasOxygen, FlowSLM, 0x0149, 0},
	} {
		r := newFlow(chip.NewSFM3019, 0x2e)
		r.model.Unit = tt.word
		r.model.Set(60, 20)
		d, err := NewSFM(r.bus, 0x2e, SFMOptions{Part: SFM3019, Gas: tt.gas, Unit: tt.unit}, r.clock)
		if tt.want == 0 {
			if reasonOf(err) != ReasonReadback || !strings.Contains(err.Error(), "flow_unit") {
				t.Errorf("%s of a part with %#04x: got %v", tt.unit, tt.word, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Measure(t.Context()); err != nil || math.Abs(got.Value-tt.want) > 1e-9 {
			t.Errorf("%s %s: got %+v, %v, want %g kg/s", tt.gas, tt.unit, got, err, tt.want)
		}
	}
}

func TestSFMOldParts(t *testing.T) {
	for _, tt := range []struct {
		part          SFMPart
		scale, offset int32
		gas           Gas
		factor        float64
		density       float64
	}{
		{SFM3000, 140, 32000, GasAir, 1, 1.2045}, {SFM3000, 140, 32000, GasOxygen, 1.02, 1.3312},
		{SFM3300, 120, 32768, GasAir, 1, 1.2045}, {SFM3300, 120, 32768, GasOxygen, 1.02, 1.3312},
	} {
		r := newFlow(chip.NewSFM3000, 0x40)
		r.model.Scale, r.model.Offset, r.model.Factor = tt.scale, tt.offset, tt.factor
		r.model.Set(30, 0)
		d := r.open(t, SFMOptions{Part: tt.part, Gas: tt.gas, Unit: FlowSLM})
		got, err := d.Read(t.Context())
		if want := 30 * tt.density / 60000; err != nil || math.Abs(got.Mass-want) > 1e-3*want || got.Temperature != 0 {
			t.Errorf("%s %s: got %+v, %v, want %g kg/s", tt.part, tt.gas, got, err, want)
		}
		r.model.Spoil(func(b []byte) { clear(b) }) // all zeros have a right check sum
		if got, err := d.Read(t.Context()); reasonOf(err) != ReasonBus || got != (FlowReading{}) {
			t.Errorf("%s, all zeros: got %+v, %v", tt.part, got, err)
		}
		other := SFM3300
		if tt.part == SFM3300 {
			other = SFM3000
		}
		r.model.Spoil(nil)
		if _, err := NewSFM(r.bus, 0x40, SFMOptions{Part: other, Gas: tt.gas, Unit: FlowSLM}, r.clock); reasonOf(err) != ReasonReadback {
			t.Errorf("%s taken for %s: got %v", tt.part, other, err)
		}
	}
}

// TestSFMOldUnit: an old part has no word for its unit that would contradict a wrong
// one, of which the mass would be 7 % off.
func TestSFMOldUnit(t *testing.T) {
	for _, part := range []SFMPart{SFM3000, SFM3300} {
		r := newFlow(chip.NewSFM3000, 0x40)
		if part == SFM3300 {
			r.model.Scale, r.model.Offset = 120, 32768
		}
		if d, err := NewSFM(r.bus, 0x40, SFMOptions{Part: part, Gas: GasOxygen, Unit: FlowNLM}, r.clock); err == nil {
			got, err := d.Read(t.Context())
			t.Errorf("%s in nlm: got %v, %v, want it refused", part, got, err)
		}
	}
}

// TestSFMWarmUp: the results until 30 ms after the start, and the mean that holds
// them, do not count; the model's are 5 % off.
func TestSFMWarmUp(t *testing.T) {
	for _, old := range []bool{false, true} {
		r, o := newFlow(chip.NewSFM3019, 0x2e), SFMOptions{Part: SFM3019, Gas: GasAir, Unit: FlowSLM}
		if old {
			r, o.Part = newFlow(chip.NewSFM3000, 0x40), SFM3000
		}
		r.model.Set(100, 20)
		d := r.open(t, o)
		want := 100 * 1.2045 / 60000
		for range 3 {
			if got, err := d.Read(t.Context()); err != nil || math.Abs(got.Mass-want) > 1e-9 {
				t.Errorf("old %t: got %+v, %v, want %g", old, got, err, want)
			}
		}
		if n := r.model.Starts(); n != 1 {
			t.Errorf("old %t: started %d times", old, n)
		}
	}
}

// TestSFMBrownOut: a part that lost its supply for a moment acknowledges no read. It
// is started anew, says so, and the next read works.
func TestSFMBrownOut(t *testing.T) {
	for _, old := range []bool{false, true} {
		r, o := newFlow(chip.NewSFM3019, 0x2e), SFMOptions{Part: SFM3019, Gas: GasAir, Unit: FlowSLM}
		if old {
			r, o.Part = newFlow(chip.NewSFM3000, 0x40), SFM3000
		}
		r.model.Set(10, 20)
		d := r.open(t, o)
		good, err := d.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.model.BrownOut()
		if got, err := d.Read(t.Context()); reasonOf(err) != ReasonReset || got != (FlowReading{}) {
			t.Errorf("old %t, brown-out: got %+v, %v", old, got, err)
		}
		if got, err := d.Read(t.Context()); err != nil || got != good {
			t.Errorf("old %t, after it: got %+v, %v", old, got, err)
		}
		r.model.Off(true)
		for range 2 {
			if got, err := d.Read(t.Context()); reasonOf(err) != ReasonNack || got != (FlowReading{}) {
				t.Errorf("old %t, off: got %+v, %v", old, got, err)
			}
		}
		r.model.Off(false)
		if got, err := d.Read(t.Context()); err != nil || got != good {
			t.Errorf("old %t, on again: got %+v, %v", old, got, err)
		}
	}
}

// TestFC54SFMBusErrorYieldsNoOldValue: a transfer that fails, or reports success and
// moved nothing, gives a fault and not the flow of before.
func TestFC54SFMBusErrorYieldsNoOldValue(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason Reason
	}{
		{chip.Errno(syscall.EIO), ReasonBus}, {chip.Errno(syscall.ETIMEDOUT), ReasonBus}, {chip.Errno(syscall.ENODEV), ReasonNoBus},
		{chip.ErrNothingMoved, ReasonBus},
	} {
		d, r := oxygen3019(t)
		for n := 1; n <= 5; n++ {
			r.model.Set(float64(n), 20)
			r.bus.Before = nil
			if n == 3 {
				r.bus.Before = func(int, uint16, []byte, []byte) error { return tt.err }
			}
			got, err := d.Read(t.Context())
			if n == 3 {
				if reasonOf(err) != tt.reason || got != (FlowReading{}) {
					t.Errorf("%v: got %+v, %v, want %s", tt.err, got, err, tt.reason)
				}
			} else if want := float64(n) * 1.3312 / 60000; err != nil || math.Abs(got.Mass-want) > 1e-9 {
				t.Errorf("%v, read %d: got %+v, %v", tt.err, n, got, err)
			}
		}
	}
}

// TestSFMAnyFlippedBit: one wrong bit anywhere in any answer is refused, at New and
// at each read, of new and of old parts.
func TestSFMAnyFlippedBit(t *testing.T) {
	for _, old := range []bool{false, true} {
		r, o := newFlow(chip.NewSFM3019, 0x2e), SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}
		bits := []int{6 * 3 * 8, 3 * 3 * 8}
		if old {
			r, o.Part, bits = newFlow(chip.NewSFM3000, 0x40), SFM3000, []int{24, 24}
		}
		r.model.Set(42, 21)
		answer, flip := 0, 0
		spoilAnswer := func(n int) {
			answer = 0
			r.model.Spoil(func(b []byte) {
				if answer == n {
					b[flip/8] ^= 1 << (flip % 8)
				}
				answer++
			})
		}
		for n, length := range bits {
			for flip = range length {
				spoilAnswer(n)
				if _, err := NewSFM(r.bus, r.addr, o, r.clock); reasonOf(err) != ReasonCRC {
					t.Fatalf("old %t, answer %d, bit %d: got %v", old, n, flip, err)
				}
			}
		}
		r.model.Spoil(nil)
		d := r.open(t, o)
		if _, err := d.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for flip = range bits[1] {
			spoilAnswer(0)
			if got, err := d.Read(t.Context()); reasonOf(err) != ReasonCRC || got != (FlowReading{}) {
				t.Fatalf("old %t, bit %d: got %+v, %v", old, flip, got, err)
			}
		}
	}
}

func TestSFMJudgesResults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		words  []byte
		reason Reason
	}{
		{"the lower rail", words(0x8000, 0x1388, 0), ReasonSaturated},
		{"the upper rail", words(0x7fff, 0x1388, 0), ReasonSaturated},
		{"-16 slm of at least -10", words(uint16(0xa000-16*170), 0x1388, 0), ReasonSaturated},
		{"244 slm of 240: within 2 % of the range", words(uint16((0xa000+244*170)&0xffff), 0x1388, 0), ""},
		{"250 slm of 240", words(uint16((0xa000+250*170)&0xffff), 0x1388, 0), ReasonSaturated},
		{"91 °C", words(0xa000, 91*200, 0), ReasonImplausible},
		{"-41 °C", words(0xa000, uint16(0x10000-41*200), 0), ReasonImplausible},
		{"it measures air", words(0xa000, 0x1388, 0x1000), ReasonReadback},
		{"oxygen, pure", words(0xa000, 0x1388, 0x03ff), ""},
		{"stuck high", []byte{255, 255, 255, 255, 255, 255, 255, 255, 255}, ReasonBus},
		{"stuck low", make([]byte, 9), ReasonBus},
	} {
		d, r := oxygen3019(t)
		if _, err := d.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.model.Spoil(func(b []byte) { copy(b, tt.words) })
		got, err := d.Read(t.Context())
		if reasonOf(err) != tt.reason || err != nil && got != (FlowReading{}) {
			t.Errorf("%s: got %+v, %v, want %q", tt.name, got, err, tt.reason)
		}
		r.model.Spoil(nil)
		if _, err := d.Read(t.Context()); err != nil {
			t.Errorf("after %s: %v", tt.name, err)
		}
	}
}

func TestSFM4300Ranges(t *testing.T) {
	for product, high := range map[uint32]float64{0x04030301: 20, 0x04030113: 20, 0x04030615: 50, 0x04030999: 50} {
		r := newFlow(chip.NewSFM3019, 0x2a)
		r.model.Product, r.model.Scale, r.model.Offset = product, 1000, -28672
		d := r.open(t, SFMOptions{Part: SFM4300, Gas: GasOxygen, Unit: FlowSLM})
		for units, want := range map[float64]Reason{high - 0.5: "", high + 1.5: ReasonSaturated, -0.1: "", -2: ReasonSaturated} {
			r.model.Set(units, 20)
			if _, err := d.Read(t.Context()); reasonOf(err) != want {
				t.Errorf("%08x, %g slm: got %v, want %q", product, units, err, want)
			}
		}
		if !strings.Contains(d.String(), fmt.Sprintf("%08x", product)) {
			t.Errorf("it is called %s", d)
		}
	}
}

func TestSFMAnotherPart(t *testing.T) {
	for name, change := range map[string]func(*chip.SFM){
		"an SFM4300": func(m *chip.SFM) { m.Product = 0x04030301 },
		"no product": func(m *chip.SFM) { m.Product = 0 },
		"scale":      func(m *chip.SFM) { m.Scale = 171 },
		"offset":     func(m *chip.SFM) { m.Offset = -24575 },
		"scale of 0": func(m *chip.SFM) { m.Scale = 0 },
	} {
		r := newFlow(chip.NewSFM3019, 0x2e)
		change(r.model)
		if _, err := NewSFM(r.bus, 0x2e, SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}, r.clock); reasonOf(err) != ReasonReadback {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSFMGeneralCallOnlyWhenAsked(t *testing.T) {
	r := newFlow(chip.NewSFM3019, 0x2e)
	r.bus.Plug(0, r.model.GeneralCall())
	calls := 0
	r.bus.Before = func(_ int, addr uint16, w, _ []byte) error {
		if addr == 0 {
			calls++
		}
		return nil
	}
	o := SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}
	r.open(t, o)
	if calls != 0 {
		t.Errorf("%d general calls that nobody asked for", calls)
	}
	o.ResetBus = true
	d := r.open(t, o)
	if _, err := d.Read(t.Context()); calls != 1 || err != nil {
		t.Errorf("%d general calls, then %v", calls, err)
	}
}

func TestSFMOptions(t *testing.T) {
	bus := &chip.Bus{Name: "test"}
	good := SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM}
	for _, tt := range []struct {
		addr   uint16
		change func(*SFMOptions)
		want   string
	}{
		{0x2e, func(o *SFMOptions) { o.Part = "SFM9" }, "unknown part"},
		{0x2f, func(*SFMOptions) {}, "no address 0x2f"},
		{0x2e, func(o *SFMOptions) { o.Gas = "" }, "unknown gas"},
		{0x2e, func(o *SFMOptions) { o.Unit = "" }, "flow unit"},
		{0x2e, func(o *SFMOptions) { o.Unit = "sccm" }, "flow unit"},
	} {
		o := good
		tt.change(&o)
		if _, err := NewSFM(bus, tt.addr, o, newVirtual()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", o, err, tt.want)
		}
	}
	if n := bus.Transfers(); n != 0 {
		t.Errorf("%d transfers", n)
	}
	if _, err := NewSFM(bus, 0x2e, good, newVirtual()); reasonOf(err) != ReasonNack {
		t.Errorf("nobody there: got %v", err)
	}
	d, _ := oxygen3019(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestSFMAnyFlow: what the part measures is what is read, to half a count.
func TestSFMAnyFlow(t *testing.T) {
	d, r := oxygen3019(t)
	rapid.Check(t, func(t *rapid.T) {
		slm := rapid.Float64Range(-10, 240).Draw(t, "slm")
		r.model.Set(slm, rapid.Float64Range(-20, 60).Draw(t, "celsius"))
		got, err := d.Read(context.Background())
		if want := slm * 1.3312 / 60000; err != nil || math.Abs(got.Mass-want) > 0.51/170*1.3312/60000 {
			t.Fatalf("%g slm: got %+v, %v", slm, got, err)
		}
	})
}

// FuzzSFMFrame: what is taken has right check sums and is none of the two levels of
// a stuck line.
func FuzzSFMFrame(f *testing.F) {
	f.Add([]byte{0xa0, 0xaa, 0x59, 0x13, 0x88, 0x01, 0x00, 0x00, 0x81}, byte(0xff))
	f.Add([]byte{0xbe, 0xef, 0x13}, byte(0))
	f.Add(make([]byte, 3), byte(0))
	f.Fuzz(func(t *testing.T, in []byte, init byte) {
		got, err := parseSFM(in, init)
		if err != nil {
			if reasonOf(err) == "" || got != nil {
				t.Fatalf("got %v, %v", got, err)
			}
			return
		}
		var again []byte
		for _, w := range got {
			b := []byte{byte(w >> 8), byte(w)}
			again = append(again, b[0], b[1], sfmCRC(b, init))
		}
		if !bytes.Equal(again, in) || bytes.Count(in, []byte{0}) == len(in) || bytes.Count(in, []byte{0xff}) == len(in) {
			t.Fatalf("% x is taken as %v", in, got)
		}
	})
}

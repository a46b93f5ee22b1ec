package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"

	"periph.io/x/conn/v3/conntest"
	"periph.io/x/conn/v3/spi"
	"periph.io/x/conn/v3/spi/spitest"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

// mcpRig is a model of one of the two parts behind a chip select.
type mcpRig struct {
	bus   *chip.SPI
	model *chip.MCP3x08
}

func newMCPRig(bits int) *mcpRig {
	r := &mcpRig{bus: &chip.SPI{Name: "test"}, model: chip.NewMCP3x08(bits, 3.3)}
	for i := range 8 {
		r.model.Set(i, 0.4*float64(i))
	}
	r.bus.Plug(r.model)
	return r
}

func newMCP(conn spi.Conn, bits int, vref float64) (*MCP3x08, error) {
	if bits == 10 {
		return NewMCP3008(conn, vref)
	}
	return NewMCP3208(conn, vref)
}

func (r *mcpRig) input(t rapid.TB, input int) *MCP3x08Input {
	t.Helper()
	d, err := newMCP(r.bus, r.model.Bits, 3.3)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Input(input)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantFault demands a *Fault of that reason, and no number.
func wantFault(t rapid.TB, got Measured, err error, want Reason) {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Reason != want || got != (Measured{}) {
		t.Errorf("got %v, %v, want nothing and reason %s", got, err, want)
	}
}

func TestMCP3x08ByteVectors(t *testing.T) {
	hello := []byte{0x06, 0, 0, 0, 0}
	alive := []byte{0xff, 0xe0, 0x01, 0x00, 0x00} // the bits before the null bit are nobody's
	for _, tt := range []struct {
		name         string
		bits         int
		plus, minus  int // minus < 0: single
		w, r, greets []byte
		want         Measured
	}{
		{"3208 CH0", 12, 0, -1, []byte{0x06, 0x00, 0, 0, 0}, []byte{0x00, 0x08, 0x00, 0x00, 0x20}, nil, Measured{Raw: 2048, Value: 1.65}},
		{"3208 CH3", 12, 3, -1, []byte{0x06, 0xc0, 0, 0, 0}, []byte{0xff, 0xe0, 0x01, 0x00, 0x00}, nil, Measured{Raw: 1, Value: 3.3 / 4096}},
		{"3208 CH7", 12, 7, -1, []byte{0x07, 0xc0, 0, 0, 0}, []byte{0xff, 0xef, 0xfe, 0xff, 0xe0}, nil, Measured{Raw: 4094, Value: 4094 * 3.3 / 4096}},
		{"3208 CH5", 12, 5, -1, []byte{0x07, 0x40, 0, 0, 0}, []byte{0x00, 0x0a, 0xbc, 0x7a, 0xa0}, nil, Measured{Raw: 0xabc, Value: 0xabc * 3.3 / 4096}},
		{"3208 CH2-CH3", 12, 2, 3, []byte{0x04, 0x80, 0, 0, 0}, []byte{0x00, 0x08, 0x00, 0x00, 0x20}, nil, Measured{Raw: 2048, Value: 1.65}},
		{"3208 CH7-CH6", 12, 7, 6, []byte{0x05, 0xc0, 0, 0, 0}, []byte{0x00, 0x08, 0x00, 0x00, 0x20}, nil, Measured{Raw: 2048, Value: 1.65}},
		{"3008 CH1", 10, 1, -1, []byte{0x06, 0x40, 0, 0, 0}, []byte{0x00, 0x08, 0x00, 0x02, 0x00}, []byte{0, 0, 0x04, 0, 0}, Measured{Raw: 512, Value: 1.65}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.greets == nil {
				tt.greets = alive
			}
			bus := &spitest.Playback{Playback: conntest.Playback{DontPanic: true, Ops: []conntest.IO{{W: hello, R: tt.greets}, {W: tt.w, R: tt.r}}}}
			conn, err := bus.Connect(MCP3x08Speed, MCP3x08Mode, 8)
			if err != nil {
				t.Fatal(err)
			}
			d, err := newMCP(conn, tt.bits, 3.3)
			if err != nil {
				t.Fatal(err)
			}
			c, err := d.Input(tt.plus)
			if tt.minus >= 0 {
				c, err = d.Differential(tt.plus, tt.minus)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Measure(t.Context())
			if err != nil || got.Raw != tt.want.Raw || math.Abs(got.Value-tt.want.Value) > 1e-12 {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
			if err := bus.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMCP3x08ReadsEveryInput(t *testing.T) {
	for _, bits := range []int{10, 12} {
		r := newMCPRig(bits)
		for i := range 8 {
			got, err := r.input(t, i).Measure(t.Context())
			if err != nil || math.Abs(got.Value-0.4*float64(i)) > 3.3/float64(int(1)<<bits)/2+1e-9 {
				t.Errorf("%d bits, input %d: got %v, %v, want %g", bits, i, got, err, 0.4*float64(i))
			}
		}
		d, err := newMCP(r.bus, bits, 3.3)
		if err != nil {
			t.Fatal(err)
		}
		up, _ := d.Differential(5, 4)
		if got, err := up.Measure(t.Context()); err != nil || math.Abs(got.Value-0.4) > 0.002 {
			t.Errorf("%d bits, 5-4: got %v, %v, want 0.4", bits, got, err)
		}
		down, _ := d.Differential(4, 5)
		got, err := down.Measure(t.Context())
		wantFault(t, got, err, ReasonSaturated)
	}
}

// TestMCP3x08ZeroOrDead: 0 V of an input counts while another one is above, and
// not from a line that is dead.
func TestMCP3x08ZeroOrDead(t *testing.T) {
	r := newMCPRig(12)
	c := r.input(t, 0)
	if got, err := c.Measure(t.Context()); err != nil || got != (Measured{}) {
		t.Errorf("0 V: got %v, %v, want 0", got, err)
	}
	for i := range 8 {
		r.model.Set(i, 0)
	}
	r.model.Set(6, 0.01)
	if got, err := c.Measure(t.Context()); err != nil || got != (Measured{}) {
		t.Errorf("0 V, only input 6 above: got %v, %v, want 0", got, err)
	}
	r.model.Set(6, 0)
	got, err := c.Measure(t.Context())
	wantFault(t, got, err, ReasonBus)
	if _, err := NewMCP3208(r.bus, 3.3); err == nil {
		t.Error("a chip that gives nothing but zeros is taken for one")
	}
}

func TestMCP3x08Faults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		injure func(*mcpRig)
		want   Reason
	}{
		{"MISO stuck high", func(r *mcpRig) { r.model.Kill(0xff) }, ReasonBus},
		{"MISO stuck low", func(r *mcpRig) { r.model.Kill(0x00) }, ReasonBus},
		{"nothing moved", func(r *mcpRig) {
			r.bus.Before = func(int, []byte) error { return chip.ErrNothingMoved }
		}, ReasonBus},
		{"i/o error", func(r *mcpRig) { r.bus.Before = func(int, []byte) error { return syscall.EIO } }, ReasonBus},
		{"spidev gone", func(r *mcpRig) { r.bus.Before = func(int, []byte) error { return syscall.ENODEV } }, ReasonNoBus},
		{"at the rail", func(r *mcpRig) { r.model.Set(5, 3.4) }, ReasonSaturated},
		{"the other part", func(r *mcpRig) { r.model.Bits = 22 - r.model.Bits }, ReasonImplausible},
	} {
		for _, bits := range []int{10, 12} {
			t.Run(fmt.Sprintf("%s %d", tt.name, bits), func(t *testing.T) {
				r := newMCPRig(bits)
				c := r.input(t, 5)
				tt.injure(r)
				got, err := c.Measure(t.Context())
				wantFault(t, got, err, tt.want)
			})
		}
	}
}

func TestMCP3x08Context(t *testing.T) {
	r := newMCPRig(12)
	c := r.input(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := r.bus.Frames()
	if _, err := c.Measure(ctx); !errors.Is(err, context.Canceled) || r.bus.Frames() != n {
		t.Errorf("got %v and %d frames, want %v and none", err, r.bus.Frames()-n, context.Canceled)
	}
}

func TestMCP3x08RefusesWhatIsNotThere(t *testing.T) {
	r := newMCPRig(12)
	for _, vref := range []float64{0, -1, 6, math.NaN(), math.Inf(1)} {
		if _, err := NewMCP3208(r.bus, vref); err == nil {
			t.Errorf("a reference of %g V is taken", vref)
		}
	}
	d, err := NewMCP3208(r.bus, 3.3)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 8} {
		if _, err := d.Input(i); err == nil {
			t.Errorf("input %d is taken", i)
		}
	}
	for _, p := range [][2]int{{0, 2}, {1, 2}, {-1, -2}, {8, 9}, {0, 0}} {
		if _, err := d.Differential(p[0], p[1]); err == nil {
			t.Errorf("pair %v is taken", p)
		}
	}
}

// TestMCP3x08FlippedBits flips each bit of every frame: only those that are
// nobody's, before the null bit, and the lowest of the code, which is sent once,
// may pass.
func TestMCP3x08FlippedBits(t *testing.T) {
	for _, bits := range []int{10, 12} {
		model := chip.NewMCP3x08(bits, 1)
		for code := range 1 << bits {
			model.Set(0, float64(code)/float64(int(1)<<bits))
			r := model.Exchange(mcpRequest(true, 0))
			if got, err := parseMCP(r, bits); err != nil || got != code {
				t.Fatalf("code %d: got %d, %v", code, got, err)
			}
			for i := range 8 * mcpFrame {
				flipped := slices.Clone(r)
				flipped[i/8] ^= 0x80 >> (i % 8)
				got, err := parseMCP(flipped, bits)
				switch {
				case i < mcpNull && (err != nil || got != code):
					t.Fatalf("code %d, bit %d: got %d, %v, want it ignored", code, i, got, err)
				case i == mcpNull+bits && (err != nil || got != code^1):
					t.Fatalf("code %d, bit %d: got %d, %v, want %d", code, i, got, err, code^1)
				case i >= mcpNull && i != mcpNull+bits && err == nil:
					t.Fatalf("code %d, bit %d: got %d, want a fault", code, i, got)
				}
			}
		}
	}
}

// TestFC55MCP3x08CutFrames: a line that reads ones, or zeros, from some bit on.
// The value must be right or a fault.
func TestFC55MCP3x08CutFrames(t *testing.T) {
	for _, bits := range []int{10, 12} {
		for _, level := range []byte{0x00, 0xff} {
			r := newMCPRig(bits)
			c := r.input(t, 5)
			good, err := c.Measure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			accepted := 0
			for from := range 8 * mcpFrame {
				r.bus.Garble = func(_ int, b []byte) {
					for i := from; i < 8*mcpFrame; i++ {
						mask := byte(0x80) >> (i % 8)
						b[i/8] = b[i/8]&^mask | level&mask
					}
				}
				got, err := c.Measure(t.Context())
				if err == nil && got != good {
					t.Errorf("%d bits, all %#02x from bit %d: got %v, want %v or a fault", bits, level, from, got, good)
				}
				if err == nil {
					accepted++
				}
			}
			if level == 0xff && accepted != 0 {
				t.Errorf("%d bits: %d frames with ones at the end pass", bits, accepted)
			}
		}
	}
}

// FuzzMCPFrame: whatever is taken is what the chip would send for that code.
func FuzzMCPFrame(f *testing.F) {
	f.Add([]byte{0x00, 0x0a, 0xbc, 0x7a, 0xa0}, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff}, false)
	f.Add(make([]byte, 5), false)
	f.Fuzz(func(t *testing.T, r []byte, twelve bool) {
		if len(r) != mcpFrame {
			return
		}
		bits := 10
		if twelve {
			bits = 12
		}
		code, err := parseMCP(r, bits)
		if err != nil {
			return
		}
		model := chip.NewMCP3x08(bits, 1)
		model.Set(0, float64(code)/float64(int(1)<<bits))
		want := model.Exchange(mcpRequest(true, 0))
		want[0], want[1] = r[0], want[1]|r[1]&0xe0
		if !slices.Equal(r, want) {
			t.Errorf("% x is taken for %d, which is % x", r, code, want)
		}
	})
}

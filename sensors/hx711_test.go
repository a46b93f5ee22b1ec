package sensors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/gpio"
	"pgregory.net/rapid"

	"oxyd/sensors/internal/chip"
)

// cellRig is the chip's model on two lines in virtual time, where every use of a
// line takes a while.
type cellRig struct {
	clock *virtual
	model *chip.HX711
	cost  time.Duration
	n     int // uses of a line
	// before, if set, sees each use of a line; an error is the line's.
	before func(n int) error

	falls   int
	falling func(n int) // the n-th fall of PD_SCK is to come
	looking func(n int) // DOUT is to be read, after so many falls
}

func newCell(period time.Duration) *cellRig {
	r := &cellRig{clock: newVirtual(), cost: 2 * time.Microsecond}
	r.model = chip.NewHX711(r.clock.Now, period)
	return r
}

func (r *cellRig) use() error {
	r.clock.advance(r.cost)
	r.n++
	if r.before != nil {
		return r.before(r.n - 1)
	}
	return nil
}

func (r *cellRig) Out(l gpio.Level) error {
	if err := r.use(); err != nil {
		return err
	}
	if l == gpio.Low && r.falling != nil {
		r.falling(r.falls)
	}
	if l == gpio.Low {
		r.falls++
	}
	return r.model.Out(l)
}

func (r *cellRig) Level() (gpio.Level, error) {
	if err := r.use(); err != nil {
		return gpio.Low, err
	}
	if r.looking != nil {
		r.looking(r.falls)
	}
	return r.model.Level()
}

func (r *cellRig) open(t testing.TB, o HX711Options) *HX711 {
	t.Helper()
	d, err := NewHX711(r, r, o, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const tenth = time.Second / 10

// words makes the model give the words in turn, from the next conversion on.
func (r *cellRig) words(words ...int32) {
	i := 0
	r.model.Word = func(int, int) int32 {
		i++
		return words[(i-1)%len(words)]
	}
}

func TestHX711ReadsEachInput(t *testing.T) {
	for _, tt := range []struct {
		input  HX711Input
		clocks int
		rate   int
	}{{HX711InputA128, 25, 10}, {HX711InputB32, 26, 80}, {HX711InputA64, 27, 10}} {
		r := newCell(time.Second / time.Duration(tt.rate))
		codes := map[int]int32{25: 171_000, 26: -4_000_001, 27: 0x555555}
		r.model.Word = func(clocks, n int) int32 { return codes[clocks] + int32(n%3) - 1 }
		d := r.open(t, HX711Options{Input: tt.input, Rate: tt.rate})
		began := r.clock.Now()
		got, err := d.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Code != codes[tt.clocks] || got.Words != 5 || got.Refused != 0 {
			t.Errorf("%s: got %+v, want %d", tt.input, got, codes[tt.clocks])
		}
		if took, want := r.clock.Now().Sub(began), 7*r.model.Period; took > want {
			t.Errorf("%s took %s, want at most %s", tt.input, took, want)
		}
		m, err := d.Measure(t.Context())
		if want := (Measured{Raw: int64(codes[tt.clocks]), Value: float64(codes[tt.clocks])}); m != want || err != nil {
			t.Errorf("%s: got %+v, %v", tt.input, m, err)
		}
		if ups, _ := r.model.PowerUps(); ups != 2 {
			t.Errorf("%s: powered up %d times, want twice: at first and at New", tt.input, ups)
		}
	}
}

// TestHX711EveryCode: bits, order and sign.
func TestHX711EveryCode(t *testing.T) {
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA128})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int32Range(-0x800000, 0x7fffff).Draw(t, "code")
		r.words(want)
		got, err := d.Read(context.Background())
		switch bad := want == 0 || want == -0x800000 || want&0xfff == 0xfff; {
		case bad && err == nil:
			t.Fatalf("%#x is taken", want)
		case !bad && (err != nil || got.Code != want):
			t.Fatalf("got %+v, %v, want %d", got, err, want)
		}
	})
}

// TestFC55GlitchWordsAreRefused: of the seven words four are what a fault makes.
func TestFC55GlitchWordsAreRefused(t *testing.T) {
	words := []int32{171000, 171020, 8388607, 4194303, 2097151, 0, 171010}
	var refused []Reason
	for _, w := range words {
		if _, err := judgeHX711(w, gpio.High); err != nil {
			refused = append(refused, err.(*hx711Refusal).Reason)
		}
	}
	if want := []Reason{ReasonSaturated, ReasonImplausible, ReasonImplausible, ReasonImplausible}; !slices.Equal(refused, want) {
		t.Errorf("refused for %v, want %v", refused, want)
	}
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA128})
	r.words(words...)
	for range 10 {
		got, err := d.Read(t.Context())
		if err != nil || got.Code < 171000 || got.Code > 171020 || got.Refused < 2 || got.Why == "" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

// TestFC56SaturationIsAFault: a bridge that is off or beyond its range is never a
// full tank, nor an empty one.
func TestFC56SaturationIsAFault(t *testing.T) {
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA128})
	for _, code := range []int32{-8388608, 8388607} {
		r.words(code)
		for range 10 {
			if got, err := d.Read(t.Context()); reasonOf(err) != ReasonSaturated || got != (HX711Reading{}) {
				t.Fatalf("%d: got %+v, %v", code, got, err)
			}
		}
	}
	r.words(171000)
	if got, err := d.Read(t.Context()); err != nil || got.Code != 171000 {
		t.Errorf("healed: got %+v, %v", got, err)
	}
}

// TestFC59ChipThatIsNotReady: DOUT stuck high is a timeout after five periods, stuck
// low is no chip; neither is -1, nor 0.
func TestFC59ChipThatIsNotReady(t *testing.T) {
	for _, tt := range []struct {
		level  gpio.Level
		reason Reason
		within time.Duration // from New or Read to the fault
	}{{gpio.High, ReasonTimeout, 10 * tenth}, {gpio.Low, ReasonBus, 12 * tenth}} {
		r := newCell(tenth)
		r.model.Stick(&tt.level)
		if _, err := NewHX711(r, r, HX711Options{Input: HX711InputA128}, r.clock); reasonOf(err) != tt.reason {
			t.Errorf("New, DOUT %s: got %v", tt.level, err)
		}
		r.model.Stick(nil)
		d := r.open(t, HX711Options{Input: HX711InputA128})
		r.model.Stick(&tt.level)
		began := r.clock.Now()
		if got, err := d.Read(t.Context()); reasonOf(err) != tt.reason || got != (HX711Reading{}) {
			t.Errorf("DOUT %s: got %+v, %v", tt.level, got, err)
		}
		if took := r.clock.Now().Sub(began); took > tt.within {
			t.Errorf("DOUT %s: the fault took %s", tt.level, took)
		}
		r.model.Stick(nil)
		if got, err := d.Read(t.Context()); err != nil || got.Code != 171000 {
			t.Errorf("healed: got %+v, %v", got, err)
		}
	}
}

// TestFC53FirstConversionOfAnotherInput: after the chip fell back to A128 no word of
// that input is taken for ours.
func TestFC53FirstConversionOfAnotherInput(t *testing.T) {
	r := newCell(tenth)
	r.model.Word = func(clocks, _ int) int32 { return map[int]int32{25: 171000, 26: 56000, 27: 99000}[clocks] }
	d := r.open(t, HX711Options{Input: HX711InputB32})
	for at := 3; at < 120; at += 7 {
		first := r.n
		r.before = func(n int) error {
			if n == first+at {
				r.clock.advance(80 * time.Microsecond) // this program is not scheduled
			}
			return nil
		}
		got, err := d.Read(t.Context())
		if err != nil || got.Code != 56000 || got.Spread != 0 {
			t.Fatalf("pause at %d: got %+v, %v", at, got, err)
		}
	}
	if ups, _ := r.model.PowerUps(); ups < 5 {
		t.Errorf("the pauses hit %d clocks only", ups-2)
	}
}

// TestHX711AnyPause: wherever this program is interrupted, and for however long, no
// measurement is wrong. The model says that pauses do harm: it is switched off by
// them, and replaces words.
func TestHX711AnyPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newCell(time.Second / 80)
		r.model.Word = func(_, n int) int32 { return 0x155550 + int32(n%2)*0x2aaab } // bits differ between conversions
		d, err := NewHX711(r, r, HX711Options{Input: HX711InputA128, Rate: 80, Spread: 0x40000}, r.clock)
		if err != nil {
			t.Fatal(err)
		}
		every := rapid.IntRange(10, 300).Draw(t, "every")
		pause := time.Duration(rapid.Int64Range(0, 40_000).Draw(t, "pause_us")) * time.Microsecond
		r.before = func(n int) error {
			if n%every == 0 {
				r.clock.advance(pause)
			}
			return nil
		}
		got, err := d.Read(context.Background())
		if err != nil {
			return // a fault is no wrong number
		}
		if got.Code != 0x155550 && got.Code != 0x155550+0x2aaab {
			t.Fatalf("got %#x", got.Code)
		}
	})
}

// TestHX711SlowClock: each clock is measured, and one of 51 µs is too long although
// this chip bears it.
func TestHX711SlowClock(t *testing.T) {
	for _, tt := range []struct {
		high   time.Duration
		refuse bool
	}{{45 * time.Microsecond, false}, {51 * time.Microsecond, true}, {time.Millisecond, true}} {
		r := newCell(tenth)
		d := r.open(t, HX711Options{Input: HX711InputA128})
		r.falls = 0
		r.falling = func(n int) {
			if n == 30 { // of the second word
				r.clock.advance(tt.high - 2*r.cost) // a rise and a fall take some themselves
			}
		}
		ups, _ := r.model.PowerUps()
		got, err := d.Read(t.Context())
		if err != nil || got.Code != 171000 {
			t.Errorf("%s: got %+v, %v", tt.high, got, err)
		}
		after, _ := r.model.PowerUps()
		if restarted := after > ups; restarted != tt.refuse {
			t.Errorf("%s: restarted %t, want %t; %+v", tt.high, restarted, tt.refuse, got)
		}
	}
}

// TestHX711LateWord: a word that a pause between two clocks stretches into the next
// conversion is of two.
func TestHX711LateWord(t *testing.T) {
	r := newCell(tenth)
	r.model.Word = func(_, n int) int32 { return 171000 + 1000*int32(n%2) }
	d := r.open(t, HX711Options{Input: HX711InputA128})
	r.falls = 0
	r.looking = func(n int) {
		if n == 30 { // in the second word, while the clock is low
			r.clock.advance(99 * time.Millisecond)
		}
	}
	got, err := d.Read(t.Context())
	if err != nil || got.Refused != 1 || got.Why != ReasonTimeout {
		t.Errorf("got %+v, %v, want one refused as late", got, err)
	}
}

// TestHX711WaitingWord: a word that had waited may be replaced while it is read. The
// reads begin at every place of a conversion; one that is of two words would be the
// median, between the others.
func TestHX711WaitingWord(t *testing.T) {
	r := newCell(time.Second / 80)
	const a, b = 0x155550, 0x2aaaa8 // no bit in common: any mixture lies between
	r.model.Word = func(_, n int) int32 { return a + (b-a)*int32(n%2) }
	d := r.open(t, HX711Options{Input: HX711InputA128, Rate: 80, Spread: 2 * (b - a)})
	for i := range 200 {
		r.clock.advance(r.model.Period + time.Duration(i)*63*time.Microsecond) // 12.6 ms in all
		got, err := d.Read(t.Context())
		if err != nil || got.Code != a && got.Code != b {
			t.Fatalf("got %#x, %v", got.Code, err)
		}
	}
}

func TestHX711Spread(t *testing.T) {
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA128, Spread: 100})
	r.words(5000, 5100, 900000, -900000, 5050) // one wild word on each side
	if got, err := d.Read(t.Context()); err != nil || got.Code != 5050 || got.Spread != 100 {
		t.Errorf("got %+v, %v", got, err)
	}
	r.words(5000, 5100, 900000, 900000, 5050) // two on one side
	if _, err := d.Read(t.Context()); reasonOf(err) != ReasonImplausible || !strings.Contains(err.Error(), "differ") {
		t.Errorf("got %v", err)
	}
}

func TestHX711LineErrors(t *testing.T) {
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA64})
	for at := range 200 {
		first := r.n
		r.before = func(n int) error {
			if n == first+at {
				return syscall.ENODEV
			}
			return nil
		}
		if got, err := d.Read(t.Context()); reasonOf(err) != ReasonNoBus || got != (HX711Reading{}) {
			t.Fatalf("error at use %d: got %+v, %v", at, got, err)
		}
		r.before = nil
		if got, err := d.Read(t.Context()); err != nil || got.Code != 171000 {
			t.Fatalf("after an error at use %d: got %+v, %v", at, got, err)
		}
	}
}

func TestHX711Cancelled(t *testing.T) {
	r := newCell(tenth)
	d := r.open(t, HX711Options{Input: HX711InputA128})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	if _, err := d.Read(late); reasonOf(err) != ReasonTimeout {
		t.Errorf("got %v", err)
	}
}

func TestHX711Options(t *testing.T) {
	for _, o := range []HX711Options{
		{}, {Input: "A32"}, {Input: HX711InputA128, Rate: 11}, {Input: HX711InputA128, Words: 4}, {Input: HX711InputA128, Words: 6},
		{Input: HX711InputA128, Words: 33}, {Input: HX711InputA128, Spread: -1},
	} {
		if _, err := NewHX711(nil, nil, o, nil); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestPeriphIn: a pin of periph stands for DOUT.
func TestPeriphIn(t *testing.T) {
	pin := highPin{gpio.INVALID}
	if got, err := (PeriphIn{pin}).Level(); got != gpio.High || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	var _ LineOut = pin
	var _ LineOut = (*Line)(nil)
	var _ LineIn = (*Line)(nil)
}

type highPin struct{ gpio.PinIO }

func (highPin) Read() gpio.Level { return gpio.High }

package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/gpio"
)

// LineOut is a line that is driven: a *Line, or a pin of periph.
type LineOut interface {
	Out(gpio.Level) error
}

// LineIn is a line that is read: a *Line, or a PinIn of periph in PeriphIn.
type LineIn interface {
	Level() (gpio.Level, error)
}

// PeriphIn makes a LineIn of a pin of periph. Such a pin has no way to tell of an
// error and gives a low level then.
type PeriphIn struct{ Pin gpio.PinIn }

// Level implements LineIn.
func (p PeriphIn) Level() (gpio.Level, error) { return p.Pin.Read(), nil }

// HX711Input is one of the chip's inputs with the gain that it has.
type HX711Input string

// The inputs (Avia HX711, table 3). The full scale is ±20, ±40 and ±80 mV at 5 V.
const (
	HX711InputA128 HX711Input = "A128"
	HX711InputA64  HX711Input = "A64"
	HX711InputB32  HX711Input = "B32"
)

// pulses is how many clocks a word takes that selects this input for the next one;
// 0 for what is none.
func (i HX711Input) pulses() int {
	switch i {
	case HX711InputA128:
		return 25
	case HX711InputB32:
		return 26
	case HX711InputA64:
		return 27
	}
	return 0
}

// What the chip takes when the options say nothing, its bounds and its times
// (Avia HX711, "Serial Interface", "Reset and Power-Down Sequence", "Output
// Settling Time").
const (
	DefaultHX711Rate   = 10     // conversions a second, pin RATE low
	DefaultHX711Words  = 5      // words a measurement
	DefaultHX711Spread = 20_000 // counts; 0.24 % of the full scale
	hx711WordsMax      = 31

	hx711Bits       = 24
	hx711HighMax    = 50 * time.Microsecond  // of PD_SCK; from 60 µs on the chip powers down
	hx711PowerDown  = 100 * time.Microsecond // of PD_SCK high, to be sure of it
	hx711Settling   = 4                      // periods after power-up or a change of input: 400 or 50 ms
	hx711ReadyMax   = 5                      // periods until a conversion must have ended
	hx711PollSteps  = 20                     // looks at DOUT a period
	hx711RefusedMax = 2                      // times as many words may be refused as are wanted
	hx711GlitchOnes = 12                     // low bits all one: no measurement

	hx711Most  = 0x7fffff
	hx711Least = -0x800000
)

// HX711Options are how a load cell is read. The zero value of each but Input means
// its default.
type HX711Options struct {
	Input  HX711Input
	Rate   int   // 10 or 80 conversions a second, as the chip's RATE pin is wired
	Words  int   // good words a measurement is the median of: odd, 5 to 31
	Spread int32 // counts that its words may differ by, without the least and the most
}

// check completes the options and says what the chip cannot do.
func (o *HX711Options) check() error {
	if o.Rate == 0 {
		o.Rate = DefaultHX711Rate
	}
	if o.Words == 0 {
		o.Words = DefaultHX711Words
	}
	if o.Spread == 0 {
		o.Spread = DefaultHX711Spread
	}
	var errs []error
	if o.Input.pulses() == 0 {
		errs = append(errs, fmt.Errorf("hx711 has no input %q: it has %s, %s and %s", o.Input, HX711InputA128, HX711InputA64, HX711InputB32))
	}
	if o.Rate != 10 && o.Rate != 80 {
		errs = append(errs, fmt.Errorf("hx711 has no rate of %d a second: it has 10 and 80", o.Rate))
	}
	if o.Words < DefaultHX711Words || o.Words > hx711WordsMax || o.Words%2 == 0 {
		errs = append(errs, fmt.Errorf("hx711 measures by an odd number of words from %d to %d, not %d", DefaultHX711Words, hx711WordsMax, o.Words))
	}
	if o.Spread < 0 {
		errs = append(errs, fmt.Errorf("spread %d counts: must be more than 0", o.Spread))
	}
	return errors.Join(errs...)
}

// HX711 is a 24-bit converter for load cells, whose two lines a program moves bit
// by bit. Neither an address nor a check sum guards a word, and a clock that stays
// high for 60 µs, as it does under a program that is not scheduled just then,
// switches the chip off in the middle of one. So a word counts only if every clock
// was short, the data line behaved as the chip's does, the word was done before
// the next conversion could replace it, and its value is none that a fault makes;
// and a measurement is the median of several such words that agree. One goroutine
// owns the two lines.
//
// Where the board's kernel has the driver (CONFIG_HX711), prefer it.
//
// Datasheet: Avia Semiconductor HX711.
type HX711 struct {
	sck     LineOut
	dout    LineIn
	options HX711Options
	clock   Clock
	period  time.Duration
	settled bool // the chip converts our input, and has for long enough
}

// HX711Reading is one measurement.
type HX711Reading struct {
	Code    int32  // the median, -0x7fffff to 0x7ffffe
	Spread  int32  // of the words, without the least and the most
	Words   int    // that it is made of
	Refused int    // that were read and did not count
	Why     Reason // why the last of them did not
}

// NewHX711 powers the chip down and up and reads one word, so that a wiring fault
// shows here; this takes half a second at 10 conversions a second, a whole one for
// another input than A128. The error is then a *Fault. A nil clock is the system's.
func NewHX711(sck LineOut, dout LineIn, o HX711Options, clock Clock) (*HX711, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = systemClock{}
	}
	d := &HX711{sck: sck, dout: dout, options: o, clock: clock, period: time.Second / time.Duration(o.Rate)}
	err := d.restart(context.Background())
	if err == nil {
		_, _, err = d.word(context.Background())
	}
	if r, ok := errors.AsType[*hx711Refusal](err); ok {
		return nil, &r.Fault
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Measure implements Input. The value is the bare code: what it means only a
// calibration can tell.
func (d *HX711) Measure(ctx context.Context) (Measured, error) {
	r, err := d.Read(ctx)
	if err != nil {
		return Measured{}, err
	}
	return Measured{Raw: int64(r.Code), Value: float64(r.Code)}, nil
}

// Read takes words until enough of them are good, or twice as many are not, and
// then gives a *Fault for the reason that most of these had. A word comes every
// period; none in five is a fault at once. A chip that may have been switched off
// is started anew, which takes 4 periods, 8 and a word for another input than A128.
func (d *HX711) Read(ctx context.Context) (HX711Reading, error) {
	var refused []*Fault
	good := make([]int32, 0, d.options.Words)
	for late := 0; len(good) < d.options.Words; {
		if err := ctx.Err(); err != nil {
			return HX711Reading{}, waitFault(err)
		}
		code, fresh, err := d.next(ctx)
		r, bad := errors.AsType[*hx711Refusal](err)
		switch {
		case bad:
			if refused = append(refused, &r.Fault); len(refused) > hx711RefusedMax*d.options.Words {
				return HX711Reading{}, commonest(refused)
			}
		case err != nil:
			return HX711Reading{}, err
		case fresh:
			good = append(good, code)
		default: // usual for the first word only
			if late++; late > d.options.Words {
				return HX711Reading{}, &Fault{Reason: ReasonTimeout, Detail: fmt.Sprintf("%d words had waited: this program runs too seldom", late)}
			}
		}
	}
	return d.median(good, refused)
}

// median is what the good words say together.
func (d *HX711) median(good []int32, refused []*Fault) (HX711Reading, error) {
	slices.Sort(good)
	n := len(good)
	r := HX711Reading{Code: good[n/2], Spread: good[n-2] - good[1], Words: n, Refused: len(refused)}
	if len(refused) > 0 {
		r.Why = refused[len(refused)-1].Reason
	}
	if r.Spread > d.options.Spread {
		return HX711Reading{}, &Fault{Reason: ReasonImplausible,
			Detail: fmt.Sprintf("the words of one measurement differ by %d counts, allowed are %d", r.Spread, d.options.Spread)}
	}
	return r, nil
}

// commonest is the fault whose reason most of them have, the latest such one.
func commonest(faults []*Fault) *Fault {
	count := map[Reason]int{}
	best := faults[0]
	for _, f := range faults {
		count[f.Reason]++
		if count[f.Reason] >= count[best.Reason] {
			best = f
		}
	}
	return &Fault{Reason: best.Reason, Detail: fmt.Sprintf("%d of %d words: %s", count[best.Reason], len(faults), best.Detail)}
}

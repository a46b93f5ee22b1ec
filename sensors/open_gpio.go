package sensors

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hx711Timeout bounds a read of a load cell's converter: the first one of the input B32
// settles twice and then takes its words, 1.5 s; it has its bus for itself.
const hx711Timeout = 3 * time.Second

// hx711 finds a load cell's converter. Each is a bus of its own: a word takes a tenth
// of a second of waiting.
func (l *layout) hx711(s *Spec) (*device, error) {
	d := s.Device
	place := fmt.Sprintf("%s lines %d and %d", d.GPIOChip, d.ClockLine, d.DataLine)
	options := HX711Options{Input: HX711Input(d.Bridge)}
	if options.Input == "" {
		options.Input = HX711InputA128
	}
	bias := Bias(d.Bias)
	if bias == "" {
		bias = BiasPullUp // so that an unplugged chip is never ready
	}
	lines := &bridgeLines{sck: LineConfig{Chip: d.GPIOChip, Line: d.ClockLine, Output: true},
		dout: LineConfig{Chip: d.GPIOChip, Line: d.DataLine, Bias: bias}}
	var same error
	if d.ClockLine == d.DataLine {
		same = fmt.Errorf("clock and data are both line %d", d.ClockLine)
	}
	return &device{bus: "hx711 " + place, handle: lines, name: "hx711 " + place, place: place, signal: SignalBridge, unit: counts, timeout: hx711Timeout,
		open: func(context.Context, ...string) ([]Input, error) {
			if err := errors.Join(lines.Close(), lines.Open()); err != nil {
				return nil, lineFault("take the lines", err)
			}
			chip, err := NewHX711(lines.out, lines.in, options, nil)
			return []Input{chip}, err
		}}, errors.Join(same, lines.sck.check(), lines.dout.check(), options.check())
}

// bridgeLines are the two lines of an HX711. The reading goroutine of its bus owns them.
type bridgeLines struct {
	sck, dout LineConfig
	out, in   *Line // nil while closed
}

// Open takes both lines, unless they are taken.
func (b *bridgeLines) Open() (err error) {
	if b.out != nil {
		return nil
	}
	if b.out, err = OpenLine(b.sck); err != nil {
		b.out = nil
		return err
	}
	if b.in, err = OpenLine(b.dout); err != nil {
		b.in = nil
		return errors.Join(err, b.Close())
	}
	return nil
}

// Close gives them back.
func (b *bridgeLines) Close() error {
	var errs []error
	for _, line := range []**Line{&b.out, &b.in} {
		if *line != nil {
			errs = append(errs, (*line).Close())
			*line = nil
		}
	}
	return errors.Join(errs...)
}

// pulse finds a pulse meter. Its total outlives a line that vanishes, and counts on.
func (l *layout) pulse(s *Spec) (*device, error) {
	d := s.Device
	line := LineConfig{Chip: d.GPIOChip, Line: d.Line, Edge: Edge(d.Edge), Bias: Bias(d.Bias), Debounce: d.Debounce}
	place := fmt.Sprintf("%s line %d", d.GPIOChip, d.Line)
	meter := &pulseHandle{config: line}
	return &device{bus: "pulse " + place, handle: meter, name: "pulse " + place, place: place, signal: SignalDirect, unit: unit{"pulses", 1, 0}, gives: Flow,
		open: func(context.Context, ...string) ([]Input, error) {
			if err := meter.Open(); err != nil {
				return nil, err
			}
			return []Input{pulseInput{meter.meter}}, nil
		}}, line.check()
}

// pulseHandle keeps the one meter of a line.
type pulseHandle struct {
	config LineConfig
	meter  *PulseMeter // nil until it could be opened
}

// Open makes the meter, unless there is one: that opens its line by itself.
func (h *pulseHandle) Open() error {
	if h.meter != nil {
		return nil
	}
	m, err := OpenPulseMeter(h.config, 0, nil)
	if err != nil {
		return err
	}
	h.meter = m
	return nil
}

// Close gives the line back.
func (h *pulseHandle) Close() error {
	if h.meter == nil {
		return nil
	}
	return h.meter.Close()
}

// pulseInput is a meter as a channel reads it: pulses that were lost make the reading
// suspect, and so does a line that was opened anew, for what came meanwhile is in no
// number.
type pulseInput struct{ meter *PulseMeter }

// Measure implements Input.
func (p pulseInput) Measure(ctx context.Context) (Measured, error) {
	before := p.meter.count.Session
	c, err := p.meter.Count(ctx)
	if err != nil {
		return Measured{}, err
	}
	m := Measured{Raw: int64(c.Total), Value: float64(c.Total)}
	if c.NewlyLost > 0 || c.Session > before {
		m.Why = ReasonLost
	}
	return m, nil
}

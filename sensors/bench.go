package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Stand is where a sensor stands, before anything says what that means: what a
// calibration is over.
type Stand struct {
	Raw  int64   // the chip's own number
	At   float64 // volts, the part of the span, counts, or a digital chip's quantity
	Show Figure  // for people
	Why  Reason  // "" or why it deserves a look
}

// Bench is one channel on the bench: it reads where the sensor stands, with no
// calibration and no tank behind it. It owns its bus, which no other program should
// use meanwhile.
type Bench struct {
	Place  string // bus, address and input
	Signal Signal
	law    law
	close  func() error
}

// benchVoltsMin is the least voltage that a bench takes for a sensor's where no valid
// range is known yet: below it a wire is off. Above it only the converter's end bounds
// what is read, which its driver refuses.
const benchVoltsMin = 0.01

// OpenBench opens the input of a spec, whose Scale and Model are ignored. The error is
// a *BusError, a *Fault of the chip, or says what is wrong with the spec.
func OpenBench(ctx context.Context, s Spec, o OpenOptions) (*Bench, error) {
	l := newLayout(o)
	s.complete()
	d, err := l.device(&s)
	if err != nil {
		return nil, err
	}
	signal := s.Wire.Signal
	if signal == "" {
		signal = d.signal
	}
	if s.Wire.VoltsMin == 0 {
		s.Wire.VoltsMin = benchVoltsMin
	}
	if s.Wire.VoltsMax == 0 {
		s.Wire.VoltsMax = math.Inf(1)
	}
	if err := s.Wire.faults(signal, s.Device.Input); err != nil {
		return nil, err
	}
	in, err := d.open(ctx, s.Wire.inputs(signal, s.Device.Input)...)
	if err != nil {
		return nil, errors.Join(err, d.handle.Close())
	}
	return &Bench{Place: d.place, Signal: signal, law: s.Wire.law(signal, in, d.unit), close: d.handle.Close}, nil
}

// Read reads once. Beside an error stands what was seen on the way.
func (b *Bench) Read(ctx context.Context) (Stand, error) {
	e, err := b.law.sense(ctx)
	return Stand{Raw: e.raw, At: e.value, Show: e.show, Why: e.why}, err
}

// Close closes the bus.
func (b *Bench) Close() error { return b.close() }

// Steady is where a sensor stood over several reads.
type Steady struct {
	Raw    int64   `json:"raw"`    // the median of the chip's numbers
	At     float64 `json:"at"`     // the median of where it stood
	Spread float64 `json:"spread"` // from the least to the greatest
	Reads  int     `json:"reads"`
}

// Settle reads until n good reads are there, every so often, and gives their medians.
// Reads that fail are passed over, as many as n of them; then the last one's fault is
// the error.
func (b *Bench) Settle(ctx context.Context, n int, every time.Duration) (Steady, error) {
	var raws []int64
	var ats []float64
	for failed := 0; len(ats) < n; {
		s, err := b.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return Steady{}, ctx.Err()
		case err != nil:
			if failed++; failed > n {
				return Steady{}, fmt.Errorf("more reads failed than came to anything: %w", err)
			}
		default:
			raws, ats = append(raws, s.Raw), append(ats, s.At)
		}
		if err := (systemClock{}).Sleep(ctx, every); err != nil {
			return Steady{}, err
		}
	}
	slices.Sort(raws)
	slices.Sort(ats)
	mid := ats[n/2]
	if n%2 == 0 {
		mid = (ats[n/2-1] + ats[n/2]) / 2
	}
	if math.IsNaN(mid) {
		return Steady{}, &Fault{Reason: ReasonNotFinite, Detail: "the reads are not numbers"}
	}
	return Steady{Raw: raws[n/2], At: mid, Spread: ats[n-1] - ats[0], Reads: n}, nil
}

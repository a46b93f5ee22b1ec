package signal

import "time"

// DefaultStuckAfter is how long a code may stand still although it should move.
const DefaultStuckAfter = time.Hour

// Flow is what is known, from elsewhere, of the flow out of or into a tank.
type Flow uint8

// What may be known.
const (
	FlowUnknown Flow = iota
	FlowNone         // a meter or a closed valve says that nothing moves
	FlowSome         // enough flows to be seen in the channel's code within After
)

// StuckOptions describe a check for a stuck sensor.
type StuckOptions struct {
	After time.Duration // > 0; 0 means an hour

	// Coarse says that the chip's step is larger than its noise (digital sensors
	// such as the DS18B20): at rest its code stands still by nature. Then a code
	// that stands still is suspect only while there is known flow.
	Coarse bool

	Gap time.Duration // > 0: over a longer time without reads nothing is known; 0 means DefaultGap
}

// Stuck tells a sensor that repeats itself from a tank that is at rest. A
// converter's noise moves its code by a step now and then; one that stands still
// for After is suspect. Only time in which the code should have moved counts: not
// that of known rest, and of a coarse chip only that of known flow. A code that
// moves clears it at once. It never rejects: an unchanged good read is fresh.
type Stuck struct {
	o     StuckOptions
	pace  pace
	raw   int64
	stood time.Duration
}

// NewStuck makes a check, or says all that is wrong with o.
func NewStuck(o StuckOptions) (*Stuck, error) {
	o.After = orElse(o.After, DefaultStuckAfter)
	o.Gap = orElse(o.Gap, DefaultGap)
	var f faults
	f.unless(o.After > 0, "stuck time %s is not above zero", o.After)
	f.unless(o.Gap > 0, "stuck gap %s is not above zero", o.Gap)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Stuck{o: o, pace: pace{gap: o.Gap}}, nil
}

// Check judges one raw code of a good read. flow is that of the time since the
// read before.
func (s *Stuck) Check(raw int64, flow Flow, at time.Duration) Verdict {
	dt, fresh, why := s.pace.step(0, at)
	switch {
	case why != "":
		return rejected(why)
	case fresh || raw != s.raw:
		s.raw, s.stood = raw, 0
	case flow == FlowSome || flow == FlowUnknown && !s.o.Coarse:
		s.stood = min(s.stood+dt, s.o.After)
	}
	if s.stood >= s.o.After {
		return suspect(WhyStuck)
	}
	return Verdict{}
}

// Stood is for how long the code has stood still although it should have moved;
// at most After.
func (s *Stuck) Stood() time.Duration { return s.stood }

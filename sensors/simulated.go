package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"periph.io/x/conn/v3/physic"
)

// simulatedStep is the default grain of a simulated tank's time.
const simulatedStep = time.Second

// SimulatedOptions describe a tank that needs no hardware. It starts at Start,
// loses PerHour, and when it has come down to RefillAt it is at RefillTo at once,
// again and again.
type SimulatedOptions struct {
	Capacity physic.Mass // of the full tank, > 0
	Start    physic.Mass // when the process starts; 0 means full
	PerHour  physic.Mass // consumption, >= 0

	RefillAt physic.Mass // refilled when down to this; 0 means when empty
	RefillTo physic.Mass // filled up to this; 0 means full

	// NoRefill turns that rule off: only the script refills, and an empty tank stays
	// empty. A script with a refill turns it off too.
	NoRefill bool

	// The crew's day, from the tank's start on, again and again. After AsleepAfter
	// of it the crew sleeps for AsleepFor and consumes AsleepPerHour instead of
	// PerHour. AsleepFor 0 means that it never sleeps.
	Day           time.Duration // 0 means 24 hours
	AsleepAfter   time.Duration
	AsleepFor     time.Duration
	AsleepPerHour physic.Mass // >= 0

	NoiseSigma physic.Mass // standard deviation of the measurement's noise
	Seed       uint64      // of the noise: the same seed gives the same tank
	LSB        physic.Mass // the measurement is a multiple of it; 0 means a milligram

	// Events are the script, in any order, at most MaxSimulatedEvents.
	Events []SimulatedEvent

	// Step is the grain of the tank's time: within one step a reading repeats
	// itself, noise included. 0 means one second.
	Step time.Duration
	// Now is the tank's time; nil means time.Now. A clock that runs fast makes
	// the tank live fast.
	Now func() time.Time
}

// Simulated is a Probe of a tank that exists only in arithmetic. What it holds
// is a function of its options and of the time since it was made: neither how
// often nor whether it was read matters. A restart begins at Start again.
type Simulated struct {
	o       SimulatedOptions
	started time.Time
}

// NewSimulated makes a simulated tank, or says all that is wrong with o.
func NewSimulated(o SimulatedOptions) (*Simulated, error) {
	if o.Start == 0 {
		o.Start = o.Capacity
	}
	if o.RefillTo == 0 {
		o.RefillTo = o.Capacity
	}
	if o.Step == 0 {
		o.Step = simulatedStep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := errors.Join(o.faults()...); err != nil {
		return nil, err
	}
	return &Simulated{o: o, started: o.Now()}, nil
}

// faults lists all that is wrong with complete options.
func (o SimulatedOptions) faults() (errs []error) {
	if o.Capacity <= 0 || o.Capacity > maxRemaining {
		errs = append(errs, fmt.Errorf("simulated capacity %s is not above zero and at most %s", o.Capacity, maxRemaining))
	}
	if o.RefillAt < 0 || o.RefillAt >= o.RefillTo || o.RefillTo > o.Capacity {
		errs = append(errs, fmt.Errorf("simulated refill from %s to %s does not fit into a capacity of %s",
			o.RefillAt, o.RefillTo, o.Capacity))
	}
	if o.Start < o.RefillAt || o.Start > o.Capacity {
		errs = append(errs, fmt.Errorf("simulated start %s is not between the refill at %s and the capacity %s",
			o.Start, o.RefillAt, o.Capacity))
	}
	if o.PerHour < 0 || o.NoiseSigma < 0 || o.Step < 0 {
		errs = append(errs, errors.New("simulated consumption, noise and step cannot be negative"))
	}
	return errs
}

// Read measures the tank at this instant: never below 0 or above the capacity,
// rounded to a milligram. It fails only when ctx has ended.
func (s *Simulated) Read(ctx context.Context) (Reading, error) {
	if err := ctx.Err(); err != nil {
		return Reading{}, err
	}
	step := int64(max(0, s.o.Now().Sub(s.started)) / s.o.Step)
	noise := rand.New(rand.NewPCG(s.o.Seed, uint64(step))).NormFloat64() * float64(s.o.NoiseSigma)
	mass := s.level(time.Duration(step)*s.o.Step) + noise
	kg := min(max(mass, 0), float64(s.o.Capacity)) / float64(physic.KiloGram)
	return Reading{Quantity: Content, Remaining: massOf(kg), Value: kg}, nil
}

// level is the true content in nanograms after a time: first down from Start,
// then a sawtooth between RefillTo and RefillAt.
func (s *Simulated) level(elapsed time.Duration) float64 {
	used := float64(s.o.PerHour) * elapsed.Hours()
	first := float64(s.o.Start - s.o.RefillAt)
	if used < first {
		return float64(s.o.Start) - used
	}
	return float64(s.o.RefillTo) - math.Mod(used-first, float64(s.o.RefillTo-s.o.RefillAt))
}

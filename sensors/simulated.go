package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"
)

// Defaults of a simulated tank's time.
const (
	simulatedStep = time.Second    // the grain
	simulatedDay  = 24 * time.Hour // the crew's day
)

// SimulatedOptions describe a tank that needs no hardware. It starts at Start,
// loses PerHour, and when it has come down to RefillAt it is at RefillTo at once,
// again and again. What else happens to it and to its sensor is its script.
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

	// LSB is the step of the measurement: Reading.Raw is the number of them. 0 means
	// a milligram.
	LSB physic.Mass

	// Events are the script, in any order, at most MaxSimulatedEvents.
	Events []SimulatedEvent

	// Step is the grain of the tank's time: within one step a reading repeats
	// itself, noise and faults included. 0 means one second.
	Step time.Duration
	// Now is the tank's time; nil means time.Now. A clock that runs fast makes
	// the tank live fast.
	Now func() time.Time
}

// Simulated is a Probe of a tank that exists only in arithmetic. What it holds
// and what it reads is a function of its options and of the time since it was
// made: neither how often nor whether it was read matters. A restart begins at
// Start, and the script at its first line, again. Its methods may be called from
// many goroutines.
type Simulated struct {
	o       SimulatedOptions
	course  *simulatedCourse
	started time.Time
}

// NewSimulated makes a simulated tank, or says all that is wrong with o.
func NewSimulated(o SimulatedOptions) (*Simulated, error) {
	o.complete()
	if err := errors.Join(o.faults()...); err != nil {
		return nil, err
	}
	if o.LSB == 0 {
		o.LSB = physic.MilliGram
	}
	course, err := newSimulatedCourse(o)
	if err != nil {
		return nil, err
	}
	return &Simulated{o: o, course: course, started: o.Now()}, nil
}

// complete fills in the defaults. The caller's events stay as they are.
func (o *SimulatedOptions) complete() {
	if o.Start == 0 {
		o.Start = o.Capacity
	}
	if o.RefillTo == 0 {
		o.RefillTo = o.Capacity
	}
	if o.Day == 0 {
		o.Day = simulatedDay
	}
	if o.Step == 0 {
		o.Step = simulatedStep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Events = slices.Clone(o.Events)
	for i := range o.Events {
		switch e := &o.Events[i]; {
		case e.Do == SimulatedSpike && e.For == 0:
			e.For = o.Step
		case e.Do == SimulatedRefill:
			o.NoRefill = true
			if e.To == 0 {
				e.To = o.Capacity
			}
		}
	}
}

// faults lists all that is wrong with complete options.
func (o SimulatedOptions) faults() (errs []error) {
	add := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("simulated "+format, a...))
		}
	}
	add(o.Capacity <= 0 || o.Capacity > maxRemaining, "capacity %s is not above zero and at most %s", o.Capacity, maxRemaining)
	add(!o.NoRefill && (o.RefillAt < 0 || o.RefillAt >= o.RefillTo || o.RefillTo > o.Capacity),
		"refill from %s to %s does not fit into a capacity of %s", o.RefillAt, o.RefillTo, o.Capacity)
	add(!o.NoRefill && o.Start < o.RefillAt || o.Start < 0 || o.Start > o.Capacity,
		"start %s is not between the refill at %s and the capacity %s", o.Start, o.RefillAt, o.Capacity)
	add(o.PerHour < 0 || o.AsleepPerHour < 0 || o.NoiseSigma < 0 || o.Step < 0, "consumption, noise and step cannot be negative")
	add(o.Day < 0 || o.Day > simulatedLongest || o.AsleepAfter < 0 || o.AsleepFor < 0 || o.AsleepAfter > o.Day-o.AsleepFor,
		"sleep of %s after %s does not fit into a day of %s", o.AsleepFor, o.AsleepAfter, o.Day)
	add(o.AsleepFor == 0 && (o.AsleepAfter != 0 || o.AsleepPerHour != 0), "sleep lasts for no time")
	add(o.LSB < 0 || o.LSB > o.Capacity, "LSB %s is not between zero and the capacity %s", o.LSB, o.Capacity)
	add(len(o.Events) > MaxSimulatedEvents, "script has %d events, more than %d", len(o.Events), MaxSimulatedEvents)
	for i, e := range o.Events {
		for _, err := range e.faults(o) {
			errs = append(errs, fmt.Errorf("simulated event %d (%s at %s): %w", i+1, e.Do, e.At, err))
		}
	}
	return errs
}

// Elapsed is the time since the tank was made, by its own clock; never below 0.
func (s *Simulated) Elapsed() time.Duration { return max(0, s.o.Now().Sub(s.started)) }

// Read measures the tank at this instant: never below 0 or above the capacity, a
// whole number of milligrams. It fails where the script says so, with a *Fault
// and no number, and when ctx has ended. Of several events that make it fail at
// once the first in the script counts; of several that freeze the value the one
// that began first.
func (s *Simulated) Read(ctx context.Context) (Reading, error) {
	if err := ctx.Err(); err != nil {
		return Reading{}, err
	}
	step := int64(s.Elapsed() / s.o.Step)
	now := time.Duration(step) * s.o.Step
	frozen := time.Duration(-1) // for how long
	for _, e := range s.o.Events {
		since, on := e.on(now)
		switch {
		case !on:
		case e.Do == SimulatedFault, e.Do == SimulatedRemove && e.Reason != "":
			return Reading{}, &Fault{Reason: e.Reason, Detail: "as the simulated tank's script says"}
		case e.Do == SimulatedVanish:
			return Reading{}, &Fault{Reason: ReasonNack, Detail: "the simulated chip is gone, as its script says"}
		case e.Do == SimulatedHang:
			return Reading{}, hang(ctx)
		case e.Do == SimulatedStick:
			frozen = max(frozen, since)
		}
	}
	if frozen >= 0 { // back to the first step that the freezing touched
		step = int64((now - frozen + s.o.Step - 1) / s.o.Step)
	}
	return s.reading(step), nil
}

// hang waits for the end of ctx. Without an end to wait for it does not begin.
func hang(ctx context.Context) error {
	if ctx.Done() != nil {
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return &Fault{Reason: ReasonTimeout, Detail: "the simulated chip hangs, as its script says", Err: ctx.Err()}
}

// reading is what the sensor makes of the tank in a step, if nothing keeps it
// from measuring.
func (s *Simulated) reading(step int64) Reading {
	now := time.Duration(step) * s.o.Step
	mass, sigma := 0.0, s.o.NoiseSigma
	if removed := s.course.removed(now); !removed {
		mass = s.course.at(now).content - s.chill(now)
	}
	for _, e := range s.o.Events {
		since, on := e.on(now)
		switch {
		case !on:
		case e.Do == SimulatedDrift:
			mass += float64(e.Rate) * since.Hours()
		case e.Do == SimulatedSpike:
			mass += float64(e.By)
		case e.Do == SimulatedNoise:
			sigma = max(sigma, e.Sigma)
		}
	}
	mass += rand.New(rand.NewPCG(s.o.Seed, uint64(step))).NormFloat64() * float64(sigma)
	capacity, lsb := float64(s.o.Capacity), float64(s.o.LSB)
	code := math.Round(min(max(mass, 0), capacity) / lsb)
	kg := min(code*lsb, capacity) / float64(physic.KiloGram)
	return Reading{Quantity: Content, Remaining: massOf(kg), Value: kg, Raw: int64(code)}
}

// chill is how much too low the tank reads because it has cooled: what is left
// of each of the coolings so far. Those of one repeated event are a geometric
// series.
func (s *Simulated) chill(now time.Duration) (ng float64) {
	for _, e := range s.o.Events {
		if e.Do != SimulatedCooling || now < e.At {
			continue
		}
		left := 1.0
		since := now - e.At
		if e.Every > 0 {
			n := float64(since/e.Every + 1)
			since %= e.Every
			q := float64(e.Every) / float64(e.For)
			left = math.Expm1(-n*q) / math.Expm1(-q)
		}
		ng += float64(e.By) * left * math.Exp(-float64(since)/float64(e.For))
	}
	return ng
}

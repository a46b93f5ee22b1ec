package sensors

import (
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"
)

// SimulatedKind is what an event of a simulated tank's script does.
type SimulatedKind string

// The kinds. The first group changes what the tank holds, the second what its
// sensor measures, the third whether a read gives a number at all.
const (
	SimulatedLeak   SimulatedKind = "leak"   // loses Rate an hour more, while it lasts
	SimulatedBurst  SimulatedKind = "burst"  // loses By, evenly over For; at once where For is 0
	SimulatedRefill SimulatedKind = "refill" // is filled to To, evenly over For; at once where For is 0
	SimulatedRemove SimulatedKind = "remove" // the cylinder is off: nothing leaves it, and it reads empty, or fails with Reason

	SimulatedCooling SimulatedKind = "cooling" // reads By too low, and recovers with the time constant For
	SimulatedDrift   SimulatedKind = "drift"   // reads Rate more too high (below 0: low) with every hour that it lasts
	SimulatedSpike   SimulatedKind = "spike"   // reads By too high (below 0: low) for For; 0 means one step
	SimulatedStick   SimulatedKind = "stick"   // reads what it read when this began
	SimulatedNoise   SimulatedKind = "noise"   // has noise of Sigma, where the tank's own is less

	SimulatedFault  SimulatedKind = "fault"  // the read fails with Reason
	SimulatedHang   SimulatedKind = "hang"   // the read does not end before its context does
	SimulatedVanish SimulatedKind = "vanish" // nobody acknowledges: ReasonNack
)

// Bounds of a script.
const (
	// MaxSimulatedEvents bounds a script's length. A longer one is refused.
	MaxSimulatedEvents = 64
	// simulatedLongest bounds each of a script's times, so that sums of a few of
	// them fit into a time.Duration, which ends after 292 years.
	simulatedLongest = 50 * 365 * 24 * time.Hour
)

// SimulatedEvent is one line of a simulated tank's script. The kind says which of
// Rate, To, By, Sigma and Reason it takes; the others must be zero.
//
// A refill holds the tank at To once that is reached, until For is over; a tank
// that holds more is not changed. Of several at a time the highest counts. A
// cylinder that is off can be refilled: that is how one is swapped.
type SimulatedEvent struct {
	At    time.Duration // since the tank's start
	For   time.Duration // how long it lasts; 0 means for ever, or as the kind says
	Every time.Duration // begins again after this, for ever; 0 means never
	Do    SimulatedKind

	Rate   physic.Mass // an hour. leak: > 0; drift: not 0
	To     physic.Mass // refill: the level; 0 means full
	By     physic.Mass // burst, cooling: > 0; spike: not 0
	Sigma  physic.Mass // noise: the standard deviation, > 0
	Reason Reason      // fault: must stand; remove: "" means that the tank reads empty
}

// simulatedForm is what an event of one kind takes.
type simulatedForm struct {
	rate, by, sigma form
	to, reason      bool // may stand
	truth           bool // changes the content: the sensor's step is not its own
	instant         bool // For 0 is an instant, and not for ever
	endless         bool // For is a time constant, and may be longer than Every
}

// form is what an amount must be.
type form int

const (
	none form = iota
	positive
	signed
)

// form gives what the kind takes; ok is false where there is no such kind.
func (k SimulatedKind) form() (f simulatedForm, ok bool) {
	switch k {
	case SimulatedLeak:
		return simulatedForm{rate: positive, truth: true}, true
	case SimulatedBurst:
		return simulatedForm{by: positive, truth: true, instant: true}, true
	case SimulatedRefill:
		return simulatedForm{to: true, truth: true, instant: true}, true
	case SimulatedRemove:
		return simulatedForm{reason: true}, true
	case SimulatedCooling:
		return simulatedForm{by: positive, endless: true}, true
	case SimulatedDrift:
		return simulatedForm{rate: signed}, true
	case SimulatedSpike:
		return simulatedForm{by: signed, instant: true}, true
	case SimulatedNoise:
		return simulatedForm{sigma: positive}, true
	case SimulatedFault:
		return simulatedForm{reason: true}, true
	case SimulatedStick, SimulatedHang, SimulatedVanish:
		return simulatedForm{}, true
	}
	return f, false
}

// faults lists all that is wrong with an event of complete options.
func (e SimulatedEvent) faults(o SimulatedOptions) (errs []error) {
	add := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	f, ok := e.Do.form()
	if !ok {
		return []error{fmt.Errorf("there is no kind of event %q", e.Do)}
	}
	for _, amount := range []struct {
		name string
		mass physic.Mass
		form form
	}{{"rate", e.Rate, f.rate}, {"amount", e.By, f.by}, {"sigma", e.Sigma, f.sigma}} {
		add(amount.form == none && amount.mass != 0, "takes no %s", amount.name)
		add(amount.form == positive && amount.mass <= 0, "%s %s is not above zero", amount.name, amount.mass)
		add(amount.form == signed && amount.mass == 0, "%s is zero", amount.name)
		add(amount.mass > maxRemaining || amount.mass < -maxRemaining, "%s %s is more than %s", amount.name, amount.mass, maxRemaining)
	}
	add(!f.to && e.To != 0, "takes no level")
	add(e.To < 0 || e.To > o.Capacity, "level %s is not between zero and the capacity %s", e.To, o.Capacity)
	add(!f.reason && e.Reason != "", "takes no reason")
	add(e.Do == SimulatedFault && e.Reason == "", "has no reason")
	add(e.Reason != "" && !slices.Contains(Reasons(), e.Reason), "there is no reason %q", e.Reason)
	return append(errs, e.timeFaults(f, o.Step)...)
}

// timeFaults lists what is wrong with the times of an event.
func (e SimulatedEvent) timeFaults(f simulatedForm, step time.Duration) (errs []error) {
	add := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	for _, d := range []time.Duration{e.At, e.For, e.Every} {
		add(d < 0 || d > simulatedLongest, "time %s is not between zero and %s", d, simulatedLongest)
	}
	add(f.endless && e.For == 0, "has no time constant")
	add(!f.truth && !f.endless && e.For > 0 && e.For < step, "lasts %s, less than the step %s: it might never be seen", e.For, step)
	if e.Every == 0 {
		return errs
	}
	add(e.For == 0 && !f.instant && !f.endless, "lasts for ever, and is to begin again every %s", e.Every)
	add(e.For > e.Every && !f.endless, "lasts %s, longer than the %s after which it begins again", e.For, e.Every)
	add(!f.truth && e.Every < step, "begins again after %s, less than the step %s", e.Every, step)
	return errs
}

// began is how long ago the event began, or began again for the last time.
func (e SimulatedEvent) began(now time.Duration) (since time.Duration, ok bool) {
	if now < e.At {
		return 0, false
	}
	since = now - e.At
	if e.Every > 0 {
		since %= e.Every
	}
	return since, true
}

// on reports whether the event goes on, and since when. One of no length goes on
// for ever.
func (e SimulatedEvent) on(now time.Duration) (since time.Duration, on bool) {
	since, ok := e.began(now)
	return since, ok && (e.For == 0 || since < e.For)
}

// turn is when the event next begins or ends after now; ok is false for never.
func (e SimulatedEvent) turn(now time.Duration) (at time.Duration, ok bool) {
	since, ok := e.began(now)
	switch {
	case !ok:
		return e.At, true
	case since < e.For:
		return now - since + e.For, true
	case e.Every > 0:
		return now - since + e.Every, true
	}
	return 0, false
}

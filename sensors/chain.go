package sensors

import (
	"context"
	"fmt"
	"math"

	"periph.io/x/conn/v3/physic"

	"oxyd/sensors/vessel"
)

// chain is the Probe of everything but simulated tanks: from what stands on a wire to
// what the channel gives. It remembers nothing between two reads.
type chain struct {
	law      law
	scale    *Scale // nil where the law's value is the quantity already
	physical unit   // of the quantity, for people
	bounds   bounds // of the quantity
	quantity Quantity
	model    model   // of a tank's content; nil where the quantity is what the channel gives
	capacity float64 // kilograms of the full tank; 0: unknown
	shared   *shared
	ambient  *Source // of a probe that is a gauge: what its pressure is against; else nil
}

// Read measures once.
func (c *chain) Read(ctx context.Context) (Reading, error) {
	e, err := c.law.sense(ctx)
	r := Reading{Quantity: c.quantity, Raw: e.raw, Electrical: e.show}
	if err != nil {
		return r, err
	}
	r.suspect(e.why)
	q := e.value
	if c.scale != nil {
		if q, err = c.scale.Of(q); err != nil {
			return r, err
		}
	}
	r.Physical = c.physical.figure(q)
	if q, err = c.bounds.apply(q, c.physical); err != nil {
		return r, err
	}
	if c.model == nil {
		r.Value, err = c.absolute(&r, q)
		return r, err
	}
	h, err := c.model.content(q, c.shared)
	if err != nil {
		return r, err
	}
	r.suspect(h.why)
	r.Uncompensated = h.uncompensated
	return r, r.hold(h.kg, c.capacity)
}

// absolute is what models take from a probe: of a gauge, its pressure and that around it.
func (c *chain) absolute(r *Reading, q float64) (float64, error) {
	if c.ambient == nil {
		return q, nil
	}
	ambient, why, err := c.shared.get(*c.ambient)
	if err != nil {
		return 0, about("ambient pressure", err)
	}
	r.suspect(why)
	q, err = vessel.Absolute(q, ambient)
	return q, modelFault(err)
}

// suspect marks the reading for the reason, unless there is one already or none.
func (r *Reading) suspect(why Reason) {
	if why != "" && !r.Suspect {
		r.Suspect, r.Why = true, why
	}
}

// hold makes a content of kilograms. Below empty or above the capacity by at most
// ScaleSlack of the full tank it is taken for empty or full; further out it is a Fault
// (ReasonUnderRange, ReasonOverRange).
func (r *Reading) hold(kg, capacity float64) error {
	b := bounds{least: 0, most: capacity, slack: ScaleSlack * capacity}
	if capacity <= 0 {
		b.most, b.slack = kilograms(maxRemaining), 0
	}
	clamped, err := b.apply(kg, unit{"g", 1e3, 0})
	if err != nil {
		return about("content: check calibration and capacity", err)
	}
	r.Value, r.Remaining = clamped, massOf(clamped)
	return nil
}

// bounds are what a quantity can be. Beyond them by no more than slack it is taken for
// the bound, for every sensor has an error.
type bounds struct {
	least, most, slack float64
}

// unbounded is the bounds of a quantity of which nothing is known.
var unbounded = bounds{least: math.Inf(-1), most: math.Inf(1)}

func (b bounds) apply(q float64, u unit) (float64, error) {
	switch {
	case math.IsNaN(q) || math.IsInf(q, 0):
		return 0, &Fault{Reason: ReasonNotFinite, Detail: fmt.Sprintf("computed was %v", q)}
	case q < b.least-b.slack:
		return 0, &Fault{Reason: ReasonUnderRange, Detail: fmt.Sprintf("%s, the least possible is %s", u.figure(q), u.figure(b.least))}
	case q > b.most+b.slack:
		return 0, &Fault{Reason: ReasonOverRange, Detail: fmt.Sprintf("%s, the most possible is %s", u.figure(q), u.figure(b.most))}
	}
	return min(max(q, b.least), b.most), nil
}

// unit is how people read an SI value: value·factor + offset, with its name.
type unit struct {
	name           string
	factor, offset float64
}

func (u unit) figure(si float64) Figure { return Figure{si*u.factor + u.offset, u.name} }

// kilograms converts for computing.
func kilograms(m physic.Mass) float64 { return float64(m) / float64(physic.KiloGram) }

// massOf rounds kilograms to a whole number of milligrams.
func massOf(kg float64) physic.Mass {
	return physic.Mass(math.Round(kg*1e6)) * physic.MilliGram
}

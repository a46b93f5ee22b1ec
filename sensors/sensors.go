// Package sensors turns the chips on a board's buses into readings of oxygen. It owns
// the buses it opens, the drivers of the chips on them, the chain from a code to a
// mass, and the poller that keeps one state per channel.
//
// It keeps one invariant: a wrong number is worse than none. Whatever reaches
// Options.OnReading was measured in the read that has just ended and passed
// every check of its driver and its calibration. A failed read hands over
// nothing: no zero, no NaN, no value of an earlier read. It is a Fault with a
// stable reason, shows as a counter at once and as a state after three in a row.
//
// Reading order: Open (from plain Specs to a Poller), Poller.Run, a driver's Measure,
// a law's sense, Scale.Of, a model's content, refiner.refine, status.failed. A
// reading's way, which ends with a Fault wherever a step finds no value:
//
//	tick → driver → Measured → law (volts, current, ratio) → scale → physical quantity
//	     → model of the vessel → mass → refiner (spikes, rates, deadband, use) → OnReading
//
// The package does not make events, raise alarms or store anything.
package sensors

import (
	"context"
	"time"

	"periph.io/x/conn/v3/physic"
)

// Quantity is what a channel gives.
type Quantity string

// The quantities. A channel of a tank gives its content or a flow out of it; one
// without a tank serves the models of others.
const (
	Content     Quantity = "content"     // the mass in a tank: Reading.Remaining
	Flow        Quantity = "flow"        // kilograms a second out of a tank
	Temperature Quantity = "temperature" // kelvins
	Pressure    Quantity = "pressure"    // pascals, absolute
	Voltage     Quantity = "voltage"     // volts
)

// Reading is one good measurement, before it is an event.
type Reading struct {
	Tank string // tank id; "" for an auxiliary probe
	Name string // the channel's name

	Quantity Quantity
	// Remaining is the mass in the tank, >= 0, a whole number of milligrams; only of
	// Content.
	Remaining physic.Mass
	Value     float64 // in the SI unit of Quantity; kilograms of Content, not rounded

	// At is when the read ended, which is at most the read's own duration after
	// the physical instant. It carries Go's monotonic clock reading: its age is
	// time.Since(At), right whatever happened to the wall clock meanwhile.
	At time.Time

	// Suspect marks a reading that counts but deserves a look; Why says why.
	Suspect bool
	Why     Reason

	// Uncompensated marks a content for which a temperature was assumed, or a dewar's
	// pressure: a cylinder that cools by 10 K then seems to lose a twentieth.
	Uncompensated bool

	Raw        int64  // the chip's own number; 0 where there is none
	Electrical Figure // on the sensor's wire; none of digital chips
	Physical   Figure // the quantity that the sensor measures, such as a pressure

	// Report is false where the reading says no more than the last one that was
	// reported: it need not become an event.
	Report bool
	// Consumed, Refilled and Removed are masses that this reading has made certain:
	// whole milligrams, >= 0. They stand for themselves, whatever Report says, and
	// are contained in Remaining where that is the channel's quantity.
	Consumed, Refilled, Removed physic.Mass

	// Falls is how fast the content falls, in kilograms a second, where that is looked
	// at and known; Abnormal says that it falls unusually fast.
	Falls    float64
	Abnormal bool
}

// Sample is what a converter measured: its code, and the volts that it means.
type Sample struct {
	Raw   int32
	Volts physic.ElectricPotential
}

// Probe is one measuring channel as the poller sees it. Read measures once. It
// returns a reading made in this call, or an error; beside an error the reading is
// only what was seen on the way, for people. It ends soon after ctx does, as far as
// the bus lets it. Tank, Name and At are filled in by the poller. Read is never called twice at a time.
type Probe interface {
	Read(ctx context.Context) (Reading, error)
}

// Clock is the time that a driver waits by. The zero value of an options struct
// means the system's clock.
type Clock interface {
	// Now returns the time, with a monotonic reading where there is one.
	Now() time.Time
	// Sleep waits for d or until ctx ends, and then returns ctx.Err().
	Sleep(ctx context.Context, d time.Duration) error
}

// systemClock is Clock by the time package.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

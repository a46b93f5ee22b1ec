// Package sensors turns the chips on a board's buses into readings of remaining
// oxygen. It owns the buses it opens, the drivers of the chips on them, the
// calibration from volts to mass, and the poller that keeps one state per
// channel.
//
// It keeps one invariant: a wrong number is worse than none. Whatever reaches
// Options.OnReading was measured in the read that has just ended and passed
// every check of its driver and its calibration. A failed read hands over
// nothing: no zero, no NaN, no value of an earlier read. It is a Fault with a
// stable reason, shows as a counter at once and as a state after three in a row.
//
// Reading order: Open (from plain Specs to a Poller), Poller.Run, the driver's
// Read, Linear.Mass, status.fail. A reading's way:
//
//	tick → driver reads the chip → Fault, or Sample → calibration → Reading → OnReading
//
// The package does not make events, filter, apply a deadband, raise alarms or
// store anything, and it imports no other package of this module.
package sensors

import (
	"context"
	"time"

	"periph.io/x/conn/v3/physic"
)

// Reading is one good measurement of a tank, before it is an event.
type Reading struct {
	Tank string // tank id
	Name string // the channel's name

	// Remaining is the mass in the tank, >= 0, a whole number of milligrams.
	Remaining physic.Mass

	// At is when the read ended, which is at most the read's own duration after
	// the physical instant. It carries Go's monotonic clock reading: its age is
	// time.Since(At), right whatever happened to the wall clock meanwhile.
	At time.Time

	// Suspect marks a reading that counts but deserves a look; Why says why.
	Suspect bool
	Why     Reason

	Raw   int32                    // the converter's code; 0 where there is none
	Volts physic.ElectricPotential // at the converter's input; 0 where there is none
}

// Sample is what a converter measured: its code, and the volts that it means.
type Sample struct {
	Raw   int32
	Volts physic.ElectricPotential
}

// Probe is one measuring channel as the poller sees it. Read measures once. It
// returns a reading made in this call, or an error and no reading. It ends soon
// after ctx does, as far as the bus lets it. Tank, Name and At are filled in by
// the poller. Read is never called twice at a time.
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

package sensors

import "context"

// Measured is what an input measured, in one number.
type Measured struct {
	// Raw is the chip's own number: a code, a count, a total. It is what a
	// calibration record keeps, and what the check for a stuck sensor looks at.
	Raw int64

	// Value is what Raw means, finite, in the SI unit of what the driver measures:
	// volts, kelvins, pascals, kilograms a second; the bare code where only a
	// calibration can tell (a load cell's bridge).
	Value float64

	// Why is not "" where the number counts but deserves a look.
	Why Reason
}

// Input is one thing that one chip measures. Measure measures it once, in this
// call, or gives a *Fault and no number; when ctx is cancelled, ctx's error. It is
// never called twice at a time, and ends soon after ctx does, as far as the bus
// lets it.
type Input interface {
	Measure(ctx context.Context) (Measured, error)
}

package vessel

import (
	"errors"
	"fmt"
)

// WeighedOptions describe a vessel on a scale or a load cell.
type WeighedOptions struct {
	// Tare is what the scale shows of the vessel with nothing in it, in kg, with all
	// that hangs on it; 0 where the scale itself was set to zero with it.
	Tare    float64
	Purity  float64 // mass fraction of oxygen in the content, above 0 and up to 1
	Reserve float64 // kg of oxygen that cannot, or must not, be used

	// Full is the content of the full vessel in kg, impurities included; more, by above
	// Slack, is a fault: somebody leans on it. 0: not known, and only what no vessel
	// weighs is too much.
	Full float64

	// Slack is how far, in kg, the content may come out below empty or above full
	// and be taken for that: the scale's error and the tare's.
	Slack float64
}

// Weighed is a vessel on a scale. A content is a difference of masses and asks for
// neither pressure nor temperature nor gravity, if the scale was calibrated on site.
type Weighed struct{ o WeighedOptions }

// NewWeighed makes a weighed vessel. The error lists all that is wrong with the
// options.
func NewWeighed(o WeighedOptions) (Weighed, error) {
	err := errors.Join(
		option("tare in kg", o.Tare, 0, massMax),
		positive("purity", o.Purity, 1),
		option("reserve in kg", o.Reserve, 0, massMax),
		option("full content in kg", o.Full, 0, massMax),
		option("slack in kg", o.Slack, 0, massMax),
	)
	if err != nil {
		return Weighed{}, err
	}
	return Weighed{o}, nil
}

// Content is the content at a gross mass in kg. Errors: ErrNotFinite; ErrUnderRange
// for more than the slack below the tare; ErrOverRange for more than the slack above
// the full vessel, or more than any vessel weighs.
func (w Weighed) Content(gross float64) (Content, error) {
	if w == (Weighed{}) {
		return Content{}, errNotMade
	}
	if err := finite("gross mass", gross); err != nil {
		return Content{}, err
	}
	full := w.o.Full
	if full == 0 {
		full = massMax
	}
	net := gross - w.o.Tare
	switch {
	case net < -w.o.Slack:
		return Content{}, fmt.Errorf("%g kg, the empty vessel has %g kg: %w", gross, w.o.Tare, ErrUnderRange)
	case net > full+w.o.Slack:
		return Content{}, fmt.Errorf("%g kg, the full vessel has %g kg: %w", gross, w.o.Tare+full, ErrOverRange)
	}
	return newContent(min(max(net, 0), full)*w.o.Purity, w.o.Reserve), nil
}

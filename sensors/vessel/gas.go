package vessel

import (
	"errors"
	"fmt"

	"oxyd/sensors/oxygen"
)

// shellReference is the pressure in Pa that GasOptions.ShellGrowth refers to.
const shellReference = 200e5

// shellGrowthMax bounds GasOptions.ShellGrowth: composite liners grow most.
const shellGrowthMax = 0.05

// GasOptions describe a cylinder of compressed oxygen.
type GasOptions struct {
	Volume float64 // inner volume ("water capacity") in m3, as stamped; nominal ones are off by 1 % to 2 %
	Purity float64 // mass fraction of oxygen in the gas, above 0 and up to 1

	// Reserve is the absolute pressure in Pa below which the content cannot, or
	// must not, be used. An open cylinder still holds gas of ambient pressure, 67 g
	// in 50 L: that much is the least reserve, unless a pump draws it.
	Reserve float64

	// ShellGrowth is the fraction by which the volume grows from 0 to 200 bar: 0.003 to
	// 0.004 of a steel cylinder, by thin-walled theory and by the elastic expansion of
	// hydrostatic tests, whose record tells it of the very cylinder; more of
	// aluminium. 0 where it is not known: the content then reads that much low.
	ShellGrowth float64

	// Slack is how far below vacuum, in Pa, a pressure may come out and still mean an
	// empty cylinder: the transducer's error at zero.
	Slack float64
}

// Gas is a rigid cylinder of compressed oxygen.
//
// The gas is taken for pure oxygen, of which Purity counts: 1 % of nitrogen makes
// the real gas 0.1 % lighter than that, 1 % of argon 0.2 % heavier (by molar mass).
type Gas struct{ o GasOptions }

// NewGas makes a cylinder. The error lists all that is wrong with the options.
func NewGas(o GasOptions) (Gas, error) {
	err := errors.Join(
		positive("volume in m3", o.Volume, volumeMax),
		positive("purity", o.Purity, 1),
		option("reserve pressure in Pa", o.Reserve, 0, oxygen.GasPressureMax),
		option("shell growth", o.ShellGrowth, 0, shellGrowthMax),
		option("slack in Pa", o.Slack, 0, oxygen.GasPressureMax),
	)
	if err != nil {
		return Gas{}, err
	}
	return Gas{o}, nil
}

// Content is the content at an absolute pressure in Pa and the temperature of
// the gas in K. Errors: ErrNotFinite; ErrUnderRange for a pressure more than the
// slack below vacuum; ErrOutsideModel, wrapping an *oxygen.RangeError, beyond the
// equation of state's range (200 K to 350 K, 35 MPa).
func (g Gas) Content(pressure, temperature float64) (Content, error) {
	if g == (Gas{}) {
		return Content{}, errNotMade
	}
	if err := finite("pressure", pressure); err != nil {
		return Content{}, err
	}
	if pressure < -g.o.Slack {
		return Content{}, fmt.Errorf("pressure of %g Pa absolute: %w", pressure, ErrUnderRange)
	}
	total, err := g.mass(max(pressure, 0), temperature)
	if err != nil {
		return Content{}, err
	}
	reserve, err := g.mass(g.o.Reserve, temperature)
	if err != nil {
		return Content{}, err
	}
	return newContent(total, reserve), nil
}

// mass is the oxygen in the cylinder in kg.
func (g Gas) mass(pressure, temperature float64) (float64, error) {
	density, err := oxygen.Density(pressure, temperature)
	if err != nil {
		return 0, outsideModel(err)
	}
	volume := g.o.Volume * (1 + g.o.ShellGrowth*pressure/shellReference)
	return density * volume * g.o.Purity, nil
}

package vessel

import (
	"errors"
	"fmt"

	"oxyd/sensors/oxygen"
)

// StandardGravity is the acceleration of fall in m/s2 where LOXOptions names none.
// On Earth's ground it is right to 0.3 %.
const StandardGravity = 9.80665

// liquidDensityMax bounds StrappingOptions.Density in kg/m3: oxygen at its triple
// point has 1306.
const liquidDensityMax = 1350.0

// StrappingOptions describe a tank of liquid oxygen whose level is known.
type StrappingOptions struct {
	// Levels is the strapping table: X the level in m, Y the volume of the liquid below
	// it in m3. Both rise from row to row.
	Levels []Point
	Smooth bool // a monotone cubic through the rows instead of straight lines

	// Slack is how far, as a part of the table's span, a level may lie beyond the
	// table and be taken for its end.
	Slack float64

	// Density of the liquid in kg/m3, fixed; the gas above it then counts nothing. 0:
	// liquid and gas are taken for saturated at the vessel's pressure.
	Density float64

	Volume  float64 // inner volume of the whole vessel in m3, needed unless Density is given
	Purity  float64 // mass fraction of oxygen, above 0 and up to 1
	Reserve float64 // kg of oxygen that cannot, or must not, be used
}

// faults lists all that is wrong with the options but the table itself.
func (o StrappingOptions) faults() error {
	errs := []error{
		positive("purity", o.Purity, 1),
		option("reserve in kg", o.Reserve, 0, massMax),
		option("density in kg/m3", o.Density, 0, liquidDensityMax),
	}
	if o.Density == 0 {
		errs = append(errs, positive("volume in m3", o.Volume, volumeMax))
	}
	for i, p := range o.Levels {
		if p.Y < 0 || p.Y > volumeMax || o.Density == 0 && p.Y > o.Volume {
			errs = append(errs, fmt.Errorf("row %d: the volume %g m3 does not lie within the vessel's %g m3", i+1, p.Y, o.Volume))
		}
	}
	return errors.Join(errs...)
}

// rising refuses a table by which more liquid would not stand higher. Its rows are
// those that NewTable took.
func rising(levels []Point) error {
	for i := 1; i < len(levels); i++ {
		if levels[i].X < levels[i-1].X || levels[i].Y <= levels[i-1].Y {
			return fmt.Errorf("rows %d and %d: level and volume do not both rise", i, i+1)
		}
	}
	return nil
}

// Strapping is a tank with a level gauge and a table from level to volume.
type Strapping struct {
	o     StrappingOptions // without Levels, which the table holds
	table Table
}

// NewStrapping makes a tank. The error lists all that is wrong with the options.
func NewStrapping(o StrappingOptions) (Strapping, error) {
	table, err := NewTable(o.Levels, TableOptions{Slack: o.Slack, Smooth: o.Smooth})
	if err == nil {
		err = rising(o.Levels)
	}
	if err := errors.Join(err, o.faults()); err != nil {
		return Strapping{}, err
	}
	o.Levels = nil
	return Strapping{o: o, table: table}, nil
}

// Content is the content at a level in m and an absolute pressure of the vessel in
// Pa; with a fixed density the pressure is not looked at. Errors: ErrNotFinite;
// ErrUnderRange and ErrOverRange for a level beyond the table and its slack;
// ErrOutsideModel, wrapping an *oxygen.RangeError, for a pressure beyond the range
// of oxygen.Saturation.
//
// Saturation is what a vessel at rest comes to. Liquid that was filled colder, or
// whose pressure was raised faster than it warms, is denser than this says: by
// up to 9 % at 5 bar.
func (s Strapping) Content(level, pressure float64) (Content, error) {
	if s.o.Density > 0 {
		return s.content(level, oxygen.Saturated{Liquid: s.o.Density})
	}
	phases, err := oxygen.Saturation(pressure)
	if err != nil {
		return Content{}, outsideModel(err)
	}
	return s.content(level, phases)
}

// content is the liquid below the level and the gas above it.
func (s Strapping) content(level float64, phases oxygen.Saturated) (Content, error) {
	volume, err := s.table.At(level)
	if err != nil {
		return Content{}, fmt.Errorf("level in m: %w", err)
	}
	total := phases.Liquid * volume
	if phases.Vapour > 0 {
		total += phases.Vapour * (s.o.Volume - volume)
	}
	return newContent(total*s.o.Purity, s.o.Reserve), nil
}

// LOXOptions describe a dewar of liquid oxygen whose level is told by the
// differential pressure between its bottom and its top.
type LOXOptions struct {
	StrappingOptions         // Density must be 0: it is the pressure's business
	Gravity          float64 // acceleration of fall at the site in m/s2; 0: StandardGravity
}

// Bounds of LOXOptions.Gravity in m/s2: the Moon's 1.6 and all that people land on
// lie within.
const (
	gravityMin = 1.0
	gravityMax = 15.0
)

// LOX is a dewar of liquid oxygen with a differential pressure transmitter.
//
// Liquid and gas are taken for saturated at the vessel's pressure. In a vessel with
// straight walls the densities cancel but for the gas above the liquid: the
// differential pressure weighs the column. The table's shape decides how much of the
// density's error is left.
type LOX struct {
	tank    Strapping
	gravity float64
}

// NewLOX makes a dewar. The error lists all that is wrong with the options.
func NewLOX(o LOXOptions) (LOX, error) {
	var errs []error
	if o.Density != 0 {
		errs = append(errs, fmt.Errorf("density %g kg/m3: a level from differential pressure takes it from the vessel's pressure", o.Density))
	}
	if o.Gravity == 0 {
		o.Gravity = StandardGravity
	}
	errs = append(errs, option("gravity in m/s2", o.Gravity, gravityMin, gravityMax))
	tank, err := NewStrapping(o.StrappingOptions)
	if err := errors.Join(append(errs, err)...); err != nil {
		return LOX{}, err
	}
	return LOX{tank: tank, gravity: o.Gravity}, nil
}

// Level is the height of the liquid in m, ΔP/((ρL-ρV) g), from the differential
// pressure in Pa and the vessel's absolute pressure in Pa. It may lie beyond the
// table. Errors: ErrNotFinite, and ErrOutsideModel as of Strapping.Content.
func (l LOX) Level(differential, pressure float64) (float64, error) {
	level, _, err := l.level(differential, pressure)
	return level, err
}

// level is the height, and the densities that it was computed with.
func (l LOX) level(differential, pressure float64) (float64, oxygen.Saturated, error) {
	if l.gravity == 0 {
		return 0, oxygen.Saturated{}, errNotMade
	}
	if err := finite("differential pressure", differential); err != nil {
		return 0, oxygen.Saturated{}, err
	}
	phases, err := oxygen.Saturation(pressure)
	if err != nil {
		return 0, oxygen.Saturated{}, outsideModel(err)
	}
	return differential / ((phases.Liquid - phases.Vapour) * l.gravity), phases, nil
}

// Content is the content at a differential pressure and an absolute pressure of
// the vessel, both in Pa. Errors as of Strapping.Content.
func (l LOX) Content(differential, pressure float64) (Content, error) {
	level, phases, err := l.level(differential, pressure)
	if err != nil {
		return Content{}, err
	}
	return l.tank.content(level, phases)
}

package config

import (
	"cmp"
	"reflect"
	"slices"
)

// MaxCalibrationPoints and MaxTableRows bound what one sensor may list.
const (
	MaxCalibrationPoints = 64
	MaxTableRows         = 256
)

// validateCalibration checks what turns the signal into the quantity: a range, a
// calibration or a record of one, and no more than one of them.
func (r *reader) validateCalibration(c *Config, s *Sensor, path string) {
	if r.unclear(path+".signal") || r.unclear(path+".model") || r.unclear(path+".measures") || r.unclear(path+".tank") {
		return
	}
	span, points, file := path+".range", path+".calibration", path+".calibration_file"
	electrical := signalKey(s.Signal)
	if s.Measures == KindVoltage {
		for _, key := range []string{span, points, file} {
			r.notStanding(key, nil, "has no effect: a probe of a voltage gives volts")
		}
		if s.VoltsMin == 0 {
			r.mustStand(path+".volts_min", "what a working sensor gives at least")
		}
		if s.VoltsMax == 0 {
			r.mustStand(path+".volts_max", "what a working sensor gives at most")
		}
		r.validateVolts(s, path, false)
		return
	}
	if electrical == "" {
		return // the chip gives the quantity; keys of other signals are reported
	}
	stand := slices.DeleteFunc([]string{span, points, file}, func(key string) bool { return !r.stands(key) })
	if len(stand) > 1 {
		r.fault(stand[1], []string{stand[0]}, "stands beside %s: one of them says what the signal means", stand[0][len(path)+1:])
	}
	if len(stand) == 0 {
		or := "or calibration_file"
		if s.Signal == SignalRatiometric || s.Signal == SignalLoop {
			or = "or range, or calibration_file"
		}
		r.fault(points, []string{span, file}, "is missing: two points of %s and %s, %s", electrical, s.quantityKey(), or)
	}
	if r.stands(file) {
		r.notEmpty(file, s.CalibrationFile)
	}
	if r.stands(span) {
		r.validateRange(c, s, path)
	}
	calibrated := r.stands(points) && r.validatePoints(c, s, path)
	if s.Signal == SignalVoltage {
		r.validateVolts(s, path, calibrated)
	}
}

func (r *reader) validateRange(c *Config, s *Sensor, sensor string) {
	path := sensor + ".range"
	if len(s.Range) != 2 {
		r.fault(path, nil, "has %d values: two, at the low and at the high end of the signal", len(s.Range))
		return
	}
	full, capacity := capacityOf(c, s.Tank)
	for i, q := range s.Range {
		at := index(path, i)
		if q.Kind != s.Quantity() {
			r.fault(at, []string{sensor + ".table"}, "%v is a %s, and a %s is needed%s", q, q.Kind, s.Quantity(), neededBy(s))
		}
		if s.Model == ModelLinear && full > 0 && Mass(q.Steps) > full {
			r.fault(at, []string{capacity}, "%v is more than the tank's capacity %v", q, full)
		}
	}
	if s.Range[0] == s.Range[1] {
		r.fault(path, []string{index(path, 0), index(path, 1)}, "is %v at both ends: full and empty cannot be the same", s.Range[0])
	}
}

// validatePoints reports whether the points make a curve, and puts them in rising
// order of the signal.
func (r *reader) validatePoints(c *Config, s *Sensor, sensor string) bool {
	path, points := sensor+".calibration", s.Calibration
	switch n := len(points); {
	case s.Model == ModelLinear && n != 2:
		r.fault(path, nil, "has %d points: two make the line", n)
	case n < 2:
		r.fault(path, nil, "has %d points: two or more make the line", n)
	case n > MaxCalibrationPoints:
		r.fault(path, nil, "has %d points, more than %d", n, MaxCalibrationPoints)
		return false
	}
	for i := range points {
		r.validatePoint(c, s, sensor, i)
		r.validateApart(s, path, i)
	}
	if r.faultyBelow(path) {
		return false
	}
	r.validateMonotone(s, path)
	slices.SortStableFunc(points, func(a, b CalibrationPoint) int {
		return cmp.Compare(a.electrical(s.Signal).steps, b.electrical(s.Signal).steps)
	})
	return !r.faultyBelow(path)
}

// validatePoint checks one point by itself.
func (r *reader) validatePoint(c *Config, s *Sensor, sensor string, i int) {
	at, p := index(sensor+".calibration", i), &s.Calibration[i]
	electrical, physical := signalKey(s.Signal), s.quantityKey()
	for _, key := range keysOf(reflect.TypeFor[CalibrationPoint]()) {
		full := at + "." + key
		switch wanted := key == electrical || key == physical; {
		case wanted && !r.stands(full):
			r.fault(full, nil, "is missing")
		case !wanted && r.stands(full):
			subject := "the model " + s.Model
			if s.Auxiliary() {
				subject = "a probe of a " + string(s.Measures)
			}
			r.fault(full, nil, "does not belong here: with the signal %s and %s a point pairs %s and %s", s.Signal, subject, electrical, physical)
		}
	}
	x := at + "." + electrical
	switch {
	case s.Signal == SignalVoltage && p.Volts != nil && *p.Volts == 0:
		r.fault(x, nil, "must be more than 0 V, which is what a wire that came off gives")
	case s.Signal == SignalRatiometric && p.Fraction != nil:
		within(r, x, *p.Fraction, RatiometricLow, RatiometricHigh)
	case s.Signal == SignalLoop && p.Current != nil && len(s.LoopLimits) == 4 && !r.faultyBelow(sensor+".loop_limits"):
		within(r, x, *p.Current, s.LoopLimits[1], s.LoopLimits[2])
	}
	if full, capacity := capacityOf(c, s.Tank); full > 0 && s.Model == ModelLinear && p.Remaining != nil && *p.Remaining > full {
		r.fault(at+".remaining", []string{capacity, sensor + ".tank"}, "%v is more than the tank's capacity %v", *p.Remaining, full)
	}
}

// validateApart checks that a point differs from those before it, on both sides.
func (r *reader) validateApart(s *Sensor, path string, i int) {
	electrical, physical := signalKey(s.Signal), s.quantityKey()
	x, y := s.Calibration[i].electrical(s.Signal), s.Calibration[i].physical(physical)
	at := index(path, i)
	for j := range i {
		before := index(path, j)
		if q := s.Calibration[j].electrical(s.Signal); x.given && q.given && q.steps == x.steps {
			r.fault(at+"."+electrical, []string{before + "." + electrical}, "%v stands in %s too: two points of one %s give no line",
				x.text, before, wordOf(electrical))
		}
		if q := s.Calibration[j].physical(physical); y.given && q.given && q.steps == y.steps {
			why := "full and empty cannot be the same"
			if s.Auxiliary() {
				why = "two points of one " + wordOf(physical) + " give no line"
			}
			r.fault(at+"."+physical, []string{before + "." + physical}, "%v stands in %s too: %s", y.text, before, why)
		}
	}
}

// wordOf is what a key's value is called.
func wordOf(key string) string {
	switch key {
	case "volts":
		return "voltage"
	case "counts":
		return "count"
	}
	return key
}

// validateMonotone checks that points which differ rise all along with the signal,
// or fall all along.
func (r *reader) validateMonotone(s *Sensor, path string) {
	order := make([]int, len(s.Calibration))
	for i := range order {
		order[i] = i
	}
	x := func(i int) coordinate { return s.Calibration[order[i]].electrical(s.Signal) }
	y := func(i int) coordinate { return s.Calibration[order[i]].physical(s.quantityKey()) }
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(s.Calibration[a].electrical(s.Signal).steps, s.Calibration[b].electrical(s.Signal).steps)
	})
	for i := 2; i < len(order); i++ {
		if rising := y(1).steps > y(0).steps; (y(i).steps > y(i-1).steps) != rising {
			r.fault(index(path, order[i])+"."+s.quantityKey(), nil, "%s at %s turns back from %s at %s: the points rise all along or fall all along",
				y(i).text, x(i).text, y(i-1).text, x(i-1).text)
			return
		}
	}
}

// capacityOf gives the capacity of a tank and its key; 0 where it is not known.
func capacityOf(c *Config, tank string) (full Mass, key string) {
	for i, t := range c.Tanks {
		if t.ID == tank {
			return t.Capacity, index("tanks", i) + ".capacity"
		}
	}
	return 0, ""
}

// validateVolts checks the plausible range against itself and, where there is
// a calibration in order of volts, against that.
func (r *reader) validateVolts(s *Sensor, path string, calibrated bool) {
	lowest, highest, scale := path+".volts_min", path+".volts_max", path+"."+scaleKey(s)
	if r.stands(lowest) && s.VoltsMin == 0 {
		r.fault(lowest, nil, "must be more than 0 V, which is what a wire that came off gives")
	}
	if r.stands(lowest) && r.stands(highest) && s.VoltsMin >= s.VoltsMax {
		r.fault(lowest, []string{highest}, "%v is not below volts_max %v", s.VoltsMin, s.VoltsMax)
		return
	}
	full, high := s.FullScaleAtSensor(), s.VoltsMax
	if calibrated {
		high = *s.Calibration[len(s.Calibration)-1].Volts
		if low := *s.Calibration[0].Volts; s.VoltsMin > low {
			r.fault(lowest, nil, "%v is above the lower point of the calibration, %v", s.VoltsMin, low)
		}
	}
	behind := ""
	if s.Divider > DefaultDivider {
		behind = " times divider " + s.Divider.String()
	}
	switch {
	case calibrated && full > 0 && high >= full:
		r.fault(scale, []string{path + ".divider"}, "%v%s%s clips the calibration, which goes up to %v: take a larger one", s.FullScale(), r.byDefault(scale), behind, high)
	case calibrated && s.VoltsMax < high:
		r.fault(highest, nil, "%v is below the upper point of the calibration, %v", s.VoltsMax, high)
	case full > 0 && s.VoltsMax >= full:
		r.fault(highest, []string{scale, path + ".divider"}, "%v is not below the full scale of the chip, %s %v%s%s", s.VoltsMax, scaleKey(s), s.FullScale(), r.byDefault(scale), behind)
	}
}

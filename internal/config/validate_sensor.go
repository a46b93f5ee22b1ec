package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// drivers are the names that sensors[].driver may have.
func drivers() []string { return []string{DriverADS1115, DriverSimulated} }

func (r *reader) validateSensors(c *Config) {
	if c.Sensors != nil && len(c.Sensors) == 0 {
		r.warn("sensors", "lists none: this node measures nothing and publishes only what is recorded by hand")
	}
	byTank, byProbe := make(map[string]int), make(map[string]int)
	for i := range c.Sensors {
		s, path := &c.Sensors[i], index("sensors", i)
		r.validateTank(c, s, path)
		if j, twice := byTank[s.Tank]; twice {
			r.fault(path+".tank", nil, "%q already has the sensor %s in line %d: one sensor a tank",
				s.Tank, index("sensors", j), r.placeOf(index("sensors", j)).line)
		} else {
			byTank[s.Tank] = i
		}
		r.displayName(path+".name", s.Name)
		r.validateTimes(c, s, path)
		if !slices.Contains(drivers(), s.Driver) {
			r.oneOf(path+".driver", s.Driver, drivers()...)
			continue
		}
		r.foreignKeys(s, path)
		switch s.Driver {
		case DriverADS1115:
			r.validateADS1115(c, s, path)
			r.validateProbe(s, i, byProbe)
		case DriverSimulated:
			r.validateSimulated(c, s, path)
		}
	}
	if len(c.Sensors) > MaxSensors { // last: it would hide the faults inside
		r.fault("sensors", nil, "lists %d sensors, more than %d", len(c.Sensors), MaxSensors)
	}
}

// validateProbe checks that no other sensor reads the same input of the same
// chip. byProbe holds those before.
func (r *reader) validateProbe(s *Sensor, i int, byProbe map[string]int) {
	path := index("sensors", i)
	if slices.ContainsFunc([]string{path + ".bus", path + ".address", path + ".input"}, r.unclear) {
		return
	}
	probe := fmt.Sprintf("%s, address 0x%02x, input %d", s.Bus, s.Address, s.Input)
	j, twice := byProbe[probe]
	if !twice {
		byProbe[probe] = i
		return
	}
	r.fault(path, nil, "is on %s, as %s in line %d is already", probe, index("sensors", j), r.placeOf(index("sensors", j)).line)
}

// validateTank checks that the sensor's tank is one that the config knows. In
// open mode a tank need not be listed, but a near miss is worth a word.
func (r *reader) validateTank(c *Config, s *Sensor, path string) {
	r.name(path+".tank", s.Tank)
	if c.Tank(s.Tank) != nil || r.unclear(path+".tank") || r.unclear("tanks") {
		return
	}
	var ids []string
	for i, t := range c.Tanks {
		if r.unclear(index("tanks", i) + ".id") {
			return // it may be the one
		}
		ids = append(ids, t.ID)
	}
	near, distance := nearest(s.Tank, ids)
	hint := ""
	if near != "" && distance <= tolerance(s.Tank) {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	switch {
	case c.TanksMode == TanksClosed:
		r.fault(path+".tank", []string{"tanks_mode"}, "%q is not listed in tanks, and tanks_mode is closed%s", s.Tank, hint)
	case hint != "":
		r.warn(path+".tank", "%q is not listed in tanks%s", s.Tank, hint)
	}
}

func (r *reader) validateTimes(c *Config, s *Sensor, path string) {
	within(r, path+".interval", s.Interval, Duration(100*time.Millisecond), Duration(24*time.Hour))
	if s.StaleAfter < s.Interval {
		r.fault(path+".stale_after", []string{path + ".interval"}, "%v is shorter than the interval %v%s: it would be stale between two readings",
			s.StaleAfter, s.Interval, r.byDefault(path+".interval"))
	}
	atMost(r, path+".stale_after", s.StaleAfter, MaxStaleAfter)
	if c.Ledger != nil && s.Interval > c.Ledger.StaleAfter {
		r.fault(path+".interval", []string{"ledger.stale_after"}, "%v is longer than ledger.stale_after %v%s: the tank would be stale between two readings",
			s.Interval, c.Ledger.StaleAfter, r.byDefault("ledger.stale_after"))
	}
}

// foreignKeys reports the keys that stand and belong to another driver.
func (r *reader) foreignKeys(s *Sensor, path string) {
	for _, f := range fieldsOf(reflect.TypeFor[Sensor]()) {
		if full := path + "." + f.key; f.driver != "" && f.driver != s.Driver && r.stands(full) {
			r.fault(full, nil, "belongs to the driver %s, not to %s", f.driver, s.Driver)
		}
	}
}

func (r *reader) validateADS1115(c *Config, s *Sensor, path string) {
	if _, ok := busPath(s.Bus); !ok {
		r.fault(path+".bus", nil, "%q is not an I2C bus such as 1 or /dev/i2c-1", shorten(s.Bus))
	}
	if s.Address < 0x48 || s.Address > 0x4b {
		r.fault(path+".address", nil, "0x%02x is not an address of the chip: 0x48 to 0x4b", s.Address)
	}
	if !r.stands(path + ".input") {
		r.fault(path+".input", nil, "is missing: 0 to 3, for A0 to A3")
	}
	within(r, path+".input", s.Input, 0, 3)
	gains := []Volts{6_144_000_000, 4_096_000_000, 2_048_000_000, 1_024_000_000, 512_000_000, 256_000_000}
	if !slices.Contains(gains, s.Gain) {
		r.fault(path+".gain", nil, "%v is not a full scale of the chip: %s", s.Gain, listed(gains))
	}
	rates := []int{8, 16, 32, 64, 128, 250, 475, 860}
	if !slices.Contains(rates, s.Rate) {
		r.fault(path+".rate", nil, "%d is not a rate of the chip: %s", s.Rate, listed(rates))
	}
	if slices.Contains(rates, s.Rate) && s.Interval < conversion(s.Rate) {
		r.fault(path+".interval", []string{path + ".rate"}, "%v is shorter than a conversion at %d a second%s, which can take %v",
			s.Interval, s.Rate, r.byDefault(path+".rate"), conversion(s.Rate))
	}
	r.validateVolts(s, path, r.validateCalibration(c, s, path))
}

// conversion is how long one can take: the chip's oscillator may be 10 % slow
// (SBAS444, data rate variation), and the bus takes its time too.
func conversion(rate int) Duration { return Duration(time.Second) / Duration(rate) * 5 / 4 }

// validateCalibration reports whether the points make a line, and puts them in
// rising order of volts.
func (r *reader) validateCalibration(c *Config, s *Sensor, sensor string) bool {
	path, points := sensor+".calibration", s.Calibration
	if !r.stands(path) {
		r.fault(path, nil, "is missing: two points of volts and remaining")
		return false
	}
	if len(points) != 2 {
		r.fault(path, nil, "has %d points: two make the line", len(points))
	}
	full, capacity := capacityOf(c, s.Tank)
	for i, p := range points {
		volts, remaining := index(path, i)+".volts", index(path, i)+".remaining"
		if p.Volts == 0 {
			r.fault(volts, nil, "must be more than 0 V, which is what a wire that came off gives")
		}
		if full > 0 && p.Remaining > full {
			r.fault(remaining, []string{capacity, sensor + ".tank"}, "%v is more than the tank's capacity %v", p.Remaining, full)
		}
		for j, q := range points[:i] {
			if p.Volts == q.Volts {
				r.fault(volts, []string{index(path, j) + ".volts"}, "%v stands in %s too: two points of one voltage give no line", p.Volts, index(path, j))
			}
			if p.Remaining == q.Remaining {
				r.fault(remaining, []string{index(path, j) + ".remaining"}, "%v stands in %s too: full and empty cannot be the same", p.Remaining, index(path, j))
			}
		}
	}
	slices.SortStableFunc(points, func(a, b CalibrationPoint) int { return cmp.Compare(a.Volts, b.Volts) })
	return !r.unclear(path) && !slices.ContainsFunc(r.faults, func(f Fault) bool { return strings.HasPrefix(f.Key, path) })
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
	lowest, highest, gain := path+".volts_min", path+".volts_max", path+".gain"
	if r.stands(lowest) && s.VoltsMin == 0 {
		r.fault(lowest, nil, "must be more than 0 V, which is what a wire that came off gives")
	}
	if r.stands(lowest) && r.stands(highest) && s.VoltsMin >= s.VoltsMax {
		r.fault(lowest, []string{highest}, "%v is not below volts_max %v", s.VoltsMin, s.VoltsMax)
		return
	}
	if !calibrated {
		return
	}
	low, high := s.Calibration[0].Volts, s.Calibration[1].Volts
	if s.VoltsMin > low {
		r.fault(lowest, nil, "%v is above the lower point of the calibration, %v", s.VoltsMin, low)
	}
	switch {
	case high >= s.Gain:
		r.fault(gain, nil, "%v%s clips the calibration, which goes up to %v: take a larger one", s.Gain, r.byDefault(gain), high)
	case s.VoltsMax < high:
		r.fault(highest, nil, "%v is below the upper point of the calibration, %v", s.VoltsMax, high)
	case s.VoltsMax >= s.Gain:
		r.fault(highest, []string{gain}, "%v is not below the full scale of the chip, gain %v%s", s.VoltsMax, s.Gain, r.byDefault(gain))
	}
}

func (r *reader) validateSimulated(c *Config, s *Sensor, path string) {
	path += ".simulated"
	start, refill := path+".start", path+".refill_below"
	if s.Simulated.Start == 0 {
		r.fault(start, nil, "must be more than 0 g")
	}
	if full, capacity := capacityOf(c, s.Tank); full > 0 && s.Simulated.Start > full {
		r.fault(start, []string{capacity}, "%v is more than the tank's capacity %v", s.Simulated.Start, full)
	}
	atMost(r, refill, s.Simulated.RefillBelow, 100_0000)
	if !r.unclear(refill) && s.Simulated.Start <= s.Simulated.RefillBelow.Of(s.Simulated.Full) {
		at := refill
		if !r.stands(at) {
			at = start
		}
		r.fault(at, []string{start}, "start %v%s is not above refill_below %v%s of %v", s.Simulated.Start, r.byDefault(start),
			s.Simulated.RefillBelow, r.byDefault(refill), s.Simulated.Full)
	}
}

func listed[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ", ")
}

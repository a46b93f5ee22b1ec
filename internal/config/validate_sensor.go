package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"oxyd/internal/event"
)

// MaxSensors bounds the sensors of one board.
const MaxSensors = 256

func (r *reader) validateSensors(c *Config) {
	if c.Sensors != nil && len(c.Sensors) == 0 {
		r.warn("sensors", "lists none: this node measures nothing and publishes only what is recorded by hand")
	}
	r.validateTankShares(c)
	r.validateSensorNames(c)
	taken := places{at: make(map[string]int), chips: make(map[string]int)}
	for i := range c.Sensors {
		s, path := &c.Sensors[i], index("sensors", i)
		r.validateSubject(c, s, path)
		r.validateTimes(c, s, path)
		if !slices.Contains(drivers(), s.Driver) {
			r.oneOf(path+".driver", s.Driver, drivers()...)
			continue
		}
		r.foreignKeys(s, path)
		r.validateDriver(c, s, path)
		if analog(s.Driver) {
			r.validateSignal(s, path)
			r.validateCalibration(c, s, path)
			r.validateModel(c, s, path)
		}
		r.validateReporting(c, s, path)
		r.validatePlaces(c, i, taken)
	}
	if len(c.Sensors) > MaxSensors { // last: it would hide the faults inside
		r.fault("sensors", nil, "lists %d sensors, more than %d", len(c.Sensors), MaxSensors)
	}
}

// validateSubject checks that it is on a tank or measures something else, and that
// its driver can do that.
func (r *reader) validateSubject(c *Config, s *Sensor, path string) {
	tank, measures := path+".tank", path+".measures"
	switch {
	case r.stands(tank) && r.stands(measures):
		r.fault(measures, []string{tank}, "stands beside tank: a sensor is on a tank, or a probe that others refer to")
	case r.stands(measures):
		r.oneOf(measures, string(s.Measures), string(KindTemperature), string(KindPressure), string(KindVoltage))
		r.validateProbe(s, path)
	case r.stands(tank):
		r.validateTank(c, s, path)
		if s.Driver == DriverDS18B20 || s.Driver == DriverMAX31865 {
			r.fault(path+".driver", []string{tank}, "%s measures a temperature, which alone says nothing of a tank: "+
				"instead of tank write measures: temperature, a name, and refer to it", s.Driver)
		}
	default:
		r.fault(tank, []string{measures}, "is missing (or measures, for a probe that others refer to)")
	}
}

// validateProbe checks that the driver can measure what the probe is to measure.
func (r *reader) validateProbe(s *Sensor, path string) {
	measures := path + ".measures"
	able := []Kind{KindTemperature, KindPressure, KindVoltage}
	switch s.Driver {
	case DriverDS18B20, DriverMAX31865:
		able = able[:1]
	case DriverSFM, DriverPulse, DriverSimulated:
		r.fault(measures, []string{path + ".driver"}, "is not for the driver %s, which is on a tank: write tank", s.Driver)
		return
	}
	if !slices.Contains(able, s.Measures) {
		r.fault(measures, []string{path + ".driver"}, "is %s, and the driver %s measures temperature", s.Measures, s.Driver)
	}
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
	hint := didYouMean(s.Tank, ids)
	switch {
	case c.TanksMode == TanksClosed:
		r.fault(path+".tank", []string{"tanks_mode"}, "%q is not listed in tanks, and tanks_mode is closed%s", s.Tank, hint)
	case hint != "":
		r.warn(path+".tank", "%q is not listed in tanks%s", s.Tank, hint)
	}
}

// didYouMean gives the end of a message where a word is a slip of a candidate.
func didYouMean(word string, candidates []string) string {
	near, distance := nearest(word, candidates)
	if near == "" || distance > tolerance(word) {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", near)
}

// validateTankShares checks who shares a tank: one sensor of its content, any
// number of flow sensors, all of them with a name.
func (r *reader) validateTankShares(c *Config) {
	content, on, doubled := make(map[string]int), make(map[string][]int), make(map[string]bool)
	for i := range c.Sensors {
		s, path := &c.Sensors[i], index("sensors", i)
		if s.Tank == "" || r.unclear(path+".tank") || !slices.Contains(drivers(), s.Driver) {
			continue
		}
		on[s.Tank] = append(on[s.Tank], i)
		if s.Flow() {
			continue
		}
		if j, twice := content[s.Tank]; twice {
			r.fault(path+".tank", nil, "%q already has the sensor %s in line %d: one sensor of the content a tank",
				s.Tank, index("sensors", j), r.lineOf("sensors", j))
			doubled[s.Tank] = true
			continue
		}
		content[s.Tank] = i
	}
	for tank, sharers := range on {
		j, measured := content[tank]
		for _, i := range sharers {
			s, path := &c.Sensors[i], index("sensors", i)
			if len(sharers) > 1 && s.Name == "" && !doubled[tank] {
				r.fault(path+".name", []string{path + ".tank"}, "is missing: tank %q has several sensors, and each needs a name of its own", tank)
			}
			if flow := s.Flow(); flow && measured && c.Sensors[j].Consumption != nil {
				r.fault(index("sensors", j)+".consumption", []string{path + ".tank"}, "would book what %s in line %d measures as flow a second time: leave one of them out",
					path, r.lineOf("sensors", i))
			}
		}
	}
}

func (r *reader) lineOf(list string, i int) int { return r.placeOf(index(list, i)).line }

// validateSensorNames checks that every name is one sensor's alone, and that those
// of probes can be referred to.
func (r *reader) validateSensorNames(c *Config) {
	first := make(map[string]int)
	for i := range c.Sensors {
		s, path := &c.Sensors[i], index("sensors", i)
		r.displayName(path+".name", s.Name)
		switch {
		case s.Name == "" && s.Auxiliary():
			r.fault(path+".name", []string{path + ".measures"}, "is missing: others refer to a probe by its name")
		case s.Auxiliary() && !(event.ValidName(s.Name) && beginsWithLetter(s.Name)):
			r.fault(path+".name", []string{path + ".measures"}, "%q is not a probe's name: 1 to %d of the characters A-Z a-z 0-9 . _ -, the first a letter",
				shorten(s.Name), maxNameBytes)
		}
		if j, twice := first[s.Name]; twice && s.Name != "" {
			r.fault(path+".name", nil, "%q is already the name of %s in line %d", s.Name, index("sensors", j), r.lineOf("sensors", j))
		} else {
			first[s.Name] = i
		}
	}
}

func (r *reader) validateTimes(c *Config, s *Sensor, path string) {
	interval := path + ".interval"
	within(r, interval, s.Interval, Duration(100*time.Millisecond), Duration(24*time.Hour))
	if s.StaleAfter < s.Interval {
		r.fault(path+".stale_after", []string{interval}, "%v is shorter than the interval %v%s: it would be stale between two readings",
			s.StaleAfter, s.Interval, r.byDefault(interval))
	}
	atMost(r, path+".stale_after", s.StaleAfter, MaxStaleAfter)
	if c.Ledger != nil && s.Interval > c.Ledger.StaleAfter && !s.Auxiliary() && !s.Flow() {
		r.fault(interval, []string{"ledger.stale_after"}, "%v is longer than ledger.stale_after %v%s: the tank would be stale between two readings",
			s.Interval, c.Ledger.StaleAfter, r.byDefault("ledger.stale_after"))
	}
}

// foreignKeys reports the keys that stand and belong to another driver, signal or
// model.
func (r *reader) foreignKeys(s *Sensor, path string) {
	signal, model := path+".signal", path+".model"
	measures := "measures:" + string(s.Measures)
	for _, f := range fieldsOf(reflect.TypeFor[Sensor]()) {
		full := path + "." + f.key
		if !r.stands(full) {
			continue
		}
		of, signals, models := owners(f.driver), owners(f.signal), owners(f.model)
		switch {
		case f.driver != "" && !slices.Contains(of, s.Driver):
			r.fault(full, nil, "belongs to the %s, not to %s", plural("driver", of), s.Driver)
		case f.signal != "" && !slices.Contains(signals, s.Signal):
			r.fault(full, []string{signal}, "belongs to the %s, not to %s%s", plural("signal", signals), s.Signal, r.byDefault(signal))
		case f.model != "" && s.Auxiliary() && !slices.Contains(models, measures):
			r.fault(full, []string{path + ".measures"}, "belongs to a tank, not to a probe of a %s", s.Measures)
		case f.model != "" && !s.Auxiliary() && !slices.Contains(models, s.Model):
			r.fault(full, []string{model}, "belongs to the %s, not to %s%s", plural("model", models), s.Model, r.byDefault(model))
		}
	}
	if s.Auxiliary() {
		for _, key := range []string{"model", "report", "consumption"} {
			r.notStanding(path+"."+key, []string{path + ".measures"}, "belongs to a tank, not to a probe that others refer to")
		}
	}
}

// owners are those that a tag of a field names.
func owners(tag string) []string {
	var all []string
	for owner := range strings.SplitSeq(tag, ",") {
		if owner == "analog" {
			all = append(all, analogDrivers()...)
			continue
		}
		all = append(all, owner)
	}
	return all
}

func plural(noun string, names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "measures:") })
	if len(names) == 1 {
		return noun + " " + names[0]
	}
	return noun + "s " + strings.Join(names, ", ")
}

// notStanding reports a key that stands where it has no meaning.
func (r *reader) notStanding(path string, others []string, format string, args ...any) {
	if r.stands(path) {
		r.fault(path, others, format, args...)
	}
}

// mustStand reports a key that is missing, and says whether it stands.
func (r *reader) mustStand(path, what string) bool {
	if !r.stands(path) {
		r.fault(path, nil, "is missing: %s", what)
		return false
	}
	return true
}

func listed[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ", ")
}

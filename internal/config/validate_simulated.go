package config

import (
	"slices"
	"strings"
)

// MaxScript bounds the times of a simulated tank's events.
const MaxScript = MaxWindow

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
	r.suspicious(refill, s.Simulated.RefillBelow)
	if s.Simulated.NoRefill {
		r.notStanding(refill, []string{path + ".no_refill"}, "has no effect beside no_refill")
	}
	if s.Simulated.LSB > s.Simulated.Full {
		r.fault(path+".lsb", []string{start}, "%v is more than the tank holds, %v", s.Simulated.LSB, s.Simulated.Full)
	}
	if !r.unclear(refill) && !s.Simulated.NoRefill && s.Simulated.Start <= s.Simulated.RefillBelow.Of(s.Simulated.Full) {
		at := refill
		if !r.stands(at) {
			at = start
		}
		r.fault(at, []string{start, path + ".no_refill"}, "start %v%s is not above refill_below %v%s of %v", s.Simulated.Start, r.byDefault(start),
			s.Simulated.RefillBelow, r.byDefault(refill), s.Simulated.Full)
	}
	r.validateDay(s.Simulated, path)
	if n := len(s.Simulated.Events); n > MaxSimulatedEvents {
		r.fault(path+".events", nil, "has %d events, more than %d", n, MaxSimulatedEvents)
		return
	}
	for i := range s.Simulated.Events {
		r.validateEvent(&s.Simulated.Events[i], index(path+".events", i))
	}
}

// validateDay checks that the crew's sleep fits into its day.
func (r *reader) validateDay(s *Simulated, path string) {
	day, after, asleep := path+".day", path+".asleep_after", path+".asleep_for"
	within(r, day, s.Day, Duration(1e9), MaxScript)
	atMost(r, after, s.AsleepAfter, s.Day)
	if s.AsleepFor > s.Day-s.AsleepAfter {
		r.fault(asleep, []string{day, after}, "%v after %v does not fit into a day of %v%s", s.AsleepFor, s.AsleepAfter, s.Day, r.byDefault(day))
	}
	if s.AsleepFor == 0 {
		for _, key := range []string{after, path + ".asleep_per_hour"} {
			r.notStanding(key, []string{asleep}, "has no effect without asleep_for")
		}
	}
}

// validateEvent checks one line of a script: its times, and that it has the keys of
// what it does and no others.
func (r *reader) validateEvent(e *SimulatedEvent, path string) {
	for key, span := range map[string]Duration{"at": e.At, "for": e.For, "every": e.Every} {
		atMost(r, path+"."+key, span, MaxScript)
	}
	do := path + ".do"
	instant := e.Do == DoBurst || e.Do == DoRefill || e.Do == DoSpike
	switch {
	case e.Do == DoCooling && e.For == 0:
		r.fault(path+".for", []string{do}, "is missing: it is the time constant of cooling")
	case e.Do == DoCooling || e.Every == 0:
	case e.Every < e.For:
		r.fault(path+".every", []string{path + ".for", do}, "%v is shorter than for, %v: it would begin again before it ends", e.Every, e.For)
	case e.For == 0 && !instant:
		r.fault(path+".every", []string{path + ".for", do}, "%v has no effect: without for, a %s lasts for ever", e.Every, e.Do)
	}
	wanted, known := eventKeys()[e.Do]
	if !known {
		if r.stands(do) {
			r.oneOf(do, e.Do, DoLeak, DoBurst, DoRefill, DoRemove, DoCooling, DoDrift, DoSpike, DoStick, DoNoise, DoFault, DoHang, DoVanish)
		}
		return
	}
	for _, key := range []string{"rate", "to", "by", "sigma", "reason"} {
		full := path + "." + key
		switch must := slices.Contains(wanted, key+"!"); {
		case must && !r.stands(full):
			r.fault(full, []string{do}, "is missing: %s has one", e.Do)
		case !must && !slices.Contains(wanted, key):
			r.notStanding(full, []string{do}, "does not belong to %s, which has %s", e.Do, keysIn(wanted))
		}
	}
	zero := map[string]bool{"rate": e.Rate == 0, "by": e.By == 0, "sigma": e.Sigma == 0, "to": e.To == 0}
	for _, key := range []string{"rate", "to", "by", "sigma"} {
		if r.stands(path+"."+key) && zero[key] {
			r.fault(path+"."+key, nil, "must not be 0")
		}
	}
	if e.Rate < 0 && e.Do == DoLeak {
		r.fault(path+".rate", []string{do}, "%v is negative: a leak loses", e.Rate)
	}
	if e.By < 0 && e.Do != DoSpike {
		r.fault(path+".by", []string{do}, "%v is negative: of a %s it is an amount", e.By, e.Do)
	}
	atMost(r, path+".to", e.To, 100_0000)
	r.suspicious(path+".to", e.To)
	if r.stands(path + ".reason") {
		r.oneOf(path+".reason", e.Reason, faultReasons()...)
	}
}

// keysIn names what an event of eventKeys has.
func keysIn(wanted []string) string {
	if len(wanted) == 0 {
		return "at, for and every"
	}
	return "at, for, every and " + strings.TrimSuffix(strings.Join(wanted, ", "), "!")
}

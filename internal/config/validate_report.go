package config

import "time"

// Bounds of filter, report and consumption.
const (
	MinFilterWindow    = 5
	MaxFilterWindow    = 31
	MinFilterSigmas    = Number(1e9)
	MaxFilterSigmas    = Number(20e9)
	MaxStuckAfter      = Duration(168 * time.Hour)
	minStuckIntervals  = 3
	MaxHeartbeat       = Duration(24 * time.Hour)
	MaxConsumptionWait = Duration(24 * time.Hour)
)

// validateReporting checks what becomes of the values.
func (r *reader) validateReporting(c *Config, s *Sensor, path string) {
	if s.Filter != nil {
		r.validateFilter(s, path)
	}
	if s.Report != nil {
		r.validateReport(c, s, path+".report", path+".interval")
	}
	if s.Consumption != nil {
		r.validateConsumption(c, s, path)
	}
}

func (r *reader) validateFilter(s *Sensor, sensor string) {
	path, f := sensor+".filter", s.Filter
	within(r, path+".window", f.Window, MinFilterWindow, MaxFilterWindow)
	if f.Window%2 == 0 {
		r.fault(path+".window", nil, "%d is even: an odd one has a middle", f.Window)
	}
	within(r, path+".sigmas", f.Sigmas, MinFilterSigmas, MaxFilterSigmas)
	if r.stands(path+".max_rate") && f.MaxRate == 0 {
		r.fault(path+".max_rate", nil, "must be more than 0 g/h: leave it out for no bound")
	}
	if s.Auxiliary() {
		for _, key := range []string{"floor", "max_rate"} {
			r.notStanding(path+"."+key, []string{sensor + ".measures"}, "is of a mass, and a probe measures a %s", s.Measures)
		}
	}
	atMost(r, path+".stuck_after", f.StuckAfter, MaxStuckAfter)
	if f.StuckAfter > 0 && f.StuckAfter < minStuckIntervals*s.Interval {
		r.fault(path+".stuck_after", []string{sensor + ".interval"}, "%v is shorter than three intervals of %v%s: so few equal codes say nothing",
			f.StuckAfter, s.Interval, r.byDefault(sensor+".interval"))
	}
}

func (r *reader) validateReport(c *Config, s *Sensor, path, interval string) {
	heartbeat, deadband := path+".heartbeat", path+".deadband"
	if full, capacity := capacityOf(c, s.Tank); full > 0 && s.Report.Deadband >= full {
		r.fault(deadband, []string{capacity}, "%v is not below the tank's capacity %v: no change would ever be told", s.Report.Deadband, full)
	}
	atMost(r, heartbeat, s.Report.Heartbeat, MaxHeartbeat)
	if s.Report.Heartbeat < s.Interval {
		at := heartbeat
		if !r.stands(at) {
			at = interval
		}
		r.fault(at, []string{interval, heartbeat}, "heartbeat %v%s is shorter than the interval %v%s: there is nothing to tell in between",
			s.Report.Heartbeat, r.byDefault(heartbeat), s.Interval, r.byDefault(interval))
	}
	if c.Ledger != nil && s.Report.Heartbeat >= c.Ledger.StaleAfter && !r.unclear(heartbeat) && !r.unclear("ledger.stale_after") {
		r.warn(heartbeat, "%v%s is not shorter than ledger.stale_after %v%s: a tank that is at rest would be shown as stale",
			s.Report.Heartbeat, r.byDefault(heartbeat), c.Ledger.StaleAfter, r.byDefault("ledger.stale_after"))
	}
}

func (r *reader) validateConsumption(c *Config, s *Sensor, sensor string) {
	path, u := sensor+".consumption", s.Consumption
	deadband, settle, refill := path+".deadband", path+".settle", path+".refill_above"
	full, capacity := capacityOf(c, s.Tank)
	switch {
	case u.Deadband == 0:
		r.fault(deadband, nil, "must be more than 0 g: noise would be booked as consumption")
	case full > 0 && u.Deadband >= full:
		r.fault(deadband, []string{capacity}, "%v%s is not below the tank's capacity %v: no loss would ever be booked", u.Deadband, r.byDefault(deadband), full)
	case s.Report != nil && u.Deadband < s.Report.Deadband:
		reported := sensor + ".report.deadband"
		at := deadband
		if !r.stands(at) {
			at = reported
		}
		r.fault(at, []string{deadband, reported}, "consumption.deadband %v%s is less than report.deadband %v: what is booked would not be seen in what is measured",
			u.Deadband, r.byDefault(deadband), s.Report.Deadband)
	}
	if u.RefillAbove < u.Deadband {
		at := refill
		if !r.stands(at) {
			at = deadband
		}
		r.fault(at, []string{deadband, refill}, "refill_above %v%s is less than deadband %v%s: noise would be booked as a refill",
			u.RefillAbove, r.byDefault(refill), u.Deadband, r.byDefault(deadband))
	}
	atMost(r, settle, u.Settle, MaxConsumptionWait)
	if u.Settle < s.Interval {
		at := settle
		if !r.stands(at) {
			at = sensor + ".interval"
		}
		r.fault(at, []string{settle, sensor + ".interval"}, "settle %v%s is shorter than the interval %v%s: one reading would settle it",
			u.Settle, r.byDefault(settle), s.Interval, r.byDefault(sensor+".interval"))
	}
}

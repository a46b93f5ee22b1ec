package signal

import (
	"math"
	"time"
)

// DefaultHeartbeat is the longest time without a report while reads are good.
const DefaultHeartbeat = 5 * time.Minute

// Cause is why a reading is published.
type Cause string

// The causes, in the order in which they are looked for.
const (
	CauseNone      Cause = ""          // not published
	CauseFirst     Cause = "first"     // the first of a start
	CauseFault     Cause = "fault"     // the first after a fault
	CauseDemand    Cause = "demand"    // Demand was called
	CauseQuality   Cause = "quality"   // the verdict has changed
	CauseDeadband  Cause = "deadband"  // the value has left the deadband
	CauseHeartbeat Cause = "heartbeat" // the last report is old
)

// ReportOptions describe a report by exception.
type ReportOptions struct {
	Deadband  float64       // around the last value reported, >= 0; 0 reports every change
	Heartbeat time.Duration // > 0; 0 means five minutes
}

// Report decides which readings are published: one that differs from the last
// report by more than Deadband, and one at least each Heartbeat.
//
// A heartbeat is a reading like any other, with the time of its own measurement.
// It is decided when a reading comes and never without one: when the sensor is
// silent, so is the report, and whoever listens sees the age grow.
type Report struct {
	o       ReportOptions
	pace    pace
	value   float64
	verdict Verdict
	at      time.Duration
	fault   bool
	demand  bool
	any     bool
	held    uint64
}

// NewReport makes a report, or says all that is wrong with o.
func NewReport(o ReportOptions) (*Report, error) {
	o.Heartbeat = orElse(o.Heartbeat, DefaultHeartbeat)
	var f faults
	f.unless(o.Deadband >= 0 && finite(o.Deadband), "report deadband %g is not zero or above", o.Deadband)
	f.unless(o.Heartbeat > 0, "report heartbeat %s is not above zero", o.Heartbeat)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Report{o: o, pace: pace{gap: math.MaxInt64}}, nil
}

// Take says whether this reading is to be published, and why. v is what the steps
// before have found. A rejected one is not published and changes nothing. The
// verdict is v, or why Report itself refuses the sample.
func (r *Report) Take(x float64, v Verdict, at time.Duration) (Cause, Verdict) {
	if !v.Usable() {
		return CauseNone, v
	}
	if _, _, why := r.pace.step(x, at); why != "" {
		return CauseNone, rejected(why)
	}
	cause := r.cause(x, v, at)
	if cause == CauseNone {
		r.held++
		return cause, v
	}
	r.value, r.verdict, r.at = x, v, at
	r.any, r.fault, r.demand = true, false, false
	return cause, v
}

// Fault notes that the channel has gone into a fault: its next good reading is
// published. A single failed or rejected sample is none.
func (r *Report) Fault() { r.fault = true }

// Demand has the next good reading published, whatever it is: to be called when a
// change is booked that this reading includes.
func (r *Report) Demand() { r.demand = true }

// Held counts the readings that were not published because nothing had changed.
func (r *Report) Held() uint64 { return r.held }

func (r *Report) cause(x float64, v Verdict, at time.Duration) Cause {
	switch {
	case !r.any:
		return CauseFirst
	case r.fault:
		return CauseFault
	case r.demand:
		return CauseDemand
	case v != r.verdict:
		return CauseQuality
	case math.Abs(x-r.value) > r.o.Deadband:
		return CauseDeadband
	case at-r.at >= r.o.Heartbeat:
		return CauseHeartbeat
	}
	return CauseNone
}

package sensors

import (
	"fmt"
	"sync"
	"time"
)

// auxiliaryHold is how long the last value of an auxiliary probe that has gone stale
// is still used, with the reading marked suspect: the gas in a cylinder changes its
// temperature by less than a kelvin in that time unless it is being filled, and a
// kelvin is half a per cent of the mass.
const auxiliaryHold = 10 * time.Minute

// Source is where a model takes a second quantity from: a probe by its name, or a
// value that somebody has written down.
type Source struct {
	Probe string  // "" takes Value
	Value float64 // SI
}

// Fixed reports whether the value was written down, not measured.
func (s Source) Fixed() bool { return s.Probe == "" }

// shared holds the newest value of each auxiliary probe. The loops of all buses write
// and read it; a value is copied, never waited for.
type shared struct {
	now     func() time.Time
	started time.Time

	// tallies are what has flowed out of the tanks that have meters, by tank. The map
	// is complete before anybody reads.
	tallies map[string]*tally

	mu     sync.Mutex // guards what follows
	values map[string]sharedValue
}

type sharedValue struct {
	value float64
	at    time.Time     // zero: none yet
	fresh time.Duration // how long it is taken as it is
	why   Reason        // why it deserves a look
}

func newShared(now func() time.Time) *shared {
	return &shared{now: now, started: now(), values: map[string]sharedValue{}, tallies: map[string]*tally{}}
}

// declare makes a probe known, before any is read.
func (s *shared) declare(name string, fresh time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[name] = sharedValue{fresh: fresh}
}

// set takes a probe's good value.
func (s *shared) set(name string, value float64, at time.Time, why Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values[name]
	v.value, v.at, v.why = value, at, why
	s.values[name] = v
}

// get gives a quantity and why it deserves a look. A probe that has no value yet, soon
// after the start, is no fault of anybody (ReasonStarting); one whose last value is
// too old is (ReasonAuxiliary).
func (s *shared) get(from Source) (value float64, why Reason, err error) {
	if from.Fixed() {
		return from.Value, "", nil
	}
	s.mu.Lock()
	v, known := s.values[from.Probe]
	s.mu.Unlock()
	now := s.now()
	switch {
	case !known:
		return 0, "", &Fault{Reason: ReasonAuxiliary, Detail: fmt.Sprintf("there is no probe %q", from.Probe)}
	case v.at.IsZero() && now.Sub(s.started) < v.fresh:
		return 0, "", &Fault{Reason: ReasonStarting, Detail: fmt.Sprintf("probe %q has not been read yet", from.Probe)}
	case v.at.IsZero():
		return 0, "", &Fault{Reason: ReasonAuxiliary, Detail: fmt.Sprintf("probe %q has given no value", from.Probe)}
	}
	switch age := now.Sub(v.at); {
	case age <= v.fresh:
		return v.value, v.why, nil
	case age <= v.fresh+auxiliaryHold:
		return v.value, ReasonAuxiliary, nil
	default:
		return 0, "", &Fault{Reason: ReasonAuxiliary, Detail: fmt.Sprintf("probe %q has given no value for %s", from.Probe, age.Round(time.Second))}
	}
}

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/web"
	"oxyd/ledger"
	"oxyd/sensors"
)

// SensorDocument is a channel in the node's status (contract section 3).
type SensorDocument struct {
	Tank     string           `json:"tank,omitempty"` // none of an auxiliary probe
	Name     string           `json:"name"`
	Quantity sensors.Quantity `json:"quantity"`
	State    sensors.State    `json:"state"`
	Reason   sensors.Reason   `json:"reason"`
	Detail   string           `json:"detail,omitempty"`
	Since    time.Time        `json:"since,omitzero"` // not known while the clock was never set
	LastGood *LastGood        `json:"last_good"`      // null until there was one
	Seen     *Seen            `json:"seen,omitempty"`
	Reads    uint64           `json:"reads"`
	Faults   uint64           `json:"faults"`
}

// LastGood is the last good reading, whatever the state is now.
type LastGood struct {
	Remaining *ledger.Sum    `json:"remaining,omitempty"` // grams, of a tank's content
	Value     *float64       `json:"value,omitempty"`     // of everything else, in the SI unit of the quantity
	Quality   string         `json:"quality"`
	Why       sensors.Reason `json:"why,omitempty"`
	// Uncompensated: a temperature was assumed.
	Uncompensated bool      `json:"uncompensated,omitempty"`
	RateGPerH     *float64  `json:"rate_g_per_h,omitempty"` // how fast it falls
	At            time.Time `json:"at,omitzero"`            // likewise
}

// Seen is what the last read saw, good or not: for people.
type Seen struct {
	Raw        int64     `json:"raw"`
	Electrical string    `json:"electrical,omitempty"`
	Physical   string    `json:"physical,omitempty"`
	At         time.Time `json:"at,omitzero"` // likewise
}

// SensorDocuments shows channels as the node's status does.
func SensorDocuments(states []sensors.ChannelState) []SensorDocument {
	list := make([]SensorDocument, 0, len(states))
	for i := range states {
		list = append(list, sensorOf(&states[i]))
	}
	return list
}

func sensorOf(c *sensors.ChannelState) SensorDocument {
	s := SensorDocument{Tank: c.Tank, Name: c.Name, Quantity: c.Quantity, State: c.State, Reason: c.Reason, Detail: c.Detail,
		Since: shown(c.Since), Reads: c.Reads, Faults: c.Faults}
	if r := &c.LastGood; !r.At.IsZero() {
		good := &LastGood{Quality: "good", Why: r.Why, At: shown(r.At), Uncompensated: r.Uncompensated}
		if r.Falls != 0 {
			rate := r.Falls * 3600e3
			good.RateGPerH = &rate
		}
		if r.Suspect {
			good.Quality = "suspect"
		}
		if r.Quantity == sensors.Content {
			sum := ledger.SumOf(r.Remaining)
			good.Remaining = &sum
		} else {
			good.Value = &r.Value
		}
		s.LastGood = good
	}
	if r := &c.Seen; !r.At.IsZero() && r.Electrical.Unit+r.Physical.Unit != "" {
		s.Seen = &Seen{Raw: r.Raw, Electrical: r.Electrical.String(), Physical: r.Physical.String(), At: shown(r.At)}
	}
	return s
}

// sensorAlarms raises one alarm for what does not measure although it should: a tank
// without a number must not look like a tank that is well. A channel comes here once
// its state says so, which is after several faults in a row, and leaves with its first
// good reading.
func (b *board) sensorAlarms(states []sensors.ChannelState) {
	var bad []string
	severity := warning
	for i := range states {
		c := &states[i]
		switch c.State {
		case sensors.StateFault, sensors.StateMissing:
			if c.Optional && c.State == sensors.StateMissing {
				continue
			}
			severity = critical
		case sensors.StateStale:
			if c.Reason == sensors.ReasonStarting {
				continue
			}
		default:
			continue
		}
		bad = append(bad, fmt.Sprintf("%s: %s (%s)", calledChannel(c), c.State, c.Reason))
	}
	text := ""
	if len(bad) > 0 {
		text = "not measured: " + strings.Join(bad, ", ")
	}
	b.raise(&b.nodeAlarms, "sensor_fault", severity, text)
	b.rateAlarm(states)
}

// rateAlarm raises an alarm for tanks that empty unusually fast, long before they are
// low. A channel without a fresh number says nothing of its rate: what stood stands.
func (b *board) rateAlarm(states []sensors.ChannelState) {
	var bad []string
	for i := range states {
		if c := &states[i]; c.LastGood.Abnormal {
			bad = append(bad, c.Tank)
		}
	}
	text := ""
	if len(bad) > 0 {
		text = "falls unusually fast: " + strings.Join(bad, ", ")
	}
	b.raise(&b.nodeAlarms, "abnormal_rate", critical, text)
	b.raise(&b.nodeAlarms, "removed", warning, b.removed.text(time.Now()))
}

// removedTold is how long a removal is told, unless the tank is refilled before.
const removedTold = 12 * time.Hour

// removals are what went from tanks faster than anybody draws: a cylinder that was taken
// off, or a valve that burst. It is no use, so it is in no event but the snapshot; but
// somebody has to know.
type removals struct {
	mu sync.Mutex
	of map[string]removal // by tank
	kg float64            // in all
}

type removal struct {
	at   time.Time
	mass physic.Mass
}

// note takes a reading's removal, and ends one at a refill.
func (m *removals) note(r *sensors.Reading, log zerolog.Logger) {
	if r.Removed+r.Refilled == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Refilled > 0 {
		delete(m.of, r.Tank)
	}
	if r.Removed == 0 {
		return
	}
	if m.of == nil {
		m.of = map[string]removal{}
	}
	m.of[r.Tank] = removal{r.At, r.Removed}
	m.kg += float64(r.Removed) / 1e12
	log.Error().Str("tank", r.Tank).Stringer("removed", r.Removed).
		Msg("content went faster than anybody draws: the cylinder was taken off, or something burst; it is not booked as used")
}

// text says what is to be told at a time.
func (m *removals) text(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for tank, r := range m.of {
		if now.Sub(r.at) > removedTold {
			delete(m.of, tank)
			continue
		}
		list = append(list, fmt.Sprintf("%s: %s", tank, r.mass))
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return "went faster than anybody draws, and is not booked as used: " + strings.Join(list, ", ")
}

// total is what went in all, in grams.
func (m *removals) total() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kg * 1e3
}

// calledChannel names a channel for people.
func calledChannel(c *sensors.ChannelState) string {
	if c.Tank == "" {
		return c.Name
	}
	return c.Tank + "/" + c.Name
}

// sensorStates are the states that a metric tells, each with its own series, so that
// one that is not in it is seen too.
var sensorStates = [...]sensors.State{sensors.StateOK, sensors.StateSuspect, sensors.StateFault, sensors.StateStale, sensors.StateMissing}

func sensorMetrics(states []sensors.ChannelState) (list []web.Metric) {
	for i := range states {
		c := &states[i]
		labels := map[string]string{"tank": c.Tank, "sensor": c.Name}
		add := func(name, kind, help string, value float64) {
			list = append(list, web.Metric{Name: "oxyd_sensor_" + name, Type: kind, Help: help, Labels: labels, Value: value})
		}
		ok := 0.0
		if c.State == sensors.StateOK {
			ok = 1
		}
		add("ok", "gauge", "1 while the channel's state is ok.", ok)
		add("reads_total", "counter", "Reads that ended, well or not.", float64(c.Reads))
		add("faults_total", "counter", "Reads that failed.", float64(c.Faults))
		add("late_total", "counter", "Reads given up because the bus hung.", float64(c.Late))
		add("missed_total", "counter", "Ticks without a read, because the bus was busy.", float64(c.Missed))
		if !c.LastGood.At.IsZero() {
			add("last_good_age_seconds", "gauge", "Age of the last good reading.", time.Since(c.LastGood.At).Seconds())
		}
		for _, state := range sensorStates {
			on := 0.0
			if c.State == state {
				on = 1
			}
			list = append(list, web.Metric{Name: "oxyd_sensor_state", Type: "gauge", Help: "1 for the state that the channel is in.",
				Labels: map[string]string{"tank": c.Tank, "sensor": c.Name, "state": string(state)}, Value: on})
		}
	}
	return list
}

// busMetrics tell of each bus what its channels' faults have in common.
func busMetrics(buses []sensors.BusState) (list []web.Metric) {
	for i := range buses {
		s := &buses[i]
		hanging := 0.0
		if s.Hanging {
			hanging = 1
		}
		counts := counters("oxyd_bus_", []count{
			{"failures_total", "Transfers that failed by trouble of the bus.", float64(s.Failures)},
			{"nacks_total", "Transfers that nobody acknowledged, repeats included.", float64(s.Nacks)},
			{"reopens_total", "How often the device was opened anew after it had gone.", float64(s.Reopens)},
			{"hung_total", "Reads given up because they did not end.", float64(s.Hung)},
			{"hanging", "1 while a read that was given up has not ended.", hanging},
		})
		for j := range counts {
			counts[j].Labels = map[string]string{"bus": s.Name}
		}
		list = append(list, counts...)
	}
	return list
}

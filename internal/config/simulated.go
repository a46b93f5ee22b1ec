package config

// Simulated is a tank without hardware.
type Simulated struct {
	// Start is the amount at the start of the process, more than 0. Default:
	// the tank's Capacity, or 1 kg where it has none. Not above Capacity.
	Start Mass `yaml:"start"`

	// ConsumptionPerHour is what the crew breathes. Default 35 g, about one
	// person's mean over a day.
	ConsumptionPerHour Mass `yaml:"consumption_per_hour"`

	// The crew's day, from the start on: after AsleepAfter of a Day it sleeps for
	// AsleepFor and breathes AsleepPerHour. Default: a Day of 24h, AsleepFor 0s,
	// which is never. AsleepAfter and AsleepFor together fit into a Day.
	Day           Duration `yaml:"day"`
	AsleepAfter   Duration `yaml:"asleep_after"`
	AsleepFor     Duration `yaml:"asleep_for"`
	AsleepPerHour Mass     `yaml:"asleep_per_hour"`

	// Noise is the standard deviation of a reading. Default 0 g.
	Noise Mass `yaml:"noise"`

	// LSB is the step of a reading. Default 0 g: a milligram.
	LSB Mass `yaml:"lsb"`

	// RefillBelow is the level, in percent of Full, at which the tank is full
	// again at once. Default 10 %; "0 %": when it is empty. Below Start.
	RefillBelow Percent `yaml:"refill_below"`

	// NoRefill turns RefillBelow off: an empty tank stays empty. Events that refill
	// turn it off too.
	NoRefill bool `yaml:"no_refill"`

	// Seed makes the noise repeatable. Default 1, from 0.
	Seed int `yaml:"seed"`

	// Events are the script of an emergency, at most MaxSimulatedEvents.
	Events []SimulatedEvent `yaml:"events"`

	// Full is the tank's Capacity, or Start where it has none.
	Full Mass `yaml:"-"`
}

// MaxSimulatedEvents bounds a script.
const MaxSimulatedEvents = 64

// What a scripted event does: to what the tank holds, to what is measured of it,
// to whether a read gives a number at all.
const (
	DoLeak   = "leak"   // loses Rate more, while it lasts
	DoBurst  = "burst"  // loses By, evenly over For
	DoRefill = "refill" // is filled to To, evenly over For
	DoRemove = "remove" // the cylinder is off: reads empty, or fails with Reason where it stands

	DoCooling = "cooling" // reads By too low, and recovers with the time constant For
	DoDrift   = "drift"   // reads Rate more too high (below 0: low) with every hour
	DoSpike   = "spike"   // reads By too high (below 0: low)
	DoStick   = "stick"   // reads what it read when this began
	DoNoise   = "noise"   // has noise of Sigma, where the tank's own is less

	DoFault  = "fault"  // the read fails with Reason
	DoHang   = "hang"   // the read does not end
	DoVanish = "vanish" // nobody acknowledges
)

// eventKeys are the keys that each kind of event has beside at, for, every and do.
// Those that must stand end in "!".
func eventKeys() map[string][]string {
	return map[string][]string{
		DoLeak: {"rate!"}, DoBurst: {"by!"}, DoRefill: {"to"}, DoRemove: {"reason"},
		DoCooling: {"by!"}, DoDrift: {"rate!"}, DoSpike: {"by!"}, DoStick: {}, DoNoise: {"sigma!"},
		DoFault: {"reason!"}, DoHang: {}, DoVanish: {},
	}
}

// SimulatedEvent is one thing that happens to a simulated tank. Do says which of
// Rate, To, By, Sigma and Reason it has.
type SimulatedEvent struct {
	// At is when, counted from the start of the process.
	At Duration `yaml:"at,required"`

	// For is how long it lasts. Default 0s: for ever, at once for burst and refill,
	// one step for a spike.
	For Duration `yaml:"for"`

	// Every is the time after which it begins again. Default 0s: never.
	Every Duration `yaml:"every"`

	// Do is one of the Do constants.
	Do string `yaml:"do,required"`

	// Rate is more than 0 for a leak; a drift's may be negative.
	Rate RateChange `yaml:"rate"`

	// To is the level, in percent of Full, that a refill leads to. Default 100 %.
	To Percent `yaml:"to"`

	// By is more than 0 for burst and cooling; a spike's may be negative.
	By MassChange `yaml:"by"`

	// Sigma is the noise's standard deviation, more than 0.
	Sigma Mass `yaml:"sigma"`

	// Reason is the word for the fault, as in the node's status.
	Reason string `yaml:"reason"`
}

func (e *SimulatedEvent) setDefaults() { e.To = 100_0000 }

// faultReasons are the words for what a read can fail with (package sensors).
func faultReasons() []string {
	return []string{"no_bus", "nack", "bus", "timeout", "reset", "config_readback", "not_started", "crc", "implausible_frame",
		"power_on", "weak_power", "not_ready", "open", "short", "wiring", "lost_pulses", "saturated", "range_low", "range_high",
		"under_range", "over_range", "supply", "loop_low", "loop_high", "out_of_electrical_range", "not_finite", "outside_model", "error"}
}

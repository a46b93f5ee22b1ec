package config

import "time"

// Telemetry is what a node sends with QoS 0: at most once, kept by nobody. The board's
// temperatures and what auxiliary probes measure; never an amount of oxygen.
type Telemetry struct {
	// Interval between two rounds, 1s to 24h. Default 60s; "0s" turns it off.
	Interval Duration `yaml:"interval"`
}

// DefaultTelemetryInterval is the time between two rounds of telemetry.
const DefaultTelemetryInterval = Duration(time.Minute)

func (r *reader) validateTelemetry(c *Config) {
	if c.Telemetry.Interval != 0 {
		within(r, "telemetry.interval", c.Telemetry.Interval, Duration(time.Second), Duration(24*time.Hour))
	}
}

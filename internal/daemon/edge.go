package daemon

import (
	"errors"
	"sync"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/mqtt"
	"oxyd/sensors"
)

// openSensors makes the poller of the configured channels. A bus that a required
// sensor needs and that does not exist ends the start with a *sensors.BusError,
// which says what to enable.
func (b *board) openSensors() error {
	if len(b.cfg.Sensors) == 0 {
		return nil
	}
	specs := make([]sensors.Spec, 0, len(b.cfg.Sensors))
	for i := range b.cfg.Sensors {
		specs = append(specs, specOf(b.cfg, &b.cfg.Sensors[i]))
	}
	var err error
	b.poller, err = sensors.Open(specs, sensors.OpenOptions{Options: sensors.Options{
		OnReading: b.reading,
		OnState:   func(sensors.ChannelState) { b.touchStatus() },
		Log:       b.log.With().Str("part", "sensors").Logger(),
	}})
	return err
}

func specOf(cfg *config.Config, s *config.Sensor) sensors.Spec {
	spec := sensors.Spec{Tank: s.Tank, Name: s.Name, Driver: s.Driver, Interval: time.Duration(s.Interval),
		StaleAfter: time.Duration(s.StaleAfter), Optional: s.Optional, Bus: s.Bus, Address: s.Address, Input: s.Input,
		Gain: physic.ElectricPotential(s.Gain), Rate: s.Rate,
		VoltsMin: physic.ElectricPotential(s.VoltsMin), VoltsMax: physic.ElectricPotential(s.VoltsMax)}
	if t := cfg.Tank(s.Tank); t != nil {
		spec.Capacity = physic.Mass(t.Capacity)
	}
	for i, p := range s.Calibration {
		if i < len(spec.Calibration) {
			spec.Calibration[i] = sensors.Point{Volts: physic.ElectricPotential(p.Volts), Remaining: physic.Mass(p.Remaining)}
		}
	}
	if sim := s.Simulated; sim != nil {
		spec.Simulated = sensors.SimulatedOptions{Capacity: physic.Mass(sim.Full), Start: physic.Mass(sim.Start),
			PerHour: physic.Mass(sim.ConsumptionPerHour), NoiseSigma: physic.Mass(sim.Noise),
			RefillAt: physic.Mass(sim.RefillBelow.Of(sim.Full)), Seed: uint64(sim.Seed)}
	}
	return spec
}

// reading makes an event of a good reading. Snapshots are staged: they are on
// disk within commit_interval, which is the documented window of loss. The very
// first one of a process is committed at once, so that a start shows at once.
func (b *board) reading(r sensors.Reading) {
	// At keeps its monotonic reading: the clock may be set before the outbox looks.
	draft := event.Event{Type: event.Measured, Tank: r.Tank, Amount: r.Remaining, OccurredAt: r.At,
		Suspect: r.Suspect, Version: event.WireVersion}
	keep := b.outbox.Stage
	if b.first.take() {
		keep = b.append
		b.log.Info().Dur("after_start_ms", time.Since(b.started)).Str("tank", r.Tank).Msg("first reading")
		defer b.touchStatus()
	}
	b.measured.note(r.Tank, r.At)
	if err := keep(draft); err != nil {
		b.log.Debug().Err(err).Str("tank", r.Tank).Msg("reading not kept") // the outbox logs the trouble on change and counts it
	}
}

func (b *board) append(drafts ...event.Event) error {
	_, err := b.outbox.Append(drafts...)
	return err
}

// firstReading says once that nothing was read before.
type firstReading struct{ once sync.Once }

func (f *firstReading) take() (first bool) {
	f.once.Do(func() { first = true })
	return first
}

// queue shows the outbox to the publisher, which knows rows and bytes only.
type queue struct{ *outbox.Outbox }

// Confirm puts off the commit: the next append's does it along, and a crash before
// that sends the rows once more.
func (q queue) Confirm(rows []uint64) error { return q.ConfirmSoon(rows) }

func (q queue) Next(after uint64, limit int) ([]mqtt.Outgoing, error) {
	rows, err := q.Outbox.Next(after, limit)
	out := make([]mqtt.Outgoing, len(rows))
	for i, r := range rows {
		out[i] = mqtt.Outgoing{Row: r.Row, Topic: r.Topic, Payload: r.Payload}
	}
	return out, err
}

// storeFailed reports whether the error ends the process: the outcome of a commit
// is not known, and only opening the file again can tell.
func storeFailed(err error) bool { return errors.Is(err, boltfile.ErrFailed) }

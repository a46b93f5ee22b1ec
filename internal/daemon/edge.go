package daemon

import (
	"errors"
	"sync"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
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
	specs, err := SensorSpecs(b.cfg)
	if err != nil {
		return err
	}
	b.poller, err = sensors.Open(specs, sensors.OpenOptions{Options: sensors.Options{
		OnReading: b.reading,
		OnState:   func(sensors.ChannelState) { b.touchStatus() },
		Log:       b.log.With().Str("part", "sensors").Logger(),
	}})
	return err
}

// reading makes events of a good reading. Snapshots are staged: they are on disk
// within commit_interval, which is the documented window of loss. What was consumed
// or refilled stands for itself, so it is committed at once, and before the snapshot
// that includes it (contract section 7). The very first reading of a process is
// committed at once too, so that a start shows at once.
func (b *board) reading(r sensors.Reading) {
	if r.Tank == "" {
		return // it serves the models of others
	}
	if r.Quantity == sensors.Content {
		b.measured.note(r.Tank, r.At)
	}
	if r.Quantity == sensors.Content && r.Report || r.Consumed+r.Refilled > 0 {
		b.owed.add(&r)
	}
	drafts := booked(&r)
	keep := b.append
	if len(drafts) == 0 {
		keep = b.outbox.Stage
	}
	if r.Quantity == sensors.Content && (r.Report || len(drafts) > 0) {
		drafts = append(drafts, draft(&r, event.Measured, r.Remaining))
	}
	if b.first.take() {
		keep = b.append
		b.log.Info().Dur("after_start_ms", time.Since(b.started)).Str("tank", r.Tank).Msg("first reading")
		defer b.touchStatus()
	}
	if len(drafts) == 0 {
		return
	}
	if err := keep(drafts...); err != nil {
		b.owed.note(&r)
		b.log.Debug().Err(err).Str("tank", r.Tank).Msg("reading not kept") // the outbox logs the trouble on change and counts it
	}
}

// owed is what was consumed from and refilled into tanks and is no event yet, because the
// outbox had no room for it. It goes with the tank's next booking or report, and ahead of
// the snapshot that has it in. A process that stops before loses it; the outbox's alarm
// stands then. Where the outcome of a commit is not known the process ends (storeFailed),
// so nothing is booked twice.
type owed struct {
	mu sync.Mutex
	of map[string]debt // by tank: the sensors of one tank come here one at a time
}

type debt struct{ consumed, refilled physic.Mass }

// add gives a reading what its tank is owed.
func (o *owed) add(r *sensors.Reading) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Consumed, r.Refilled = r.Consumed+o.of[r.Tank].consumed, r.Refilled+o.of[r.Tank].refilled
	delete(o.of, r.Tank)
}

// note keeps what a reading has booked in vain.
func (o *owed) note(r *sensors.Reading) {
	if r.Consumed+r.Refilled == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]debt{}
	}
	o.of[r.Tank] = debt{r.Consumed, r.Refilled}
}

// booked are the events of what a reading has made certain.
func booked(r *sensors.Reading) (drafts []event.Event) {
	if r.Consumed > 0 {
		drafts = append(drafts, draft(r, event.Consumed, r.Consumed))
	}
	if r.Refilled > 0 {
		drafts = append(drafts, draft(r, event.Refilled, r.Refilled))
	}
	return drafts
}

func draft(r *sensors.Reading, of event.Type, amount physic.Mass) event.Event {
	return event.Event{Type: of, Tank: r.Tank, Amount: amount, OccurredAt: byTheClock(r.At, time.Now()), Suspect: r.Suspect, Version: event.WireVersion}
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

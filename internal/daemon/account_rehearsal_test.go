package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/ledger"
	"oxyd/sensors"
)

// bubbleClock is the time of a synctest bubble, as a board that is synchronised has it.
type bubbleClock struct{ boot time.Time }

func (bubbleClock) Now() time.Time        { return time.Now() }
func (c bubbleClock) Mono() time.Duration { return time.Since(c.boot) }
func (bubbleClock) BootID() string        { return "boot" }
func (bubbleClock) Synced() bool          { return true }

// rehearsed is a board that measures into its outbox, an account that takes what comes
// out of it, and what is true meanwhile.
type rehearsed struct {
	t       *testing.T
	b       *board
	account *ledger.Ledger
	truth   *sensors.Simulated
	rows    []event.Event // of the wire, in order
}

// rehearse runs a config's sensors in virtual time, and looks every so often, for as
// long as it takes.
func rehearse(t *testing.T, text string, every, takes time.Duration, look func(*rehearsed, time.Duration)) *rehearsed {
	t.Helper()
	time.Sleep(27 * 365 * 24 * time.Hour) // a bubble begins in 2000, which no account believes
	cfg, err := config.Parse("drill.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = t.TempDir()
	r := &rehearsed{t: t, b: &board{cfg: cfg, log: zerolog.Nop(), topics: Topics(cfg), started: time.Now(), wakeStatus: make(chan struct{}, 1)}}
	r.b.outbox, err = outbox.Open(OutboxOptions(cfg, OutboxPath(cfg), bubbleClock{time.Now()}, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.b.outbox.Close() })
	if r.account, err = ledger.Open(LedgerOptions(cfg, LedgerPath(cfg), zerolog.Nop())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.account.Close() })
	if r.truth, err = sensors.NewSimulated(simulatedOf(cfg.Sensors[0].Simulated)); err != nil {
		t.Fatal(err)
	}
	if err := r.b.openSensors(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.b.poller.Run(ctx) }()
	for at := every; at <= takes; at += every {
		time.Sleep(every)
		synctest.Wait()
		r.deliver()
		look(r, at)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := r.account.Check(); err != nil {
		t.Error(err)
	}
	return r
}

// deliver hands what waits to the account, and nothing else: no broker, no network.
func (r *rehearsed) deliver() {
	r.t.Helper()
	if err := r.b.outbox.Flush(); err != nil {
		r.t.Fatal(err)
	}
	for {
		rows, err := r.b.outbox.Next(0, 100)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(rows) == 0 {
			return
		}
		var numbers []uint64
		for _, row := range rows {
			tank, leaf, _ := r.b.topics.ParseTank(row.Topic)
			kind, _ := event.TypeOfTopic(leaf)
			e, err := event.Decode(kind, tank, row.Payload)
			if err != nil {
				r.t.Fatal(err)
			}
			if _, err := r.account.Apply([]ledger.Delivery{{Event: e, Topic: row.Topic, Payload: row.Payload}}); err != nil {
				r.t.Fatal(err)
			}
			numbers, r.rows = append(numbers, row.Row), append(r.rows, e)
		}
		if err := r.b.outbox.Confirm(numbers); err != nil {
			r.t.Fatal(err)
		}
	}
}

// balance gives the account's balance and totals, in grams; -1 where there is none.
func (r *rehearsed) balance(tank string) (balance, consumed, refilled float64) {
	r.t.Helper()
	doc, ok, err := r.account.Balance(tank)
	if err != nil {
		r.t.Fatal(err)
	}
	if !ok || doc.Balance == nil {
		return -1, 0, 0
	}
	return inGrams(r.t, *doc.Balance), inGrams(r.t, doc.Totals.Consumed), inGrams(r.t, doc.Totals.Refilled)
}

func inGrams(t *testing.T, s ledger.Sum) (g float64) {
	t.Helper()
	text, err := s.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// documented is the worked example of docs/rehearsal.md.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/rehearsal.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	example, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/rehearsal.md has no example")
	}
	return example
}

// The documented rehearsal, three rounds of it: the account follows the truth as far as
// the sensor gives it, makes nothing up while it fails, and books what happened.
func TestRehearsalIsWhatTheAccountShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every, takes = 30 * time.Second, 3 * time.Hour
		var stood float64
		r := rehearse(t, documented(t), every, takes, func(r *rehearsed, at time.Duration) {
			balance, consumed, _ := r.balance("hab-1")
			truth := r.truth.Truth(at)
			holds, lost := truth.Content*1e3, (truth.Consumed+truth.Leaked)*1e3
			r.b.sensorAlarms(r.b.poller.States())
			alarmed := slices.ContainsFunc(r.b.nodeAlarms.list(), func(a alarmDocument) bool { return a.Kind == "sensor_fault" })
			minute := at % time.Hour
			switch failing := minute >= 20*time.Minute && minute < 25*time.Minute; {
			case failing && minute == 20*time.Minute: // its first faults are no state yet
				stood = balance
			case failing:
				if balance != stood || !alarmed {
					t.Errorf("%s: the balance is %.1f g, alarm %v, want %.1f g as before the fault, and the alarm", at, balance, alarmed, stood)
				}
			case minute >= 25*time.Minute && minute <= 25*time.Minute+every: // the filter looks whether it is true
			default:
				if d := balance - holds; max(d, -d) > 60 || alarmed {
					t.Errorf("%s: the balance is %.1f g, alarm %v, the tank holds %.1f g", at, balance, alarmed, holds)
				}
			}
			if consumed > lost+50 {
				t.Errorf("%s: %.1f g are booked as consumed, %.1f g are gone", at, consumed, lost)
			}
		})
		_, consumed, refilled := r.balance("hab-1")
		truth := r.truth.Truth(takes)
		lost, filled := (truth.Consumed+truth.Leaked)*1e3, truth.Refilled*1e3
		if d := refilled - consumed - (filled - lost); max(d, -d) > 50+20 {
			t.Errorf("booked are %.1f g less %.1f g, which is %.1f g off", refilled, consumed, d)
		}
		if consumed < lost-3*80 || consumed > lost+50 {
			t.Errorf("%.1f g are booked as consumed, %.1f g are gone", consumed, lost)
		}
		for i, e := range r.rows {
			if e.Type == event.Measured {
				continue
			}
			if i+1 == len(r.rows) || r.rows[i+1].Type != event.Measured || !r.rows[i+1].OccurredAt.Equal(e.OccurredAt) {
				t.Errorf("%v is not followed by the snapshot that has it in", e)
			}
		}
		t.Logf("%d events; consumed %.1f g of %.1f g, refilled %.1f g of %.1f g", len(r.rows), consumed, lost, refilled, filled)
	})
}

// A filter, a report and consumption at once on a tank that leaks a little: far fewer
// events than readings, and the account within the deadbands of the truth.
func TestReportByExceptionKeepsTheAccountRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `
site: drill
tanks: [{id: hab-1, capacity: 10 kg}]
sensors:
  - tank: hab-1
    driver: simulated
    interval: 1s
    simulated: {start: 6 kg, consumption_per_hour: 100 g, noise: 1 g, no_refill: true}
    filter: {floor: 1 g}
    report: {deadband: 10 g, heartbeat: 10m}
    consumption: {deadband: 20 g, settle: 1m, refill_above: 200 g}
broker:
ledger: {stale_after: 20m}
`
		const takes = 4 * time.Hour
		r := rehearse(t, text, time.Minute, takes, func(r *rehearsed, at time.Duration) {
			balance, _, _ := r.balance("hab-1")
			if d := balance - r.truth.Truth(at).Content*1e3; max(d, -d) > 10+10 {
				t.Errorf("%s: the balance is %.1f g off", at, d)
			}
		})
		_, consumed, _ := r.balance("hab-1")
		if lost := r.truth.Truth(takes).Consumed * 1e3; consumed < lost-20-15 || consumed > lost+20 {
			t.Errorf("%.1f g are booked, %.1f g were consumed", consumed, lost)
		}
		// 400 g by 10 g, 24 heartbeats, and one for each amount, each with some noise.
		if n, readings := len(r.rows), int(takes/time.Second); n > 150 || n < 40 {
			t.Errorf("%d events of %d readings", n, readings)
		}
	})
}

// FC-43 as far as the node's alarm: a tank that has lost 1 % an hour for a day and then
// loses 20 % is told of within ten minutes, long before it is low; and no longer once the
// leak is closed.
func TestFC43AbnormalRateIsAlarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day, leak = 24 * time.Hour, 40 * time.Minute
		text := `
site: drill
tanks: [{id: hab-1, capacity: 10 kg, low: 25 %}]
sensors:
  - tank: hab-1
    driver: simulated
    interval: 10s
    simulated: {start: 10 kg, consumption_per_hour: 100 g, noise: 1 g, no_refill: true, events: [{at: 24h, for: 40m, do: leak, rate: 1900 g/h}]}
    report: {deadband: 50 g, heartbeat: 1h}
broker:
ledger: {stale_after: 2h}
`
		var noticed, ended time.Duration
		rehearse(t, text, time.Minute, day+3*time.Hour, func(r *rehearsed, at time.Duration) {
			r.b.sensorAlarms(r.b.poller.States())
			i := slices.IndexFunc(r.b.nodeAlarms.list(), func(a alarmDocument) bool { return a.Kind == "abnormal_rate" && a.Severity == critical })
			switch {
			case i >= 0 && noticed == 0:
				noticed = at
				if b, _, _ := r.balance("hab-1"); b < 7000 {
					t.Errorf("noticed at %.0f g, want above 70 %%", b)
				}
			case i < 0 && noticed != 0 && ended == 0:
				ended = at
			}
		})
		if noticed <= day || noticed > day+10*time.Minute {
			t.Errorf("the leak of 24h was noticed at %s, want within 10 minutes", noticed)
		}
		if ended < day+leak || ended > day+leak+time.Hour {
			t.Errorf("the leak ended at %s, the alarm at %s", day+leak, ended)
		}
	})
}

// The example, with every sensor turned on that this machine can have, opens.
func TestExampleOpens(t *testing.T) {
	text, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	on := false
	for i, line := range lines {
		if line == "sensors:" || line == "tanks:" {
			on = true
		} else if on && line != "" && line[0] != '#' && line[0] != ' ' {
			on = false
		}
		if on && strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "##") {
			lines[i] = line[1:]
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Sensors) < 15 {
		t.Errorf("only %d sensors stand in the example", len(cfg.Sensors))
	}
	specs, err := SensorSpecs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range specs {
		specs[i].Optional = true // there are no buses here
	}
	if _, err := sensors.Open(specs, sensors.OpenOptions{}); err != nil {
		t.Error(err)
	}
	if specs[0].Capacity != 14300*physic.Gram {
		t.Errorf("got %v", specs[0].Capacity)
	}
}

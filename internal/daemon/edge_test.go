package daemon

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/sensors"
)

// TestRecordOfAnotherChannelIsRefused: two transducers of one type have records that look
// alike; each is off by its own error.
func TestRecordOfAnotherChannelIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dock-2.json")
	r := sensors.Record{Version: sensors.RecordVersion, Channel: "dock-2", Driver: config.DriverADS1115, Signal: sensors.SignalVoltage, Unit: "Pa", MadeAt: time.Now(),
		Points: []sensors.RecordPoint{{Steady: sensors.Steady{At: 0.5}, Is: 0}, {Steady: sensors.Steady{At: 4.5}, Is: 250e5}}}
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	for tank, refused := range map[string]bool{"dock-1": true, "dock-2": false} {
		cfg := config.Config{Sensors: []config.Sensor{{Tank: tank, Driver: config.DriverADS1115, Signal: config.SignalVoltage, Model: config.ModelGas, CalibrationFile: path}}}
		_, err := SensorSpecs(&cfg)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), `"dock-2"`) {
			t.Errorf("%s: got %v, want refused: %t", tank, err, refused)
		}
	}
}

// edgeOf is a board with an outbox of its own, and what it holds, in order.
func edgeOf(t *testing.T, b *board) (held func() []string) {
	t.Helper()
	clk, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	b.outbox, err = outbox.Open(outbox.Options{Path: filepath.Join(t.TempDir(), "outbox.bolt"), Source: "n", Clock: clk, Log: zerolog.Nop(),
		Topic: func(of event.Type, _ string) string { return of.String() }})
	if err != nil {
		t.Fatal(err)
	}
	box := b.outbox
	t.Cleanup(func() { box.Close() })
	return func() (list []string) {
		if err := box.Flush(); err != nil {
			t.Fatal(err)
		}
		rows, err := box.Next(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			var e struct{ Amount, Remaining json.Number }
			if err := json.Unmarshal(row.Payload, &e); err != nil {
				t.Fatal(err)
			}
			list = append(list, row.Topic+" "+e.Amount.String()+e.Remaining.String())
		}
		return list
	}
}

// TestRefusedBookingIsMadeLater: what an outbox without room refuses was consumed all the
// same. It goes with the next booking, before the snapshot that has it in.
func TestRefusedBookingIsMadeLater(t *testing.T) {
	b := &board{wakeStatus: make(chan struct{}, 1), log: zerolog.Nop()}
	edgeOf(t, b)
	b.outbox.Close()
	at := time.Now()
	content := func(grams, consumed, refilled physic.Mass, report bool) {
		at = at.Add(time.Second)
		b.reading(sensors.Reading{Tank: "A", Quantity: sensors.Content, At: at, Report: report, Remaining: grams * physic.Gram,
			Consumed: consumed * physic.Gram, Refilled: refilled * physic.Gram})
	}
	content(500, 0, 0, true)
	content(450, 50, 0, true)
	content(850, 10, 400, true)
	held := edgeOf(t, b)
	content(849, 0, 0, false)
	content(840, 0, 0, true)
	content(830, 10, 0, true)
	want := []string{event.Consumed.String() + " 60", event.Refilled.String() + " 400", event.Measured.String() + " 840",
		event.Consumed.String() + " 10", event.Measured.String() + " 830"}
	if diff := cmp.Diff(want, held()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestFlowIsNoMeasurementOfATank: an entry by hand is refused from before the tank's last
// measurement, which has it in. A flow has nothing in it.
func TestFlowIsNoMeasurementOfATank(t *testing.T) {
	clk, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &board{wakeStatus: make(chan struct{}, 1), log: zerolog.Nop(), clock: clk}
	edgeOf(t, b)
	now := time.Now()
	refill := event.Event{Type: event.Refilled, Tank: "A", Amount: physic.KiloGram, OccurredAt: now.Add(-time.Minute)}
	b.reading(sensors.Reading{Tank: "A", Quantity: sensors.Flow, At: now})
	if err := b.timely(&refill); err != nil {
		t.Errorf("after a flow: %v", err)
	}
	b.reading(sensors.Reading{Tank: "A", Quantity: sensors.Content, At: now, Report: true})
	if err := b.timely(&refill); err == nil {
		t.Error("after a measurement: taken, and the measurement has it in")
	}
}

// TestBusesHaveMetrics: what a bus goes through is to be seen from outside, by its name.
func TestBusesHaveMetrics(t *testing.T) {
	got := map[string]float64{}
	for _, m := range busMetrics([]sensors.BusState{{Name: "/dev/i2c-1", Failures: 1, Nacks: 2, Reopens: 3, Hung: 4, Hanging: true}}) {
		got[m.Name+" "+m.Type+" "+m.Labels["bus"]] = m.Value
	}
	want := map[string]float64{"oxyd_bus_failures_total counter /dev/i2c-1": 1, "oxyd_bus_nacks_total counter /dev/i2c-1": 2,
		"oxyd_bus_reopens_total counter /dev/i2c-1": 3, "oxyd_bus_hung_total counter /dev/i2c-1": 4, "oxyd_bus_hanging gauge /dev/i2c-1": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestFC46SinceIsCorrectedWhenTheClockIs: a board without a battery boots in 1970. A channel

package daemon

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/sensors"
)

// TestTheDocumentedRehearsalOpens: the config of docs/rehearsal.md is taken, all the way
// to a poller, and its script arrives as it stands.
func TestTheDocumentedRehearsalOpens(t *testing.T) {
	text, err := os.ReadFile("../../docs/rehearsal.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	cfg, err := config.Parse("rehearsal.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := SensorSpecs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { anHourOf(t, specs) })
	want := sensors.SimulatedOptions{ // as that of the golden rehearsal
		Capacity: 10 * physic.KiloGram, Start: 6 * physic.KiloGram, PerHour: 140 * physic.Gram, RefillAt: physic.KiloGram,
		Day: 24 * time.Hour, NoiseSigma: 2 * physic.Gram, Seed: 1, LSB: 810 * physic.MilliGram,
		Events: []sensors.SimulatedEvent{
			{At: 10 * time.Minute, For: 25 * time.Minute, Every: time.Hour, Do: sensors.SimulatedLeak, Rate: 12 * physic.KiloGram},
			{At: 20 * time.Minute, For: 5 * time.Minute, Every: time.Hour, Do: sensors.SimulatedFault, Reason: sensors.ReasonOpen},
			{At: 40 * time.Minute, For: 5 * time.Minute, Every: time.Hour, Do: sensors.SimulatedRefill, To: 6 * physic.KiloGram},
		},
	}
	if diff := cmp.Diff(want, specs[0].Simulated); diff != "" {
		t.Error(diff)
	}
}

// anHourOf runs the channels for an hour: what was lost and filled up is told as the page
// says, but for what a turn leaves open.
func anHourOf(t *testing.T, specs []sensors.Spec) {
	var consumed, refilled, removed physic.Mass
	var states []string
	p, err := sensors.Open(specs, sensors.OpenOptions{Options: sensors.Options{
		OnReading: func(r sensors.Reading) {
			consumed, refilled, removed = consumed+r.Consumed, refilled+r.Refilled, removed+r.Removed
		},
		OnState: func(s sensors.ChannelState) {
			if s.State != sensors.StateStale { // which comes in the instant of the third fault, before it or not at all
				states = append(states, string(s.State)+" "+string(s.Reason))
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
	near := func(got, want physic.Mass) bool { return max(got-want, want-got) <= 100*physic.Gram }
	if !near(consumed, 5140*physic.Gram) || !near(refilled, 5105*physic.Gram) || removed > 0 {
		t.Errorf("got %s consumed, %s refilled, %s removed, want 5.14kg, 5.105kg, 0g", consumed, refilled, removed)
	}
	if diff := cmp.Diff([]string{"suspect unconfirmed", "ok ", "fault open", "ok "}, states); diff != "" {
		t.Error(diff)
	}
}

// TestEveryScriptedEventOpens: an event of each kind, with the keys that it has, is one
// that the driver takes.
func TestEveryScriptedEventOpens(t *testing.T) {
	for _, event := range []string{
		"do: leak, rate: 1 g/h", "do: burst, by: 1 g", "do: refill", "do: refill, to: 1 %, for: 1h", "do: remove", "do: remove, reason: open",
		"do: cooling, by: 1 g, for: 1m", "do: drift, rate: -1 g/h", "do: spike, by: -1 g", "do: stick", "do: noise, sigma: 1 g",
		"do: fault, reason: no_bus", "do: hang", "do: vanish",
	} {
		cfg, err := config.Parse("x", []byte("tanks: [{id: a, capacity: 1 kg}]\nsensors:\n- tank: a\n  driver: simulated\n"+
			"  simulated: {events: [{at: 1m, "+event+"}]}\n"))
		if err != nil {
			t.Errorf("%s: %v", event, err)
			continue
		}
		specs, err := SensorSpecs(cfg)
		if err != nil {
			t.Errorf("%s: %v", event, err)
			continue
		}
		if _, err := sensors.Open(specs, sensors.OpenOptions{}); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}

// TestAStuckSimulatedGaugeIsNoticed: one that has noise enough to move; one that has not
// may stand still.
func TestAStuckSimulatedGaugeIsNoticed(t *testing.T) {
	for noise, want := range map[string]bool{"2 g": true, "0 g": false} {
		cfg, err := config.Parse("x", []byte("sensors:\n- {tank: a, driver: simulated, interval: 10s, filter: {stuck_after: 1h}, "+
			"simulated: {start: 1 kg, no_refill: true, consumption_per_hour: 1 g, noise: "+noise+", lsb: 1 g, events: [{at: 10m, do: stick}]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		specs, err := SensorSpecs(cfg)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			defer cancel()
			p, err := sensors.Open(specs, sensors.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
			if s := p.States()[0]; (s.State == sensors.StateSuspect && s.Reason == sensors.ReasonStuck) != want {
				t.Errorf("noise %s: got %s %s after hours on one number", noise, s.State, s.Reason)
			}
		})
	}
}

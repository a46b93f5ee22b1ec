package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/config"
	"oxyd/internal/mqtttest"
	"oxyd/mqtt"
)

// nothing is a queue that holds nothing.
type nothing struct{}

func (nothing) Next(uint64, int) ([]mqtt.Outgoing, error) { return nil, nil }
func (nothing) Confirm([]uint64) error                    { return nil }
func (nothing) Wake() <-chan struct{}                     { return nil }

// telemetryBoard is a board with one thermal zone and a broker that the test plays.
func telemetryBoard(t *testing.T, every time.Duration) (*board, *mqtttest.Peer, string) {
	t.Helper()
	dir := t.TempDir()
	zone := filepath.Join(dir, "thermal_zone0")
	if err := os.Mkdir(zone, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"type": "cpu-thermal\n", "temp": "48312\n"} {
		if err := os.WriteFile(filepath.Join(zone, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := &board{cfg: &config.Config{Node: "ctl-3", Site: "base", TopicPrefix: "oxyd"}, log: zerolog.Nop()}
	b.cfg.Telemetry.Interval = config.Duration(every)
	b.topics = Topics(b.cfg)
	fake := mqtttest.Listen(t)
	b.publisher = mqtt.NewPublisher(mqtt.Options{Broker: fake.URL(), ClientID: "c"}, nothing{}, mqtt.Presence{}, zerolog.Nop())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.publisher.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	peer := fake.Accept(t, false)
	mqtttest.Eventually(t, "the connection", func() bool { return b.publisher.Status().Connected })
	return b, peer, filepath.Join(dir, "thermal_zone*")
}

// R6: cheap figures are sent once, kept by nobody, and are no events.
func TestTelemetryOnTheWire(t *testing.T) {
	b, peer, zones := telemetryBoard(t, 20*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.sendTelemetry(ctx, zones) }()
	for range 2 {
		m := peer.NextPublish(t)
		if m.Qos != 0 || m.Retain || m.TopicName != "oxyd/base/node/ctl-3/telemetry/temperature-0-cpu-thermal" {
			t.Errorf("got %v, want QoS 0, not retained, below telemetry", m)
		}
		var doc telemetryDocument
		if err := json.Unmarshal(m.Payload, &doc); err != nil || doc.Value != 48.312 || doc.Unit != "°C" || time.Since(doc.At) > time.Minute {
			t.Errorf("got %s, %v", m.Payload, err)
		}
		if _, _, ok := b.topics.ParseTank(m.TopicName); ok {
			t.Error("an account would take it for a tank's")
		}
	}
	for _, f := range b.topics.EventFilters() {
		if !strings.HasPrefix(f, "oxyd/base/tank/") {
			t.Errorf("the account listens to %s", f)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// 0s turns it off.
func TestTelemetryTurnedOff(t *testing.T) {
	b, _, zones := telemetryBoard(t, 0)
	if err := b.sendTelemetry(t.Context(), zones); err != nil { // returns at once
		t.Error(err)
	}
	if c := b.publisher.Counts(); c.TelemetrySent+c.TelemetryDropped != 0 {
		t.Errorf("got %+v", c)
	}
}

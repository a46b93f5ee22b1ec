package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"oxyd/sensors"
)

// thermalZones is where the kernel shows the temperatures of the board
// (Documentation/driver-api/thermal/sysfs-api.rst: type, and temp in thousandths of a
// degree).
const thermalZones = "/sys/class/thermal/thermal_zone*"

// telemetryDocument is one cheap figure (contract section 3). It is sent with QoS 0:
// at most once, kept by nobody, and no balance ever rests on it.
type telemetryDocument struct {
	Name  string    `json:"name"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"`
	At    time.Time `json:"at,omitzero"` // not known while the clock was never set
}

// sendTelemetry sends what is cheap to know and cheap to lose: the board's own
// temperatures, in zones, and what the auxiliary probes measure.
func (b *board) sendTelemetry(ctx context.Context, zones string) error {
	every := time.Duration(b.cfg.Telemetry.Interval)
	if every <= 0 {
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		list := boardTemperatures(zones, shown(time.Now()))
		if b.poller != nil {
			list = append(list, probeTelemetry(b.poller.States(), 2*every)...)
		}
		for _, doc := range list {
			b.publisher.Telemetry(b.topics.Telemetry(b.cfg.Node, doc.Name), mustJSON(doc)) // what is not taken is counted
		}
	}
}

// boardTemperatures reads the kernel's thermal zones. One that cannot be read, or says
// what no board can be, is left out: this is telemetry.
func boardTemperatures(pattern string, now time.Time) (list []telemetryDocument) {
	zones, _ := filepath.Glob(pattern) // the pattern is well formed
	for _, zone := range zones {
		text, err := os.ReadFile(filepath.Join(zone, "temp"))
		if err != nil {
			continue
		}
		milli, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		if err != nil || milli < -100_000 || milli > 200_000 {
			continue
		}
		list = append(list, telemetryDocument{Name: zoneName(zone), Value: float64(milli) / 1e3, Unit: "°C", At: now})
	}
	return list
}

// zoneName is a topic level made of the zone's number and type.
func zoneName(zone string) string {
	number := strings.TrimPrefix(filepath.Base(zone), "thermal_zone")
	kind, err := os.ReadFile(filepath.Join(zone, "type"))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, strings.TrimSpace(string(kind)))
	if err != nil || name == "" {
		return "temperature-" + number
	}
	return fmt.Sprintf("temperature-%s-%s", number, name[:min(len(name), 32)])
}

// probeTelemetry shows the newest value of each auxiliary probe, as far as it is young.
func probeTelemetry(states []sensors.ChannelState, young time.Duration) (list []telemetryDocument) {
	for i := range states {
		c := &states[i]
		r := &c.LastGood
		if c.Tank != "" || r.At.IsZero() || time.Since(r.At) > young {
			continue
		}
		list = append(list, telemetryDocument{Name: c.Name, Value: r.Physical.Value, Unit: r.Physical.Unit, At: shown(r.At)})
	}
	return list
}

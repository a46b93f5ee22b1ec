package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/internal/clock/clocktest"
	"oxyd/sensors"
)

func TestBoardTemperatures(t *testing.T) {
	dir := t.TempDir()
	for zone, files := range map[string]map[string]string{
		"thermal_zone0": {"type": "cpu-thermal\n", "temp": "48312\n"},
		"thermal_zone1": {"type": "odd name/+#\n", "temp": "-5000\n"},
		"thermal_zone2": {"type": "off\n", "temp": "garbage\n"},
		"thermal_zone3": {"type": "absurd\n", "temp": "999999\n"},
		"thermal_zone4": {"type": "gone\n"},
		"thermal_zone5": {"temp": "20000"},
	} {
		if err := os.Mkdir(filepath.Join(dir, zone), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, zone, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now().UTC().Round(0)
	want := []telemetryDocument{{"temperature-0-cpu-thermal", 48.312, "°C", now}, {"temperature-1-odd-name---", -5, "°C", now}, {"temperature-5", 20, "°C", now}}
	if diff := cmp.Diff(want, boardTemperatures(filepath.Join(dir, "thermal_zone*"), now)); diff != "" {
		t.Error(diff)
	}
}

func TestProbeTelemetryIsOfYoungAuxiliaryValues(t *testing.T) {
	now := time.Now()
	good := sensors.Reading{At: now, Physical: sensors.Figure{Value: 21.5, Unit: "°C"}}
	old := good
	old.At = now.Add(-time.Hour)
	got := probeTelemetry([]sensors.ChannelState{
		{Name: "skin", LastGood: good}, {Name: "old", LastGood: old}, {Name: "never"}, {Tank: "A", Name: "tank", LastGood: good},
	}, time.Minute)
	if len(got) != 1 || got[0].Name != "skin" || got[0].Value != 21.5 {
		t.Errorf("got %+v, want the young auxiliary probe alone", got)
	}
}

// FC-46 in telemetry: a probe that was read before the clock was set tells the time
// that it was then, and where there is no date yet none.
func TestFC46TelemetryShowsNo1970(t *testing.T) {
	booted := clocktest.Stepped(time.Now(), -time.Duration(time.Now().Unix()-10)*time.Second)
	state := sensors.ChannelState{Name: "skin", LastGood: sensors.Reading{At: booted, Physical: sensors.Figure{Value: 21.5, Unit: "°C"}}}
	list := probeTelemetry([]sensors.ChannelState{state}, time.Minute)
	if len(list) != 1 || time.Since(list[0].At).Abs() > time.Minute {
		t.Errorf("got %+v, want the probe as of now", list)
	}
	if text := string(mustJSON(telemetryDocument{Name: "skin"})); strings.Contains(text, `"at"`) {
		t.Errorf("an instant that is not known is written: %s", text)
	}
}

package daemon

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oxyd/internal/config"
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

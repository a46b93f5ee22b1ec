package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parse("c.yaml", []byte(text), testHost)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c
}

// The contract fixes these (section 10), and the rest is documented.
func TestDefaults(t *testing.T) {
	got := mustParse(t, "sensors:\n- {tank: a, driver: simulated}\n"+
		"- {tank: b, driver: ads1115, input: 2, interval: 1m, calibration: [{volts: 4.5 V, remaining: 9 g}, {volts: 500 mV, remaining: 0 g}]}\n"+
		"tanks:\n- {id: a, capacity: 2 kg}\n- {id: b}\nledger:\nbroker:\nweb:\n")
	h := func(n int) Duration { return Duration(time.Duration(n) * time.Hour) }
	s := func(n int) Duration { return Duration(time.Duration(n) * time.Second) }
	want := &Config{
		Site: "base", Node: "test-012345", DataDir: "data", TopicPrefix: "oxyd", TanksMode: "open",
		Tanks: []Tank{
			{ID: "a", Name: "a", Capacity: 2000e9, Low: 20_0000, Critical: 10_0000},
			{ID: "b", Name: "b"},
		},
		Sensors: []Sensor{
			{Tank: "a", Driver: "simulated", Interval: s(10), StaleAfter: s(30),
				Simulated: &Simulated{Start: 2000e9, ConsumptionPerHour: 35e9, Day: h(24), RefillBelow: 10_0000, Seed: 1, Full: 2000e9}},
			{Tank: "b", Driver: "ads1115", Interval: s(60), StaleAfter: s(180),
				Bus: "/dev/i2c-1", Address: 0x48, Input: Input{Plus: 2}, Gain: 6_144_000_000, Rate: 128,
				Signal: "voltage", Divider: 1e9, Model: "linear",
				Calibration: []CalibrationPoint{
					{Volts: new(Volts(500_000_000)), Remaining: new(Mass(0))}, {Volts: new(Volts(4_500_000_000)), Remaining: new(Mass(9e9))}},
				VoltsMin: 300_000_000, VoltsMax: 4_700_000_000, Filter: &Filter{Window: 7, Sigmas: 3e9}},
		},
		Telemetry: Telemetry{Interval: s(60)},
		MQTT:      MQTT{Broker: "tcp://127.0.0.1:1883", KeepAlive: s(20)},
		Broker:    &Broker{Listen: "127.0.0.1:1883", MaxBytes: 256 << 20, AckWait: s(10), MaxAckPending: 2000},
		Ledger: &Ledger{ID: "main", Publish: true, DedupWindow: h(168), History: h(720), RedeliveryWindow: h(72), MaxBytes: DefaultLedgerMaxBytes(),
			QuarantineBytes: 16 << 20, MaxTanks: 256, MaxSources: 4096, MaxSourcesPerTank: 16, MaxParked: 10000, MaxMarks: 1_000_000, StaleAfter: s(900)},
		Outbox: Outbox{MaxBytes: 64 << 20, Retention: h(72), CommitInterval: s(5), ResendAfter: s(60)},
		Web:    &Web{Listen: "127.0.0.1:8686"},
		Log:    Log{Level: "info", Format: "auto"},

		NodeByDefault: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got, want := got.Roles(), []string{"edge", "ledger", "broker", "web"}; !slices.Equal(got, want) {
		t.Errorf("roles %v, want %v", got, want)
	}
}

// A role is on when its section stands and off when it does not.
func TestRoles(t *testing.T) {
	for text, want := range map[string]string{
		"web:": "web", "ledger: {}": "ledger", "broker:\n  listen: 127.0.0.1:1": "broker", "sensors: []\nmqtt:\noutbox:\nlog:\ntanks:": "edge",
	} {
		if got := strings.Join(mustParse(t, text).Roles(), " "); got != want {
			t.Errorf("%q turns on %q, want %q", text, got, want)
		}
	}
}

func TestMQTTBroker(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		embedded   bool
	}{
		{"ledger:", "tcp://127.0.0.1:1883", false},
		{"broker:", "tcp://127.0.0.1:1883", true},
		{"broker: {listen: '0.0.0.0:2883'}", "tcp://127.0.0.1:2883", true},
		{"broker: {listen: '[::]:2883'}", "tcp://[::1]:2883", true},
		{"broker: {listen: ':0'}", "tcp://127.0.0.1:0", true},
		{"broker: {listen: '10.1.2.3:1883'}", "tcp://10.1.2.3:1883", true},
		{"broker:\nmqtt: {broker: localhost}", "tcp://localhost:1883", true},
		{"broker:\nmqtt: {broker: other}", "tcp://other:1883", false},
		{"ledger:\nmqtt: {broker: '127.0.0.1:1884'}", "tcp://127.0.0.1:1884", false},
		{"ledger:\nmqtt: {broker: 'mqtt://b'}", "tcp://b:1883", false},
		{"ledger:\nmqtt: {broker: 'mqtts://b'}", "ssl://b:8883", false},
		{"ledger:\nmqtt: {broker: 'tls://[fe80::1]:1'}", "ssl://[fe80::1]:1", false},
		{"ledger:\nmqtt: {broker: 'unix:///run/m.sock'}", "unix:///run/m.sock", false},
	} {
		c := mustParse(t, tc.text)
		if c.MQTT.Broker != tc.want || c.UsesEmbeddedBroker() != tc.embedded {
			t.Errorf("%s\ngives %s, embedded %v; want %s, %v", tc.text, c.MQTT.Broker, c.UsesEmbeddedBroker(), tc.want, tc.embedded)
		}
	}
	for _, broker := range []string{"http://b", "unix://", "unix://b", "ws://b", "wss://b/mqtt", "tcp://u:secret@b", "tcp://b/path", "tcp://b:0", "tcp://b:65536", "tcp://", "", "a b", "tcp://b?x=y"} {
		got := faultsOf(t, "ledger:\nmqtt: {broker: '"+broker+"'}")
		if len(got) != 1 || !strings.HasPrefix(got[0], "2: mqtt.broker: ") || strings.Contains(got[0], "secret") {
			t.Errorf("broker %q gives %q", broker, got)
		}
	}
}

// Who uses the embedded broker need not repeat its credentials.
func TestEmbeddedCredentials(t *testing.T) {
	c := mustParse(t, "broker: {username: u, password_file: p}")
	if c.MQTT.Username != "u" || c.MQTT.PasswordFile != "p" {
		t.Errorf("got %q, %q, want the broker's", c.MQTT.Username, c.MQTT.PasswordFile)
	}
	c = mustParse(t, "broker: {username: u, password_file: p}\nmqtt: {broker: other}")
	if c.MQTT.Username != "" || c.MQTT.PasswordFile != "" {
		t.Errorf("got %q, %q: the broker's credentials for another broker", c.MQTT.Username, c.MQTT.PasswordFile)
	}
}

func TestWarnings(t *testing.T) {
	c := mustParse(t, "web: {listen: ':80'}\nbroker: {listen: '192.168.0.1:1883'}\nmqtt: {broker: far}\ntanks: [{id: hab-1}]\nsensors:\n- {tank: hab-2, driver: simulated}")
	var keys []string
	for _, w := range c.Warnings {
		keys = append(keys, w.Key)
	}
	want := []string{"web.listen", "broker.listen", "mqtt.broker", "sensors[0].tank"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("warnings (-want +got):\n%s\n%v", diff, c.Warnings)
	}
	if c := mustParse(t, "web:\nbroker: {listen: 'localhost:1'}\nsensors:\n- {tank: x, driver: simulated}"); len(c.Warnings) > 0 {
		t.Errorf("got warnings %v, want none", c.Warnings)
	}
}

// The default range of a transducer leaves out a broken wire and a clipped
// chip, whatever the calibration.
func TestDefaultVolts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volts := rapid.OneOf(rapid.Int64Range(1, 6_143_999_999), rapid.Int64Range(1, 9), rapid.Int64Range(6_143_999_990, 6_143_999_999))
		a := volts.Draw(t, "a")
		b := volts.Filter(func(v int64) bool { return v != a }).Draw(t, "b")
		text := fmt.Sprintf("sensors:\n- {tank: a, driver: ads1115, input: 0, calibration: [{volts: %v, remaining: 0 g}, {volts: %v, remaining: 1 g}]}", Volts(a), Volts(b))
		c, err := parse("c.yaml", []byte(text), testHost)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Sensors[0]
		if s.VoltsMin <= 0 || int64(s.VoltsMin) > min(a, b) || int64(s.VoltsMax) < max(a, b) || s.VoltsMax >= s.Gain {
			t.Fatalf("from %d to %d of %d for points at %d and %d", s.VoltsMin, s.VoltsMax, s.Gain, a, b)
		}
	})
}

// A driver that this build does not have stops the start, also where the
// sensor is optional: that is for a bus that is not there.
func TestFC99UnknownDriverIsRefused(t *testing.T) {
	got := faultsOf(t, "sensors:\n- {tank: a, driver: simulate, optional: true}")
	want := []string{`2: sensors[0].driver: "simulate" is not one of ads1115, mcp3208, mcp3008, hx711, iio, ds18b20, max31865, sfm, pulse, simulated; did you mean "simulated"?`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c := mustParse(t, "sensors:\n- {tank: a, driver: simulated, optional: true}"); !c.Sensors[0].Optional {
		t.Error("optional: true is not kept")
	}
}

func TestDefaultNode(t *testing.T) {
	const id = "4c4c4544004d3510804ab4c04f373532"
	for _, tc := range []struct{ name, id, want string }{
		{"raspberrypi", id, "raspberrypi-4c4c45"},
		{"hab.local", id, "hab.local-4c4c45"},
		{"größe 1", id, "gr----e-1-4c4c45"},
		{"-_x_-", id, "x-4c4c45"},
		{"", id, "node-4c4c45"},
		{"...", "", "node"},
		{"pi", "", "pi"},
		{strings.Repeat("n", 100), id, strings.Repeat("n", 57) + "-4c4c45"},
	} {
		if got := (host{tc.name, tc.id}).node(); got != tc.want {
			t.Errorf("host %q, id %q: node %q, want %q", tc.name, tc.id, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if node := (host{rapid.String().Draw(t, "name"), id}).node(); !event.ValidName(node) || !strings.HasSuffix(node, "-4c4c45") {
			t.Fatalf("node %q is no name", node)
		}
	})
	c, err := parse("c.yaml", []byte("web:"), host{name: "pi"})
	if err != nil || len(c.Warnings) != 1 || c.Warnings[0].Key != "node" {
		t.Errorf("without a machine id: %v, %v, want a warning about node", c.Warnings, err)
	}
	for _, id := range []string{"", "uninitialized", strings.Repeat("G", 32), strings.Repeat("a", 31)} {
		if validMachineID(id) {
			t.Errorf("%q is taken for a machine id", id)
		}
	}
}

// The two client ids of one process never meet, whatever the names are.
func TestClientIDsDiffer(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`)
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{Site: name.Draw(t, "site"), Node: name.Draw(t, "node"), Ledger: &Ledger{ID: name.Draw(t, "ledger")}}
		if c.PublisherClientID() == c.LedgerClientID() {
			t.Fatalf("both are %q", c.LedgerClientID())
		}
	})
	c := &Config{Site: "base", Node: "ctl-3", Ledger: &Ledger{ID: "main"}}
	if got := c.PublisherClientID(); got != "oxyd-base-ctl-3-pub" {
		t.Errorf("publisher is %q", got)
	}
	if got := c.LedgerClientID(); got != "oxyd-base-main-ledger" {
		t.Errorf("ledger is %q", got)
	}
}

func TestFindAndLoad(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := os.Stat(SystemPath); err == nil {
		t.Skip("this machine has a config of its own at " + SystemPath)
	}
	_, err := Find("")
	var missing *NotFoundError
	if !errors.As(err, &missing) || !slices.Equal(missing.Paths, []string{LocalPath, SystemPath}) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file: %v", err)
	}
	if !strings.Contains(missing.Hint(), "config.example.yaml") {
		t.Errorf("hint %q does not name the example", missing.Hint())
	}
	if _, err := Find("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("a named file that is not there: %v", err)
	}
	if _, err := Load("nowhere.yaml"); !errors.As(err, &missing) {
		t.Errorf("load of no file: %v", err)
	}
	write(t, "config.yaml", "web:\n")
	if got, err := Find(""); got != LocalPath || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, LocalPath)
	}
	if c, err := Load("config.yaml"); err != nil || c.Web == nil {
		t.Errorf("load: %v, %v", c, err)
	}
	if _, err := Load("."); err == nil {
		t.Error("a directory was loaded")
	}
	write(t, "large.yaml", "web:\n"+strings.Repeat("#", MaxFileBytes-5))
	if _, err := Load("large.yaml"); err != nil {
		t.Errorf("a file of exactly the bound: %v", err)
	}
	write(t, "larger.yaml", "web:\n"+strings.Repeat("#", MaxFileBytes-4))
	if _, err := Load("larger.yaml"); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("a file beyond the bound: %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Clean(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A chip's values are filtered and reported by exception unless the config says
// otherwise; a probe is filtered; a simulated tank tells everything.
func TestDefaultReporting(t *testing.T) {
	c := mustParse(t, "tanks:\n- {id: a, capacity: 2 kg}\n- {id: b, capacity: 100 kg}\n- {id: c, capacity: 2 kg}\nsensors:\n"+
		"- {tank: a, driver: mcp3208, spi: '0.0', input: 0, calibration: [{volts: 3 V, remaining: 2 kg}, {volts: 500 mV, remaining: 0 g}]}\n"+
		"- {tank: b, driver: mcp3208, spi: '0.0', input: 1, interval: 10m, consumption: {refill_above: 1 kg, settle: 30m}, calibration: [{volts: 3 V, remaining: 2 kg}, {volts: 500 mV, remaining: 0 g}]}\n"+
		"- {tank: c, driver: simulated}\n- {name: skin, measures: temperature, driver: ds18b20, id: 28-0316a2793bff}\n")
	filter := &Filter{Window: 7, Sigmas: 3e9}
	for i, want := range []struct {
		filter *Filter
		report *Report
	}{
		{filter, &Report{Deadband: 2e9, Heartbeat: DefaultHeartbeat}},
		{filter, &Report{Deadband: 50e9, Heartbeat: Duration(10 * time.Minute)}}, // no more than what is booked, no sooner than it is read
		{nil, nil},
		{filter, nil},
	} {
		if diff := cmp.Diff(want.filter, c.Sensors[i].Filter) + cmp.Diff(want.report, c.Sensors[i].Report); diff != "" {
			t.Errorf("sensor %d: %s", i, diff)
		}
	}
}

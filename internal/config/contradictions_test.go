package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testHost keeps default node names out of the way.
var testHost = host{name: "test", machineID: "0123456789abcdef0123456789abcdef"}

// faultsOf parses text and gives its faults, one a line, without the file.
func faultsOf(t *testing.T, text string) []string {
	t.Helper()
	_, err := parse("c.yaml", []byte(text), testHost)
	if err == nil {
		return nil
	}
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got error %T, want Faults", err)
	}
	return strings.Split(strings.ReplaceAll(faults.Error(), "c.yaml:", ""), "\n")
}

// Every contradiction has a message of its own, and gives that one alone.
func TestFC97Contradictions(t *testing.T) {
	const probe = "driver: ads1115, calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 9 g}]"
	for _, tc := range []struct{ name, text, want string }{
		{"two sensors on one input, the bus written in two ways",
			"sensors:\n- {tank: a, input: 1, bus: 1, " + probe + "}\n- {tank: b, input: 1, bus: I2C1, " + probe + "}",
			"3: sensors[1]: is on /dev/i2c-1, address 0x48, input 1, as sensors[0] in line 2 is already"},
		{"duplicate tank id",
			"ledger:\ntanks:\n- id: a\n- id: a",
			`4: tanks[1].id: "a" is already the id of tanks[0] in line 3`},
		{"two sensors on one tank",
			"sensors:\n- {tank: a, driver: simulated}\n- {tank: a, driver: simulated}",
			`3: sensors[1].tank: "a" already has the sensor sensors[0] in line 2: one sensor of the content a tank`},
		{"full equals empty",
			"sensors:\n- {tank: a, driver: ads1115, input: 0, calibration: [{volts: 1 V, remaining: 5 g}, {volts: 2 V, remaining: 5 g}]}",
			"2: sensors[0].calibration[1].remaining: 5 g stands in sensors[0].calibration[0] too: full and empty cannot be the same"},
		{"one voltage, two amounts",
			"sensors:\n- {tank: a, driver: ads1115, input: 0, calibration: [{volts: 1 V, remaining: 0 g}, {volts: 1000 mV, remaining: 5 g}]}",
			"2: sensors[0].calibration[1].volts: 1 V stands in sensors[0].calibration[0] too: two points of one voltage give no line"},
		{"a calibration of one point",
			"sensors:\n- {tank: a, driver: ads1115, input: 0, calibration: [{volts: 1 V, remaining: 0 g}]}",
			"2: sensors[0].calibration: has 1 points: two make the line"},
		{"critical not below low",
			"ledger:\ntanks:\n- {id: a, capacity: 1 kg, low: 10 %, critical: 10 %}",
			"3: tanks[0].critical: critical 10 % is not below low 10 %"},
		{"critical above the default of low",
			"ledger:\ntanks:\n- {id: a, capacity: 1 kg, critical: 30 %}",
			"3: tanks[0].critical: critical 30 % is not below low 20 % (the default)"},
		{"stale before the next reading",
			"sensors:\n- {tank: a, driver: simulated, interval: 1m, stale_after: 59s}",
			"2: sensors[0].stale_after: 59s is shorter than the interval 1m: it would be stale between two readings"},
		{"stale in the ledger before the next reading",
			"sensors:\n- {tank: a, driver: simulated, interval: 1m}\nledger: {stale_after: 30s}",
			"2: sensors[0].interval: 1m is longer than ledger.stale_after 30s: the tank would be stale between two readings"},
		{"capacity 0",
			"ledger:\ntanks:\n- {id: a, capacity: 0 kg}",
			"3: tanks[0].capacity: must be more than 0 g: leave it out if it is not known"},
		{"more at the start than fits",
			"ledger:\ntanks:\n- {id: a, capacity: 1 kg, initial: 1000.000000001 g}",
			"3: tanks[0].initial: 1000.000000001 g is more than the capacity 1000 g"},
		{"a simulated tank that overflows",
			"ledger:\ntanks:\n- {id: a, capacity: 1 kg}\nsensors:\n- {tank: a, driver: simulated, simulated: {start: 2 kg}}",
			"5: sensors[0].simulated.start: 2000 g is more than the tank's capacity 1000 g"},
		{"a level of no capacity",
			"ledger:\ntanks:\n- {id: a, low: 10 %}",
			"3: tanks[0].low: is a percentage of a capacity that is not given: add capacity"},
		{"a sensor on an unknown tank, closed",
			"tanks_mode: closed\ntanks: [{id: hab-1}]\nsensors:\n- {tank: hab-l, driver: simulated}",
			`4: sensors[0].tank: "hab-l" is not listed in tanks, and tanks_mode is closed, did you mean "hab-1"?`},
		{"closed without tanks",
			"ledger:\ntanks_mode: closed",
			"2: tanks_mode: is closed and no tank is listed: every event would be quarantined"},
		{"R5: forgotten before it can come back",
			"ledger:\n  dedup_window: 24h",
			"2: ledger.dedup_window: dedup_window 24h is shorter than redelivery_window 72h (the default): " +
				"an event could come back after it was forgotten and count twice"},
		{"R5: forgotten one second too early",
			"ledger: {dedup_window: 71h59m59s, redelivery_window: 72h}",
			"1: ledger.dedup_window: dedup_window 71h59m59s is shorter than redelivery_window 72h: " +
				"an event could come back after it was forgotten and count twice"},
		{"R5: pruned before the window ends",
			"ledger: {history: 167h}",
			"1: ledger.history: history 167h is shorter than dedup_window 168h (the default): " +
				"an event could come back after it was forgotten and count twice"},
		{"R5: the outbox brings back more than the window",
			"outbox: {retention: 96h}\nledger: {redelivery_window: 95h, dedup_window: 100h}",
			"1: outbox.retention: outbox.retention 96h is longer than ledger.redelivery_window 95h: it can bring events back after the window"},
		{"R5: the default retention is longer than the window",
			"ledger: {redelivery_window: 1h}",
			"1: ledger.redelivery_window: outbox.retention 72h (the default) is longer than ledger.redelivery_window 1h: it can bring events back after the window"},
		{"no role", "site: base", " no role is on: one of the sections sensors, ledger, broker and web must stand"},
		{"a certificate without its key",
			"ledger:\nmqtt: {broker: ssl://b, cert_file: c.pem}",
			"2: mqtt.cert_file: stands without key_file: both or neither"},
		{"a key without its certificate",
			"ledger:\nmqtt: {broker: ssl://b, key_file: k.pem}",
			"2: mqtt.key_file: stands without cert_file: both or neither"},
		{"trust over a plain connection",
			"ledger:\nmqtt: {ca_file: ca.pem}",
			"2: mqtt.ca_file: has no effect over tcp://127.0.0.1:1883: use ssl://"},
		{"a password without a user",
			"ledger:\nmqtt: {password_file: p}",
			"2: mqtt.password_file: stands without username: MQTT knows no password without one"},
		{"another user than the embedded broker's",
			"broker: {username: a, password_file: p}\nmqtt: {username: b, password_file: p}",
			`2: mqtt.username: "b" is not broker.username "a", and that broker is the one in use`},
		{"an unknown driver",
			"sensors:\n- {tank: a, driver: bmp280}",
			`2: sensors[0].driver: "bmp280" is not one of ads1115, mcp3208, mcp3008, hx711, iio, ds18b20, max31865, sfm, pulse, simulated`},
		{"a key of another driver",
			"sensors:\n- {tank: a, driver: simulated, rate: 8}",
			"2: sensors[0].rate: belongs to the driver ads1115, not to simulated"},
		{"a range that is empty",
			"sensors:\n- {tank: a, input: 0, volts_min: 2 V, volts_max: 2 V, " + probe + "}",
			"2: sensors[0].volts_min: 2 V is not below volts_max 2 V"},
		{"a range above the calibration",
			"sensors:\n- {tank: a, input: 0, volts_min: 1.001 V, " + probe + "}",
			"2: sensors[0].volts_min: 1.001 V is above the lower point of the calibration, 1 V"},
		{"a range below the calibration",
			"sensors:\n- {tank: a, input: 0, volts_max: 1.999 V, " + probe + "}",
			"2: sensors[0].volts_max: 1.999 V is below the upper point of the calibration, 2 V"},
		{"a calibration beyond the gain",
			"sensors:\n- {tank: a, input: 0, gain: 1.024 V, " + probe + "}",
			"2: sensors[0].gain: 1.024 V clips the calibration, which goes up to 2 V: take a larger one"},
		{"a range that the chip clips",
			"sensors:\n- {tank: a, input: 0, gain: 2.048 V, volts_max: 2048 mV, " + probe + "}",
			"2: sensors[0].volts_max: 2.048 V is not below the full scale of the chip, gain 2.048 V"},
		{"a range that takes a broken wire for a value",
			"sensors:\n- {tank: a, input: 0, volts_min: 0 V, " + probe + "}",
			"2: sensors[0].volts_min: must be more than 0 V, which is what a wire that came off gives"},
		{"a calibration that takes a broken wire for a value",
			"sensors:\n- {tank: a, driver: ads1115, input: 0, calibration: [{volts: 0 V, remaining: 0 g}, {volts: 2 V, remaining: 5 g}]}",
			"2: sensors[0].calibration[0].volts: must be more than 0 V, which is what a wire that came off gives"},
		{"a calibration beyond full",
			"tanks: [{id: a, capacity: 8 g}]\nsensors:\n- {tank: a, input: 0, " + probe + "}",
			"3: sensors[0].calibration[1].remaining: 9 g is more than the tank's capacity 8 g"},
		{"read faster than the chip converts",
			"sensors:\n- {tank: a, input: 0, rate: 8, interval: 150ms, " + probe + "}",
			"2: sensors[0].interval: 150ms is shorter than a conversion at 8 a second, which can take 156.25ms"},
		{"a simulated tank refilled above its start",
			"tanks: [{id: a, capacity: 1 kg}]\nsensors:\n- {tank: a, driver: simulated, simulated: {start: 500 g, refill_below: 50 %}}",
			"3: sensors[0].simulated.refill_below: start 500 g is not above refill_below 50 % of 1000 g"},
		{"two servers on one address",
			"web: {listen: \"127.0.0.1:1883\"}\nbroker:",
			"1: web.listen: 127.0.0.1:1883 is the address of broker.listen too"},
		{"more tanks than the ledger takes",
			"tanks: [{id: a}, {id: b}]\nledger: {max_tanks: 1}",
			"1: tanks: lists 2 tanks, more than ledger.max_tanks 1"},
		{"a quarantine larger than the store",
			"ledger: {max_bytes: 8 MiB}",
			"1: ledger.quarantine_bytes: 16 MiB (the default) is more than the whole store, max_bytes 8 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{tc.want}, faultsOf(t, tc.text)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// All contradictions of one file are reported in one run, in order of lines.
func TestFC97AllInOneRun(t *testing.T) {
	got := faultsOf(t, `
tanks:
- {id: a, capacity: 0 g}
- {id: a, capacity: 1 kg, low: 5 %, critical: 6 %}
sensors:
- {tank: a, driver: ads1115, input: 0, calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 0 g}]}
- {tank: b, driver: ads1115, input: 0, interval: 9s, stale_after: 8s, calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 1 g}]}
ledger: {dedup_window: 1h}
`)
	want := []string{
		"3: tanks[0].capacity: must be more than 0 g: leave it out if it is not known",
		`4: tanks[1].id: "a" is already the id of tanks[0] in line 3`,
		"4: tanks[1].critical: critical 6 % is not below low 5 %",
		"6: sensors[0].calibration[1].remaining: 0 g stands in sensors[0].calibration[0] too: full and empty cannot be the same",
		"7: sensors[1]: is on /dev/i2c-1, address 0x48, input 0, as sensors[0] in line 6 is already",
		"7: sensors[1].stale_after: 8s is shorter than the interval 9s: it would be stale between two readings",
		"8: ledger.dedup_window: dedup_window 1h is shorter than redelivery_window 72h (the default): " +
			"an event could come back after it was forgotten and count twice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// What is allowed right at the edge of each contradiction.
func TestNoContradiction(t *testing.T) {
	for _, text := range []string{
		"ledger: {dedup_window: 72h, redelivery_window: 72h}\noutbox: {retention: 72h}",
		"ledger:\ntanks:\n- {id: a, capacity: 1 kg, initial: 1 kg, low: 0 %, critical: 0 %}",
		"ledger:\ntanks:\n- {id: a, capacity: 1 kg, initial: 0 g, low: 10.0001 %, critical: 10 %}\n- {id: b, initial: 7 g}",
		"sensors:\n- {tank: a, driver: simulated, simulated: {start: 1 g, refill_below: 0 %}}",
		"sensors:\n- {tank: a, driver: simulated, interval: 5s, stale_after: 5s}",
		"sensors:\n- {tank: a, driver: ads1115, input: 0, volts_min: 1 V, volts_max: 2 V, calibration: [{volts: 2 V, remaining: 0 g}, {volts: 1 V, remaining: 9 g}]}\n" +
			"- {tank: b, driver: ads1115, input: 0, address: 0x49, calibration: [{volts: 2 V, remaining: 0 g}, {volts: 1 V, remaining: 9 g}]}",
		"web: {listen: 127.0.0.1:0}\nbroker: {listen: 127.0.0.1:0}",
		"web:", "broker:", "ledger:", "sensors:", "sensors: []", "web: {}",
	} {
		if got := faultsOf(t, text); got != nil {
			t.Errorf("%s\ngives %q, want no fault", text, got)
		}
	}
}

// Every bound holds at its edge and not a step beyond.
func TestBounds(t *testing.T) {
	for _, tc := range []struct{ key, inside, outside string }{
		{"mqtt.keepalive", "5s 1h", "4s 3601s 0s"},
		{"broker.max_bytes", "16MiB 1024GiB", "16383KiB 1025GiB"},
		{"broker.ack_wait", "1s 5m", "999ms 301s"},
		{"broker.max_ack_pending", "1 10000", "0 10001"},
		{"ledger.redelivery_window", "72h 168h", "999ms 0s"},
		{"ledger.dedup_window", "72h 87600h", "87601h"},
		{"ledger.max_bytes", "16MiB 512MiB", "8191KiB 65GiB"},
		{"ledger.history", "168h 87600h", "167h 87601h"},
		{"ledger.max_marks", "1 100000000", "0 100000001"},
		{"ledger.quarantine_bytes", "64KiB 512MiB", "63KiB"},
		{"ledger.max_tanks", "1 65536", "0 65537"},
		{"ledger.max_sources", "1 65536", "0 65537"},
		{"ledger.max_sources_per_tank", "1 65536", "0 65537"},
		{"ledger.max_parked", "1 1000000", "0 1000001"},
		{"ledger.stale_after", "1s 168h", "999ms 169h"},
		{"outbox.max_bytes", "2MiB 512MiB", "2047KiB 17GiB"},
		{"outbox.retention", "0s 72h", "87601h"},
		{"outbox.commit_interval", "100ms 1m", "99ms 61s 0s"},
		{"topic_prefix", "o base/oxyd " + strings.Repeat("p", 128), "/o o/ o//x o+ a#b $SYS '' " + strings.Repeat("p", 129)},
		{"data_dir", "x", "''"},
		{"site", "a A.b_c-9 " + strings.Repeat("s", 64), "-a a/b '' ä " + strings.Repeat("s", 65)},
		{"ledger.id", "main", "''"},
		{"web.listen", "127.0.0.1:0 :65535 '[::1]:80'", "127.0.0.1 :65536 :http '' ::1:80"},
		{"tanks_mode", "open", "Open both"},
		{"log.level", "trace debug info warn error", "none"},
		{"log.format", "auto text json", "xml"},
	} {
		for _, value := range strings.Fields(tc.inside) {
			if got := faultsOf(t, section(tc.key, value)); got != nil {
				t.Errorf("%s: %s gives %q, want no fault", tc.key, value, got)
			}
		}
		for _, value := range strings.Fields(tc.outside) {
			got := faultsOf(t, section(tc.key, value))
			if !slices.ContainsFunc(got, func(f string) bool {
				return strings.Contains(f, ": "+tc.key+": ") || strings.HasPrefix(f, "1: "+tc.key)
			}) {
				t.Errorf("%s: %s gives %q, want a fault of the key", tc.key, value, got)
			}
		}
	}
	for field, tc := range map[string]struct{ inside, outside string }{
		"interval":    {"100ms 15m", "99ms 25h 0s"},
		"stale_after": {"10s 168h", "169h"},
		"address":     {"0x48 0x4b 72", "0x47 0x4c 0"},
		"input":       {"0 3", "4"},
		"rate":        {"16 860", "0 9"},
		"gain":        {"6.144V 4096mV", "3V 0V"},
		"bus":         {"0 1 I2C3 /dev/i2c-65535", "-1 01 /dev/spidev0.0 i2c '' /dev/i2c-65536"},
		"name":        {"x", strings.Repeat("x", 65)},
	} {
		check := func(value string, want bool) {
			keys := map[string]string{"input": "0", field: value}
			text := "ledger:\nsensors:\n- tank: a\n  driver: ads1115\n  calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 1 g}]\n"
			for k, v := range keys {
				text += "  " + k + ": " + v + "\n"
			}
			if got := faultsOf(t, text); (got != nil) != want {
				t.Errorf("%s: %s gives %q, want a fault: %v", field, value, got, want)
			}
		}
		for _, value := range strings.Fields(tc.inside) {
			check(value, false)
		}
		for _, value := range strings.Fields(tc.outside) {
			check(value, true)
		}
	}
}

// section gives a config with one key, at the top or in a section, and a role.
func section(key, value string) string {
	name, field, nested := strings.Cut(key, ".")
	if !nested {
		return key + ": " + value + "\nledger:\n"
	}
	text := name + ":\n  " + field + ": " + value + "\n"
	if name != "ledger" {
		text += "ledger:\n"
	}
	return text
}

package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const examplePath = "../../config.example.yaml"

// The example runs as it stands on a machine without hardware.
func TestExampleAsItStands(t *testing.T) {
	c, err := Load(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Sensors {
		if s.Driver != DriverSimulated {
			t.Errorf("sensor on %s needs hardware: %s", s.Tank, s.Driver)
		}
	}
	if len(c.Sensors) != 3 || len(c.Roles()) != 4 || !c.UsesEmbeddedBroker() {
		t.Errorf("%d sensors, roles %v, embedded broker %v; want 3, all four, true", len(c.Sensors), c.Roles(), c.UsesEmbeddedBroker())
	}
	// The example of record (R7): tank A opens with 847 g and has no sensor.
	a := c.Tank("A")
	if a == nil || a.Initial == nil || *a.Initial != 847e9 || a.Capacity != 1000e9 {
		t.Errorf("tank A is %+v, want initial 847 g of 1000 g", a)
	}
	for _, s := range c.Sensors {
		if s.Tank == "A" {
			t.Error("tank A has a sensor")
		}
	}
}

// The settings that are off in the example are valid too: its comments cannot
// rot. Lines that begin with a single # are settings, those with ## are prose.
func TestExampleWithEverythingOn(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	off := regexp.MustCompile(`(?m)^#([^#\n])`)
	if n := len(off.FindAll(text, -1)); n < 20 {
		t.Fatalf("only %d lines are off", n)
	}
	c, err := parse(examplePath, off.ReplaceAll(text, []byte("$1")), testHost)
	if err != nil {
		t.Fatal(err)
	}
	dock := c.Sensors[slices.IndexFunc(c.Sensors, func(s Sensor) bool { return s.Tank == "dock-1" })]
	if dock.Driver != DriverADS1115 || dock.Bus != "/dev/i2c-1" || dock.Address != 0x48 || !dock.Optional || c.Tank(dock.Tank) == nil {
		t.Errorf("the real sensor is %+v", dock)
	}
	exampleCovers(t, c)
	if c.MQTT.Broker != "ssl://broker.habitat.example:8883" || c.UsesEmbeddedBroker() {
		t.Errorf("the external broker is %s", c.MQTT.Broker)
	}
	if c.Node != "ctl-1" || c.Broker.Username != "habitat" {
		t.Errorf("node %q, broker user %q", c.Node, c.Broker.Username)
	}
}

// exampleCovers checks that the example shows every driver, signal, model and role of
// a sensor, that its tanks are listed, and that nothing in it is worth a warning.
func exampleCovers(t *testing.T, c *Config) {
	t.Helper()
	seen := make(map[string]bool)
	for _, s := range c.Sensors {
		for _, word := range []string{s.Driver, s.Signal, s.Model, string(s.Measures)} {
			seen[word] = true
		}
		if s.Driver != DriverSimulated && !s.Optional {
			t.Errorf("%s%s is not optional: with it the example does not start", s.Tank, s.Name)
		}
		if s.Tank != "" && c.Tank(s.Tank) == nil {
			t.Errorf("tank %s of a sensor is not listed", s.Tank)
		}
	}
	want := slices.Concat(drivers(), []string{SignalVoltage, SignalRatiometric, SignalLoop, SignalBridge, SignalDirect,
		ModelLinear, ModelGas, ModelLOXLevel, ModelWeighed, ModelStrapping, string(KindTemperature), string(KindPressure), string(KindVoltage)})
	for _, word := range want {
		// mcp3008 is mcp3208 with fewer bits.
		if !seen[word] && word != DriverMCP3008 {
			t.Errorf("no sensor of the example shows %s", word)
		}
	}
	for _, w := range c.Warnings {
		if strings.HasPrefix(w.Key, "sensors") {
			t.Errorf("warning: %v", w)
		}
	}
}

// Each sensor that is off is valid by itself too, with the probes that it refers to:
// they are turned on one by one.
func TestExampleSensorsOneByOne(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nsensors:\n")
	rest, _, _ = strings.Cut(rest, "\n## Cheap figures")
	starts := regexp.MustCompile(`(?m)^#  - `).FindAllStringIndex(rest, -1)
	all, named := []string{}, make(map[string]string)
	for i, at := range starts {
		end := len(rest)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		var item strings.Builder
		for line := range strings.Lines(rest[at[0]:end]) {
			if setting, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(setting, "#") {
				item.WriteString(setting)
			}
		}
		all = append(all, item.String())
		if name, ok := strings.CutPrefix(item.String(), "  - name: "); ok {
			name, _, _ = strings.Cut(name, "\n")
			named[name] = item.String()
		}
	}
	if len(all) < 14 {
		t.Fatalf("found %d sensors that are off, want more", len(all))
	}
	for _, item := range all {
		config := "sensors:\n" + item
		for name, probe := range named {
			if probe != item && strings.Contains(item, ": "+name+"\n") {
				config += probe
			}
		}
		if _, err := parse("example", []byte(config), testHost); err != nil {
			t.Errorf("%v\n%s", err, config)
		}
	}
}

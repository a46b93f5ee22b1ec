package config

import (
	"os"
	"regexp"
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
	last := c.Sensors[len(c.Sensors)-1]
	if last.Driver != DriverADS1115 || last.Bus != "/dev/i2c-1" || last.Address != 0x48 || !last.Optional || c.Tank(last.Tank) == nil {
		t.Errorf("the real sensor is %+v", last)
	}
	if c.MQTT.Broker != "ssl://broker.habitat.example:8883" || c.UsesEmbeddedBroker() {
		t.Errorf("the external broker is %s", c.MQTT.Broker)
	}
	if c.Node != "ctl-1" || c.Broker.Username != "habitat" {
		t.Errorf("node %q, broker user %q", c.Node, c.Broker.Username)
	}
}

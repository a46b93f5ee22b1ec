package sensors

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
)

func TestOpenListsAllFaults(t *testing.T) {
	opened := 0
	_, err := Open([]Spec{
		{Tank: "A", Driver: "hx712", Interval: time.Second},
		{Tank: "B", Driver: DriverADS1115, Device: DeviceSpec{Bus: "i2c-one", Address: 0x50, Input: "7", Gain: 5 * physic.Volt, Rate: 100}},
		{Driver: DriverSimulated, Simulated: SimulatedOptions{Capacity: 1}, StaleAfter: time.Second, Interval: 2 * time.Second},
		gaugeSpec("D", "1", 0),
		gaugeSpec("E", "/dev/i2c-1", 0),
		{Tank: "F", Driver: DriverADS1115, Device: DeviceSpec{Bus: "1", Input: "1", Gain: 4096 * mV, Rate: 8}, Interval: 100 * time.Millisecond,
			Scale: gaugeSpec("", "", 0).Scale, Wire: WireSpec{VoltsMin: 0.25, VoltsMax: 4.75}},
	}, OpenOptions{OpenBus: func(string) (i2c.BusCloser, error) { opened++; return nil, errors.New("opened") }})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		`sensor 1 (tank "A"): unknown driver "hx712"`,
		`"i2c-one" names no I2C bus`, "no address 0x50", `no input "7"`, "no full scale 5V", "no rate of 100", "no range and no calibration", "above 0 V",
		`sensor 3 (probe "simulated"): `, "no tank", "stale_after 1s is shorter",
		`sensor 5 (tank "E"): /dev/i2c-1 0x48 AIN0 is tank "D"'s already`,
		"full scale 4.096 V clips", "interval 100ms is shorter than a conversion",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got no %q in:\n%v", want, err)
		}
	}
	if opened != 0 || strings.Contains(err.Error(), "sensor 4") {
		t.Errorf("got %d buses opened, and the error:\n%v", opened, err)
	}
}

// TestOpenSimulated is the example configuration's way: three tanks, no hardware.
func TestOpenSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var specs []Spec
		for i, tank := range []string{"B", "C", "D"} {
			specs = append(specs, Spec{Tank: tank, Driver: DriverSimulated, Interval: time.Minute, Simulated: SimulatedOptions{
				Capacity: 1000 * physic.Gram, PerHour: physic.Mass(i+1) * 100 * physic.Gram,
				RefillAt: 100 * physic.Gram, NoiseSigma: physic.Gram / 10, Seed: uint64(i),
			}})
		}
		var o told
		p, err := Open(specs, OpenOptions{Options: o.options()})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(8*time.Hour + 500*time.Millisecond)
		states := p.States()
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i, want := range []physic.Mass{200 * physic.Gram, 300 * physic.Gram, 400 * physic.Gram} { // C and D were refilled
			s := states[i]
			if d := s.LastGood.Remaining - want; s.State != StateOK || s.Name != "simulated" || s.Reads != 481 || max(d, -d) > physic.Gram {
				t.Errorf("got %+v, want ok and %s", s, want)
			}
		}
	})
}

func TestRefusedChannels(t *testing.T) {
	_, err := NewPoller([]Bus{{Name: "x", Channels: []Channel{{Tank: "A", Timeout: -1, StaleAfter: -1}}}}, Options{})
	for _, want := range []string{"tank A", "interval", "stale_after", "timeout", "no way to open"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

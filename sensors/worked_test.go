package sensors_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/sensors"
	"oxyd/sensors/internal/chip"
)

const workedConfig = `site: base
data_dir: ./d
tanks:
  - {id: dock-2, capacity: 18 kg}
  - {id: dock-3, capacity: 18 kg}
  - {id: bottle-1, capacity: 14 kg}
  - {id: lox-1, capacity: 200 kg}
  - {id: lox-2, capacity: 90 kg}
sensors:
  - tank: dock-2
    name: dock-2-pressure
    driver: ads1115
    address: 0x49
    input: 0
    signal: ratiometric
    supply_input: 1
    range: [0 bar, 250 bar]
    model: gas
    volume: 50 L
    pressure: gauge
    ambient: 1.01325 bar
    temperature: 15 °C
    reserve: 10 bar
    purity: 99.5 %
  - tank: dock-3
    driver: ads1115
    address: 0x49
    input: 2
    gain: 4.096 V
    signal: 4-20mA
    shunt: 100 Ohm
    loop_limits: [3.6 mA, 3.8 mA, 20.5 mA, 21 mA]
    range: [0 bar, 300 bar]
    model: gas
    volume: 50 L
    pressure: gauge
    temperature: 15 °C
    shell: 0.15 %
  - tank: bottle-1
    driver: ads1115
    address: 0x4b
    input: 0
    gain: 256 mV
    signal: bridge
    calibration:
      - {counts: 0, mass: 0 kg}
      - {counts: 20000, mass: 80 kg}
    model: weighed
    tare: 58.3 kg
  - tank: lox-1
    driver: ads1115
    address: 0x4a
    input: 0
    signal: 4-20mA
    shunt: 91 Ohm
    range: [0 mbar, 160 mbar]
    model: lox_level
    vessel_pressure: lox-1-pressure
    volume: 190 L
    table:
      - {level: 0 mm, volume: 0 L}
      - {level: 200 mm, volume: 22 L}
      - {level: 1200 mm, volume: 168 L}
      - {level: 1400 mm, volume: 180 L}
    reserve_mass: 5 kg
    boil_off: 1.5 %/day
  - name: lox-1-pressure
    measures: pressure
    driver: ads1115
    address: 0x4a
    input: 1
    signal: 4-20mA
    shunt: 91 Ohm
    range: [0 bar, 16 bar]
    pressure: gauge
  - tank: lox-2
    driver: mcp3208
    spi: 0.0
    input: 0
    vref: 3.3 V
    divider: 2
    calibration:
      - {volts: 0.5 V, level: 0 mm}
      - {volts: 5 V, level: 900 mm}
    model: strapping
    table:
      - {level: 0 mm, volume: 0 L}
      - {level: 900 mm, volume: 80 L}
    density: 1141 kg/m3
`

// From the words of a config to kilograms, with one tank of each chain: nothing on the
// way takes a unit for another, a gauge for an absolute pressure or a percentage for a
// fraction. The volts, and what they mean, were worked out by hand from the chains'
// definitions and the tables of the equation of state (Stewart, Jacobsen, Wagner 1991).
func TestWorkedChains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(workedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	specs, err := daemon.SensorSpecs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		bus, wire, mcp := &chip.Bus{Name: "i2c"}, &chip.SPI{Name: "spi"}, chip.NewMCP3x08(12, 3.3)
		volts := func(address uint16, inputs ...float64) {
			ads := chip.NewADS1115(time.Now)
			bus.Plug(address, ads)
			for i, v := range inputs {
				ads.Set(i, physic.ElectricPotential(math.Round(v*1e9)))
			}
		}
		const loop = 16e-3 / 100 // amperes for a percent of the span
		// 100 bar absolute are 98.98675 bar gauge; 200 bar are 198.98675 bar.
		volts(0x49, 5*(0.1+0.8*98.98675/250), 5.0, 100*(4e-3+loop*198.98675/3))
		// 0.7 m between liquid and vapour of 5 bar: 7020.5 Pa; 5 bar are 3.98675 bar gauge.
		volts(0x4a, 91*(4e-3+loop*(1042.37-19.663)*9.80665*0.7/160), 91*(4e-3+loop*3.98675/0.16))
		volts(0x4b, 16000*256e-3/32768)
		mcp.Set(0, 2.75/2)
		wire.Plug(mcp)
		p, err := sensors.Open(specs, sensors.OpenOptions{OpenBus: func(string) (i2c.BusCloser, error) { return bus, nil },
			OpenSPI: func(string, spi.Mode, physic.Frequency) (sensors.SPIConn, error) { return wire, nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			"dock-2":   (141.9264 - 14.8309) * 0.050 * 0.995, // 10 MPa less a reserve of 1.1013 MPa, at 288.15 K
			"dock-3":   286.8783 * 0.050 * 1.0015,            // 20 MPa, in a shell that has grown by 0.15 %
			"bottle-1": 64 - 58.3,
			"lox-1":    1042.37*0.095 + 19.663*(0.190-0.095) - 5,
			"":         5e5, // Pa absolute, of the probe
			"lox-2":    0.040 * 1141,
		}
		for _, c := range p.States() {
			if got := c.LastGood.Value; c.State != sensors.StateOK || math.Abs(got/want[c.Tank]-1) > 1e-3 {
				t.Errorf("%s %s: %s %s, %.6g, want %.6g", c.Tank, c.Name, c.State, c.Reason, got, want[c.Tank])
			}
			delete(want, c.Tank)
		}
		if len(want) > 0 {
			t.Errorf("not measured: %v", want)
		}
	})
}

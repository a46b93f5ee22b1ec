package config

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is changed in a valid sensor, it is refused with a place in the file, or
// what it gives can be worked with.
func TestChangedSensors(t *testing.T) {
	value := regexp.MustCompile(`: [^,{}\[\]]+`)
	valid := []string{
		loopGas + ", temperature: skin, reserve: 9 bar, purity: 99.5 %, loop_limits: [3.6 mA, 3.8 mA, 20.5 mA, 21 mA], divider: 2",
		ratioGas + ", temperature: 20 °C, supply_min: 4.5 V, supply_max: 5.5 V, supply_divider: 1, divider: 1",
		lox + ", vessel_pressure: 2 bar, boil_off: 1 %/day, reserve_mass: 2 kg, " + table,
		scale + ", model: weighed, tare: 9 kg, " + counts,
		adc + ", model: strapping, density: 1141 kg/m3, calibration: [{volts: 1 V, level: 0 mm}, {volts: 2 V, level: 1 m}], " + table,
		adc + ", volts_min: 0.5 V, volts_max: 2.5 V, divider: 1, gain: 4.096 V, rate: 8, " + volts,
		sfm + ", address: 0x2e, bus: 1, gas: air", pulse + ", gpio_chip: 0, debounce: 1ms, edge: rising, bias: as-is",
		"driver: iio, device: d, channel: in_pressure, model: gas, volume: 5 L, pressure: absolute, temperature: skin",
		"driver: mcp3208, spi: 0.0, input: 1, signal: ratiometric, supply_input: 2, divider: 2, supply_divider: 2, range: [0 kg, 9 kg]",
		"driver: simulated, report: {deadband: 5 g, heartbeat: 1m}, consumption: {deadband: 50 g, settle: 3m, refill_above: 60 g}, filter: {window: 7, sigmas: 3, floor: 1 g, max_rate: 5 g/h, stuck_after: 1h}, simulated: {asleep_for: 1h, asleep_after: 1h, day: 9h, events: [{at: 1m, for: 1m, every: 1h, do: leak, rate: 5 g/h}]}",
		strings.TrimSuffix(skin, "}") + ", filter: {window: 5}}",
		"- {name: p, measures: pressure, pressure: gauge, ambient: 1 bar, " + adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [0 bar, 16 bar]}",
		"- {name: r, measures: temperature, driver: max31865, spi: 0.1, rtd: PT100, wires: 2, reference: 430 Ohm, mains: 50 Hz}",
	}
	other := []string{"", "0", "7", "-1", "x", "null", "[1, 2]", "{}", "{a: 1}", "0 bar", "250 bar", "0 V", "9 V", "1 kg", "0 g", "999999 kg", "-10 °C", "20 mA", "0 mA", "0 Ohm", "9223372036 Ohm",
		"9000000000", "0.000000001", "0 %", "100 %", "0s", "87600h", "skin", "gauge", "absolute", "voltage", "bridge", "direct", "4-20mA", "ratiometric", "gas", "weighed", "strapping", "lox_level", "hx711", "iio", "mcp3008"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(valid).Draw(t, "sensor")
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			places := value.FindAllStringIndex(text, -1)
			if len(places) == 0 {
				break
			}
			at := rapid.SampledFrom(places).Draw(t, "at")
			text = text[:at[0]] + ": " + rapid.SampledFrom(other).Draw(t, "value") + text[at[1]:]
		}
		c, err := parse("c.yaml", []byte(sensorsOf(text, strings.Replace(skin, "bff", "b00", 1))), testHost)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("%s: got error %T %v", text, err, err)
			}
			for _, f := range faults {
				if f.Line < 1 || f.Line > 3 || strings.Contains(f.Message, "%!") {
					t.Fatalf("%s: %v", text, f)
				}
			}
			return
		}
		for i := range c.Sensors {
			promised(t, &c.Sensors[i])
		}
	})
}

// promised checks what a sensor without a fault may be relied on for.
func promised(t *rapid.T, s *Sensor) {
	points := s.Scale()
	if analog(s.Driver) && s.Signal != SignalDirect && s.Measures != KindVoltage && s.CalibrationFile == "" && len(points) < 2 {
		t.Fatalf("%+v has no scale", s)
	}
	for i, p := range points {
		if math.IsNaN(p.At+p.Is) || math.IsInf(p.At+p.Is, 0) {
			t.Fatalf("the scale %v is not finite", points)
		}
		if i > 0 && (p.At <= points[i-1].At || p.Is == points[i-1].Is || (p.Is > points[i-1].Is) != (points[1].Is > points[0].Is)) {
			t.Fatalf("the scale %v is not strictly monotone", points)
		}
	}
	if s.Signal == SignalLoop && s.FullScale() > 0 && s.Shunt.SI()*s.LoopLimits[3].SI()/s.Divider.Float() > s.FullScale().Float() {
		t.Fatalf("the shunt %v clips: %+v", s.Shunt, s)
	}
	if s.Signal == SignalVoltage && s.CalibrationFile == "" && (s.VoltsMin <= 0 || s.VoltsMax <= s.VoltsMin) {
		t.Fatalf("volts from %v to %v", s.VoltsMin, s.VoltsMax)
	}
	if s.Model == ModelGas && (s.Volume <= 0 || s.Purity <= 0 || s.Pressure == PressureGauge && s.Ambient == PressureSource{} || s.Temperature == TemperatureSource{}) {
		t.Fatalf("gas of %+v", s)
	}
}

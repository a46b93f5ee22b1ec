package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Parts of sensors that have nothing wrong with them.
const (
	adc      = "driver: ads1115, input: 0"
	loopGas  = adc + ", signal: 4-20mA, shunt: 100 Ohm, range: [0 bar, 250 bar], model: gas, volume: 50 L, pressure: gauge"
	ratioGas = adc + ", signal: ratiometric, supply_input: 1, range: [0 bar, 250 bar], model: gas, volume: 50 L, pressure: gauge"
	skin     = "- {name: skin, measures: temperature, driver: ds18b20, id: 28-0316a2793bff}"
	lox      = "driver: ads1115, input: 2, signal: 4-20mA, shunt: 100 Ohm, range: [0 mbar, 120 mbar], model: lox_level, volume: 180 L"
	table    = "table: [{level: 0 mm, volume: 0 L}, {level: 1 m, volume: 170 L}]"
	scale    = "driver: hx711, clock_line: 5, data_line: 6"
	counts   = "calibration: [{counts: -1200, mass: 0 kg}, {counts: 840000, mass: 60 kg}]"
	sfm      = "driver: sfm, part: SFM3019, flow_unit: slm"
	pulse    = "driver: pulse, line: 17, pulses_per_litre: 450.5, line_pressure: 4 bar, line_temperature: 20 °C"
	volts    = "calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 9 g}]"
)

// sensorsOf gives a config of sensors, one a line from line 2. What does not begin
// with a dash is a sensor on the tank a.
func sensorsOf(lines ...string) string {
	for i, line := range lines {
		if !strings.HasPrefix(line, "-") {
			lines[i] = "- {tank: a, " + line + "}"
		}
	}
	return "sensors:\n" + strings.Join(lines, "\n")
}

// Every contradiction of a sensor has a message of its own, and gives that one
// alone.
func TestFC97SensorContradictions(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		// What it is on.
		{"neither a tank nor a probe", sensorsOf("- {driver: simulated}"),
			"2: sensors[0].tank: is missing (or measures, for a probe that others refer to)"},
		{"a tank and a probe", sensorsOf("- {tank: a, name: p, measures: pressure, pressure: absolute, " + adc + ", signal: 4-20mA, shunt: 100 Ohm, range: [0 bar, 2 bar]}"),
			"2: sensors[0].measures: stands beside tank: a sensor is on a tank, or a probe that others refer to"},
		{"a probe of what nobody asks for", sensorsOf("- {name: p, measures: humidity, " + adc + "}"),
			`2: sensors[0].measures: "humidity" is not one of temperature, pressure, voltage`},
		{"a probe without a name", sensorsOf("- {measures: temperature, driver: ds18b20, id: 28-0316a2793bff}"),
			"2: sensors[0].name: is missing: others refer to a probe by its name"},
		{"a probe whose name could be a value", sensorsOf("- {name: 1-skin, measures: temperature, driver: ds18b20, id: 28-0316a2793bff}"),
			`2: sensors[0].name: "1-skin" is not a probe's name: 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter`},
		{"one name twice", sensorsOf(skin, "- {name: skin, measures: temperature, driver: ds18b20, id: 28-0316a2793bfe}"),
			`3: sensors[1].name: "skin" is already the name of sensors[0] in line 2`},
		{"a thermometer on a tank", sensorsOf("driver: ds18b20, id: 28-0316a2793bff"),
			"2: sensors[0].driver: ds18b20 measures a temperature, which alone says nothing of a tank: instead of tank write measures: temperature, a name, and refer to it"},
		{"a thermometer for a pressure", sensorsOf("- {name: p, measures: pressure, driver: ds18b20, id: 28-0316a2793bff}"),
			"2: sensors[0].measures: is pressure, and the driver ds18b20 measures temperature"},
		{"a flow meter on no tank", sensorsOf("- {name: p, measures: pressure, " + sfm + "}"),
			"2: sensors[0].measures: is not for the driver sfm, which is on a tank: write tank"},
		{"several sensors of a tank without names", sensorsOf(sfm, "name: b, "+adc+", "+volts),
			`2: sensors[0].name: is missing: tank "a" has several sensors, and each needs a name of its own`},
		{"consumption booked twice", sensorsOf("name: b, "+sfm, "name: c, "+adc+", consumption: {}, "+volts),
			"3: sensors[1].consumption: would book what sensors[0] in line 2 measures as flow a second time: leave one of them out"},

		// Keys of others.
		{"a key of another driver", sensorsOf(adc + ", vref: 5 V, " + volts),
			"2: sensors[0].vref: belongs to the drivers mcp3208, mcp3008, not to ads1115"},
		{"a key of another signal", sensorsOf(adc + ", shunt: 100 Ohm, " + volts),
			"2: sensors[0].shunt: belongs to the signal 4-20mA, not to voltage (the default)"},
		{"a key of another model", sensorsOf(adc + ", tare: 1 kg, " + volts),
			"2: sensors[0].tare: belongs to the model weighed, not to linear (the default)"},
		{"a model of a flow", sensorsOf(sfm + ", model: gas"),
			"2: sensors[0].model: belongs to the drivers ads1115, mcp3208, mcp3008, hx711, iio, not to sfm"},
		{"a report of a flow", sensorsOf(sfm + ", report: {}"),
			"2: sensors[0].report: belongs to the drivers ads1115, mcp3208, mcp3008, hx711, iio, simulated, not to sfm"},
		{"a tank's key on a probe", sensorsOf("- {name: p, measures: voltage, " + adc + ", volume: 50 L}"),
			"2: sensors[0].volume: belongs to a tank, not to a probe of a voltage"},
		{"a report of a probe", sensorsOf("- {name: p, measures: voltage, " + adc + ", report: {}}"),
			"2: sensors[0].report: belongs to a tank, not to a probe that others refer to"},
		{"a range of a voltage", sensorsOf(adc + ", range: [0 g, 1 g]"),
			"2: sensors[0].range: belongs to the signals ratiometric, 4-20mA, not to voltage (the default)"},

		// One place, two sensors.
		{"one difference of one chip twice", sensorsOf("- {name: p, measures: voltage, driver: ads1115, input: 0-1}", "- {name: q, measures: voltage, driver: ads1115, input: 0-1, bus: I2C1}"),
			"3: sensors[1]: is on /dev/i2c-1, address 0x48, input 0-1, as sensors[0] in line 2 is already"},
		{"one input of an SPI converter twice", sensorsOf("- {name: p, measures: voltage, driver: mcp3208, spi: 0.0, input: 7}", "- {name: q, measures: voltage, driver: mcp3208, spi: SPI0.0, input: 7}"),
			"3: sensors[1]: is on /dev/spidev0.0, input 7, as sensors[0] in line 2 is already"},
		{"two chips on one chip select", sensorsOf("- {name: p, measures: voltage, driver: mcp3208, spi: 0.0, input: 7}", "- {name: q, measures: temperature, driver: max31865, spi: 0.0, rtd: PT100, wires: 4}"),
			"3: sensors[1].spi: /dev/spidev0.0 is a mcp3208 for sensors[0] in line 2"},
		{"two references of one chip", sensorsOf("- {name: p, measures: voltage, driver: mcp3208, spi: 0.0, input: 6}", "- {name: q, measures: voltage, driver: mcp3208, spi: 0.0, input: 7, vref: 5 V}"),
			"3: sensors[1].vref: 5 V is not the 3.3 V of sensors[0] in line 2, which is the same chip"},
		{"one line of a GPIO chip twice", sensorsOf(scale+", model: weighed, tare: 9 kg, "+counts, "- {tank: b, "+strings.Replace(pulse, "line: 17", "line: 6, gpio_chip: gpiochip0", 1)+"}"),
			"3: sensors[1]: is on /dev/gpiochip0, line 6, as sensors[0] in line 2 is already"},
		{"clock and data on one line", sensorsOf("driver: hx711, clock_line: 5, data_line: 5, model: weighed, tare: 9 kg, " + counts),
			"2: sensors[0].data_line: 5 is clock_line too"},
		{"one thermometer twice", sensorsOf(skin, "- {name: q, measures: temperature, driver: ds18b20, id: 28-0316A2793BFF}"),
			"3: sensors[1]: is on 1-Wire id 28-0316a2793bff, as sensors[0] in line 2 is already"},
		{"one flow meter twice", sensorsOf("name: p, "+sfm, "- {tank: b, "+sfm+"}"),
			"3: sensors[1]: is on /dev/i2c-1, address 0x2e, as sensors[0] in line 2 is already"},
		{"one channel of the kernel twice", sensorsOf("- {name: p, measures: voltage, driver: iio, device: 'iio:device0', channel: in_voltage0, volts_min: 0.1 V, volts_max: 3 V}", "- {name: q, measures: voltage, driver: iio, device: 'iio:device0', channel: in_voltage0, volts_min: 0.1 V, volts_max: 3 V}"),
			"3: sensors[1]: is on iio:device0, channel in_voltage0, as sensors[0] in line 2 is already"},

		// Drivers.
		{"a difference that the chip has not", sensorsOf("- {name: p, measures: voltage, driver: ads1115, input: 1-2}"),
			"2: sensors[0].input: 1-2 is not a difference of the chip: 0-1, 0-3, 1-3, 2-3"},
		{"a difference of a chip without", sensorsOf("- {name: p, measures: voltage, driver: mcp3008, spi: 0.0, input: 0-1}"),
			"2: sensors[0].input: 0-1 is a difference: the driver mcp3008 measures against ground, 0 to 7"},
		{"a PT1000 beyond the reference of a PT100", sensorsOf("- {name: p, measures: temperature, driver: max31865, spi: 0.0, wires: 2, rtd: PT1000, reference: 430 Ohm}"),
			"2: sensors[0].reference: 430 Ohm does not fit a PT1000: 1400 Ohm to 10000 Ohm, usually 4300 Ohm"},
		{"a part that is not known", sensorsOf("driver: sfm, part: SFM3020, flow_unit: slm"),
			`2: sensors[0].part: "SFM3020" is not one of SFM3019, SFM3119, SFM3003, SFM3013, SFM4300, SFM3000, SFM3300; did you mean "SFM3000"?`},
		{"a part at another's address", sensorsOf("driver: sfm, part: SFM3003, flow_unit: slm, address: 0x2e"),
			"2: sensors[0].address: 0x2e is not an address of the SFM3003: 0x28, 0x2d"},
		{"litres of no temperature", sensorsOf("driver: sfm, part: SFM3003"),
			"2: sensors[0].flow_unit: is missing: slm (litres of 20 °C) or nlm (of 0 °C): the part's datasheet says which, and they differ by 7 %"},
		{"litres of the wrong temperature", sensorsOf("driver: sfm, part: SFM3000, flow_unit: nlm"),
			"2: sensors[0].flow_unit: the SFM3000 counts in slm (its datasheet: litres of 20 °C, 1013 hPa)"},
		{"a meter without a factor", sensorsOf("driver: pulse, line: 1, pulses_per_litre: 0, line_pressure: 1 bar, line_temperature: 20 °C"),
			"2: sensors[0].pulses_per_litre: must be more than 0"},
		{"a line beyond the equation of state", sensorsOf("driver: pulse, line: 1, pulses_per_litre: 450, line_pressure: 351 bar, line_temperature: 20 °C"),
			"2: sensors[0].line_pressure: 351 bar is more than 350 bar"},
		{"a line colder than the equation of state", sensorsOf("driver: pulse, line: 1, pulses_per_litre: 450, line_pressure: 4 bar, line_temperature: -80 °C"),
			"2: sensors[0].line_temperature: -80 °C is out of bounds: -73.15 °C to 76.85 °C"},
		{"a thermometer read too fast", sensorsOf("- {name: p, measures: temperature, driver: ds18b20, id: 28-0316a2793bff, interval: 999ms}"),
			"2: sensors[0].interval: 999ms is shorter than a conversion of 12 bits and its reading: at least 1s"},
		{"a scale read too fast", sensorsOf(scale + ", interval: 624ms, model: weighed, tare: 9 kg, " + counts),
			"2: sensors[0].interval: 624ms is shorter than five words at 10 a second, of which the middle one is taken: at least 625ms"},
		{"two conversions in the time of one", sensorsOf(ratioGas + ", temperature: skin, rate: 8, interval: 300ms"),
			"2: sensors[0].interval: 300ms is shorter than two conversions at 8 a second, which can take 312.5ms"},

		// Signals.
		{"a signal that the chip cannot take", sensorsOf(scale + ", signal: voltage"),
			`2: sensors[0].signal: "voltage" is not one of bridge`},
		{"the supply measured on the sensor's input", sensorsOf(strings.Replace(ratioGas, "supply_input: 1", "supply_input: 0", 1) + ", temperature: skin"),
			"2: sensors[0].supply_input: 0 is input too: the sensor would be measured against itself"},
		{"no supply", sensorsOf(strings.Replace(ratioGas, "supply_input: 1, ", "", 1) + ", temperature: skin"),
			"2: sensors[0].supply_input: is missing: the input of the same chip that measures the sensor's supply"},
		{"a supply of nothing", sensorsOf(ratioGas + ", temperature: skin, supply_min: 5.5 V"),
			"2: sensors[0].supply_min: 5.5 V is not below supply_max 5.5 V (the default)"},
		{"a sensor of 5 V on a converter of 3.3 V", sensorsOf("driver: mcp3208, spi: 0.0, input: 0, supply_divider: 2, signal: ratiometric, supply_input: 1, range: [0 g, 9 g]"),
			"2: sensors[0].divider: 0.95 of supply_max 5.5 V (the default) is 5.225 V at the converter, which clips at vref 3.3 V (the default): a broken wire would look like a value; take a divider above 1.583333333"},
		{"a supply of 5 V on a converter of 3.3 V", sensorsOf("driver: mcp3208, spi: 0.0, input: 0, divider: 2, signal: ratiometric, supply_input: 1, range: [0 g, 9 g]"),
			"2: sensors[0].supply_divider: supply_max 5.5 V (the default) is 5.5 V at the converter, which clips at vref 3.3 V (the default): a broken wire would look like a value; take a supply_divider above 1.666666666"},
		{"limits that fall", sensorsOf(loopGas + ", temperature: skin, loop_limits: [3.6 mA, 3.6 mA, 20.5 mA, 21 mA]"),
			"2: sensors[0].loop_limits[1]: 3.6 mA is not above 3.6 mA: the limits rise"},
		{"three limits", sensorsOf(loopGas + ", temperature: skin, loop_limits: [3.6 mA, 3.8 mA, 21 mA]"),
			"2: sensors[0].loop_limits: has 3 currents: four, failure and uncertain at the low end, uncertain and failure at the high end"},
		{"limits inside of the span", sensorsOf(loopGas + ", temperature: skin, loop_limits: [3.6 mA, 4.1 mA, 20.5 mA, 21 mA]"),
			"2: sensors[0].loop_limits: 3.6 mA, 4.1 mA, 20.5 mA, 21 mA do not enclose 4 to 20 mA: the first above 1 mA, below which the loop is open, the second at most 4 mA, the third at least 20 mA, the last at most 30 mA"},
		{"a limit at which no transmitter lives", sensorsOf(loopGas + ", temperature: skin, loop_limits: [1 mA, 3.8 mA, 20.5 mA, 21 mA]"),
			"2: sensors[0].loop_limits: 1 mA, 3.8 mA, 20.5 mA, 21 mA do not enclose 4 to 20 mA: the first above 1 mA, below which the loop is open, the second at most 4 mA, the third at least 20 mA, the last at most 30 mA"},
		{"the kernel's thermometer as a voltage", sensorsOf("- {name: p, measures: temperature, driver: iio, device: d, channel: in_temp, signal: voltage, calibration_file: f}"),
			"2: sensors[0].signal: voltage is made of a voltage, and in_temp gives a temperature"},
		{"the kernel's thermometer for a pressure", sensorsOf("driver: iio, device: d, channel: in_temp, model: gas, volume: 1 L, pressure: absolute, temperature: skin"),
			"2: sensors[0].channel: gives a temperature, and a pressure is needed by the model gas"},

		// From the signal to the quantity.
		{"full equals empty in a range", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [1 kg, 1000 g]"),
			"2: sensors[0].range: is 1000 g at both ends: full and empty cannot be the same"},
		{"a range of one end", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [1 kg]"),
			"2: sensors[0].range: has 1 values: two, at the low and at the high end of the signal"},
		{"a range of another quantity", sensorsOf(strings.Replace(loopGas, "0 bar, 250 bar", "0 bar, 250 kg", 1) + ", temperature: skin"),
			"2: sensors[0].range[1]: 250000 g is a mass, and a pressure is needed by the model gas"},
		{"a range and a calibration", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [0 kg, 1 kg], calibration: [{current: 4 mA, remaining: 0 g}, {current: 20 mA, remaining: 1 g}]"),
			"2: sensors[0].calibration: stands beside range: one of them says what the signal means"},
		{"neither range nor calibration", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm"),
			"2: sensors[0].calibration: is missing: two points of current and remaining, or range, or calibration_file"},
		{"a calibration that turns back", sensorsOf(scale + ", model: weighed, tare: 1 kg, calibration: [{counts: 9, mass: 8 kg}, {counts: 1, mass: 2 kg}, {counts: 5, mass: 9 kg}]"),
			"2: sensors[0].calibration[0].mass: 8000 g at 9 turns back from 9000 g at 5: the points rise all along or fall all along"},
		{"one count, two masses", sensorsOf(scale + ", model: weighed, tare: 1 kg, calibration: [{counts: 9, mass: 8 kg}, {counts: 9, mass: 2 kg}]"),
			"2: sensors[0].calibration[1].counts: 9 stands in sensors[0].calibration[0] too: two points of one count give no line"},
		{"a point of another signal", sensorsOf(scale + ", model: weighed, tare: 1 kg, calibration: [{counts: 9, mass: 8 kg}, {counts: 1, volts: 1 V, mass: 2 kg}]"),
			"2: sensors[0].calibration[1].volts: does not belong here: with the signal bridge and the model weighed a point pairs counts and mass"},
		{"a point of one side", sensorsOf(scale + ", model: weighed, tare: 1 kg, calibration: [{counts: 9, mass: 8 kg}, {counts: 1}]"),
			"2: sensors[0].calibration[1].mass: is missing"},
		{"a point where the loop says that it failed", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm, calibration: [{current: 3.7 mA, remaining: 0 g}, {current: 20 mA, remaining: 1 g}]"),
			"2: sensors[0].calibration[0].current: 3.7 mA is out of bounds: 3.8 mA to 20.5 mA"},
		{"a calibration of a voltage", sensorsOf("- {name: p, measures: voltage, " + adc + ", calibration_file: f}"),
			"2: sensors[0].calibration_file: has no effect: a probe of a voltage gives volts"},

		{"a probe of a voltage whose end only the kernel knows", sensorsOf("- {name: p, measures: voltage, driver: iio, device: d, channel: in_voltage0, volts_min: 0.1 V}"),
			"2: sensors[0].volts_max: is missing: what a working sensor gives at most"},

		// Models.
		{"gas in no volume", sensorsOf(strings.Replace(loopGas, ", volume: 50 L", "", 1) + ", temperature: skin"),
			"2: sensors[0].volume: is missing: of the vessel, such as 50 L"},
		{"a pressure against what", sensorsOf(strings.Replace(loopGas, ", pressure: gauge", "", 1) + ", temperature: skin"),
			"2: sensors[0].pressure: is missing: gauge (against the surroundings) or absolute, as the transducer says: they differ by an atmosphere"},
		{"ambient of an absolute pressure", sensorsOf(strings.Replace(loopGas, "gauge", "absolute, ambient: 1 bar", 1) + ", temperature: skin"),
			"2: sensors[0].ambient: has no effect on an absolute pressure"},
		{"no temperature", sensorsOf(loopGas),
			"2: sensors[0].temperature: is missing: the gas's, a probe that measures it or an assumed value such as 20 °C"},
		{"an unknown probe", sensorsOf(loopGas + ", temperature: skim"),
			`2: sensors[0].temperature: "skim" is no probe that measures a temperature: there are skin, did you mean "skin"?`},
		{"a probe of something else", sensorsOf(loopGas+", temperature: rail", "- {name: rail, measures: voltage, driver: ads1115, input: 3}"),
			`2: sensors[0].temperature: "rail" (sensors[1], line 3) measures a voltage, not a temperature`},
		{"a tank's sensor as a probe", sensorsOf(loopGas+", temperature: b", "- {tank: b, name: b, driver: simulated}"),
			`2: sensors[0].temperature: "b" (sensors[1], line 3) is on a tank: a probe that measures a temperature is needed`},
		{"a gauge around a gauge", sensorsOf(loopGas+", temperature: skin, ambient: p", "- {name: p, measures: pressure, pressure: gauge, driver: ads1115, input: 3, signal: 4-20mA, shunt: 91 Ohm, range: [0 bar, 2 bar]}"),
			`2: sensors[0].ambient: "p" (sensors[1], line 3) is a gauge itself: an absolute pressure is needed`},
		{"a gauge around itself", sensorsOf("- {name: p, measures: pressure, pressure: gauge, ambient: p, driver: ads1115, input: 3, signal: 4-20mA, shunt: 91 Ohm, range: [0 bar, 2 bar]}"),
			`2: sensors[0].ambient: "p" (sensors[0], line 2) is a gauge itself: an absolute pressure is needed`},
		{"a reserve beyond the range", sensorsOf(loopGas + ", temperature: skin, reserve: 250 bar"),
			"2: sensors[0].reserve: 250 bar is not below the high end of the sensor, 250 bar: nothing would ever be usable"},
		{"a reserve beyond the equation of state", sensorsOf(strings.Replace(loopGas, "250 bar", "900 bar", 1) + ", temperature: skin, reserve: 349.5 bar"),
			"2: sensors[0].reserve: 349.5 bar is more than 348.98675 bar"},
		{"denser than liquid oxygen", sensorsOf(adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [0 m, 1 m], model: strapping, density: 1351 kg/m3, " + table),
			"2: sensors[0].density: 1351 kg/m3 is out of bounds: more than 0 kg/m3, up to 1350 kg/m3"},
		{"no oxygen at all", sensorsOf(loopGas + ", temperature: skin, purity: 0 %"),
			"2: sensors[0].purity: must be more than 0 %"},
		{"more than oxygen", sensorsOf(loopGas + ", temperature: skin, purity: 100.1 %"),
			"2: sensors[0].purity: 100.1 % is more than 100 %"},
		{"gas colder than the equation of state", sensorsOf(loopGas + ", temperature: -80 °C"),
			"2: sensors[0].temperature: -80 °C is out of bounds: -73.15 °C to 76.85 °C"},
		{"a table whose volume falls", sensorsOf(lox + ", vessel_pressure: 2 bar, table: [{level: 0 mm, volume: 10 L}, {level: 1 m, volume: 10 L}]"),
			"2: sensors[0].table[1].volume: 10 L is not above the row before, 10 L: volumes rise with the level"},
		{"a table whose level falls", sensorsOf(lox + ", vessel_pressure: 2 bar, table: [{level: 100 cm, volume: 0 L}, {level: 1 m, volume: 10 L}]"),
			"2: sensors[0].table[1].level: 1000 mm is not above the row before, 1000 mm: levels rise"},
		{"a table of one row", sensorsOf(lox + ", vessel_pressure: 2 bar, table: [{level: 1 m, volume: 10 L}]"),
			"2: sensors[0].table: has 1 rows: 2 to 256"},
		{"a table larger than the vessel", sensorsOf(strings.Replace(lox, "180 L", "169 L", 1) + ", vessel_pressure: 2 bar, " + table),
			"2: sensors[0].volume: 169 L is less than the table's last, 170 L"},
		{"a vessel beyond the critical pressure", sensorsOf(lox + ", vessel_pressure: 60 bar, " + table),
			"2: sensors[0].vessel_pressure: 60 bar is out of bounds: 0.1 bar to 40 bar"},
		{"a dewar without its pressure", sensorsOf(lox + ", " + table),
			"2: sensors[0].vessel_pressure: is missing: the absolute one above the liquid, a probe or a value such as 2.5 bar"},
		{"a scale without a tare", sensorsOf(scale + ", model: weighed, " + counts),
			"2: sensors[0].tare: is missing: the mass of the empty vessel"},
		{"a tare beyond the scale", sensorsOf(scale + ", model: weighed, tare: 60 kg, " + counts),
			"2: sensors[0].tare: 60000 g is not below the most that the scale is made for, 60000 g"},
		{"a reserve of all there is", "tanks: [{id: a, capacity: 9 kg}]\n" + sensorsOf(scale+", model: weighed, tare: 6 kg, reserve_mass: 9 kg, "+counts),
			"3: sensors[0].reserve_mass: 9000 g is not below the tank's capacity 9000 g: nothing would ever be usable"},
		{"strapping without a density", sensorsOf(adc + ", model: strapping, calibration: [{volts: 1 V, level: 0 mm}, {volts: 2 V, level: 1 m}], " + table),
			"2: sensors[0].density: is missing: of the liquid, such as 1141 kg/m3"},
		{"strapping without a table", sensorsOf(adc + ", model: strapping, density: 1141 kg/m3, calibration: [{volts: 1 V, level: 0 mm}, {volts: 2 V, level: 1 m}]"),
			"2: sensors[0].table: is missing: the vessel's volume by level, two rows or more; or calibrate in volume"},

		// What becomes of it.
		{"a window without a middle", sensorsOf("driver: simulated, filter: {window: 6}"),
			"2: sensors[0].filter.window: 6 is even: an odd one has a middle"},
		{"a window too small", sensorsOf("driver: simulated, filter: {window: 3}"),
			"2: sensors[0].filter.window: 3 is out of bounds: 5 to 31"},
		{"no change allowed", sensorsOf("driver: simulated, filter: {max_rate: 0 g/h}"),
			"2: sensors[0].filter.max_rate: must be more than 0 g/h: leave it out for no bound"},
		{"stuck before it could move", sensorsOf("driver: simulated, filter: {stuck_after: 29s}"),
			"2: sensors[0].filter.stuck_after: 29s is shorter than three intervals of 10s (the default): so few equal codes say nothing"},
		{"a mass of a temperature", sensorsOf(strings.TrimSuffix(skin, "}") + ", filter: {floor: 1 g}}"),
			"2: sensors[0].filter.floor: is of a mass, and a probe measures a temperature"},
		{"a heartbeat between readings", sensorsOf("driver: simulated, report: {heartbeat: 9s}"),
			"2: sensors[0].report.heartbeat: heartbeat 9s is shorter than the interval 10s (the default): there is nothing to tell in between"},
		{"a deadband of the whole tank", "tanks: [{id: a, capacity: 2 kg}]\n" + sensorsOf("driver: simulated, report: {deadband: 2 kg}"),
			"3: sensors[0].report.deadband: 2000 g is not below the tank's capacity 2000 g: no change would ever be told"},
		{"booked finer than seen", sensorsOf("driver: simulated, report: {deadband: 51 g}, consumption: {}"),
			"2: sensors[0].report.deadband: consumption.deadband 50 g (the default) is less than report.deadband 51 g: what is booked would not be seen in what is measured"},
		{"noise as consumption", sensorsOf("driver: simulated, consumption: {deadband: 0 g}"),
			"2: sensors[0].consumption.deadband: must be more than 0 g: noise would be booked as consumption"},
		{"noise as a refill", sensorsOf("driver: simulated, consumption: {refill_above: 49 g}"),
			"2: sensors[0].consumption.refill_above: refill_above 49 g is less than deadband 50 g (the default): noise would be booked as a refill"},
		{"settled by one reading", sensorsOf("driver: simulated, interval: 4m, consumption: {}"),
			"2: sensors[0].interval: settle 3m (the default) is shorter than the interval 4m: one reading would settle it"},

		// The script of a simulated tank.
		{"a leak of nothing", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, do: leak}]}"),
			"2: sensors[0].simulated.events[0].rate: is missing: leak has one"},
		{"a key of another event", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, do: leak, rate: 5 g/h, to: 5 %}]}"),
			"2: sensors[0].simulated.events[0].to: does not belong to leak, which has at, for, every and rate"},
		{"a leak that fills", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, do: leak, rate: -5 g/h}]}"),
			"2: sensors[0].simulated.events[0].rate: -5 g/h is negative: a leak loses"},
		{"an event of no kind", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, do: leek, rate: 5 g/h}]}"),
			`2: sensors[0].simulated.events[0].do: "leek" is not one of leak, burst, refill, remove, cooling, drift, spike, stick, noise, fault, hang, vanish; did you mean "leak"?`},
		{"a fault of no kind", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, do: fault, reason: stuk}]}"),
			`2: sensors[0].simulated.events[0].reason: "stuk" is not one of ` + strings.Join(faultReasons(), ", ")},
		{"an event that overtakes itself", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, for: 2m, every: 1m, do: stick}]}"),
			"2: sensors[0].simulated.events[0].every: 1m is shorter than for, 2m: it would begin again before it ends"},
		{"a refill that is off", sensorsOf("driver: simulated, simulated: {no_refill: true, refill_below: 5 %}"),
			"2: sensors[0].simulated.refill_below: has no effect beside no_refill"},
		{"a fault that repeats and never ends", sensorsOf("driver: simulated, simulated: {events: [{at: 1m, every: 1m, do: hang}]}"),
			"2: sensors[0].simulated.events[0].every: 1m has no effect: without for, a hang lasts for ever"},
		{"sleep beyond the day", sensorsOf("driver: simulated, simulated: {asleep_after: 20h, asleep_for: 5h}"),
			"2: sensors[0].simulated.asleep_for: 5h after 20h does not fit into a day of 24h (the default)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := tc.text
			if strings.Contains(text, "temperature: ski") && !strings.Contains(text, skin) {
				text += "\n" + skin
			}
			if diff := cmp.Diff([]string{tc.want}, faultsOf(t, text)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Whole sensors, as they may stand, and what is just allowed.
func TestSensorsWithoutContradiction(t *testing.T) {
	for _, lines := range [][]string{
		{loopGas + ", temperature: skin, reserve: 249 bar, purity: 99.5 %, shell: 0.15 %", skin},
		{ratioGas + ", temperature: skin, supply_divider: 1, gain: 6.144 V", skin},
		{lox + ", vessel_pressure: p, boil_off: 1 %/day, reserve_mass: 2 kg, " + table,
			"- {name: p, measures: pressure, pressure: gauge, ambient: q, driver: ads1115, input: 3, signal: 4-20mA, shunt: 91 Ohm, range: [0 bar, 16 bar]}",
			"- {name: q, measures: pressure, pressure: absolute, driver: iio, device: bmp280, channel: in_pressure}"},
		{scale + ", bridge_input: B32, model: weighed, tare: 59.9 kg, interval: 625ms, " + counts},
		{adc + ", model: strapping, density: 1.141 kg/L, calibration: [{volts: 1 V, level: 0 mm}, {volts: 2 V, level: 1 m}, {volts: 4 V, level: 2 m}], " + table},
		{adc + ", model: strapping, density: 1141 g/L, calibration: [{volts: 1 V, volume: 0 L}, {volts: 2 V, volume: 9 L}]"},
		{adc + ", signal: 4-20mA, shunt: 91 Ohm, gain: 2.048 V, range: [10 kg, 0 kg]"},
		{"driver: ads1115, input: 2-3, gain: 256 mV, signal: bridge, model: weighed, tare: 1 kg, calibration_file: cal/a.json"},
		{"name: level, " + adc + ", " + volts, "name: fast, " + sfm, "name: slow, " + pulse},
		{"name: q, driver: sfm, part: SFM3003, address: 0x2d, flow_unit: nlm, gas: air, bus: 3"},
		{"- {name: rail, measures: voltage, driver: mcp3008, spi: 1.2, input: 7, divider: 2}", "- {name: rail2, measures: voltage, driver: mcp3008, spi: 1.2, input: 6}"},
		{"- {name: t1, measures: temperature, driver: max31865, spi: 0.1, rtd: PT1000, wires: 3, mains: 60 Hz, interval: 100ms, filter: {window: 5}}"},
		{"- {name: t1, measures: temperature, " + adc + ", signal: 4-20mA, shunt: 91 Ohm, range: [-50 °C, 150 °C]}"},
		{"driver: simulated, report: {deadband: 50 g}, consumption: {}, filter: {stuck_after: 30s}, simulated: {asleep_for: 8h, asleep_after: 16h, no_refill: true, lsb: 1 g," +
			" events: [{at: 0s, do: leak, rate: 9 g/h}, {at: 1h, do: refill}, {at: 2h, do: refill, to: 90 %, for: 10m}, {at: 3h, for: 1m, every: 1h, do: fault, reason: nack}," +
			" {at: 1h, do: spike, by: -20 g}, {at: 1h, do: drift, rate: -1 g/h}, {at: 5h, do: remove}, {at: 5h, do: noise, sigma: 3 g}]}"},
	} {
		text := sensorsOf(slices.Clone(lines)...)
		if got := faultsOf(t, text); got != nil {
			t.Errorf("%s\ngives %q, want no fault", text, got)
		}
	}
}

// FC-63: the limits of a current loop are the config's, NAMUR NE 43's by default,
// and a shunt with which the converter clips before the failure limit is refused.
func TestFC63LoopLimitsAndClippingShunt(t *testing.T) {
	c := mustParse(t, sensorsOf(loopGas+", temperature: skin", skin))
	if diff := cmp.Diff([]Current{3_600_000, 3_800_000, 20_500_000, 21_000_000}, c.Sensors[0].LoopLimits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ keys, want string }{
		{"shunt: 100 Ohm, gain: 2.048 V", "2: sensors[0].shunt: 100 Ohm × 21 mA (the default) = 2.1 V, and the converter clips at gain 2.048 V: " +
			"a transmitter that failed would look like a reading; take less than 97.52 Ohm or a gain of 4.096 V"},
		{"shunt: 97.5 Ohm, gain: 2.048 V", ""},
		{"shunt: 97.6 Ohm, gain: 2.048 V", "97.52"},
		{"shunt: 100 Ohm, gain: 4.096 V", ""},
		{"shunt: 91 Ohm, gain: 2.048 V, loop_limits: [3.6 mA, 3.8 mA, 20.5 mA, 22.6 mA]", "91 Ohm × 22.6 mA = 2.0566 V"},
		{"shunt: 250 Ohm", ""},
		{"shunt: 250 Ohm, gain: 4.096 V", "or a gain of 6.144 V"},
		{"shunt: 250 Ohm, gain: 4.096 V, divider: 2", ""},
		{"shunt: 0 Ohm", "out of bounds"},
	} {
		got := strings.Join(faultsOf(t, sensorsOf(adc+", signal: 4-20mA, range: [0 kg, 9 kg], "+tc.keys)), "\n")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.keys, got, tc.want)
		}
	}
	got := faultsOf(t, sensorsOf("driver: mcp3208, spi: 0.0, input: 0, signal: 4-20mA, shunt: 160 Ohm, range: [0 kg, 9 kg]"))
	if len(got) != 1 || !strings.Contains(got[0], "clips at vref 3.3 V (the default)") || !strings.Contains(got[0], "take less than 157.14 Ohm") {
		t.Errorf("on an mcp3208: got %q", got)
	}
}

// FC-65, as far as the config decides it: empty and full must differ, whatever says
// what they are.
func TestFC65FullEqualsEmpty(t *testing.T) {
	for _, keys := range []string{
		"signal: 4-20mA, shunt: 91 Ohm, range: [0 kg, 0 g]",
		"signal: ratiometric, supply_input: 1, range: [5 kg, 5000 g]",
		"signal: 4-20mA, shunt: 91 Ohm, calibration: [{current: 4 mA, remaining: 1 g}, {current: 20 mA, remaining: 1 g}]",
		"signal: ratiometric, supply_input: 1, calibration: [{fraction: 0.1, remaining: 1 g}, {fraction: 0.9, remaining: 1 g}]",
		"calibration: [{volts: 1 V, remaining: 1 g}, {volts: 2 V, remaining: 1 g}]",
	} {
		got := faultsOf(t, sensorsOf(adc+", "+keys))
		if len(got) != 1 || !strings.Contains(got[0], "full and empty cannot be the same") {
			t.Errorf("%s: got %q, want one fault", keys, got)
		}
	}
}

// FC-71: a ratio is 0 to 1 and never 63; a percentage carries its sign, and one that
// looks like a ratio is taken with a warning.
func TestFC71RatioOrPercent(t *testing.T) {
	fraction := func(v string) string {
		return sensorsOf(adc + ", signal: ratiometric, supply_input: 1, calibration: [{fraction: 0.1, remaining: 0 g}, {fraction: " + v + ", remaining: 9 g}]")
	}
	want := []string{"2: sensors[0].calibration[1].fraction: 63 is more than 1: a fraction is 0 to 1, did you mean 0.63?"}
	if diff := cmp.Diff(want, faultsOf(t, fraction("63"))); diff != "" {
		t.Errorf("a ratio of 63 (-want +got):\n%s", diff)
	}
	if c := mustParse(t, fraction("0.63")); *c.Sensors[0].Calibration[1].Fraction != 630_000_000 {
		t.Errorf("a ratio of 0.63 is %v", *c.Sensors[0].Calibration[1].Fraction)
	}
	for keys, want := range map[string]Percent{"purity: 0.63 %": 6300, "purity: 63 %": 63_0000, "purity: 1 %": 1_0000} {
		c := mustParse(t, sensorsOf(loopGas+", temperature: skin, "+keys, skin))
		warned := slices.ContainsFunc(c.Warnings, func(w Fault) bool {
			return w.String() == "c.yaml:2: sensors[0].purity: 0.63 % is less than a hundredth: was 63 % meant?"
		})
		if got := c.Sensors[0].Purity; got != want || warned != (want < 1_0000) || len(c.Warnings) > 1 {
			t.Errorf("%s is %v, want %v; warnings %v", keys, got, want, c.Warnings)
		}
	}
	if got := faultsOf(t, sensorsOf(loopGas+", temperature: skin, purity: 0.63", skin)); len(got) != 1 || !strings.Contains(got[0], "needs a unit such as %") {
		t.Errorf("a percentage without its sign: got %q", got)
	}
	if c := mustParse(t, "ledger:\ntanks: [{id: a, capacity: 1 kg, low: 0.2 %, critical: 0 %}]"); len(c.Warnings) != 1 {
		t.Errorf("a level of 0.2 %%: warnings %v, want one", c.Warnings)
	}
}

// FC-74: capacity units.
func TestFC74VolumeUnits(t *testing.T) {
	volume := func(v string) string {
		return sensorsOf(strings.Replace(loopGas, "50 L", v, 1)+", temperature: skin", skin)
	}
	a, b := mustParse(t, volume("7 L")).Sensors[0].Volume, mustParse(t, volume("0.007 m3")).Sensors[0].Volume
	if a != b || a.SI() != 0.007 {
		t.Errorf("7 L is %v, 0.007 m3 is %v", a, b)
	}
	if got := faultsOf(t, volume("7")); len(got) != 1 || got[0] != "2: sensors[0].volume: needs a unit such as L or m3" {
		t.Errorf("7 gives %q", got)
	}
}

// FC-99: a driver that this build does not have is an error that lists those there
// are, and every one of these is a driver of the schema.
func TestFC99DriversAreListed(t *testing.T) {
	got := strings.Join(faultsOf(t, sensorsOf("driver: bmp280, optional: true")), "\n")
	for _, driver := range drivers() {
		if !strings.Contains(got, driver) {
			t.Errorf("%q does not name %s", got, driver)
		}
	}
	if len(drivers()) != 10 || slices.Contains(drivers(), "") {
		t.Errorf("the drivers are %v", drivers())
	}
}

// All that is wrong with sensors is said in one run.
func TestFC97AllOfSensorsInOneRun(t *testing.T) {
	got := faultsOf(t, `
sensors:
- tank: a
  driver: ads1115
  input: 0
  signal: 4-20mA
  shunt: 100 Ohm
  gain: 2.048 V
  range: [0 bar, 0 bar]
  model: gas
  pressure: gauge
  temperature: skin-9
- name: skin-1
  measures: temperature
  driver: ds18b20
  id: 28-0316a2793bff
  interval: 500ms
- name: skin-2
  measures: temperature
  driver: ds18b20
  id: 28-0316a2793bff
- tank: b
  driver: sfm
  part: SFM3019
  report: {deadband: 5}
`)
	want := []string{
		"3: sensors[0].volume: is missing: of the vessel, such as 50 L",
		"7: sensors[0].shunt: 100 Ohm × 21 mA (the default) = 2.1 V, and the converter clips at gain 2.048 V: a transmitter that failed would look like a reading; take less than 97.52 Ohm or a gain of 4.096 V",
		"9: sensors[0].range: is 0 bar at both ends: full and empty cannot be the same",
		`12: sensors[0].temperature: "skin-9" is no probe that measures a temperature: there are skin-1, skin-2, did you mean "skin-1"?`,
		"17: sensors[1].interval: 500ms is shorter than a conversion of 12 bits and its reading: at least 1s",
		"18: sensors[2]: is on 1-Wire id 28-0316a2793bff, as sensors[1] in line 13 is already",
		"22: sensors[3].flow_unit: is missing: slm (litres of 20 °C) or nlm (of 0 °C): the part's datasheet says which, and they differ by 7 %",
		"25: sensors[3].report: belongs to the drivers ads1115, mcp3208, mcp3008, hx711, iio, simulated, not to sfm",
		"25: sensors[3].report.deadband: needs a unit such as g or kg",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// What is allowed and worth a word.
func TestSensorWarnings(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"an assumed temperature", sensorsOf(loopGas + ", temperature: 20 °C"),
			"2: sensors[0].temperature: is an assumed 20 °C: readings are labelled uncompensated, and 1 K is half a percent of the mass"},
		{"a pressure beyond the equation of state", sensorsOf(strings.Replace(loopGas, "250 bar", "400 bar", 1)+", temperature: skin", skin),
			"2: sensors[0].range: goes up to 400 bar: above 350 bar the equation of state does not hold, and a value there is a fault"},
		{"a heartbeat as slow as stale", "ledger: {stale_after: 5m}\n" + sensorsOf("driver: simulated, report: {}"),
			"3: sensors[0].report.heartbeat: 5m (the default) is not shorter than ledger.stale_after 5m: a tank that is at rest would be shown as stale"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, w := range mustParse(t, tc.text).Warnings {
				got = append(got, strings.TrimPrefix(w.String(), "c.yaml:"))
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A probe or a value: what begins with a letter is a name.
func TestSources(t *testing.T) {
	for text, want := range map[string]TemperatureSource{
		"skin-1": {Probe: "skin-1"}, "20 °C": {Value: 293_150_000_000}, "-10 C": {Value: 263_150_000_000}, "293.15 K": {Value: 293_150_000_000},
	} {
		var got TemperatureSource
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"20", "20 bar", "", "-", "°C", "_skin"} {
		if err := new(TemperatureSource).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for a temperature or a probe", text)
		}
	}
	for text, want := range map[string]PressureSource{"amb": {Probe: "amb"}, "1 bar": {Value: 1e14}} {
		var got PressureSource
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	if err := new(PressureSource).UnmarshalText([]byte("1.01325")); err == nil || !strings.Contains(err.Error(), "needs a unit such as bar or kPa") {
		t.Errorf("a pressure without a unit: %v", err)
	}
}

// Scales come out in SI, over volts, parts of the span or counts.
func TestScales(t *testing.T) {
	c := mustParse(t, sensorsOf(
		"- {name: p, measures: pressure, pressure: absolute, "+adc+", signal: 4-20mA, shunt: 91 Ohm, calibration: [{current: 20 mA, pressure: 250 bar}, {current: 4 mA, pressure: 0 bar}, {current: 8 mA, pressure: 50 bar}]}",
		scale+", model: weighed, tare: 9 kg, "+counts,
		"- {name: t, measures: temperature, driver: ads1115, input: 1, signal: 4-20mA, shunt: 91 Ohm, range: [-50 °C, 150 °C]}",
		"- {tank: b, driver: ads1115, input: 2, "+volts+"}",
		"- {tank: c, driver: ads1115, input: 2-3, signal: ratiometric, supply_input: 1, calibration: [{fraction: 0.5, remaining: 5 kg}, {fraction: 0.1, remaining: 0 kg}]}",
		"- {tank: d, driver: ads1115, input: 3, calibration_file: f}"))
	for i, want := range [][]Point{{{0, 0}, {0.25, 5e6}, {1, 25e6}}, {{-1200, 0}, {840000, 60}}, {{0, 223.15}, {1, 423.15}}, {{1, 0}, {2, 0.009}}, {{0, 0}, {0.5, 5}}, nil} {
		if diff := cmp.Diff(want, c.Sensors[i].Scale()); diff != "" {
			t.Errorf("sensor %d (-want +got):\n%s", i, diff)
		}
	}
}

// What does not stand is what most boards have.
func TestSensorDefaults(t *testing.T) {
	c := mustParse(t, sensorsOf(
		ratioGas+", temperature: skin", skin,
		"- {name: rtd, measures: temperature, driver: max31865, spi: SPI0.1, rtd: PT1000, wires: 4}",
		"- {tank: b, "+pulse+"}",
		"- {tank: c, driver: sfm, part: SFM4300, flow_unit: slm}",
		"- {tank: d, "+scale+", model: weighed, tare: 1 kg, "+counts+"}",
		"- {name: v, measures: voltage, driver: mcp3208, spi: /dev/spidev0.0, input: 1, divider: 2}"))
	g, rtd, p, f, w, v := &c.Sensors[0], &c.Sensors[2], &c.Sensors[3], &c.Sensors[4], &c.Sensors[5], &c.Sensors[6]
	for _, tc := range []struct{ what, got, want string }{
		{"supply", fmt.Sprintln(g.SupplyMin, g.SupplyMax, g.SupplyDivider, g.Divider), "4.5 V 5.5 V 1 1"},
		{"gas", fmt.Sprintln(g.Ambient, g.Purity, g.Reserve, g.Shell, g.Model, g.Signal), "1.01325 bar 100 % 0 bar 0 % gas ratiometric"},
		{"rtd", fmt.Sprintln(rtd.SPI, rtd.Reference, rtd.Mains, rtd.Signal, rtd.Model), "/dev/spidev0.1 4300 Ohm 50 Hz direct"},
		{"pulse", fmt.Sprintln(p.GPIOChip, p.Edge, p.Bias, p.Debounce, p.Signal, p.Flow()), "/dev/gpiochip0 falling pull-up 1ms direct true"},
		{"flow", fmt.Sprintf("%s %#x %s", f.Bus, f.Address, f.Gas), "/dev/i2c-1 0x2a oxygen"},
		{"scale", fmt.Sprintln(w.GPIOChip, w.BridgeInput, w.Signal, w.Divider), "/dev/gpiochip0 A128 bridge 0"},
		{"mcp", fmt.Sprintln(v.SPI, v.VRef, v.Signal, v.Auxiliary(), v.VoltsMin, v.VoltsMax), "/dev/spidev0.0 3.3 V voltage true 0.0066 V 6.5934 V"},
	} {
		if strings.Join(strings.Fields(tc.got), " ") != tc.want {
			t.Errorf("%s: got %q, want %q", tc.what, tc.got, tc.want)
		}
	}
}

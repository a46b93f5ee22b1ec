package mutants

// sensorsConfigMutants are changes of what a config may say of sensors.
var sensorsConfigMutants = []mutant{
	{
		name: "a shunt that clips is taken",
		file: "internal/config/validate_signal.go",
		old:  "\tif full == 0 || scaledBy(int64(drop), 1e9, int64(s.Divider)) < int64(full) {\n",
		new:  "\tif full >= 0 || drop > full {\n",
		pkg:  "./internal/config", run: "FC63",
	},
	{
		name: "the shunt is held against 20 mA and not against the failure limit",
		file: "internal/config/validate_signal.go",
		old:  "failure, full := s.LoopLimits[3], s.FullScale()",
		new:  "failure, full := Current(20_000_000), s.FullScale()",
		pkg:  "./internal/config", run: "FC63",
	},
	{
		name: "a quantity without a unit is taken",
		file: "internal/config/quantity.go",
		old:  "\tcase name == \"\":\n\t\treturn 0, fmt.Errorf(\"needs a unit such as %s\", someUnits(units))\n",
		new:  "\tcase name == \"\":\n\t\tname = units[0].name\n",
		pkg:  "./internal/config", run: "FC74",
	},
	{
		name: "a hectopascal is a pascal",
		file: "internal/config/quantity_si.go",
		old:  `{name: "hPa", size: 1e11}`, new: `{name: "hPa", size: 1e9}`,
		pkg: "./internal/config", run: "FC73",
	},
	{
		name: "63 is a fraction",
		file: "internal/config/quantity_number.go",
		old:  "\tcase v > 1e9 && v <= 100e9:\n", new: "\tcase v > 100e9 && v <= 101e9:\n",
		pkg: "./internal/config", run: "FC71",
	},
	{
		name: "two sensors in one place are taken",
		file: "internal/config/validate_place.go",
		old:  "\t\tif j != i { // clock", new: "\t\tif j > i { // clock",
		pkg: "./internal/config", run: "FC97",
	},
	{
		name: "a probe that is not there is taken",
		file: "internal/config/validate_model.go",
		old:  "\ti := c.probe(name)\n\tif i < 0 {\n", new: "\ti := c.probe(name)\n\tif i < 0 {\n\t\treturn\n\t}\n\tif i < 0 {\n",
		pkg: "./internal/config", run: "FC97SensorContradictions",
	},
	{
		name: "a probe of another kind is taken",
		file: "internal/config/validate_model.go",
		old:  "\tcase s.Measures != kind:\n", new: "\tcase s.Measures == \"\":\n",
		pkg: "./internal/config", run: "FC97SensorContradictions",
	},
	{
		name: "a range that is empty is taken",
		file: "internal/config/validate_calibration.go",
		old:  "\tif s.Range[0] == s.Range[1] {\n", new: "\tif s.Range[0] == s.Range[1] && s.Range[0].Steps < 0 {\n",
		pkg: "./internal/config", run: "FC65",
	},
	{
		name: "a flow and the mass that it leaves are both booked",
		file: "internal/config/validate_sensor.go",
		old:  "flow && measured && c.Sensors[j].Consumption != nil", new: "!flow && measured && c.Sensors[j].Consumption != nil && len(sharers) > 9",
		pkg: "./internal/config", run: "FC97SensorContradictions",
	},
	{
		name: "a calibration turns back",
		file: "internal/config/validate_calibration.go",
		old:  "\tfor i := 2; i < len(order); i++ {\n", new: "\tfor i := 3; i < len(order); i++ {\n",
		pkg: "./internal/config", run: "FC97SensorContradictions",
	},
	{
		name: "a key of another driver is passed over",
		file: "internal/config/validate_sensor.go",
		old:  "case f.driver != \"\" && !slices.Contains(of, s.Driver):", new: "case f.driver == \"none\" && !slices.Contains(of, s.Driver):",
		pkg: "./internal/config", run: "FC97",
	},
}

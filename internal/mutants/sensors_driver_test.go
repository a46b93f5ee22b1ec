package mutants

// driverMutants are changes of what a review of the drivers has mended.
var driverMutants = []mutant{
	{
		name: "a converter's setting may be that of power-on",
		file: "sensors/ads1115.go",
		old:  "\tif setting == ads1115PowerOn&^ads1115Ready {\n",
		new:  "\tif false {\n",
		pkg:  "./sensors", run: "ADS1115PowerOnSetting",
	},
	{
		name: "only a thermometer whose config is all zeros was reset",
		file: "sensors/max31865.go",
		old:  "\tcase high == 0xfffe && low == 0:",
		new:  "\tcase got == 0 && high == 0xfffe && low == 0:",
		pkg:  "./sensors", run: "MAX31865Faults",
	},
	{
		name: "a chip with another setting than ours is not set up anew",
		file: "sensors/loop.go",
		old:  " || f.Reason == ReasonReadback {\n",
		new:  " {\n",
		pkg:  "./sensors", run: "MAX31865HealsByItself|ProbeIsOpenedAnew",
	},
	{
		name: "an old flow meter counts in the litres of the config",
		file: "sensors/sfm.go",
		old:  "\tif err == nil && spec.old && o.Unit == FlowNLM {",
		new:  "\tif false {",
		pkg:  "./sensors", run: "SFMOldUnit",
	},
	{
		name: "a flow meter's frame is a result",
		file: "sensors/sfm.go",
		old:  "\tif err == nil {\n\t\terr = d.confirm(ctx)\n\t}\n",
		new:  "",
		pkg:  "./sensors", run: "SFMBesideAnotherProgram",
	},
	{
		name: "the kernel's word that ends in ones is a load",
		file: "sensors/iio.go",
		old:  "code&(1<<hx711GlitchOnes-1) == 1<<hx711GlitchOnes-1:\n",
		new:  "code == -1, code >= 0xffff && code&(code+1) == 0:\n",
		pkg:  "./sensors", run: "FC55IIOHX711",
	},
	{
		name: "a scan asks for bytes only",
		file: "sensors/scan.go",
		old:  "\treturn idleMeter(ctx, bus, addr), nil\n",
		new:  "\treturn \"\", nil\n",
		pkg:  "./sensors", run: "ScanFinds",
	},
	{
		name: "a scan ends at the first address that fails",
		file: "sensors/scan.go",
		old:  "failed == scanFailures {",
		new:  "failed == 1 {",
		pkg:  "./sensors", run: "ScanGoesOn",
	},
}

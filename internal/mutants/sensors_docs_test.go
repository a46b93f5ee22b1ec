package mutants

// docsMutants are changes after which docs/commissioning.md would no longer say what
// the program says.
var docsMutants = []mutant{
	{
		name: "a reason that the page does not explain",
		file: "sensors/fault.go",
		old:  "Reason = \"stuck\" ",
		new:  "Reason = \"frozen\" ",
		pkg:  "./sensors", run: "TestCommissioningListsEveryReason",
	},
	{
		name: "a key that the page's example has and the config does not know",
		file: "internal/config/sensor_parts.go",
		old:  "`yaml:\"refill_above\"`",
		new:  "`yaml:\"refill_from\"`",
		pkg:  "./internal/config", run: "TestCommissioningExamples",
	},
}

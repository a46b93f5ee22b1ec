package mutants

// simulatedMutants are changes of the simulated tank: of what it holds, and of how a
// rehearsal's faults reach whoever reads it.
var simulatedMutants = []mutant{
	{
		name: "a scripted fault comes with a number",
		file: "sensors/simulated.go",
		old:  "\t\t\treturn Reading{}, &Fault{Reason: e.Reason,",
		new:  "\t\t\treturn s.reading(step), &Fault{Reason: e.Reason,",
		pkg:  "./sensors", run: "TestSimulatedScript",
	},
	{
		name: "a stuck gauge follows the tank",
		file: "sensors/simulated.go",
		old:  "\t\t\tfrozen = max(frozen, since)\n",
		new:  "\t\t\tfrozen = min(max(frozen, since), 0)\n",
		pkg:  "./sensors", run: "FC68Simulated",
	},
	{
		name: "a simulated chip does not hang",
		file: "sensors/simulated.go",
		old:  "\tif ctx.Done() != nil {\n",
		new:  "\tif ctx.Err() != nil {\n",
		pkg:  "./sensors", run: "TestSimulatedHang",
	},
	{
		name: "each of many coolings is the only one",
		file: "sensors/simulated.go",
		old:  "\t\t\tleft = math.Expm1(-n*q) / math.Expm1(-q)\n",
		new:  "\t\t\tleft = min(1, math.Expm1(-n*q)/math.Expm1(-q))\n",
		pkg:  "./sensors", run: "FC44Simulated",
	},
	{
		name: "what happened once comes again with each lap",
		file: "sensors/simulated_truth.go",
		old:  "e.At+max(e.For, 1))",
		new:  "e.At+e.For)",
		pkg:  "./sensors", run: "SimulatedTruthVectors",
	},
	{
		name: "an empty simulated tank goes on losing",
		file: "sensors/simulated_truth.go",
		old:  "c.o.NoRefill && all > s.content {",
		new:  "c.o.NoRefill && all < 0 {",
		pkg:  "./sensors", run: "SimulatedTruthVectors",
	},
	{
		name: "laps of losses are skipped below the level of a refill",
		file: "sensors/simulated_truth.go",
		old:  "int64(min((s.content-top)/loss, forever/2))",
		new:  "int64(min(s.content/loss, forever/2))",
		pkg:  "./sensors", run: "SimulatedTruthVectors",
	},
	{
		name: "a cylinder that is off leaks",
		file: "sensors/simulated_truth.go",
		old:  "\tif c.removed(now) {\n\t\treturn 0, 0\n\t}\n",
		new:  "",
		pkg:  "./sensors", run: "SimulatedTruthVectors",
	},
	{
		name: "small leaks vanish in large totals",
		file: "sensors/simulated_truth.go",
		old:  "\t\t\tlap.gain.content = -loss // not rounded as the content is\n",
		new:  "",
		pkg:  "./sensors", run: "SimulatedSmallLeak",
	},
	{
		name: "a reason is missing in the list",
		file: "sensors/fault.go",
		old:  "ReasonStarting, ReasonNoReading, ReasonError,\n\t}",
		new:  "ReasonStarting, ReasonNoReading,\n\t}",
		pkg:  "./sensors", run: "TestReasonsAreAll",
	},
}

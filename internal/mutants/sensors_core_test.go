package mutants

// coreMutants are changes of what lies between a driver and an event.
var coreMutants = []mutant{
	{
		name: "a tank that waits for a probe goes stale again and again",
		file: "sensors/channel.go",
		old:  "\tcase ReasonStarting: // of the probe",
		new:  "\tcase \"never\": // of the probe",
		pkg:  "./sensors", run: "WaitingForAProbe",
	},
	{
		name: "the rest is handed over without the tank's lock",
		file: "sensors/loop.go",
		old:  "\t\tc.Booking.Lock()\n\t\tdefer c.Booking.Unlock()\n",
		new:  "",
		pkg:  "./sensors", run: "RestIsBooked",
	},
	{
		name: "pulses before the first good reading are nobody's",
		file: "sensors/meter.go",
		old:  "\t\t\tm.pulses.Seed(0, 0)",
		new:  "\t\t\t_ = m.pulses",
		pkg:  "./sensors", run: "PulsesBefore",
	},
	{
		name: "a meter's low zero stands against what is drawn",
		file: "sensors/meter.go",
		old:  "max(t.kg+kg, -meterDebt)",
		new:  "t.kg+kg",
		pkg:  "./sensors", run: "MeterOffset",
	},
	{
		name: "a late amount does not wait for its snapshot",
		file: "sensors/meter.go",
		old:  "\t\tt.late = at\n",
		new:  "",
		pkg:  "./sensors", run: "MeteredTank",
	},
	{
		name: "the points of a calibration are the ends of the sensor",
		file: "sensors/open_chain.go",
		old:  "\tb := unbounded\n",
		new:  "\tb := bounds{least: least, most: most}\n",
		pkg:  "./sensors", run: "CalibrationEnds",
	},
	{
		name: "a volume of less than nothing is an empty tank",
		file: "sensors/open_chain.go",
		old:  "\t\tb.least = 0\n",
		new:  "",
		pkg:  "./sensors", run: "NoVolumeIsLess",
	},
	{
		name: "a gap's booking is told as good",
		file: "sensors/refine.go",
		old:  "\t\tr.derive(reading, verdict, at)\n\t\tverdict = quality(reading, verdict)\n",
		new:  "\t\tr.derive(reading, verdict, at)\n",
		pkg:  "./sensors", run: "GapIsTold",
	},
	{
		name: "what the outbox refuses is forgotten",
		file: "internal/daemon/edge.go",
		old:  "\t\tb.owed.note(&r)\n",
		new:  "",
		pkg:  "./internal/daemon", run: "RefusedBooking",
	},
	{
		name: "what the outbox refused is booked again and again",
		file: "internal/daemon/edge.go",
		old:  "\tdelete(o.of, r.Tank)\n",
		new:  "",
		pkg:  "./internal/daemon", run: "RefusedBooking",
	},
	{
		name: "a flow is a measurement of its tank",
		file: "internal/daemon/edge.go",
		old:  "\tif r.Quantity == sensors.Content && (r.Report || len(drafts) > 0) {\n",
		new:  "\tif true {\n",
		pkg:  "./internal/daemon", run: "FlowIsNo",
	},
	{
		name: "any record of the driver will do",
		file: "internal/daemon/sensorspec.go",
		old:  "r.Channel != name {",
		new:  "r.Channel == \"\" && name != \"\" {",
		pkg:  "./internal/daemon", run: "RecordOfAnother",
	},
}

package mutants

// wirings are changes of what joins the stations, and of what a config may say.
var wirings = []mutant{
	{
		name: "an outbox in the place of a lost one goes by the clock alone",
		file: "internal/daemon/stores.go",
		old:  "b.outbox.RaiseEpoch(known.NewestEpoch)",
		new:  "b.outbox.RaiseEpoch(0 * known.NewestEpoch)",
		pkg:  "./internal/daemon", run: "LostOutbox",
	},
	{
		name: "a dedup window shorter than redelivery is taken",
		file: "internal/config/validate.go",
		old:  "\tif l.RedeliveryWindow > l.DedupWindow {\n",
		new:  "\tif false && l.RedeliveryWindow > l.DedupWindow {\n",
		pkg:  "./internal/config", run: "FC97",
	},
	{
		name: "a node that announces more than the window is not told of",
		file: "internal/daemon/windows.go",
		old:  "\tif longest > window {\n",
		new:  "\tif false && longest > window {\n",
		pkg:  "./internal/e2e", run: "AnnouncesMore",
	},
	{
		name: "a gap that lasts is not told of",
		file: "internal/daemon/gaps.go",
		old:  "\t\tif now.Sub(at) >= gapGrace {\n",
		new:  "\t\tif false && now.Sub(at) >= gapGrace {\n",
		pkg:  "./internal/e2e", run: "FC29",
	},
	{
		name: "a message in quarantine is not told of",
		file: "internal/daemon/judge.go",
		old:  "\tif s.Quarantined > 0 {\n",
		new:  "\tif s.Quarantined > 1 {\n",
		pkg:  "./internal/e2e", run: "QuarantineIsTold",
	},
	{
		name: "a bound that is reached is not told of",
		file: "internal/daemon/judge.go",
		old:  "\t\tif bound.have >= bound.max {\n",
		new:  "\t\tif bound.have > bound.max {\n",
		pkg:  "./internal/e2e", run: "BoundThatIsReached",
	},
	{
		name: "a node does not hear what a ledger confirms",
		file: "internal/daemon/follow.go",
		old:  "\tcase of.Confirms != \"\":\n",
		new:  "\tcase of.Confirms == \"-\":\n",
		pkg:  "./internal/e2e", run: "HoleInTheMiddle",
	},
	{
		name: "a refused following ends the connection",
		file: "mqtt/follow.go",
		old:  "\tif p.followFaults.Add(1) == 1 {\n",
		new:  "\tl.end(err)\n\tif p.followFaults.Add(1) == 1 {\n",
		pkg:  "./mqtt", run: "RefusedFollowing",
	},
}

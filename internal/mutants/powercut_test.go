package mutants

// powerCuts are what the power-cut rig must find. They need FUSE: where that is
// not there the rig skips, which counts as unnoticed here.
var powerCuts = []mutant{
	{
		name: "a cut between effect and mark",
		file: "ledger/ledger.go",
		old:  "\t\treturn b.flush()\n\t})\n",
		new:  "\t\treturn nil\n\t})\n\tif err == nil {\n\t\terr = l.file.Update(func(tx *bbolt.Tx) error { b.attach(tx); return b.flush() })\n\t}\n",
		pkg:  "./internal/powercut", run: "PowerCut/ledger$",
	},
	{
		name: "a cut between acknowledgement and commit",
		file: "ingest/ingest.go",
		old:  "\tresults, err := i.Apply(deliveries)\n",
		new:  "\tfor n := range batch {\n\t\tbatch[n].Ack()\n\t}\n\tresults, err := i.Apply(deliveries)\n",
		pkg:  "./internal/powercut", run: "PowerCut/ledger$",
	},
	{
		name: "a cut when nothing is synced",
		file: "internal/boltfile/boltfile.go",
		old:  "\t\tFreelistType:    bbolt.FreelistMapType,\n",
		new:  "\t\tFreelistType:    bbolt.FreelistMapType,\n\t\tNoSync:          true,\n",
		pkg:  "./internal/powercut", run: "PowerCut/outbox$",
	},
	{
		name: "a cut after a kill between a store's name and its sync",
		file: "internal/boltfile/create.go",
		old:  "\t\tif err := dir.Sync(); err != nil {\n\t\t\treturn false,",
		new:  "\t\tif err := error(nil); err != nil {\n\t\t\treturn false,",
		pkg:  "./internal/powercut", run: "PowerCut/ledger-killed",
	},
	{
		name: "a cut after a repeat that no barrier covers",
		file: "internal/boltfile/boltfile.go",
		old: "\tif err := f.fd.Sync(); err != nil { // before anything is written\n" +
			"\t\treturn fmt.Errorf(\"open %s: sync what was found: %w\", f.path, err)\n\t}\n" +
			"\tif err := f.Update(func(tx *bbolt.Tx) error { return barrier(tx, o.Buckets) }); err != nil {\n",
		new: "\tif err := f.View(func(tx *bbolt.Tx) error { return nil }); err != nil {\n",
		pkg: "./internal/powercut", run: "PowerCut/outbox-repeat",
	},
	{
		name: "a cut while the barrier overwrites what the disk still needs",
		file: "internal/boltfile/boltfile.go",
		old:  "\tif err := f.fd.Sync(); err != nil { // before anything is written\n",
		new:  "\tif err := error(nil); err != nil {\n",
		pkg:  "./internal/powercut", run: "PowerCut/.*reopened",
	},
	{
		name: "a cut when the new name was not synced",
		file: "internal/boltfile/create.go",
		old:  "\tif err := dir.Sync(); err != nil {\n\t\treturn fmt.Errorf(\"sync directory: %w\", err)\n",
		new:  "\tif err := error(nil); err != nil {\n\t\treturn fmt.Errorf(\"sync directory: %w\", err)\n",
		pkg:  "./internal/powercut", run: "PowerCut/ledger-creation",
	},
}

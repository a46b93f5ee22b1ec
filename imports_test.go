package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed is the import graph: which packages of ours each package may import.
// Stations do not import each other sideways; internal/daemon joins them.
var allowed = map[string][]string{
	"oxyd":                                {"oxyd/internal/cli"},
	"oxyd/sensors":                        {"oxyd/sensors/oxygen", "oxyd/sensors/signal", "oxyd/sensors/vessel"},
	"oxyd/sensors/oxygen":                 {},
	"oxyd/sensors/vessel":                 {"oxyd/sensors/oxygen"},
	"oxyd/sensors/internal/chip":          {},
	"oxyd/sensors/signal":                 {},
	"oxyd/sensors/internal/guest":         {"oxyd/internal/cusei2c", "oxyd/sensors/internal/chip"},
	"oxyd/internal/cusei2c":               {},
	"oxyd/mqtt":                           {},
	"oxyd/ingest":                         {"oxyd/internal/event", "oxyd/ledger"},
	"oxyd/ledger":                         {"oxyd/internal/event", "oxyd/internal/boltfile"},
	"oxyd/internal/event":                 {},
	"oxyd/internal/boltfile":              {},
	"oxyd/internal/boltfile/boltfiletest": {"oxyd/internal/boltfile"},
	"oxyd/internal/clock":                 {},
	"oxyd/internal/clock/clocktest":       {},
	"oxyd/internal/outbox":                {"oxyd/internal/event", "oxyd/internal/boltfile"},
	"oxyd/internal/config":                {"oxyd/internal/event"},
	"oxyd/internal/web":                   {"oxyd/internal/event", "oxyd/ledger"},
	"oxyd/internal/webhook":               {"oxyd/ledger"},
	"oxyd/internal/mqtttest":              {},
	"oxyd/internal/integrity":             {"oxyd/internal/boltfile", "oxyd/internal/outbox", "oxyd/ledger"},
	"oxyd/internal/daemon": {"oxyd/ingest", "oxyd/internal/boltfile", "oxyd/internal/integrity", "oxyd/internal/clock", "oxyd/internal/config",
		"oxyd/internal/event", "oxyd/internal/outbox", "oxyd/internal/web", "oxyd/internal/webhook", "oxyd/ledger", "oxyd/mqtt", "oxyd/sensors", "oxyd/sensors/vessel"},
	"oxyd/internal/checklist": {"oxyd/ingest", "oxyd/internal/boltfile", "oxyd/internal/clock", "oxyd/internal/config",
		"oxyd/internal/daemon", "oxyd/internal/event", "oxyd/internal/outbox", "oxyd/ledger", "oxyd/mqtt"},
	"oxyd/internal/cli": {"oxyd/internal/boltfile", "oxyd/internal/checklist", "oxyd/internal/config", "oxyd/internal/daemon",
		"oxyd/internal/demo", "oxyd/internal/event", "oxyd/internal/integrity", "oxyd/internal/outbox", "oxyd/internal/web", "oxyd/ledger", "oxyd/internal/clock", "oxyd/sensors"},
	"oxyd/internal/demo": {"oxyd/ingest", "oxyd/internal/boltfile", "oxyd/internal/event", "oxyd/ledger", "oxyd/mqtt"},
	"oxyd/bench":         {"oxyd/ingest", "oxyd/internal/daemon", "oxyd/internal/event", "oxyd/ledger", "oxyd/mqtt"},
	"oxyd/internal/e2e":  {}, "oxyd/internal/mutants": {}, "oxyd/internal/powercut": {}, "oxyd/internal/qemurig": {},
}

func TestImportGraph(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		edges, known := allowed[p.ImportPath]
		if !known {
			t.Errorf("package %s has no line in the import graph", p.ImportPath)
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "oxyd/") && !slices.Contains(edges, i) {
				t.Errorf("%s may not import %s", p.ImportPath, i)
			}
		}
	}
	if seen < 10 {
		t.Errorf("go list named %d packages only", seen)
	}
}

// Package mutants keeps, for every guarantee, a change of the code that breaks
// it and the test that must notice. A test that cannot fail is a defect. It has
// no code of its own and is run with
//
//	go test ./internal/mutants -mutants
package mutants

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var enabled = flag.Bool("mutants", false, "build every mutant and require its test to fail (minutes)")

// mutant is one change: old, which stands exactly once in file, becomes new, and
// the named tests of the package must fail.
type mutant struct {
	name     string
	file     string
	old, new string
	pkg, run string
}

func TestMutantsAreCaught(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(
		accountRules, keepings, outboxes, powerCuts, clockworkMutants, sensorsConfigMutants,
		coreMutants, docsMutants, driverMutants, gpioMutants, i2cBuses, physicsMutants,
		signalMutants, simulatedMutants, spiMutants, sensorWirings, stations, wirings,
	) {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel() // most of a build's end is one thread
			text, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(m.old)); n != 1 {
				t.Fatalf("%s holds the text to change %d times, want once:\n%s", m.file, n, m.old)
			}
			if !*enabled {
				t.Skip("only with -mutants: each one is a build and a test run; that its text still stands was checked")
			}
			dir := t.TempDir()
			changed := filepath.Join(dir, "changed.go")
			if err := os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): changed}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=240s", "-run", m.run, m.pkg)
			cmd.Dir = root
			// By the environment, so that a test which builds the program builds the mutant.
			cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+file)
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("the tests %s of %s do not notice: %s", m.run, m.pkg, m.name)
			case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
				t.Fatalf("the mutant does not build:\n%s", out)
			case bytes.Contains(out, []byte("no tests to run")):
				t.Fatalf("no test is called %s", m.run)
			}
		})
	}
}

package config

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden file is what a person sees who got everything wrong at once.
func TestBrokenGolden(t *testing.T) {
	_, err := Load("testdata/broken.yaml")
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got error %v, want Faults", err)
	}
	got := strings.ReplaceAll(faults.Error(), "testdata/", "") + "\n"
	const golden = "testdata/broken.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(faults, func(a, b Fault) int { return a.Line - b.Line }) {
		t.Error("faults are not sorted by line")
	}
}

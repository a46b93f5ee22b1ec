package config

import (
	"os"
	"regexp"
	"testing"
)

// TestCommissioningExamples: what somebody copies from the page is a valid config, and
// nothing in it is worth a warning.
func TestCommissioningExamples(t *testing.T) {
	const path = "../../docs/commissioning.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatalf("%s shows no config", path)
	}
	for _, block := range blocks {
		c, err := parse(path, block[1], testHost)
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
			continue
		}
		for _, w := range c.Warnings {
			t.Errorf("warning: %v\n%s", w, block[1])
		}
	}
}

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// The six questions, asked of a real node: while it runs, after a clean stop, after
// a kill. The answers are yes, and asking disturbs nothing.
func TestCheckAnswersTheSixQuestions(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	n.until("readings applied", func() bool { return n.status().Outcomes["applied"] >= 3 })
	ask := func(when, evidence string) {
		t.Helper()
		out, err := n.command("check", "--json")
		var answers []struct {
			Question string
			OK       bool
			Evidence []string
		}
		if jsonErr := json.Unmarshal([]byte(out), &answers); err != nil || jsonErr != nil || len(answers) != 6 {
			t.Fatalf("%s: %v, %v\n%s", when, err, jsonErr, out)
		}
		all := ""
		for _, a := range answers {
			if all += strings.Join(a.Evidence, "\n") + "\n"; !a.OK {
				t.Errorf("%s: %s: %s", when, a.Question, strings.Join(a.Evidence, "\n"))
			}
		}
		if !strings.Contains(all, evidence) || !strings.Contains(all, "folded anew") {
			t.Errorf("%s: no evidence has %q:\n%s", when, evidence, all)
		}
	}
	ask("running", "the redelivery that node all announces, 72h")
	applied := n.status().Outcomes["applied"]
	n.until("more readings", func() bool { return n.status().Outcomes["applied"] > applied })
	n.stop()
	ask("stopped", "number, id and bytes of 0 waiting")
	n.startReady()
	n.kill()
	ask("killed", "no daemon was asked")
	n.startReady()
}

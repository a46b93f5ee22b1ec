package mqtt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTopicNames(t *testing.T) {
	t.Parallel()
	names := Topics{Prefix: "oxyd", Site: "base"}
	got := append(names.EventFilters(),
		names.Tank("A", LeafBalance), names.NodeStatus("ctl-3"), names.Telemetry("ctl-3", "cpu"),
		names.LedgerStatus("main"), names.Confirm("main", "ctl-3"))
	want := []string{
		"oxyd/base/tank/+/measured", "oxyd/base/tank/+/consumed", "oxyd/base/tank/+/refilled",
		"oxyd/base/tank/+/reversed", "oxyd/base/tank/+/skipped",
		"oxyd/base/tank/A/balance", "oxyd/base/node/ctl-3/status", "oxyd/base/node/ctl-3/telemetry/cpu",
		"oxyd/base/ledger/main/status", "oxyd/base/ledger/main/confirm/ctl-3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestParseTankUndoesTank(t *testing.T) {
	t.Parallel()
	level := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		names := Topics{Prefix: level.Draw(t, "prefix"), Site: level.Draw(t, "site")}
		tank, leaf := level.Draw(t, "tank"), level.Draw(t, "leaf")
		topic := names.Tank(tank, leaf)
		if !ValidTopic(topic) || !ValidFilter(topic) {
			t.Fatalf("%q is not valid", topic)
		}
		gotTank, gotLeaf, ok := names.ParseTank(topic)
		if !ok || gotTank != tank || gotLeaf != leaf {
			t.Fatalf("ParseTank(%q) is %q, %q, %v", topic, gotTank, gotLeaf, ok)
		}
	})
}

func TestParseTankRefusesOtherTopics(t *testing.T) {
	t.Parallel()
	names := Topics{Prefix: "oxyd", Site: "base"}
	for _, topic := range []string{
		"", "oxyd/base/tank", "oxyd/base/tank/", "oxyd/base/tank/A", "oxyd/base/tank/A/", "oxyd/base/tank//measured",
		"oxyd/base/tank/A/measured/x", "oxyd/other/tank/A/measured", "xoxyd/base/tank/A/measured", "oxyd/base/node/A/status",
	} {
		if tank, leaf, ok := names.ParseTank(topic); ok {
			t.Errorf("ParseTank(%q) is %q, %q, want no tank", topic, tank, leaf)
		}
	}
}

func TestValidTopicsAndFilters(t *testing.T) {
	t.Parallel()
	for s, want := range map[string][3]bool{ // topic, filter, level
		"a":                                  {true, true, true},
		"a/b":                                {true, true, false},
		"a/+/b":                              {false, true, false},
		"+":                                  {false, true, false},
		"#":                                  {false, true, false},
		"a/#":                                {false, true, false},
		"a/#/b":                              {false, false, false},
		"a#":                                 {false, false, false},
		"a/b+":                               {false, false, false},
		"":                                   {false, false, false},
		"a\x00":                              {false, false, false},
		"a\n":                                {false, false, false},
		"\xff":                               {false, false, false},
		strings.Repeat("x", maxTopicBytes):   {true, true, true},
		strings.Repeat("x", maxTopicBytes+1): {false, false, false},
	} {
		if got := [3]bool{ValidTopic(s), ValidFilter(s), ValidLevel(s)}; got != want {
			t.Errorf("%.20q: topic, filter, level are %v, want %v", s, got, want)
		}
	}
}

package web

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

func TestMetricsFormat(t *testing.T) {
	got := string(appendMetrics([]Metric{
		{Name: "oxyd_b_total", Help: "Say \\ and\nnext.", Type: "counter", Value: 3, Labels: map[string]string{"z": "1", "a": "q\"\\\n\xff"}},
		{Name: "oxyd_a", Help: "A.", Type: "gauge", Value: math.Inf(1)},
		{Name: "oxyd_b_total", Help: "other", Type: "gauge", Value: 0.25},
		{Name: "oxyd_c", Help: "C.", Type: "gauge", Value: math.NaN()},
		{Name: "oxyd_d", Help: "D.", Type: "gauge", Value: 1940273981210624},
	}))
	want := `# HELP oxyd_a A.
# TYPE oxyd_a gauge
oxyd_a +Inf
# HELP oxyd_b_total Say \\ and\nnext.
# TYPE oxyd_b_total counter
oxyd_b_total{a="q\"\\\n` + "\uFFFD" + `",z="1"} 3
oxyd_b_total 0.25
# HELP oxyd_c C.
# TYPE oxyd_c gauge
oxyd_c NaN
# HELP oxyd_d D.
# TYPE oxyd_d gauge
oxyd_d 1.940273981210624e+15
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMetricsOfAnAccount(t *testing.T) {
	s := newStation(t, func(s *station) {
		s.board.Metrics = func() []Metric {
			return []Metric{{Name: "oxyd_outbox_pending_rows", Help: "P.", Type: "gauge", Value: 5}}
		}
	})
	s.post(exampleOfRecord)
	s.post(exampleOfRecord)
	s.poison("t", []byte("not json"))
	w := s.get("/metrics")
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	text := w.Body.String()
	for _, line := range []string{
		`oxyd_ledger_events_total{outcome="applied"} 1`, `oxyd_ledger_events_total{outcome="duplicate"} 1`,
		`oxyd_ledger_events_total{outcome="quarantined"} 1`, `oxyd_ledger_events_total{outcome="late"} 0`,
		`oxyd_tank_balance_grams{tank="A"} 727`, `oxyd_tank_level_percent{tank="A"} 72.7`, `oxyd_tank_consumed_grams{tank="A"} 120`,
		`oxyd_quarantine_rows 1`, `oxyd_outbox_pending_rows 5`, `oxyd_build_info{version="v1.2.3"} 1`, `oxyd_tank_stale{tank="A"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "oxyd_tank_discrepancy_grams{") || strings.Contains(text, "measured_timestamp") {
		t.Error("a figure that is not known is told")
	}
	checkFamilies(t, text)
}

// checkFamilies holds the rules of the format: each family stands once, together,
// and begins with its HELP and TYPE.
func checkFamilies(t *testing.T, text string) {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_][a-z0-9_]*)(\{([a-z_]+="[^"\\\n]*",?)*\})? [-+0-9.eInfNa]+$`)
	seen, family := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(name, " ")
			if seen[family] {
				t.Errorf("family %s stands twice", family)
			}
			seen[family] = true
			continue
		}
		if strings.HasPrefix(line, "# TYPE "+family+" ") {
			continue
		}
		if m := sample.FindStringSubmatch(line); m == nil || m[1] != family {
			t.Errorf("line %q in family %s", line, family)
		}
	}
}

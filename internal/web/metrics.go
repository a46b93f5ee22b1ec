package web

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"oxyd/ledger"
)

// Metric is one sample of GET /metrics. Samples of one Name share Help and Type,
// those of the first.
type Metric struct {
	Name   string // [a-z_][a-z0-9_]*, unit last, counters end in _total
	Help   string
	Type   string // "counter" or "gauge"
	Value  float64
	Labels map[string]string // their names like Name; any values
}

// metrics writes the text format 0.0.4 of Prometheus.
func (a *api) metrics(w http.ResponseWriter, r *http.Request) {
	list := []Metric{{Name: "oxyd_build_info", Help: "Always 1; the version is in the label.", Type: "gauge",
		Value: 1, Labels: map[string]string{"version": a.board.Version}}}
	if account := a.board.Account; account != nil {
		own, err := accountMetrics(account)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		list = append(list, own...)
	}
	if a.board.Metrics != nil {
		list = append(list, a.board.Metrics()...)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(appendMetrics(list)) // an error here is the client's going away
}

func accountMetrics(account *ledger.Ledger) ([]Metric, error) {
	s, err := account.Status()
	if err != nil {
		return nil, err
	}
	tanks, err := account.Balances()
	if err != nil {
		return nil, err
	}
	counter := func(name, help string, v uint64) Metric {
		return Metric{Name: name, Help: help, Type: "counter", Value: float64(v)}
	}
	gauge := func(name, help string, v uint64) Metric {
		return Metric{Name: name, Help: help, Type: "gauge", Value: float64(v)}
	}
	list := []Metric{
		counter("oxyd_ledger_duplicates_unverified_total", "Duplicates whose content could not be compared any more.", s.Unverified),
		counter("oxyd_ledger_revision_total", "Journal rows written.", s.Revision),
		gauge("oxyd_ledger_incarnation", "Grows when the store was created or restored.", s.Incarnation),
		gauge("oxyd_ledger_tanks", "Tanks that the account knows.", s.Tanks),
		gauge("oxyd_ledger_sources", "Sources that the account has heard.", s.Sources),
		gauge("oxyd_ledger_two_boards", "Sources that look like two boards under one name.", uint64(len(s.TwoBoards))),
		gauge("oxyd_ledger_parked", "Reversals that wait for their original.", s.Parked),
		counter("oxyd_ledger_pruned_total", "Events that were pruned.", s.Pruned),
		gauge("oxyd_ledger_old_rows", "Events older than the history that something may still need.", s.Waiting),
		gauge("oxyd_ledger_kept_rows", "Rows that are kept for good.", s.KeptForGood),
		gauge("oxyd_ledger_marks", "Events with neither number nor usable time, kept for good.", s.Marks),
		counter("oxyd_ledger_marks_refused_total", "Such events refused at the bound max_marks.", s.MarksRefused),
		gauge("oxyd_ledger_inexact", "Tanks whose balance rests on events that were pruned in part.", s.Inexact),
		gauge("oxyd_ledger_file_bytes", "Size of the account's file.", uint64(s.FileBytes)),
		gauge("oxyd_ledger_file_limit_bytes", "What it may grow to; 0: no bound.", uint64(s.FileLimitBytes)),
		{Name: "oxyd_ledger_full", Help: "1 while the account has no room and nothing is acknowledged.", Type: "gauge", Value: oneIf(s.Full)},
		gauge("oxyd_quarantine_rows", "Messages in quarantine.", s.Quarantined),
		gauge("oxyd_quarantine_bytes", "What they count against the quarantine's bound.", s.QuarantineBytes),
		counter("oxyd_quarantine_evicted_total", "Messages that went at the quarantine's bound.", s.Evicted),
		counter("oxyd_quarantine_retried_total", "Retries by operators that changed something.", s.Retried),
		counter("oxyd_quarantine_discarded_total", "Messages that operators have discarded.", s.Discarded),
		counter("oxyd_quarantine_discarded_again_total", "Repeats of what was discarded, not kept again.", s.DiscardedAgain),
	}
	for _, o := range ledger.Outcomes() {
		m := counter("oxyd_ledger_events_total", "Deliveries by what became of them.", s.Outcomes[o])
		m.Labels = map[string]string{"outcome": o.String()}
		list = append(list, m)
	}
	for i := range tanks {
		list = append(list, tankMetrics(&tanks[i])...)
	}
	return list, nil
}

// tankMetrics leaves out what is not known: an absent sample can be alarmed on, a
// made-up 0 cannot.
func tankMetrics(doc *ledger.Balance) []Metric {
	var list []Metric
	gauge := func(name, help string, v float64) {
		list = append(list, Metric{Name: name, Help: help, Type: "gauge", Value: v, Labels: map[string]string{"tank": doc.Tank}})
	}
	grams := func(name, help string, v *ledger.Sum) {
		if v != nil {
			gauge(name, help, v.Grams())
		}
	}
	grams("oxyd_tank_balance_grams", "Balance of the account.", doc.Balance)
	grams("oxyd_tank_capacity_grams", "What counts as full.", doc.Capacity)
	grams("oxyd_tank_discrepancy_grams", "Newest baseline less what the account expected.", doc.Discrepancy)
	if doc.LevelPercent != nil {
		gauge("oxyd_tank_level_percent", "Balance in percent of the capacity.", *doc.LevelPercent)
	}
	if doc.MeasuredAt != nil {
		gauge("oxyd_tank_measured_timestamp_seconds", "When the baseline was measured, Unix time.",
			float64(doc.MeasuredAt.UnixNano())/float64(time.Second))
	}
	grams("oxyd_tank_consumed_grams", "Consumed since the tank was first heard of; a reversal lowers it.", &doc.Totals.Consumed)
	grams("oxyd_tank_refilled_grams", "Refilled since the tank was first heard of; a reversal lowers it.", &doc.Totals.Refilled)
	gauge("oxyd_tank_stale", "1: no measurement for too long.", oneIf(doc.Stale))
	gauge("oxyd_tank_suspect", "1: the balance rests on something doubtful.", oneIf(doc.Quality != "good"))
	gauge("oxyd_tank_complete", "0: an event after the baseline may be missing.", oneIf(doc.Complete))
	gauge("oxyd_tank_totals_complete", "0: an event is missing.", oneIf(doc.TotalsComplete))
	gauge("oxyd_tank_overdrawn", "1: more was booked out than there was.", oneIf(slices.Contains(doc.Flags, "overdrawn")))
	return list
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// appendMetrics writes the samples by name, as the format wants all of one name
// together, and within a name in their order.
func appendMetrics(list []Metric) []byte {
	slices.SortStableFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	for i := range list {
		m := &list[i]
		if i == 0 || list[i-1].Name != m.Name {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, helpEscapes().Replace(m.Help), m.Name, m.Type)
		}
		b.WriteString(m.Name)
		for n, label := range slices.Sorted(maps.Keys(m.Labels)) {
			separator := byte(',')
			if n == 0 {
				separator = '{'
			}
			b.WriteByte(separator)
			fmt.Fprintf(&b, `%s="%s"`, label, labelEscapes().Replace(strings.ToValidUTF8(m.Labels[label], "\uFFFD")))
		}
		if len(m.Labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteByte(' ')
		b.Write(strconv.AppendFloat(nil, m.Value, 'g', -1, 64)) // NaN and +Inf as the format spells them
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// The escapes of the text format: of help texts, and of label values.
func helpEscapes() *strings.Replacer  { return strings.NewReplacer(`\`, `\\`, "\n", `\n`) }
func labelEscapes() *strings.Replacer { return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`) }

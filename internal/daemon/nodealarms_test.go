package daemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"oxyd/internal/outbox"
)

// The node's alarms follow the outbox: they begin when it says so and end with it.
func TestOutboxAlarms(t *testing.T) {
	b := &board{log: zerolog.Nop()}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		stats outbox.Stats
		want  map[string]string
	}{
		{"all well", outbox.Stats{}, map[string]string{}},
		{"refused once, and never at the bound", outbox.Stats{Full: true}, map[string]string{}},
		{"merging", outbox.Stats{CrowdedSince: at}, map[string]string{"outbox_full": warning}},
		{"refusing", outbox.Stats{CrowdedSince: at, Full: true}, map[string]string{"outbox_full": critical}},
		{"giving up", outbox.Stats{LackingSince: at}, map[string]string{"outbox_full": warning}},
		{"giving up, then merging", outbox.Stats{LackingSince: at.Add(-time.Hour), CrowdedSince: at}, map[string]string{"outbox_full": warning}},
		{"no disk", outbox.Stats{CrowdedSince: at, DiskFullSince: at.Add(time.Minute), Full: true},
			map[string]string{"outbox_full": critical, "storage_full": critical}},
		{"all well again", outbox.Stats{}, map[string]string{}},
	} {
		b.outboxAlarms(&c.stats)
		got := map[string]string{}
		since := c.stats.CrowdedSince
		if since.IsZero() {
			since = c.stats.LackingSince
		}
		for _, a := range b.nodeAlarms.list() {
			got[a.Kind] = a.Severity
			if want := map[string]time.Time{"outbox_full": since, "storage_full": c.stats.DiskFullSince}[a.Kind]; !a.Since.Equal(want) || a.Text == "" {
				t.Errorf("%s: %+v, want since %v and a text", c.name, a, want)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", c.name, d)
		}
	}
}

package outbox

import (
	"path/filepath"
	"testing"

	"oxyd/internal/event"
)

// The commits of bolt dominate: two syncs each, whatever is in them.
func benchOpen(b *testing.B) *Outbox {
	b.Helper()
	o := testOptions(filepath.Join(b.TempDir(), "outbox.db"), newClock())
	o.MaxBytes, o.Retention = 1<<30, -1
	x := reopen(b, o)
	b.Cleanup(func() { checkAndClose(b, x) })
	return x
}

func benchAppend(b *testing.B, n int) {
	x := benchOpen(b)
	drafts := make([]event.Event, n)
	for i := range drafts {
		drafts[i] = snapshot([]string{"A", "B", "C"}[i%3], int64(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		mustAppend(b, x, drafts...)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppend1(b *testing.B)   { benchAppend(b, 1) }
func BenchmarkAppend100(b *testing.B) { benchAppend(b, 100) }

func BenchmarkNextConfirm500(b *testing.B) {
	x := benchOpen(b)
	drafts := make([]event.Event, 500)
	for i := range drafts {
		drafts[i] = snapshot([]string{"A", "B", "C"}[i%3], int64(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		mustAppend(b, x, drafts...)
		b.StartTimer()
		rows := mustNext(b, x, 0, 500)
		if len(rows) != 500 {
			b.Fatalf("%d rows", len(rows))
		}
		mustConfirm(b, x, rows)
	}
	b.ReportMetric(float64(b.N*500)/b.Elapsed().Seconds(), "rows/s")
}

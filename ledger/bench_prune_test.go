package ledger

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

var tenMillion = flag.Bool("tenmillion", false, "benchmark with ten million resident events too (minutes, 3 GB of disk)")

// fillTo applies events until so many are resident.
func fillTo(b *testing.B, l *Ledger, g *traffic, events int) {
	b.Helper()
	batch := make([]Delivery, 4096)
	for g.n < events {
		g.next(batch)
		if _, err := l.Apply(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkResident applies batches to an account that holds many events already. It
// reports the events/s, the 99th percentile of the time that one batch takes, and what
// an event costs in the file.
func BenchmarkResident(b *testing.B) {
	counts := []int{100_000, 1_000_000}
	if *tenMillion {
		counts = append(counts, 10_000_000)
	}
	for _, resident := range counts {
		for _, size := range []int{1, 256, 512} {
			b.Run(fmt.Sprintf("events=%d/batch=%d", resident, size), func(b *testing.B) {
				l, g := benchLedger(b, 16)
				fillTo(b, l, g, resident)
				used, err := l.file.Usage()
				if err != nil {
					b.Fatal(err)
				}
				measureApply(b, l, g, size)
				b.ReportMetric(float64(used.Used-reserveBytes)/float64(resident), "bytes/event")
			})
		}
	}
}

func measureApply(b *testing.B, l *Ledger, g *traffic, size int) {
	batch := make([]Delivery, size)
	var took []time.Duration
	busy := cpuTime(b)
	for b.Loop() {
		b.StopTimer()
		g.next(batch)
		b.StartTimer()
		from := time.Now()
		if _, err := l.Apply(batch); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(from))
	}
	b.ReportMetric(float64((cpuTime(b)-busy).Nanoseconds())/float64(b.N*size), "cpu-ns/event")
	slices.Sort(took)
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what the process has used so far. It tells on a busy machine what the
// clock does not.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPruning is the steady state: as much goes as comes. Set it against
// BenchmarkResident of the same run. A window of resident events is simulated by the
// time that they span.
func BenchmarkPruning(b *testing.B) {
	for _, tanks := range []int{3, 16, 100} {
		for _, size := range []int{1, 256, 512} {
			b.Run(fmt.Sprintf("tanks=%d/batch=%d", tanks, size), func(b *testing.B) {
				l, g := benchLedger(b, tanks)
				const resident = 100_000 // one event a millisecond
				l.Close()
				l, err := Open(Options{Path: l.opt.Path, Log: zerolog.Nop(), Now: func() time.Time { return g.at },
					DedupWindow: resident * time.Millisecond, History: resident * time.Millisecond})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { l.Close() })
				fillTo(b, l, g, 2*resident)
				before, _ := l.file.Usage()
				went, _ := l.Status()
				measureApply(b, l, g, size)
				after, _ := l.file.Usage()
				s, _ := l.Status()
				b.ReportMetric(float64(s.Pruned-went.Pruned)/float64(b.N*size), "pruned/event")
				b.ReportMetric(float64(after.Used)/float64(before.Used), "size-ratio")
			})
		}
	}
}

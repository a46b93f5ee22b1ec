package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// stream of in-order events of a base: tanks tanks, each with a meter that sends
// deltas and, every 16th, a snapshot.
type traffic struct {
	tanks int
	n     int
	seq   []uint64
	at    time.Time
}

func (g *traffic) next(batch []Delivery) {
	for i := range batch {
		k := g.n % g.tanks
		g.n++
		g.seq[k]++
		g.at = g.at.Add(time.Millisecond)
		tankID, source := fmt.Sprintf("tank-%02d", k), fmt.Sprintf("ctl-%02d", k)
		e := event.Event{Type: event.Consumed, Tank: tankID, Source: source, Amount: physic.Gram, OccurredAt: g.at,
			Dot: event.Dot{Epoch: 1850222837760000, Seq: g.seq[k]}, Version: event.WireVersion}
		if g.seq[k]%16 == 0 {
			e.Type, e.Amount = event.Measured, physic.KiloGram
		}
		e.ID = event.NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
		batch[i] = Delivery{Event: e}
	}
}

func benchLedger(b *testing.B, tanks int) (*Ledger, *traffic) {
	g := &traffic{tanks: tanks, seq: make([]uint64, tanks), at: noon}
	l, err := Open(Options{Path: filepath.Join(b.TempDir(), "ledger.bolt"), Log: zerolog.Nop(),
		Now: func() time.Time { return g.at }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l, g
}

// BenchmarkApply applies in-order events in batches. Set the events/s it reports
// against BenchmarkTwoSyncs of the same run: no protocol of two syncs a commit
// can do more commits than that.
func BenchmarkApply(b *testing.B) {
	for _, tanks := range []int{3, 16, 100} {
		for _, size := range []int{1, 64, 256, 500} {
			b.Run(fmt.Sprintf("tanks=%d/batch=%d", tanks, size), func(b *testing.B) {
				l, g := benchLedger(b, tanks)
				batch := make([]Delivery, size)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					g.next(batch)
					b.StartTimer()
					if _, err := l.Apply(batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkTwoSyncs is the disk's limit: a 4 KiB page and a meta page written and
// synced one after the other, as any bolt commit does.
func BenchmarkTwoSyncs(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	if err := f.Truncate(1 << 20); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		for _, off := range []int64{int64(i%200)*4096 + 8192, 0} {
			if _, err := f.WriteAt(page, off); err != nil {
				b.Fatal(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkFileBytes reports what an event costs in the file, once the file is
// larger than its growth steps.
func BenchmarkFileBytes(b *testing.B) {
	for _, tanks := range []int{3, 100} {
		b.Run(fmt.Sprintf("tanks=%d", tanks), func(b *testing.B) {
			l, g := benchLedger(b, tanks)
			batch := make([]Delivery, 256)
			for b.Loop() {
				g.next(batch)
				if _, err := l.Apply(batch); err != nil {
					b.Fatal(err)
				}
			}
			used, err := l.file.Usage()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(used.Used)/float64(b.N*len(batch)), "bytes/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

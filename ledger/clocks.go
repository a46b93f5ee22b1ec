package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"oxyd/internal/event"
)

// What the account can tell of clocks, its own and those of its sources. All of it is
// in memory and runs on the monotonic readings of Options.Now: it decides nothing
// about events, and a restart begins anew.

const (
	// SkewFor is how long after the last sign of it a source's clock is said to be
	// ahead.
	SkewFor = time.Hour
	// skewsMax bounds the sources that are remembered for it. Where there are as many,
	// another one is not noted.
	skewsMax = 64
)

// Skew is a source that calls its clock synchronised and is ahead of the ledger's by
// more than MaxAhead: one of the two is wrong.
type Skew struct {
	Source string    `json:"source"`
	Ahead  float64   `json:"ahead_s"` // stays what it was while it is about that
	At     time.Time `json:"-"`
}

// clocks is guarded by Ledger.mu.
type clocks struct {
	opened   time.Time
	measured map[string]time.Time // by tank: receipt of the snapshot in force, or when a retry put it there
	skews    map[string]Skew      // by source
}

func newClocks(now time.Time) clocks {
	return clocks{opened: now, measured: map[string]time.Time{}, skews: map[string]Skew{}}
}

// noteClocks looks at what a committed batch tells of clocks.
func (l *Ledger) noteClocks(deliveries []Delivery, results []Result) {
	now := l.opt.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range deliveries {
		e, res := &deliveries[i].Event, &results[i]
		if deliveries[i].Form != nil || res.Outcome == Duplicate { // a repeat was said before
			continue
		}
		if e.Type == event.Measured && res.Outcome == Applied {
			l.clocks.measured[strings.Clone(e.Tank)] = now
		}
		l.clocks.compare(e, now)
	}
}

// noteMeasured says that a snapshot is in force since now although it came before: a
// retry has had it accepted.
func (l *Ledger) noteMeasured(tank string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clocks.measured[strings.Clone(tank)] = l.opt.Now()
}

// compare holds the date of an event against the ledger's.
func (c *clocks) compare(e *event.Event, now time.Time) {
	if e.Unsynced || e.OccurredAt.IsZero() {
		return
	}
	ahead := e.OccurredAt.Sub(now)
	if ahead <= MaxAhead {
		return
	}
	before, known := c.skews[e.Source]
	if !known && len(c.skews) >= skewsMax {
		return
	}
	s := Skew{Source: strings.Clone(e.Source), Ahead: ahead.Seconds(), At: now}
	if known && now.Sub(before.At) <= SkewFor && s.Ahead > before.Ahead/2 && s.Ahead < before.Ahead+MaxAhead.Seconds() {
		s.Ahead = before.Ahead // the same skew: what differs is how long the event was on its way
	}
	c.skews[s.Source] = s
}

// Skews lists the sources whose clock was ahead within SkewFor, worst first.
func (l *Ledger) Skews() []Skew {
	now := l.opt.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []Skew{}
	for source, s := range l.clocks.skews {
		if now.Sub(s.At) > SkewFor {
			delete(l.clocks.skews, source)
			continue
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Skew) int {
		return cmp.Or(cmp.Compare(b.Ahead, a.Ahead), strings.Compare(a.Source, b.Source))
	})
	return list
}

// isStale reports whether a tank's measurement is older than StaleAfter, by its stamp;
// while this ledger's clock cannot be believed, by the time since its receipt as well,
// for that comes also where the clock has been set back, or was never set.
func (l *Ledger) isStale(tank string, measuredAt *time.Time) bool {
	if measuredAt == nil {
		return true
	}
	now := l.opt.Now()
	if now.Sub(*measuredAt) > l.opt.StaleAfter {
		return true
	}
	if l.believes() {
		return false
	}
	l.mu.Lock()
	received, known := l.clocks.measured[tank]
	if !known {
		received = l.clocks.opened
	}
	l.mu.Unlock()
	return now.Sub(received) > l.opt.StaleAfter
}

// believes reports whether the ledger's own clock can be believed.
func (l *Ledger) believes() bool { return l.opt.Synced == nil || l.opt.Synced() }

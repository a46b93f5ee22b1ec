package daemon

import (
	"context"
	"fmt"
	"time"

	"oxyd/internal/clock"
	"oxyd/ledger"
)

// watchClock passes on what happens to the wall clock.
func (b *board) watchClock(ctx context.Context) error { return b.clock.Watch(ctx, b.clockChanged) }

// clockChanged says that the clock is another one now: in the log, in the node's
// status, and to connections that wait for a date at which a certificate holds.
func (b *board) clockChanged(c clock.Change) {
	line, said := b.log.Info(), "clock was set"
	switch {
	case c.Synced && !c.Was:
		said = "clock is synchronised"
	case !c.Synced && c.Was:
		line, said = b.log.Warn(), "clock is not synchronised any more"
	}
	line.Dur("step_ms", c.Step).Bool("clock_synced", c.Synced).Msg(said)
	b.publisher.ClockSet()
	if b.subscriber != nil {
		b.subscriber.ClockSet()
	}
	b.touchStatus()
}

// shown gives an instant of this process as it is told to people: by the wall clock
// as it stands now, so that what happened before the clock was set gets its true
// time. What happened while there was no date, which is zero, is not shown.
func shown(t time.Time) time.Time { return shownAt(t, time.Now()) }

func shownAt(t, now time.Time) time.Time {
	t = now.Add(-now.Sub(t)).Round(time.Millisecond).UTC()
	if t.Before(dateKnownFrom) {
		return time.Time{}
	}
	return t
}

// dateKnownFrom is the first date that a running board can have: before it the clock
// was never set.
var dateKnownFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// dateKnownTo is the last that is believed of an entry by hand.
var dateKnownTo = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)

// skewText names the source whose clock is ahead most (FC-48).
func (b *board) skewText(skews []ledger.Skew) string {
	if len(skews) == 0 {
		return ""
	}
	s := skews[0]
	ahead := time.Duration(s.Ahead * float64(time.Second)).Round(time.Second)
	text := fmt.Sprintf("source %q calls its clock synchronised and is ahead of this ledger's by %v", s.Source, ahead)
	if !b.clock.Synced() {
		text += ", which is not synchronised itself"
	}
	if n := len(skews) - 1; n > 0 {
		text += fmt.Sprintf("; so are %d others", n)
	}
	return text + ": such events are placed by their receipt"
}

package sensors

import (
	"testing"
	"time"

	"oxyd/internal/clock/clocktest"
)

// FC-49: a channel goes stale after its time, although the wall clock is set by an
// hour on the way, either way; and a setting alone makes nothing stale.
func TestFC49StaleIsMonotonic(t *testing.T) {
	const staleAfter = 30 * time.Second
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		start := time.Now()
		s := status{started: start, staleAfter: staleAfter, ChannelState: ChannelState{State: StateStale, Reason: ReasonStarting, Since: start}}
		s.good(Reading{At: start, Remaining: 1})
		for after := time.Duration(0); after <= 2*staleAfter; after += time.Second {
			now := start.Add(after)
			if after >= 5*time.Second {
				now = clocktest.Stepped(now, step)
			}
			s.expire(now)
			if stale := s.State == StateStale; stale != (after >= staleAfter) {
				t.Errorf("clock set by %v: stale %t after %v, want after %v", step, stale, after, staleAfter)
			}
		}
	}
}

// Likewise the ticks: none is made up for, or left out, because of the wall clock.
func TestFC49TicksAreMonotonic(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		start := time.Now()
		l := line{interval: time.Second, next: start}
		for i := range 10 {
			now := clocktest.Stepped(l.next, 0)
			if i >= 5 {
				now = clocktest.Stepped(start.Add(time.Duration(i)*time.Second), step)
			}
			l.schedule(now, 0)
			if got, want := l.next.Sub(start), time.Duration(i+1)*time.Second; got != want || l.status.Missed != 0 {
				t.Errorf("clock set by %v: after tick %d the next is at %v, %d missed, want %v, none", step, i, got, l.status.Missed, want)
			}
		}
	}
}

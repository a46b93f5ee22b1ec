package sensors

import (
	"testing"
	"time"
)

// TestWaitingForAProbeDoesNotSpin: a tank whose model waits for a probe that is read
// seldom is stale when its own patience is over. The loop then sleeps until its next
// tick; a state that expires again and again would turn it at full speed.
func TestWaitingForAProbeDoesNotSpin(t *testing.T) {
	now := time.Now()
	l := newLine(Channel{Tank: "A", Interval: time.Second, StaleAfter: 3 * time.Second}, "bus", 0, now)
	loop := busLoop{lines: []*line{l}}
	for i := range 5 {
		l.status.failed(&Fault{Reason: ReasonStarting}, Reading{}, now.Add(time.Duration(i)*time.Second))
	}
	l.next = now.Add(10 * time.Second)
	at := now.Add(4 * time.Second)
	l.status.expire(at)
	if l.status.State != StateStale || l.status.Reason != ReasonAuxiliary {
		t.Errorf("state %s (%s), want stale (auxiliary)", l.status.State, l.status.Reason)
	}
	if wake := loop.wake(at); !wake.After(at) {
		t.Errorf("the loop wakes %s ago, again and again", at.Sub(wake))
	}
}

package sensors

import (
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
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

// TestRestIsBookedBeforeTheSnapshot: what a meter still keeps at a stop is handed over
// under the lock of its tank, so that no snapshot of another bus, which has it in
// already, comes before it.
func TestRestIsBookedBeforeTheSnapshot(t *testing.T) {
	l := newTestLayout()
	flow := channelOf(t, l, Spec{Tank: "A", Name: "flow", Driver: DriverSFM, Interval: time.Second}, &script{value: 1e-3})
	tank := l.shared.tallies["A"]
	tank.add(0.010, true, false, time.Now())
	booked := make(chan physic.Mass, 1)
	p, err := NewPoller([]Bus{{Name: "m", Channels: []Channel{*flow}}}, Options{OnReading: func(r Reading) {
		if tank.booking.TryLock() {
			tank.booking.Unlock()
			t.Error("the rest is handed over without the tank's lock")
		}
		booked <- r.Consumed
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.buses[0].rest()
	if got := <-booked; got != 10*physic.Gram {
		t.Errorf("booked %s, want 10 g", got)
	}
}

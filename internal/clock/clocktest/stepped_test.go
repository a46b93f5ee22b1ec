package clocktest

import (
	"testing"
	"time"
)

func TestStepped(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, -50 * 365 * 24 * time.Hour, 0} {
		s := Stepped(now, by)
		later := s.Add(30 * time.Second)
		if got := later.Sub(now); got != 30*time.Second {
			t.Errorf("stepped by %v: 30 s later is %v later", by, got)
		}
		if got := s.Unix() - now.Unix(); got != int64(by/time.Second) {
			t.Errorf("stepped by %v: the wall clock moved by %d s", by, got)
		}
		if back := Stepped(s, -by); back != now {
			t.Errorf("there and back by %v: %v, want %v", by, back, now)
		}
	}
}

func TestSteppedWantsAMonotonicReading(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an instant without a monotonic reading was taken")
		}
	}()
	Stepped(time.Now().Round(0), time.Hour)
}

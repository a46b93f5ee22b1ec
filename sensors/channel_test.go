package sensors

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStatus tells stories to the state machine: g is a good reading, s a suspect
// one, n a NACK, b a bus error, r a wire off, and t the passing of ten seconds,
// where a channel is stale after 25. After each letter the state is as told.
func TestStatus(t *testing.T) {
	const (
		start   = "stale:starting"
		ok      = "ok:"
		nack    = "missing:nack"
		busy    = "fault:bus"
		wire    = "fault:range_low"
		suspect = "suspect:why"
		stale   = "stale:no_reading"
	)
	for name, tt := range map[string]struct {
		story string
		want  []string
	}{
		"first failure of a new channel": {"b", []string{busy}},
		"absent chip at start":           {"ng", []string{nack, ok}},
		"two faults do not show":         {"gbbg", []string{ok, ok, ok, ok}},
		"three do, one good one heals":   {"gbbbg", []string{ok, ok, ok, busy, ok}},
		"mixed faults count together":    {"gbnb", []string{ok, ok, ok, busy}},
		"chip pulled":                    {"gnnng", []string{ok, ok, ok, nack, ok}},
		"reason must persist to change":  {"gbbbrrbrrr", []string{ok, ok, ok, busy, busy, busy, busy, busy, busy, wire}},
		"two good between start anew":    {"gbbgbb", []string{ok, ok, ok, ok, ok, ok}},
		"suspect counts as good":         {"gbbsbb", []string{ok, ok, ok, suspect, suspect, suspect}},
		"silence":                        {"gtttg", []string{ok, ok, ok, stale, ok}},
		"silence after a fault":          {"gbttt", []string{ok, ok, ok, ok, "stale:bus"}},
		"fault is worse than stale":      {"gtttbbb", []string{ok, ok, ok, stale, stale, stale, busy}},
		"fault does not go stale":        {"bttttt", []string{busy, busy, busy, busy, busy, busy}},
		"never read":                     {"ttt", []string{start, start, stale}},
		"never read, then absent":        {"tttn", []string{start, start, stale, nack}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := status{started: now, staleAfter: 25 * time.Second,
				ChannelState: ChannelState{State: StateStale, Reason: ReasonStarting, Since: now}}
			reasons := map[rune]Reason{'n': ReasonNack, 'b': ReasonBus, 'r': ReasonRangeLow}
			var got []string
			for _, letter := range tt.story {
				before, since := string(s.State)+":"+string(s.Reason), s.Since
				var changed bool
				switch letter {
				case 'g':
					changed = s.good(Reading{At: now, Remaining: 1})
				case 's':
					changed = s.good(Reading{At: now, Remaining: 1, Suspect: true, Why: "why"})
				case 't':
					now = now.Add(10 * time.Second)
					changed = s.expire(now)
				default:
					changed = s.failed(&Fault{Reason: reasons[letter]}, Reading{}, now)
				}
				after := string(s.State) + ":" + string(s.Reason)
				if changed != (after != before) {
					t.Errorf("at %c: got changed %v from %s to %s", letter, changed, before, after)
				}
				if sameState := strings.Split(before, ":")[0] == string(s.State); sameState && s.Since != since {
					t.Errorf("at %c: since moved although the state did not", letter)
				} else if !sameState && s.Since != now {
					t.Errorf("at %c: since did not move with the state", letter)
				}
				now = now.Add(time.Millisecond)
				got = append(got, after)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStatusKeepsTheLastGoodReading(t *testing.T) {
	s := status{staleAfter: time.Minute}
	good := Reading{Tank: "A", Remaining: 5, At: time.Unix(1000, 0)}
	s.good(good)
	for range 5 {
		s.failed(&Fault{Reason: ReasonBus}, Reading{}, time.Unix(1001, 0))
	}
	if s.LastGood != good || s.Reads != 6 || s.Faults != 5 || s.InRow != 5 {
		t.Errorf("got %+v", s.ChannelState)
	}
}

func TestRetryPause(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		n        int
		want     time.Duration
	}{
		{time.Second, 0, time.Second},
		{time.Second, 3, 8 * time.Second},
		{time.Second, 5, RetryMax},
		{time.Second, 1 << 30, RetryMax},
		{time.Minute, 0, time.Minute},
		{time.Minute, 9, time.Minute},
	} {
		if got := retryPause(tt.interval, tt.n); got != tt.want {
			t.Errorf("%s after %d: got %s, want %s", tt.interval, tt.n, got, tt.want)
		}
	}
}

// A transmitter's failure must last four seconds (NAMUR NE 43), however often it is read;
// one that has never measured is told at once.
func TestFaultAfter(t *testing.T) {
	start := time.Unix(1000, 0)
	s := status{staleAfter: time.Minute, faultAfter: loopFault}
	s.good(Reading{At: start})
	for i := range 50 {
		at := time.Duration(i) * 100 * time.Millisecond
		changed := s.failed(&Fault{Reason: ReasonRangeLow}, Reading{}, start.Add(at))
		if want := at >= loopFault; (s.State == StateFault) != want {
			t.Fatalf("after %s: %s (changed %t)", at, s.State, changed)
		}
	}
	s.good(Reading{At: start.Add(time.Minute)})
	s.failed(&Fault{Reason: ReasonRangeLow}, Reading{}, start.Add(time.Minute))
	if s.State != StateOK {
		t.Errorf("the next failure begins anew: %s", s.State)
	}
	never := status{faultAfter: loopFault}
	if never.failed(&Fault{Reason: ReasonOpen}, Reading{}, start); never.State != StateFault {
		t.Errorf("never measured: %s, want fault", never.State)
	}
}

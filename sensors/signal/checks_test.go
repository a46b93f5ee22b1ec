package signal

import (
	"math"
	"testing"
	"time"
)

// FC-67: a hair above full is full; 143 % is a fault.
func TestFC67ImpossibleLevel(t *testing.T) {
	c := must(NewClamp(0, 1, 0.02))
	for _, r := range []struct {
		in, want float64
		verdict  Verdict
	}{
		{1.00003, 1, good},
		{1.43, 1.43, Verdict{Rejected, WhyOverRange}},
		{1.02, 1, good},
		{-0.01, 0, good},
		{-0.03, -0.03, Verdict{Rejected, WhyUnderRange}},
		{0.5, 0.5, good},
		{math.Inf(1), math.Inf(1), Verdict{Rejected, WhyNotFinite}},
	} {
		if got, v := c.Apply(r.in); got != r.want || v != r.verdict {
			t.Errorf("%g: got %g, %v, want %g, %v", r.in, got, v, r.want, r.verdict)
		}
	}
	if _, v := c.Apply(math.NaN()); v != rejected(WhyNotFinite) {
		t.Errorf("NaN: got %v, want rejected", v)
	}
	open := must(NewClamp(0, math.Inf(1), 0))
	if got, v := open.Apply(1e50); got != 1e50 || v != good {
		t.Errorf("without an upper end: got %g, %v, want it as it is", got, v)
	}
}

// FC-68: (a) a tank at rest is fresh and ok; (b) failing reads report nothing,
// however good the last value was; (c) a code that stands still while gas flows is
// suspect.
func TestFC68StuckOrConstant(t *testing.T) {
	const tick = 10 * time.Second
	for _, c := range []struct {
		name   string
		coarse bool
		flow   Flow
		want   Verdict
	}{
		{"a: at rest", false, FlowNone, good},
		{"a: at rest, coarse", true, FlowNone, good},
		{"c: while gas flows", false, FlowSome, suspect(WhyStuck)},
		{"c: while gas flows, coarse", true, FlowSome, suspect(WhyStuck)},
		{"nothing known of flow: noise should move the code", false, FlowUnknown, suspect(WhyStuck)},
		{"nothing known of flow, coarse", true, FlowUnknown, good},
	} {
		stuck := must(NewStuck(StuckOptions{Coarse: c.coarse}))
		report := must(NewReport(ReportOptions{Deadband: 1}))
		var v Verdict
		at, reported := time.Duration(0), time.Duration(0)
		for ; at <= 6*time.Hour; at += tick {
			v = stuck.Check(13333, c.flow, at)
			if cause, _ := report.Take(100, v, at); cause != CauseNone {
				reported = at
			}
			if at < time.Hour && v != good {
				t.Fatalf("%s: got %v after %s", c.name, v, at)
			}
		}
		if v != c.want {
			t.Errorf("%s: got %v after 6 h, want %v", c.name, v, c.want)
		}
		if age := at - reported; age > DefaultHeartbeat+tick {
			t.Errorf("%s: the last report is %s old, want a fresh one", c.name, age)
		}
		if got := stuck.Check(13334, c.flow, at); got != good {
			t.Errorf("%s: got %v when the code moves, want good", c.name, got)
		}
	}
}

// Only the time in which the code should have moved counts.
func TestStuckCountsTimeOfFlow(t *testing.T) {
	s := must(NewStuck(StuckOptions{After: 10 * time.Minute}))
	at := time.Duration(0)
	run := func(f Flow, d time.Duration) (v Verdict) {
		for end := at + d; at < end; {
			at += time.Minute
			v = s.Check(7, f, at)
		}
		return v
	}
	run(FlowNone, 6*time.Hour)
	if got := run(FlowSome, 9*time.Minute); got != good {
		t.Errorf("9 min of flow after 6 h of rest: got %v, want good", got)
	}
	if got := run(FlowNone, time.Hour); got != good || s.Stood() != 9*time.Minute {
		t.Errorf("rest in between: got %v and %s, want good and 9m", got, s.Stood())
	}
	if got := run(FlowSome, time.Minute); got != suspect(WhyStuck) {
		t.Errorf("10 min of flow: got %v, want stuck", got)
	}
	at += time.Hour
	if got := s.Check(7, FlowSome, at); got != good {
		t.Errorf("after an hour without reads: got %v, want good", got)
	}
}

// FC-49: delays run on the monotonic clock. Wall and monotonic time pass here as
// on a board whose wall clock is stepped by an hour, five seconds in.
func TestFC49MonotonicDelay(t *testing.T) {
	const tick = 500 * time.Millisecond
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		wall, mono := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), time.Duration(0)
		d := must(NewDebounce(30*time.Second, 0))
		for !d.Take(True, mono) {
			mono, wall = mono+tick, wall.Add(tick)
			if mono == 5*time.Second {
				wall = wall.Add(step)
			}
			if mono > time.Hour {
				break
			}
		}
		if mono != 30*time.Second {
			t.Errorf("step %s: got an alarm at %s (wall %s), want 30s", step, mono, wall)
		}
	}
}

// NAMUR NE43: a failure signal must last some 4 s.
func TestDebouncePersistence(t *testing.T) {
	d := must(NewDebounce(4*time.Second, 2*time.Second))
	for _, s := range []struct {
		at   time.Duration
		c    Condition
		want bool
	}{
		{0, True, false}, {3900, True, false}, {3950, False, false}, // too short
		{4000, True, false}, {7999, True, false}, {8000, True, true},
		{9000, False, true}, {9500, True, true}, {10000, False, true}, // on again in between
		{11999, False, true}, {12000, False, false},
	} {
		if got := d.Take(s.c, s.at*time.Millisecond); got != s.want {
			t.Errorf("at %d ms: got %v, want %v", s.at, got, s.want)
		}
	}
	if d.Take(True, time.Second); d.Refused() != 1 {
		t.Errorf("a time that went back: got %d refused, want 1", d.Refused())
	}
	if at := 13 * time.Second; d.Take(True, at) || d.Take(True, at+3*time.Second) || !d.Take(True, at+4*time.Second) {
		t.Error("the refused sample left a trace")
	}
	now := must(NewDebounce(0, 0))
	if !now.Take(True, 0) || now.Take(False, 0) {
		t.Error("without delays: want the condition itself")
	}
}

// FC-66: 8 % (low) → open circuit for ten minutes → 60 %. Low stays while nothing
// is known, and goes only when it was good for the off-delay.
func TestFC66FaultDuringAlarm(t *testing.T) {
	low := must(NewDebounce(30*time.Second, time.Minute))
	at := time.Duration(0)
	run := func(x float64, v Verdict, d time.Duration) bool {
		for end := at + d; at < end; at += time.Second {
			low.Take(Below(x, v, 20, 25, low.Active()), at)
		}
		return low.Active()
	}
	if !run(8, good, time.Minute) {
		t.Fatal("no alarm at 8 %")
	}
	if !run(60, rejected(WhySpike), 10*time.Minute) {
		t.Error("a fault cleared the alarm")
	}
	if !run(60, good, 30*time.Second) {
		t.Error("cleared before the off-delay")
	}
	if !run(math.NaN(), good, 10*time.Minute) || !run(60, good, 45*time.Second) {
		t.Error("the off-delay did not begin anew after a fault")
	}
	if run(60, good, 20*time.Second) {
		t.Error("still low after good readings for the off-delay")
	}
	if run(19, good, 31*time.Second); !low.Active() || !run(22, good, 5*time.Minute) || run(25, good, 62*time.Second) {
		t.Error("it must stay between low and restore, and clear at restore")
	}
}

// Failing reads do not put off an alarm for ever; and they do not raise one.
func TestDebounceUnknown(t *testing.T) {
	d := must(NewDebounce(10*time.Second, 0))
	d.Take(True, 0)
	for at := time.Second; at < time.Minute; at += time.Second {
		if d.Take(Unknown, at) {
			t.Fatal("what is not known raised an alarm")
		}
	}
	if !d.Take(True, time.Minute) {
		t.Error("no alarm although low for a minute wherever known")
	}
}

// FC-61: a reading of low quality is published as what it is, with its quality,
// or not at all; it is never 0, and no alarm is fed by it.
func TestFC61LowQuality(t *testing.T) {
	r := must(NewReport(ReportOptions{Deadband: 10}))
	doubt := suspect(WhyUnconfirmed)
	for i, s := range []struct {
		v    Verdict
		want Cause
	}{{good, CauseFirst}, {doubt, CauseQuality}, {doubt, CauseNone}, {rejected(WhySpike), CauseNone}, {good, CauseQuality}} {
		if got, v := r.Take(404, s.v, time.Duration(i)*time.Second); got != s.want || v != s.v {
			t.Errorf("reading %d of %v: got %q, %v, want %q", i, s.v, got, v, s.want)
		}
	}
	for _, v := range []Verdict{doubt, rejected(WhySpike)} {
		if got := Below(0, v, 20, 25, false); got != Unknown {
			t.Errorf("a reading that is %v: got condition %d, want unknown", v, got)
		}
	}
}

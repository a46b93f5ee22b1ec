package signal

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestReportCauses(t *testing.T) {
	r := must(NewReport(ReportOptions{Deadband: 5, Heartbeat: time.Minute}))
	for i, s := range []struct {
		at    time.Duration
		x     float64
		v     Verdict
		fault bool
		want  Cause
	}{
		{0, 100, good, false, CauseFirst},
		{1, 105, good, false, CauseNone}, // on the edge is inside
		{2, 95, good, false, CauseNone},
		{3, 105.1, good, false, CauseDeadband},
		{4, 100.2, good, false, CauseNone}, // around the last report, not the first
		{5, 105, suspect(WhyStuck), false, CauseQuality},
		{6, 105, suspect(WhyStuck), false, CauseNone},
		{7, 105, suspect(WhyRate), false, CauseQuality}, // suspect for another reason
		{8, 105, good, false, CauseQuality},
		{9, 105, good, true, CauseFault},
		{10, 900, rejected(WhySpike), false, CauseNone},
		{11, 105, good, false, CauseNone},
		{68, 105, good, false, CauseNone},
		{69, 105, good, false, CauseHeartbeat},
		{70, 105, good, false, CauseNone},
		{71, 900, rejected(WhySpike), false, CauseNone}, // demanded below
		{72, 105, good, false, CauseDemand},
		{73, 105, good, false, CauseNone},
	} {
		if s.fault {
			r.Fault()
		}
		if s.at == 71 {
			r.Demand()
		}
		if got, _ := r.Take(s.x, s.v, s.at*time.Second); got != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
	}
	if r.Held() != 8 {
		t.Errorf("got %d held, want 8", r.Held())
	}
}

// FC-51: the sensor dies at 12:00:00. Nothing is reported after, so the age of
// the last report grows; reads that are rejected beat no heart either.
func TestFC51HeartbeatNeedsAReading(t *testing.T) {
	r := must(NewReport(ReportOptions{Deadband: 1, Heartbeat: time.Minute}))
	var measured time.Duration // of the newest report
	at := time.Duration(0)
	for ; at <= 10*time.Minute; at += 10 * time.Second {
		if cause, _ := r.Take(5, good, at); cause != CauseNone {
			measured = at
		}
	}
	died := at - 10*time.Second
	if measured != died {
		t.Fatalf("the last report while alive was measured at %s, want %s", measured, died)
	}
	for ; at <= 20*time.Minute; at += 10 * time.Second {
		r.Fault()
		if cause, _ := r.Take(5, rejected(WhySpike), at); cause != CauseNone {
			t.Fatalf("%s after the last good reading: got a report by %q, want none", at-died, cause)
		}
	}
	if cause, _ := r.Take(5, good, at); cause != CauseFault {
		t.Errorf("the first after the fault: got %q, want %q", cause, CauseFault)
	}
}

// Whoever has the last report knows the value within the deadband, its quality,
// and is told something at each heartbeat, for as long as there are good readings.
func TestReportIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const deadband, heartbeat = 5, time.Minute
		r := must(NewReport(ReportOptions{Deadband: deadband, Heartbeat: heartbeat}))
		var x, told float64
		var toldVerdict Verdict
		var at, toldAt time.Duration
		for i := range 100 {
			x += rapid.Float64Range(-4, 4).Draw(t, "dx")
			at += time.Duration(rapid.IntRange(1, 30).Draw(t, "dt")) * time.Second
			v := rapid.SampledFrom([]Verdict{good, good, good, good, suspect(WhyStuck), spike}).Draw(t, "verdict")
			cause, _ := r.Take(x, v, at)
			if cause != CauseNone {
				told, toldVerdict, toldAt = x, v, at
			}
			switch off := x - told; {
			case !v.Usable() && cause != CauseNone:
				t.Fatalf("a rejected reading was reported by %q", cause)
			case !v.Usable():
			case i == 0 && cause != CauseFirst:
				t.Fatalf("the first reading: got %q", cause)
			case off > deadband || off < -deadband || v != toldVerdict || at-toldAt >= heartbeat:
				t.Fatalf("reading %g, %v at %s, but told is %g, %v at %s", x, v, at, told, toldVerdict, toldAt)
			}
		}
	})
}

// FC-93: ten sensors at 1 Hz, steady for ten minutes, with a converter's noise.
func TestFC93WriteBudget(t *testing.T) {
	seed := uint64(20260501)
	rng := rand.New(rand.NewPCG(seed, 1))
	reports := 0
	for range 10 {
		f := newFilter(1, 10, 3)
		report := must(NewReport(ReportOptions{Deadband: 5}))
		for s := range 600 {
			x, at := 14000+rng.NormFloat64(), time.Duration(s)*time.Second
			if cause, _ := report.Take(x, f.check(x, at), at); cause != CauseNone {
				reports++
			}
		}
	}
	if most := 600 / 5; reports > most {
		t.Errorf("seed %d: got %d reports in ten minutes, want at most %d", seed, reports, most)
	}
	if reports < 10*3 {
		t.Errorf("seed %d: got %d reports, want the first and two heartbeats of each", seed, reports)
	}
}

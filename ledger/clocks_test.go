package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"

	"oxyd/internal/clock/clocktest"
)

// FC-48: a stamp from tomorrow does not bar what comes after it. The source is named
// with its offset, and history keeps both its word and the receipt.
func TestFC48ClockInTheFuture(t *testing.T) {
	r := newRig(t)
	point := func(seq, level int, at time.Time) string {
		return fmt.Sprintf(`{"event_id":"%d","tank":"A","source":"dev","epoch":1,"seq":%d,"remaining":%d,"occurred_at":%q}`,
			seq, seq, level, at.Format(time.RFC3339))
	}
	tomorrow := noon.Add(24 * time.Hour)
	r.send("measured", point(1, 500, tomorrow))
	r.send("measured", point(2, 450, noon))
	r.want("balance", r.balance("A"), "450 g")
	skews := r.status().ClockSkew
	if len(skews) != 1 || skews[0].Source != "dev" || skews[0].Ahead != (24*time.Hour).Seconds() {
		t.Errorf("clock skew is %+v, want dev, ahead by a day", skews)
	}
	rows, err := r.l.Events("A", 10)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if row.EventID == "1" && (row.OccurredAt == nil || !row.OccurredAt.Equal(tomorrow) || row.Receipt.Sub(noon).Abs() > time.Second || !row.ByReceipt) {
			t.Errorf("history says happened %v, received %v, by receipt %t, want %v, %v, true", row.OccurredAt, row.Receipt, row.ByReceipt, tomorrow, noon)
		}
	}
	r.clk.now = r.clk.now.Add(SkewFor)
	r.want("an hour later", len(r.status().ClockSkew), 0)
}

// A source that says itself that its clock is not synchronised claims nothing, and
// what comes again was said before. Sources beyond the bound are not noted.
func TestClockSkewIsOfClaims(t *testing.T) {
	r := newRig(t)
	ahead := func(source string, seconds int, rest string) string {
		return fmt.Sprintf(`{"event_id":"m","tank":"A","source":%q,"remaining":5,"occurred_at":%s%s}`, source, ago(-seconds), rest)
	}
	r.send("measured", ahead("honest", 3600, `,"clock":"unsynced"`))
	r.send("measured", ahead("near", 10, ""))
	r.want("nobody", len(r.status().ClockSkew), 0)
	for i := range skewsMax + 5 {
		r.send("consumed", fmt.Sprintf(`{"event_id":"c","tank":"t%d","source":"s%d","amount":5,"occurred_at":%s}`, i, i, ago(-1000-i)))
	}
	skews := r.status().ClockSkew
	r.want("bound", len(skews), skewsMax)
	r.want("worst first", skews[0].Ahead > skews[1].Ahead, true)
	r.clk.now = r.clk.now.Add(SkewFor)
	r.send("measured", ahead("near", 10, ""))
	r.want("a repeat", len(r.status().ClockSkew), 0)
}

// One skew is one alarm: that events are on their way for milliseconds or minutes is
// not told as another offset each time. One that has grown, or is mostly gone, is.
func TestClockSkewIsToldOnce(t *testing.T) {
	r := newRig(t)
	for i, c := range []struct{ ahead, want int }{
		{3600, 3600}, {3601, 3600}, {3599, 3600}, {1900, 3600}, {3609, 3600}, {3611, 3611}, {1800, 1800}, {20, 20},
	} {
		r.send("consumed", fmt.Sprintf(`{"event_id":"%d","tank":"A","source":"dev","amount":5,"occurred_at":%s}`, i, ago(-c.ahead)))
		if skews := r.status().ClockSkew; len(skews) != 1 || math.Round(skews[0].Ahead) != float64(c.want) {
			t.Errorf("ahead by %d s after the others: skew is %+v, want %d s", c.ahead, skews, c.want)
		}
	}
	r.clk.now = r.clk.now.Add(SkewFor + time.Second)
	r.send("consumed", fmt.Sprintf(`{"event_id":"n","tank":"A","source":"dev","amount":5,"occurred_at":%s}`, ago(-3626)))
	if skews := r.status().ClockSkew; len(skews) != 1 || math.Round(skews[0].Ahead) != 25 {
		t.Errorf("long after: skew is %+v, want the new one", skews)
	}
}

// FC-51: a sensor dies at noon. However often the balance is given out, it was
// measured at noon, and from then on plus stale_after it says so.
func TestFC51BalanceKeepsTheMeasurementsTime(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.StaleAfter = 180 * time.Second })
	r.clk.now = noon
	r.send("measured", `{"event_id":"5","tank":"A","source":"dev","remaining":5,"occurred_at":`+ago(0)+`}`)
	for seconds := 0; seconds <= 600; seconds += 30 {
		r.clk.now = noon.Add(time.Duration(seconds) * time.Second)
		if seconds == 300 {
			r.reopen()
		}
		doc := r.doc("A")
		if !doc.MeasuredAt.Equal(noon) || doc.Stale != (seconds > 180) {
			t.Errorf("after %d s: measured at %v, stale %t", seconds, doc.MeasuredAt, doc.Stale)
		}
	}
}

// FC-49, of staleness: the ledger's own clock is set while a sensor is silent. Going
// back, it must not keep an old number fresh; over a restart it may take the whole
// time once more, and no longer.
func TestFC49StalenessRunsOnTheMonotonicClock(t *testing.T) {
	start := time.Now()
	now, restarted := start, false
	r := newRig(t)
	r = r.with(func(o *Options) {
		o.StaleAfter = 180 * time.Second
		o.Now, o.Synced = func() time.Time { return now }, func() bool { return false }
	})
	r.send("measured", `{"event_id":"5","tank":"A","source":"dev","remaining":5}`)
	for seconds := 0; seconds <= 600; seconds += 10 {
		now = start.Add(time.Duration(seconds) * time.Second)
		if seconds >= 5 {
			now = clocktest.Stepped(now, -time.Hour)
		}
		if seconds > 300 && !restarted {
			r.reopen()
			restarted = true
		}
		stale := seconds > 180 && seconds <= 300 || seconds > 310+180
		if doc := r.doc("A"); doc.Stale != stale {
			t.Errorf("after %d s: stale %t, want %t", seconds, doc.Stale, stale)
		}
	}
}

// A snapshot of a tank that had to be let in first is as fresh as any: that the account
// has been open for long says nothing of it. A retry again makes it no younger.
func TestRetriedSnapshotIsFresh(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.Closed, o.StaleAfter = true, 180*time.Second })
	r.clk.now = noon.Add(time.Hour)
	r.send("measured", fmt.Sprintf(`{"event_id":"z","tank":"Z","source":"dev","remaining":5,"occurred_at":%q}`, r.clk.now.Format(time.RFC3339)))
	id := r.newest()
	r.want("let in", r.retry(id, ""), "true applied")
	r.want("stale", r.doc("Z").Stale, false)
	r.clk.now = r.clk.now.Add(181 * time.Second)
	r.want("retried again", r.retry(id, ""), "false applied")
	r.want("stale by its age", r.doc("Z").Stale, true)
}

// While nobody vouches for the clock nothing goes for its age: set ahead by years it
// would cost all history, and raise the floor above what is yet to come.
func TestPruningWaitsForABelievableClock(t *testing.T) {
	synced := false
	r := newPruning(t).with(func(o *Options) { o.Synced = func() bool { return synced } })
	r.clk.now = noon
	r.consume("dev", 1, 50, 100)
	r.want("went by a clock that is years ahead", r.later(10*365*24*time.Hour), 0)
	r.send("consumed", numberedOf("dev", 51, `"amount":1`, 0))
	s := r.status()
	r.want("rows moved or gone", s.Pruned+s.Waiting+s.KeptForGood, uint64(0))
	r.want("floor", s.Floor == nil, true)
	r.clk.now, synced = noon.Add(3*time.Hour), true
	r.want("went by the right one", r.later(0) > 0, true)
}

// Where room is short something must go, whatever the clock is worth.
func TestPressureOverrulesTheClock(t *testing.T) {
	r := newPruning(t).with(func(o *Options) { o.Synced = func() bool { return false } })
	r.clk.now = noon
	r.consume("dev", 1, 50, 100)
	r.clk.now = noon.Add(3 * time.Hour)
	r.want("room is made", r.l.makeRoom(100), true)
	r.want("went", r.status().Pruned > 0, true)
}

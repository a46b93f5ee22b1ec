package signal

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// perHour is per cent an hour in per cent a second.
const perHour = 1.0 / 3600

// FC-43: 1 %/h for 24 h, then 20 %/h: noticed within ten minutes, long before low.
func TestFC43FastLeak(t *testing.T) {
	for _, step := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		seed := uint64(4300 + step)
		rng := rand.New(rand.NewPCG(seed, 43))
		trend := must(NewTrend(TrendOptions{Least: 5 * perHour}))
		level, at := 100.0, time.Duration(0)
		take := func(rate float64) FallRate {
			at += step
			level -= rate * step.Seconds()
			got, _ := trend.Take(level+0.03*rng.NormFloat64(), good, at)
			return got
		}
		for at < 24*time.Hour {
			if got := take(1 * perHour); got.Abnormal {
				t.Fatalf("every %s, seed %d: abnormal at %s: %+v", step, seed, at, got)
			}
		}
		if got := trend.State().Baseline / perHour; math.Abs(got-1) > 0.3 {
			t.Errorf("every %s, seed %d: got a usual rate of %g %%/h, want 1", step, seed, got)
		}
		began := at
		for !take(20 * perHour).Abnormal {
			if at-began > 10*time.Minute {
				t.Fatalf("every %s, seed %d: not noticed in ten minutes: %+v", step, seed, trend.rate)
			}
		}
		if level <= 70 {
			t.Errorf("every %s, seed %d: noticed at %g %%, want above 70", step, seed, level)
		}
		for range 30 * time.Minute / step { // a leak does not become usual by lasting
			if !take(20 * perHour).Abnormal {
				t.Fatalf("every %s, seed %d: cleared at %s while it leaks", step, seed, at)
			}
		}
		ended := at
		for take(1 * perHour).Abnormal {
			if at-ended > 10*time.Minute {
				t.Fatalf("every %s, seed %d: still abnormal ten minutes after its end", step, seed)
			}
		}
	}
}

// Noise, cooling and small leaks are not abnormal, a day long.
func TestTrendIsRobust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		sigma := rapid.Float64Range(0, 0.1).Draw(t, "sigma, %")
		dip := rapid.Float64Range(0, 1).Draw(t, "cooling, %")
		use := rapid.Float64Range(0, 3).Draw(t, "use, % an hour")
		trend := must(NewTrend(TrendOptions{Least: 5 * perHour}))
		for s := 0; s < 24*3600; s += 10 {
			h := float64(s) / 3600
			level := 100 - use*h + dip*math.Cos(h*2*math.Pi/6) + sigma*rng.NormFloat64()
			if got, _ := trend.Take(level, good, time.Duration(s)*time.Second); got.Abnormal {
				t.Fatalf("abnormal after %.2f h: %+v", h, got)
			}
		}
	})
}

// Noise so strong that the slope alone is far beyond the bound now and then.
func TestTrendStrongNoise(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 2))
	trend := must(NewTrend(TrendOptions{Least: 5 * perHour}))
	steepest := 0.0
	for s := 0; s < 24*3600; s += 10 {
		level := 100 - float64(s)*perHour + 0.5*rng.NormFloat64()
		got, _ := trend.Take(level, good, time.Duration(s)*time.Second)
		if got.Abnormal {
			t.Fatalf("seed %d: abnormal after %d s: %+v", seed, s, got)
		}
		steepest = max(steepest, got.PerSecond)
	}
	if steepest < 5*perHour {
		t.Errorf("seed %d: the steepest slope is %g an hour: this noise proves nothing", seed, steepest/perHour)
	}
}

// line feeds a straight line for a time, every 10 s.
func line(k *Trend, at *time.Duration, level *float64, rate float64, d time.Duration) (got FallRate) {
	for end := *at + d; *at < end; {
		*at += 10 * time.Second
		*level -= rate * 10
		got, _ = k.Take(*level, good, *at)
	}
	return got
}

func TestTrendHysteresis(t *testing.T) {
	k := must(NewTrend(TrendOptions{Least: 5 * perHour}))
	at, level := time.Duration(0), 1000.0
	run := func(rate float64, d time.Duration) FallRate { return line(k, &at, &level, rate*perHour, d) }
	run(1, 2*time.Hour)
	if got := run(4.9, 10*time.Minute); got.Abnormal {
		t.Errorf("below the bound: got %+v", got)
	}
	if got := run(5.1, 10*time.Minute); !got.Abnormal || math.Abs(got.PerSecond/perHour-5.1) > 1e-6 {
		t.Errorf("above the bound: got %+v, want abnormal at 5.1 an hour", got)
	}
	if got := run(3.6, 10*time.Minute); !got.Abnormal {
		t.Errorf("between 0.7 of the bound and the bound: got %+v, want it to stay", got)
	}
	if got := run(3.4, 10*time.Minute); got.Abnormal {
		t.Errorf("below 0.7 of the bound: got %+v, want it cleared", got)
	}
}

func TestTrendKnowsNothingYet(t *testing.T) {
	k := must(NewTrend(TrendOptions{Least: 5 * perHour, Most: 50 * perHour}))
	at, level := time.Duration(0), 1000.0
	if got := line(k, &at, &level, 20*perHour, 2*time.Minute); got.Known {
		t.Errorf("two minutes: got %+v, want a rate that is not known", got)
	}
	if got := line(k, &at, &level, 20*perHour, 20*time.Minute); !got.Known || got.Abnormal {
		t.Errorf("the usual rate is not known: got %+v, want nothing abnormal", got)
	}
	if got := line(k, &at, &level, 60*perHour, 10*time.Minute); !got.Abnormal {
		t.Errorf("above most: got %+v, want abnormal", got)
	}
	k.Accept()
	if got := line(k, &at, &level, 60*perHour, 10*time.Second); !got.Abnormal {
		t.Errorf("above most, though accepted: got %+v, want abnormal", got)
	}
}

func TestTrendAcceptGapReset(t *testing.T) {
	k := must(NewTrend(TrendOptions{Least: 5 * perHour}))
	if err := k.Restore(TrendState{Baseline: 1 * perHour, Learned: 12 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	at, level := time.Duration(0), 1000.0
	if got := line(k, &at, &level, 20*perHour, 10*time.Minute); !got.Abnormal {
		t.Fatalf("got %+v, want abnormal", got)
	}
	at += time.Hour
	if got := line(k, &at, &level, 20*perHour, 10*time.Second); got.Known || !got.Abnormal {
		t.Errorf("after a gap: got %+v, want abnormal still, the rate not known", got)
	}
	line(k, &at, &level, 20*perHour, 10*time.Minute)
	k.Accept()
	if got := line(k, &at, &level, 20*perHour, 10*time.Minute); got.Abnormal || math.Abs(got.Baseline/perHour-20) > 0.1 {
		t.Errorf("accepted: got %+v, want normal, usual 20 an hour", got)
	}
	level -= 300 // taken off, and told so
	k.Reset()
	if got := line(k, &at, &level, 20*perHour, 10*time.Minute); got.Abnormal {
		t.Errorf("after a removal that was told: got %+v, want normal", got)
	}
	for _, s := range []TrendState{{Baseline: math.NaN()}, {Baseline: -1}, {Learned: -1}} {
		if err := k.Restore(s); err == nil {
			t.Errorf("restored %+v", s)
		}
	}
}

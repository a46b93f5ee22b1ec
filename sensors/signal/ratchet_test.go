package signal

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tank is a ratchet with what it has booked.
type tank struct {
	*Ratchet
	at       time.Duration
	changes  []Change
	consumed float64
	refilled float64
	removed  float64
}

// newTank is a 50 L cylinder of some 14 kg, in grams, that gives 60 g a minute at
// the most.
func newTank() *tank {
	return &tank{Ratchet: must(NewRatchet(RatchetOptions{Deadband: 50, RefillAbove: 200, MaxRate: 1}))}
}

// take reads mass after dt.
func (k *tank) take(mass float64, dt time.Duration) Change {
	k.at += dt
	c, _ := k.Take(mass, good, k.at)
	switch c.Kind {
	case KindConsumed:
		k.consumed += c.Amount
	case KindRefilled:
		k.refilled += c.Amount
	case KindRemoved:
		k.removed += c.Amount
	}
	if c != (Change{}) {
		k.changes = append(k.changes, c)
	}
	return c
}

// run reads a mass that goes from one value to another in a straight line, once a second.
func (k *tank) run(from, to float64, d time.Duration) {
	for s := time.Duration(1); s*time.Second <= d; s++ {
		k.take(from+(to-from)*(s*time.Second).Seconds()/d.Seconds(), time.Second)
	}
}

// booked is the changes in short, bookings of consumption one after the other as
// one: what, how much to the nearest ten, whether in a gap.
func (k *tank) booked() (out []string) {
	for i := 0; i < len(k.changes); {
		c, sum := k.changes[i], 0.0
		for first := true; i < len(k.changes) && (first || k.changes[i].Kind == KindConsumed && c.Kind == KindConsumed); i++ {
			sum += k.changes[i].Amount
			first = false
		}
		s := fmt.Sprintf("%s %.0f", c.Kind, 10*math.Round(sum/10))
		if c.Gap {
			s += " gap"
		}
		out = append(out, s)
	}
	return out
}

// FC-40: a refill is one event and no negative consumption.
func TestFC40Refill(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, time.Second} {
		r := must(NewRatchet(RatchetOptions{Deadband: 4, RefillAbove: 100, Gap: 2 * time.Hour}))
		k := &tank{Ratchet: r}
		for _, mass := range []float64{1000, 1500, 1500, 1495} {
			for range max(1, 20*time.Minute/step) {
				k.take(mass, step)
			}
		}
		if got := k.booked(); len(got) != 2 || got[0] != "refilled 500" || k.changes[1].Kind != KindConsumed {
			t.Errorf("every %s: got %v, want a refill of 500 and consumption", step, got)
		}
		if math.Abs(k.consumed-5) > 1 || step == time.Hour && math.Abs(k.consumed-5) > 1e-9 {
			t.Errorf("every %s: consumed %g, want 5", step, k.consumed)
		}
	}
}

// FC-44: what is left of cooling after compensation, here 0.4 % of the content, is
// neither consumption nor a leak.
func TestFC44Cooling(t *testing.T) {
	k := newTank()
	trend := must(NewTrend(TrendOptions{Least: 0.03 * 10500 / 3600})) // 3 % an hour
	if err := trend.Restore(TrendState{Baseline: 0, Learned: 12 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	for s := range 8 * 3600 {
		h := float64(s) / 3600
		mass := 10500 * (1 - 0.004*(1-math.Exp(-h/1.5)))
		k.take(mass, time.Second)
		if rate, _ := trend.Take(mass, good, k.at); rate.Abnormal {
			t.Fatalf("a leak alarm after %.2f h: %+v", h, rate)
		}
	}
	if len(k.changes) > 0 {
		t.Errorf("got %v, want nothing booked", k.booked())
	}
}

func TestRatchetStories(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(k *tank)
		want []string
	}{
		{"steady use is booked by the deadband", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.run(14000, 13890, 2*time.Hour)
			k.run(13890, 13890, time.Hour)
		}, []string{"consumed 100"}},
		{"the fastest use that is plausible is use", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.run(14000, 12200, 30*time.Minute)
			k.run(12200, 12200, time.Hour)
		}, []string{"consumed 1780"}},
		{"use under the deadband is not booked", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.run(14000, 13951, time.Hour)
			k.run(13951, 13951, time.Hour)
		}, nil},
		{"one refill, though it takes ten minutes", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(8000, 14000, 10*time.Minute)
			k.run(14000, 14000, time.Hour)
		}, []string{"refilled 6000"}},
		{"a rise under refill_above is noise, and the fall after it too", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(8000, 8190, time.Minute)
			k.run(8190, 8190, time.Hour)
			k.run(8190, 8000, time.Minute)
			k.run(8000, 8000, time.Hour)
		}, nil},
		{"a refill that goes again was none", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(9000, 9000, 2*time.Minute)
			k.run(8000, 8000, time.Hour)
		}, nil},
		{"a cylinder taken off", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(0, 0, time.Hour)
		}, []string{"removed 8000"}},
		{"a cylinder lifted for two minutes", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(0, 0, 2*time.Minute)
			k.run(8000, 8000, time.Hour)
		}, nil},
		{"a cylinder swapped for a full one within a minute", func(k *tank) {
			k.run(2000, 2000, time.Hour)
			k.run(0, 0, time.Minute)
			k.run(14000, 14000, time.Hour)
		}, []string{"refilled 12000"}},
		{"a burst that takes twenty minutes", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.run(14000, 2000, 20*time.Minute)
			k.run(2000, 2000, time.Hour)
		}, []string{"removed 12000"}},
		{"a burst that does not end is told after ten times settle", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.run(14000, 2000, 80*time.Minute)
			k.run(2000, 2000, time.Hour)
		}, []string{"consumed 200", "removed 4680", "consumed 150", "removed 4730", "consumed 150", "removed 2090"}},
		{"used while not measured", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.take(13000, 2*time.Hour)
			k.run(13000, 13000, 10*time.Minute)
		}, []string{"consumed 1000 gap"}},
		{"gone while not measured, too much to be used", func(k *tank) {
			k.run(14000, 14000, time.Hour)
			k.take(2000, 2*time.Hour)
			k.run(2000, 2000, 10*time.Minute)
		}, []string{"removed 12000 gap"}},
		{"refilled while not measured", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.take(14000, 2*time.Hour)
			k.run(14000, 14000, 10*time.Minute)
		}, []string{"refilled 6000 gap"}},
		{"a little used while not measured counts on", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.take(7960, 2*time.Hour)
			k.run(7960, 7960, 10*time.Minute)
			k.run(7960, 7930, 30*time.Minute)
			k.run(7930, 7930, 30*time.Minute)
		}, []string{"consumed 50"}},
		{"a gap while a new level settles", func(k *tank) {
			k.run(8000, 8000, time.Hour)
			k.run(9000, 9000, time.Minute)
			k.take(9000, time.Hour)
			k.run(9000, 9000, 10*time.Minute)
		}, []string{"refilled 1000 gap"}},
	} {
		k := newTank()
		c.tell(k)
		if got := k.booked(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRatchetRestart(t *testing.T) {
	for _, c := range []struct {
		name string
		mass float64
		away time.Duration
		want []string
	}{
		{"nothing happened", 8000, 0, nil},
		{"used, for nobody knows how long", 3000, 0, []string{"consumed 5000 gap"}},
		{"used in two hours", 3000, 2 * time.Hour, []string{"consumed 5000 gap"}},
		{"gone in ten minutes", 3000, 10 * time.Minute, []string{"removed 5000 gap"}},
		{"refilled", 9000, 0, []string{"refilled 1000 gap"}},
	} {
		k := newTank()
		if err := k.Restore(RatchetState{Known: true, Booked: 8000}, c.away); err != nil {
			t.Fatal(err)
		}
		k.run(c.mass, c.mass, 2*time.Minute)
		if _, known := k.Level(); known || len(k.changes) > 0 {
			t.Errorf("%s: got %v and a level before it has settled", c.name, k.booked())
		}
		k.run(c.mass, c.mass, 10*time.Minute)
		if got := k.booked(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if level, known := k.Level(); !known || level != c.mass {
			t.Errorf("%s: got level %g, %v, want %g", c.name, level, known, c.mass)
		}
		if err := k.Restore(RatchetState{}, 0); err == nil {
			t.Errorf("%s: restored in the middle of a sequence", c.name)
		}
	}
	if err := newTank().Restore(RatchetState{Known: true, Booked: math.NaN()}, 0); err == nil {
		t.Error("restored NaN")
	}
	if err := newTank().Restore(RatchetState{}, -1); err == nil {
		t.Error("restored from the future")
	}
}

// What is not confirmed or rejected is not booked by, also not as the first level.
func TestRatchetTakesConfirmedOnly(t *testing.T) {
	k := newTank()
	for i, v := range []Verdict{unconfirmed, spike, tooFast} {
		if got, gotV := k.Take(9e6, v, time.Duration(i)); got != (Change{}) || gotV != v || k.State().Known {
			t.Errorf("got %+v, %v, %+v of a sample that is %v", got, gotV, k.State(), v)
		}
	}
	k.take(8000, time.Second)
	if got, want := k.State(), (RatchetState{Known: true, Booked: 8000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// At every moment the books balance, whatever the mass does: random draws,
// refills, swaps, noise, gaps and restarts.
func TestRatchetConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newTank()
		mass := rapid.Float64Range(0, 14000).Draw(t, "start")
		first := mass
		k.take(mass, time.Second)
		sigma := rapid.SampledFrom([]float64{0, 1, 15, 60}).Draw(t, "noise")
		noise := rapid.Float64Range(-sigma, sigma+1e-9)
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			slope, steps, dt := 0.0, rapid.IntRange(1, 120).Draw(t, "steps"), 5*time.Second
			switch rapid.SampledFrom([]string{"rest", "draw", "draw", "burst", "refill", "swap", "gap", "restart"}).Draw(t, "act") {
			case "draw":
				slope = -rapid.Float64Range(0, 5).Draw(t, "slope") // up to MaxRate
			case "burst":
				slope = -rapid.Float64Range(5, 500).Draw(t, "slope")
			case "refill":
				slope = rapid.Float64Range(0, 200).Draw(t, "slope")
			case "swap":
				mass = rapid.Float64Range(0, 14000).Draw(t, "mass")
			case "gap":
				k.at += time.Duration(rapid.Int64Range(0, int64(9*time.Hour)).Draw(t, "gap"))
			case "restart":
				fresh := newTank()
				if err := fresh.Restore(k.State(), 0); err != nil {
					t.Fatal(err)
				}
				k.Ratchet, k.at = fresh.Ratchet, 0
			}
			for range steps {
				mass += slope
				k.take(mass+noise.Draw(t, "n"), dt)
				balances(t, k, first)
			}
		}
		for range 240 { // the mass comes to rest: so do the books
			k.take(mass, 5*time.Second)
			balances(t, k, first)
		}
		got, fall := k.consumed+k.removed-k.refilled, first-mass
		if got < fall-50-1 || got > fall+200+1 {
			t.Fatalf("booked %g of a fall of %g, want it within the deadband below and refill_above above\n%v", got, fall, k.booked())
		}
	})
}

// balances checks what holds after every sample.
func balances(t *rapid.T, k *tank, first float64) {
	booked := k.State().Booked
	if got := first - (k.consumed + k.removed - k.refilled); math.Abs(got-booked) > 1e-6 {
		t.Fatalf("the books say %g, the booked level is %g", got, booked)
	}
	if level, known := k.Level(); known && (booked-level > 50+1e-6 || level-booked > 200+1e-6) {
		t.Fatalf("filtered %g, booked %g: further apart than the deadbands", level, booked)
	}
	if n := len(k.changes); n > 0 {
		c := k.changes[n-1]
		least := 50.0
		if c.Kind == KindRefilled {
			least = 200
		}
		if c.Amount < least || math.Abs(math.Abs(c.From-c.To)-c.Amount) > 1e-9 || (c.Kind == KindRefilled) != (c.To > c.From) {
			t.Fatalf("%+v is not a booking of at least %g", c, least)
		}
	}
}

// Gas that is drawn cools, faster than a sensor on the skin sees it: the mass
// reads low by some 0.5 % a kelvin, and recovers when the gas warms up again. Each
// draw and recovery must not be booked twice: not more than the reading has ever
// fallen, and in the end no less than was drawn.
func TestRatchetThermalTransient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newTank()
		const dt = 5.0
		recovery := rapid.Float64Range(300, 1500).Draw(t, "recovery, s")
		cooling := rapid.Float64Range(0, 0.006).Draw(t, "cooling, K a gram") // 500 g: 3 K, 1.5 %, some 190 g
		mass, lag, deepest := 13000.0, 0.0, 0.0
		step := func(draw float64) {
			mass -= draw
			lag += cooling*draw - lag*dt/recovery
			reads := mass * (1 - 0.005*lag)
			deepest = max(deepest, 13000-reads)
			k.take(reads, 5*time.Second)
		}
		step(0)
		draws := rapid.IntRange(1, 6).Draw(t, "draws")
		for range draws {
			amount := rapid.Float64Range(100, 500).Draw(t, "amount")
			steps := rapid.IntRange(120, 240).Draw(t, "steps")
			for range steps {
				step(amount / float64(steps))
			}
			for range 1500 {
				step(0)
			}
		}
		if k.refilled != 0 || k.removed != 0 {
			t.Fatalf("got %v, want consumption only", k.booked())
		}
		if used := 13000 - mass; k.consumed > deepest+1e-6 || k.consumed < used-50-1 {
			t.Fatalf("consumed %g, want at most the deepest reading %g and no less than the %g used but the deadband", k.consumed, deepest, used)
		}
	})
}

func TestRatchetNoiseBooksNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newTank()
		for range 400 {
			k.take(8000+rapid.Float64Range(-49, 49).Draw(t, "noise"), 5*time.Second)
		}
		if len(k.changes) > 0 && k.changes[0].Amount > 100 || k.consumed > 100 {
			t.Fatalf("got %v of noise", k.booked())
		}
	})
}

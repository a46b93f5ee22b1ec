package sensors

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
)

var tallySeed = flag.Uint64("tally.seed", 0, "seed of the runs of a metered tank; 0 draws one")

// account is what a ledger makes of the readings of one tank, in kilograms.
type account struct {
	any                bool
	balance, consumed  float64
	snapshots, amounts int
}

func (a *account) take(r *Reading) {
	if r.Consumed > 0 {
		a.consumed += kilograms(r.Consumed)
		a.balance -= kilograms(r.Consumed)
		a.amounts++
	}
	if r.Quantity == Content && r.Report {
		a.any, a.balance = true, r.Value
		a.snapshots++
	}
}

// TestMeteredTankKeepsItsBalance: a tank with a pulse meter and a pressure of its own, read
// in any order, with probes that fail for a while and come back. Whatever the order, the
// balance is the truth within what flows between two reads, and the meter's sum is it too.
func TestMeteredTankKeepsItsBalance(t *testing.T) {
	seed := *tallySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	for run := range uint64(200) {
		if !meteredRun(t, rand.New(rand.NewPCG(seed, run))) {
			t.Fatalf("run %d of -tally.seed %d", run, seed)
		}
	}
}

func meteredRun(t *testing.T, random *rand.Rand) bool {
	const kgAPulse, perSecond = gramsAPulse / 1e3, 2.0
	pulses, skin, level := &script{}, &script{value: 293.15}, &script{}
	l := newTestLayout()
	meter, probe := pulseRig(t, l, pulses, skin)
	s := transducer(1000 * physic.KiloGram)
	s.Scale = []ScalePoint{{0.5, 0}, {4.5, 1000}}
	s.Tank, s.Name, s.Interval = "A", "level", time.Second
	s.Refine.Report = &ReportSpec{Deadband: 0.1, Heartbeat: 5 * time.Minute}
	tank := standOf(t, channelOf(t, l, s, level))
	tank.start = meter.start
	now := meter.start
	l.shared.now = func() time.Time { return now }

	var a account
	truth, flowed := 900.0, 0.0
	broken, flowing := 0, false
	for i := 1; i <= 1500; i++ {
		now = meter.start.Add(time.Duration(i) * time.Second)
		if random.IntN(120) == 0 {
			flowing = !flowing
		}
		if flowing {
			pulses.raw += perSecond
			pulses.value = float64(pulses.raw)
			truth, flowed = truth-perSecond*kgAPulse, flowed+perSecond*kgAPulse
		}
		level.value = 0.5 + truth/250
		if broken--; broken < 0 && random.IntN(300) == 0 {
			broken = random.IntN(900) // auxiliaryHold and more
		}
		at := time.Duration(i) * time.Second
		if broken < 0 {
			if _, err := probe.read(at); err != nil {
				t.Fatal(err)
			}
		}
		metered := false
		for _, first := range random.Perm(2) {
			stand := []*stand{meter, tank}[first]
			r, err := stand.read(at + time.Duration(random.IntN(100))*time.Millisecond)
			if err == nil {
				r.Quantity = stand.c.Quantity
				a.take(&r)
				metered = metered || first == 0
			} else if first == 1 {
				t.Error(err)
			}
		}
		if metered && a.any && i > 2 {
			// Beside the truth lies what the meter keeps back, and the deadband of reports.
			if off := a.balance - truth; math.Abs(off) > 0.1+MeterQuantum+3*perSecond*kgAPulse {
				t.Errorf("second %d: the balance is off by %+.4f kg", i, off)
				return false
			}
		}
	}
	rest, _ := meter.c.Rest(now)
	a.take(&rest)
	if broken < 0 && math.Abs(a.consumed-flowed) > 0.01*flowed+1e-3 {
		t.Errorf("the meter booked %.4f kg, %.4f kg flowed", a.consumed, flowed)
		return false
	}
	return true
}

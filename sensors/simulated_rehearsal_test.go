package sensors

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"
)

// rehearsal is the script of docs/rehearsal.md.
func rehearsal() SimulatedOptions {
	return SimulatedOptions{
		Capacity: 10 * physic.KiloGram, Start: 6 * physic.KiloGram, PerHour: 140 * physic.Gram,
		NoiseSigma: 2 * physic.Gram, Seed: 1, LSB: 810 * physic.MilliGram,
		Events: []SimulatedEvent{
			{At: 10 * time.Minute, For: 25 * time.Minute, Every: time.Hour, Do: SimulatedLeak, Rate: 12 * physic.KiloGram},
			{At: 20 * time.Minute, For: 5 * time.Minute, Every: time.Hour, Do: SimulatedFault, Reason: ReasonOpen},
			{At: 40 * time.Minute, For: 5 * time.Minute, Every: time.Hour, Do: SimulatedRefill, To: 6 * physic.KiloGram},
		},
	}
}

var updateRehearsal = flag.Bool("update-rehearsal", false, "rewrite the golden rehearsal")

// TestSimulatedRehearsal: the worked rehearsal, minute by minute: what is read and
// what is true. The golden file is what the documentation promises.
func TestSimulatedRehearsal(t *testing.T) {
	const golden = "testdata/rehearsal.golden"
	o, clock := rehearsal(), newVirtual()
	o.Now = clock.Now
	s, err := NewSimulated(o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%7s %9s %9s %9s %9s %9s\n", "after", "reads", "holds", "consumed", "leaked", "refilled")
	for range 65 {
		at := s.Truth(s.Elapsed())
		fmt.Fprintf(&b, "%7s %9s %9.1f %9.1f %9.1f %9.1f\n", s.Elapsed(), tells(s), at.Content*1e3, at.Consumed*1e3, at.Leaked*1e3, at.Refilled*1e3)
		clock.advance(time.Minute)
	}
	got := b.String()
	if *updateRehearsal {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// TestSimulatedRehearsalIsBooked: what the readings of the rehearsal say was used and
// filled up, three rounds of it, is what happened, within what may still be open.
func TestSimulatedRehearsalIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadband, rounds = 0.05, 3
		options := rehearsal()
		course, err := NewSimulated(options) // whose truth is that of the one behind the poller
		if err != nil {
			t.Fatal(err)
		}
		var o told
		p, err := Open([]Spec{{Tank: "A", Driver: DriverSimulated, Interval: 5 * time.Second, Simulated: options,
			Refine: RefineSpec{Filter: &FilterSpec{Floor: 2e-3},
				Consumption: &ConsumptionSpec{Deadband: deadband, RefillAbove: 0.2, Settle: time.Minute}},
		}}, OpenOptions{Options: o.options()})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(rounds * time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		var out, in float64
		for _, r := range o.readings {
			out += kilograms(r.Consumed + r.Removed)
			in += kilograms(r.Refilled)
		}
		want := course.Truth(rounds * time.Hour)
		if got, want := in-out, want.Refilled-want.Consumed-want.Leaked; math.Abs(got-want) > deadband+0.02 {
			t.Errorf("booked %.3f kg in and %.3f kg out, which comes to %.3f kg, want %.3f kg", in, out, got, want)
		}
		// What is less than the deadband when a refill begins is in neither.
		if lost := want.Consumed + want.Leaked; out > lost+deadband || out < lost-rounds*(deadband+0.03) {
			t.Errorf("booked %.3f kg out, want %.3f kg", out, lost)
		}
	})
}

package sensors

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"oxyd/sensors/internal/chip"
)

// told keeps what a poller tells.
type told struct {
	mu       sync.Mutex
	start    time.Time
	readings []Reading
	changes  []string // "tank state:reason" in order
}

func (o *told) options() Options {
	o.start = time.Now()
	return Options{
		OnReading: func(r Reading) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.readings = append(o.readings, r)
		},
		OnState: func(s ChannelState) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.changes = append(o.changes, s.Tank+" "+string(s.State)+":"+string(s.Reason))
		},
	}
}

// seconds gives the ticks, counted in seconds from the start, of a tank's
// readings.
func (o *told) seconds(tank string) (at []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.readings {
		if r.Tank == tank {
			at = append(at, int(r.At.Sub(o.start)/time.Second))
		}
	}
	return at
}

func (o *told) states() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.changes...)
}

// sorted gives the changes with those to ok first, by tank: several buses tell
// concurrently.
func (o *told) sorted() []string {
	s := o.states()
	slices.SortStableFunc(s, func(a, b string) int {
		if a, b := strings.HasSuffix(a, "ok:"), strings.HasSuffix(b, "ok:"); a != b {
			if a {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return s
}

// running starts the poller and returns how to stop it and see Run's error.
func running(t *testing.T, p *Poller) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// gaugeSpec is tank A on AIN0 or tank B on AIN1 of a chip, read each second.
func gaugeSpec(tank, bus string, input int) Spec {
	return Spec{
		Tank: tank, Driver: DriverADS1115, Device: DeviceSpec{Bus: bus, Input: strconv.Itoa(input)}, Interval: time.Second,
		Scale: []ScalePoint{{0.5, 0}, {4.5, 1}},
		Wire:  WireSpec{VoltsMin: 0.25, VoltsMax: 4.75},
	}
}

// i2cRig is buses with one chip each, by node, in the bubble's time.
type i2cRig struct {
	mu     sync.Mutex
	buses  map[string]*chip.Bus
	models map[string]*chip.ADS1115
}

func newI2CRig(nodes ...string) *i2cRig {
	r := &i2cRig{buses: map[string]*chip.Bus{}, models: map[string]*chip.ADS1115{}}
	for _, node := range nodes {
		model, bus := chip.NewADS1115(time.Now), &chip.Bus{Name: node}
		model.Slow = 1.10
		model.Set(0, 2500*mV)
		model.Set(1, 3500*mV)
		bus.Plug(0x48, model)
		r.buses[node], r.models[node] = bus, model
	}
	return r
}

// plug puts a bus back, or with nil takes it away, and returns what was there.
func (r *i2cRig) plug(node string, b *chip.Bus) (before *chip.Bus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.buses[node]
	if r.buses[node] = b; b == nil {
		delete(r.buses, node)
	}
	return before
}

func (r *i2cRig) open(name string) (i2c.BusCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.buses[name]; ok {
		return b, nil
	}
	return nil, newBusError(name, syscall.ENOENT)
}

func (r *i2cRig) poller(t *testing.T, o Options, specs ...Spec) *Poller {
	t.Helper()
	p, err := Open(specs, OpenOptions{Options: o, OpenBus: r.open})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPollerReadsTanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1")
		var o told
		p := rig.poller(t, o.options(), gaugeSpec("A", "1", 0), gaugeSpec("B", "I2C1", 1))
		stop := running(t, p)
		time.Sleep(2500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for tank, want := range map[string]physic.Mass{"A": 500 * physic.Gram, "B": 750 * physic.Gram} {
			if diff := cmp.Diff([]int{0, 1, 2}, o.seconds(tank)); diff != "" {
				t.Errorf("tank %s: %s", tank, diff)
			}
			for _, r := range o.readings {
				if d := r.Remaining - want; r.Tank == tank && max(d, -d) > physic.Gram/20 { // a step is 47 mg
					t.Errorf("tank %s: got %s, want %s", tank, r.Remaining, want)
				}
			}
		}
		if r := o.readings[0]; r.Raw != 13333 || r.Name != "ads1115 0x48 AIN0" || r.Suspect {
			t.Errorf("got %+v", r)
		}
		if diff := cmp.Diff([]string{"A ok:", "B ok:"}, o.states()); diff != "" {
			t.Error(diff)
		}
		if got := rig.buses["/dev/i2c-1"].Closed(); got != 1 {
			t.Errorf("got the bus closed %d times, want once", got)
		}
	})
}

// TestFC54BusErrorYieldsNoReading: transfers fail during read 3 of 5, then during
// three reads in a row.
func TestFC54BusErrorYieldsNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1")
		start := time.Now()
		failing := map[int]bool{2: true, 6: true, 7: true, 8: true}
		rig.buses["/dev/i2c-1"].Before = func(int, uint16, []byte, []byte) error {
			if failing[int(time.Since(start)/time.Second)] {
				return chip.Errno(syscall.EIO)
			}
			return nil
		}
		var o told
		p := rig.poller(t, o.options(), gaugeSpec("A", "1", 0))
		stop := running(t, p)

		time.Sleep(4500 * time.Millisecond) // five reads
		if diff := cmp.Diff([]int{0, 1, 3, 4}, o.seconds("A")); diff != "" {
			t.Errorf("readings of five: %s", diff)
		}
		if diff := cmp.Diff([]string{"A ok:"}, o.states()); diff != "" {
			t.Errorf("one fault shows: %s", diff)
		}
		if s := p.States()[0]; s.Reads != 5 || s.Faults != 1 || s.InRow != 0 {
			t.Errorf("got %+v, want one fault counted in five reads", s)
		}

		time.Sleep(3 * time.Second) // 7.5 s: two faults in a row
		if diff := cmp.Diff([]string{"A ok:"}, o.states()); diff != "" {
			t.Errorf("two faults show: %s", diff)
		}
		time.Sleep(time.Second) // 8.5 s: the third
		if diff := cmp.Diff([]string{"A ok:", "A fault:bus"}, o.states()); diff != "" {
			t.Error(diff)
		}
		if s := p.States()[0]; s.State != StateFault || s.Reason != ReasonBus || s.LastGood.At.Sub(start) > 6*time.Second || s.LastGood.Remaining == 0 {
			t.Errorf("got %+v, want fault with the last good reading of 5 s", s)
		}

		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"A ok:", "A fault:bus", "A ok:"}, o.states()); diff != "" {
			t.Errorf("recovery: %s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 3, 4, 5, 9, 10}, o.seconds("A")); diff != "" || len(o.readings) != 7 {
			t.Errorf("got %d readings: %s", len(o.readings), diff)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestHungBusCostsItsOwnChannels: a transfer that does not end leaves the other
// bus alone, makes its own bus's channels stale, and heals.
func TestHungBusCostsItsOwnChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1", "/dev/i2c-2")
		release := make(chan struct{})
		var hang atomic.Bool
		rig.buses["/dev/i2c-1"].Before = func(int, uint16, []byte, []byte) error {
			if hang.Load() {
				<-release
			}
			return nil
		}
		var o told
		p := rig.poller(t, o.options(), gaugeSpec("A", "1", 0), gaugeSpec("B", "1", 1), gaugeSpec("C", "2", 0))
		stop := running(t, p)
		time.Sleep(1500 * time.Millisecond)
		hang.Store(true)
		time.Sleep(2600 * time.Millisecond) // 4.1 s; the last good readings are of 1.02 and 1.04 s
		if diff := cmp.Diff([]string{"A ok:", "B ok:", "C ok:", "A stale:timeout", "B stale:no_reading"}, o.sorted()); diff != "" {
			t.Errorf("stale in time: %s", diff)
		}
		time.Sleep(7400 * time.Millisecond) // 11.5 s
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, o.seconds("C")); diff != "" {
			t.Errorf("the other bus: %s", diff)
		}
		for i, want := range []Reason{ReasonTimeout, ReasonNoReading, ""} {
			s := p.States()[i]
			if state := map[bool]State{true: StateOK, false: StateStale}[want == ""]; s.State != state || s.Reason != want {
				t.Errorf("tank %s: got %s:%s, want %s:%s", s.Tank, s.State, s.Reason, state, want)
			}
		}
		if age := time.Since(p.Pulse()); age > pulseEvery {
			t.Errorf("got a pulse %s old: the loop of the hung bus stands still", age)
		}
		hang.Store(false)
		close(release)
		time.Sleep(3100 * time.Millisecond) // 14.6 s: the chip that hung had its second chance
		for i, s := range p.States() {
			if s.State != StateOK {
				t.Errorf("tank %s: got %s:%s, want it healed", s.Tank, s.State, s.Reason)
			}
			if late := map[bool]uint64{true: 1, false: 0}[i == 0]; s.Late != late {
				t.Errorf("tank %s: got %d late, want %d", s.Tank, s.Late, late)
			}
		}
		// The read that hung from 2 s on ended at 11.5 s. What it brought is not a
		// reading, and the ticks meanwhile are gone.
		if diff := cmp.Diff([]int{0, 1, 13, 14}, o.seconds("A")); diff != "" {
			t.Errorf("tank A: %s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 14}, o.seconds("B")); diff != "" { // of the same chip
			t.Errorf("tank B: %s", diff)
		}
		if a, b := p.States()[0], p.States()[1]; a.Missed != 9 || b.Missed != 9 {
			t.Errorf("got %d and %d missed ticks, want 9 each", a.Missed, b.Missed)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestStopLeavesAHangingReadBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1")
		release := make(chan struct{})
		rig.buses["/dev/i2c-1"].Before = func(int, uint16, []byte, []byte) error { <-release; return nil }
		var o told
		stop := running(t, rig.poller(t, o.options(), gaugeSpec("A", "1", 0)))
		time.Sleep(time.Second)
		began := time.Now()
		if err := stop(); err == nil || !strings.Contains(err.Error(), "/dev/i2c-1") {
			t.Errorf("got %v, want an error that names the bus", err)
		}
		if took := time.Since(began); took != stopWait {
			t.Errorf("stop took %s, want %s", took, stopWait)
		}
		if rig.buses["/dev/i2c-1"].Closed() != 0 {
			t.Error("the bus was closed under the hanging read")
		}
		close(release)
		synctest.Wait()
		if rig.buses["/dev/i2c-1"].Closed() != 1 {
			t.Error("the bus was not closed after the read ended")
		}
	})
}

func TestMissingChipIsFoundWithoutRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1")
		bus := rig.buses["/dev/i2c-1"]
		bus.Plug(0x48, nil)
		var o told
		var logged bytes.Buffer
		options := o.options()
		options.Log = zerolog.New(&logged)
		p := rig.poller(t, options, gaugeSpec("A", "1", 0))
		stop := running(t, p)
		time.Sleep(500 * time.Millisecond)
		if diff := cmp.Diff([]string{"A missing:nack"}, o.states()); diff != "" {
			t.Fatalf("at start: %s", diff)
		}
		time.Sleep(10 * time.Minute)
		if got := bus.Transfers() / (1 + nackRetries); got < 20 || got > 30 {
			t.Errorf("got %d attempts in ten minutes, want 20 to 30: one each half minute in the end", got)
		}
		bus.Plug(0x48, rig.models["/dev/i2c-1"])
		time.Sleep(RetryMax + time.Second)
		if diff := cmp.Diff([]string{"A missing:nack", "A ok:"}, o.states()); diff != "" {
			t.Errorf("plugged: %s", diff)
		}
		first := len(o.seconds("A"))
		time.Sleep(5 * time.Second)
		if got := len(o.seconds("A")) - first; got != 5 {
			t.Errorf("got %d readings in 5 s, want the old interval back", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"level":"error"`) || !strings.Contains(lines[1], `"level":"info"`) {
			t.Errorf("got log %q, want an error on the change and an info on the next", lines)
		}
	})
}

func TestMissingBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1", "/dev/i2c-3")
		present := rig.plug("/dev/i2c-3", nil)
		required, optional := gaugeSpec("A", "1", 0), gaugeSpec("B", "3", 0)
		_, err := Open([]Spec{required, optional}, OpenOptions{OpenBus: rig.open})
		if e, ok := errors.AsType[*BusError](err); !ok || e.Bus != "/dev/i2c-3" || e.Advice == "" {
			t.Errorf("required: got %v, want a *BusError with a hint", err)
		}
		if got := rig.buses["/dev/i2c-1"].Closed(); got != 1 {
			t.Errorf("got the other bus closed %d times, want once", got)
		}

		optional.Optional = true
		var o told
		stop := running(t, rig.poller(t, o.options(), required, optional))
		time.Sleep(5500 * time.Millisecond)
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5}, o.seconds("A")); diff != "" {
			t.Errorf("the bus that is there: %s", diff)
		}
		if got := o.states(); len(got) != 2 || got[0] != "B missing:no_bus" && got[1] != "B missing:no_bus" {
			t.Errorf("got %q, want B missing:no_bus", got)
		}
		rig.plug("/dev/i2c-3", present)
		time.Sleep(RetryMax)
		if got := o.seconds("B"); len(got) == 0 {
			t.Error("got no reading after the bus appeared")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// slowProbe takes its time for each read and notes when it began.
type slowProbe struct {
	takes time.Duration
	began []time.Duration
	start time.Time
}

func (p *slowProbe) Read(ctx context.Context) (Reading, error) {
	p.began = append(p.began, time.Since(p.start))
	return Reading{Remaining: 1}, systemClock{}.Sleep(ctx, p.takes)
}

// TestTicksStayOnTheGrid: a read that is longer than the interval skips ticks and
// counts them, and never moves or catches up with the grid.
func TestTicksStayOnTheGrid(t *testing.T) {
	for _, tt := range []struct {
		takes  time.Duration
		began  []time.Duration
		missed uint64
	}{
		{300 * time.Millisecond, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second}, 0},
		{time.Second, []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second}, 3},
		{2300 * time.Millisecond, []time.Duration{0, 3 * time.Second, 6 * time.Second}, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			probe := &slowProbe{takes: tt.takes, start: time.Now()}
			p, err := NewPoller([]Bus{{Name: "x", Channels: []Channel{{
				Tank: "A", Interval: time.Second, Timeout: 5 * time.Second, StaleAfter: time.Minute,
				Open: func(context.Context) (Probe, error) { return probe, nil },
			}}}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			stop := running(t, p)
			time.Sleep(6500 * time.Millisecond)
			missed := p.States()[0].Missed
			if err := stop(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.began, probe.began); diff != "" {
				t.Errorf("reads of %s: %s", tt.takes, diff)
			}
			if missed != tt.missed {
				t.Errorf("reads of %s: got %d missed, want %d", tt.takes, missed, tt.missed)
			}
		})
	}
}

// TestTimeoutOfAPoliteProbe: a probe that minds its context ends by itself, and
// is a fault and not late.
func TestTimeoutOfAPoliteProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probe := &slowProbe{takes: time.Hour, start: time.Now()}
		var o told
		p, err := NewPoller([]Bus{{Name: "x", Channels: []Channel{{
			Tank: "A", Interval: 10 * time.Second, Open: func(context.Context) (Probe, error) { return probe, nil },
		}}}}, o.options())
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(ReadTimeout + hangGrace)
		if s := p.States()[0]; s.State != StateFault || s.Reason != ReasonTimeout || s.Late != 0 || s.Faults != 1 {
			t.Errorf("got %+v, want fault:timeout, not late", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// deafProbe ignores its context and brings a good reading, late.
type deafProbe struct{ takes time.Duration }

func (p deafProbe) Read(context.Context) (Reading, error) {
	time.Sleep(p.takes)
	return Reading{Remaining: 1}, nil
}

// TestLateReadingIsNone: what a read brings after it was given up is not handed
// over, and does not heal the channel.
func TestLateReadingIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o told
		p, err := NewPoller([]Bus{{Name: "x", Channels: []Channel{{
			Tank: "A", Interval: 10 * time.Second,
			Open: func(context.Context) (Probe, error) { return deafProbe{5 * time.Second}, nil },
		}}}}, o.options())
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(16 * time.Second) // the first ended at 5 s, the second began at 10 s
		s := p.States()[0]
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s.State != StateFault || s.Reason != ReasonTimeout || s.Late != 2 || s.Faults != 2 || s.Reads != 2 || !s.LastGood.At.IsZero() {
			t.Errorf("got %+v, want fault:timeout, both reads late", s)
		}
		if len(o.readings) != 0 {
			t.Errorf("got %v, want no reading", o.readings)
		}
	})
}

// TestChannelsTakeTurns: channels that are due together take turns.
func TestChannelsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o told
		var channels []Channel
		for _, tank := range []string{"A", "B", "C"} {
			channels = append(channels, Channel{Tank: tank, Interval: time.Second, StaleAfter: time.Minute,
				Open: func(context.Context) (Probe, error) { return deafProbe{time.Second}, nil }})
		}
		p, err := NewPoller([]Bus{{Name: "x", Channels: channels}}, o.options())
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(30500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for _, tank := range []string{"A", "B", "C"} {
			if got := len(o.seconds(tank)); got != 10 {
				t.Errorf("tank %s: got %d of 30 readings, want a third", tank, got)
			}
		}
	})
}

// wrongProbe breaks the promise of Probe.
type wrongProbe struct{ remaining physic.Mass }

func (p wrongProbe) Read(context.Context) (Reading, error) {
	return Reading{Remaining: p.remaining}, nil
}

func TestImpossibleMassIsNoReading(t *testing.T) {
	for _, mass := range []physic.Mass{-1, maxRemaining + 1} {
		r := reader{channel: Channel{Timeout: time.Second, Open: func(context.Context) (Probe, error) { return wrongProbe{mass}, nil }}}
		if got, err := r.read(t.Context()); err == nil || got != (Reading{}) {
			t.Errorf("%d ng: got %+v, %v, want a fault", int64(mass), got, err)
		}
	}
}

func TestPollerWithoutChannelsRunsUntilStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPoller(nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := p.Run(ctx); err != nil || time.Since(began) < time.Hour {
			t.Errorf("got %v after %s, want nil after an hour", err, time.Since(began))
		}
		if p.Pulse().IsZero() {
			t.Error("got a zero pulse")
		}
	})
}

// failingProbe fails each read for the same reason.
type failingProbe struct{ reason Reason }

func (p failingProbe) Read(context.Context) (Reading, error) {
	return Reading{}, &Fault{Reason: p.reason}
}

// TestProbeIsOpenedAnew: a chip that was gone, reset or set by somebody else must be
// set up again; one that answers with a fault must not be disturbed.
func TestProbeIsOpenedAnew(t *testing.T) {
	for reason, want := range map[Reason]int{
		ReasonNack: 3, ReasonNoBus: 3, ReasonReset: 3, ReasonReadback: 3, ReasonBus: 1, ReasonRangeLow: 1, ReasonTimeout: 1,
	} {
		opened := 0
		r := reader{channel: Channel{Timeout: time.Second, Open: func(context.Context) (Probe, error) {
			opened++
			return failingProbe{reason}, nil
		}}}
		for range 3 {
			if _, err := r.read(t.Context()); err == nil {
				t.Fatal("got no error")
			}
		}
		if opened != want {
			t.Errorf("%s: got opened %d times in three reads, want %d", reason, opened, want)
		}
	}
}

package sensors

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/i2c"

	"oxyd/sensors/internal/chip"
)

// crowd is one bus with four chips, tanks A to D, of which A's can be made to hold
// up every transfer. A's chip may have more tanks on it, A1 to A3.
type crowd struct {
	o       told
	poller  *Poller
	takes   time.Duration // of a transfer, while it hangs
	hanging atomic.Bool
	held    atomic.Int64 // nanoseconds for which A's chip had the bus while it hung
}

const holdUp = 1500 * time.Millisecond

// newCrowd makes the bus; what a transfer that was held up ends with is errno.
func newCrowd(t *testing.T, errno syscall.Errno, more int) *crowd {
	t.Helper()
	c := &crowd{takes: holdUp}
	bus := &chip.Bus{Name: "/dev/i2c-1"}
	var specs []Spec
	for i, tank := range []string{"A", "B", "C", "D"} {
		model := chip.NewADS1115(time.Now)
		model.Set(0, 2500*mV)
		bus.Plug(0x48+uint16(i), model)
		s := gaugeSpec(tank, "1", 0)
		s.Device.Address = 0x48 + uint16(i)
		specs = append(specs, s)
		for n := 1; tank == "A" && n <= more; n++ {
			model.Set(n, 2500*mV)
			specs = append(specs, gaugeSpec(tank+strconv.Itoa(n), "1", n))
		}
	}
	bus.Before = func(_ int, addr uint16, _, _ []byte) error {
		if addr != 0x48 || !c.hanging.Load() {
			return nil
		}
		time.Sleep(c.takes)
		c.held.Add(int64(c.takes))
		if errno != 0 {
			return chip.Errno(errno)
		}
		return nil
	}
	p, err := Open(specs, OpenOptions{Options: c.o.options(), OpenBus: func(string) (i2c.BusCloser, error) { return bus, nil }})
	if err != nil {
		t.Fatal(err)
	}
	c.poller = p
	return c
}

// longestGap is the longest time between two readings of a tank, or since its last.
func (c *crowd) longestGap(tank string) (gap time.Duration) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	last := c.o.start
	for _, r := range c.o.readings {
		if r.Tank == tank {
			gap, last = max(gap, r.At.Sub(last)), r.At
		}
	}
	return max(gap, time.Since(last))
}

// TestHangingChipCostsItsOwnChannel: one chip of four on a bus holds up each
// transfer for 1.5 s, whether it then fails or not. The others stay fresh, each
// gets its reading within 2 s of when the hang began, and the hanging chip gets no
// more than about a tenth of the bus. It heals without a restart.
func TestHangingChipCostsItsOwnChannel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		errno syscall.Errno
		more  int
	}{
		{"then the adapter gives up", syscall.ETIMEDOUT, 0},
		{"then it goes on", 0, 0},
		{"with four channels", syscall.ETIMEDOUT, 3},
		{"with four channels, then it goes on", 0, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, tt.errno, tt.more)
				stop := running(t, c.poller)
				time.Sleep(5500 * time.Millisecond)
				c.hanging.Store(true)
				const long = 10 * time.Minute
				time.Sleep(4 * time.Second)
				if s := c.poller.States()[0]; s.State == StateOK || s.Reason != ReasonBus && s.Reason != ReasonTimeout {
					t.Errorf("after 4 s: got tank A %s:%s, want the reason shown", s.State, s.Reason)
				}
				time.Sleep(long - 4*time.Second)
				for _, s := range c.poller.States()[:1+tt.more] {
					if s.State != StateFault {
						t.Errorf("after %s: got tank %s %s:%s, want fault", long, s.Tank, s.State, s.Reason)
					}
				}
				if share := float64(c.held.Load()) / float64(long); share > 0.12 {
					t.Errorf("the hanging chip had %.0f %% of the bus, want about a tenth at most", 100*share)
				}
				for _, tank := range []string{"B", "C", "D"} {
					// A tick late by the hang, from a reading right before it.
					if gap := c.longestGap(tank); gap > 2*time.Second+holdUp/2 {
						t.Errorf("tank %s: got a gap of %s between readings", tank, gap)
					}
					if n, all := len(c.o.seconds(tank)), int(long/time.Second); n < all*85/100 {
						t.Errorf("tank %s: got %d readings of %d", tank, n, all)
					}
				}
				for _, s := range c.o.states() {
					if s[0] != 'A' && s[2:] != "ok:" {
						t.Errorf("a neighbour's state changed: %s", s)
					}
				}

				c.hanging.Store(false)
				time.Sleep(RetryMax + 2*time.Second)
				for _, s := range c.poller.States() {
					if s.State != StateOK {
						t.Errorf("healed: got tank %s %s:%s, want ok", s.Tank, s.State, s.Reason)
					}
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNeighboursAreReadWithin2s: when a chip hangs in the tick that all share, its
// neighbours have their readings of that tick within 2 s.
func TestNeighboursAreReadWithin2s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, syscall.ETIMEDOUT, 3)
		c.hanging.Store(true) // from the first tick, in which A is first
		stop := running(t, c.poller)
		time.Sleep(2 * time.Second)
		for _, tank := range []string{"B", "C", "D"} {
			if got := c.o.seconds(tank); len(got) == 0 {
				t.Errorf("tank %s: got no reading within 2 s", tank)
			}
		}
		if diff := cmp.Diff("A fault:bus", c.o.states()[0]); diff != "" {
			t.Errorf("the chip that hangs: %s", diff)
		}
		time.Sleep(1400 * time.Millisecond) // 3.4 s: its second chance is at 3.5 s
		if got, want := time.Duration(c.held.Load()), holdUp; got != want {
			t.Errorf("got the bus held for %s, want %s: no second try yet", got, want)
		}
		time.Sleep(5 * time.Second)
		if got, want := time.Duration(c.held.Load()), 2*holdUp; got != want {
			t.Errorf("got the bus held for %s, want %s: one second try", got, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowTransfersEndWithTheirRead: each transfer of a chip takes almost as long as
// the adapter allows, and ends well. Its read does not go on after its time.
func TestSlowTransfersEndWithTheirRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 0, 0)
		c.takes = I2CTimeout - 10*time.Millisecond
		c.hanging.Store(true)
		stop := running(t, c.poller)
		time.Sleep(2 * time.Second)
		for _, tank := range []string{"B", "C", "D"} {
			if got := c.o.seconds(tank); len(got) == 0 {
				t.Errorf("tank %s: got no reading within 2 s", tank)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestHangingProbeCostsItsOwnChannel: the same where the bus is not I2C, and the
// driver gives up by itself.
func TestHangingProbeCostsItsOwnChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probe := &hangingProbe{takes: holdUp, start: time.Now()}
		var o told
		open := func(p Probe) func(context.Context) (Probe, error) {
			return func(context.Context) (Probe, error) { return p, nil }
		}
		p, err := NewPoller([]Bus{{Name: "x", Channels: []Channel{
			{Tank: "A", Interval: time.Second, Open: open(probe)},
			{Tank: "B", Interval: time.Second, Open: open(deafProbe{time.Millisecond})},
		}}}, o.options())
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		const long = 10 * time.Minute
		time.Sleep(long)
		if err := stop(); err != nil {
			t.Error(err)
		}
		second := holdUp + secondChance
		want := []time.Duration{0, second, second + holdUp + holdShare*holdUp}
		if diff := cmp.Diff(want, probe.began[:3]); diff != "" {
			t.Errorf("tries: %s", diff)
		}
		if share := float64(len(probe.began)) * holdUp.Seconds() / long.Seconds(); share > 0.11 {
			t.Errorf("got the bus held for %.0f %% of the time, want a tenth at most", 100*share)
		}
		if n, all := len(o.seconds("B")), int(long/time.Second); n < all*85/100 {
			t.Errorf("tank B: got %d readings of %d", n, all)
		}
	})
}

// hangingProbe takes its time, whatever its context, and fails.
type hangingProbe struct {
	takes time.Duration
	start time.Time
	began []time.Duration
}

func (p *hangingProbe) Read(context.Context) (Reading, error) {
	p.began = append(p.began, time.Since(p.start))
	time.Sleep(p.takes)
	return Reading{}, &Fault{Reason: ReasonTimeout}
}

// TestFC70VanishInterruptReappear: a signal in a transfer is not seen; a bus that
// is gone for three reads is a fault of its channels, which heal by themselves;
// the other bus does not notice.
func TestFC70VanishInterruptReappear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		second := func() int { return int(time.Since(start) / time.Second) }
		kernels := map[string]*kernel{}
		for _, node := range []string{"/dev/i2c-1", "/dev/i2c-2"} {
			k, model := newKernel(), chip.NewADS1115(time.Now)
			model.Set(0, 2500*mV)
			k.bus.Plug(0x48, model)
			kernels[node] = k
		}
		interrupted := false
		kernels["/dev/i2c-1"].answer = func(int, []i2cMessage) (int, syscall.Errno, bool) {
			switch s := second(); {
			case s == 2 && !interrupted:
				interrupted = true
				return -1, syscall.EINTR, true
			case s >= 4 && s <= 6:
				return -1, syscall.ENOENT, true
			}
			return 0, 0, false
		}
		var o told
		p, err := Open([]Spec{gaugeSpec("A", "1", 0), gaugeSpec("B", "2", 0)}, OpenOptions{Options: o.options(),
			OpenBus: func(node string) (i2c.BusCloser, error) { return kernels[node].open(t), nil }})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, p)
		time.Sleep(3500 * time.Millisecond)
		if s := p.States()[0]; !interrupted || s.Faults != 0 || s.Reads != 4 {
			t.Errorf("got %+v, want four reads and no fault: the signal shows", s)
		}
		time.Sleep(6 * time.Second) // 9.5 s
		want := []string{"A ok:", "B ok:", "A missing:no_bus", "A ok:"}
		if diff := cmp.Diff(want, o.states()); diff != "" {
			if got := o.states(); len(got) == len(want) && got[0] == want[1] { // two buses tell concurrently
				diff = cmp.Diff(want[2:], got[2:])
			}
			if diff != "" {
				t.Error(diff)
			}
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 7, 8, 9}, o.seconds("A")); diff != "" {
			t.Errorf("tank A: %s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, o.seconds("B")); diff != "" {
			t.Errorf("tank B: %s", diff)
		}
		buses := p.Buses()
		if diff := cmp.Diff([]BusState{{Name: "/dev/i2c-1", Reopens: 3}, {Name: "/dev/i2c-2"}}, buses); diff != "" {
			t.Errorf("buses: %s", diff)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestBusesCount: what happens on a bus can be read while it runs.
func TestBusesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newI2CRig("/dev/i2c-1")
		release := make(chan struct{})
		start := time.Now()
		rig.buses["/dev/i2c-1"].Before = func(int, uint16, []byte, []byte) error {
			switch time.Since(start) / time.Second {
			case 1:
				return chip.Errno(syscall.EIO)
			case 2:
				return chip.Errno(syscall.ENXIO)
			case 3:
				<-release
			}
			return nil
		}
		var o told
		p := rig.poller(t, o.options(), gaugeSpec("A", "1", 0))
		stop := running(t, p)
		time.Sleep(10 * time.Second)
		want := []BusState{{Name: "/dev/i2c-1", Failures: 1, Nacks: 1 + nackRetries, Hung: 1, Hanging: true}}
		if diff := cmp.Diff(want, p.Buses()); diff != "" {
			t.Error(diff)
		}
		close(release)
		time.Sleep(time.Second)
		if p.Buses()[0].Hanging {
			t.Error("the read that ended still hangs")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

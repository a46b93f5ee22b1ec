package sensors

import (
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"oxyd/sensors/internal/chip"
)

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPass16Channels is one pass over sixteen cylinders on two I2C buses, each with
// two ADS1115: everything from the transfers to the booked use, with real waits for the
// conversions. What counts is cpu-ms/pass, which includes the models of the chips.
func BenchmarkPass16Channels(b *testing.B) {
	buses := map[string]*chip.Bus{}
	for _, name := range []string{"/dev/i2c-1", "/dev/i2c-2"} {
		bus := &chip.Bus{Name: name}
		for _, addr := range []uint16{0x48, 0x49} {
			model := chip.NewADS1115(time.Now)
			for input := range 4 {
				model.Set(input, physic.ElectricPotential(2500+100*input)*mV)
			}
			bus.Plug(addr, model)
		}
		buses[name] = bus
	}
	l := newLayout(OpenOptions{OpenBus: func(name string) (i2c.BusCloser, error) { return buses[name], nil }})
	for i := range 16 {
		s := Spec{Tank: fmt.Sprint("tank-", i), Driver: DriverADS1115, Interval: time.Second, Capacity: 20 * physic.KiloGram,
			Device: DeviceSpec{Bus: strconv.Itoa(1 + i/8), Address: 0x48 + uint16(i/4%2), Input: strconv.Itoa(i % 4), Rate: 860},
			Wire:   WireSpec{VoltsMin: 0.3, VoltsMax: 4.7}, Scale: []ScalePoint{{0.5, 0}, {4.5, 250e5}},
			Model: ModelSpec{Kind: ModelGas, Volume: 0.05, Gauge: true, Ambient: Source{Value: 101325}, Temperature: Source{Value: 293.15}},
			Refine: RefineSpec{Filter: &FilterSpec{MaxRate: 0.1, StuckAfter: time.Hour}, Report: &ReportSpec{Deadband: 5e-3},
				Consumption: &ConsumptionSpec{Deadband: 50e-3, RefillAbove: 200e-3}, AbnormalFrom: 1e-4}}
		s.complete()
		if err := l.add(&s); err != nil {
			b.Fatal(err)
		}
	}
	probes := map[string][]Probe{}
	for _, bus := range l.buses {
		for _, c := range bus.Channels {
			p, err := c.Open(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			probes[bus.Name] = append(probes[bus.Name], p)
		}
	}
	before, passes := cpuTime(b), 0
	for b.Loop() {
		var wg sync.WaitGroup
		for _, bus := range l.buses {
			wg.Go(func() {
				for i, p := range probes[bus.Name] {
					r, err := p.Read(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					r.At = time.Now()
					if err := bus.Channels[i].Refine(&r); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		passes++
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1e3/float64(passes), "cpu-ms/pass")
}

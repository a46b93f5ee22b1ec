package sensors

import (
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"

	"oxyd/sensors/internal/chip"
)

// scanned looks through a bus of models, and gives what was found by place.
func scanned(t *testing.T, bus *chip.Bus) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range scanI2C(t.Context(), "test", func(string) (i2c.BusCloser, error) { return bus, nil }) {
		found[f.Place] = f.What + f.Error
	}
	return found
}

// TestScanFindsWhatIsThere: among them flow meters that nobody has started, which
// acknowledge no read.
func TestScanFindsWhatIsThere(t *testing.T) {
	bus := &chip.Bus{Name: "test"}
	bus.Plug(0x48, chip.NewADS1115(time.Now))
	bus.Plug(0x2e, chip.NewSFM3019(time.Now))
	bus.Plug(0x40, chip.NewSFM3000(time.Now))
	got := scanned(t, bus)
	for place, want := range map[string]string{"0x48": "ads1115", "0x2e": "SFM3019, not measuring: counts 170 a unit from -24576, unit 0x0148",
		"0x40": "SFM3000 or SFM3300, not measuring: counts 140 a unit"} {
		if !strings.Contains(got[place], want) {
			t.Errorf("at %s: got %q, want %s", place, got[place], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %v, want three chips", got)
	}
	if got := scanned(t, &chip.Bus{}); len(got) != 1 || got[""] != "nobody answers" {
		t.Errorf("got %v of an empty bus", got)
	}
}

// TestScanGoesOnPastATroubledChip: one address that fails hides no other; a bus on which
// all fail is not asked 112 times.
func TestScanGoesOnPastATroubledChip(t *testing.T) {
	bus := &chip.Bus{Name: "test"}
	bus.Plug(0x48, chip.NewADS1115(time.Now))
	bus.Before = func(_ int, addr uint16, _, _ []byte) error {
		if addr == 0x20 {
			return chip.Errno(syscall.ETIMEDOUT)
		}
		return nil
	}
	if got := scanned(t, bus); !strings.Contains(got["0x48"], "ads1115") || !strings.Contains(got["0x20"], "timed out") {
		t.Errorf("got %v, want the chip at 0x48 and the trouble at 0x20", got)
	}
	bus.Before = func(int, uint16, []byte, []byte) error { return chip.Errno(syscall.ETIMEDOUT) }
	if before := bus.Transfers(); len(scanned(t, bus)) == 0 || bus.Transfers()-before > 10 {
		t.Errorf("a bus that hangs was asked %d times", bus.Transfers()-before)
	}
}

// TestScanBesideADaemon puts a whole scan before each transfer of a read, and of the
// read after a brown-out: what the daemon reads is the right value or a fault, and right
// again without a scan.
func TestScanBesideADaemon(t *testing.T) {
	type daemon struct {
		bus     *chip.Bus
		read    func() (Measured, error)
		brown   func()
		want    float64
		nearest float64
	}
	chips := map[string]func() daemon{
		"ads1115": func() daemon {
			r := newRig()
			a, _ := r.channels(t, 860)
			return daemon{r.bus, func() (Measured, error) { return a.Measure(t.Context()) }, r.model.BrownOut, 3.3, 2e-4}
		},
		"SFM3019": func() daemon {
			r := newFlow(chip.NewSFM3019, 0x2e)
			r.model.Set(10, 20)
			d := r.open(t, SFMOptions{Part: SFM3019, Gas: GasOxygen, Unit: FlowSLM})
			return daemon{r.bus, func() (Measured, error) { return d.Measure(t.Context()) }, r.model.BrownOut, 10 * 1.3312 / 60000, 1e-7}
		},
		"SFM3000": func() daemon {
			r := newFlow(chip.NewSFM3000, 0x40)
			r.model.Set(10, 20)
			d := r.open(t, SFMOptions{Part: SFM3000, Gas: GasAir, Unit: FlowSLM})
			return daemon{r.bus, func() (Measured, error) { return d.Measure(t.Context()) }, r.model.BrownOut, 10 * 1.2045 / 60000, 1e-7}
		},
	}
	for name, boot := range chips {
		for _, brown := range []bool{false, true} {
			for n := 0; ; n++ {
				d := boot()
				if _, err := d.read(); err != nil {
					t.Fatal(err)
				}
				if brown {
					d.brown()
				}
				first, hit, scanning := d.bus.Transfers(), false, false
				d.bus.Before = func(i int, _ uint16, _, _ []byte) error {
					if !scanning && !hit && i >= first+n {
						scanning, hit = true, true
						scanned(t, d.bus)
						scanning = false
					}
					return nil
				}
				for k := range 3 {
					got, err := d.read()
					if err == nil && math.Abs(got.Value-d.want) > d.nearest {
						t.Errorf("%s, brown-out %t, scan at transfer %d, read %d: got %g, want %g or a fault", name, brown, n, k, got.Value, d.want)
					}
				}
				d.bus.Before = nil
				if _, err := d.read(); err != nil {
					t.Errorf("%s, brown-out %t, scan at transfer %d: got %v once it was over", name, brown, n, err)
				}
				if !hit {
					break
				}
				if n > 60 {
					t.Fatalf("%s: no end of transfers", name)
				}
			}
		}
	}
}

package sensors

import (
	"errors"
	"math"
	"testing"

	"oxyd/sensors/internal/chip"
)

// cutBus fails after so many transfers, as a program does that is ended.
type cutBus struct {
	*chip.Bus
	left int
}

var errCut = errors.New("the program was ended")

func (b *cutBus) Tx(addr uint16, w, r []byte) error {
	if b.left == 0 {
		return errCut
	}
	b.left--
	return b.Bus.Tx(addr, w, r)
}

// TestSFMBesideAnotherProgram: another program sets up the same part, up to any of its
// transfers, before any transfer of a read. What it asked may be answered to us, and must
// not be taken for a flow. A part that it has just started reads up to 5 % off: that
// cannot be told.
func TestSFMBesideAnotherProgram(t *testing.T) {
	const slm, transfers = 10, 8
	for _, part := range []SFMPart{SFM3019, SFM3000} {
		for _, gas := range []Gas{GasOxygen, GasAir} {
			for n := range 6 {
				for cut := 1; cut <= transfers; cut++ {
					r := newFlow(chip.NewSFM3019, 0x2e)
					if part == SFM3000 {
						r = newFlow(chip.NewSFM3000, 0x40)
						if gas == GasOxygen {
							r.model.Factor = 1.02
						}
					}
					r.model.Set(slm, 20)
					d := r.open(t, SFMOptions{Part: part, Gas: gas, Unit: FlowSLM})
					if _, err := d.Measure(t.Context()); err != nil {
						t.Fatal(err)
					}
					first, done := r.bus.Transfers(), false
					r.bus.Before = func(i int, _ uint16, _, _ []byte) error {
						if !done && i >= first+n {
							done = true
							_, _ = NewSFM(&cutBus{r.bus, cut}, r.addr, SFMOptions{Part: part, Gas: GasOxygen, Unit: FlowSLM}, r.clock)
						}
						return nil
					}
					rho, _ := density(gas, FlowSLM)
					want := slm * rho / 60000
					for k := range 5 {
						got, err := d.Measure(t.Context())
						if err == nil && math.Abs(got.Value-want) > 0.051*want {
							t.Errorf("%s, %s, %d transfers of another program at transfer %d, read %d: got %g, want %g or a fault", part, gas, cut, n, k, got.Value, want)
						}
						if k == 4 && err != nil {
							t.Errorf("%s, %s, %d transfers of another program at transfer %d: got %v in the end", part, gas, cut, n, err)
						}
					}
				}
			}
		}
	}
}

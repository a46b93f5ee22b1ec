package sensors

import (
	"context"
	"testing"
	"time"
)

// inputProbe is an input as a probe that gives its value.
type inputProbe struct{ input Input }

func (p inputProbe) Read(ctx context.Context) (Reading, error) {
	m, err := p.input.Measure(ctx)
	return Reading{Raw: m.Raw, Value: m.Value}, err
}

// TestMAX31865HealsByItself: what the chip was told at the start is gone after a
// brown-out or an unplugging between two reads, and may be another's after a write that
// went astray. That costs a read, and not the channel until a restart.
func TestMAX31865HealsByItself(t *testing.T) {
	for name, injure := range map[string]func(r *rtdRig){
		"brown-out":    func(r *rtdRig) { r.model.BrownOut() },
		"stray write":  func(r *rtdRig) { r.model.Exchange([]byte{0x83, 0x01}) },
		"config alone": func(r *rtdRig) { r.model.Exchange([]byte{0x80, 0x00}) },
		"unplugged": func(r *rtdRig) {
			r.model.BrownOut()
			r.bus.Plug(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRTDRig(pt100)
			r.set(20)
			reader := reader{channel: Channel{Timeout: time.Second, Open: func(context.Context) (Probe, error) {
				d, err := NewMAX31865(r.bus, pt100, r.clock)
				return inputProbe{d}, err
			}}}
			if _, err := reader.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			injure(r)
			_, first := reader.read(t.Context())
			r.bus.Plug(r.model)
			if name == "unplugged" && first == nil {
				t.Error("got a reading without a chip")
			}
			_, _ = reader.read(t.Context()) // may be what finds it out
			got, err := reader.read(t.Context())
			if err != nil || !r.nearK(got.Value, 20) {
				t.Errorf("got %v, %v after %v, want 20 °C", got.Value, err, first)
			}
		})
	}
}

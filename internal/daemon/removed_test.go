package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/sensors"
)

// What went faster than anybody draws is told until the tank is filled, or half a day.
func TestRemovedIsTold(t *testing.T) {
	var m removals
	now := time.Now()
	m.note(&sensors.Reading{Tank: "A", At: now, Consumed: physic.Gram}, zerolog.Nop())
	if got := m.text(now); got != "" {
		t.Errorf("use is told as a removal: %q", got)
	}
	m.note(&sensors.Reading{Tank: "B", At: now, Removed: 2 * physic.KiloGram}, zerolog.Nop())
	m.note(&sensors.Reading{Tank: "A", At: now, Removed: physic.KiloGram}, zerolog.Nop())
	if got := m.text(now); !strings.HasSuffix(got, "A: 1kg, B: 2kg") || m.total() != 3000 {
		t.Errorf("told is %q, in all %v g", got, m.total())
	}
	m.note(&sensors.Reading{Tank: "A", At: now, Refilled: physic.KiloGram}, zerolog.Nop())
	if got := m.text(now); !strings.HasSuffix(got, ": B: 2kg") {
		t.Errorf("after a refill of A: %q", got)
	}
	if got := m.text(now.Add(removedTold + time.Second)); got != "" {
		t.Errorf("half a day later: %q", got)
	}
}

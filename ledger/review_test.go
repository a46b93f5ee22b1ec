package ledger

import (
	"testing"
	"time"
)

// A reversal that met a refused message that is no delta reverses nothing. That stays
// so when the refused one is pruned, and then nothing keeps the reversal either.
func TestPrunedReversalOfWhatWasRefused(t *testing.T) {
	r := newPruning(t)
	target := step{"measured", `{"event_id":"m","tank":"A","remaining":5,"occurred_at":` + ago(2*3600) + `}`, "quarantined/older_than_window", false}
	r.play(step{"reversed", `{"event_id":"r","tank":"A","reverses":"m","occurred_at":` + ago(1) + `}`, "parked", false}, target)
	if _, err := r.l.Discard(r.newest(), ""); err != nil {
		t.Fatal(err)
	}
	r.want("went", r.later(5*time.Hour), 2)
	s, _ := r.l.Status()
	r.want("facts", s.Facts, facts{}.String())
	r.play(target)
}

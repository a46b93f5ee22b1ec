package ledger

import (
	"errors"
	"testing"

	"oxyd/internal/event"
)

func (r *rig) status() Status {
	r.t.Helper()
	s, err := r.l.Status()
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestRaiseIncarnation(t *testing.T) {
	r := newRig(t)
	r.numbers("A", 1, 1, 2)
	first := r.status()
	r.reopen()
	r.want("after a restart", r.status().Incarnation, first.Incarnation)
	r.l.TakeTouched()
	raised, err := r.l.RaiseIncarnation(0)
	if err != nil || raised <= first.Incarnation {
		t.Errorf("raised from %d to %d, %v", first.Incarnation, raised, err)
	}
	r.want("published anew", r.l.TakeTouched(), "[dev]")
	above := raised + 1<<40 // drawn by a ledger whose clock was ahead
	next, err := r.l.RaiseIncarnation(above)
	if err != nil || next <= above {
		t.Errorf("raised above %d to %d, %v", above, next, err)
	}
	r.reopen()
	r.want("kept", r.status().Incarnation, next)
	r.want("balance document", r.doc("A").Incarnation, next)
	r.want("confirmation", r.confirmed("dev").Incarnation, next)
	r.want("digest", r.status().Digest, first.Digest)
	if _, err := r.l.RaiseIncarnation(event.MaxEpoch); !errors.Is(err, ErrIncarnation) {
		t.Errorf("absurd: %v", err)
	}
	r.want("unchanged", r.status().Incarnation, next)
}

// A ledger knows by what it has published itself that it was further once.
func TestSetBackIsNoticed(t *testing.T) {
	r := newRig(t)
	r.numbers("A", 1, 1, 2, 4)
	was, said := r.status(), r.confirmed("dev")
	same := func(s Status, c event.Confirm, want bool) {
		t.Helper()
		r.want("by the status", s.SetBack(was.Incarnation, was.Revision), want)
		r.want("by the confirmation", SetBackSince(&said, &c), want)
	}
	same(was, said, false)
	r.numbers("A", 1, 3, 5)
	r.numbers("B", 2, 1)
	same(r.status(), r.confirmed("dev"), false) // further

	old := newRig(t)
	old.numbers("A", 1, 1, 2)
	earlier, says := old.status(), old.confirmed("dev")
	earlier.Incarnation, says.Incarnation = was.Incarnation, was.Incarnation
	same(earlier, says, true)

	newer, above := earlier, says // a store of its own, made later
	newer.Incarnation++
	above.Incarnation++
	same(newer, above, false)
	newer.Incarnation -= 2
	above.Incarnation -= 2
	same(newer, above, true)

	before := event.Confirm{Incarnation: was.Incarnation, NewestEpoch: 0}
	r.want("a source that is unknown now", SetBackSince(&said, &before), true)
	cut := event.Confirm{Incarnation: was.Incarnation, NewestEpoch: 1, More: true, Streams: []event.ConfirmStream{{Epoch: 1, Tank: "A", Through: 1}}}
	r.want("a document without room says nothing", SetBackSince(&said, &cut), false)
}

// A backup may lack no more than a tank that was new, or what came late: then neither
// the newest epoch nor how far a stream goes has changed.
func TestSetBackByLittleIsNoticed(t *testing.T) {
	r := newRig(t)
	r.numbers("A", 1, 1, 2, 5)
	before := r.confirmed("dev")
	r.numbers("A", 1, 3)
	late := r.confirmed("dev")
	r.numbers("B", 1, 1)
	said := r.confirmed("dev")
	r.want("a tank is unknown", SetBackSince(&said, &late), true)
	r.want("a late number is missing", SetBackSince(&late, &before), true)
	r.want("further", SetBackSince(&before, &late) || SetBackSince(&late, &said), false)
	cut := late
	cut.More = true
	r.want("a document without room says nothing of the tank", SetBackSince(&said, &cut), false)
}

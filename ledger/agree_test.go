package ledger

import (
	"encoding/json"
	"errors"

	"pgregory.net/rapid"
)

// agree compares everything that the two can be asked.
func (w *world) agree(t *rapid.T) {
	if err := w.r.l.Check(); err != nil {
		w.fail(t, "check: %v", err)
	}
	docs, err := w.r.l.Balances()
	if err != nil {
		t.Fatal(err)
	}
	tanks := map[string]bool{"A": true, "B": true}
	for _, k := range w.m.log {
		tanks[k.Tank] = tanks[k.Tank] || k.outcome.Accepted()
	}
	for _, got := range docs {
		if !tanks[got.Tank] || got.Revision < w.last[got.Tank] {
			w.fail(t, "tank %s: known to the model %v, revision %d after %d", got.Tank, tanks[got.Tank], got.Revision, w.last[got.Tank])
		}
		w.last[got.Tank] = got.Revision
		delete(tanks, got.Tank)
		got.Revision, got.Incarnation, got.Stale = 0, 0, false
		w.same(t, "document", got, w.m.document(got.Tank))
	}
	for tank, accepted := range tanks {
		if accepted {
			w.fail(t, "tank %s has no document", tank)
		}
	}
	s, err := w.r.l.Status()
	if err != nil {
		t.Fatal(err)
	}
	digest, facts := w.m.digest()
	w.same(t, "facts", s.Facts, facts)
	w.same(t, "digest", s.Digest, digest)
	w.same(t, "parked", s.Parked, w.m.parked())
	for _, o := range Outcomes() {
		w.same(t, o.String(), s.Outcomes[o], w.m.outcomes[o])
	}
	w.agreeOnEvents(t)
	w.agreeOnStreams(t)
	w.agreeOnQuarantine(t)
}

// agreeOnEvents: an outcome sticks.
func (w *world) agreeOnEvents(t *rapid.T) {
	for _, k := range w.m.log {
		if k.outcome == Conflict {
			continue // its identity leads to another event
		}
		got, ok, err := w.r.l.Outcome(k.Identity())
		if err != nil || !ok || got.Outcome != k.outcome || got.Reason != k.reason {
			w.fail(t, "%v: got %v/%s, %v, %v, want %s/%s", k.Identity(), got.Outcome, got.Reason, ok, err, k.outcome, k.reason)
		}
	}
}

func (w *world) agreeOnStreams(t *rapid.T) {
	sources, err := w.r.l.Sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		for _, got := range s.Streams {
			got.Last, got.Skipped = nil, joined(got.Skipped)
			w.same(t, "stream of "+s.Source, got, w.m.stream(got.Tank, s.Source, got.Epoch))
		}
	}
}

func (w *world) agreeOnQuarantine(t *rapid.T) {
	kept, err := w.r.l.Quarantine(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	w.same(t, "quarantine rows", len(kept), len(w.m.kept))
	got, want := uint64(0), uint64(0)
	for _, k := range kept {
		got += k.Count
	}
	for _, n := range w.m.kept {
		want += n
	}
	w.same(t, "quarantined deliveries", got, want)
}

// same compares what two values look like in JSON.
func (w *world) same(t *rapid.T, what string, got, want any) {
	g, err1 := json.Marshal(got)
	x, err2 := json.Marshal(want)
	if err := errors.Join(err1, err2); err != nil || string(g) != string(x) {
		w.fail(t, "%s: %v\n got %s\nwant %s", what, err, g, x)
	}
}

package web

import (
	"encoding/json"
	"strings"
	"testing"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// refused puts well-formed events into quarantine and gives the id of the newest.
func (s *station) refused(payload string, retained bool) string {
	s.t.Helper()
	e, err := event.Decode(event.Consumed, "A", []byte(payload))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.account.Apply([]ledger.Delivery{{Event: e, Topic: "t", Payload: []byte(payload), Retained: retained}}); err != nil {
		s.t.Fatal(err)
	}
	return decode[[]Kept](s.t, s.get("/api/quarantine"), 200)[0].ID
}

func (s *station) decideOn(id, verb, body string, status int) ledger.Decision {
	s.t.Helper()
	var headers []string
	if body != "" {
		headers = []string{"Content-Type", "application/json"}
	}
	return decode[ledger.Decision](s.t, s.do("POST", "/api/quarantine/"+id+"/"+verb, body, headers...), status)
}

func TestRetryAndDiscard(t *testing.T) {
	s := newStation(t, nil)
	id := s.refused(`{"event_id":"c","tank":"A","amount":7}`, true)
	d := s.decideOn(id[:8], "retry", `{"note":"the pump was asked"}`, 200)
	if !d.Changed || d.Outcome != ledger.Applied || d.Note != "the pump was asked" || d.ID != id {
		t.Errorf("retry: %+v", d)
	}
	if again := s.decideOn(id, "retry", "", 200); again.Changed || again.LSN != d.LSN {
		t.Errorf("retry again: %+v", again)
	}
	s.decideOn(id, "discard", "", 409)

	old := s.refused(`{"event_id":"o","tank":"A","amount":7,"occurred_at":"2021-01-01T00:00:00Z"}`, false)
	if d := s.decideOn(old, "discard", "{}", 200); !d.Changed || d.Decision != ledger.Discarded || d.Outcome != ledger.Quarantined {
		t.Errorf("discard: %+v", d)
	}
	if d := s.decideOn(old, "discard", "", 200); d.Changed {
		t.Errorf("discard again: %+v", d)
	}
	s.decideOn(old, "retry", "", 409)
	if got := decode[[]Kept](t, s.get("/api/quarantine"), 200); len(got) != 0 {
		t.Errorf("left in quarantine: %+v", got)
	}
}

func TestVerdictsThatAreRefused(t *testing.T) {
	s := newStation(t, nil)
	s.poison("oxyd/base/tank/A/consumed", []byte("{"))
	id := decode[[]Kept](t, s.get("/api/quarantine"), 200)[0].ID
	for _, c := range []struct {
		id, verb, body string
		status         int
		says           string
	}{
		{id, "retry", "", 422, "malformed is no event"},
		{"0123456789ab", "retry", "", 404, "nothing in quarantine"},
		{"0123456789ab", "discard", "", 404, "nothing in quarantine"},
		{"xyz", "discard", "", 400, "is no quarantine id"},
		{id, "discard", `{"note":"two\nlines"}`, 400, "printable"},
		{id, "discard", `{"note":1}`, 400, "want text"},
		{id, "discard", `{"overrule":"limit"}`, 400, "overrules nothing"},
		{id, "discard", `{"reason":"x"}`, 400, "member"},
		{id, "discard", `[]`, 400, "no JSON object"},
	} {
		headers := []string{"Content-Type", "application/json"}
		if c.body == "" {
			headers = nil
		}
		w := s.do("POST", "/api/quarantine/"+c.id+"/"+c.verb, c.body, headers...)
		if doc := decode[failure](t, w, c.status); !strings.Contains(doc.Error, c.says) {
			t.Errorf("%s %s %s: %q, want %q", c.verb, c.id, c.body, doc.Error, c.says)
		}
	}
	if w := s.do("POST", "/api/quarantine/"+id+"/discard", "note=x", "Content-Type", "application/x-www-form-urlencoded"); w.Code != 415 {
		t.Errorf("a form: %d %s", w.Code, w.Body)
	}
	if w := s.do("POST", "/api/quarantine/"+id+"/discard", "", "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("another site: %d %s", w.Code, w.Body)
	}
	w := s.get("/api/quarantine/" + id + "/discard")
	if decode[failure](t, w, 405); w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: Allow %q, want POST", w.Header().Get("Allow"))
	}
}

// What is refused by another rule is said with the decision.
func TestRetryThatStays(t *testing.T) {
	s := newStation(t, func(s *station) {
		closed, err := ledger.Open(ledger.Options{Path: t.TempDir() + "/closed.bolt", Closed: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed.Close() })
		s.account, s.board.Account = closed, closed
	})
	id := s.refused(`{"event_id":"c","tank":"A","amount":7}`, true)
	var doc struct {
		failure
		ledger.Decision
	}
	w := s.do("POST", "/api/quarantine/"+id+"/retry", "")
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 422 || doc.Decision.Reason != event.RetainedDelta || !doc.Changed ||
		!strings.Contains(doc.Error, "retained_delta") || !strings.Contains(doc.Hint, "overrule retained_delta") {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
	s.decideOn(id, "retry", `{"overrule":"limit"}`, 422)
	if d := s.decideOn(id, "retry", `{"overrule":"retained_delta"}`, 200); d.Outcome != ledger.Applied {
		t.Errorf("overruled: %+v", d)
	}
}

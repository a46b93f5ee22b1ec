package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// taking remembers what the wiring was asked to record.
func taking(t *testing.T, answer Answer, err error) (*station, *[]Record) {
	var taken []Record
	s := newStation(t, func(s *station) {
		s.board.Record = func(_ context.Context, r Record) (Answer, error) {
			taken = append(taken, r)
			return answer, err
		}
	})
	return s, &taken
}

func TestRecordExampleOfRecordCountsOnce(t *testing.T) {
	s := newStation(t, nil)
	for i, outcome := range []string{"applied", "duplicate", "duplicate"} {
		a := decode[Answer](t, s.post(exampleOfRecord), 200)
		if a.Outcome != outcome || a.Balance.Balance.String() != "727 g" || a.Source != "ctl-1" {
			t.Errorf("answer %d: %+v, want %s and 727 g", i, a, outcome)
		}
	}
	a := decode[Answer](t, s.get("/api/events?event_id=e-8842"), 200)
	if a.Outcome != "applied" || a.LSN == 0 {
		t.Errorf("outcome %+v, want applied with its journal row", a)
	}
	decode[failure](t, s.get("/api/events?event_id=e-8842&source="), 404) // the anonymous source's is another
	decode[Answer](t, s.get("/api/events?event_id=e-8842&source=ctl-1"), 200)
}

func TestRecordDecodes(t *testing.T) {
	at := time.Date(2026, 3, 1, 14, 5, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		body    string
		headers []string
		want    event.Event
	}{
		"short type, unit": {`{"type":"consumed","event_id":"a","tank":"A","amount":0.12,"unit":"kg","operation":"op","quality":"suspect"}`, nil,
			event.Event{Type: event.Consumed, ID: "a", Amount: 120 * physic.Gram, Operation: "op", Suspect: true}},
		"measured": {`{"type":"OxygenMeasured","event_id":"a","tank":"A","remaining":727,"occurred_at":"2026-03-01T15:05:00+01:00"}`, nil,
			event.Event{Type: event.Measured, ID: "a", Amount: 727 * physic.Gram, OccurredAt: at}},
		"refilled, key as header": {`{"type":"refilled","tank":"A","amount":1}`, []string{"Idempotency-Key", "k 1"},
			event.Event{Type: event.Refilled, ID: "k 1", Amount: physic.Gram}},
		"key quoted as its draft has it": {`{"type":"refilled","tank":"A","amount":1}`, []string{"Idempotency-Key", `"a\"b\\"`},
			event.Event{Type: event.Refilled, ID: `a"b\`, Amount: physic.Gram}},
		"key in both": {`{"type":"refilled","event_id":"k","tank":"A","amount":1}`, []string{"Idempotency-Key", "k"},
			event.Event{Type: event.Refilled, ID: "k", Amount: physic.Gram}},
		"key beyond ASCII": {`{"type":"refilled","tank":"A","amount":1}`, []string{"Idempotency-Key", "Schlüssel"},
			event.Event{Type: event.Refilled, ID: "Schlüssel", Amount: physic.Gram}},
		"reversal of an own event": {`{"type":"reversed","event_id":"r","tank":"A","reverses":"a"}`, nil,
			event.Event{Type: event.Reversed, ID: "r", Reverses: "a", ReversesSource: "ctl-1"}},
		"reversal of an anonymous event": {`{"type":"reversed","event_id":"r","tank":"A","reverses":"a","reverses_source":""}`, nil,
			event.Event{Type: event.Reversed, ID: "r", Reverses: "a", ReversesSource: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s, taken := taking(t, Answer{}, nil)
			if w := s.post(c.body, c.headers...); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			c.want.Tank, c.want.Source, c.want.Version = "A", "ctl-1", event.WireVersion
			if diff := cmp.Diff([]Record{{Event: c.want, Key: c.want.ID}}, *taken); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordRefusesBeforeAnythingIsWritten(t *testing.T) {
	s, taken := taking(t, Answer{}, nil)
	const ok = `"type":"consumed","event_id":"a","tank":"A","amount":1`
	for _, c := range []struct {
		body    string
		status  int
		word    string // in error or hint
		headers []string
	}{
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "make a new event_id", nil}, // R2: nobody makes one up
		{`{"type":"consumed","event_id":"","tank":"A","amount":1}`, 400, "event_id", nil},
		{`{"type":"consumed","event_id":7,"tank":"A","amount":1}`, 400, "event_id", nil},
		{`{` + ok + `}`, 422, "differ", []string{"Idempotency-Key", "b"}},
		{`{` + ok + `}`, 400, "2 times", []string{"Idempotency-Key", "a", "Idempotency-Key", "a"}},
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "empty", []string{"Idempotency-Key", ""}},
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "quote", []string{"Idempotency-Key", `"a`}},
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "quotes", []string{"Idempotency-Key", `"a"b"`}},
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "quotes", []string{"Idempotency-Key", `""`}},
		{`{"type":"consumed","tank":"A","amount":1}`, 400, "UTF-8", []string{"Idempotency-Key", "a\xff"}},
		{`{"type":"consumed","event_id":"a\u001b[2J","tank":"A","amount":1}`, 400, "printable", nil},
		{`{"type":"consumed","event_id":"` + strings.Repeat("x", 193) + `","tank":"A","amount":1}`, 400, "too long", nil},
		{`{` + ok + `,"source":"other"}`, 400, "source", nil},
		{`{` + ok + `,"epoch":1,"seq":1}`, 400, "the node gives it", nil},
		{`{` + ok + `,"seq":1}`, 400, "seq", nil},
		{`{` + ok + `,"stands_for":[1,2]}`, 400, "stands_for", nil},
		{`{` + ok + `,"clock":"unsynced","age":3}`, 400, "age", nil},
		{`{` + ok + `,"v":2}`, 400, "version", nil},
		{`{` + ok + `,"amount":2}`, 400, "duplicate", nil},
		{`{` + ok + `}{}`, 400, "JSON", nil},
		{`{` + ok, 400, "JSON", nil},
		{`[` + ok + `]`, 400, "JSON object", nil},
		{``, 400, "JSON object", nil},
		{`null`, 400, "JSON object", nil},
		{"{\"type\":\"\xff\"}", 400, "JSON", nil},
		{`{"event_id":"a","tank":"A","amount":1}`, 400, "type", nil},
		{`{"type":"SequenceSkipped","event_id":"a","tank":"A","skips":[[1,2]],"skips_epoch":1}`, 400, "type", nil},
		{`{"type":"OxygenStolen","event_id":"a","tank":"A","amount":1}`, 400, "type", nil},
		{`{"type":3,"event_id":"a","tank":"A","amount":1}`, 400, "type", nil},
		{`{"type":"consumed","event_id":"a","amount":1}`, 400, "tank", nil},
		{`{"type":"consumed","event_id":"a","tank":"A/B","amount":1}`, 400, "tank", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":0}`, 400, "zero", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":-1}`, 400, "below zero", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":1e400}`, 400, "amount", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":"1"}`, 400, "amount", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":1,"unit":"lb"}`, 400, "bad_unit", nil},
		{`{"type":"consumed","event_id":"a","tank":"A","amount":1,"occurred_at":"yesterday"}`, 400, "occurred_at", nil},
	} {
		w := s.post(c.body, c.headers...)
		doc := decode[failure](t, w, c.status)
		if !strings.Contains(doc.Error+"\n"+doc.Hint, c.word) {
			t.Errorf("%s %q: %+v lacks %q", c.body, c.headers, doc, c.word)
		}
	}
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset"} {
		decode[failure](t, s.do("POST", "/api/events", exampleOfRecord, "Content-Type", media), 415)
	}
	decode[failure](t, s.post(exampleOfRecord, "Content-Encoding", "gzip"), 415)
	if len(*taken) != 0 {
		t.Errorf("%d of the refused were recorded: %+v", len(*taken), *taken)
	}
}

type adviceError struct{ error }

func (adviceError) Hint() string    { return "do this" }
func (a adviceError) Unwrap() error { return a.error }

func TestRecordErrorsHaveFittingStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		hint   string
	}{
		{fmt.Errorf("%w: its id is the node's", ErrInvalid), 400, ""},
		{fmt.Errorf("tank B: %w", ErrUnknownTank), 404, ""},
		{ErrBusy, 409, "repeat"},
		{fmt.Errorf("%w: %w", ErrKeyReused, errors.New("a")), 422, "new event_id"},
		{ErrUnavailable, 503, "counts once"},
		{ErrFull, 507, "outbox"},
		{adviceError{ErrFull}, 507, "do this"},
		{errors.New("no idea"), 500, ""},
	} {
		s, _ := taking(t, Answer{}, c.err)
		doc := decode[failure](t, s.post(exampleOfRecord), c.status)
		if doc.Error == "" || !strings.Contains(doc.Hint, c.hint) {
			t.Errorf("%v: %+v, want hint %q", c.err, doc, c.hint)
		}
	}
}

func TestRecordAnswersByOutcome(t *testing.T) {
	for _, c := range []struct {
		answer Answer
		status int
	}{
		{Answer{Outcome: "applied"}, 200}, {Answer{Outcome: "duplicate"}, 200}, {Answer{Outcome: "already_done"}, 200},
		{Answer{Outcome: "parked"}, 200}, {Answer{Outcome: "late"}, 200}, {Answer{Outcome: "stale"}, 200},
		{Answer{Outcome: "conflict"}, 422}, {Answer{Outcome: "quarantined", Reason: "limit"}, 422},
		{Answer{Outcome: "quarantined", Reason: "unknown_tank"}, 404},
	} {
		c.answer.EventID = "e-8842"
		s, _ := taking(t, c.answer, nil)
		got := decode[struct {
			failure
			Answer
		}](t, s.post(exampleOfRecord), c.status)
		if (got.Error != "") != (c.status != 200) || got.Outcome != c.answer.Outcome || got.EventID != "e-8842" {
			t.Errorf("%+v gives %+v", c.answer, got)
		}
	}
}

func TestRecordPendingSaysWhereToAsk(t *testing.T) {
	id := "a b/ü&source=x"
	s, _ := taking(t, Answer{EventID: id, Source: "ctl-1", Tank: "A", Pending: true}, nil)
	a := decode[Answer](t, s.post(exampleOfRecord), http.StatusAccepted)
	u, err := url.Parse(a.StatusURL)
	if err != nil || u.Path != "/api/events" || u.Query().Get("event_id") != id || u.Query().Get("source") != "ctl-1" {
		t.Errorf("status_url %q (%v) does not lead to %q of ctl-1", a.StatusURL, err, id)
	}
	if a.Outcome != "" || !a.Pending {
		t.Errorf("answer %+v, want no outcome", a)
	}
}

func TestRecordBusySaysWhen(t *testing.T) {
	s, _ := taking(t, Answer{}, ErrBusy)
	if w := s.post(exampleOfRecord); w.Code != http.StatusConflict || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

// Where an answer sends a client it is told that the event is on its way, not that
// nobody knows it.
func TestOutcomeOfWhatIsOnItsWay(t *testing.T) {
	for name, account := range map[string]bool{"with an account": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t, func(s *station) {
				s.board.Taken = func(id string) (bool, error) { return id == "k", nil }
				if !account {
					s.board.Account = nil
				}
			})
			a := decode[Answer](t, s.get("/api/events?event_id=k"), http.StatusAccepted)
			if !a.Pending || a.Outcome != "" || a.Elsewhere == account || a.StatusURL == "" {
				t.Errorf("%+v", a)
			}
			decode[failure](t, s.get("/api/events?event_id=other"), http.StatusNotFound)
			decode[failure](t, s.get("/api/events?event_id=k&source=other"), http.StatusNotFound)
		})
	}
}

func TestWebhookListing(t *testing.T) {
	s := newStation(t, nil)
	doc := decode[Notifications](t, s.get("/api/webhook"), 200)
	if doc.List == nil || len(doc.List) != 0 {
		t.Errorf("%+v", doc)
	}
	decode[failure](t, s.get("/api/webhook?limit=0"), 400)
}

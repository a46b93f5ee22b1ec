package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// record is POST /api/events: an operator's entry, or a program's. The key comes
// from the caller (R2, R15) as the event's event_id or as the Idempotency-Key, so
// that a repeat after a lost answer counts once.
func (a *api) record(w http.ResponseWriter, r *http.Request) {
	if a.board.Record == nil {
		a.fail(w, r, roleOff("way to record events"))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	rec, err := a.decode(body, r.Header.Values("Idempotency-Key"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	answer, err := a.board.Record(r.Context(), rec)
	if errors.Is(err, ErrBusy) {
		w.Header().Set("Retry-After", "1") // RFC 9110 section 10.2.3
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, answer)
}

// readBody reads at most event.MaxBytes of JSON. The media type is asked for
// because a form of any page can send the others without asking first.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, &fault{status: http.StatusUnsupportedMediaType, text: "the body is not said to be JSON",
			hint: "send Content-Type: application/json"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &fault{status: http.StatusUnsupportedMediaType, text: "the body is encoded as " + shorten(coding), hint: "send it as it is"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, event.MaxBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, badRequest("", "read body: %v", err)
	}
	return body, nil
}

func tooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, text: "an event has at most 16 KiB"}
}

// answer writes what became of a recorded event: 200 when the account holds it,
// 202 while that is not known, and 4xx when the ledger has refused it.
func (a *api) answer(w http.ResponseWriter, answer Answer) {
	doc := struct {
		failure
		Answer
	}{Answer: answer}
	status := http.StatusOK
	switch {
	case answer.Pending:
		status = http.StatusAccepted
		if answer.StatusURL == "" {
			doc.StatusURL = statusURL(answer.Source, answer.EventID)
		}
	case answer.Outcome == ledger.Quarantined.String():
		status = http.StatusUnprocessableEntity
		if answer.Reason == string(event.UnknownTank) {
			status = http.StatusNotFound
		}
		doc.failure = failure{"the ledger has quarantined the event: " + answer.Reason, "oxyd quarantine list, or GET /api/quarantine, shows it"}
	case answer.Outcome == ledger.Conflict.String():
		status = http.StatusUnprocessableEntity
		doc.failure = failure{"the ledger knows this event_id with another content", hintOf(ErrKeyReused)}
	}
	if doc.Error == "" {
		writeJSON(w, status, doc.Answer)
		return
	}
	writeJSON(w, status, doc)
}

func statusURL(source, id string) string {
	return "/api/events?" + url.Values{"source": {source}, "event_id": {id}}.Encode()
}

// outcome is GET /api/events?source=…&event_id=…: what became of an event. Without
// a source this node's own are meant; an empty source is the anonymous one. One
// that the account does not know yet, and this node has on disk, is 202.
func (a *api) outcome(w http.ResponseWriter, r *http.Request) {
	answer, err := a.became(r)
	switch {
	case err != nil:
		a.fail(w, r, err)
	case answer.Pending:
		a.answer(w, answer)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

func (a *api) became(r *http.Request) (Answer, error) {
	query := r.URL.Query()
	id, source := query.Get("event_id"), a.board.Source
	if query.Has("source") {
		source = query.Get("source")
	}
	if id == "" || len(id) > event.MaxIDBytes {
		return Answer{}, badRequest("GET /api/events?event_id=… and, where it is not this node's, &source=…", "event_id: want 1 to %d bytes", event.MaxIDBytes)
	}
	answer := Answer{EventID: id, Source: source}
	if account := a.board.Account; account != nil {
		result, ok, err := account.Outcome(event.Identity{Source: source, ID: id})
		if ok || err != nil {
			answer.Outcome, answer.Reason, answer.LSN = result.Outcome.String(), string(result.Reason), result.LSN
			return answer, err
		}
	}
	if source == a.board.Source && a.board.Taken != nil {
		taken, err := a.board.Taken(id)
		if taken || err != nil {
			answer.Pending, answer.Elsewhere = true, a.board.Account == nil
			return answer, err
		}
	}
	if a.board.Account == nil {
		return Answer{}, roleOff("ledger")
	}
	return Answer{}, &fault{status: http.StatusNotFound,
		text: "the account knows no event " + shorten(id) + " of " + sourceName(source),
		hint: "it may be on its way still: /api/node shows what the outbox holds"}
}

func sourceName(source string) string {
	if source == "" {
		return "the anonymous source"
	}
	return "source " + shorten(source)
}

// keyOf reads the Idempotency-Key: a structured-field string in quotes, as its
// draft wants it (draft-ietf-httpapi-idempotency-key-header-07 section 2.1), or
// the bare key, as most clients send it. It is "" where there is none.
func keyOf(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", badRequest("", "Idempotency-Key stands %d times", len(values))
	}
	key := values[0]
	if key == "" || !utf8.ValidString(key) {
		return "", badRequest("", "Idempotency-Key: want UTF-8 text that is not empty, is %s", shorten(key))
	}
	if key[0] != '"' {
		return key, nil
	}
	quoted := key[1:]
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		c := quoted[i]
		switch {
		case c == '"' && i == len(quoted)-1 && i > 0:
			return b.String(), nil
		case c == '\\' && i+1 < len(quoted) && (quoted[i+1] == '"' || quoted[i+1] == '\\'): // RFC 9651 section 3.3.3
			i++
			b.WriteByte(quoted[i])
		case c == '"' || c == '\\':
			return "", badRequest("", "Idempotency-Key: want text in quotes, or without any, is %s", shorten(key))
		default:
			b.WriteByte(c)
		}
	}
	return "", badRequest("", "Idempotency-Key: the quote does not end in %s", shorten(key))
}

package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode"
	"unicode/utf8"

	"oxyd/ledger"
)

// fault is an error with its place in HTTP.
type fault struct {
	status     int
	text, hint string
}

func (f *fault) Error() string { return f.text }

// Hint tells what to do about it.
func (f *fault) Hint() string { return f.hint }

// roleOff says that what answers here is turned off.
func roleOff(what string) *fault {
	return &fault{status: http.StatusNotFound, text: "this node has no " + what,
		hint: "ask a node whose config has the section that turns it on"}
}

func notFound(format string, args ...any) *fault {
	return &fault{status: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}

func badRequest(hint, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...), hint: hint}
}

// statusOf gives the HTTP status of an error.
func statusOf(err error) int {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.status
	}
	for _, known := range []struct {
		err    error
		status int
	}{
		{ErrInvalid, http.StatusBadRequest},
		{ErrUnknownTank, http.StatusNotFound},
		{ErrBusy, http.StatusConflict},
		{ErrKeyReused, http.StatusUnprocessableEntity},
		{ErrUnavailable, http.StatusServiceUnavailable},
		{ErrFull, http.StatusInsufficientStorage},
		{ledger.ErrNote, http.StatusBadRequest},
		{ledger.ErrNotKept, http.StatusNotFound},
		{ledger.ErrAmbiguous, http.StatusConflict},
		{ledger.ErrSettled, http.StatusConflict},
		{ledger.ErrNotRetryable, http.StatusUnprocessableEntity},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}

// hintOf gives the hint that an error carries, or the one of its kind.
func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	switch {
	case errors.Is(err, ErrBusy):
		return "the first request with this event_id has no answer yet: repeat this one in a moment"
	case errors.Is(err, ErrKeyReused):
		return "a new fact needs a new event_id; a wrong one is taken back by a reversal"
	case errors.Is(err, ErrFull):
		return "the outbox is full of events that no broker has taken: see /api/node, bring the broker back or raise outbox.max_bytes"
	case errors.Is(err, ErrUnavailable):
		return "repeat it with the same event_id: it counts once"
	case errors.Is(err, ledger.ErrAmbiguous):
		return "give more digits of the id"
	case errors.Is(err, ledger.ErrNotKept):
		return "GET /api/quarantine lists them; what the journal says of an event is at GET /api/journal"
	case errors.Is(err, ledger.ErrNotRetryable):
		return "if it happened, record it anew under an event_id of its own"
	}
	return ""
}

// json turns a reading of documents into a handler. Errors that are ours and not
// the caller's are logged here, once.
func (a *api) json(read func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		doc, err := read(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, doc)
	}
}

func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := &fault{status: statusOf(err), text: err.Error(), hint: hintOf(err)}
	if f.status == http.StatusInternalServerError {
		a.log.Error().Err(err).Str("path", r.URL.Path).Msg("request cannot be answered")
	}
	writeFault(w, f)
}

// failure is the document of every error (contract section 9).
type failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

func writeFault(w http.ResponseWriter, f *fault) {
	writeJSON(w, f.status, failure{f.text, f.hint})
}

// writeJSON writes one document and a newline. A document that cannot be encoded
// is a defect of this program and becomes a 500.
func writeJSON(w http.ResponseWriter, status int, doc any) {
	text, err := json.Marshal(doc)
	if err != nil {
		status = http.StatusInternalServerError
		text = []byte(`{"error":"the answer cannot be encoded"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	text = append(escape(text), '\n')
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write(text) // an error here is the client's going away
}

// escape writes what is not printable in the strings of a JSON text as \u escapes.
// encoding/json does so below U+0020 only; but U+009B steers a terminal as well,
// and U+202E turns its line around. Outside strings JSON is ASCII.
func escape(text []byte) []byte {
	out := make([]byte, 0, len(text)+1)
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf && c != 0x7f {
			out = append(out, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case unicode.IsPrint(r):
			out = append(out, text[i:i+n]...)
		case r > 0xffff:
			r -= 0x10000 // a surrogate pair, RFC 8259 section 7
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}

// shorten quotes what a caller sent, for an answer of bounded length.
func shorten(text string) string {
	const most = 64
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

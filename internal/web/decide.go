package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// Verdict is the body of POST /api/quarantine/{id}/retry and /discard; it may be
// left out.
type Verdict struct {
	Note     string       `json:"note"`     // why, one line of at most ledger.MaxNoteBytes; journalled
	Overrule event.Reason `json:"overrule"` // of retry: the rule to overrule; "": that of the first refusal
}

// quarantineID reads the id of a quarantined message, or a beginning of it.
func quarantineID(r *http.Request) (string, error) {
	id := strings.ToLower(r.PathValue("id"))
	if len(id) < minIDDigits || len(id) > maxIDDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return "", badRequest("GET /api/quarantine lists them", "%s is no quarantine id: want its %d hex digits, or at least the first %d",
			shorten(id), maxIDDigits, minIDDigits)
	}
	return id, nil
}

// retry is POST /api/quarantine/{id}/retry. It answers 200 with the decision where
// the message is accepted, and 422 where another rule refuses it.
func (a *api) retry(w http.ResponseWriter, r *http.Request) {
	a.verdict(w, r, func(account *ledger.Ledger, id string, v Verdict) (ledger.Decision, error) {
		return account.Retry(id, v.Overrule, v.Note)
	})
}

// discard is POST /api/quarantine/{id}/discard.
func (a *api) discard(w http.ResponseWriter, r *http.Request) {
	a.verdict(w, r, func(account *ledger.Ledger, id string, v Verdict) (ledger.Decision, error) {
		if v.Overrule != "" {
			return ledger.Decision{}, badRequest("leave it out", "overrule: a discard overrules nothing")
		}
		return account.Discard(id, v.Note)
	})
}

func (a *api) verdict(w http.ResponseWriter, r *http.Request, decide func(*ledger.Ledger, string, Verdict) (ledger.Decision, error)) {
	account, err := a.account()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	id, err := quarantineID(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	v, err := readVerdict(w, r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	d, err := decide(account, id, v)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if d.Decision == ledger.Retried && !d.Outcome.Accepted() {
		writeJSON(w, http.StatusUnprocessableEntity, struct {
			failure
			ledger.Decision
		}{failure{"it stays in quarantine: now it is refused for " + string(d.Reason), "overrule that as well, with overrule " + string(d.Reason)}, d})
		return
	}
	writeJSON(w, http.StatusOK, d)
}

// readVerdict reads the body, where there is one.
func readVerdict(w http.ResponseWriter, r *http.Request) (v Verdict, err error) {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return v, nil
	}
	body, err := readBody(w, r)
	if err != nil {
		return v, err
	}
	members, err := membersOf(body) // strict: no name twice
	if err != nil {
		return v, err
	}
	for name := range members {
		if name != "note" && name != "overrule" {
			return v, badRequest("note says why, overrule which rule", "the body has a member %s", shorten(name))
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, badRequest("", "note and overrule: want text")
	}
	return v, nil
}

package web

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// How many rows a listing gives: without ?limit=, and at most.
const (
	defaultLimit = 100
	MaxLimit     = 1000
)

func (a *api) account() (*ledger.Ledger, error) {
	if a.board.Account == nil {
		return nil, roleOff("ledger")
	}
	return a.board.Account, nil
}

func (a *api) tanks(*http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	return account.Balances()
}

func (a *api) tank(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	return knownTank(account, r.PathValue("tank"))
}

func knownTank(account *ledger.Ledger, id string) (ledger.Balance, error) {
	doc, ok, err := account.Balance(id)
	if err == nil && !ok {
		err = &fault{status: http.StatusNotFound, text: "the account has no tank " + shorten(id),
			hint: "GET /api/tanks lists them all"}
	}
	return doc, err
}

func (a *api) tankEvents(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("tank")
	if _, err := knownTank(account, id); err != nil {
		return nil, err
	}
	return account.Events(id, limit)
}

func (a *api) sources(*http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	return account.Sources()
}

// limitOf reads ?limit=.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, badRequest("", "limit: want a number from 1 to %d, is %s", MaxLimit, shorten(text))
	}
	return n, nil
}

// Kept is one quarantined message as the API tells it. A listing leaves the
// payload out.
type Kept struct {
	ID       string       `json:"id"`
	Reason   event.Reason `json:"reason"`
	Detail   string       `json:"detail,omitempty"`
	Count    uint64       `json:"count"` // how often this content came
	First    time.Time    `json:"first"`
	Last     time.Time    `json:"last"`
	Topic    string       `json:"topic"`
	Retained bool         `json:"retained"`
	Tank     string       `json:"tank,omitempty"`
	Source   string       `json:"source,omitempty"`
	EventID  string       `json:"event_id,omitempty"`
	LSN      uint64       `json:"lsn,omitempty"` // of a conflict: the journal row of the content in force
	Row      uint64       `json:"row,omitempty"` // of what a rule refused: its own journal row
	Bytes    int          `json:"payload_bytes"`

	Payload string `json:"payload,omitempty"`      // base64 of the bytes as they came
	Text    string `json:"payload_text,omitempty"` // the same as text, where they are UTF-8
}

// keptOf copies field by field, so that a new column of the store does not become
// part of the API unseen.
func keptOf(k *ledger.Kept) Kept {
	return Kept{ID: k.ID, Reason: k.Reason, Detail: k.Detail, Count: k.Count, First: k.First, Last: k.Last,
		Topic: k.Topic, Retained: k.Retained, Tank: k.Tank, Source: k.Source, EventID: k.EventID, LSN: k.LSN,
		Row: k.Row, Bytes: len(k.Payload)}
}

func (a *api) quarantine(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	rows, err := account.Quarantine(limit)
	if err != nil {
		return nil, err
	}
	list := make([]Kept, len(rows))
	for i := range rows {
		list[i] = keptOf(&rows[i])
	}
	return list, nil
}

// The digits of a quarantine id that are asked for at least, and that there are.
const (
	minIDDigits = 6
	maxIDDigits = 32
)

func (a *api) kept(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	id, err := quarantineID(r)
	if err != nil {
		return nil, err
	}
	row, ok, err := account.KeptByID(id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notFound("nothing in quarantine has the id %s", shorten(id))
	}
	doc := keptOf(&row)
	doc.Payload = base64.StdEncoding.EncodeToString(row.Payload)
	if utf8.Valid(row.Payload) {
		doc.Text = string(row.Payload)
	}
	return doc, nil
}

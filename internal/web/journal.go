package web

import (
	"net/http"
	"strconv"
	"time"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// JournalPage is one page of GET /api/journal: rows in the order of the journal.
type JournalPage struct {
	Records []ledger.Record `json:"records"`
	Next    uint64          `json:"next"` // ask on with after=next
	Done    bool            `json:"done"` // there was no more to read
}

// journal answers GET /api/journal?tank=&from=&to=&after=&limit=, all optional.
func (a *api) journal(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	q := ledger.Query{Tank: r.URL.Query().Get("tank")}
	if q.Tank != "" && !event.ValidName(q.Tank) {
		return nil, badRequest("", "tank: want a name, is %s", shorten(q.Tank))
	}
	if q.Limit, err = limitOf(r); err != nil {
		return nil, err
	}
	for name, at := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, badRequest("", "%s: want RFC 3339, is %s", name, shorten(text))
		}
	}
	if text := r.URL.Query().Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 63); err != nil {
			return nil, badRequest("", "after: want a row of the journal, is %s", shorten(text))
		}
	}
	var page JournalPage
	page.Records, page.Next, page.Done, err = account.Journal(q)
	return page, err
}

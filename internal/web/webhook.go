package web

import (
	"net/http"

	"oxyd/ledger"
)

// Notifications is the document of GET /api/webhook: what is to be told, and what
// became of what was. The newest stands first.
type Notifications struct {
	ledger.OutCounts
	List []ledger.Notification `json:"notifications"`
}

func (a *api) webhook(r *http.Request) (any, error) {
	account, err := a.account()
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	list, counts, err := account.Notifications(limit)
	return Notifications{counts, list}, err
}

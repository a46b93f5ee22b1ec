package web

import (
	"net/http"
	"strconv"
	"time"
)

// backup streams the account's file as it is committed now. Its length is said
// first, so that a copy that was cut is known as such. It may take longer than
// other answers, but its reader must not stand still: a slow one would keep bolt
// from using pages again.
func (a *api) backup(w http.ResponseWriter, r *http.Request) {
	account, err := a.account()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(backupTimeout)) // absent where there is none to lift
	begun := false
	err = account.Backup(w, func(size int64) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="ledger.bolt"`)
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		begun = true
	})
	if err != nil && !begun {
		a.fail(w, r, err)
	}
}

// backupTimeout bounds one backup.
const backupTimeout = 30 * time.Minute

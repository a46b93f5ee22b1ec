package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// R14: what is refused pages somebody once, whatever is killed in between: the
// repeat of a failed delivery carries the same key and bytes after kill -9.
func TestWebhookOverAKill(t *testing.T) {
	type call struct{ key, body string }
	calls := make(chan call, 100)
	var works atomic.Bool
	pager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header.Get("Idempotency-Key"), string(body)}
		if !works.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer pager.Close()
	n := newNode(t, strings.Replace(allInOne, "\nledger:\n", "\nledger: {webhook: {url: \""+pager.URL+"/page\", events: [quarantine]}}\n", 1), "")
	n.startReady()
	s := newStranger(t, n.broker)
	s.publish("oxyd/base/tank/A/consumed", "poison")
	next := func() call {
		select {
		case c := <-calls:
			return c
		case <-time.After(20 * time.Second):
			t.Fatal("the pager is not called")
			panic("unreachable")
		}
	}
	first := next()
	n.kill()
	for len(calls) > 0 { // repeats before the kill
		<-calls
	}
	works.Store(true)
	n.startReady()
	if again := next(); again != first || !strings.HasPrefix(first.key, "main-") || !strings.Contains(first.body, `"kind":"quarantine"`) {
		t.Errorf("after kill -9 the pager is told %+v, before %+v", again, first)
	}
	var doc struct {
		Delivered     int `json:"delivered"`
		Notifications []struct {
			State string `json:"state"`
		} `json:"notifications"`
	}
	n.until("the outcome", func() bool { return n.get("/api/webhook", &doc) == http.StatusOK && doc.Delivered == 1 })
	if len(doc.Notifications) != 1 || doc.Notifications[0].State != "delivered" {
		t.Errorf("%+v", doc)
	}
	out, err := n.command("webhook", "list")
	if err != nil || !strings.Contains(out, "delivered") || !strings.Contains(out, "malformed") {
		t.Errorf("webhook list: %v\n%s", err, out)
	}
	if text := n.metrics(); !strings.Contains(text, "\noxyd_webhook_delivered_total 1\n") {
		t.Error("the metrics do not say it")
	}
	select {
	case c := <-calls:
		t.Errorf("called once more: %+v", c)
	default:
	}
}

// Of two ledgers that see the same poison, the publishing one tells.
func TestWebhookOfAStandbyIsSilent(t *testing.T) {
	pager := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the standby tells somebody") }))
	defer pager.Close()
	n := newNode(t, strings.Replace(allInOne, "\nledger:\n", fmt.Sprintf("\nledger: {publish: false, webhook: {url: %q}}\n", pager.URL), 1), "")
	n.startReady()
	newStranger(t, n.broker).publish("oxyd/base/tank/A/consumed", "poison")
	n.until("the quarantine", func() bool { return n.status().Outcomes["quarantined"] == 1 })
	var doc struct {
		Notices int `json:"notices"`
	}
	if n.get("/api/webhook", &doc) != http.StatusOK || doc.Notices != 0 {
		t.Errorf("the standby keeps notices: %+v", doc)
	}
}

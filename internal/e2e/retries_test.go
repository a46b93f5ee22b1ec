package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"oxyd/internal/mqtttest"
)

// meterOnly books what it is told and is idle otherwise.
const meterOnly = `
site: base
node: meter
data_dir: DIR
tanks: [{id: A}]
mqtt: {broker: "tcp://OUTSIDE"}
web: {listen: WEB}
`

// book has the node take n consumptions of 1 g, named from first on.
func (n *node) book(first, count int) {
	n.t.Helper()
	for i := first; i < first+count; i++ {
		code := n.call(http.MethodPost, "/api/events", fmt.Sprintf("b-%d", i), `{"type":"OxygenConsumed","tank":"A","amount":1}`, nil)
		if code != http.StatusOK && code != http.StatusAccepted {
			n.t.Fatalf("entry %d is answered with %d", i, code)
		}
	}
}

// rewrite changes the node's config file; it counts from the next start on.
func (n *node) rewrite(from, to string) {
	n.t.Helper()
	text, err := os.ReadFile(n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		n.t.Fatalf("the config has no %q", from)
	}
	if err := os.WriteFile(n.config, []byte(strings.ReplaceAll(string(text), from, to)), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// Retries have no end, and a changed config loses nothing: the same ids go out,
// under the prefix that holds then.
func TestFC14RetriesSurviveRefusalsAndConfigChanges(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	proxy := mqtttest.NewProxy(t, broker.Addr())
	proxy.Refuse(true)
	s := newStranger(t, broker.Addr())
	s.wait(s.client.Subscribe("habitat/#", 1, nil))
	meter := newNode(t, meterOnly, proxy.Addr())
	meter.start()
	meter.book(1, 3)
	var status struct {
		MQTT struct {
			Publisher struct {
				Attempts int `json:"attempts"`
			} `json:"publisher"`
		} `json:"mqtt"`
	}
	mqtttest.EventuallyWithin(t, 4*mqtttest.Patience, "attempts to be shown", func() bool {
		return meter.get("/api/status", &status) == http.StatusOK && status.MQTT.Publisher.Attempts >= 5
	})
	if got := meter.outbox().Outbox.Pending; got != 3 {
		t.Errorf("%d events wait, want all 3", got)
	}
	meter.kill()
	meter.rewrite("site: base", "site: base\ntopic_prefix: habitat")
	proxy.Refuse(false)
	meter.startReady()
	meter.until("all three under the new prefix", func() bool { return len(s.received("habitat/base/tank/A/consumed")) >= 3 })
	for i, payload := range s.received("habitat/base/tank/A/consumed") {
		if want := fmt.Sprintf(`"event_id":"b-%d"`, i+1); !strings.Contains(payload, want) {
			t.Errorf("message %d is %s, want %s", i+1, payload, want)
		}
	}
	if old := s.received("oxyd/base/tank/A/consumed"); len(old) > 0 {
		t.Errorf("under the old prefix came %v", old)
	}
}

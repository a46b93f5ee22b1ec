package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oxyd/internal/mqtttest"
)

// The configs of the four ways to run.
const (
	allInOne = `
site: base
node: all
data_dir: DIR
tanks:
  - {id: A, capacity: 1000 g, initial: 847 g}
  - {id: hab-1, capacity: 14.3 kg}
sensors:
  - {tank: hab-1, driver: simulated, interval: 200ms}
broker: {listen: BROKER, ack_wait: 1s}
ledger:
outbox: {commit_interval: 200ms}
web: {listen: WEB}
`
	edgeOnly = `
site: base
node: edge
data_dir: DIR
tanks: [{id: hab-1, capacity: 14.3 kg}]
sensors:
  - {tank: hab-1, driver: simulated, interval: 100ms}
mqtt: {broker: "tcp://OUTSIDE"}
outbox: {commit_interval: 100ms}
`
	ledgerOnly = `
site: base
node: room
data_dir: DIR
tanks: [{id: hab-1, capacity: 14.3 kg}, {id: A, initial: 847 g}]
mqtt: {broker: "tcp://OUTSIDE"}
ledger:
web: {listen: WEB}
`
)

// R7 by hand, with a stranger's client, each event on a store of its own.
func TestExampleOfRecordByHand(t *testing.T) {
	for leaf, msg := range map[string]string{
		"consumed": `{"event_id":"e-8842","tank":"A","amount":120}`,
		"measured": `{"event_id":"e-8842","tank":"A","remaining":727}`,
	} {
		t.Run(leaf, func(t *testing.T) {
			n := newNode(t, allInOne, "")
			n.startReady()
			n.settled()
			s := newStranger(t, n.broker)
			n.until("the opening amount on the retained topic", func() bool {
				return balanceIn(s.newest("oxyd/base/tank/A/balance")) == "847"
			})
			for range 5 {
				s.publish("oxyd/base/tank/A/"+leaf, msg)
			}
			n.until("five deliveries decided", func() bool { return n.status().Outcomes["duplicate"] >= 4 })
			n.until("727 on the retained topic", func() bool {
				return balanceIn(s.newest("oxyd/base/tank/A/balance")) == "727"
			})
			for _, old := range s.received("oxyd/base/tank/A/balance") {
				if b := balanceIn(old); b != "847" && b != "727" {
					t.Errorf("a balance of %s was shown", b)
				}
			}
			out, err := n.command("tanks", "--json")
			var docs []balanceDoc
			if err != nil || json.Unmarshal([]byte(out), &docs) != nil {
				t.Fatalf("oxyd tanks --json: %v\n%s", err, out)
			}
			if i := slices.IndexFunc(docs, func(d balanceDoc) bool { return d.Tank == "A" }); i < 0 || docs[i].Balance != "727" {
				t.Errorf("oxyd tanks shows %s", out)
			}
			for _, topic := range []string{"oxyd/base/tank/hab-1/measured", "oxyd/base/node/all/status", "oxyd/base/ledger/main/status"} {
				n.until(topic, func() bool { return s.newest(topic) != "" })
			}
		})
	}
}

func balanceIn(doc string) string {
	var b balanceDoc
	_ = json.Unmarshal([]byte(doc), &b)
	return b.Balance.String()
}

// Edge and ledger as two processes with an external broker between them.
func TestTwoProcessesOverMosquitto(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	edge, room := newNode(t, edgeOnly, broker.Addr()), newNode(t, ledgerOnly, broker.Addr())
	room.startReady()
	edge.startReady()
	room.until("the edge's readings in the account", func() bool { return room.tank("hab-1").Balance != "" })
	room.until("ten readings applied", func() bool { return room.status().Outcomes["applied"] >= 10 })
	if !room.tank("hab-1").TotalsComplete {
		t.Error("totals are not complete")
	}
}

// The two configs of the README, as they are typed.
func TestReadmeTwoProcesses(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*node
	for _, name := range []string{"edge", "base"} {
		_, rest, ok := strings.Cut(string(text), "```yaml\n# "+name+".yaml\n")
		config, _, ok2 := strings.Cut(rest, "```")
		if !ok || !ok2 {
			t.Fatalf("the README shows no %s.yaml", name)
		}
		config = strings.NewReplacer("./"+name, "DIR", "127.0.0.1:1883", "OUTSIDE", "\nweb:\n", "\nweb: {listen: WEB}\n").Replace(config)
		nodes = append(nodes, newNode(t, config, broker.Addr()))
	}
	edge, base := nodes[0], nodes[1]
	base.startReady()
	edge.startReady()
	base.until("readings in the account", func() bool { return base.status().Outcomes["applied"] >= 3 })

	late := func() *stranger { return newStranger(t, broker.Addr()) }
	base.stop()
	s := late()
	mqtttest.Eventually(t, "the stopped ledger's tank to be offline", func() bool {
		return s.newest("oxyd/base/tank/hab-1/availability") == "offline"
	})
}

// An entry by hand cannot be dated before the node's own measurement, which has it
// in already, nor where no clock stands; a repeat gets the first answer all the same.
func TestRecordRefusesWhatCannotBePlaced(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	book := func(key, body string) int { return n.call(http.MethodPost, "/api/events", key, body, nil) }
	for _, at := range []string{"1999-01-01T00:00:00Z", "2199-01-01T00:00:00Z"} {
		if code := book("x"+at, `{"type":"consumed","tank":"A","amount":1,"occurred_at":"`+at+`"}`); code != http.StatusBadRequest {
			t.Errorf("an entry of %s: %d", at, code)
		}
	}
	dated := `{"type":"consumed","tank":"A","amount":1,"occurred_at":"` + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + `"}`
	if code := book("before", dated); code != http.StatusOK {
		t.Errorf("a minute ago: %d", code)
	}
	if code := book("m", `{"type":"measured","tank":"A","remaining":727}`); code != http.StatusOK {
		t.Fatalf("measured: %d", code)
	}
	if code := book("after", dated); code != http.StatusBadRequest {
		t.Errorf("a minute ago, after a measurement: %d", code)
	}
	if code := book("before", dated); code != http.StatusOK {
		t.Errorf("the repeat: %d", code)
	}
	if got := n.tank("A").Balance; got != "727" {
		t.Errorf("balance is %s, want 727", got)
	}
}

func TestFC04BrokerUnreachableAtBoot(t *testing.T) {
	for _, where := range []struct{ name, first string }{{"refused", "127.0.0.1:1"}, {"unresolvable", "no-such-host.invalid:1883"}} {
		t.Run(where.name, func(t *testing.T) {
			room := newNode(t, allInOne, "")
			edge := newNode(t, edgeOnly, where.first)
			edge.start()
			edge.until("three readings kept", func() bool { return edge.outbox().Outbox.Pending >= 3 })
			if code := edge.get("/readyz", nil); code != http.StatusServiceUnavailable {
				t.Errorf("readyz says %d without a broker", code)
			}
			edge.kill()

			room.startReady()
			s := newStranger(t, room.broker)
			text, err := os.ReadFile(edge.config)
			if err != nil {
				t.Fatal(err)
			}
			fixed := strings.Replace(string(text), where.first, room.broker, 1)
			if err := os.WriteFile(edge.config, []byte(fixed), 0o600); err != nil {
				t.Fatal(err)
			}
			edge.startReady()
			topic := "oxyd/base/tank/hab-1/measured"
			edge.until("the old epoch's readings and new ones", func() bool { return len(epochsIn(s, topic)) >= 2 })
			inOrder(t, s, topic, 3)
		})
	}
}

type numbered struct {
	Source     string
	Epoch, Seq uint64
}

func eventsOf(s *stranger, topic string) (list []numbered) {
	for _, payload := range s.received(topic) {
		var e numbered
		if json.Unmarshal([]byte(payload), &e) == nil && e.Source == "edge" {
			list = append(list, e)
		}
	}
	return list
}

func epochsIn(s *stranger, topic string) map[uint64]bool {
	epochs := map[uint64]bool{}
	for _, e := range eventsOf(s, topic) {
		epochs[e.Epoch] = true
	}
	return epochs
}

// inOrder requires that first deliveries came in the order of their making, with
// no number left out.
func inOrder(t *testing.T, s *stranger, topic string, atLeast int) {
	t.Helper()
	var last numbered
	n := 0
	for _, e := range eventsOf(s, topic) {
		if e.Epoch < last.Epoch || e.Epoch == last.Epoch && e.Seq <= last.Seq {
			continue // a repeat of what was seen
		}
		want := last.Seq + 1
		if e.Epoch != last.Epoch {
			want = 1
		}
		if e.Seq != want {
			t.Errorf("number %d of epoch %d came where %d was due", e.Seq, e.Epoch, want)
		}
		last = e
		n++
	}
	if n < atLeast {
		t.Errorf("%d events came, want at least %d", n, atLeast)
	}
}

func TestFC81WillAndBirthAreRetained(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	edge := newNode(t, edgeOnly, broker.Addr())
	statusSays := func(want string) {
		t.Helper()
		late := newStranger(t, broker.Addr())
		mqtttest.Eventually(t, "a late subscriber to see "+want, func() bool {
			return strings.Contains(late.newest("oxyd/base/node/edge/status"), `"status":"`+want+`"`)
		})
	}
	edge.startReady()
	statusSays("online")
	edge.kill()
	statusSays("offline")
	edge.startReady()
	statusSays("online")
}

func TestFC82CleanStopSaysOffline(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	edge := newNode(t, edgeOnly, broker.Addr())
	edge.startReady()
	edge.stop()
	late := newStranger(t, broker.Addr())
	mqtttest.Eventually(t, "offline with its reason", func() bool {
		doc := late.newest("oxyd/base/node/edge/status")
		return strings.Contains(doc, `"status":"offline"`) && strings.Contains(doc, `"reason":"shutdown"`)
	})
}

// FC-08 (a): after a clean stop nothing that was acknowledged is sent again.
func TestFC08CleanRestartResendsNothing(t *testing.T) {
	room := newNode(t, allInOne, "")
	room.startReady()
	edge := newNode(t, edgeOnly, room.broker)
	edge.startReady()
	topic := "oxyd/base/tank/hab-1/measured"
	s := newStranger(t, room.broker)
	edge.until("readings delivered", func() bool { return len(eventsOf(s, topic)) >= 3 })
	edge.stop()
	edge.startReady()
	edge.until("readings of the next run", func() bool { return len(epochsIn(s, topic)) >= 2 })
	seen := map[numbered]int{}
	for _, e := range eventsOf(s, topic) {
		seen[e]++
	}
	for e, n := range seen {
		if n > 1 {
			t.Errorf("%+v was sent %d times", e, n)
		}
	}
}

func TestFC91SecondProcess(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	begun := time.Now()
	out, err := n.command("run")
	if err == nil || time.Since(begun) > 5*time.Second {
		t.Fatalf("a second process on the same store: %v after %v\n%s", err, time.Since(begun), out)
	}
	if !strings.Contains(out, filepath.Join(n.dir, "data")) || !strings.Contains(out, "in use by another oxyd") {
		t.Errorf("the message does not say what is held by whom:\n%s", out)
	}
	if out, err := n.command("tanks"); err != nil || !strings.Contains(out, "hab-1") {
		t.Errorf("reading beside the daemon: %v\n%s", err, out)
	}
}

// Every message of a hostile client is quarantined and acknowledged; what is good
// counts; nothing loops.
func TestFC31HostileClient(t *testing.T) {
	n := newNode(t, allInOne, "")
	n.startReady()
	s := newStranger(t, n.broker)
	for _, bad := range []string{`{`, `{"amt":NaN}`, `{"event_id":"v","tank":"A","amount":1,"v":99}`, `{"event_id":"n","tank":"A","amount":-5}`,
		`{"event_id":"x","tank":"B","amount":5}`, "\x00\xff", strings.Repeat("[", 10000), ""} {
		s.publish("oxyd/base/tank/A/consumed", bad)
	}
	s.publish("oxyd/base/tank/A/consumed", `{"event_id":"good","tank":"A","amount":47}`)
	n.until("the good one counted", func() bool { return n.tank("A").Balance == "800" })
	if q := n.status().Outcomes["quarantined"]; q != 8 {
		t.Errorf("%d quarantined, want 8", q)
	}
	if out, err := n.command("quarantine", "list"); err != nil || !strings.Contains(out, "malformed") {
		t.Errorf("quarantine list: %v\n%s", err, out)
	}
}

// kill -9 of edge and of ledger under load, over a broker that keeps its
// memory: what was answered as taken is in the account exactly once.
func TestFC90KillTorture(t *testing.T) {
	t.Run("mosquitto", func(t *testing.T) {
		torture(t, mqtttest.StartMosquitto(t, "persistence true", "max_queued_messages 0").Addr(), nil)
	})
	t.Run("embedded", func(t *testing.T) {
		b := newNode(t, "site: base\nnode: broker\ndata_dir: DIR\nbroker: {listen: BROKER, ack_wait: 1s}\n", "")
		b.startReady()
		torture(t, b.broker, b)
	})
}

func torture(t *testing.T, broker string, third *node) {
	edge, room := newNode(t, edgeOnly, broker), newNode(t, ledgerOnly, broker)
	room.startReady()
	edge.startReady()
	booked := 0
	book := func() {
		key := fmt.Sprintf("t-%d", booked)
		body := `{"type":"OxygenConsumed","tank":"A","amount":1}`
		for deadline := time.Now().Add(30 * time.Second); ; {
			// The same key until it is answered: whether the killed process had
			// booked it, the caller cannot know.
			if code := edge.call(http.MethodPost, "/api/events", key, body, nil); code == http.StatusOK || code == http.StatusAccepted {
				booked++
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("entry %s is not taken", key)
			}
			time.Sleep(10 * time.Millisecond) // the process is on its way up
		}
	}
	for i := range *kills {
		for range 20 {
			book()
		}
		victims := []*node{edge, room}
		if third != nil {
			victims = append(victims, third)
		}
		v := victims[i%len(victims)]
		v.kill()
		if i/len(victims)%2 == 0 {
			v.start() // the next kill finds it on its way up
		} else {
			v.startReady()
		}
	}
	book()
	// Up to twice resend_after: a broker that is killed may lose what it took.
	mqtttest.EventuallyWithin(t, 3*time.Minute, "every entry in the account", func() bool {
		doc := room.tank("A")
		return doc.Totals.Consumed == json.Number(fmt.Sprint(booked)) && doc.TotalsComplete
	})
	edge.until("the outbox to drain", func() bool { return edge.outbox().Outbox.Pending <= 2 })
	if got, want := room.tank("A").Balance, json.Number(fmt.Sprint(847-booked)); got != want {
		t.Errorf("balance is %s, want %s", got, want)
	}
	if n := room.status().Outcomes["conflict"]; n != 0 {
		t.Errorf("%d conflicts", n)
	}
}

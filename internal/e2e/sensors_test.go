package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// drill is an all-in-one node whose tanks are scripted; SENSORS stands for them.
const drill = `
site: base
node: all
data_dir: DIR
tanks: [{id: A, capacity: 10 kg}, {id: B, capacity: 10 kg}]
sensors:
SENSORS
broker: {listen: BROKER, ack_wait: 1s}
ledger: {stale_after: 1m}
outbox: {commit_interval: 100ms}
`

// quiet is a tank that nothing happens to.
const quiet = "  - {tank: B, driver: simulated, interval: 100ms, simulated: {start: 4 kg, consumption_per_hour: 0 g, no_refill: true}}\n"

// scripted is a tank to which one event happens, and what else its sensor has.
func scripted(event, more string) string {
	return fmt.Sprintf("  - {tank: A, driver: simulated, interval: 100ms, simulated: {start: 6 kg, consumption_per_hour: 0 g, no_refill: true, noise: 1 g, events: [%s]}%s}\n", event, more)
}

// startDrill starts a node with a stranger who hears all from before the first event.
func startDrill(t *testing.T, sensors string) (*node, *stranger) {
	t.Helper()
	n := newNode(t, strings.Replace(drill, "SENSORS\n", sensors, 1), "")
	n.start()
	return n, newStranger(t, n.broker)
}

// wireEvent is an event as a stranger reads it.
type wireEvent struct {
	Kind       string      `json:"-"` // the topic's last level
	Remaining  json.Number `json:"remaining"`
	Amount     json.Number `json:"amount"`
	Epoch      uint64      `json:"epoch"`
	Seq        uint64      `json:"seq"`
	OccurredAt time.Time   `json:"occurred_at"`
	Quality    string      `json:"quality"`
}

func grams(n json.Number) float64 {
	f, _ := n.Float64()
	return f
}

// events are those of a tank, by their numbers.
func (s *stranger) events(tank string) (list []wireEvent) {
	s.t.Helper()
	for _, kind := range []string{"measured", "consumed", "refilled"} {
		for _, text := range s.received("oxyd/base/tank/" + tank + "/" + kind) {
			e := wireEvent{Kind: kind}
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				s.t.Fatalf("%v in %s", err, text)
			}
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b wireEvent) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

func (s *stranger) measured(tank string) (list []wireEvent) {
	s.t.Helper()
	return slices.DeleteFunc(s.events(tank), func(e wireEvent) bool { return e.Kind != "measured" })
}

// sensorsDoc is what the node's retained status says of its sensors.
type sensorsDoc struct {
	Status string `json:"status"`
	Alarms []struct {
		Kind, Severity, Text string
	} `json:"alarms"`
	Sensors []sensorDoc `json:"sensors"`
}

type sensorDoc struct {
	Tank, Name, State, Reason string
	Since                     time.Time
	Faults                    uint64
	LastGood                  *struct {
		Remaining json.Number
		Quality   string
		At        time.Time
	} `json:"last_good"`
}

const nodeTopic = "oxyd/base/node/all/status"

func (s *stranger) nodeStatuses() (list []sensorsDoc) {
	s.t.Helper()
	for _, text := range s.received(nodeTopic) {
		var doc sensorsDoc
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			s.t.Fatalf("%v in %s", err, text)
		}
		list = append(list, doc)
	}
	return list
}

func (d *sensorsDoc) sensor(tank string) sensorDoc {
	if i := slices.IndexFunc(d.Sensors, func(s sensorDoc) bool { return s.Tank == tank }); i >= 0 {
		return d.Sensors[i]
	}
	return sensorDoc{}
}

func (d *sensorsDoc) alarm(kind string) (text string) {
	for _, a := range d.Alarms {
		if a.Kind == kind {
			text = a.Severity + " " + a.Text
		}
	}
	return text
}

// status waits for a node status that is as wanted, and gives the first such.
func (s *stranger) status(n *node, what string, ok func(*sensorsDoc) bool) (found sensorsDoc) {
	s.t.Helper()
	n.until(what, func() bool {
		list := s.nodeStatuses()
		i := slices.IndexFunc(list, func(d sensorsDoc) bool { return ok(&d) })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

// fails runs a tank whose sensor fails for two seconds, and looks at all that a control
// room sees of it: no value, no lack, an alarm that ends by itself.
func fails(t *testing.T, event, state, reason string) {
	t.Parallel()
	n, s := startDrill(t, scripted(event, ", report: {deadband: 50 g, heartbeat: 500ms}")+quiet)
	balance := func() string { return balanceIn(s.newest("oxyd/base/tank/A/balance")) }
	n.until("a balance before the fault", func() bool { return balance() != "" && balance() != "null" })

	down := s.status(n, "the alarm", func(d *sensorsDoc) bool { return d.alarm("sensor_fault") != "" })
	if got := down.alarm("sensor_fault"); got != fmt.Sprintf("critical not measured: A/simulated: %s (%s)", state, reason) {
		t.Errorf("the alarm says %q", got)
	}
	bad := down.sensor("A")
	if bad.State != state || bad.Reason != reason || bad.Faults < 3 || bad.LastGood == nil || !bad.LastGood.At.Before(bad.Since) || bad.LastGood.Quality != "good" {
		t.Errorf("the sensor is %+v with last good %+v, want %s (%s) after three faults", bad, bad.LastGood, state, reason)
	}
	if good := down.sensor("B"); good.State != "ok" || good.Faults != 0 {
		t.Errorf("the other tank is %+v", good)
	}
	stood, before, others := balance(), len(s.measured("A")), len(s.measured("B"))
	n.until("the other tank to be measured on", func() bool { return len(s.measured("B")) >= others+8 })
	still := n.sensors().sensor("A")
	if still.State == state && (still.LastGood == nil || *still.LastGood != *bad.LastGood || !still.Since.Equal(bad.Since)) {
		t.Errorf("later the sensor is %+v with last good %+v, want %+v", still, still.LastGood, bad.LastGood)
	}
	if after := len(s.measured("A")); still.State == state && (after != before || balance() != stood) {
		t.Errorf("%d values were published meanwhile, and the balance is %s, was %s", after-before, balance(), stood)
	}

	s.status(n, "the end of the alarm", func(d *sensorsDoc) bool {
		return d.alarm("sensor_fault") == "" && d.sensor("A").State == "ok" && d.sensor("A").Faults >= bad.Faults
	})
	n.until("the first value after the fault", func() bool { return len(s.measured("A")) > before })
	for _, e := range s.events("A") {
		if e.Kind != "measured" || grams(e.Remaining) < 5950 {
			t.Errorf("a fault became %+v", e)
		}
	}
	s.isJSON()
}

// isJSON looks at every document that came.
func (s *stranger) isJSON() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, payloads := range s.all {
		for _, p := range payloads {
			if !json.Valid([]byte(p)) && !strings.HasSuffix(topic, "/availability") {
				s.t.Errorf("%s: no JSON: %q", topic, p)
			}
		}
	}
}

func (n *node) sensors() *sensorsDoc {
	var doc sensorsDoc
	n.get("/api/node", &doc)
	return &doc
}

// A read that fails is no value; after three in a row the node says so, until one is
// good again.
func TestFC54SensorFaultIsToldAfterThree(t *testing.T) {
	fails(t, "{at: 1s, for: 2s, do: vanish}", "missing", "nack")
}

func TestFC56SaturationIsNoLevel(t *testing.T) {
	fails(t, "{at: 1s, for: 2s, do: fault, reason: saturated}", "fault", "saturated")
}

func TestFC62NotFiniteIsNoNumber(t *testing.T) {
	fails(t, "{at: 1s, for: 2s, do: fault, reason: not_finite}", "fault", "not_finite")
}

func TestFC67ImpossibleLevelIsNotApplied(t *testing.T) {
	fails(t, "{at: 1s, for: 2s, do: fault, reason: over_range}", "fault", "over_range")
}

// A fault in the middle of another trouble: what was known stays, the fault is added,
// and ends with the first good reading.
func TestFC66FaultDuringALeak(t *testing.T) {
	t.Parallel()
	n, s := startDrill(t, scripted("{at: 0s, do: leak, rate: 360 kg/h}, {at: 1s, for: 2s, do: fault, reason: open}",
		", consumption: {deadband: 2 g, settle: 500ms, refill_above: 200 g}")+quiet)
	down := s.status(n, "the alarm", func(d *sensorsDoc) bool { return d.alarm("sensor_fault") != "" })
	last := grams(down.sensor("A").LastGood.Remaining)
	n.until("the balance to be that of the last good value", func() bool {
		b := grams(n.tank("A").Balance)
		return b > 0 && b <= last
	})
	s.status(n, "the end of the alarm", func(d *sensorsDoc) bool {
		return d.alarm("sensor_fault") == "" && d.sensor("A").Faults > 0 && d.sensor("A").State == "ok"
	})
	n.until("the leak to be seen again", func() bool { b := grams(n.tank("A").Balance); return b > 0 && b < last-100 })
	sensible(t, n, s)
}

// A code that stands still on a sensor that is noisy is suspect, and counts; a tank
// that is at rest is fresh.
func TestFC68StuckIsSuspectAndRestIsFresh(t *testing.T) {
	t.Parallel()
	n, s := startDrill(t, scripted("{at: 1s, for: 4s, do: stick}", ", filter: {stuck_after: 2s}")+
		strings.Replace(quiet, "}}\n", "}, filter: {stuck_after: 2s}, report: {deadband: 1 g, heartbeat: 500ms}}\n", 1))
	stuck := s.status(n, "the stuck sensor", func(d *sensorsDoc) bool { return d.sensor("A").State == "suspect" })
	if a := stuck.sensor("A"); a.Reason != "stuck" || a.LastGood.Quality != "suspect" || stuck.alarm("sensor_fault") != "" {
		t.Errorf("the sensor is %+v with last good %+v", a, a.LastGood)
	}
	n.until("a balance that is suspect", func() bool {
		return strings.Contains(s.newest("oxyd/base/tank/A/balance"), `"quality":"suspect"`)
	})
	s.status(n, "the end of it", func(d *sensorsDoc) bool {
		return d.sensor("A").State == "ok" && d.sensor("A").LastGood.At.After(stuck.sensor("A").Since)
	})
	at := n.sensors().sensor("B").LastGood.At
	n.until("the tank at rest to be read anew", func() bool { return n.sensors().sensor("B").LastGood.At.After(at) })
	for _, d := range s.nodeStatuses() {
		if b := d.sensor("B"); b.State != "ok" && b.Reason != "starting" && b.State != "" {
			t.Errorf("the tank at rest is %+v", b)
		}
	}
}

// sensible wants of all that a node has sent of tank A: numbers without a hole; each
// delta right before the snapshot that has it in; an account that agrees with the wire.
func sensible(t *testing.T, n *node, s *stranger) []wireEvent {
	t.Helper()
	var all []wireEvent
	n.until("numbers without a hole", func() bool {
		all = s.events("A")
		return len(all) > 0 && all[len(all)-1].Seq == uint64(len(all)) && all[len(all)-1].Kind == "measured"
	})
	var consumed, refilled float64
	for i, e := range all {
		if want := uint64(i + 1); e.Seq != want {
			t.Fatalf("number %d stands in the place of %d", e.Seq, want)
		}
		switch e.Kind {
		case "measured":
			continue
		case "consumed":
			consumed += grams(e.Amount)
		case "refilled":
			refilled += grams(e.Amount)
		}
		if all[i+1].Kind != "measured" || !all[i+1].OccurredAt.Equal(e.OccurredAt) {
			t.Errorf("%+v is not followed by the snapshot that has it in", e)
		}
	}
	n.until(fmt.Sprintf("totals of %.3f g consumed and %.3f g refilled", consumed, refilled), func() bool {
		c, r := n.totals("A")
		return min(c-consumed, r-refilled) > -1e-6
	})
	if c, r := n.totals("A"); len(s.events("A")) == len(all) && max(c-consumed, r-refilled) > 1e-6 {
		t.Errorf("totals are %.3f g and %.3f g, on the wire were %.3f g and %.3f g", c, r, consumed, refilled)
	}
	return all
}

// totals are what the account says was consumed and refilled.
func (n *node) totals(tank string) (consumed, refilled float64) {
	var doc struct {
		Totals struct{ Consumed, Refilled json.Number }
	}
	n.get("/api/tanks/"+tank, &doc)
	return grams(doc.Totals.Consumed), grams(doc.Totals.Refilled)
}

// What goes and comes is booked once, and the account follows what is measured, not the
// sum of both.
func TestDrillIsBookedOnce(t *testing.T) {
	t.Parallel()
	n, s := startDrill(t, scripted("{at: 1s, do: burst, by: 400 g}, {at: 3s, do: refill, to: 90 %}",
		", consumption: {deadband: 5 g, settle: 1s, refill_above: 500 g}"))
	n.until("the refill to be booked", func() bool { return len(s.received("oxyd/base/tank/A/refilled")) > 0 })
	n.until("the account to have it", func() bool { return grams(n.tank("A").Balance) > 8900 })
	all := sensible(t, n, s)
	// 6 kg at first, 9 kg in the end: whatever was booked of the burst when the refill
	// came, both together are the difference.
	c, r := n.totals("A")
	if net := r - c; net < 2990 || net > 3010 {
		t.Errorf("%.1f g were refilled and %.1f g consumed, which is %.1f g more, want 3000 g", r, c, net)
	}
	if c <= 0 || c > 405 {
		t.Errorf("%.1f g are consumed, want some of the 400 g that burst out", c)
	}
	lowest, most := 1e9, 0.0
	for _, e := range all {
		if e.Kind == "measured" {
			lowest = min(lowest, grams(e.Remaining))
		} else if e.Kind == "consumed" {
			most = max(most, grams(e.Amount))
		}
	}
	for _, text := range s.received("oxyd/base/tank/A/balance") {
		if b := balanceIn(text); b != "" && b != "null" && grams(json.Number(b)) < lowest-most-0.001 {
			t.Errorf("a balance of %s g was shown, the least that was measured is %.3f g, and the largest amount %.3f g", b, lowest, most)
		}
	}
}

// A cylinder that is taken off is empty, and nobody has consumed it.
func TestRemovedIsNotConsumed(t *testing.T) {
	t.Parallel()
	n, s := startDrill(t, scripted("{at: 2s, do: remove}", ", consumption: {deadband: 5 g, settle: 500ms, refill_above: 500 g}"))
	n.until("the empty place", func() bool { b := n.tank("A").Balance; return b != "" && grams(b) < 10 })
	had := len(s.measured("A"))
	n.until("it to have settled", func() bool { return len(s.measured("A")) >= had+15 })
	if doc := n.tank("A"); doc.Totals.Consumed != "0" || grams(doc.Balance) > 10 {
		t.Errorf("the account is %+v, want an empty tank and no use", doc)
	}
	for _, e := range s.events("A") {
		if e.Kind != "measured" {
			t.Errorf("booked: %+v", e)
		}
	}
}

// A tank at rest is told of once a heartbeat, with the time at which it was measured.
func TestReportByExceptionOnTheWire(t *testing.T) {
	t.Parallel()
	const heartbeat = 500 * time.Millisecond
	n, s := startDrill(t, scripted("{at: 2s, do: burst, by: 500 g}", ", report: {deadband: 50 g, heartbeat: 500ms}")+quiet)
	n.until("what burst out", func() bool {
		list := s.measured("A")
		return len(list) > 3 && grams(list[len(list)-1].Remaining) < 5600
	})
	list := s.measured("A")
	for i, e := range list[1:] {
		gap, change := e.OccurredAt.Sub(list[i].OccurredAt), grams(e.Remaining)-grams(list[i].Remaining)
		if gap < heartbeat-time.Millisecond && max(change, -change) <= 50 {
			t.Errorf("%+v was reported %v after %+v", e, gap, list[i])
		}
		if gap > heartbeat+time.Second {
			t.Errorf("%+v came %v after the one before", e, gap)
		}
	}
	if a, b := len(list), len(s.measured("B")); b < 2*a {
		t.Errorf("%d of %d readings were reported: nothing was held back", a, b)
	}
}

// What the config names and the board does not have ends the start with a hint, unless
// it may be absent: then the rest runs, and says so.
func TestFC99AbsentBus(t *testing.T) {
	t.Parallel()
	const absent = "  - {tank: A, driver: ads1115, bus: 250, input: 0, interval: 100ms, calibration: [{volts: 0.5 V, remaining: 0 g}, {volts: 4.5 V, remaining: 10 kg}]MORE}\n"
	n := newNode(t, strings.Replace(drill, "SENSORS\n", strings.Replace(absent, "MORE", "", 1)+quiet, 1), "")
	out, err := n.command("run")
	if err == nil || !strings.Contains(out, "oxyd: error: open bus /dev/i2c-250: no such file or directory") || !strings.Contains(out, "oxyd: hint: ") {
		t.Errorf("got %v, want the start to fail with a hint:\n%s", err, out)
	}

	n, s := startDrill(t, strings.Replace(absent, "MORE", ", optional: true", 1)+quiet)
	doc := s.status(n, "the absent sensor and the other one", func(d *sensorsDoc) bool {
		return d.sensor("A").State == "missing" && d.sensor("B").State == "ok"
	})
	if a := doc.sensor("A"); a.Reason != "no_bus" || a.LastGood != nil || doc.alarm("sensor_fault") != "" {
		t.Errorf("the absent sensor is %+v, alarms %+v", a, doc.Alarms)
	}
	n.until("the other tank in the account", func() bool { return n.tank("B").Balance == "4000" })
	if list := s.events("A"); len(list) > 0 {
		t.Errorf("the absent sensor has measured %+v", list)
	}
}

package ledger

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

var numbers = flag.Int("numbers", 20_000, "events of the constant-space test (1000000 in the long run)")

// noon is where the tests' clock starts.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// clock is a wall clock that a test moves by hand.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// rig is a ledger on a real file with a clock of the test's own. Every rig ends
// in a Check.
type rig struct {
	t   testing.TB
	l   *Ledger
	clk *clock
	opt Options
}

func newRig(t testing.TB, tanks ...Tank) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir(), tanks...)
}

func newRigIn(t testing.TB, dir string, tanks ...Tank) *rig {
	t.Helper()
	clk := &clock{noon}
	r := &rig{t: t, clk: clk, opt: Options{Path: filepath.Join(dir, "ledger.bolt"), Tanks: tanks,
		Now: clk.Now, Log: zerolog.Nop()}}
	r.open()
	t.Cleanup(r.end)
	return r
}

// end checks and closes the rig; a second call does nothing.
func (r *rig) end() {
	if r.l == nil {
		return
	}
	if err := r.l.Check(); err != nil {
		r.t.Errorf("check at the end: %v", err)
	}
	if err := r.l.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.l = nil
}

func (r *rig) open() {
	r.t.Helper()
	l, err := Open(r.opt)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.l = l
}

func (r *rig) reopen() {
	r.t.Helper()
	if err := r.l.Close(); err != nil {
		r.t.Fatalf("close: %v", err)
	}
	r.open()
}

// send decodes a message as the receiving side does and applies it alone.
func (r *rig) send(leaf, payload string) Result {
	r.t.Helper()
	return r.sendAs(leaf, payload, false)
}

func (r *rig) sendAs(leaf, payload string, retained bool) Result {
	r.t.Helper()
	res, err := r.l.Apply([]Delivery{deliveryOf(leaf, payload, retained)})
	if err != nil {
		r.t.Fatalf("apply %s: %v", payload, err)
	}
	r.clk.now = r.clk.now.Add(time.Millisecond)
	return res[0]
}

// deliveryOf makes a delivery of a message for the tank that the payload names,
// or A where it names none.
func deliveryOf(leaf, payload string, retained bool) Delivery {
	tankID := "A"
	if _, rest, ok := strings.Cut(payload, `"tank":"`); ok {
		tankID, _, _ = strings.Cut(rest, `"`)
	}
	typ, _ := event.TypeOfTopic(leaf)
	d := Delivery{Topic: "oxyd/base/tank/" + tankID + "/" + leaf, Payload: []byte(payload), Retained: retained}
	e, err := event.Decode(typ, tankID, []byte(payload))
	if err != nil {
		d.Form = err.(*event.FormError)
	} else {
		d.Event = e
	}
	return d
}

// balance gives the tank's balance in grams as text, or "null".
func (r *rig) balance(tankID string) string {
	r.t.Helper()
	return orNull(r.doc(tankID).Balance)
}

func (r *rig) doc(tankID string) Balance {
	r.t.Helper()
	doc, ok, err := r.l.Balance(tankID)
	if err != nil || !ok {
		r.t.Fatalf("balance of %s: known %v, %v", tankID, ok, err)
	}
	return doc
}

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func grams(g int64) *physic.Mass {
	m := physic.Mass(g) * physic.Gram
	return &m
}

// The messages of the field cases: one source, one epoch unless said, a number,
// an amount in grams, and an instant that many seconds after noon.
func measured(epoch, seq int, g float64) string { return numberedMsg("remaining", epoch, seq, g) }
func consumed(epoch, seq int, g float64) string { return numberedMsg("amount", epoch, seq, g) }

func numberedMsg(field string, epoch, seq int, g float64) string {
	at := noon.Add(time.Duration(epoch-1)*time.Hour + time.Duration(seq)*time.Second - 10*time.Hour).Format(time.RFC3339Nano)
	return fmt.Sprintf(`{"event_id":"dev/%d/A/%012d","tank":"A","source":"dev","epoch":%d,"seq":%d,%q:%g,"occurred_at":%q}`,
		epoch, seq, epoch, seq, field, g, at)
}

// R7, the example of record, each event on a store of its own.
func TestR7ExampleOfRecord(t *testing.T) {
	for leaf, msg := range map[string]string{
		"consumed": `{"event_id":"e-8842","tank":"A","amount":120}`,
		"measured": `{"event_id":"e-8842","tank":"A","remaining":727}`,
	} {
		t.Run(leaf, func(t *testing.T) {
			r := newRig(t, Tank{ID: "A", Initial: grams(847)})
			r.want("before", r.balance("A"), "847 g")
			r.want("first", r.send(leaf, msg).Outcome, Applied)
			for range 5 {
				r.want("again", r.send(leaf, msg).Outcome, Duplicate)
				r.want("balance", r.balance("A"), "727 g")
			}
			r.reopen()
			r.want("after a restart", r.send(leaf, msg).Outcome, Duplicate)
			r.want("balance", r.balance("A"), "727 g")
		})
	}
}

// The opening amount is fixed at the tank's first start.
func TestOpeningIsFixed(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(847)})
	r.send("consumed", `{"event_id":"1","tank":"A","amount":47}`)
	r.opt.Tanks = []Tank{{ID: "A", Initial: grams(5)}}
	r.reopen()
	r.want("balance", r.balance("A"), "800 g")
}

// What takes the place of a damaged account does not fall back to the opening
// amounts of years ago: it knows nothing until something is measured.
func TestReplacementKnowsNoOpenings(t *testing.T) {
	r := newRig(t)
	r.end()
	r.opt.Path += "-2"
	r.opt.Tanks, r.opt.Replacement = []Tank{{ID: "A", Initial: grams(847)}}, true
	r.open()
	r.want("balance", r.balance("A"), "null")
	r.opt.Replacement = false
	r.reopen()
	r.want("after a restart", r.balance("A"), "null")
	r.send("measured", `{"event_id":"m","tank":"A","remaining":700}`)
	r.want("measured", r.balance("A"), "700 g")
}

func TestFC21DedupAndBalanceAreOneTransaction(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(847)})
	d := deliveryOf("consumed", `{"event_id":"e","tank":"A","amount":120}`, false)
	boom := fmt.Errorf("power gone")
	err := r.l.update(func(b *batch) error {
		if res, err := b.apply(&d); err != nil || res.Outcome != Applied {
			t.Fatalf("apply: %v %v", res, err)
		}
		return boom // the mark and the balance are written, nothing is committed
	})
	if err == nil {
		t.Fatal("update hid the error")
	}
	r.want("balance", r.balance("A"), "847 g")
	r.want("redelivery", r.send("consumed", `{"event_id":"e","tank":"A","amount":120}`).Outcome, Applied)
	r.want("balance", r.balance("A"), "727 g")
}

func TestFC23DedupHasNoExpiry(t *testing.T) {
	r := newRig(t)
	r.send("measured", measured(1, 6, 100))
	r.want("first", r.send("consumed", consumed(1, 7, 2)).Outcome, Applied)
	r.clk.now = r.clk.now.Add(30 * 24 * time.Hour)
	r.reopen()
	r.want("a month later", r.send("consumed", consumed(1, 7, 2)).Outcome, Duplicate)
	r.want("balance", r.balance("A"), "98 g")
}

// What a stream in order costs for ever: one row, whatever the count. Numbers is
// raised to a million by -numbers.
func TestFC23WatermarkIsConstantSpace(t *testing.T) {
	r := newRigIn(t, memoryDir(t))
	events := make([]Delivery, 500)
	g := &traffic{tanks: 1, seq: make([]uint64, 1), at: noon.Add(-time.Hour)}
	for done := 0; done < *numbers; done += len(events) {
		g.next(events)
		results, err := r.l.Apply(events)
		if err != nil || !results[len(events)-1].Outcome.Accepted() {
			t.Fatalf("after %d: %v, %v", done, results, err)
		}
	}
	bytes, rows := 0, 0
	if err := r.l.view(func(b *batch) error {
		for _, bucket := range []*bbolt.Bucket{b.seenRows, b.runRows} {
			if err := bucket.ForEach(func(k, v []byte) error {
				rows++
				bytes += len(k) + len(v)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if rows != 1 || bytes > 64<<10 {
		t.Errorf("%d numbers leave %d rows of %d bytes, want one row", *numbers, rows, bytes)
	}
}

func TestFC24LateSnapshotDoesNotMoveBack(t *testing.T) {
	r := newRig(t)
	r.want("newer", r.send("measured", measured(1, 3, 300)).Outcome, Applied)
	r.want("older", r.send("measured", measured(1, 2, 500)).Outcome, Stale)
	r.want("balance", r.balance("A"), "300 g")
	events, err := r.l.Events("A", 10)
	if err != nil || len(events) != 2 {
		t.Fatalf("history: %v, %v", events, err)
	}
}

func TestFC25LateDeltaIsNotSubtractedAgain(t *testing.T) {
	r := newRig(t)
	r.send("measured", measured(1, 10, 100))
	r.want("older delta", r.send("consumed", consumed(1, 9, 2)).Outcome, Late)
	r.want("balance", r.balance("A"), "100 g")
	r.want("total", r.doc("A").Totals.Consumed, "2 g")
}

func TestFC26AnyOrderSameResult(t *testing.T) {
	msgs := [][2]string{{"measured", measured(1, 5, 110)}, {"consumed", consumed(1, 11, 3)}, {"measured", measured(1, 10, 100)}}
	digest := ""
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		r := newRig(t)
		for _, i := range order {
			r.send(msgs[i][0], msgs[i][1])
		}
		r.want(fmt.Sprint("balance ", order), r.balance("A"), "97 g")
		r.want(fmt.Sprint("usage ", order), r.doc("A").Totals.Consumed, "3 g")
		r.want(fmt.Sprint("discrepancy ", order), orNull(r.doc("A").Discrepancy), "-10 g")
		s, err := r.l.Status()
		if err != nil {
			t.Fatal(err)
		}
		if digest == "" {
			digest = s.Digest
		}
		r.want(fmt.Sprint("digest ", order), s.Digest, digest)
	}
}

func TestFC28NewEpochAfterStoreLoss(t *testing.T) {
	r := newRig(t)
	r.send("measured", measured(1, 900, 50))
	r.want("new epoch", r.send("measured", measured(2, 1, 48)).Outcome, Applied)
	r.want("late of the old one", r.send("consumed", consumed(1, 901, 1)).Outcome, Late)
	r.want("new delta", r.send("consumed", consumed(2, 2, 1)).Outcome, Applied)
	r.want("balance", r.balance("A"), "47 g")
}

func TestFC31PoisonMessages(t *testing.T) {
	r := newRig(t)
	r.opt.Closed, r.opt.QuarantineBytes = true, 32<<10
	r.opt.Tanks = []Tank{{ID: "A", Initial: grams(100)}}
	r.reopen()
	for msg, reason := range map[string]event.Reason{
		`{`:           event.Malformed,
		`{"amt":NaN}`: event.Malformed,
		`{"event_id":"v","tank":"A","amount":1,"v":99}`: event.UnsupportedVersion,
		`{"event_id":"n","tank":"A","amount":-5}`:       event.OutOfRange,
		`{"event_id":"u","tank":"B","amount":5}`:        event.UnknownTank,
	} {
		for range 2 {
			res := r.send("consumed", msg)
			r.want(msg, res.Outcome, Quarantined)
			r.want(msg, res.Reason, reason)
		}
	}
	list, err := r.l.Quarantine(100)
	if err != nil || len(list) != 5 {
		t.Fatalf("quarantine holds %d, want 5 (%v)", len(list), err)
	}
	for _, k := range list {
		r.want("count of "+string(k.Payload), k.Count, 2)
	}
	var batch []Delivery
	for i := range 2000 {
		batch = append(batch, deliveryOf("consumed", fmt.Sprintf(`{"bad":%d`, i), false))
	}
	if _, err := r.l.Apply(batch); err != nil {
		t.Fatal(err)
	}
	r.want("valid", r.send("consumed", `{"event_id":"ok","tank":"A","amount":3}`).Outcome, Applied)
	r.want("balance", r.balance("A"), "97 g")
	s, err := r.l.Status()
	if err != nil {
		t.Fatal(err)
	}
	if s.QuarantineBytes > uint64(r.opt.QuarantineBytes) || s.Evicted == 0 {
		t.Errorf("quarantine holds %d bytes of %d, evicted %d", s.QuarantineBytes, r.opt.QuarantineBytes, s.Evicted)
	}
	r.want("all counted", s.Outcomes[Quarantined], 2010)
}

// A conflict keeps the first content in force and both of them readable.
func TestSameIdentityOtherContent(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(847)})
	r.send("consumed", `{"event_id":"e","tank":"A","amount":120}`)
	res := r.send("consumed", `{"event_id":"e","tank":"A","amount":12}`)
	r.want("other content", res.Outcome, Conflict)
	r.want("again", r.send("consumed", `{"event_id":"e","tank":"A","amount":12}`).Outcome, Conflict)
	r.want("first again", r.send("consumed", `{"event_id":"e","tank":"A","amount":120.0}`).Outcome, Duplicate)
	doc := r.doc("A")
	r.want("balance", orNull(doc.Balance), "727 g")
	r.want("quality", doc.Quality, "suspect")
	list, _ := r.l.Quarantine(10)
	if len(list) != 1 || list[0].Count != 2 || list[0].Reason != event.Conflict || list[0].LSN == 0 {
		t.Errorf("quarantine: %+v", list)
	}
	r.send("measured", `{"event_id":"m","tank":"A","remaining":700}`)
	r.want("a newer baseline repairs", r.doc("A").Quality, "good")
}

// A number that comes again under another id is a conflict too.
func TestSameNumberOtherID(t *testing.T) {
	r := newRig(t)
	r.send("consumed", consumed(1, 1, 5))
	res := r.send("consumed", strings.Replace(consumed(1, 1, 5), `"dev/1/A/000000000001"`, `"mine"`, 1))
	r.want("outcome", res.Outcome, Conflict)
	r.want("total", r.doc("A").Totals.Consumed, "5 g")
}

func TestReceiptInstantsRiseOverRestarts(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	r.send("measured", `{"event_id":"m1","tank":"A","remaining":90}`)
	r.clk.now = r.clk.now.Add(-24 * time.Hour) // the clock is set back, then the process restarts
	r.reopen()
	r.want("later snapshot", r.send("measured", `{"event_id":"m2","tank":"A","remaining":80}`).Outcome, Applied)
	r.want("later delta", r.send("consumed", `{"event_id":"c","tank":"A","amount":1}`).Outcome, Applied)
	r.want("balance", r.balance("A"), "79 g")
}

// Deliveries of one batch get an instant each: a delta behind a snapshot counts
// after it, one before it does not.
func TestOneInstantForEachDeliveryOfABatch(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	batch := []Delivery{
		deliveryOf("consumed", `{"event_id":"c1","tank":"A","amount":5}`, false),
		deliveryOf("measured", `{"event_id":"m","tank":"A","remaining":50}`, false),
		deliveryOf("consumed", `{"event_id":"c2","tank":"A","amount":7}`, false),
	}
	if _, err := r.l.Apply(batch); err != nil {
		t.Fatal(err)
	}
	r.want("balance", r.balance("A"), "43 g")
	r.want("by receipt", r.doc("A").SinceBaseline.ByReceipt, 1)

	// With equal ages nothing but the receipt instants tells them apart.
	aged := `"clock":"unsynced","age":3600`
	batch = []Delivery{
		deliveryOf("measured", `{"event_id":"m3","tank":"B","remaining":50,`+aged+`}`, false),
		deliveryOf("consumed", `{"event_id":"c3","tank":"B","amount":7,`+aged+`}`, false),
	}
	if _, err := r.l.Apply(batch); err != nil {
		t.Fatal(err)
	}
	r.want("balance of B", r.balance("B"), "43 g")
}

func TestRetainedIsNoNewFact(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	r.want("retained delta", r.sendAs("consumed", `{"event_id":"c","tank":"A","amount":5}`, true).Reason, event.RetainedDelta)
	r.want("retained snapshot, nothing else", r.sendAs("measured", `{"event_id":"m","tank":"A","remaining":90}`, true).Outcome, Applied)
	r.send("consumed", `{"event_id":"c2","tank":"A","amount":5}`)
	r.want("balance", r.balance("A"), "85 g")
	r.send("measured", `{"event_id":"m2","tank":"A","remaining":80}`)
	r.want("retained snapshot later", r.sendAs("measured", `{"event_id":"m3","tank":"A","remaining":10}`, true).Outcome, Stale)
	r.want("balance", r.balance("A"), "80 g")
}

func TestGapMakesTheBalanceIncompleteUntilHealed(t *testing.T) {
	r := newRig(t)
	r.send("measured", measured(1, 1, 100))
	r.send("consumed", consumed(1, 2, 1))
	r.send("consumed", consumed(1, 4, 1))
	r.want("complete", r.doc("A").Complete, false)
	sources, err := r.l.Sources()
	if err != nil {
		t.Fatal(err)
	}
	r.want("missing", sources[0].Streams[0].Missing, "[[3 3]]")
	r.send("measured", measured(1, 5, 90))
	r.want("healed by a newer snapshot", r.doc("A").Complete, true)
	r.want("totals still lack it", r.doc("A").TotalsComplete, false)
	r.want("late", r.send("consumed", consumed(1, 3, 1)).Outcome, Late)
	r.want("totals", r.doc("A").TotalsComplete, true)
	r.want("balance", r.balance("A"), "90 g")
}

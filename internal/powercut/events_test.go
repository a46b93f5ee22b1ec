package powercut

import (
	"fmt"
	"math/rand/v2"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// noon is when the events happen, a millisecond apart; the ledger's clock stands
// an hour later.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// message is one delivery to come, and what of it has to be found for ever once it
// is acknowledged: its identity in the journal, or its bytes in the quarantine.
type message struct {
	topic   string
	payload []byte
	retain  bool
	event   event.Event
	kept    bool // in the quarantine
}

// workload is what a broker delivers, in order, with repeats and latecomers; and
// what all of it comes to, added up while it was made and not by the product.
type workload struct {
	messages []message
	totals   map[string]totals
	balance  map[string]physic.Mass // of the tanks whose balance is known
}

type totals struct{ consumed, refilled physic.Mass }

// openings are what the config gives two tanks to begin with. C registers itself,
// is never measured and has a source without a clock: of it only totals are known.
var openings = map[string]physic.Mass{"A": 900 * physic.Gram, "B": 800 * physic.Gram}

// workloadEvents is how many events are made; about a sixth more messages are.
const workloadEvents = 300

// author makes a workload. Times and numbers rise with each event, so that what
// counts is plain to see from here, whatever order the messages arrive in.
type author struct {
	random *rand.Rand
	w      workload
	epoch  uint64
	seq    map[string]uint64 // by source, epoch, tank
	n      int
	deltas []written
	baseN  map[string]int // number of the tank's last snapshot
	late   map[int][]message
}

// written is a delta that still counts.
type written struct {
	event.Event
	n int
}

func newWorkload(seed uint64) *workload {
	a := &author{random: rand.New(rand.NewPCG(seed, 1)), epoch: 1 << 40, seq: map[string]uint64{}, baseN: map[string]int{}, late: map[int][]message{},
		w: workload{totals: map[string]totals{}, balance: map[string]physic.Mass{}}}
	for tank, amount := range openings {
		a.w.balance[tank] = amount
	}
	for a.n = 1; a.n <= workloadEvents; a.n++ {
		if a.n == workloadEvents/2 {
			a.epoch += 1 << 20 // the node has started anew
		}
		a.write()
		a.w.messages = append(a.w.messages, a.late[a.n]...)
	}
	for n := workloadEvents + 1; n < workloadEvents+30; n++ {
		a.w.messages = append(a.w.messages, a.late[n]...)
	}
	return &a.w
}

func (a *author) write() {
	tank := []string{"A", "B"}[a.random.IntN(2)]
	switch p := a.random.IntN(100); {
	case p < 40:
		a.delta(a.numbered(event.Consumed, "ctl-3", tank))
	case p < 46:
		a.delta(a.numbered(event.Refilled, "flow-2", tank))
	case p < 58:
		a.snapshot(a.numbered(event.Measured, "ctl-3", tank))
	case p < 66:
		a.delta(a.event(event.Consumed, "", tank))
	case p < 72:
		e := a.numbered(event.Consumed, "meter-1", "C")
		e.Unsynced = true
		a.delta(e)
	case p < 78:
		a.operation(a.numbered(event.Refilled, "flow-2", tank))
	case p < 86:
		a.reversal()
	case p < 90:
		a.contradiction()
	case p < 94:
		a.skip(tank)
	case p < 97:
		m := message{topic: topicOf(event.Consumed, tank), payload: fmt.Appendf(nil, `{"event_id":"poison-%d","tank":`, a.n), kept: true}
		a.send(m)
	default:
		e := event.Event{Type: event.Consumed, ID: fmt.Sprintf("retained-%d", a.n), Tank: tank, Amount: physic.Gram}
		m := messageOf(e)
		m.retain, m.kept = true, true
		a.send(m)
	}
}

func topicOf(t event.Type, tank string) string { return "oxyd/base/tank/" + tank + "/" + t.Topic() }

func messageOf(e event.Event) message {
	return message{topic: topicOf(e.Type, e.Tank), payload: e.AppendJSON(nil), event: e}
}

// event gives an unnumbered event that happens now.
func (a *author) event(t event.Type, source, tank string) event.Event {
	return event.Event{Type: t, ID: fmt.Sprintf("hand-%d", a.n), Tank: tank, Source: source,
		Amount: physic.Mass(1+a.random.IntN(5000)) * physic.MilliGram, OccurredAt: noon.Add(time.Duration(a.n) * time.Millisecond)}
}

func (a *author) numbered(t event.Type, source, tank string) event.Event {
	e := a.event(t, source, tank)
	key := fmt.Sprint(source, a.epoch, tank)
	a.seq[key]++
	e.Dot = event.Dot{Epoch: a.epoch, Seq: a.seq[key]}
	e.ID = event.NodeID(source, e.Dot.Epoch, tank, e.Dot.Seq)
	return e
}

func (a *author) delta(e event.Event) {
	a.count(e, 1, a.n)
	a.deltas = append(a.deltas, written{e, a.n})
	a.send(messageOf(e))
}

// count adds a delta of event n, or takes it out again.
func (a *author) count(e event.Event, sign physic.Mass, n int) {
	amount := sign * e.Amount
	t := a.w.totals[e.Tank]
	if e.Type == event.Consumed {
		t.consumed += amount
		amount = -amount
	} else {
		t.refilled += amount
	}
	a.w.totals[e.Tank] = t
	if _, known := a.w.balance[e.Tank]; known && n > a.baseN[e.Tank] {
		a.w.balance[e.Tank] += amount
	}
}

func (a *author) snapshot(e event.Event) {
	e.Amount += 500 * physic.Gram
	a.w.balance[e.Tank], a.baseN[e.Tank] = e.Amount, a.n
	a.send(messageOf(e))
}

// operation: the first of a key counts, a second one with the key does not; of one
// instant that is the one with the smaller id.
func (a *author) operation(e event.Event) {
	e.Operation = fmt.Sprintf("delivery-%d", a.n)
	a.count(e, 1, a.n)
	a.send(messageOf(e))
	second := a.numbered(e.Type, e.Source, e.Tank)
	second.Operation = e.Operation
	a.send(messageOf(second))
}

func (a *author) reversal() {
	if len(a.deltas) == 0 {
		return
	}
	i := a.random.IntN(len(a.deltas))
	d := a.deltas[i]
	a.deltas = append(a.deltas[:i], a.deltas[i+1:]...)
	a.count(d.Event, -1, d.n)
	e := a.numbered(event.Reversed, "ctl-3", d.Tank)
	e.Amount, e.Reverses, e.ReversesSource = 0, d.ID, d.Source
	a.send(messageOf(e))
}

// contradiction says something else under the identity of an event of a while ago,
// which has arrived by now.
func (a *author) contradiction() {
	for _, d := range a.deltas {
		if d.n < a.n-latestBy && d.n > a.n-100 {
			d.Amount += physic.Gram
			m := messageOf(d.Event)
			m.kept = true
			a.send(m)
			return
		}
	}
}

// skip gives up a number.
func (a *author) skip(tank string) {
	gone := a.numbered(event.Consumed, "ctl-3", tank).Dot
	e := a.numbered(event.Skipped, "ctl-3", tank)
	e.Amount, e.Skips, e.SkipsEpoch, e.Reason = 0, []event.Range{{From: gone.Seq, To: gone.Seq}}, gone.Epoch, "dropped"
	a.send(messageOf(e))
}

// latestBy is how many events later a message may be delivered.
const latestBy = 20

// send delivers now, or some events later, and now and then once more.
func (a *author) send(m message) {
	if a.random.IntN(20) == 0 && !m.kept {
		n := a.n + 1 + a.random.IntN(latestBy)
		a.late[n] = append(a.late[n], m)
	} else {
		a.w.messages = append(a.w.messages, m)
	}
	if a.random.IntN(8) == 0 {
		n := a.n + 1 + a.random.IntN(latestBy)
		a.late[n] = append(a.late[n], m)
	}
}

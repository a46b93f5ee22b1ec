package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// board is one edge with a store of its own: its epoch, the next number of each
// tank, and what it has made.
type board struct {
	source string
	epoch  uint64
	next   map[string]uint64
	rows   []Delivery // of this store, for a repeat byte for byte
	image  *board     // the card of an earlier day

	ahead time.Duration // of its clock
	clock string        // synced, none, unsynced, age (unsynced, with one)
}

func newBoard(source string, epoch uint64) *board {
	return &board{source: source, epoch: epoch, next: map[string]uint64{}, clock: "synced"}
}

func (b *board) copy() *board {
	c := *b
	c.next, c.rows = maps.Clone(b.next), slices.Clone(b.rows)
	return &c
}

func (b *board) begin(epoch uint64) { b.epoch, b.next = epoch, map[string]uint64{} }

func (b *board) takeImage() { b.image = b.copy() }

// restore goes back to the image and gives the rows made since that the card still
// has, at most n; their numbers are taken again.
func (b *board) restore(n int) (repeated []Delivery) {
	since := b.rows[min(len(b.image.rows), len(b.rows)):]
	b.epoch, b.next, b.rows = b.image.epoch, maps.Clone(b.image.next), slices.Clone(b.image.rows)
	for _, d := range since[:min(n, len(since))] {
		if e := &d.Event; e.Dot.Epoch == b.epoch && e.Dot.Seq > b.next[e.Tank] {
			b.next[e.Tank] = e.Dot.Seq
			b.rows = append(b.rows, d)
			repeated = append(repeated, d)
		}
	}
	return repeated
}

// publish lets a board measure one to four things, now or a while ago.
func (w *world) publish(t *rapid.T) {
	b := rapid.SampledFrom(w.boards).Draw(t, "board")
	for range rapid.IntRange(1, 4).Draw(t, "events") {
		w.tick(t)
		e := w.fact(t, b)
		first := b.next[e.Tank] + 1
		b.next[e.Tank] += rapid.SampledFrom([]uint64{1, 1, 1, 1, 2, 3}).Draw(t, "step")
		e.Dot = event.Dot{Epoch: b.epoch, Seq: b.next[e.Tank]}
		if first < e.Dot.Seq && e.Type.Delta() && rapid.Bool().Draw(t, "merged") {
			e.StandsFor = event.Range{From: first, To: e.Dot.Seq}
		}
		e.ID = event.NodeID(b.source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
		if rapid.IntRange(0, 5).Draw(t, "caller's id") == 0 {
			e.ID = w.newID()
		}
		w.send(e)
		b.rows = append(b.rows, w.sent[len(w.sent)-1])
	}
}

// publishUnnumbered lets a stranger publish, or a source without a store.
func (w *world) publishUnnumbered(t *rapid.T) {
	w.tick(t)
	b := &board{clock: "synced"}
	if rapid.Bool().Draw(t, "named") {
		b = rapid.SampledFrom(w.boards).Draw(t, "board")
	}
	e := w.fact(t, b)
	e.ID = w.newID()
	if rapid.IntRange(0, 9).Draw(t, "squat") == 0 { // takes the name of a numbered event
		e.ID = event.NodeID(b.source, max(b.epoch, 1), e.Tank, uint64(rapid.IntRange(1, 9).Draw(t, "number")))
	}
	w.send(e)
}

// skip: the board cannot deliver some of its numbers any more.
func (w *world) skip(t *rapid.T) {
	b := rapid.SampledFrom(w.boards).Draw(t, "board")
	w.tick(t)
	e := w.fact(t, b)
	from := uint64(rapid.IntRange(1, 12).Draw(t, "from"))
	e.Type, e.Amount, e.Operation, e.Covers, e.SkipsEpoch = event.Skipped, 0, "", nil, b.epoch
	e.Skips = []event.Range{{From: from, To: from + uint64(rapid.IntRange(0, 3).Draw(t, "more"))}}
	e.ID = w.newID()
	if rapid.Bool().Draw(t, "numbered") {
		b.next[e.Tank]++
		e.Dot = event.Dot{Epoch: b.epoch, Seq: b.next[e.Tank]}
	}
	w.send(e)
}

func (w *world) newID() string {
	w.ids++
	return fmt.Sprintf("id-%d", w.ids)
}

// fact draws what happened, by the board's clock, without identity.
func (w *world) fact(t *rapid.T, b *board) event.Event {
	e := event.Event{Version: event.WireVersion, Source: b.source, Tank: rapid.SampledFrom([]string{"A", "A", "A", "B", "C"}).Draw(t, "tank"),
		Type:    rapid.SampledFrom([]event.Type{event.Measured, event.Consumed, event.Consumed, event.Refilled, event.Reversed}).Draw(t, "type"),
		Amount:  physic.Mass(rapid.IntRange(1, 300).Draw(t, "amount")) * physic.Gram,
		Suspect: rapid.IntRange(0, 7).Draw(t, "suspect") == 0}
	w.timeOf(t, b, &e)
	switch {
	case e.Type == event.Reversed:
		target := event.Identity{Source: b.source, ID: fmt.Sprintf("id-%d", rapid.IntRange(1, 9).Draw(t, "unborn"))}
		if len(w.sent) > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
			sent := rapid.SampledFrom(w.sent).Draw(t, "target").Event
			target = sent.Identity()
		}
		e.Amount, e.Reverses, e.ReversesSource = 0, target.ID, target.Source
	case e.Type == event.Measured && rapid.IntRange(0, 2).Draw(t, "covers") == 0:
		other := rapid.SampledFrom(w.boards).Draw(t, "covered")
		e.Covers = map[string]event.Dot{other.source: {Epoch: other.epoch, Seq: max(1, other.next[e.Tank])}}
	case e.Type.Delta() && rapid.IntRange(0, 3).Draw(t, "operation") == 0:
		e.Operation = fmt.Sprintf("o%d", rapid.IntRange(0, 1).Draw(t, "key"))
	}
	return e
}

// timeOf says when it happened as the board can tell.
func (w *world) timeOf(t *rapid.T, b *board, e *event.Event) {
	ago := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 10, 60}).Draw(t, "ago")) * time.Second
	e.OccurredAt = w.now.Add(b.ahead - ago)
	switch b.clock {
	case "none":
		e.OccurredAt = time.Time{}
	case "unsynced":
		e.Unsynced = true
	case "age":
		e.Unsynced, e.HasAge, e.Age = true, true, ago
	}
}

// mutate sends something once more under the same identity or number, and changed.
func (w *world) mutate(t *rapid.T) {
	if len(w.sent) == 0 {
		t.Skip("nothing sent")
	}
	e := rapid.SampledFrom(w.sent).Draw(t, "original").Event
	switch rapid.SampledFrom([]string{"amount", "time", "id", "number", "tank", "version", "run", "type"}).Draw(t, "change") {
	case "amount":
		e.Suspect = !e.Suspect
	case "time":
		e.OccurredAt = w.now.Add(-time.Hour)
	case "id":
		e.ID = w.newID()
	case "number":
		if e.Numbered() {
			e.Dot.Seq += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
			e.StandsFor = event.Range{}
		}
	case "tank":
		e.Tank = rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "tank")
	case "version":
		e.Version = 2
		if rapid.Bool().Draw(t, "new id") {
			e.ID = w.newID()
		}
	case "run":
		if e.Type.Delta() && e.Dot.Seq > 1 {
			e.Dot.Seq += uint64(rapid.IntRange(0, 2).Draw(t, "step"))
			e.StandsFor = event.Range{From: max(1, e.Dot.Seq-3), To: e.Dot.Seq}
			e.ID = w.newID()
		}
	case "type":
		if e.Type.Delta() {
			e.Type = event.Consumed + event.Refilled - e.Type
		}
	}
	w.send(e)
}

// retain: a broker hands out a copy that it has kept.
func (w *world) retain(t *rapid.T) {
	if len(w.sent) == 0 {
		t.Skip("nothing sent")
	}
	d := rapid.SampledFrom(w.sent).Draw(t, "kept")
	d.Retained = true
	w.queue = append(w.queue, d)
}

// garble: what cannot be read.
func (w *world) garble(t *rapid.T) {
	d := deliveryOf("consumed", fmt.Sprintf(`{"event_id":"g%d"`, rapid.IntRange(0, 2).Draw(t, "garbage")), false)
	w.queue = append(w.queue, d)
}

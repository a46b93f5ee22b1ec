package outbox

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"oxyd/internal/event"
)

// account is a ledger as small as can be: which numbers it has, and what each
// identity said.
type account struct {
	id          string
	incarnation uint64
	seen        map[streamID]map[uint64]bool
	skipped     map[streamID]map[uint64]bool
	content     map[string]string // by event id
	conflicts   int
	consumed    int64 // grams, of each identity once
	repeats     int
	heard       map[streamID]bool // since the last confirmation
	fenced      []uint64
	last        map[string]event.Event // the last snapshot by tank
}

func newAccount(id string) *account {
	return &account{id: id, incarnation: 1, seen: map[streamID]map[uint64]bool{}, skipped: map[streamID]map[uint64]bool{},
		content: map[string]string{}, heard: map[streamID]bool{}, last: map[string]event.Event{}}
}

func set(m map[streamID]map[uint64]bool, id streamID, r event.Range) {
	if m[id] == nil {
		m[id] = map[uint64]bool{}
	}
	for n := r.From; n <= r.To; n++ {
		m[id][n] = true
	}
}

func (a *account) apply(t tb, r Row) {
	t.Helper()
	e := decode(t, r)
	id := streamID{e.Dot.Epoch, e.Tank}
	a.heard[id] = true
	if before, known := a.content[e.ID]; known {
		a.repeats++
		if before != string(r.Payload) {
			a.conflicts++
			t.Errorf("%s came with other bytes:\n%s\n%s", e.ID, before, r.Payload)
		}
		return
	}
	a.content[e.ID] = string(r.Payload)
	set(a.seen, id, e.Run())
	switch e.Type {
	case event.Consumed:
		a.consumed += int64(e.Amount / 1e9)
	case event.Measured:
		a.last[e.Tank] = e
	case event.Skipped:
		for _, s := range e.Skips {
			set(a.skipped, streamID{e.SkipsEpoch, e.Tank}, s)
		}
	}
}

// confirm names the newest epoch of each tank, and what is open or was just heard.
func (a *account) confirm() event.Confirm {
	c := event.Confirm{Ledger: a.id, Incarnation: a.incarnation, Source: "ctl-3", Fenced: a.fenced}
	newest := map[string]uint64{}
	for id := range a.seen {
		c.NewestEpoch = max(c.NewestEpoch, id.epoch)
		newest[id.tank] = max(newest[id.tank], id.epoch)
	}
	for id, seen := range a.seen {
		s := event.ConfirmStream{Epoch: id.epoch, Tank: id.tank}
		for n := range seen {
			s.Through = max(s.Through, n)
		}
		for n := uint64(1); n <= s.Through; n++ {
			if seen[n] || a.skipped[id][n] {
				continue
			}
			if m := len(s.Missing); m > 0 && s.Missing[m-1].To == n-1 {
				s.Missing[m-1].To = n
			} else {
				s.Missing = append(s.Missing, event.Range{From: n, To: n})
			}
		}
		for a.skipped[id][s.Through+1] {
			s.Through++
		}
		if newest[id.tank] == id.epoch || len(s.Missing) > 0 || a.heard[id] {
			c.Streams = append(c.Streams, s)
		}
	}
	slices.SortFunc(c.Streams, func(x, y event.ConfirmStream) int {
		return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), cmp.Compare(x.Tank, y.Tank))
	})
	clear(a.heard)
	return c
}

// backup gives a copy, and restore makes it the account, as another incarnation.
func (a *account) backup() *account {
	b := *a
	b.seen, b.skipped = map[streamID]map[uint64]bool{}, map[streamID]map[uint64]bool{}
	for id, m := range a.seen {
		b.seen[id] = maps.Clone(m)
	}
	for id, m := range a.skipped {
		b.skipped[id] = maps.Clone(m)
	}
	b.content, b.heard, b.last = maps.Clone(a.content), map[streamID]bool{}, maps.Clone(a.last)
	return &b
}

func (a *account) tell(t tb, b *Outbox) {
	t.Helper()
	if len(a.seen) == 0 {
		return // a source that it has never heard of has no confirmation
	}
	if err := b.Heard(a.confirm()); err != nil {
		t.Fatalf("Heard: %v", err)
	}
}

// line is a publisher, with a broker that acknowledges everything and forwards
// what lose does not hold back.
type line struct {
	b     *Outbox
	after uint64
	soon  bool // confirms by ConfirmSoon
	lose  func(e event.Event) bool
	to    []*account
	sent  []event.Event // since the last call of run

	left map[string]string // the bytes of each id, as it left first
}

func (l *line) run(t tb) []event.Event {
	t.Helper()
	l.sent = nil
	for turn := 0; ; turn++ {
		rows := mustNext(t, l.b, l.after, 256)
		if len(rows) == 0 {
			return l.sent
		}
		if turn > 10_000 {
			t.Fatalf("Next never ends")
		}
		for _, r := range rows {
			if r.Row <= l.after {
				t.Fatalf("row %d after row %d", r.Row, l.after)
			}
			l.after = r.Row
			e := decode(t, r)
			l.sent = append(l.sent, e)
			if first, again := l.left[e.ID]; again && first != string(r.Payload) {
				t.Fatalf("left as %s, now %s", first, r.Payload)
			}
			if l.left == nil {
				l.left = map[string]string{}
			}
			l.left[e.ID] = string(r.Payload)
			if l.lose != nil && l.lose(e) {
				continue
			}
			for _, a := range l.to {
				a.apply(t, r)
			}
		}
		if l.soon {
			confirmSoon(t, l.b, rows)
		} else {
			mustConfirm(t, l.b, rows)
		}
	}
}

// settle lets ledgers and node talk for a while.
func (l *line) settle(t tb, clock *fakeClock, d time.Duration) (sent []event.Event) {
	t.Helper()
	for end := clock.Mono() + d; clock.Mono() < end; clock.advance(reviewInterval) {
		for _, a := range l.to {
			a.tell(t, l.b)
		}
		sent = append(sent, l.run(t)...)
	}
	return sent
}

func (a *account) complete(t *testing.T, b *Outbox) {
	t.Helper()
	for _, s := range a.confirm().Streams {
		own := storedStream(t, b, s.Epoch, s.Tank)
		if len(s.Missing) > 0 || s.Through < own.last {
			t.Errorf("ledger %s has %s of epoch %d up to %d of %d but %v", a.id, s.Tank, s.Epoch, s.Through, own.last, s.Missing)
		}
	}
}

func seqs(list []event.Event) (out []uint64) {
	for _, e := range list {
		out = append(out, e.Dot.Seq)
	}
	return out
}

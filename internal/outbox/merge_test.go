package outbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// appended is one event as it was appended, before anything was merged.
type appended struct {
	draft event.Event
	dot   event.Dot
	tank  string
	boot  int
	mono  time.Duration
	wall  time.Time
	left  []byte // its bytes, where it left before the merging
}

// merges drives an outbox that merges now and then, beside the list of what was
// appended.
type merges struct {
	b     *Outbox
	clock *fakeClock
	list  []*appended
	boots int
	sent  []event.Event // what has left, in order
}

func TestMergingKeepsBalanceAndTotals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "outbox")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		clock := newClock()
		m := &merges{b: reopen(t, testOptions(filepath.Join(dir, "o"), clock)), clock: clock}
		defer func() { m.b.f.Close() }()
		m.b.perSlice = rapid.IntRange(1, 5).Draw(t, "slice")
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"append2": m.append,
			"time":    m.time,
			"merge":   m.merge,
			"leave":   m.leave,
			"crash":   m.crash,
			"": func(t *rapid.T) {
				if err := m.b.Check(); err != nil {
					t.Fatal(err)
				}
			},
		})
		m.leaveAll(t)
		m.verify(t)
	})
}

func (m *merges) append(t *rapid.T) {
	tank := rapid.SampledFrom([]string{"A", "A", "A", "B"}).Draw(t, "tank")
	for range rapid.IntRange(1, 6).Draw(t, "count") {
		e := snapshot(tank, rapid.Int64Range(1, 900).Draw(t, "grams"))
		switch rapid.IntRange(0, 12).Draw(t, "kind") {
		case 0, 1, 2:
		case 3:
			e.Type = event.Refilled
		case 4:
			e.Type, e.Operation = event.Consumed, fmt.Sprint("op-", len(m.list))
		case 5:
			e.ID = fmt.Sprint("mine-", len(m.list))
			e.Type = rapid.SampledFrom([]event.Type{event.Measured, event.Consumed}).Draw(t, "own")
		case 6:
			e = event.Event{Type: event.Reversed, Tank: tank, Reverses: "x"}
		default:
			e.Type = event.Consumed
		}
		e.Suspect = e.Type != event.Reversed && rapid.IntRange(0, 9).Draw(t, "suspect") == 0
		r := mustAppend(t, m.b, e)[0]
		m.list = append(m.list, &appended{draft: e, dot: r.Dot, tank: tank, boot: m.boots, mono: m.clock.Mono(), wall: m.clock.Now()})
		m.clock.advance(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
	}
}

func (m *merges) time(t *rapid.T) {
	m.clock.step(time.Duration(rapid.IntRange(-90, 90).Draw(t, "minutes")) * time.Minute)
	m.clock.sync(rapid.Bool().Draw(t, "synced"))
}

func (m *merges) merge(t *rapid.T) {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	for range rapid.IntRange(1, 20).Draw(t, "slices") {
		n, err := m.b.coalesce()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func (m *merges) leave(t *rapid.T) { m.handOver(t, rapid.IntRange(1, 9).Draw(t, "limit")) }

func (m *merges) handOver(t *rapid.T, limit int) int {
	rows := mustNext(t, m.b, 0, limit)
	for _, r := range rows {
		e := decode(t, r)
		m.sent = append(m.sent, e)
		for _, a := range m.list {
			if a.dot == e.Dot && a.tank == e.Tank {
				if a.left != nil && !bytes.Equal(a.left, r.Payload) {
					t.Fatalf("left as %s, now %s", a.left, r.Payload)
				}
				a.left = r.Payload
			}
		}
	}
	mustConfirm(t, m.b, rows)
	return len(rows)
}

func (m *merges) leaveAll(t *rapid.T) {
	for m.handOver(t, 50) > 0 {
	}
}

func (m *merges) crash(t *rapid.T) {
	if rapid.Bool().Draw(t, "reboot") {
		m.boots++
		m.clock.reboot(fmt.Sprint("merge-", m.boots))
	}
	m.b = crash(t, m.b)
	m.b.perSlice = 3
}

// verify compares, stream by stream, what has left with what was appended.
func (m *merges) verify(t *rapid.T) {
	streams := map[streamID][]*appended{}
	for _, a := range m.list {
		id := streamID{a.dot.Epoch, a.tank}
		streams[id] = append(streams[id], a)
	}
	for _, e := range m.sent {
		id := streamID{e.Dot.Epoch, e.Tank}
		m.verifyRun(t, &e, streams[id])
		if e.Type != event.Measured {
			continue
		}
		for _, kind := range []event.Type{event.Consumed, event.Refilled} {
			var want, got int64
			for _, a := range streams[id] {
				if a.draft.Type == kind && a.dot.Seq < e.Dot.Seq {
					want += int64(a.draft.Amount)
				}
			}
			for _, s := range m.sent {
				if s.Type == kind && s.Tank == e.Tank && s.Dot.Epoch == e.Dot.Epoch && s.Dot.Seq < e.Dot.Seq {
					got += int64(s.Amount)
				}
			}
			if got != want {
				t.Fatalf("in front of snapshot %v of %s: %d %s, want %d", e.Dot, e.Tank, got, kind, want)
			}
		}
	}
	for id, list := range streams {
		next, last := uint64(1), uint64(0)
		for _, e := range m.sent {
			if (streamID{e.Dot.Epoch, e.Tank}) != id {
				continue
			}
			if run := e.Run(); run.From != next {
				t.Fatalf("run %v of %v after number %d", run, id, next-1)
			}
			next = e.Dot.Seq + 1
			if e.Type == event.Measured {
				last = e.Dot.Seq
			}
		}
		if next != uint64(len(list))+1 {
			t.Fatalf("%v ends at %d of %d", id, next-1, len(list))
		}
		for _, a := range list {
			if a.draft.Type == event.Measured && a.dot.Seq > last {
				t.Fatalf("the last snapshot of %v, %d, is gone", id, a.dot.Seq)
			}
		}
	}
}

// verifyRun checks one event against what it stands for.
func (m *merges) verifyRun(t *rapid.T, e *event.Event, stream []*appended) {
	run := e.Run()
	own := stream[run.To-1]
	sum, suspect := int64(0), false
	var first *appended
	for _, a := range stream[run.From-1 : run.To] {
		fixed := a.draft.ID != "" || a.draft.Operation != "" || a.draft.Type == event.Reversed
		if a != own && (fixed || own.draft.ID != "" || own.draft.Operation != "") {
			t.Fatalf("%v stands for %+v", e, a.draft)
		}
		if a.draft.Type != own.draft.Type {
			if a.draft.Type != event.Measured || own.draft.Type == event.Measured {
				t.Fatalf("%s %v stands for a %s", e.Type, run, a.draft.Type)
			}
			continue // a snapshot within a run of deltas
		}
		if first == nil {
			first = a
		}
		if own.draft.Type == event.Measured {
			sum, suspect = int64(a.draft.Amount), a.draft.Suspect
			continue
		}
		sum += int64(a.draft.Amount)
		suspect = suspect || a.draft.Suspect
		if a.boot != own.boot || own.mono-first.mono > time.Hour || own.wall.Sub(first.wall) > time.Hour {
			t.Fatalf("%s %v stands for more than an hour: %v to %v", e.Type, run, first, own)
		}
	}
	if e.Type != own.draft.Type || int64(e.Amount) != sum || e.Suspect != suspect {
		t.Fatalf("%s %v: %d, suspect %t, want %s %d, %t", e.Type, run, e.Amount, e.Suspect, own.draft.Type, sum, suspect)
	}
}

func TestMergedRuns(t *testing.T) {
	for _, x := range []struct{ name, stream, want string }{
		{"deltas", "cccc", " C1-4"},
		{"of one type", "ccrrc", " C1-2 R3-4 C5-5"},
		{"a snapshot at the end stays", "ccm", " C1-2 M3-3"},
		{"the only snapshot stays in its place", "cmc", " C1-1 M2-2 C3-3"},
		{"one that another follows vanishes", "cmcm", " C1-3 M4-4"},
		{"again and again", "mcmcmcm", " M1-1 C2-6 M7-7"},
		{"snapshots in a row", "cmmcmm", " C1-4 M5-6"},
		{"a reversal stays", "ccvcc", " C1-2 V3-3 C4-5"},
		{"an operation stays", "ccocc", " C1-2 C3-3 C4-5"},
		{"a caller's snapshot stays", "cMcm", " C1-1 M2-2 C3-3 M4-4"},
		{"other types across a snapshot", "cmrm", " C1-1 M2-2 R3-3 M4-4"},
		{"an hour at most", "cchcc", " C1-2 C3-4"},
		{"an hour at most, across a snapshot", "cmhcm", " C1-1 M2-2 C3-3 M4-4"},
		{"not over a step of the clock", "cckcc", " C1-2 C3-4"},
	} {
		t.Run(x.name, func(t *testing.T) {
			clock := newClock()
			b := open(t, testOptions(path(t), clock))
			for _, kind := range x.stream {
				e := delta("A", 1)
				switch kind {
				case 'm':
					e.Type = event.Measured
				case 'M':
					e.Type, e.ID = event.Measured, "mine"
				case 'r':
					e.Type = event.Refilled
				case 'v':
					e = event.Event{Type: event.Reversed, Tank: "A", Reverses: "x"}
				case 'o':
					e.Operation = "op"
				case 'h':
					clock.advance(time.Hour)
					continue
				case 'k':
					clock.step(-time.Minute)
					continue
				}
				clock.advance(time.Second)
				mustAppend(t, b, e)
			}
			b.mu.Lock()
			for {
				n, err := b.coalesce()
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
			}
			b.mu.Unlock()
			got := ""
			for _, e := range drain(t, b) {
				letter := map[event.Type]string{event.Measured: "M", event.Consumed: "C", event.Refilled: "R", event.Reversed: "V"}[e.Type]
				got += fmt.Sprintf(" %s%d-%d", letter, e.Run().From, e.Run().To)
			}
			if got != x.want {
				t.Errorf("%s becomes%s, want%s", x.stream, got, x.want)
			}
		})
	}
}

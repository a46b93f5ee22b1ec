package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// promptly is how soon after it happened every ledger gets what nothing but time
// tells from a repeat: half of the window.
const promptly = testWindow / 2

// site is one of two ledgers that get the same events, each in an order of its own,
// in batches of its own, with repeats, restarts, pruning and restored backups of its
// own. Nothing of that may show.
type site struct {
	*rig
	name    string
	queue   []Delivery
	image   []byte     // a backup
	taken   time.Time  // when
	missing []Delivery // what came since
}

// together makes the events.
type together struct {
	rt        *rapid.T
	clk       *clock
	sites     [2]*site
	n         int
	producers []*producer
	made      []*Delivery
	disputed  map[string]bool // tanks with a conflict: which content is in force hangs on the order
}

func newTogether(t *testing.T, rt *rapid.T) *together {
	w := &together{rt: rt, clk: &clock{noon}, disputed: map[string]bool{},
		producers: []*producer{{name: "gauge", tank: "A", epoch: 1}, {name: "flow", tank: "A", epoch: 1}, {name: "gauge", tank: "B", epoch: 1},
			{name: "flow", tank: "Z", epoch: 1}}}
	for i, name := range []string{"one", "two"} {
		w.sites[i] = &site{name: name, rig: newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)}, Tank{ID: "B"})}
		w.sites[i].with(func(o *Options) { o.DedupWindow, o.History, o.Now, o.Closed = testWindow, testHistory, w.clk.Now, true })
	}
	return w
}

func (w *together) coin(what string, outOf int) bool {
	return rapid.IntRange(1, outOf).Draw(w.rt, what) == 1
}

// make gives the next event of a producer, or of a stranger without a number.
func (w *together) make(p *producer) *Delivery {
	w.n++
	w.clk.now = w.clk.now.Add(time.Millisecond)
	e := event.Event{Type: rapid.SampledFrom([]event.Type{event.Measured, event.Consumed, event.Consumed, event.Refilled}).Draw(w.rt, "type"),
		ID: fmt.Sprintf("e%d", w.n), Tank: rapid.SampledFrom([]string{"A", "A", "B", "Z"}).Draw(w.rt, "tank"), Version: event.WireVersion,
		OccurredAt: w.clk.now, Amount: *grams(int64(rapid.IntRange(1, 100).Draw(w.rt, "amount"))), Suspect: w.coin("suspect", 9)}
	if e.Type.Delta() && w.coin("operation", 8) {
		e.Operation = fmt.Sprint("o", rapid.IntRange(1, 4).Draw(w.rt, "op"))
	}
	if p != nil {
		w.number(p, &e)
		if e.Type == event.Measured && w.coin("covers", 3) {
			o := w.producers[1]
			e.Covers = map[string]event.Dot{o.name: {Epoch: o.epoch, Seq: max(1, o.seq-min(o.seq, uint64(rapid.IntRange(0, 5).Draw(w.rt, "behind"))))}}
		}
	}
	return w.publish(Delivery{Event: e})
}

func (w *together) number(p *producer, e *event.Event) {
	e.Source, e.Tank = p.name, p.tank
	p.seq++
	from := p.seq
	if e.Operation == "" && e.Type != event.Skipped && w.coin("merged", 10) {
		p.seq += uint64(rapid.IntRange(1, 4).Draw(w.rt, "run"))
		e.StandsFor = event.Range{From: from, To: p.seq}
	}
	e.Dot = event.Dot{Epoch: p.epoch, Seq: p.seq}
	if !w.coin("own id", 6) {
		e.ID = event.NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
	}
}

func (w *together) publish(d Delivery) *Delivery {
	w.made = append(w.made, &d)
	for _, s := range w.sites {
		s.queue = append(s.queue, d)
	}
	return &d
}

// recent gives a delta that no ledger can have pruned.
func (w *together) recent() *event.Event {
	var list []*event.Event
	for _, d := range w.made[max(0, len(w.made)-12):] {
		if e := &d.Event; e.Type.Delta() && w.clk.now.Sub(e.OccurredAt) < promptly {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return rapid.SampledFrom(list).Draw(w.rt, "target")
}

func (w *together) reverse() {
	if e := w.recent(); e != nil {
		w.n++
		w.clk.now = w.clk.now.Add(time.Millisecond)
		w.publish(Delivery{Event: event.Event{Type: event.Reversed, ID: fmt.Sprintf("r%d", w.n), Tank: e.Tank, Reverses: e.ID,
			ReversesSource: e.Source, OccurredAt: w.clk.now, Version: event.WireVersion}})
	}
}

// contradict sends other content under the name of an event, to all before either is
// old.
func (w *together) contradict() {
	if e := w.recent(); e != nil {
		twin := *e
		twin.Amount++
		w.disputed[e.Tank] = true
		w.publish(Delivery{Event: twin})
		for _, s := range w.sites {
			w.drain(s, func(d *Delivery) bool { return d.Event.Identity() == e.Identity() })
		}
	}
}

// skip declares numbers as not coming; they may come all the same.
func (w *together) skip() {
	p := rapid.SampledFrom(w.producers).Draw(w.rt, "skips")
	if p.seq == 0 {
		return
	}
	w.n++
	w.clk.now = w.clk.now.Add(time.Millisecond)
	n := rapid.Uint64Range(1, p.seq).Draw(w.rt, "from")
	e := event.Event{Type: event.Skipped, OccurredAt: w.clk.now, Version: event.WireVersion, ID: fmt.Sprintf("s%d", w.n),
		Skips: []event.Range{{From: n, To: min(n+2, p.seq)}}, SkipsEpoch: p.epoch}
	w.number(p, &e)
	w.publish(Delivery{Event: e})
}

// urgent reports whether a late event would be refused, or could be decided otherwise
// once others are pruned.
func urgent(d *Delivery) bool {
	return !d.Event.Numbered() || d.Event.Type == event.Reversed || d.Event.Tank == "Z"
}

func (w *together) apply(s *site, list []Delivery) {
	for len(list) > 0 {
		n := min(len(list), rapid.IntRange(1, 8).Draw(w.rt, "batch"))
		if _, err := s.l.Apply(list[:n]); err != nil {
			w.rt.Fatalf("%s: apply: %v", s.name, err)
		}
		if s.image != nil {
			s.missing = append(s.missing, list[:n]...)
		}
		list = list[n:]
	}
}

// drain delivers what is chosen from the queue.
func (w *together) drain(s *site, chosen func(*Delivery) bool) {
	var now, later []Delivery
	for _, d := range s.queue {
		if chosen(&d) {
			now = append(now, d)
		} else {
			later = append(later, d)
		}
	}
	s.queue = later
	w.apply(s, now)
}

// pass lets time go by, and before that delivers what would be too old after it.
func (w *together) pass(by time.Duration) {
	for _, s := range w.sites {
		w.drain(s, func(d *Delivery) bool { return urgent(d) && w.clk.now.Add(by).Sub(d.Event.OccurredAt) > promptly })
		w.decide(s)
	}
	w.clk.now = w.clk.now.Add(by)
}

// decide settles what is in quarantine: of what the config does not list, two thirds
// are accepted and the rest is discarded. A second time must change nothing.
func (w *together) decide(s *site) {
	list, err := s.l.Quarantine(1 << 20)
	if err != nil {
		w.rt.Fatal(err)
	}
	for _, k := range list {
		if k.Reason == event.Conflict || k.Reason == event.OlderThanWindow { // the latter was there, and is pruned
			continue
		}
		if k.Reason != event.UnknownTank && k.Tank != "Z" {
			w.rt.Fatalf("%s: %s %q is kept as %s", s.name, k.Tank, k.EventID, k.Reason)
		}
		for range 2 {
			if k.EventID[len(k.EventID)-1]%3 == 0 {
				_, err = s.l.Discard(k.ID, "")
			} else {
				_, err = s.l.Retry(k.ID, "", "")
			}
			if err != nil && !errors.Is(err, ErrNotRetryable) {
				w.rt.Fatalf("%s: decide about %s %s %s: %v", s.name, k.Reason, k.Tank, k.EventID, err)
			}
		}
	}
}

func (w *together) backUp(s *site) {
	f, err := os.Create(filepath.Join(filepath.Dir(s.opt.Path), "backup"))
	if err != nil {
		w.rt.Fatal(err)
	}
	defer f.Close()
	if err := s.l.Backup(f, func(int64) {}); err != nil {
		w.rt.Fatal(err)
	}
	s.image, _ = os.ReadFile(f.Name())
	s.missing, s.taken = nil, w.clk.now
}

// restore puts the backup back; what came since comes again, in any order.
func (w *together) restore(s *site) {
	was, _ := s.l.Status()
	s.l.Close()
	if err := os.WriteFile(s.opt.Path, s.image, 0o600); err != nil {
		w.rt.Fatal(err)
	}
	s.open()
	if n, err := s.l.RaiseIncarnation(was.Incarnation); err != nil || n <= was.Incarnation {
		w.rt.Fatalf("incarnation %d after %d, %v", n, was.Incarnation, err)
	}
	again := s.missing
	s.image, s.missing = nil, nil
	if len(again) > 0 {
		w.apply(s, rapid.Permutation(again).Draw(w.rt, "again"))
	}
	w.decide(s)
}

func (w *together) step() {
	s := rapid.SampledFrom(w.sites[:]).Draw(w.rt, "site")
	switch rapid.IntRange(0, 24).Draw(w.rt, "what") {
	case 0:
		w.pass(time.Duration(rapid.IntRange(1, 25).Draw(w.rt, "minutes")) * time.Minute)
	case 1:
		for range 6 {
			w.pass(promptly - time.Minute)
		}
	case 2:
		w.make(nil)
	case 3:
		w.reverse()
	case 4:
		if w.coin("conflict", 3) {
			w.contradict()
		}
	case 5:
		w.skip()
	case 6:
		p := rapid.SampledFrom(w.producers).Draw(w.rt, "restarts")
		p.epoch, p.seq = p.epoch+1, 0
	case 7:
		s.reopen()
	case 8, 9:
		for range 3 {
			if _, err := s.l.Prune(200); err != nil {
				w.rt.Fatal(err)
			}
		}
	case 10, 11:
		w.redeliver(s)
	case 12:
		w.decide(s)
	case 13:
		if s.image == nil || w.clk.now.Sub(s.taken) >= testWindow-promptly { // then something could be too old
			w.backUp(s)
		} else {
			w.restore(s)
		}
	case 14, 15, 16, 17:
		if len(s.queue) > 0 {
			order := rapid.Permutation(s.queue).Draw(w.rt, "order")
			n := rapid.IntRange(1, len(order)).Draw(w.rt, "some")
			s.queue = slices.Clone(order[n:])
			w.apply(s, order[:n])
		}
	case 18:
		if err := s.l.Check(); err != nil {
			w.rt.Fatalf("%s: check: %v", s.name, err)
		}
	default:
		for range rapid.IntRange(1, 6).Draw(w.rt, "events") {
			w.make(rapid.SampledFrom(w.producers).Draw(w.rt, "producer"))
		}
	}
}

// redeliver repeats anything that the site had once.
func (w *together) redeliver(s *site) {
	waits := map[event.Hash]bool{}
	for i := range s.queue {
		waits[s.queue[i].Event.Hash()] = true
	}
	for range 4 {
		if len(w.made) == 0 {
			return
		}
		d := rapid.SampledFrom(w.made).Draw(w.rt, "again")
		if waits[d.Event.Hash()] {
			continue
		}
		res, err := s.l.Apply([]Delivery{*d})
		if err != nil {
			w.rt.Fatalf("%s: apply again: %v", s.name, err)
		}
		if res[0].Outcome.Accepted() {
			w.rt.Fatalf("%s: %s %s was there, and is %v (%v)", s.name, d.Event.Type, d.Event.ID, res[0], w.clk.now.Sub(d.Event.OccurredAt))
		}
	}
}

// compare sets the two ledgers against each other when both have everything.
func (w *together) compare() {
	var docs [2][]Balance
	var status [2]Status
	var err error
	for i, s := range w.sites {
		w.drain(s, func(*Delivery) bool { return true })
		w.decide(s)
		if docs[i], err = s.l.Balances(); err != nil {
			w.rt.Fatal(err)
		}
		if status[i], err = s.l.Status(); err != nil {
			w.rt.Fatal(err)
		}
	}
	if status[0].Facts != status[1].Facts {
		w.rt.Fatalf("facts differ\n%s\n%s", dump(w.sites[0].rig), dump(w.sites[1].rig))
	}
	same := true
	for i := range docs[0] {
		x, y := docs[0][i], docs[1][i]
		if w.disputed[x.Tank] || slices.Contains(x.Flags, "inexact") || slices.Contains(y.Flags, "inexact") {
			same = false
			continue
		}
		x.Revision, x.Incarnation, y.Revision, y.Incarnation = 0, 0, 0, 0
		if x.Discrepancy == nil || y.Discrepancy == nil {
			x.Discrepancy, y.Discrepancy = nil, nil
		}
		if text(x) != text(y) {
			w.rt.Fatalf("balances differ\n%s\n%s\n%s\n%s", text(x), text(y), dump(w.sites[0].rig), dump(w.sites[1].rig))
		}
	}
	if same && status[0].Digest != status[1].Digest {
		w.rt.Fatalf("digests differ\n%s\n%s", text(docs[0]), text(docs[1]))
	}
}

// Two ledgers that got the same events have the same account, whatever each of them
// went through.
func TestTwoLedgersTogether(t *testing.T) {
	went, retried := uint64(0), uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		w := newTogether(t, rt)
		for range rapid.IntRange(20, 200).Draw(rt, "steps") {
			w.step()
		}
		w.compare()
		for _, s := range w.sites {
			st, _ := s.l.Status()
			went, retried = went+st.Pruned, retried+st.Retried
			if err := s.l.Check(); err != nil {
				rt.Fatalf("%s: check at the end: %v", s.name, err)
			}
			s.l.Close()
			s.l = nil
			os.RemoveAll(filepath.Dir(s.opt.Path))
		}
	})
	t.Logf("%d rows went, %d retries", went, retried)
	if !t.Failed() && (went == 0 || retried == 0) {
		t.Error("nothing was tested")
	}
}

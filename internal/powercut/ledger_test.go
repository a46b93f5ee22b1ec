package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ingest"
	"oxyd/internal/event"
	"oxyd/ledger"
)

// ledgerFile is the account's name on the disk.
const ledgerFile = "ledger.bolt"

func openLedger(path string) (*ledger.Ledger, error) {
	var tanks []ledger.Tank
	for _, id := range []string{"A", "B"} {
		initial := openings[id]
		tanks = append(tanks, ledger.Tank{ID: id, Initial: &initial})
	}
	return ledger.Open(ledger.Options{Path: path, MaxBytes: 16 << 20, Tanks: tanks,
		Now: func() time.Time { return noon.Add(time.Hour) }, Log: zerolog.Nop()})
}

// errNoMore ends ingest when all has been delivered.
var errNoMore = errors.New("no more messages")

// ledgerWork is the receiving side: package ingest before a real account, and a
// broker that delivers what has not been acknowledged. It says "ack n" for message
// n of the workload when its PUBACK would leave.
func ledgerWork(j job, say func(string, ...any)) error {
	l, err := openLedger(filepath.Join(j.Dir, ledgerFile))
	if err != nil {
		return err
	}
	say(saysReady)
	w := newWorkload(j.Seed)
	b := newBroker(j, w, say)
	in := ingest.Ingest{Split: splitTopic, Apply: func(d []ledger.Delivery) ([]ledger.Result, error) {
		results, err := l.Apply(d)
		b.applied(results)
		return results, err
	}, Log: zerolog.Nop()}
	err = in.Run(context.Background(), b.take)
	if errors.Is(err, errNoMore) {
		return nil
	}
	return err
}

func splitTopic(topic string) (tank, leaf string, ok bool) {
	parts := strings.Split(topic, "/")
	if len(parts) != 5 {
		return "", "", false
	}
	return parts[3], parts[4], true
}

// broker delivers the messages that nobody has acknowledged, in batches as they
// happen to wait, and after a crash some of the others again.
type broker struct {
	random  *rand.Rand
	w       *workload
	say     func(string, ...any)
	waiting []int
	acked   []int                   // before the crash
	before  map[event.Identity]bool // their identities
	batch   []int
	met     map[event.Identity]bool // in this life of the client
}

func newBroker(j job, w *workload, say func(string, ...any)) *broker {
	b := &broker{random: rand.New(rand.NewPCG(j.Seed, 2+uint64(len(j.Lines)))), w: w, say: say, met: map[event.Identity]bool{}, before: map[event.Identity]bool{}}
	acked := acknowledged(j.Lines)
	for n := range w.messages {
		if acked[n] {
			b.acked = append(b.acked, n)
			b.before[w.messages[n].event.Identity()] = true
		} else {
			b.waiting = append(b.waiting, n)
		}
	}
	return b
}

func (b *broker) take(context.Context, int) ([]ingest.Message, error) {
	if len(b.waiting) == 0 {
		return nil, errNoMore
	}
	size := 1
	if b.random.IntN(3) > 0 {
		size = 1 + b.random.IntN(24)
	}
	size = min(size, len(b.waiting))
	b.batch = slices.Clone(b.waiting[:size])
	b.waiting = b.waiting[size:]
	if len(b.acked) > 0 && b.random.IntN(3) == 0 {
		b.batch = append(b.batch, b.acked[b.random.IntN(len(b.acked))])
	}
	var batch []ingest.Message
	for _, n := range b.batch {
		m := b.w.messages[n]
		batch = append(batch, ingest.Message{Topic: m.topic, Payload: m.payload, Retained: m.retain,
			Ack: func() { b.say("%s %d", saysAck, n) }})
	}
	return batch, nil
}

// applied says what was not acknowledged before the crash and is there all the
// same.
func (b *broker) applied(results []ledger.Result) {
	for i, r := range results {
		n := b.batch[i]
		id := b.w.messages[n].event.Identity()
		if r.Outcome == ledger.Duplicate && !b.met[id] && !b.before[id] {
			b.say("%s %d", saysAgain, n)
		}
		b.met[id] = true
	}
}

// acknowledged gives the numbers after "ack".
func acknowledged(lines []string) map[int]bool {
	acked := map[int]bool{}
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscanf(line, saysAck+" %d", &n); err == nil {
			acked[n] = true
		}
	}
	return acked
}

// ledgerJudge holds what a cut has left against what was promised.
func ledgerJudge(j job, dir string) error {
	path := filepath.Join(dir, ledgerFile)
	if _, err := os.Stat(path); err != nil && len(j.Lines) > 0 {
		return fmt.Errorf("the account is gone: %w", err)
	}
	l, err := openLedger(path)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := onlyFile(dir, ledgerFile); err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return err
	}
	w := newWorkload(j.Seed)
	if err := w.nothingInvented(l); err != nil {
		return err
	}
	acked := acknowledged(j.Lines)
	if err := w.nothingLost(l, acked); err != nil {
		return err
	}
	if err := w.redeliver(l, acked); err != nil {
		return err
	}
	if err := w.sums(l); err != nil {
		return err
	}
	return l.Check()
}

// onlyFile verifies that opening has left nothing of a cut creation.
func onlyFile(dir, name string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != name {
			return fmt.Errorf("%s is left over", e.Name())
		}
	}
	return err
}

// nothingInvented: every row of the journal is an event that was sent, or an
// opening amount.
func (w *workload) nothingInvented(l *ledger.Ledger) error {
	sent := map[event.Identity]bool{}
	for _, m := range w.messages {
		sent[m.event.Identity()] = true
	}
	rows, _, done, err := l.Journal(ledger.Query{Limit: 2 * len(w.messages)})
	if err != nil || !done {
		return fmt.Errorf("read the journal: done %t, %w", done, err)
	}
	for _, r := range rows {
		if r.EventID != "" && !sent[event.Identity{Source: r.Source, ID: r.EventID}] {
			return fmt.Errorf("journal row %d (%s) was never sent", r.LSN, r.EventID)
		}
	}
	return nil
}

// nothingLost: what was acknowledged is in the journal, or kept in quarantine, and
// is answered as a repeat.
func (w *workload) nothingLost(l *ledger.Ledger, acked map[int]bool) error {
	quarantine, err := l.Quarantine(len(w.messages))
	if err != nil {
		return err
	}
	for n, m := range w.messages {
		switch {
		case !acked[n]:
		case m.kept:
			if !slices.ContainsFunc(quarantine, func(k ledger.Kept) bool { return k.Topic == m.topic && bytes.Equal(k.Payload, m.payload) }) {
				return fmt.Errorf("LOST: message %d was acknowledged and is not in the quarantine: %s", n, m.payload)
			}
		default:
			if _, known, err := l.Outcome(m.event.Identity()); err != nil || !known {
				return fmt.Errorf("LOST: message %d was acknowledged and is not in the journal (%v): %s", n, err, m.payload)
			}
		}
	}
	return nil
}

// redeliver delivers everything once more, in order.
func (w *workload) redeliver(l *ledger.Ledger, acked map[int]bool) error {
	const batch = 100
	for from := 0; from < len(w.messages); from += batch {
		var deliveries []ledger.Delivery
		for _, m := range w.messages[from:min(from+batch, len(w.messages))] {
			deliveries = append(deliveries, m.delivery())
		}
		results, err := l.Apply(deliveries)
		if err != nil {
			return err
		}
		for i, r := range results {
			n, ok := from+i, r.Outcome == ledger.Duplicate
			if w.messages[n].kept {
				ok = r.Outcome == ledger.Quarantined || r.Outcome == ledger.Conflict
			}
			if acked[n] && !ok {
				return fmt.Errorf("message %d was acknowledged and is %v now: %s", n, r.Outcome, w.messages[n].payload)
			}
		}
	}
	return nil
}

func (m message) delivery() ledger.Delivery {
	d := ledger.Delivery{Topic: m.topic, Payload: m.payload, Retained: m.retain}
	tank, leaf, _ := splitTopic(m.topic)
	kind, _ := event.TypeOfTopic(leaf)
	var err error
	if d.Event, err = event.Decode(kind, tank, m.payload); err != nil {
		errors.As(err, &d.Form)
	}
	return d
}

// sums: with everything delivered, totals and balances are what the author of the
// workload has added up.
func (w *workload) sums(l *ledger.Ledger) error {
	for tank, want := range w.totals {
		doc, known, err := l.Balance(tank)
		if err != nil || !known {
			return fmt.Errorf("tank %s: known %t, %w", tank, known, err)
		}
		if got := doc.Totals; got.Consumed != ledger.SumOf(want.consumed) || got.Refilled != ledger.SumOf(want.refilled) {
			return fmt.Errorf("tank %s: totals %v and %v, want %v and %v", tank, got.Consumed, got.Refilled, want.consumed, want.refilled)
		}
		if want, known := w.balance[tank]; known && (doc.Balance == nil || *doc.Balance != ledger.SumOf(want)) {
			return fmt.Errorf("tank %s: balance %v, want %v", tank, doc.Balance, want)
		}
	}
	return nil
}

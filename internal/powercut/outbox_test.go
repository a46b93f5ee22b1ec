package powercut

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/internal/outbox"
)

// outboxFile is the outbox's name on the disk.
const outboxFile = "outbox.bolt"

// outboxRounds is how often a client appends; each life of it numbers its drafts
// from another multiple of outboxDrafts.
const (
	outboxRounds = 60
	outboxDrafts = 1000
)

// Words of the outbox beside the common ones. A row is acknowledged by
// "ack draft id epoch seq row".
const (
	saysTry       = "try"       // draft: is about to be appended under an id of its own
	saysLeft      = "left"      // row draft epoch seq sum: Next has handed it over
	saysConfirm   = "confirm"   // row: Confirm is about to be called
	saysConfirmed = "confirmed" // row: Confirm has returned
)

// boardClock is the clock of one boot. Where it is not synchronised, a row gets
// its age when it leaves, and from then on its bytes must stay.
type boardClock struct {
	since  time.Duration // noon
	synced bool
}

func (c boardClock) Now() time.Time      { return noon.Add(c.since) }
func (c boardClock) Mono() time.Duration { return time.Hour + c.since }
func (c boardClock) BootID() string      { return "boot-1" }
func (c boardClock) Synced() bool        { return c.synced }

// clientSynced says whether the clock was synchronised while the client ran. When
// the store is judged it is.
func clientSynced(seed uint64) bool { return seed%2 == 0 }

func openOutbox(path string, c boardClock) (*outbox.Outbox, error) {
	return outbox.Open(outbox.Options{Path: path, Source: "ctl-3", MaxBytes: 4 << 20, Clock: c, Topic: topicOf, Log: zerolog.Nop()})
}

// draftOf gives draft n: its amount tells its number. own: under a caller's id.
func draftOf(seed uint64, n int, own bool) event.Event {
	random := rand.New(rand.NewPCG(seed, 1000+uint64(n)))
	e := event.Event{Type: event.Measured, Tank: []string{"A", "B"}[random.IntN(2)],
		Amount: physic.Mass(n+1) * physic.Gram, OccurredAt: noon.Add(time.Duration(n) * time.Millisecond)}
	switch p := random.IntN(3); {
	case own || p == 0:
		e.Type, e.ID = event.Consumed, fmt.Sprintf("job-%d", n)
	case p == 1:
		e.Type = event.Refilled
	}
	return e
}

// numberOf gives the draft that an event was made of.
func numberOf(e event.Event) int { return int(e.Amount/physic.Gram) - 1 }

// board is a client at work on its outbox.
type board struct {
	j      job
	say    func(string, ...any)
	o      *outbox.Outbox
	random *rand.Rand
	next   int // draft
}

func startBoard(j job, say func(string, ...any)) (*board, error) {
	o, err := openOutbox(filepath.Join(j.Dir, outboxFile), boardClock{time.Minute, clientSynced(j.Seed)})
	if err != nil {
		return nil, err
	}
	say(saysReady)
	lives := 0
	for _, line := range j.Lines {
		if line == saysReady {
			lives++
		}
	}
	n := &board{j, say, o, rand.New(rand.NewPCG(j.Seed, 2+uint64(lives))), lives * outboxDrafts}
	return n, n.repeat()
}

// repeat appends again what was tried under an id of its own and not acknowledged.
func (n *board) repeat() error {
	acked := acknowledged(n.j.Lines)
	for _, line := range n.j.Lines {
		var d int
		if _, err := fmt.Sscanf(line, saysTry+" %d", &d); err != nil || acked[d] {
			continue
		}
		if err := n.append(draftOf(n.j.Seed, d, true)); err != nil {
			return err
		}
	}
	return nil
}

func (n *board) append(drafts ...event.Event) error {
	for _, d := range drafts {
		if d.ID != "" {
			n.say("%s %d", saysTry, numberOf(d))
		}
	}
	receipts, err := n.o.Append(drafts...)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		d := numberOf(drafts[i])
		if r.Again {
			n.say("%s %d", saysAgain, d)
		}
		n.say("%s %d %s %d %d %d", saysAck, d, r.ID, r.Dot.Epoch, r.Dot.Seq, r.Row)
	}
	return nil
}

func (n *board) draft(own bool) event.Event {
	n.next++
	return draftOf(n.j.Seed, n.next-1, own)
}

// outboxWork appends, stages, hands over and confirms.
func outboxWork(j job, say func(string, ...any)) error {
	n, err := startBoard(j, say)
	if err != nil {
		return err
	}
	for range outboxRounds {
		var drafts []event.Event
		for range 1 + n.random.IntN(5) {
			drafts = append(drafts, n.draft(false))
		}
		if drafts[0].Type == event.Measured && n.random.IntN(3) == 0 {
			err = n.o.Stage(drafts[0])
			drafts = drafts[1:]
		}
		if err == nil && len(drafts) > 0 {
			err = n.append(drafts...)
		}
		if err == nil && n.random.IntN(2) == 0 {
			err = n.drain()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outboxIDsWork appends one at a time, all under ids of their own, as entries by
// hand are. It never drains, so that nothing but Append commits.
func outboxIDsWork(j job, say func(string, ...any)) error {
	n, err := startBoard(j, say)
	for i := 0; err == nil && i < outboxRounds; i++ {
		err = n.append(n.draft(true))
	}
	return err
}

// drain hands a window over and confirms some of it, at once or soon. Now and then it
// takes all there is, so that what is appended next is marked while it is appended.
func (n *board) drain() error {
	limit, all := 1+n.random.IntN(8), n.random.IntN(3) == 0
	if all {
		limit = outboxDrafts
	}
	rows, err := n.o.Next(0, limit)
	if err == nil && all && len(rows) > 0 {
		_, err = n.o.Next(rows[len(rows)-1].Row, limit)
	}
	if err != nil {
		return err
	}
	var confirmed []uint64
	for i, r := range rows {
		e, err := eventOf(r)
		if err != nil {
			return err
		}
		n.say("%s %d %d %d %d %s", saysLeft, r.Row, numberOf(e), e.Dot.Epoch, e.Dot.Seq, sum(r.Payload))
		if i == len(confirmed) && n.random.IntN(4) > 0 {
			n.say("%s %d", saysConfirm, r.Row)
			confirmed = append(confirmed, r.Row)
		}
	}
	if n.random.IntN(2) == 0 {
		return n.o.ConfirmSoon(confirmed)
	}
	if err := n.o.Confirm(confirmed); err != nil {
		return err
	}
	for _, row := range confirmed {
		n.say("%s %d", saysConfirmed, row)
	}
	return nil
}

func eventOf(r outbox.Row) (event.Event, error) {
	parts := strings.Split(r.Topic, "/")
	kind, _ := event.TypeOfTopic(parts[4])
	return event.Decode(kind, parts[3], r.Payload)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:8])
}

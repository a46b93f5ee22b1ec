package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/ledger"
	"oxyd/mqtt"
)

// The example of record (R7): tank A holds 847 g, e-8842 takes 120 g, 727 g are
// right.
const (
	tankID  = "A"
	before  = 847 * physic.Gram
	used    = 120 * physic.Gram
	right   = before - used
	subject = "e-8842" // the event that is delivered again and again
	earlier = "e-8841" // the reading of 847 g, which arrives late
)

// copies is how often the sender sends the subject once more, as one does that saw
// no PUBACK for it.
const copies = 2

// The day of the script. The account's clock is told too, so that a board whose own
// stands at 1970 shows the same.
var (
	earlierAt = time.Date(2026, time.March, 14, 10, 0, 0, 0, time.UTC)
	subjectAt = earlierAt.Add(5 * time.Minute)
	now       = subjectAt.Add(5 * time.Minute)
)

// clockOfTheScript is the wall clock of the accounts.
func clockOfTheScript() time.Time { return now }

// A run is one telling of the script: in one ledger the two events named e-8842
// would be a conflict, so each telling has a site, and consumers, of its own.
type run struct {
	site    string
	subject event.Type
}

func deltas() run { return run{"demo-deltas", event.Consumed} }
func levels() run { return run{"demo-levels", event.Measured} }

func (r run) topics() mqtt.Topics { return mqtt.Topics{Prefix: "oxyd", Site: r.site} }

// role is one consumer of the cast and what is expected of it.
type role struct {
	name   string
	does   string
	killed string // where it is killed at the first delivery of the subject
	why    string
	run    run
	open   func(path string) (book, error)
	// expected is what it holds after the nth delivery of the subject, and until the next.
	expected func(n int) physic.Mass
}

// cast lists the consumers, in the order in which they are shown.
func cast() []role {
	always := func(m physic.Mass) func(int) physic.Mass { return func(int) physic.Mass { return m } }
	return []role{{
		name: "naive", run: deltas(), open: openHandmade(naive),
		does:     "balance -= amount at each delivery, and no mark",
		killed:   "after the effect, before the PUBACK",
		why:      "Nothing tells it that it has seen e-8842: 120 g go off at every delivery",
		expected: func(n int) physic.Mass { return before - physic.Mass(n)*used },
	}, {
		name: "effect, then mark", run: deltas(), open: openHandmade(effectThenMark),
		does:     "balance -= amount in one transaction, the mark of the event_id in the next",
		killed:   "between the two transactions",
		why:      "The effect was on disk and its mark was not: applied twice",
		expected: func(n int) physic.Mass { return before - physic.Mass(min(n, 2))*used },
	}, {
		name: "mark, then effect", run: deltas(), open: openHandmade(markThenEffect),
		does:     "the mark of the event_id in one transaction, balance -= amount in the next",
		killed:   "between the two transactions",
		why:      "The mark was on disk and its effect was not: repeats pass for done, the 120 g are lost",
		expected: always(before),
	}, {
		name: "dedup bucket", run: deltas(), open: openAccount,
		does:     "the account of oxyd: effect and mark in one transaction, then the PUBACK",
		killed:   "after the commit, before the PUBACK",
		why:      "Effect and mark are on disk together or not at all, so a repeat is a duplicate",
		expected: always(right),
	}, {
		name: "set to absolute", run: levels(), open: openAccount,
		does:     "the account of oxyd, for an event that says what is left: set to it",
		killed:   "after the commit, before the PUBACK",
		why:      "Set to 727 g again it is 727 g, and the older reading that comes late does not win",
		expected: always(right),
	}}
}

// subjects is e-8842 as each run has it: a delta, or a level.
func subjects() []Message {
	return []Message{deltas().message(event.Consumed, subject, "amount", used, subjectAt),
		levels().message(event.Measured, subject, "remaining", right, subjectAt)}
}

// readings is what was measured before the subject; both runs have it alike.
func readings() []Message {
	return []Message{deltas().message(event.Measured, earlier, "remaining", before, earlierAt),
		levels().message(event.Measured, earlier, "remaining", before, earlierAt)}
}

func (r run) message(t event.Type, id, field string, amount physic.Mass, at time.Time) Message {
	return Message{r.topics().Tank(tankID, t.Topic()), fmt.Sprintf(`{"event_id":%q,"tank":%q,%q:%s,"occurred_at":%q}`,
		id, tankID, field, event.AppendGrams(nil, amount), at.Format(time.RFC3339))}
}

// play goes through the script.
func (s *stage) play(ctx context.Context, to *sender) error {
	if err := s.playCrash(ctx, to); err != nil {
		return err
	}
	if err := to.send(ctx, readings()); err != nil {
		return err
	}
	if err := s.await(ctx, "the late reading", func(a *actor) bool { return a.seen(earlier) >= 1 }); err != nil {
		return err
	}
	s.tell("send", "e-8841, too late: 847 g, measured before e-8842 (the first three know no readings)", readings()...)
	for range copies {
		if err := to.send(ctx, subjects()); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "the copies of e-8842", func(a *actor) bool { return a.seen(subject) >= 2+copies }); err != nil {
		return err
	}
	s.tell("send", fmt.Sprintf("e-8842 again, %d times, as a sender does that saw no PUBACK", copies), subjects()...)
	return s.stopAll(ctx)
}

// playCrash is the first delivery of e-8842, its crash, and the delivery after it.
func (s *stage) playCrash(ctx context.Context, to *sender) error {
	if err := s.startAll(ctx, true); err != nil {
		return err
	}
	if err := s.await(ctx, "the subscriptions", func(a *actor) bool { return a.subscribed }); err != nil {
		return err
	}
	if err := to.send(ctx, subjects()); err != nil {
		return err
	}
	s.tell("send", "e-8842, as 120 g used to the first four, as 727 g measured to the last", subjects()...)
	if err := s.await(ctx, "each consumer to be where it is killed", (*actor).stopped); err != nil {
		return err
	}
	if err := s.killAll(ctx); err != nil {
		return err
	}
	s.tell("kill", "every consumer, with SIGKILL, before its PUBACK for e-8842")
	if err := s.startAll(ctx, false); err != nil {
		return err
	}
	if err := s.await(ctx, "the broker to deliver again", func(a *actor) bool { return a.seen(subject) >= 2 }); err != nil {
		return err
	}
	s.tell("redeliver", "e-8842, by the broker, to each consumer once it is back on its file")
	return nil
}

// judge says what is not as expected of one consumer, or "".
func (r *role) judge(c *Consumer) string {
	times := deliveriesOf(c.Deliveries, subject)
	switch {
	case c.Killed == "":
		return "it was not killed"
	case times < 2+copies:
		return fmt.Sprintf("e-8842 was delivered %d times, expected: at least %d", times, 2+copies)
	case !slices.ContainsFunc(c.Deliveries, func(d Delivery) bool { return d.Dup }):
		return "the broker delivered nothing again"
	case deliveriesOf(c.Deliveries, earlier) < 1:
		return "e-8841 was not delivered"
	}
	// After each delivery, and not only in the end: a later one may cover a fault up.
	for i, d := range c.Deliveries {
		if want := r.expectedAfter(c.Deliveries[:i+1]); d.Holds != want {
			return fmt.Sprintf("after delivery %d it held %s, expected: %s", i+1, d.Holds, want)
		}
	}
	if want := r.expectedAfter(c.Deliveries); c.Holds != want {
		return fmt.Sprintf("it holds %s, expected: %s", c.Holds, want)
	}
	return ""
}

// expectedAfter is what it is expected to hold after these deliveries.
func (r *role) expectedAfter(list []Delivery) ledger.Sum {
	return ledger.SumOf(r.expected(deliveriesOf(list, subject)))
}

func deliveriesOf(list []Delivery, id string) int {
	n := 0
	for _, d := range list {
		if d.EventID == id {
			n++
		}
	}
	return n
}

package cli

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/web"
	"oxyd/ledger"
)

type recordCmd struct {
	Consumed consumedCmd `cmd:"" help:"Book an amount that has gone out of a tank."`
	Measured measuredCmd `cmd:"" help:"Book what a tank holds."`
	Refilled refilledCmd `cmd:"" help:"Book an amount that has come into a tank."`
	Reversed reversedCmd `cmd:"" help:"Take back an earlier consumption or refill."`
}

// Help is the long text of `oxyd record --help`.
func (recordCmd) Help() string {
	return "The event goes the way of all events: this node's outbox, the broker, the ledger. It counts once however often it is sent with one --event-id; after an error repeat the command with the id that is printed. Without an answer of the ledger within 5 s the event is on disk and on its way, and the command says so."
}

// entry is what every recorded event has.
type entry struct {
	configFlag
	Tank    string      `required:"" placeholder:"ID" help:"The tank."`
	EventID *string     `name:"event-id" placeholder:"ID" help:"What a repeat is recognised by, 1 to 192 bytes. Default: a random one, which is printed."`
	At      *occurrence `placeholder:"TIME" help:"When it happened, RFC 3339. Default: now, by the daemon's clock."`
	JSON    bool        `help:"Print the answer as the API gives it."`
}

// Validate refuses what no ledger would take.
func (e *entry) Validate() error {
	if e.Tank != "" && !event.ValidName(e.Tank) { // that it is absent is said elsewhere
		return errors.New("--tank: want a name [A-Za-z0-9][A-Za-z0-9._-]{0,63}")
	}
	if e.EventID == nil {
		return nil
	}
	// An empty one is a script's unset variable: a random id instead would count
	// its repeat a second time.
	if n := len(*e.EventID); n == 0 || n > event.MaxIDBytes {
		return fmt.Errorf("--event-id: want 1 to %d bytes", event.MaxIDBytes)
	}
	return nil
}

// occurrence is a time on the command line.
type occurrence time.Time

// UnmarshalText reads RFC 3339.
func (o *occurrence) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return errors.New("want RFC 3339, such as 2026-03-01T14:05:00Z")
	}
	*o = occurrence(t)
	return nil
}

// delta is what consumptions and refills share.
type delta struct {
	entry
	Amount    *config.Mass `required:"" placeholder:"MASS" help:"How much, with its unit: \"120 g\", 0.5kg."`
	Operation string       `placeholder:"KEY" help:"Business key: of all deltas of one type, tank and key one counts."`
}

// Validate refuses an amount of nothing.
func (d *delta) Validate() error {
	if d.Amount != nil && *d.Amount == 0 {
		return errors.New("--amount: want more than 0 g")
	}
	return d.entry.Validate()
}

type consumedCmd struct{ delta }

// Run books a consumption.
func (c *consumedCmd) Run(s *terminal) error {
	return c.book(s, event.Consumed, fields{"amount": mass(*c.Amount), "operation": optional(c.Operation)})
}

type refilledCmd struct{ delta }

// Run books a refill.
func (c *refilledCmd) Run(s *terminal) error {
	return c.book(s, event.Refilled, fields{"amount": mass(*c.Amount), "operation": optional(c.Operation)})
}

type measuredCmd struct {
	entry
	Remaining config.Mass `required:"" aliases:"amount" placeholder:"MASS" help:"What the tank holds, with its unit: \"727 g\", 14.3kg."`
}

// Run books a measurement.
func (c *measuredCmd) Run(s *terminal) error {
	return c.book(s, event.Measured, fields{"remaining": mass(c.Remaining)})
}

type reversedCmd struct {
	entry
	Reverses       string  `required:"" placeholder:"ID" help:"The event_id of what is taken back."`
	ReversesSource *string `placeholder:"SOURCE" help:"Who had made it. Default: this node; empty: a producer without a name."`
}

// Run books a reversal.
func (c *reversedCmd) Run(s *terminal) error {
	f := fields{"reverses": c.Reverses}
	if c.ReversesSource != nil {
		f["reverses_source"] = *c.ReversesSource
	}
	return c.book(s, event.Reversed, f)
}

// fields are those of the event's JSON; nil ones are left out.
type fields map[string]any

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// mass gives an exact JSON number of grams.
func mass(m config.Mass) any {
	return json.RawMessage(event.AppendGrams(nil, physic.Mass(m)))
}

// book sends the event and prints what became of it.
func (e *entry) book(s *terminal, kind event.Type, f fields) error {
	daemon, err := e.dial()
	if err != nil {
		return err
	}
	id := "record-" + rand.Text() // this program is the producer, so the key is its to make (R2)
	if e.EventID != nil {
		id = *e.EventID
	}
	f["type"], f["tank"], f["event_id"] = kind.String(), e.Tank, id
	if e.At != nil {
		f["occurred_at"] = time.Time(*e.At).UTC().Format(time.RFC3339Nano)
	}
	for name, v := range f {
		if v == nil {
			delete(f, name)
		}
	}
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("make event: %w", err)
	}
	var answer web.Answer
	text, err := daemon.post(s.ctx, "/api/events", body, &answer)
	if err != nil {
		return repeatable(err, id)
	}
	if e.JSON {
		_, err := s.stdout.Write(text)
		return err
	}
	return printAnswer(s, &answer)
}

// repeatable adds the id to an error after which nobody knows whether the event
// was taken: with it a repeat counts once.
func repeatable(err error, id string) error {
	no, refused := errors.AsType[*refusal](err)
	if _, unsent := errors.AsType[*unreached](err); unsent || refused && no.Status < http.StatusInternalServerError && no.Status != http.StatusConflict {
		return err
	}
	hint := "repeat it with --event-id " + id + ": it counts once"
	if refused && no.Advice != "" {
		hint = no.Advice + "; " + hint
	}
	return &hinted{err, hint}
}

func printAnswer(s *terminal, a *web.Answer) error {
	t := newTable(s.stdout)
	t.row("event_id", a.EventID)
	if a.Elsewhere {
		t.row("outcome", "on its way: the event is on disk here; this node keeps no account")
		t.row("ask", "the ledger's node: GET "+a.StatusURL)
		return t.flush()
	}
	if a.Pending {
		t.row("outcome", "pending: the event is on disk and on its way, the ledger has not answered yet")
		t.row("ask", "repeat the command with --event-id "+a.EventID+" (it counts once), or GET "+a.StatusURL)
		return t.flush()
	}
	outcome := a.Outcome
	if a.Reason != "" {
		outcome += " (" + a.Reason + ")"
	}
	t.row("outcome", outcome)
	if a.Balance != nil {
		t.row("balance", fmt.Sprintf("%s of tank %s", grams(a.Balance.Balance), a.Balance.Tank))
		if level := a.Balance.LevelPercent; level != nil {
			t.row("level", percent(level))
		}
	}
	if a.Outcome == ledger.Late.String() {
		t.row("note", "it happened before the measurement in force, which already includes it: the totals change, the balance does not")
	}
	return t.flush()
}

package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oxyd/internal/event"
	"oxyd/internal/web"
	"oxyd/ledger"
)

type journalCmd struct {
	configFlag
	Tank   string      `placeholder:"ID" help:"Of this tank only."`
	From   *occurrence `placeholder:"TIME" help:"From this instant on, RFC 3339."`
	To     *occurrence `placeholder:"TIME" help:"Before this instant."`
	Format string      `enum:"table,csv,jsonl" default:"table" help:"table, csv, or jsonl: one JSON object a line."`
}

// Help is the long text of `oxyd journal --help`.
func (journalCmd) Help() string {
	return "Every event that the account has ever taken or refused by a rule, in the order of receipt, with what became of it, and what operators decided about refused ones. STAMP is its place in time: the source's own instant, or one made of the receipt where the source's clock cannot be used (by_receipt)."
}

// Validate refuses what no tank is called.
func (c *journalCmd) Validate() error {
	if c.Tank != "" && !event.ValidName(c.Tank) {
		return fmt.Errorf("--tank: want a name [A-Za-z0-9][A-Za-z0-9._-]{0,63}")
	}
	return nil
}

// Run prints the journal page by page.
func (c *journalCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	print, flush := c.printer(s)
	q := url.Values{"limit": {strconv.Itoa(web.MaxLimit)}}
	if c.Tank != "" {
		q.Set("tank", c.Tank)
	}
	for name, at := range map[string]*occurrence{"from": c.From, "to": c.To} {
		if at != nil {
			q.Set(name, time.Time(*at).UTC().Format(time.RFC3339Nano))
		}
	}
	for {
		var page web.JournalPage
		if _, err := daemon.get(s.ctx, "/api/journal?"+q.Encode(), &page); err != nil {
			return err
		}
		for i := range page.Records {
			if err := print(&page.Records[i]); err != nil {
				return err
			}
		}
		if page.Done {
			return flush()
		}
		q.Set("after", strconv.FormatUint(page.Next, 10))
	}
}

// printer gives what prints one record, and what ends the output.
func (c *journalCmd) printer(s *terminal) (print func(*ledger.Record) error, flush func() error) {
	switch c.Format {
	case "jsonl":
		out := json.NewEncoder(s.stdout)
		return func(r *ledger.Record) error { return out.Encode(r) }, func() error { return nil }
	case "csv":
		out := csv.NewWriter(s.stdout)
		header := out.Write([]string{"lsn", "type", "tank", "outcome", "reason", "amount_g", "stamp", "by_receipt", "receipt",
			"event_id", "source", "epoch", "seq", "occurred_at", "operation", "reverses", "reverses_source",
			"about", "overruled", "note"})
		return func(r *ledger.Record) error {
				if header != nil {
					return header
				}
				return out.Write([]string{strconv.FormatUint(r.LSN, 10), r.Type, r.Tank, r.Outcome, string(r.Reason), bareGrams(r.Amount),
					nanos(r.Stamp), strconv.FormatBool(r.ByReceipt), nanos(r.Receipt), r.EventID, r.Source, number(r.Epoch), number(r.Seq),
					nanos(r.OccurredAt), r.Operation, r.Reverses, r.ReversesSource, number(r.About), joined(r.Overruled), r.Note})
			}, func() error {
				out.Flush()
				return out.Error()
			}
	}
	t := newTable(s.stdout)
	t.row("ROW", "STAMP", "TANK", "TYPE", "AMOUNT", "OUTCOME", "SOURCE", "EVENT ID")
	return func(r *ledger.Record) error {
		outcome := r.Outcome
		if r.Reason != "" {
			outcome += " (" + string(r.Reason) + ")"
		}
		if len(r.Overruled) > 0 {
			outcome += ", overruled " + joined(r.Overruled)
		}
		amount := "-"
		if r.Amount != nil {
			amount = r.Amount.String()
		}
		t.row(strconv.FormatUint(r.LSN, 10), instant(r.Stamp), orDash(r.Tank), r.Type, amount, orDash(outcome), orDash(r.Source), orDash(r.EventID))
		return nil
	}, t.flush
}

// bareGrams gives the bare number, for a program to read.
func bareGrams(s *ledger.Sum) string {
	if s == nil {
		return ""
	}
	text, _ := s.MarshalJSON() // cannot fail
	return string(text)
}

func joined(rules []event.Reason) string {
	list := make([]string, 0, len(rules))
	for _, r := range rules {
		list = append(list, string(r))
	}
	return strings.Join(list, " ")
}

func nanos(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

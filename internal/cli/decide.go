package cli

import (
	"encoding/json"
	"fmt"
	"net/url"

	"oxyd/internal/event"
	"oxyd/internal/web"
	"oxyd/ledger"
)

// verdictFlags are what both decisions about a quarantined message take.
type verdictFlags struct {
	configFlag
	ID     string `arg:"" help:"The id, or at least its first six digits."`
	Reason string `placeholder:"TEXT" help:"Why; it stands in the journal."`
	JSON   bool   `help:"Print the decision as the API gives it."`
}

type quarantineRetryCmd struct {
	verdictFlags
	Overrule string `placeholder:"RULE" help:"The rule to overrule, such as limit. Default: that of the first refusal."`
}

// Help is the long text of `oxyd quarantine retry --help`.
func (quarantineRetryCmd) Help() string {
	return "Decides the message anew as if at its first receipt, less the rule that refused it. Accepted, it counts from the place in time that it had then. Refused by another rule it stays, with that reason, and this command fails. The same command twice changes nothing."
}

// Run has the message decided anew.
func (c *quarantineRetryCmd) Run(s *terminal) error {
	return c.decide(s, "retry", web.Verdict{Note: c.Reason, Overrule: event.Reason(c.Overrule)})
}

type quarantineDiscardCmd struct {
	verdictFlags
}

// Help is the long text of `oxyd quarantine discard --help`.
func (quarantineDiscardCmd) Help() string {
	return "Takes the message out of the list for good. It stays refused; repeats of it are counted and not kept again. The same command twice changes nothing."
}

// Run takes the message out.
func (c *quarantineDiscardCmd) Run(s *terminal) error {
	return c.decide(s, "discard", web.Verdict{Note: c.Reason})
}

func (c *verdictFlags) decide(s *terminal, verb string, v web.Verdict) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	var d ledger.Decision
	answer, err := daemon.post(s.ctx, "/api/quarantine/"+url.PathEscape(c.ID)+"/"+verb, body, &d)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := s.stdout.Write(answer)
		return err
	}
	return writeLine(s.stdout, decided(&d))
}

// decided tells a decision in a line.
func decided(d *ledger.Decision) string {
	id := d.ID[:min(len(d.ID), shownIDDigits)]
	is, was := "is discarded", "was discarded before"
	if d.Decision == ledger.Retried {
		is = "is accepted: " + d.Outcome.String() + ", overruled " + joined(d.Overruled)
		was = "was accepted before: " + d.Outcome.String()
	}
	if d.Changed {
		return fmt.Sprintf("%s %s (journal row %d)", id, is, d.LSN)
	}
	return fmt.Sprintf("%s %s (journal row %d), nothing has changed", id, was, d.LSN)
}

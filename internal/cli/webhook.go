package cli

import (
	"fmt"
	"strconv"

	"oxyd/internal/web"
)

type webhookCmd struct {
	List webhookListCmd `cmd:"" help:"List what is to be told to the webhook's receiver, and what became of it, newest first."`
}

type webhookListCmd struct {
	configFlag
	Limit int  `default:"100" help:"How many at most, 1 to 1000."`
	JSON  bool `help:"Print the document as the API gives it."`
}

// Validate refuses what the API would.
func (c *webhookListCmd) Validate() error {
	if c.Limit < 1 || c.Limit > web.MaxLimit {
		return fmt.Errorf("--limit: want 1 to %d", web.MaxLimit)
	}
	return nil
}

// Run lists the notifications.
func (c *webhookListCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	var doc web.Notifications
	answer, err := daemon.get(s.ctx, "/api/webhook?limit="+strconv.Itoa(c.Limit), &doc)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := s.stdout.Write(answer)
		return err
	}
	if len(doc.List) == 0 {
		return writeLine(s.stdout, "nothing was to be told yet")
	}
	t := newTable(s.stdout)
	t.row("NUMBER", "STATE", "TRIES", "KIND", "SUBJECT", "COUNT", "LAST", "TEXT", "ERROR")
	for i := range doc.List {
		n := &doc.List[i]
		t.row(strconv.FormatUint(n.Number, 10), n.State, strconv.FormatUint(n.Attempts, 10), n.Kind, orDash(n.Subject),
			strconv.FormatUint(n.Count, 10), instant(&n.Last), n.Text, orDash(n.Error))
	}
	return t.flush()
}

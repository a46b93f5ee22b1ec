package cli

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"oxyd/internal/web"
)

// shownIDDigits of a quarantine id are listed; `show` takes them.
const shownIDDigits = 12

type quarantineCmd struct {
	List quarantineListCmd `cmd:"" help:"List what is in quarantine, newest first."`
	Show quarantineShowCmd `cmd:"" help:"Show one message: why it was refused, and its bytes."`

	Retry   quarantineRetryCmd   `cmd:"" help:"Have a message accepted that a rule has refused."`
	Discard quarantineDiscardCmd `cmd:"" help:"Take a message out of quarantine for good."`
}

type quarantineListCmd struct {
	configFlag
	Limit int  `default:"100" help:"How many at most, 1 to 1000."`
	JSON  bool `help:"Print the documents as the API gives them."`
}

// Validate refuses what the API would.
func (c *quarantineListCmd) Validate() error {
	if c.Limit < 1 || c.Limit > web.MaxLimit {
		return fmt.Errorf("--limit: want 1 to %d", web.MaxLimit)
	}
	return nil
}

// Run lists the kept messages.
func (c *quarantineListCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	var list []web.Kept
	answer, err := daemon.get(s.ctx, "/api/quarantine?limit="+strconv.Itoa(c.Limit), &list)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := s.stdout.Write(answer)
		return err
	}
	if len(list) == 0 {
		return writeLine(s.stdout, "the quarantine is empty")
	}
	t := newTable(s.stdout)
	t.row("ID", "REASON", "COUNT", "LAST", "BYTES", "TOPIC", "DETAIL")
	for i := range list {
		k := &list[i]
		t.row(k.ID[:min(len(k.ID), shownIDDigits)], string(k.Reason), strconv.FormatUint(k.Count, 10), instant(&k.Last),
			strconv.Itoa(k.Bytes), k.Topic, orDash(k.Detail))
	}
	return t.flush()
}

type quarantineShowCmd struct {
	configFlag
	ID   string `arg:"" help:"The id, or at least its first six digits."`
	JSON bool   `help:"Print the document as the API gives it; its payload is base64."`
}

// Help is the long text of `oxyd quarantine show --help`.
func (quarantineShowCmd) Help() string {
	return "A payload that is text is shown in Go's quotes, so that control characters in it are seen and not obeyed; another one as a hex dump."
}

// Run shows one kept message.
func (c *quarantineShowCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	var k web.Kept
	answer, err := daemon.get(s.ctx, "/api/quarantine/"+url.PathEscape(c.ID), &k)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := s.stdout.Write(answer)
		return err
	}
	payload, err := base64.StdEncoding.DecodeString(k.Payload)
	if err != nil {
		return fmt.Errorf("read the payload in the daemon's answer: %w", err)
	}
	t := newTable(s.stdout)
	t.row("id", k.ID)
	t.row("reason", string(k.Reason))
	t.row("detail", orDash(k.Detail))
	t.row("topic", k.Topic)
	t.row("retained", strconv.FormatBool(k.Retained))
	t.row("tank", orDash(k.Tank))
	t.row("source", orDash(k.Source))
	t.row("event_id", orDash(k.EventID))
	t.row("first", instant(&k.First))
	t.row("last", instant(&k.Last))
	t.row("count", strconv.FormatUint(k.Count, 10))
	if k.Row != 0 {
		t.row("journal row", strconv.FormatUint(k.Row, 10))
	}
	if k.LSN != 0 {
		t.row("in force", "journal row "+strconv.FormatUint(k.LSN, 10))
	}
	t.row("payload", strconv.Itoa(len(payload))+" bytes")
	if err := t.flush(); err != nil {
		return err
	}
	return writeLine(s.stdout, shownPayload(payload))
}

// shownPayload gives bytes of a stranger in a form that a terminal may have.
func shownPayload(payload []byte) string {
	if utf8.Valid(payload) {
		return strconv.Quote(string(payload))
	}
	return strings.TrimSuffix(hex.Dump(payload), "\n")
}

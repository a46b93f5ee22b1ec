package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"oxyd/ledger"
)

// watchInterval is how often --watch asks.
const watchInterval = time.Second

// clearScreen homes the cursor and clears (ECMA-48 CUP and ED).
const clearScreen = "\x1b[H\x1b[2J"

type tanksCmd struct {
	configFlag
	JSON  bool `help:"Print the array of balance documents as the API gives it."`
	Watch bool `short:"w" help:"Print again whenever something has changed, until interrupted."`
}

// Help is the long text of `oxyd tanks --help`.
func (tanksCmd) Help() string {
	return `What is not known is shown as "-". AS OF is the time of the newest event that counts. FLAGS: stale (not measured for too long), incomplete (an event after the baseline may be missing), totals_incomplete, overdrawn, suspect, conflict.`
}

// Run lists the tanks once, or again and again.
func (c *tanksCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(s, daemon)
	}
	shown, _, err := c.render(s.ctx, daemon)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(shown)
	return err
}

// render gives what is to be shown, and the answer it was made of.
func (c *tanksCmd) render(ctx context.Context, daemon *client) (shown, answer []byte, err error) {
	var tanks []ledger.Balance
	if answer, err = daemon.get(ctx, "/api/tanks", &tanks); err != nil {
		return nil, nil, err
	}
	if c.JSON {
		return answer, answer, nil
	}
	var b bytes.Buffer
	err = writeTanks(&b, tanks)
	return b.Bytes(), answer, err
}

// watch shows the tanks on every change. A daemon that stops answering is said at
// once and asked again: whoever watches must not take old figures for new ones.
// Only the first question's failure ends it.
func (c *tanksCmd) watch(s *terminal, daemon *client) error {
	var shown, last []byte
	var silent string
	redraw := isTerminal(s.stdout) && !c.JSON
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		now, answer, err := c.render(s.ctx, daemon)
		switch {
		case s.ctx.Err() != nil:
			return nil // interrupted, which is how it ends
		case err != nil && last == nil:
			return err
		case err != nil && err.Error() != silent:
			silent = err.Error()
			if redraw {
				fmt.Fprintf(s.stdout, "%sNO ANSWER since %s; these are the last figures:\n\n%s", clearScreen, time.Now().UTC().Format(time.RFC3339), shown)
			}
			s.complain(err)
		case err == nil && (silent != "" || !bytes.Equal(answer, last)):
			if err := writeBlock(s.stdout, now, redraw, last == nil || c.JSON); err != nil {
				return err
			}
			shown, last, silent = now, answer, ""
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return nil
		}
	}
}

// writeBlock puts a table on a cleared screen, or below an earlier one.
func writeBlock(w io.Writer, block []byte, redraw, first bool) error {
	var before string
	if redraw {
		before = clearScreen
	} else if !first {
		before = "\n"
	}
	_, err := io.WriteString(w, before+string(block))
	return err
}

func writeTanks(w io.Writer, tanks []ledger.Balance) error {
	t := newTable(w)
	t.row("TANK", "NAME", "BALANCE", "LEVEL", "QUALITY", "AS OF", "FLAGS")
	for i := range tanks {
		d := &tanks[i]
		t.row(d.Tank, orDash(d.Name), grams(d.Balance), percent(d.LevelPercent), d.Quality, instant(d.AsOf), orDash(strings.Join(flags(d), ",")))
	}
	if len(tanks) == 0 {
		return errors.Join(t.flush(), writeLine(w, "no tank is known yet"))
	}
	return t.flush()
}

func writeLine(w io.Writer, text string) error {
	_, err := fmt.Fprintln(w, text)
	return err
}

// flags gives the document's flags and what it says in fields of their own.
func flags(d *ledger.Balance) []string {
	list := d.Flags
	for _, f := range []struct {
		name string
		on   bool
	}{{"stale", d.Stale}, {"incomplete", !d.Complete}, {"totals_incomplete", !d.TotalsComplete}} {
		if f.on {
			list = append(list, f.name)
		}
	}
	return list
}

func grams(sum *ledger.Sum) string {
	if sum == nil {
		return "-"
	}
	return sum.String()
}

func percent(level *float64) string {
	if level == nil {
		return "-"
	}
	return strconv.FormatFloat(*level, 'f', 1, 64) + " %"
}

package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"oxyd/ledger"
)

// Print writes a result as a person reads it.
func Print(w io.Writer, r *Result) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Tank %s held %s, then %s were used: %s is right, however often and in whatever order that is told.\n\n",
		r.Tank, r.Before, ledger.SumOf(used), r.Right)
	steps := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, s := range r.Steps {
		fmt.Fprintf(steps, "%d\t%s\t%s\n", i+1, s.Does, s.What)
	}
	steps.Flush()
	fmt.Fprintln(b)
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CONSUMER\tDELIVERIES\tHELD AFTER EACH\tHOLDS\tRIGHT\tAS EXPECTED")
	for i := range r.Consumers {
		c := &r.Consumers[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.countDeliveries(), c.path(), c.Holds, yesNo(c.Right), yesNo(c.Fault == ""))
	}
	table.Flush()
	fmt.Fprintln(b, "(* killed there; DUP: the broker says that it delivered it before)")
	for i := range r.Consumers {
		c := &r.Consumers[i]
		fmt.Fprintf(b, "\n%s: %s.\n    %s.\n", c.Name, c.Does, c.reason())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// countDeliveries counts them, and of them those that the broker made again.
func (c *Consumer) countDeliveries() string {
	again := 0
	for _, d := range c.Deliveries {
		if d.Dup {
			again++
		}
	}
	return fmt.Sprintf("%d (%d DUP)", len(c.Deliveries), again)
}

// path is what the file held after each delivery, in grams.
func (c *Consumer) path() string {
	var b strings.Builder
	for i, d := range c.Deliveries {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimSuffix(d.Holds.String(), " g"))
		if d.Killed {
			b.WriteByte('*')
		}
	}
	return b.String()
}

func (c *Consumer) reason() string {
	if c.Fault != "" {
		return "NOT AS EXPECTED: " + c.Fault
	}
	return fmt.Sprintf("Killed %s. %s", c.Killed, c.Why)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// printable gives text as it is where a terminal may have it, else quoted: no
// control character, no turned line, no broken UTF-8.
func printable(text string) string {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
		i += n
	}
	return text
}

// table aligns rows by column. What it is given is made printable.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer) *table {
	return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // flush gives its error
}

func (t *table) flush() error { return t.w.Flush() }

// instant shows a time to the second, or "-" where there is none.
func instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// orDash shows that there is nothing.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

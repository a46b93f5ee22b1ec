package cli

import (
	"fmt"
	"strconv"
	"strings"

	"oxyd/ledger"
)

// shownGaps is how many runs of missing numbers fit a line of the table.
const shownGaps = 4

type sourcesCmd struct {
	configFlag
	JSON bool `help:"Print the documents as the API gives them, with all epochs."`
}

// Help is the long text of `oxyd sources --help`.
func (sourcesCmd) Help() string {
	return "One line for each numbered stream: THROUGH is the number up to which everything has arrived but what is MISSING. Of the epochs of a source (one for each start of its store) the newest of each tank is shown, and every other one that has gaps or is fenced."
}

// Run lists the sources.
func (c *sourcesCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	var sources []ledger.Source
	answer, err := daemon.get(s.ctx, "/api/sources", &sources)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := s.stdout.Write(answer)
		return err
	}
	t := newTable(s.stdout)
	t.row("SOURCE", "TANK", "EPOCH", "THROUGH", "MISSING", "LAST HEARD", "CLOCK", "FLAGS")
	for i := range sources {
		sourceRows(t, &sources[i])
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(sources) == 0 {
		return writeLine(s.stdout, "nobody has been heard yet")
	}
	return nil
}

func sourceRows(t *table, src *ledger.Source) {
	name := src.Source
	if name == "" {
		name = "(anonymous)"
	}
	newest := map[string]uint64{}
	for _, st := range src.Streams {
		newest[st.Tank] = max(newest[st.Tank], st.Epoch)
	}
	for _, st := range src.Streams {
		if st.Epoch != newest[st.Tank] && len(st.Missing) == 0 && !st.Fenced {
			continue
		}
		flag := "-"
		if st.Fenced {
			flag = "fenced"
		}
		t.row(name, st.Tank, strconv.FormatUint(st.Epoch, 10), strconv.FormatUint(st.Through, 10), missing(st.Missing, st.More),
			instant(st.Last), src.Clock, flag)
	}
	if len(src.Streams) == 0 {
		t.row(name, "-", "-", "-", "-", instant(src.Last), src.Clock, "unnumbered")
	}
}

// missing shows the first gaps, and that there are more.
func missing(gaps [][2]uint64, more bool) string {
	if len(gaps) == 0 {
		return "-"
	}
	var list []string
	for _, g := range gaps[:min(len(gaps), shownGaps)] {
		if g[0] == g[1] {
			list = append(list, strconv.FormatUint(g[0], 10))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", g[0], g[1]))
		}
	}
	if more || len(gaps) > shownGaps {
		list = append(list, "…")
	}
	return strings.Join(list, ",")
}

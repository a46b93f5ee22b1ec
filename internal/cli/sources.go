package cli

import (
	"fmt"
	"strconv"
	"strings"

	"oxyd/ledger"
)

// shownGaps is how many runs of missing numbers fit a line of the table, and
// shownEpochs how many epochs of a source are listed; --json has more.
const (
	shownGaps   = 4
	shownEpochs = 8
)

type sourcesCmd struct {
	configFlag
	JSON bool `help:"Print the documents as the API gives them, with all epochs."`
}

// Help is the long text of `oxyd sources --help`.
func (sourcesCmd) Help() string {
	return "One line for each numbered stream: THROUGH is the number up to which everything has arrived but what is MISSING. Of the epochs of a source (one for each start of its store) the newest of each tank is shown, and every other one that has gaps or is fenced.\n\nBelow them the newest epochs of each source: WHY is first (heard of the source), newer, earlier (below the newest, accepted by its time) or operator (by a retry); LATE counts what came in it after a later one was known, which is normal for a while after a restart. An epoch that lives on beside a later one is that of a second board under the same name."
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
	return c.epochs(s, sources)
}

// epochs lists the epochs of the sources that number their events.
func (c *sourcesCmd) epochs(s *terminal, sources []ledger.Source) error {
	t := newTable(s.stdout)
	n := 0
	for i := range sources {
		src := &sources[i]
		for _, e := range src.Epochs[:min(len(src.Epochs), shownEpochs)] {
			if n++; n == 1 {
				t.row("")
				t.row("SOURCE", "EPOCH", "WHY", "FIRST HEARD", "LAST HEARD", "LATE", "FLAGS")
			}
			t.row(src.Source, strconv.FormatUint(e.Epoch, 10), e.Why, instant(e.First), instant(e.Last),
				strconv.FormatUint(e.Late, 10), epochFlags(&e))
		}
	}
	for i := range sources {
		if sources[i].Boards > 1 {
			t.row(fmt.Sprintf("two boards send under the name %s: give one of them a node name of its own", printable(sources[i].Source)))
		}
	}
	return t.flush()
}

func epochFlags(e *ledger.SourceEpoch) string {
	var flags []string
	if e.Fenced {
		flags = append(flags, "fenced")
	}
	if e.LivesOn != nil {
		flags = append(flags, fmt.Sprintf("lives on beside %d", e.Rival))
	}
	return orDash(strings.Join(flags, ", "))
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

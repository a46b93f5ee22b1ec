package daemon

import (
	"fmt"
	"time"

	"oxyd/ledger"
)

const (
	// gapGrace is how long a number may be missing before the alarm: messages of
	// one source overtake each other for moments (FC-29).
	gapGrace = 2 * time.Second
	// gapsShown bounds how many streams with gaps are followed; the alarm stands
	// with one of them.
	gapsShown = 64
)

// gapWatch tells gaps that last from those that close by themselves.
type gapWatch struct {
	since map[ledger.Gap]time.Time // by the monotonic clock
}

// look raises or ends the alarm `gap` from committed state.
func (w *gapWatch) look(b *board) error {
	gaps, more, err := b.ledger.Gaps(gapsShown)
	if err != nil {
		return fmt.Errorf("read gaps: %w", err)
	}
	b.raise(&b.ledgerAlarms, "gap", warning, gapText(w.lasting(gaps, time.Now()), more))
	return nil
}

// lasting gives the gaps that have stood for gapGrace.
func (w *gapWatch) lasting(gaps []ledger.Gap, now time.Time) (lasting []ledger.Gap) {
	since := make(map[ledger.Gap]time.Time, len(gaps))
	for _, g := range gaps {
		at, known := w.since[g]
		if !known {
			at = now
		}
		since[g] = at
		if now.Sub(at) >= gapGrace {
			lasting = append(lasting, g)
		}
	}
	w.since = since
	return lasting
}

func gapText(lasting []ledger.Gap, more bool) string {
	if len(lasting) == 0 {
		return ""
	}
	g := lasting[0]
	text := fmt.Sprintf("tank %s lacks number %d of source %s, epoch %d", g.Tank, g.First.From, g.Source, g.Epoch)
	if n := g.First.To - g.First.From; n > 0 {
		text = fmt.Sprintf("tank %s lacks numbers %d to %d of source %s, epoch %d", g.Tank, g.First.From, g.First.To, g.Source, g.Epoch)
	}
	switch others := len(lasting) - 1; {
	case more:
		text += fmt.Sprintf(", and more than %d other streams have gaps", others)
	case others > 0:
		text += fmt.Sprintf(", and %d other streams have gaps", others)
	}
	return text
}

// patience is how long to wait before the next look where nothing is committed.
func (w *gapWatch) patience() time.Duration {
	if len(w.since) > 0 {
		return gapGrace / 4
	}
	return staleEvery
}

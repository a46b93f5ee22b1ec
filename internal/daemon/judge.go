package daemon

import (
	"fmt"
	"strings"

	"oxyd/ledger"
)

// judgeAccount raises and ends the alarms that the account's own state gives.
func (b *board) judgeAccount(s *ledger.Status) {
	full := ""
	if s.Full {
		full = "the account has no room: nothing more is acknowledged, publishers keep their events"
	}
	// Somebody has to decide: the number is accounted for, so that nothing else shows
	// what the message holds back.
	quarantine := ""
	if s.Quarantined > 0 {
		quarantine = "messages are in quarantine: oxyd quarantine list shows them, retry and discard decide"
	}
	b.raise(&b.ledgerAlarms, "storage_full", critical, full)
	b.raise(&b.ledgerAlarms, "limit", warning, b.limitText(s))
	b.raise(&b.ledgerAlarms, "quarantine", warning, quarantine)
	b.raise(&b.ledgerAlarms, "two_boards", critical, twoBoardsText(s.TwoBoards))
	b.raise(&b.ledgerAlarms, "clock_skew", warning, b.skewText(s.ClockSkew))
}

// limitText names the bounds that are reached: what is new there is refused.
func (b *board) limitText(s *ledger.Status) string {
	c := b.cfg.Ledger
	var reached []string
	for _, bound := range []struct {
		key       string
		have, max uint64
	}{
		{"max_tanks", s.Tanks, uint64(c.MaxTanks)}, {"max_sources", s.Sources, uint64(c.MaxSources)},
		{"max_parked", s.Parked, uint64(c.MaxParked)}, {"max_marks", s.Marks, uint64(c.MaxMarks)},
	} {
		if bound.have >= bound.max {
			reached = append(reached, fmt.Sprintf("ledger.%s %d", bound.key, bound.max))
		}
	}
	if len(reached) == 0 {
		return ""
	}
	return "a bound is reached, what is new is refused: " + strings.Join(reached, ", ")
}

func twoBoardsText(sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	return "two boards send under one name, see oxyd sources: " + strings.Join(sources[:min(len(sources), twinsNamed)], ", ")
}

// twinsNamed bounds how many sources the alarm names.
const twinsNamed = 8

package outbox

import (
	"cmp"

	"oxyd/internal/event"
)

// Lists of ranges below are ascending and disjoint.

func byFrom(a, b event.Range) int { return cmp.Compare(a.From, b.From) }

// intersect gives the numbers that are in both lists.
func intersect(a, b []event.Range) (both []event.Range) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].From, b[j].From), min(a[i].To, b[j].To); from <= to {
			both = append(both, event.Range{From: from, To: to})
		}
		if a[i].To < b[j].To {
			i++
		} else {
			j++
		}
	}
	return both
}

// subtract gives the numbers of a that are not in b.
func subtract(a, b []event.Range) (rest []event.Range) {
	for _, r := range a {
		for _, cut := range b {
			if cut.To < r.From || cut.From > r.To {
				continue
			}
			if cut.From > r.From {
				rest = append(rest, event.Range{From: r.From, To: cut.From - 1})
			}
			r.From = cut.To + 1
			if r.From > r.To {
				break
			}
		}
		if r.From <= r.To {
			rest = append(rest, r)
		}
	}
	return rest
}

// upTo cuts a list off behind n.
func upTo(list []event.Range, n uint64) []event.Range {
	if n == 0 {
		return nil
	}
	return intersect(list, []event.Range{{From: 1, To: n}})
}

// numbers counts what a list holds.
func numbers(list []event.Range) (n uint64) {
	for _, r := range list {
		n += r.To - r.From + 1
	}
	return n
}

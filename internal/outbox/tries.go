package outbox

import (
	"cmp"
	"slices"
	"time"

	"oxyd/internal/event"
)

const (
	// tryAgainMin and tryAgainMax are the pauses before a row is sent again: 1, 2,
	// 4 … 60 minutes (contract section 7).
	tryAgainMin = time.Minute
	tryAgainMax = time.Hour

	// triesMax bounds the attempts remembered for one ledger and stream. Beyond it
	// two neighbours become one, with the later due time: what lies between them
	// waits along, and nothing is left out.
	triesMax = 128
)

// A try says that the numbers of a range have been sent again n times, and when
// they may be once more.
type try struct {
	event.Range
	n   int
	due time.Duration // since boot
}

// tries are ascending and disjoint.
type tries []try

func pause(n int) time.Duration {
	if n >= 7 { // 64 minutes
		return tryAgainMax
	}
	return min(tryAgainMin<<(n-1), tryAgainMax)
}

// firstDue gives the first part of r that may be sent at now.
func (t tries) firstDue(r event.Range, now time.Duration) (part event.Range, ok bool) {
	for _, x := range t {
		if x.due <= now || x.To < r.From {
			continue
		}
		if x.From > r.From {
			r.To = min(r.To, x.From-1)
			break
		}
		if x.To >= r.To {
			return r, false
		}
		r.From = x.To + 1
	}
	return r, true
}

// add notes that r is sent at now.
func (t tries) add(r event.Range, now time.Duration) tries {
	var out tries
	put := func(from, to uint64, n int, due time.Duration) {
		if from <= to {
			out = append(out, try{event.Range{From: from, To: to}, n, due})
		}
	}
	next := r.From // of what is not in out yet
	for _, x := range t {
		if x.To < r.From {
			out = append(out, x)
			continue
		}
		put(x.From, min(x.To, r.From-1), x.n, x.due)
		put(next, min(r.To, x.From-1), 1, now+pause(1))
		from, to := max(x.From, r.From), min(x.To, r.To)
		put(from, to, x.n+1, now+pause(x.n+1))
		next = max(next, min(x.To, r.To)+1)
		if x.From > r.To {
			out = append(out, x)
		} else {
			put(r.To+1, x.To, x.n, x.due)
		}
	}
	put(next, r.To, 1, now+pause(1))
	slices.SortFunc(out, func(a, b try) int { return cmp.Compare(a.From, b.From) })
	return out.join()
}

// join makes one of neighbours that were sent equally often, and of the first two
// where there are too many.
func (t tries) join() tries {
	out := t[:0]
	for _, x := range t {
		last := len(out) - 1
		if last >= 0 && out[last].To+1 == x.From && out[last].n == x.n {
			out[last].To, out[last].due = x.To, max(out[last].due, x.due)
			continue
		}
		out = append(out, x)
	}
	for len(out) > triesMax {
		out[1].From, out[1].n, out[1].due = out[0].From, max(out[0].n, out[1].n), max(out[0].due, out[1].due)
		out = out[1:]
	}
	return out
}

// trim forgets the tries of what is not wanted any more.
func (t tries) trim(wanted []event.Range) tries {
	var out tries
	for _, x := range t {
		for _, r := range intersect([]event.Range{x.Range}, wanted) {
			out = append(out, try{r, x.n, x.due})
		}
	}
	return out.join()
}

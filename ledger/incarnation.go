package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"oxyd/internal/event"
)

// An incarnation names one history of a store. A copy that is put back in the place
// of its original goes on with the same number, and what was said under it of
// events that the copy lacks would be believed. So it draws a new one as soon as it
// learns, from what it has itself published, that it was further once (contract
// section 6).

// ErrIncarnation: the number leaves none above it that every reader of JSON can hold.
var ErrIncarnation = errors.New("incarnation is out of range")

// RaiseIncarnation gives the store a new incarnation, made like an epoch: by time,
// and greater than the one given and its own. Balances and confirmations carry it
// from then on. An incarnation that is beyond what time will draw for thousands of
// years is refused with ErrIncarnation: it is not one that a ledger has made.
func (l *Ledger) RaiseIncarnation(above uint64) (n uint64, err error) {
	if above >= event.MaxEpoch-1 {
		return 0, fmt.Errorf("raise incarnation above %d: %w", above, ErrIncarnation)
	}
	err = l.update(func(b *batch) error {
		n = max(newIncarnation(l.opt.Now()), above+1, b.meta.incarnation+1)
		b.meta.incarnation = n
		return b.sourceRows.ForEach(func(key, _ []byte) error {
			return b.touch(string(bytes.TrimSuffix(key, []byte{0})))
		})
	})
	if err != nil {
		return 0, fmt.Errorf("raise incarnation: %w", err)
	}
	return n, nil
}

// SetBack tells whether a status that this ledger has published shows that its store
// has been replaced by an earlier state of itself, or by that of another file.
func (s *Status) SetBack(incarnation, revision uint64) bool {
	return incarnation > s.Incarnation || incarnation == s.Incarnation && revision > s.Revision
}

// SetBackSince tells the same from a confirmation: it says more of the source than
// the store knows now.
func SetBackSince(was, is *event.Confirm) bool {
	if was.Incarnation != is.Incarnation {
		return was.Incarnation > is.Incarnation
	}
	if was.NewestEpoch > is.NewestEpoch {
		return true
	}
	type stream struct {
		epoch uint64
		tank  string
	}
	now, newest := map[stream]event.ConfirmStream{}, map[string]uint64{}
	for _, s := range is.Streams {
		now[stream{s.Epoch, s.Tank}] = s
		newest[s.Tank] = max(newest[s.Tank], s.Epoch)
	}
	for _, s := range was.Streams {
		n, named := now[stream{s.Epoch, s.Tank}]
		switch {
		case named && lacksNews(&s, &n):
			return true
		// A document that has no room for all says less than the store knows.
		case !is.More && named && s.Through > n.Through:
			return true
		case !is.More && !named && newest[s.Tank] < s.Epoch: // the newest of a tank is always named
			return true
		}
	}
	return false
}

// lacksNews tells whether a number is missing now that had arrived then.
func lacksNews(was, is *event.ConfirmStream) bool {
	for _, r := range is.Missing {
		r.To = min(r.To, was.Through)
		within := func(m event.Range) bool { return m.From <= r.From && r.To <= m.To }
		if r.From <= r.To && !slices.ContainsFunc(was.Missing, within) {
			return true
		}
	}
	return false
}

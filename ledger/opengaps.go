package ledger

import (
	"errors"

	"oxyd/internal/event"
)

// Gap is a numbered stream of which something is missing that its source has not
// given up.
type Gap struct {
	Source, Tank string
	Epoch        uint64
	First        event.Range // the lowest run that is missing
}

// Gaps lists the streams with gaps, at most limit; more tells that there are
// others. What a source has declared skipped is no gap: it is known to be lost.
func (l *Ledger) Gaps(limit int) (list []Gap, more bool, err error) {
	err = l.view(func(b *batch) error {
		return b.forOpen(nil, func(r runs, st stream, epoch uint64) error {
			lack := b.lacking(r, 1)
			if len(lack.missing) == 0 {
				return nil
			}
			if len(list) == limit {
				more = true
				return errEnough
			}
			list = append(list, Gap{Source: st.source, Tank: st.tank, Epoch: epoch, First: lack.missing[0]})
			return nil
		})
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, more, err
}

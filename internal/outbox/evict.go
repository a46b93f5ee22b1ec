package outbox

import (
	"encoding/binary"
	"time"
)

// evictScanRows is how many retained rows one transaction looks at for confirmed
// ones.
const evictScanRows = 4_096

// evictPause is the least time between two searches from the beginning: what a new
// confirmation covers may stand before where the last one ended.
const evictPause = 10 * time.Second

// evictScan remembers how far the retained rows have been searched for confirmed
// ones, so that each is looked at once.
type evictScan struct {
	next  uint64
	stale bool          // a ledger has spoken since
	at    time.Duration // when it last began from the first
}

// evictSlice gives up to sliceRows retained rows up before their time, and says
// how many: those that all ledgers of Options.ConfirmBy have confirmed first, by
// age, and only then the oldest of the others. It needs mu.
func (o *Outbox) evictSlice() (removed int, err error) {
	if o.st.keptRows == 0 {
		return 0, nil
	}
	s := &o.evictFrom
	if now := o.o.Clock.Mono(); s.stale && (s.at == 0 || now-s.at >= evictPause) {
		*s = evictScan{at: now}
	}
	for more := len(o.confirmBy()) > 0; more && removed == 0; {
		removed, more, err = o.evictConfirmed(s)
		if err != nil {
			return 0, err
		}
	}
	if removed > 0 {
		o.lacking.on = false
		return removed, nil
	}
	removed, err = o.pruneSlice(anyAge)
	if removed > 0 && len(o.confirmBy()) > 0 { // else nobody is known to confirm
		o.lacking.begin(o.o.Clock)
	}
	return removed, err
}

// evictConfirmed looks at evictScanRows rows. more: there are others behind them.
func (o *Outbox) evictConfirmed(s *evictScan) (removed int, more bool, err error) {
	var next uint64
	err = o.updateTight(func(c *change) error {
		removed, next = 0, s.next
		type found struct {
			n uint64
			r ref
		}
		var slice []found
		cur := c.bucket(bKept).Cursor()
		k, v := cur.Seek(rowKey(next))
		for looked := 0; k != nil && looked < evictScanRows && len(slice) < sliceRows; k, v = cur.Next() {
			looked++
			n := binary.BigEndian.Uint64(k)
			next = n + 1
			if _, r, ok := decodeKept(v); ok && o.isConfirmed(r) {
				slice = append(slice, found{n, r})
			}
		}
		more = k != nil
		for _, x := range slice {
			if err := c.remove(bKept, x.n, x.r); err != nil {
				return err
			}
		}
		if removed = len(slice); removed == 0 {
			return errUnchanged
		}
		c.counted.Evicted += uint64(removed)
		return nil
	})
	if err == nil {
		s.next = next
	}
	return removed, more, err
}

package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// What operators decided about refused messages, read from the journal: a retry
// makes an event one of the accepted, with the stamp of its first receipt.

func (c *checker) readDecision(r *record) error {
	c.settled[r.key] = c.lsn
	if r.kind == recordDiscard {
		c.discarded++
		return nil
	}
	c.retried++
	f := c.rows[r.target]
	switch {
	case f == nil && r.target <= c.gone.lsn:
		return nil // it was pruned since
	case f == nil || [16]byte(f.hash[:16]) != r.key:
		return fmt.Errorf("journal row %d: retry of row %d, which is another event's", c.lsn, r.target)
	case f.outcome != Quarantined:
		return fmt.Errorf("journal row %d: retry of what was %s", c.lsn, f.outcome)
	case f.stamp != r.stamp:
		return fmt.Errorf("journal row %d: the retry gives another stamp than the first receipt", c.lsn)
	}
	f.outcome, f.reason = r.outcome, r.reason
	if f.outcome.Accepted() {
		c.accepted[f.Identity()] = f
		c.tanks[f.Tank] = append(c.tanks[f.Tank], f)
	}
	return nil
}

// checkSettled sets the decisions and what is left in quarantine against the
// journal.
func (c *checker) checkSettled() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	rows := 0
	err := c.batch.settled.ForEach(func(key, row []byte) error {
		rows++
		if len(key) != 16 || len(row) < 8 || c.settled[[16]byte(key)] != lsnOf(row[:8]) ||
			!bytes.Equal(row[8:], c.row(lsnOf(row[:8]))) {
			fault("decision about %x is not the last one in the journal", key)
		}
		if last, err := c.settledBy(key); err == nil && last.kind == recordDiscard && c.quarantine.Get(key) != nil {
			fault("quarantine row %x was discarded", key)
		}
		return nil
	})
	if rows != len(c.settled) {
		fault("there are decisions about %d messages, the journal gives %d", rows, len(c.settled))
	}
	if m := &c.meta; m.retried != c.retried || m.discarded != c.discarded {
		fault("%d retries and %d discards are counted, the journal gives %d and %d", m.retried, m.discarded, c.retried, c.discarded)
	}
	return errors.Join(append(faults, err, c.quarantine.ForEach(c.checkKept))...)
}

func (c *checker) checkKept(key, row []byte) error {
	var k Kept
	if err := json.Unmarshal(row, &k); err != nil {
		return fmt.Errorf("quarantine row %x: %w", key, err)
	}
	if k.Row == 0 {
		return nil
	}
	if f := c.rows[k.Row]; f == nil || f.outcome != Quarantined || f.reason != k.Reason {
		return fmt.Errorf("quarantine row %x (%s) does not say what journal row %d does", key, k.Reason, k.Row)
	}
	return nil
}

package outbox

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// confirmPatience is how long a row of ConfirmSoon waits at most for another
	// commit to go along with: what a crash may send once more. What a ledger wants
	// again does not wait for it (again).
	confirmPatience = 10 * time.Minute
	// notedMax bounds the rows that wait so; with the one that reaches it they are
	// confirmed at once. It is what one commit takes.
	notedMax = sliceRows
)

// noted is a pending row that the broker has answered for.
type noted struct {
	row uint64
	at  instant
}

// ConfirmSoon is Confirm without a commit of its own: it is on disk with the next
// commit, of an append as a rule, or after confirmPatience. A crash before that
// sends the rows once more, with the same bytes; nothing is lost. A steady board
// syncs its card half as often for it.
func (o *Outbox) ConfirmSoon(rows []uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	o.note(rows)
	if len(o.noted) < notedMax {
		return nil
	}
	if err := o.confirmNoted(); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}

// note remembers what is to be confirmed: of the rows, those that are pending and
// that Next has given since Open, for an answer belongs to a connection of this
// process. It needs mu.
func (o *Outbox) note(rows []uint64) {
	at := o.now()
	// The only error is that of a closed file, which usable has excluded.
	_ = o.f.View(func(tx *bbolt.Tx) error {
		pending := tx.Bucket([]byte(bPending))
		for _, n := range rows {
			if n <= o.given && pending.Get(rowKey(n)) != nil && !o.isNoted(n) {
				o.noted = append(o.noted, noted{n, at})
			}
		}
		return nil
	})
}

func (o *Outbox) isNoted(row uint64) bool {
	return slices.ContainsFunc(o.noted, func(n noted) bool { return n.row == row })
}

// isNotedBeyond reports whether a row behind after waits to be confirmed.
func (o *Outbox) isNotedBeyond(after uint64) bool {
	return slices.ContainsFunc(o.noted, func(n noted) bool { return n.row > after })
}

// confirmOverdue confirms what has waited for confirmPatience. It needs mu.
func (o *Outbox) confirmOverdue() error {
	if len(o.noted) == 0 || o.o.Clock.Mono()-o.noted[0].at.mono < confirmPatience {
		return nil
	}
	return o.confirmNoted()
}

// confirmNoted confirms, on disk, all that is noted. It needs mu.
func (o *Outbox) confirmNoted() error {
	for len(o.noted) > 0 {
		if err := o.evicting(o.updateTight, (*change).confirmNoted); err != nil {
			return err
		}
	}
	return nil
}

// confirmNoted confirms a slice of what is noted.
func (c *change) confirmNoted() error {
	slice := c.o.noted[:min(len(c.o.noted), sliceRows)]
	for _, n := range slice {
		if err := c.confirm(n.row, n.at); err != nil {
			return err
		}
	}
	c.moved = len(slice)
	return nil
}

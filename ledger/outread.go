package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Waiting gives the notifications that wait, oldest first, at most limit. Rows
// that do not decode are passed over; Check names them.
func (l *Ledger) Waiting(limit int) ([]Notification, error) {
	list := []Notification{}
	err := l.view(func(b *batch) error {
		c := b.out("out").Cursor()
		for k, v := c.First(); k != nil && len(list) < limit; k, v = c.Next() {
			if n, ok := readNotification(v); ok {
				list = append(list, n)
			}
		}
		return nil
	})
	return list, err
}

// HandOver fixes what the notifications of these numbers say, before the first
// delivery of each is begun, and gives them as they are then. Those that have gone
// meanwhile are left out.
func (l *Ledger) HandOver(numbers []uint64) ([]Notification, error) {
	var list []Notification
	err := l.update(func(b *batch) error {
		list = make([]Notification, 0, len(numbers))
		for _, number := range numbers {
			n, ok := readNotification(b.out("out").Get(lsnKey(number)))
			if !ok {
				continue
			}
			n.HandedOver = true
			if err := errors.Join(putNotification(b.out("out"), &n), b.closeOpen(&n)); err != nil {
				return err
			}
			list = append(list, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hand over %d notifications: %w", len(numbers), err)
	}
	return list, nil
}

// Settle journals what became of deliveries, in one transaction. An attempt on
// what was dropped meanwhile only counts.
func (l *Ledger) Settle(attempts []Attempt) error {
	err := l.update(func(b *batch) error {
		c, err := b.outCounts()
		if err != nil {
			return err
		}
		for i := range attempts {
			if err := b.settle(&c, &attempts[i]); err != nil {
				return err
			}
		}
		return b.putOutCounts(&c)
	})
	if err != nil {
		return fmt.Errorf("settle %d deliveries: %w", len(attempts), err)
	}
	return nil
}

func (b *batch) settle(c *OutCounts, a *Attempt) error {
	c.Attempts++
	n, ok := readNotification(b.out("out").Get(lsnKey(a.Number)))
	if !ok {
		return nil
	}
	at := a.At.UTC().Round(0)
	n.Attempts++
	n.LastAttempt, n.Status, n.Error = &at, a.Status, cut(a.Error, maxTextBytes)
	if a.State != Waiting {
		return b.decideOut(c, &n, a.State, at)
	}
	return putNotification(b.out("out"), &n)
}

// Notifications gives the newest, waiting or not, newest first, at most limit.
func (l *Ledger) Notifications(limit int) ([]Notification, OutCounts, error) {
	list := []Notification{}
	var counts OutCounts
	err := l.view(func(b *batch) (err error) {
		for _, name := range []string{"out", "outlog"} {
			c := b.out(name).Cursor()
			read := 0
			for k, v := c.Last(); k != nil && read < limit; k, v = c.Prev() {
				read++
				if n, ok := readNotification(v); ok {
					list = append(list, n)
				}
			}
		}
		counts, err = b.outCounts()
		return err
	})
	slices.SortFunc(list, func(x, y Notification) int { return cmp.Compare(y.Number, x.Number) })
	return list[:min(len(list), limit)], counts, err
}

// OutCounts gives the figures of all notifications.
func (l *Ledger) OutCounts() (c OutCounts, err error) {
	err = l.view(func(b *batch) error {
		c, err = b.outCounts()
		return err
	})
	return c, err
}

// checkOut verifies that every notification decodes, stands where its state says,
// and is counted; and that what is open is open for its like. A file from before
// there were any is sound without.
func (b *batch) checkOut() error {
	if b.out("out") == nil {
		return nil
	}
	c, err := b.outCounts()
	if err != nil {
		return err
	}
	var found OutCounts
	open := uint64(0)
	check := func(k, v []byte, waits bool) error {
		n, ok := readNotification(v)
		switch {
		case !ok:
			return fmt.Errorf("notification %x: %w", k, errRow)
		case len(k) != 8 || n.Number != lsnOf(k) || n.Number >= c.Next:
			return fmt.Errorf("notification %x says that it is %d, and the next one is %d", k, n.Number, c.Next)
		case waits != (n.State == Waiting) || waits == (n.Decided != nil) || n.Count == 0 || n.Attempts > 0 && !n.HandedOver:
			return fmt.Errorf("notification %d is %s where it stands: %+v", n.Number, n.State, n)
		}
		is := bytes.Equal(b.out("outopen").Get(openKey(n.Kind, n.Subject)), k)
		if is != (waits && !n.HandedOver) {
			return fmt.Errorf("notification %d, %s, takes more of its like: %v", n.Number, n.State, is)
		}
		if is {
			open++
		}
		return nil
	}
	if err := b.out("out").ForEach(func(k, v []byte) error { found.Waiting++; return check(k, v, true) }); err != nil {
		return err
	}
	if err := b.out("outlog").ForEach(func(k, v []byte) error { found.Kept++; return check(k, v, false) }); err != nil {
		return err
	}
	if c.Waiting != found.Waiting || c.Kept != found.Kept || uint64(b.out("outopen").Inspect().KeyN) != open {
		return fmt.Errorf("notifications: %d wait, %d went, %d are open; the counts are %+v", found.Waiting, found.Kept, open, c)
	}
	return nil
}

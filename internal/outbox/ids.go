package outbox

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// The value in bIDs: row u64, epoch u64, seq u64, fingerprint.
const idBytes = 3*8 + len(event.Hash{})

func decodeID(id string, b []byte) (r Receipt, print event.Hash, err error) {
	if len(b) != idBytes {
		return r, print, fmt.Errorf("event id %q: record unreadable", id)
	}
	r = Receipt{
		Row: binary.BigEndian.Uint64(b), ID: id,
		Dot: event.Dot{Epoch: binary.BigEndian.Uint64(b[8:]), Seq: binary.BigEndian.Uint64(b[16:])},
	}
	return r, event.Hash(b[24:]), nil
}

// recall looks a caller's id up.
func recall(tx *bbolt.Tx, d *draft) (r Receipt, known bool, err error) {
	v := tx.Bucket([]byte(bIDs)).Get([]byte(d.ev.ID))
	if v == nil {
		return r, false, nil
	}
	r, print, err := decodeID(d.ev.ID, v)
	if err != nil {
		return r, false, err
	}
	if print != d.print {
		return Receipt{}, false, fmt.Errorf("%w: %q", ErrIDReused, d.ev.ID)
	}
	r.Again = true
	return r, true, nil
}

// repeats answers a call whose drafts are all known, without a commit: they are
// on disk since an earlier one. It needs mu.
func (o *Outbox) repeats(fresh []draft) (receipts []Receipt, err error) {
	err = o.f.View(func(tx *bbolt.Tx) error {
		for i := range fresh {
			if !fresh[i].ownID {
				receipts = nil
				return nil
			}
			r, known, err := recall(tx, &fresh[i])
			if err != nil {
				return fmt.Errorf("append: draft %d: %w", i, err)
			}
			if !known {
				receipts = nil
				return nil
			}
			receipts = append(receipts, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.counters.Repeated += uint64(len(receipts))
	return receipts, nil
}

// remember keeps a caller's id, and forgets the oldest at the bound.
func (c *change) remember(d *draft, r Receipt) error {
	ids, byRow := c.bucket(bIDs), c.bucket(bIDRows)
	if c.st.ids >= idsMax {
		if k, id := byRow.Cursor().First(); k != nil {
			if err := ids.Delete(id); err != nil {
				return err
			}
			if err := byRow.Delete(k); err != nil {
				return err
			}
			c.st.ids--
			c.counted.IDsForgotten++
		}
	}
	v := binary.BigEndian.AppendUint64(make([]byte, 0, idBytes), r.Row)
	v = binary.BigEndian.AppendUint64(v, r.Dot.Epoch)
	v = binary.BigEndian.AppendUint64(v, r.Dot.Seq)
	if err := ids.Put([]byte(r.ID), append(v, d.print[:]...)); err != nil {
		return err
	}
	c.st.ids++
	byRow.FillPercent = monotoneFill
	return byRow.Put(rowKey(r.Row), []byte(r.ID))
}

// Lookup finds what an event id became: a caller's as long as it is remembered,
// one of the node's own as long as its row is pending or retained.
func (o *Outbox) Lookup(id string) (r Receipt, found bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return r, false, fmt.Errorf("look up %q: %w", id, err)
	}
	err = o.f.View(func(tx *bbolt.Tx) (err error) {
		if v := tx.Bucket([]byte(bIDs)).Get([]byte(id)); v != nil {
			r, _, err = decodeID(id, v)
			found = err == nil
			return err
		}
		epoch, tank, seq, ok := parseNodeID(o.o.Source, id)
		if !ok {
			return nil
		}
		if v := tx.Bucket([]byte(bIndex)).Get(indexKey(epoch, tank, seq)); len(v) == 8 {
			r = Receipt{Row: binary.BigEndian.Uint64(v), ID: id, Dot: event.Dot{Epoch: epoch, Seq: seq}}
			found = true
		}
		return nil
	})
	return r, found, err
}

func (o *Outbox) isNodeID(id string) bool {
	_, _, _, ok := parseNodeID(o.o.Source, id)
	return ok
}

// parseNodeID is the inverse of event.NodeID.
func parseNodeID(source, id string) (epoch uint64, tank string, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, source+"/")
	if !ok {
		return 0, "", 0, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return 0, "", 0, false
	}
	epoch, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil {
		return 0, "", 0, false
	}
	seq, err = strconv.ParseUint(parts[2], 10, 64)
	if err != nil || event.NodeID(source, epoch, parts[1], seq) != id {
		return 0, "", 0, false
	}
	return epoch, parts[1], seq, true
}

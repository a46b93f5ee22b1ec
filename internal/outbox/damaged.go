package outbox

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// A DamagedRow is one whose bytes cannot be trusted, kept as it was found. Its
// number is accounted for nowhere: the receivers see a gap.
type DamagedRow struct {
	Row    uint64
	Tank   string // "" when that could not be read either
	Dot    event.Dot
	From   uint64 // first number that it stood for
	Reason string
	Bytes  []byte
}

// setAside moves a row to bDamaged, with its bytes and the reason. On disk:
// length of the reason u16, reason, length of the ref u16, ref, bytes.
func (c *change) setAside(from string, n uint64, r ref, reason error) error {
	if r.tank == "" {
		r = c.refByIndex(n)
	}
	c.o.o.Log.Error().Uint64("row", n).Str("tank", r.tank).Uint64("epoch", r.epoch).Uint64("seq", r.seq).
		Err(reason).Msg("outbox row damaged, set aside")
	text, link := reason.Error(), []byte(nil)
	if r.tank != "" {
		link = r.encode(nil)
	}
	v := binary.BigEndian.AppendUint16(nil, uint16(len(text)))
	v = append(v, text...)
	v = binary.BigEndian.AppendUint16(v, uint16(len(link)))
	v = append(v, link...)
	v = append(v, c.bucket(bRows).Get(rowKey(n))...)
	if err := c.remove(from, n, r); err != nil {
		return err
	}
	damaged := c.bucket(bDamaged)
	if c.st.damagedRows >= damagedMax {
		if k, _ := damaged.Cursor().First(); k != nil {
			if err := damaged.Delete(k); err != nil {
				return err
			}
			c.st.damagedRows--
			c.counted.DamagedForgotten++
		}
	}
	c.st.damagedRows++
	c.counted.Damaged++
	return damaged.Put(rowKey(n), v)
}

// refByIndex finds the number of a row whose reference is unreadable, by a walk
// through the whole index. The kind is not known there; the run is the number.
func (c *change) refByIndex(n uint64) ref {
	key := rowKey(n)
	cur := c.bucket(bIndex).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if !bytes.Equal(v, key) || len(k) < 8+1+8 {
			continue
		}
		seq := binary.BigEndian.Uint64(k[len(k)-8:])
		return ref{
			kind: event.Measured, epoch: binary.BigEndian.Uint64(k), seq: seq, from: seq,
			tank: string(k[8 : len(k)-9]),
		}
	}
	return ref{}
}

// Damaged lists the damaged rows, oldest first, at most limit.
func (o *Outbox) Damaged(limit int) (list []DamagedRow, err error) {
	err = o.f.View(func(tx *bbolt.Tx) error {
		cur := tx.Bucket([]byte(bDamaged)).Cursor()
		for k, v := cur.First(); k != nil && len(list) < limit; k, v = cur.Next() {
			d, _, ok := decodeDamaged(k, v)
			if !ok {
				return fmt.Errorf("list damaged rows: record %x unreadable", k)
			}
			list = append(list, d)
		}
		return nil
	})
	return list, err
}

func decodeDamaged(k, v []byte) (d DamagedRow, r ref, ok bool) {
	reason, rest, ok := cut16(v)
	if !ok {
		return d, r, false
	}
	link, rest, ok := cut16(rest)
	if !ok {
		return d, r, false
	}
	d = DamagedRow{Row: binary.BigEndian.Uint64(k), Reason: string(reason), Bytes: bytes.Clone(rest)}
	if r, ok = decodeRef(link); ok {
		d.Tank, d.Dot, d.From = r.tank, r.dot(), r.from
	}
	return d, r, true
}

// cut16 cuts off what a length of two bytes announces.
func cut16(b []byte) (head, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

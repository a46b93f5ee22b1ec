package outbox

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// An anchor is one instant of a boot by both clocks, taken when the wall clock was
// synchronised. By it rows of that boot get their true time although the board has
// been off since; without one their time would stay unknown for ever, since the
// clock since boot begins anew. It is one small commit a boot, and only where there
// are rows that need it.

// anchorsMax bounds the boots whose anchor is kept. The oldest goes; what is then
// still pending of that boot leaves as unsynced.
const anchorsMax = 16

// keyAnchor begins the keys of anchors in bState, before the number of the boot.
var keyAnchor = []byte("anchor")

func anchorKey(boot uint32) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(keyAnchor), boot)
}

// anchor writes the anchor of this boot as soon as there is one to write and a row
// that may need it. It needs mu.
func (o *Outbox) anchor() error {
	if o.anchored || !o.unsynced {
		return nil
	}
	now := o.now()
	if !now.synced || now.wall.Before(wallKnownFrom) {
		return nil
	}
	err := o.evicting(o.updateTight, func(c *change) error {
		value := now.encode(make([]byte, 0, instantBytes+4))
		value = binary.BigEndian.AppendUint32(value, crc32.Checksum(value, crcTable))
		if err := c.bucket(bState).Put(anchorKey(now.boot), value); err != nil {
			return err
		}
		return c.forgetAnchors()
	})
	o.anchored = err == nil
	return err
}

// forgetAnchors keeps anchorsMax.
func (c *change) forgetAnchors() error {
	var keys [][]byte
	cur := c.bucket(bState).Cursor()
	for k, _ := cur.Seek(keyAnchor); bytes.HasPrefix(k, keyAnchor); k, _ = cur.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for ; len(keys) > anchorsMax; keys = keys[1:] {
		if err := c.bucket(bState).Delete(keys[0]); err != nil {
			return err
		}
	}
	return nil
}

// anchorOf gives the anchor of a boot. One that is damaged is none.
func (o *Outbox) anchorOf(boot uint32) (at instant, known bool) {
	// The only error is that of a closed file.
	_ = o.f.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte(bState)).Get(anchorKey(boot))
		if end := len(v) - 4; end == instantBytes && crc32.Checksum(v[:end], crcTable) == binary.BigEndian.Uint32(v[end:]) {
			at, known = decodeInstant(v)
		}
		return nil
	})
	return at, known && at.boot == boot && at.synced
}

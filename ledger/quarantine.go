package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"oxyd/internal/event"
)

// Kept is one message in quarantine: what was refused, with its bytes and the
// reason. A repeat of the same content counts up and takes no more room.
type Kept struct {
	ID       string       `json:"id"` // 32 hex digits, made of the content
	Reason   event.Reason `json:"reason"`
	Detail   string       `json:"detail,omitempty"`
	Topic    string       `json:"topic"`
	Payload  []byte       `json:"payload"` // as received, at most event.MaxBytes of it
	Retained bool         `json:"retained,omitempty"`
	Source   string       `json:"source,omitempty"`
	EventID  string       `json:"event_id,omitempty"`
	First    time.Time    `json:"first"`
	Last     time.Time    `json:"last"`
	Count    uint64       `json:"count"`
	LSN      uint64       `json:"lsn,omitempty"` // of a conflict: the journal row of the content in force

	Order uint64 `json:"order"` // its key in quarorder
}

// keep puts a refused message into quarantine, or counts it up there. first
// tells that this content was not there.
func (b *batch) keep(hash [32]byte, d *Delivery, reason event.Reason, detail string, at int64, other uint64) (first bool, err error) {
	key := hash[:16]
	var k Kept
	if row := b.quarantine.Get(key); row != nil {
		if err := json.Unmarshal(row, &k); err != nil {
			return false, fmt.Errorf("quarantine row %x: %w", key, errRow)
		}
	} else {
		first = true
		payload := d.Payload
		if len(payload) > event.MaxBytes {
			sum := sha256.Sum256(payload)
			detail = fmt.Sprintf("%s; kept are the first %d of %d bytes, SHA-256 %x", detail, event.MaxBytes, len(payload), sum)
			payload = payload[:event.MaxBytes]
		}
		k = Kept{ID: hex.EncodeToString(key), Reason: reason, Detail: detail, Topic: d.Topic, Payload: payload,
			Retained: d.Retained, Source: d.Event.Source, EventID: d.Event.ID, First: time.Unix(0, at).UTC(),
			LSN: other, Order: b.meta.quarNext}
		if err := b.quarorder.Put(lsnKey(k.Order), key); err != nil {
			return false, err
		}
		b.meta.quarNext++
		b.meta.quarRows++
		b.meta.quarBytes += keptBytes(&k)
	}
	k.Last = time.Unix(0, at).UTC()
	k.Count++
	row, err := json.Marshal(&k)
	if err != nil {
		return false, err
	}
	if err := b.quarantine.Put(key, row); err != nil {
		return false, err
	}
	return first, errors.Join(b.evict(), b.noticeKept(first, &k, d))
}

// keptBytes is what a message counts against QuarantineBytes.
func keptBytes(k *Kept) uint64 { return uint64(len(k.Payload) + len(k.Topic) + 128) }

// evict drops the oldest messages while the quarantine is over its bound. They
// are counted; their entries, where they have an identity, stay.
func (b *batch) evict() error {
	for b.meta.quarBytes > uint64(b.l.opt.QuarantineBytes) && b.meta.quarRows > 1 {
		n, key := b.quarorder.Cursor().First()
		if n == nil {
			return errRow
		}
		var k Kept
		if err := json.Unmarshal(b.quarantine.Get(key), &k); err != nil {
			return fmt.Errorf("quarantine row %x: %w", key, errRow)
		}
		if err := b.quarantine.Delete(key); err != nil {
			return err
		}
		if err := b.quarorder.Delete(n); err != nil {
			return err
		}
		b.meta.quarRows--
		b.meta.quarBytes -= keptBytes(&k)
		b.meta.evicted++
		if err := b.noticeEvicted(&k); err != nil {
			return err
		}
	}
	return nil
}

// repeatKept counts a quarantined event up that came again. Where the bound has
// evicted it, it is kept anew.
func (b *batch) repeatKept(in *incoming) (event.Reason, error) {
	k := in.byID
	if k == nil {
		k = in.byNo
	}
	r, err := parseRecord(b.journal.Get(lsnKey(k.lsn)))
	if err != nil {
		return "", err
	}
	_, err = b.keep(in.hash, in.Delivery, r.reason, "", in.at, 0)
	return r.reason, err
}

// ErrAmbiguous: the beginning of an id is that of more than one message.
var ErrAmbiguous = errors.New("more than one quarantined message begins with this id")

// Quarantine lists the newest kept messages first, at most limit of them.
func (l *Ledger) Quarantine(limit int) ([]Kept, error) {
	list := []Kept{}
	err := l.view(func(b *batch) error {
		c := b.quarorder.Cursor()
		for n, key := c.Last(); n != nil && len(list) < limit; n, key = c.Prev() {
			var k Kept
			if err := json.Unmarshal(b.quarantine.Get(key), &k); err != nil {
				return fmt.Errorf("quarantine row %x: %w", key, errRow)
			}
			list = append(list, k)
		}
		return nil
	})
	return list, err
}

// KeptByID gives one message in quarantine, by its whole id or a beginning of
// at least six digits that no other one shares.
func (l *Ledger) KeptByID(id string) (Kept, bool, error) {
	var found Kept
	ok := false
	err := l.view(func(b *batch) error {
		prefix, err := hex.DecodeString(id[:len(id)&^1])
		if err != nil || len(id) < 6 {
			return nil // no id at all
		}
		c := b.quarantine.Cursor()
		for key, row := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, row = c.Next() {
			if !strings.HasPrefix(hex.EncodeToString(key), id) {
				continue
			}
			if ok {
				return fmt.Errorf("%w: %q", ErrAmbiguous, id)
			}
			ok = true
			if err := json.Unmarshal(row, &found); err != nil {
				return fmt.Errorf("quarantine row %x: %w", key, errRow)
			}
		}
		return nil
	})
	return found, ok && err == nil, err
}

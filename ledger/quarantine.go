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

	"go.etcd.io/bbolt"

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
	Tank     string       `json:"tank,omitempty"` // of what is an event
	Source   string       `json:"source,omitempty"`
	EventID  string       `json:"event_id,omitempty"`
	First    time.Time    `json:"first"`
	Last     time.Time    `json:"last"`
	Count    uint64       `json:"count"`
	LSN      uint64       `json:"lsn,omitempty"` // of a conflict: the journal row of the content in force
	Row      uint64       `json:"row,omitempty"` // of what a rule refused: its own journal row

	Order uint64 `json:"order"` // its key in quarorder
}

// keep puts a refused message into quarantine, or counts it up there. what says why
// it was refused. first tells that this content was not there. What an operator has
// discarded does not come back, it is only counted.
func (b *batch) keep(hash [32]byte, d *Delivery, what Kept, at int64) (first bool, err error) {
	key := hash[:16]
	if last, err := b.settledBy(key); err != nil {
		return false, err
	} else if last.kind == recordDiscard {
		b.meta.discardedAgain++
		return false, nil
	}
	var k Kept
	if row := b.quarantine.Get(key); row != nil {
		if err := json.Unmarshal(row, &k); err != nil {
			return false, fmt.Errorf("quarantine row %x: %w", key, errRow)
		}
		if what.Row != 0 { // another one where its mark was pruned in between
			k.Row, k.Reason = what.Row, what.Reason
		}
	} else {
		first = true
		payload, detail := d.Payload, what.Detail
		if len(payload) > event.MaxBytes {
			sum := sha256.Sum256(payload)
			detail = fmt.Sprintf("%s; kept are the first %d of %d bytes, SHA-256 %x", detail, event.MaxBytes, len(payload), sum)
			payload = payload[:event.MaxBytes]
		}
		k = Kept{ID: hex.EncodeToString(key), Reason: what.Reason, Detail: detail, Topic: strings.ToValidUTF8(d.Topic, "\uFFFD"), Payload: payload,
			Retained: d.Retained, Tank: d.Event.Tank, Source: d.Event.Source, EventID: d.Event.ID, First: time.Unix(0, at).UTC(),
			LSN: what.LSN, Row: what.Row, Order: b.meta.quarNext}
		if err := b.quarorder.Put(lsnKey(k.Order), key); err != nil {
			return false, err
		}
		b.meta.quarNext++
		b.meta.quarRows++
		b.meta.quarBytes += keptBytes(&k)
	}
	k.Last = time.Unix(0, at).UTC()
	k.Count++
	if err := b.putKept(key, &k); err != nil {
		return false, err
	}
	return first, errors.Join(b.evict(), b.noticeKept(first, &k, d))
}

func (b *batch) putKept(key []byte, k *Kept) error {
	row, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return b.quarantine.Put(key, row)
}

// unkeep takes a message out.
func (b *batch) unkeep(key []byte, k *Kept) error {
	if err := b.quarantine.Delete(key); err != nil {
		return err
	}
	b.meta.quarRows--
	b.meta.quarBytes -= keptBytes(k)
	return b.quarorder.Delete(lsnKey(k.Order))
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
		if err := b.unkeep(bytes.Clone(key), &k); err != nil {
			return err
		}
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
	reason, err := b.reasonOf(&k.entry)
	if err != nil {
		return "", err
	}
	what := Kept{Reason: reason}
	if k.outcome == Quarantined {
		what.Row = k.lsn
	}
	_, err = b.keep(in.hash, in.Delivery, what, in.at)
	return reason, err
}

// reasonOf gives why an event is kept out of the set, "" of one that is in it: what
// was found at its first receipt, or by the last retry.
func (b *batch) reasonOf(n *entry) (event.Reason, error) {
	if n.outcome.Accepted() {
		return "", nil
	}
	if last, err := b.settledBy(n.hash[:]); err != nil {
		return "", err
	} else if last.kind == recordRetry && last.target == n.lsn {
		return last.reason, nil
	}
	r, err := parseRecord(b.row(n.lsn))
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
		keys, err := matching(id, b.quarantine)
		if len(keys) == 0 || err != nil {
			return err
		}
		ok = true
		if err := json.Unmarshal(b.quarantine.Get(keys[0]), &found); err != nil {
			return fmt.Errorf("quarantine row %x: %w", keys[0], errRow)
		}
		return nil
	})
	return found, ok && err == nil, err
}

// minIDDigits of a quarantine id are wanted at least.
const minIDDigits = 6

// matching gives the one key of these buckets, each made of such ids, that begins
// with the digits; none where there is none, or where they are no digits.
func matching(id string, in ...*bbolt.Bucket) (keys [][]byte, err error) {
	prefix, err := hex.DecodeString(id[:len(id)&^1])
	if err != nil || len(id) < minIDDigits {
		return nil, nil // no id at all
	}
	for _, bucket := range in {
		c := bucket.Cursor()
		for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
			if !strings.HasPrefix(hex.EncodeToString(key), id) || len(keys) > 0 && bytes.Equal(keys[0], key) {
				continue
			}
			if keys = append(keys, bytes.Clone(key)); len(keys) > 1 {
				return nil, fmt.Errorf("%w: %q", ErrAmbiguous, id)
			}
		}
	}
	return keys, nil
}

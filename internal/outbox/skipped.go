package outbox

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

const (
	// goneMax is how many ranges one window looks up for an answer.
	goneMax = event.MaxSkips

	// answersMax bounds the answers remembered, each of at most event.MaxSkips
	// ranges. The oldest goes: asked for once more, it is answered once more, which
	// changes no account.
	answersMax = 512

	// answersPerMinute bounds the skipped events: whoever can write to the broker
	// could ask for anything, under ever new incarnations.
	answersPerMinute = 32
)

// Reasons in skipped events.
const (
	reasonGone    = "no longer kept"
	reasonDamaged = "damaged in the store"
)

// A goneRange is a run of numbers that a ledger wants and that neither wait nor are
// retained here, although this store has given them.
type goneRange struct {
	f  *follower
	id streamID
	event.Range
}

// An answer is what one incarnation of a ledger has been told once.
type answer struct {
	ledger      string
	incarnation uint64
	id          streamID
	ranges      []event.Range
}

// answer tells what is gone, once for each ledger and incarnation: the skipped
// event, an ordinary one of the epoch in force, and the memory of it are one
// transaction. What is pending or retained is never among it (walk), nor what
// this store has not given: numbers of an epoch that it does not know may still
// be with another copy of the card. A full outbox answers later. It needs mu.
func (o *Outbox) answer(gone []goneRange) error {
	for len(gone) > 0 {
		first := gone[0]
		same := 1
		for same < len(gone) && gone[same].f == first.f && gone[same].id == first.id {
			same++
		}
		var list []event.Range
		for _, g := range gone[:same] {
			list = append(list, g.Range)
		}
		gone = gone[same:]
		list = subtract(list, o.answered(first.f, first.id))
		damaged, err := o.damagedOf(first.id)
		if err != nil {
			return err
		}
		err = o.skip(first, intersect(list, damaged), reasonDamaged)
		if err == nil {
			err = o.skip(first, subtract(list, damaged), reasonGone)
		}
		if boltfile.IsFull(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("answer ledger %s: %w", first.f.ledger, err)
		}
	}
	return nil
}

// answered gives what this incarnation of the ledger has been told of a stream.
func (o *Outbox) answered(f *follower, id streamID) (told []event.Range) {
	for _, a := range o.answers {
		if a.ledger == f.ledger && a.incarnation == f.incarnation && a.id == id {
			told = append(told, a.ranges...)
		}
	}
	slices.SortFunc(told, byFrom)
	return told
}

// damagedOf lists the numbers of a stream that were set aside as damaged.
func (o *Outbox) damagedOf(id streamID) (list []event.Range, err error) {
	err = o.f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bDamaged)).ForEach(func(k, v []byte) error {
			if _, r, ok := decodeDamaged(k, v); ok && r.epoch == id.epoch && r.tank == id.tank && r.tank != "" {
				list = append(list, event.Range{From: r.from, To: r.seq})
			}
			return nil
		})
	})
	slices.SortFunc(list, byFrom)
	return list, err
}

// skip appends one skipped event of the ranges, in as many as it takes.
func (o *Outbox) skip(g goneRange, ranges []event.Range, reason string) error {
	for len(ranges) > 0 {
		if !o.mayAnswer() {
			return nil // the next try finds it unanswered
		}
		part := ranges[:min(len(ranges), event.MaxSkips)]
		ranges = ranges[len(part):]
		d, err := o.draft(event.Event{Type: event.Skipped, Tank: g.id.tank, Skips: part,
			SkipsEpoch: g.id.epoch, Reason: reason}, o.now())
		if err != nil {
			return err
		}
		a := answer{g.f.ledger, g.f.incarnation, g.id, slices.Clone(part)}
		if err := o.appendAnswer(&d, a); err != nil {
			return err
		}
		o.o.Log.Warn().Str("ledger", a.ledger).Str("tank", g.id.tank).Uint64("epoch", g.id.epoch).
			Uint64("numbers", numbers(part)).Uint64("first", part[0].From).Str("reason", reason).
			Msg("events that a ledger lacks are gone, it is told so")
	}
	return nil
}

// mayAnswer keeps answersPerMinute.
func (o *Outbox) mayAnswer() bool {
	now := o.o.Clock.Mono()
	if now-o.answering.minute >= time.Minute || o.answering.count == 0 {
		o.answering.minute, o.answering.count = now, 0
	}
	o.answering.count++
	return o.answering.count <= answersPerMinute
}

func (o *Outbox) appendAnswer(d *draft, a answer) error {
	if err := o.makeRoom(nil, []draft{*d}); err != nil {
		return err
	}
	var left []keyedAnswer
	err := o.evicting(o.update, func(c *change) error {
		r, err := c.put(d)
		if err != nil {
			return err
		}
		left = nil
		answers := c.bucket(bAnswers)
		for i, old := range o.answers {
			if old.ledger == a.ledger && old.incarnation != a.incarnation || len(o.answers)-i >= answersMax {
				if err := answers.Delete(rowKey(old.row)); err != nil {
					return err
				}
				continue
			}
			left = append(left, old)
		}
		left = append(left, keyedAnswer{r.Row, a})
		c.counted.SkipsSent++
		c.counted.NumbersSkipped += numbers(a.ranges)
		return answers.Put(rowKey(r.Row), a.encode())
	})
	if err != nil {
		return err
	}
	o.answers = left
	o.signal()
	return nil
}

// keyedAnswer is an answer under the row of its skipped event.
type keyedAnswer struct {
	row uint64
	answer
}

// encode writes the value in bAnswers: length of the ledger's id u8, id,
// incarnation u64, epoch u64, length of the tank's id u8, id, ranges of two u64.
func (a *answer) encode() []byte {
	b := append(make([]byte, 0, 64+16*len(a.ranges)), byte(len(a.ledger)))
	b = append(b, a.ledger...)
	b = binary.BigEndian.AppendUint64(b, a.incarnation)
	b = binary.BigEndian.AppendUint64(b, a.id.epoch)
	b = append(b, byte(len(a.id.tank)))
	b = append(b, a.id.tank...)
	for _, r := range a.ranges {
		b = binary.BigEndian.AppendUint64(b, r.From)
		b = binary.BigEndian.AppendUint64(b, r.To)
	}
	return b
}

func decodeAnswer(b []byte) (a answer, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0])+16+1 {
		return a, false
	}
	a.ledger, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	a.incarnation, a.id.epoch = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	b = b[16:]
	if len(b) < 1+int(b[0]) {
		return a, false
	}
	a.id.tank, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	if len(b)%16 != 0 || len(b) > 16*event.MaxSkips || !event.ValidName(a.ledger) || !event.ValidName(a.id.tank) {
		return a, false
	}
	last := uint64(0)
	for ; len(b) > 0; b = b[16:] {
		r := event.Range{From: binary.BigEndian.Uint64(b), To: binary.BigEndian.Uint64(b[8:])}
		if r.From <= last || r.To < r.From {
			return a, false
		}
		last = r.To
		a.ranges = append(a.ranges, r)
	}
	return a, len(a.ranges) > 0
}

// loadAnswers reads them back at open. One that is unreadable is given up: at
// worst its answer is given once more.
func (o *Outbox) loadAnswers(tx *bbolt.Tx) error {
	return tx.Bucket([]byte(bAnswers)).ForEach(func(k, v []byte) error {
		if a, ok := decodeAnswer(v); ok && len(k) == 8 {
			o.answers = append(o.answers, keyedAnswer{binary.BigEndian.Uint64(k), a})
		}
		return nil
	})
}

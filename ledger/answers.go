package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"oxyd/internal/event"
)

// MaxAnswers bounds the first answers that are kept. The oldest goes: a repeat of
// its request is answered from the outcome, which is kept with the event, and with
// the balance of then.
const MaxAnswers = 2000

// maxAnswerBytes bounds one; a balance document has less than 2 KiB.
const maxAnswerBytes = 8 << 10

// Answer gives the first answer that KeepAnswer was given for an event.
func (l *Ledger) Answer(id event.Identity) (answer []byte, ok bool, err error) {
	err = l.view(func(b *batch) error {
		if row := b.out("answers").Get(idKey(id.Source, id.ID)); len(row) > 8 {
			answer, ok = bytes.Clone(row[8:]), true
		}
		return nil
	})
	return answer, ok, err
}

// KeepAnswer keeps what the maker of an entry by hand is told, so that a repeat of
// the request is told the same (R15). The first one stays: it gives the answer that
// is kept, which is another's where that was sooner.
func (l *Ledger) KeepAnswer(id event.Identity, answer []byte) (kept []byte, err error) {
	if len(answer) > maxAnswerBytes {
		return nil, fmt.Errorf("keep answer to %q: %d bytes are too many", id.ID, len(answer))
	}
	key := idKey(id.Source, id.ID)
	err = l.update(func(b *batch) error {
		rows, order := b.out("answers"), b.out("answerorder")
		kept = answer
		if row := rows.Get(key); len(row) > 8 {
			kept = bytes.Clone(row[8:])
			return nil
		}
		next := uint64(1)
		if n, _ := order.Cursor().Last(); n != nil {
			next = lsnOf(n) + 1
		}
		if err := rows.Put(key, append(binary.BigEndian.AppendUint64(nil, next), answer...)); err != nil {
			return err
		}
		if err := order.Put(lsnKey(next), key); err != nil {
			return err
		}
		n, oldest := order.Cursor().First()
		if next-lsnOf(n) < MaxAnswers {
			return nil
		}
		if err := rows.Delete(bytes.Clone(oldest)); err != nil {
			return err
		}
		return order.Delete(bytes.Clone(n))
	})
	if err != nil {
		return nil, fmt.Errorf("keep answer to %q: %w", id.ID, err)
	}
	return kept, nil
}

// checkAnswers verifies that answers and their order lead to each other.
func (b *batch) checkAnswers() error {
	rows, order := b.out("answers"), b.out("answerorder")
	if rows == nil {
		return nil // a file from before there were any
	}
	count := 0
	if err := order.ForEach(func(n, key []byte) error {
		count++
		if row := rows.Get(key); len(row) <= 8 || !bytes.Equal(row[:8], n) {
			return fmt.Errorf("answer %d, of %q, is not there", lsnOf(n), key)
		}
		return nil
	}); err != nil {
		return err
	}
	if all := rows.Inspect().KeyN; count != all || all > MaxAnswers {
		return fmt.Errorf("there are %d answers, %d in order", all, count)
	}
	return nil
}

// Content gives the event that stands under an identity, as it was first received.
func (l *Ledger) Content(id event.Identity) (e event.Event, ok bool, err error) {
	err = l.view(func(b *batch) error {
		k, err := b.find(id)
		if k == nil || err != nil {
			return err
		}
		r, err := parseRecord(b.row(k.lsn))
		if err != nil {
			return err
		}
		e, err = r.event()
		ok = err == nil
		return err
	})
	return e, ok, err
}

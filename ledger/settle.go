package ledger

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"oxyd/internal/event"
)

// What an operator may be answered instead of a decision.
var (
	ErrNotKept      = errors.New("nothing in quarantine has this id")
	ErrNotRetryable = errors.New("cannot be accepted by a retry")
	ErrSettled      = errors.New("was decided about otherwise before")
	ErrNote         = fmt.Errorf("the reason given is no line of printable text of at most %d bytes", MaxNoteBytes)
)

// MaxNoteBytes bounds the reason that an operator gives for a decision.
const MaxNoteBytes = event.MaxReasonBytes

// Decision is what an operator decided about a quarantined message, as journalled.
type Decision struct {
	ID        string         `json:"id"`       // of the message in quarantine
	Decision  string         `json:"decision"` // Retried or Discarded
	Changed   bool           `json:"changed"`  // false: all this had been decided before
	Outcome   Outcome        `json:"outcome"`  // of the message now
	Reason    event.Reason   `json:"reason,omitempty"`
	Overruled []event.Reason `json:"overruled,omitempty"` // by this and earlier retries
	LSN       uint64         `json:"lsn,omitempty"`       // the decision's row in the journal
	Note      string         `json:"note,omitempty"`      // why, as the operator said
	At        *time.Time     `json:"at,omitempty"`
	Tank      string         `json:"tank,omitempty"`
	Source    string         `json:"source,omitempty"`
	EventID   string         `json:"event_id,omitempty"`
}

// What Decision.Decision and Record.Type say.
const (
	Retried   = "Retried"
	Discarded = "Discarded"
)

// decision is the part of a journal row that is about a quarantined message.
type decision struct {
	key       [16]byte       // its id
	target    uint64         // the journal row of the event; 0: it has none
	overruled []event.Reason // all that is overruled for it now
	note      string

	tank, source, eventID string
}

func (d *decision) size() int {
	return 256 + len(d.note) + len(d.tank) + len(d.source) + len(d.eventID)
}

func (e *encoder) decision(v *decision) {
	*e = append(*e, v.key[:]...)
	e.u64(v.target)
	e.u8(uint8(len(v.overruled)))
	for _, r := range v.overruled {
		e.text(string(r))
	}
	e.text(v.note)
	e.text(v.tank)
	e.text(v.source)
	e.text(v.eventID)
}

func (d *decoder) decision() (v decision) {
	copy(v.key[:], d.take(16))
	v.target = d.u64()
	for n := d.u8(); n > 0 && d.err == nil; n-- {
		v.overruled = append(v.overruled, event.Reason(d.text()))
	}
	v.note, v.tank, v.source, v.eventID = d.text(), d.text(), d.text(), d.text()
	return v
}

// settledBy gives the last decision about a content; its kind is 0 where there is
// none.
func (b *batch) settledBy(key []byte) (record, error) {
	row := b.settled.Get(key)
	if row == nil {
		return record{}, nil
	}
	if len(row) < 8 {
		return record{}, errRow
	}
	r, err := parseRecord(row[8:])
	if err == nil && r.kind != recordRetry && r.kind != recordDiscard {
		err = errRow
	}
	return r, err
}

// conclude journals a decision, keeps its row beside the journal, which may be pruned,
// and gives it as it is shown.
func (b *batch) conclude(r record) (Decision, error) {
	if _, r.receipt = b.receipt(); r.target == 0 {
		r.stamp = r.receipt // of what has no place in time of its own
	}
	lsn, err := b.writeJournal(r)
	if err != nil {
		return Decision{}, err
	}
	row := lsnKey(lsn)
	return r.shown(lsn, true), b.settled.Put(r.key[:], append(row, b.journal.Get(row)...))
}

// shown gives a decision in words.
func (r *record) shown(lsn uint64, changed bool) Decision {
	d := Decision{ID: hex.EncodeToString(r.key[:]), Decision: Retried, Changed: changed, Outcome: r.outcome, Reason: r.reason,
		Overruled: r.overruled, LSN: lsn, Note: r.note, At: timeOf(r.receipt), Tank: r.tank, Source: r.source, EventID: r.eventID}
	if r.kind == recordDiscard {
		d.Decision = Discarded
	}
	return d
}

// pending is a message that an operator decides about.
type pending struct {
	key  []byte
	kept *Kept  // nil: it is not in quarantine any more
	last record // the last decision about its content
	lsn  uint64 // the row of that
}

// pick finds the message by its id or a beginning of it, among those in quarantine
// and those that were decided about.
func (b *batch) pick(id string) (p pending, err error) {
	keys, err := matching(id, b.quarantine, b.settled)
	if err != nil {
		return p, err
	}
	if len(keys) == 0 {
		return p, fmt.Errorf("%w: %q", ErrNotKept, id)
	}
	p.key = keys[0]
	if p.last, err = b.settledBy(p.key); err != nil {
		return p, err
	}
	if p.last.kind != 0 {
		p.lsn = lsnOf(b.settled.Get(p.key)[:8])
	}
	if row := b.quarantine.Get(p.key); row != nil {
		p.kept = &Kept{}
		if err := json.Unmarshal(row, p.kept); err != nil {
			return p, fmt.Errorf("quarantine row %x: %w", p.key, errRow)
		}
	}
	return p, nil
}

// Discard takes a message out of quarantine for good. Its outcome and its numbers
// stay, and its repeats are answered as before, but it is not kept again. The same
// decision once more changes nothing and is answered with Changed false. note, which
// may be empty, says why.
//
// Errors: ErrNotKept, ErrAmbiguous, ErrSettled, ErrNote.
func (l *Ledger) Discard(id, note string) (d Decision, err error) {
	if !validNote(note) {
		return d, fmt.Errorf("discard %q: %w", id, ErrNote)
	}
	err = l.decide(func(b *batch) error {
		p, err := b.pick(id)
		if err != nil {
			return err
		}
		if p.kept == nil {
			d, err = p.gone(recordDiscard)
			return err
		}
		r := record{kind: recordDiscard, outcome: Quarantined, reason: p.kept.Reason, decision: decision{key: [16]byte(p.key),
			target: p.kept.Row, overruled: p.last.overruled, note: note, tank: p.kept.Tank, source: p.kept.Source, eventID: p.kept.EventID}}
		if p.kept.Reason == event.Conflict {
			r.outcome = Conflict
		}
		if p.kept.Row != 0 {
			r.stamp = p.kept.First.UnixNano()
			if own, err := parseRecord(b.row(p.kept.Row)); err == nil {
				r.stamp = own.stamp
			}
		}
		if err := b.unkeep(p.key, p.kept); err != nil {
			return err
		}
		b.meta.discarded++
		d, err = b.conclude(r)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("discard quarantined message: %w", err)
	}
	return d, nil
}

// gone answers for a message that is not in quarantine any more.
func (p *pending) gone(asked uint8) (Decision, error) {
	d := p.last.shown(p.lsn, false)
	switch {
	case p.last.kind == recordRetry && !p.last.outcome.Accepted():
		return d, fmt.Errorf("%w: %s went at the quarantine's bound", ErrNotKept, d.ID)
	case p.last.kind == asked:
		return d, nil
	case p.last.kind == recordRetry:
		return d, fmt.Errorf("%w: it was retried and is %s, journal row %d", ErrSettled, d.Outcome, p.lsn)
	}
	return d, fmt.Errorf("%w: it was discarded, journal row %d", ErrSettled, p.lsn)
}

// decide runs a decision in a transaction of its own. One that changes nothing is
// rolled back: nothing is written.
func (l *Ledger) decide(fn func(*batch) error) error {
	err := l.update(func(b *batch) error {
		before := b.meta.lsn
		if err := fn(b); err != nil {
			return err
		}
		if b.meta.lsn == before {
			return errNothingChanged
		}
		return nil
	})
	if errors.Is(err, errNothingChanged) {
		return nil
	}
	return err
}

var errNothingChanged = errors.New("nothing changed")

// validNote wants a line that a terminal and a table can take.
func validNote(note string) bool {
	if len(note) > MaxNoteBytes || !utf8.ValidString(note) {
		return false
	}
	for _, r := range note {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"go.etcd.io/bbolt"
)

// Kinds of what the account tells people of. Options.Notify names those that are
// kept for them.
const (
	KindAlarm      = "alarm"      // an alarm came, went or changed
	KindConflict   = "conflict"   // an identity came again with other content
	KindEviction   = "eviction"   // the quarantine's bound gave up its oldest messages
	KindLimit      = "limit"      // a bound on tanks, sources or parked reversals refused an event
	KindQuarantine = "quarantine" // a message was refused and kept
	KindStore      = "store"      // the account itself: begun anew after damage
)

// Kinds lists all kinds, by name.
func Kinds() []string {
	return []string{KindAlarm, KindConflict, KindEviction, KindLimit, KindQuarantine, KindStore}
}

// Bounds of what is kept. MaxWaiting: the oldest goes undelivered, counted and
// listed as dropped. MaxTold: the oldest outcome is forgotten.
const (
	MaxWaiting = 1000
	MaxTold    = 1000

	maxSubjectBytes = 128
	maxTextBytes    = 400
	maxDetailBytes  = 4096
)

// States of a notification.
const (
	Waiting   = "waiting"   // not delivered yet
	Delivered = "delivered" // its receiver has taken it
	Refused   = "refused"   // its receiver will never take it
	Dropped   = "dropped"   // given up at MaxWaiting
)

// Notice is something that people are to be told of.
type Notice struct {
	Kind    string // one of Kinds
	Subject string // what it is about, within the kind: a tank, a reason; at most 128 bytes
	Text    string // one sentence; cut at 400 bytes
	Detail  any    // becomes a JSON object of at most 4096 bytes; nil: none
}

// Notification is a notice as it waits and as it went. While nobody has been told
// of it, further notices of its kind and subject are joined into it: Count says how
// many it stands for, and text and detail are those of the last. From HandOver on
// it never changes, so that a repeat of the delivery says the same.
type Notification struct {
	Number      uint64          `json:"number"`
	Incarnation uint64          `json:"incarnation"` // the account's when it was made
	Kind        string          `json:"kind"`
	Subject     string          `json:"subject"`
	Text        string          `json:"text"`
	Detail      json.RawMessage `json:"detail,omitempty"`
	Count       uint64          `json:"count"`
	First       time.Time       `json:"first"`
	Last        time.Time       `json:"last"`

	State       string     `json:"state"`
	HandedOver  bool       `json:"handed_over"` // a delivery was begun
	Attempts    uint64     `json:"attempts"`
	LastAttempt *time.Time `json:"last_attempt"`
	Status      int        `json:"status,omitempty"` // the last attempt's HTTP status; 0: no answer
	Error       string     `json:"error,omitempty"`
	Decided     *time.Time `json:"decided"` // when it was delivered, refused or dropped
}

// Attempt is what became of one delivery.
type Attempt struct {
	Number uint64
	At     time.Time
	State  string // Waiting: it is to be tried again
	Status int
	Error  string
}

// outBuckets hold what the account says to others and no event hangs on. They came
// after the first files were written, which may lack them in a backup.
//
//	out          n                  what waits
//	outopen      kind 0 subject     n of the waiting row that takes more of its like
//	outlog       n                  what became of it, the newest MaxTold
//	answers      source 0 event_id  n, the first answer to an entry by hand (answers.go)
//	answerorder  n                  the key of the answer, oldest first, for the bound
var outBuckets = []string{"out", "outopen", "outlog", "answers", "answerorder"}

// OutCounts is the row of what belongs to all notifications, in meta under "out".
type OutCounts struct {
	Next      uint64 `json:"-"` // number of the next one
	Waiting   uint64 `json:"waiting"`
	Kept      uint64 `json:"kept"` // outcomes in the list
	Notices   uint64 `json:"notices"`
	Attempts  uint64 `json:"attempts"`
	Delivered uint64 `json:"delivered"`
	Refused   uint64 `json:"refused"`
	Dropped   uint64 `json:"dropped"`
}

func (c *OutCounts) fields() []*uint64 {
	return []*uint64{&c.Next, &c.Waiting, &c.Kept, &c.Notices, &c.Attempts, &c.Delivered, &c.Refused, &c.Dropped}
}

func (b *batch) outCounts() (c OutCounts, err error) {
	row := b.metaRow.Get([]byte("out"))
	if row == nil {
		return OutCounts{Next: 1}, nil
	}
	return decodeOutCounts(row)
}

func (b *batch) putOutCounts(c *OutCounts) error { return b.metaRow.Put([]byte("out"), c.encode()) }

func (c *OutCounts) encode() []byte {
	var e encoder
	for _, v := range c.fields() {
		e.u64(*v)
	}
	return e
}

func decodeOutCounts(row []byte) (c OutCounts, err error) {
	d := decoder{b: row}
	for _, v := range c.fields() {
		*v = d.u64()
	}
	return c, d.done()
}

// Notify keeps notices for whoever is to be told, in a transaction of their own.
// Kinds that Options.Notify does not name are passed over. What is told of a
// change of the account belongs into that change's transaction instead.
func (l *Ledger) Notify(notices ...Notice) error {
	notices = slices.DeleteFunc(slices.Clone(notices), func(n Notice) bool { return !l.tells(n.Kind) })
	if len(notices) == 0 {
		return nil
	}
	for i := range notices {
		if _, err := detailOf(notices[i].Detail); err != nil {
			return fmt.Errorf("notify of %s %s: %w", notices[i].Kind, notices[i].Subject, err)
		}
	}
	return l.update(func(b *batch) error {
		for i := range notices {
			if err := b.notify(&notices[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Ledger) tells(kind string) bool { return slices.Contains(l.opt.Notify, kind) }

// notify keeps a notice in the transaction of what it tells of.
func (b *batch) notify(n *Notice) error {
	if !b.l.tells(n.Kind) {
		return nil
	}
	detail, err := detailOf(n.Detail)
	if err != nil {
		detail = nil // an event must not fail for what is told of it
	}
	c, err := b.outCounts()
	if err != nil {
		return err
	}
	out, open := b.out("out"), b.out("outopen")
	at := time.Unix(0, max(b.l.opt.Now().UnixNano(), b.meta.receipt)).UTC()
	subject := cut(n.Subject, maxSubjectBytes)
	key := openKey(n.Kind, subject)
	row, known := readNotification(out.Get(open.Get(key)))
	if !known || row.HandedOver { // nor does a row that does not decode: Check names it, and nothing waits for it
		row = Notification{Number: c.Next, Incarnation: b.meta.incarnation, Kind: n.Kind, Subject: subject, First: at, State: Waiting}
		c.Next++
		c.Waiting++
	}
	row.Text, row.Detail, row.Last = cut(n.Text, maxTextBytes), detail, at
	row.Count++
	c.Notices++
	if err := errors.Join(putNotification(out, &row), open.Put(key, lsnKey(row.Number))); err != nil {
		return err
	}
	for c.Waiting > MaxWaiting {
		if err := b.dropOldest(&c, at); err != nil {
			return err
		}
	}
	return b.putOutCounts(&c)
}

// dropOldest gives up the notification that has waited longest.
func (b *batch) dropOldest(c *OutCounts, at time.Time) error {
	k, v := b.out("out").Cursor().First()
	if k == nil {
		c.Waiting = 0 // it was counted wrong, which Check says
		return nil
	}
	row, ok := readNotification(v)
	if !ok { // nothing of it can be shown, and the account must go on
		c.Waiting--
		c.Dropped++
		return b.out("out").Delete(bytes.Clone(k))
	}
	return b.decideOut(c, &row, Dropped, at)
}

// decideOut moves a waiting notification to those of which the outcome is known.
func (b *batch) decideOut(c *OutCounts, row *Notification, state string, at time.Time) error {
	row.State, row.Decided = state, &at
	switch state {
	case Delivered:
		c.Delivered++
	case Refused:
		c.Refused++
	case Dropped:
		c.Dropped++
	}
	c.Waiting--
	c.Kept++
	log := b.out("outlog")
	if err := errors.Join(b.out("out").Delete(lsnKey(row.Number)), b.closeOpen(row), putNotification(log, row)); err != nil {
		return err
	}
	for c.Kept > MaxTold {
		k, _ := log.Cursor().First() // the one that was just put, at least
		if err := log.Delete(bytes.Clone(k)); err != nil {
			return err
		}
		c.Kept--
	}
	return nil
}

// closeOpen lets the row take no more of its like.
func (b *batch) closeOpen(row *Notification) error {
	open, key := b.out("outopen"), openKey(row.Kind, row.Subject)
	if v := open.Get(key); v == nil || lsnOf(v) != row.Number {
		return nil
	}
	return open.Delete(key)
}

// out gives one of outBuckets.
func (b *batch) out(name string) *bbolt.Bucket { return b.metaRow.Tx().Bucket([]byte(name)) }

func openKey(kind, subject string) []byte {
	return append(append([]byte(kind), 0), subject...)
}

// detailOf makes the JSON of a detail.
func detailOf(detail any) (json.RawMessage, error) {
	if detail == nil {
		return nil, nil
	}
	text, err := json.Marshal(detail)
	switch {
	case err != nil:
		return nil, fmt.Errorf("write detail: %w", err)
	case text[0] != '{' || len(text) > maxDetailBytes:
		return nil, fmt.Errorf("detail is no JSON object of at most %d bytes", maxDetailBytes)
	}
	return text, nil
}

// cut shortens text to whole characters of at most n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n -= len("…"); n > 0 && !utf8.RuneStart(text[n]); n-- {
	}
	return text[:n] + "…"
}

func readNotification(row []byte) (n Notification, ok bool) {
	return n, row != nil && json.Unmarshal(row, &n) == nil
}

func putNotification(to *bbolt.Bucket, n *Notification) error {
	row, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write notification %d: %w", n.Number, err)
	}
	return to.Put(lsnKey(n.Number), row)
}

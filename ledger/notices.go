package ledger

import (
	"fmt"
	"strconv"
	"time"

	"oxyd/internal/event"
)

// noticeKept tells of a message that has come into quarantine and was not there.
// Its subject is one of few, so that a flood of messages is a flood of none: by
// reason, and of conflicts the tank, where the account has it.
func (b *batch) noticeKept(first bool, k *Kept, d *Delivery) error {
	if !first {
		return nil
	}
	n := Notice{Kind: KindQuarantine, Subject: string(k.Reason),
		Text: fmt.Sprintf("A message on %s was refused as %s and is kept in quarantine.", strange(k.Topic), k.Reason),
		Detail: map[string]string{"id": k.ID, "reason": string(k.Reason), "topic": cut(k.Topic, 128),
			"source": cut(k.Source, 128), "event_id": cut(k.EventID, 128)}}
	switch k.Reason {
	case event.Limit:
		n.Kind, n.Subject = KindLimit, "account"
		n.Text = fmt.Sprintf("A bound of the account is reached: an event of tank %s from %s was refused.", d.Event.Tank, strange(k.Source))
	case event.Conflict:
		n.Kind, n.Subject = KindConflict, ""
		if a, err := b.account(d.Event.Tank); err != nil {
			return err
		} else if a != nil {
			n.Subject = d.Event.Tank
		}
		n.Text = fmt.Sprintf("Event %s of tank %s came again with other content: what came first stays, the tank is suspect until a newer measurement.",
			strange(k.EventID), d.Event.Tank)
	}
	return b.notify(&n)
}

// noticeEvicted tells that the quarantine's bound gave up a message.
func (b *batch) noticeEvicted(k *Kept) error {
	return b.notify(&Notice{Kind: KindEviction, Subject: "quarantine",
		Text:   "The quarantine is full: its oldest messages are given up.",
		Detail: map[string]string{"id": k.ID, "reason": string(k.Reason), "first": k.First.Format(time.RFC3339Nano)}})
}

// noticeReplaced tells, once, that the account was begun anew.
func (b *batch) noticeReplaced(replacement bool) error {
	if !replacement || b.meta.replacement {
		return nil
	}
	return b.notify(&Notice{Kind: KindStore, Subject: "account",
		Text: "The account was damaged: it was set aside and begun anew, and its tanks are unknown until they are measured."})
}

// strange quotes what a stranger wrote, for a text that may reach a telephone: no
// control character, at most some 100 bytes.
func strange(text string) string { return strconv.Quote(cut(text, 96)) }

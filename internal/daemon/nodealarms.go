package daemon

import (
	"time"

	"oxyd/internal/outbox"
)

// outboxAlarms raises and ends the alarms of the node that come of its outbox.
// They are made of figures in memory, so that a full disk does not hide them.
func (b *board) outboxAlarms(s *outbox.Stats) {
	severity, text, since := warning, "", s.CrowdedSince
	switch {
	case s.CrowdedSince.IsZero() && s.LackingSince.IsZero():
	case s.CrowdedSince.IsZero():
		since = s.LackingSince
		text = "the outbox is at its bound: events are given up that the broker has taken and the ledger has not confirmed"
	case s.Full:
		severity, text = critical, "the outbox is full: readings and entries are refused until the broker takes some"
	default:
		text = "the outbox is at its bound: readings are thinned out and deltas summed up until the broker takes some"
	}
	b.raise(&b.nodeAlarms, "outbox_full", severity, text)
	b.nodeAlarms.began("outbox_full", since)

	text = ""
	if !s.DiskFullSince.IsZero() {
		text = "the disk of the data directory is full: nothing new can be kept"
	}
	b.raise(&b.nodeAlarms, "storage_full", critical, text)
	b.nodeAlarms.began("storage_full", s.DiskFullSince)
}

// began says since when an alarm really stands.
func (a *alarmBoard) began(kind string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if alarm, stands := a.on[kind]; stands {
		alarm.Since = since
		a.on[kind] = alarm
	}
}

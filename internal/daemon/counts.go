package daemon

import (
	"strings"

	"oxyd/internal/outbox"
	"oxyd/internal/web"
)

// count is one figure of a station: its name below the station's prefix, and what
// it means.
type count struct {
	name, help string
	value      float64
}

// counters makes metrics of figures. A name that ends in _total is a counter, every
// other one a gauge.
func counters(prefix string, counts []count) []web.Metric {
	list := make([]web.Metric, 0, len(counts))
	for _, c := range counts {
		kind := "gauge"
		if strings.HasSuffix(c.name, "_total") {
			kind = "counter"
		}
		list = append(list, web.Metric{Name: prefix + c.name, Help: c.help, Type: kind, Value: c.value})
	}
	return list
}

func (b *board) publisherCounts() []count {
	c := b.publisher.Counts()
	connected := 0.0
	if b.publisher.Status().Connected {
		connected = 1
	}
	return []count{
		{"connected", "1 while the publisher's connection stands.", connected},
		{"published_total", "Rows handed to the broker, repeats included.", float64(c.Published)},
		{"resent_total", "Of these, rows that had been sent before.", float64(c.Resent)},
		{"confirmed_total", "Rows that the broker acknowledged.", float64(c.Confirmed)},
		{"ack_timeouts_total", "Connections ended because no PUBACK came.", float64(c.AckTimeouts)},
		{"queue_errors_total", "Connections ended because the outbox failed.", float64(c.QueueErrors)},
		{"retained_refused_total", "Retained values beyond the table's bound.", float64(c.RetainedRefused)},
		{"telemetry_dropped_total", "Telemetry messages not sent (at most once).", float64(c.TelemetryDropped)},
		{"follow_refused_total", "Documents of ledgers or nodes passed over at a bound.", float64(c.FollowRefused)},
		{"follow_faults_total", "Connections on which the broker refused to show them.", float64(c.FollowFaults)},
		{"retained_undelivered", "Retained values that this connection's broker has not acknowledged.", float64(c.RetainedUndelivered)},
		{"in_flight", "Messages sent and not acknowledged.", float64(c.InFlight)},
	}
}

func (b *board) brokerCounts() []count {
	return []count{{"restarts_total", "New starts because it no longer served its own node.", float64(b.brokerRestarts.Load())}}
}

func (b *board) subscriberCounts() []count {
	c := b.subscriber.Counts()
	subscribed := 0.0
	if b.subscriber.Status().Subscribed {
		subscribed = 1
	}
	return []count{
		{"subscribed", "1 while the subscription stands.", subscribed},
		{"received_total", "Messages put into the mailbox.", float64(c.Received)},
		{"mailbox_overflows_total", "Connections ended at the mailbox's bound.", float64(c.MailboxOverflows)},
		{"sessions_lost_total", "Connects to a broker that had forgotten the session.", float64(c.SessionsLost)},
		{"refused_total", "Subscriptions that the broker refused.", float64(c.Refused)},
		{"handler_errors_total", "Connections ended because a batch could not be applied.", float64(c.HandlerErrors)},
		{"mailbox_bytes", "Bytes that wait in the mailbox.", float64(c.WaitingBytes)},
	}
}

func outboxCounts(s *outbox.Stats) []count {
	full := 0.0
	if s.Full {
		full = 1
	}
	return []count{
		{"pending", "Events without a PUBACK.", float64(s.Pending)},
		{"pending_oldest_age_seconds", "Age of the oldest of them.", s.OldestAge.Seconds()},
		{"retained", "Events kept after their PUBACK.", float64(s.Retained)},
		{"staged", "Snapshots in memory until the next commit.", float64(s.Staged)},
		{"full", "1 while an append was refused for want of room.", full},
		{"file_bytes", "Size of the file.", float64(s.FileBytes)},
		{"appended_total", "Events that got a number.", float64(s.Appended)},
		{"repeated_total", "Entries that were known under their id.", float64(s.Repeated)},
		{"refused_total", "Readings and entries not taken.", float64(s.Refused)},
		{"snapshots_dropped_total", "Unsent snapshots that a newer one replaced.", float64(s.SnapshotsDropped)},
		{"merged_total", "Unsent deltas summed up in the next one for want of room.", float64(s.Merged)},
		{"evicted_total", "Kept events given up early for want of room.", float64(s.Evicted)},
		{"damaged_total", "Rows set aside as damaged.", float64(s.Damaged)},
		{"evicted_unconfirmed_total", "Of the kept events given up early, those that not all ledgers of confirm_by had confirmed.", float64(s.EvictedLacking)},
		{"wanted", "Numbers of events that online ledgers lack.", float64(wanted(s))},
		{"sent_again_total", "Kept events sent once more because a ledger lacks them.", float64(s.SentAgain)},
		{"skipped_total", "Numbers that a ledger lacks and that are gone, as it was told.", float64(s.NumbersSkipped)},
		{"epochs_left_total", "New epochs because a ledger saw the old one in other hands.", float64(s.EpochsLeft)},
		{"confirms_refused_total", "Confirmations of ledgers that were not taken.", float64(s.ConfirmsRefused)},
	}
}

package daemon

import (
	"time"

	"oxyd/internal/config"
	"oxyd/internal/webhook"
	"oxyd/ledger"
)

// notifies names the kinds of notices that the ledger keeps. Of two ledgers the
// publishing one tells, so that one event is not two pages.
func notifies(cfg *config.Config) []string {
	l := cfg.Ledger
	if l == nil || l.Webhook == nil || !l.Publish {
		return nil
	}
	return l.Webhook.Events
}

// webhook makes what delivers them.
func (b *board) webhook() *webhook.Webhook {
	c := b.cfg.Ledger.Webhook
	return webhook.New(b.ledger, webhook.Options{URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CAFile, Timeout: time.Duration(c.Timeout),
		Site: b.cfg.Site, Ledger: b.cfg.Ledger.ID, Version: b.version, Fatal: storeFailed,
		Log: b.log.With().Str("part", "webhook").Logger()})
}

// tellAlarm keeps an alarm's coming or going for whoever is to be told.
func (b *board) tellAlarm(kind, severity, text string) {
	if b.ledger == nil {
		return
	}
	state := "raised"
	if text == "" {
		state, text = "ended", "Alarm "+kind+" has ended."
	}
	if err := b.ledger.Notify(ledger.Notice{Kind: ledger.KindAlarm, Subject: kind, Text: text,
		Detail: map[string]string{"alarm": kind, "severity": severity, "state": state}}); err != nil {
		b.log.Error().Err(err).Str("alarm", kind).Msg("alarm not kept for the webhook")
	}
}

func outCounts(c *ledger.OutCounts) []count {
	return []count{
		{"waiting", "Notifications that their receiver has not taken yet.", float64(c.Waiting)},
		{"notices_total", "What was to be told; many may be one notification.", float64(c.Notices)},
		{"attempts_total", "Deliveries that were tried and journalled.", float64(c.Attempts)},
		{"delivered_total", "Notifications that their receiver has taken.", float64(c.Delivered)},
		{"refused_total", "Notifications that their receiver will never take.", float64(c.Refused)},
		{"dropped_total", "Notifications given up at the bound on those that wait.", float64(c.Dropped)},
	}
}

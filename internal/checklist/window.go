package checklist

import (
	"time"

	"oxyd/internal/config"
	"oxyd/ledger"
)

// window: everything that can bring an event back does so before it is forgotten
// (R5).
func (f *findings) window() Answer {
	a := answer(Window)
	if f.cfg.Ledger == nil {
		a.shows("this node keeps no account: it announces outbox.retention %s as its redelivery in its status, and a ledger has to cover it", f.cfg.Outbox.Retention)
		return *a
	}
	dedup := time.Duration(f.cfg.Ledger.DedupWindow)
	redelivery := time.Duration(f.cfg.Ledger.RedeliveryWindow)
	covers := func(d time.Duration, what string) {
		say := config.Duration(d).String()
		switch {
		case d > dedup:
			a.fails("dedup_window %s is shorter than %s %s: an event can come back after it was forgotten", config.Duration(dedup), what, say)
		case d > redelivery:
			a.warns("dedup_window %s covers %s %s, but redelivery_window says %s at most", config.Duration(dedup), what, say, config.Duration(redelivery))
		default:
			a.shows("dedup_window %s covers %s %s", config.Duration(dedup), what, say)
		}
	}
	covers(redelivery, "redelivery_window")
	covers(time.Duration(f.cfg.Outbox.Retention), "this node's outbox.retention")
	if f.cfg.UsesEmbeddedBroker() {
		covers(f.session, "the embedded broker's session expiry")
	} else {
		a.warns("the broker at %s is not this program's: its session and message expiry must not exceed %s, which cannot be asked for", f.cfg.MQTT.Broker, config.Duration(dedup))
	}
	f.announced(a, covers)
	f.kept(a)
	return *a
}

// announced compares the running daemon's own figures and what nodes have told it.
func (f *findings) announced(a *Answer, covers func(time.Duration, string)) {
	s := f.status
	if s == nil {
		a.shows("no daemon was asked what nodes announce: %s", f.whyNoDaemon())
		return
	}
	if d, ok := duration(s.DedupWindow); ok && d != time.Duration(f.cfg.Ledger.DedupWindow) {
		a.fails("the running daemon has dedup_window %s, the config %s: it must be started anew", s.DedupWindow, f.cfg.Ledger.DedupWindow)
	}
	for _, n := range s.Announced {
		d, ok := duration(n.Redelivery)
		if !ok {
			a.warns("node %s announces a redelivery of %q, which is no time", n.Node, n.Redelivery)
			continue
		}
		covers(d, "the redelivery that node "+n.Node+" announces,")
	}
}

func (f *findings) whyNoDaemon() string {
	if f.statusErr != nil {
		return f.statusErr.Error()
	}
	return "none runs"
}

// kept tells what the account still recognises.
func (f *findings) kept(a *Answer) {
	i := f.account
	if i == nil || i.Fault != "" {
		return
	}
	if i.Oldest != nil {
		a.shows("account: recognises %d events, the oldest since %s", i.Marks, i.Oldest.Format(time.RFC3339))
	}
	dedup := f.cfg.Ledger.DedupWindow
	switch {
	case i.Floor == nil:
		a.shows("account: no mark was dropped so far")
	case time.Since(*i.Floor) < time.Duration(dedup):
		a.fails("account: marks were dropped up to %s, which is within dedup_window %s", i.Floor.Format(time.RFC3339), dedup)
	default:
		a.shows("account: %d marks were dropped, all of events before %s, which would be refused", i.Pruned, i.Floor.Format(time.RFC3339))
	}
	if n := i.Outcomes[ledger.Quarantined]; n > 0 {
		a.shows("account: %d deliveries were quarantined; those older than the window are among them, never applied on faith", n)
	}
	a.shows("numbered events are recognised for ever, by their stream's exact set of numbers")
}

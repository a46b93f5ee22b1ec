package checklist

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/ledger"
)

// ackAfter: the library must not acknowledge, the session must be kept, and in the
// moment of the acknowledgement the effect must be on disk.
func (f *findings) ackAfter() Answer {
	a := answer(AckAfter)
	switch s := &f.subscriber; {
	case f.cfg.Ledger == nil:
		a.shows("this node keeps no account and acknowledges nothing: a ledger elsewhere does")
	case f.termsErr != nil:
		a.fails("the options of the MQTT client cannot be made: %v", f.termsErr)
	default:
		a.expects(!s.AutoAck, fmt.Sprintf("client %s: the library's automatic acknowledgement is off", s.ClientID),
			fmt.Sprintf("client %s: the library acknowledges by itself, before anything is stored", s.ClientID))
		a.expects(!s.CleanSession, fmt.Sprintf("client %s: persistent session, so that what is not acknowledged comes again", s.ClientID),
			fmt.Sprintf("client %s: clean session, so that the broker forgets what was not acknowledged", s.ClientID))
	}
	if f.tried(a) {
		t := &f.trial
		a.expects(t.seen, "trial: when the acknowledgement came, a reader saw the event in committed state",
			"trial: the acknowledgement came while the event was not in committed state")
		a.expects(t.reopened != nil && *t.reopened == ledger.SumOf(left),
			fmt.Sprintf("trial: a copy of the file from that moment, as a kill would leave it, opens with %s", amount(t.reopened)),
			fmt.Sprintf("trial: a copy of the file from that moment, as a kill would leave it, shows %s instead of %s (%s)", amount(t.reopened), grams(left), t.atAck.Fault))
		a.expects(t.synced, "both stores sync every commit", "a store does not sync its commits")
	}
	if f.elsewhere != nil {
		a.warns("the trial ran in %s and not in data_dir: %v", f.scratch, f.elsewhere)
	}
	for _, d := range f.medium.doubts {
		a.warns("%s", d)
	}
	if len(f.medium.doubts) == 0 {
		a.shows("data_dir is on %s at %s", f.medium.kind, f.medium.mount)
	}
	return *a
}

// tried says why there was no trial; without it nothing is shown to hold.
func (f *findings) tried(a *Answer) bool {
	if f.trialErr != nil {
		a.fails("the trial did not come to its end: %v", f.trialErr)
	}
	return f.trialErr == nil
}

// stableKey: the node's ids are made of numbers on disk, and its name stays.
func (f *findings) stableKey() Answer {
	a := answer(StableKey)
	if f.tried(a) {
		t := &f.trial
		a.expects(t.ownForm, "trial: the outbox names an event "+t.id+": source/epoch/tank/number",
			fmt.Sprintf("trial: the outbox names an event %q, which is not source/epoch/tank/number of %q", t.id, f.cfg.Node))
		a.expects(t.sameBytes, "trial: the outbox of a killed process hands over the same bytes again",
			"trial: the outbox of a killed process hands over other bytes")
	}
	f.nodeName(a)
	f.keysHeard(a)
	return *a
}

// nodeName looks whether the source's name has been another one.
func (f *findings) nodeName(a *Answer) {
	node := f.cfg.Node
	if !event.ValidName(node) {
		a.fails("node %q is no legal name", node)
	}
	for _, name := range f.formerNames() {
		if f.cfg.NodeByDefault {
			a.fails("the default node name was %s and is %s now: set node, so that the source's name stays", name, node)
		} else {
			a.warns("the outbox holds events of %s, which was this node's name before; they keep it", name)
		}
	}
	if !f.cfg.NodeByDefault {
		a.shows("source %s stands in the config", node)
		return
	}
	a.shows("source %s is made of the host name and the machine id", node)
	for _, w := range f.cfg.Warnings {
		if w.Key == "node" {
			a.warns("node %s", w.Message)
		}
	}
}

// formerNames are the other sources in the node's own outbox, and those that the
// account has heard under the same machine id.
func (f *findings) formerNames() []string {
	names := map[string]bool{}
	if f.queue != nil {
		for name := range f.queue.Sources {
			names[name] = true
		}
	}
	host, machine, ok := cutLast(f.cfg.Node, "-")
	if f.account != nil && f.cfg.NodeByDefault && ok && len(machine) == 6 && strings.Trim(machine, "0123456789abcdef") == "" {
		for _, name := range f.account.Sources {
			if before, its, ok := cutLast(name, "-"); ok && its == machine && before != host {
				names[name] = true
			}
		}
	}
	delete(names, f.cfg.Node)
	return slices.Sorted(maps.Keys(names))
}

func cutLast(text, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// keysHeard tells what the account has met of keys that others made.
func (f *findings) keysHeard(a *Answer) {
	switch i := f.account; {
	case i == nil:
		a.shows("account: not looked through: %s", f.accountWhy)
	case i.Fault == "":
		a.shows("account: %d of %d accepted events named no source: their ids share one space", i.Anonymous, accepted(i.Outcomes))
		if i.NoID > 0 {
			a.warns("account: %d messages came without an event_id: quarantined, never guessed (oxyd quarantine list)", i.NoID)
		} else {
			a.shows("account: no message in quarantine lacks its event_id")
		}
		if n := i.Outcomes[ledger.Conflict]; n > 0 {
			a.warns("account: %d times an id or number came with other content: its producer does not keep its keys (oxyd quarantine list)", n)
		}
	}
}

func accepted(outcomes map[ledger.Outcome]uint64) (n uint64) {
	for o, count := range outcomes {
		if o.Accepted() {
			n += count
		}
	}
	return n
}

// atomic: one transaction, in the trial and in everything that the account holds.
func (f *findings) atomic() Answer {
	a := answer(Atomic)
	if f.tried(a) {
		t := &f.trial
		a.expects(t.before.Fault == "" && t.before.Marks == 0 && t.before.Moves == 0 && t.atAck.Fault == "" && t.atAck.Marks == 1 && t.atAck.Moves == 1,
			"trial: the file has neither mark nor effect before the commit, and both after it",
			fmt.Sprintf("trial: the file has %d marks and %d effects before the first event, %d and %d when it is acknowledged (%s%s)",
				t.before.Marks, t.before.Moves, t.atAck.Marks, t.atAck.Moves, t.before.Fault, t.atAck.Fault))
	}
	switch i := f.account; {
	case i == nil:
		a.shows("account: not looked through: %s", f.accountWhy)
	case i.Fault != "":
		a.fails("account: %s", i.Fault)
	default:
		a.shows("account: %d journal rows, %d marks and %d effects agree, each way", i.Rows, i.Marks, i.Moves)
		if i.Folded {
			a.shows("account: every balance, total and watermark is what the journal gives when it is folded anew")
		} else {
			a.shows("account: balances were not folded anew, as the file has %d MiB: oxyd backup FILE does", i.Bytes>>20)
		}
	}
	if i := f.queue; i != nil && i.Fault != "" {
		a.fails("outbox: %s", i.Fault)
	} else if i != nil && i.DamagedRows > 0 {
		a.warns("outbox: at least %d rows are damaged; they are set aside when their turn comes", i.DamagedRows)
	} else if i != nil {
		a.shows("outbox: number, id and bytes of %d waiting and %d kept events agree", i.Pending, i.Kept)
	}
	return *a
}

// atLeastOnce: nothing asks a transport for more than it can give, and a redelivery
// is harmless.
func (f *findings) atLeastOnce() Answer {
	a := answer(AtLeastOne)
	if f.termsErr != nil {
		a.fails("the options of the MQTT clients cannot be made: %v", f.termsErr)
	} else {
		f.termsQoS(a, "publishes", f.publisher.QoS)
		if f.cfg.Ledger != nil {
			f.termsQoS(a, "subscribes", f.subscriber.QoS)
		}
	}
	keys, promises := settings(reflect.TypeFor[config.Config]())
	a.expects(len(promises) == 0, fmt.Sprintf("none of the config's %d keys sets a quality of service or promises exactly-once", keys),
		"the config can ask for what no transport gives: "+strings.Join(promises, ", "))
	if f.tried(a) {
		t := &f.trial
		a.expects(t.counted != nil && *t.counted == ledger.SumOf(left) && slices.Equal(t.delta, []string{"applied", "duplicate"}),
			fmt.Sprintf("trial: %s, a delta of %s delivered twice: %s, balance %s", grams(full), grams(taken), strings.Join(t.delta, ", "), amount(t.counted)),
			fmt.Sprintf("trial: %s, a delta of %s delivered twice: %s, balance %s instead of %s", grams(full), grams(taken), strings.Join(t.delta, ", "), amount(t.counted), grams(left)))
	}
	a.shows("measured, consumed, refilled, reversed, skipped: at least once, and a consumer for which a repeat does nothing")
	a.shows("balance, alarm, availability, status, confirm: at least once, retained, set to; published again from committed state")
	a.shows("telemetry: at most once; it enters no balance")
	return *a
}

func (f *findings) termsQoS(a *Answer, verb string, qos byte) {
	a.expects(qos == 1, fmt.Sprintf("this node %s events with QoS 1: at least once", verb),
		fmt.Sprintf("this node %s events with QoS %d instead of 1", verb, qos))
}

// settings counts the keys of a part of the config's schema, and names those by
// which somebody could choose another delivery than at least once.
func settings(t reflect.Type) (keys int, promises []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return 0, nil
	}
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		keys++
		for _, word := range []string{"qos", "exactly", "once", "clean", "auto_ack"} {
			if strings.Contains(key, word) {
				promises = append(promises, key)
			}
		}
		n, more := settings(t.Field(i).Type)
		keys, promises = keys+n, append(promises, more...)
	}
	return keys, promises
}

func grams(m physic.Mass) string { return ledger.SumOf(m).String() }

func amount(s *ledger.Sum) string {
	if s == nil {
		return "no balance"
	}
	return s.String()
}

// duration reads what documents say, such as 72h.
func duration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

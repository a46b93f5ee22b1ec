package mqtt

import "strings"

// The leaves of a tank's topics.
const (
	LeafMeasured     = "measured"
	LeafConsumed     = "consumed"
	LeafRefilled     = "refilled"
	LeafReversed     = "reversed"
	LeafSkipped      = "skipped"
	LeafBalance      = "balance"
	LeafAlarm        = "alarm"
	LeafAvailability = "availability"
)

// maxTopicBytes is the bound of MQTT 1.5.3 on a UTF-8 string.
const maxTopicBytes = 65535

// Topics makes and reads the topic names of one site. Both fields consist of
// valid levels; Prefix may have several, as in "habitat/oxyd".
type Topics struct {
	Prefix string
	Site   string
}

// Tank returns the topic of one leaf of a tank.
func (t Topics) Tank(tank, leaf string) string { return t.under("tank", tank, leaf) }

// NodeStatus returns the retained presence topic of a node.
func (t Topics) NodeStatus(node string) string { return t.under("node", node, "status") }

// Telemetry returns the topic of one cheap value of a node.
func (t Topics) Telemetry(node, name string) string { return t.under("node", node, "telemetry", name) }

// LedgerStatus returns the retained presence topic of a ledger.
func (t Topics) LedgerStatus(ledger string) string { return t.under("ledger", ledger, "status") }

// Confirm returns the topic on which a ledger confirms one source's events.
func (t Topics) Confirm(ledger, source string) string {
	return t.under("ledger", ledger, "confirm", source)
}

// EventFilters returns the filters that together match every event of the site,
// and nothing that a ledger publishes itself.
func (t Topics) EventFilters() []string {
	leaves := []string{LeafMeasured, LeafConsumed, LeafRefilled, LeafReversed, LeafSkipped}
	filters := make([]string, len(leaves))
	for i, leaf := range leaves {
		filters[i] = t.Tank("+", leaf)
	}
	return filters
}

// ParseTank takes a tank's topic apart. It reports false for a topic of another
// site or shape; the leaf may be any.
func (t Topics) ParseTank(topic string) (tank, leaf string, ok bool) {
	rest, ok := strings.CutPrefix(topic, t.under("tank")+"/")
	if !ok {
		return "", "", false
	}
	tank, leaf, ok = strings.Cut(rest, "/")
	if !ok || tank == "" || leaf == "" || strings.Contains(leaf, "/") {
		return "", "", false
	}
	return tank, leaf, true
}

// ParseStatus takes the topic of a node's or a ledger's status, or of one of its
// confirmations, apart: whose it is and, of a confirmation, for which source. It
// reports false for any other topic.
func (t Topics) ParseStatus(topic string) (of StatusTopic, ok bool) {
	rest, ok := strings.CutPrefix(topic, t.Prefix+"/"+t.Site+"/")
	if !ok {
		return StatusTopic{}, false
	}
	levels := strings.Split(rest, "/")
	switch {
	case len(levels) == 3 && levels[0] == "node" && levels[2] == "status":
		return StatusTopic{Node: levels[1]}, true
	case len(levels) == 3 && levels[0] == "ledger" && levels[2] == "status":
		return StatusTopic{Ledger: levels[1]}, true
	case len(levels) == 4 && levels[0] == "ledger" && levels[2] == "confirm":
		return StatusTopic{Ledger: levels[1], Confirms: levels[3]}, true
	}
	return StatusTopic{}, false
}

// StatusTopic says of whom a followed topic is: of a node, of a ledger, or of a
// ledger about the source that it confirms.
type StatusTopic struct{ Node, Ledger, Confirms string }

func (t Topics) under(levels ...string) string {
	return t.Prefix + "/" + t.Site + "/" + strings.Join(levels, "/")
}

// ValidLevel says whether s can stand between two slashes of a topic name.
func ValidLevel(s string) bool {
	return ValidTopic(s) && !strings.Contains(s, "/")
}

// ValidTopic says whether s can be published to (MQTT 4.7): not empty, not too
// long, without wildcards and control characters.
func ValidTopic(s string) bool {
	return validText(s) && !strings.ContainsAny(s, "+#")
}

// ValidFilter says whether s can be subscribed to (MQTT 4.7.1): wildcards stand
// alone in their level, and # only in the last one.
func ValidFilter(s string) bool {
	if !validText(s) {
		return false
	}
	levels := strings.Split(s, "/")
	for i, level := range levels {
		switch {
		case level == "#" && i != len(levels)-1:
			return false
		case level != "#" && level != "+" && strings.ContainsAny(level, "+#"):
			return false
		}
	}
	return true
}

func validText(s string) bool {
	if s == "" || len(s) > maxTopicBytes || strings.ToValidUTF8(s, "") != s {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

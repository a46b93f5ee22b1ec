package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"oxyd/internal/event"
)

// Bounds of values, repeated in the doc comments of their fields.
const (
	MaxNameRunes   = 64 // names shown to people
	MaxPrefixBytes = 128
	MaxWindow      = Duration(87600 * time.Hour) // ten years
	MaxStaleAfter  = Duration(168 * time.Hour)
	MaxLimit       = 1 << 16 // ledger.max_tanks and the like
)

// validate reports every value that is out of its bounds or contradicts
// another. A key that already has a fault is not compared with others, so that
// one slip gives one line.
func (r *reader) validate(c *Config) {
	r.validateNode(c)
	r.validateTanks(c)
	r.validateSensors(c)
	r.validateTelemetry(c)
	r.validateMQTT(c)
	if c.Broker != nil {
		r.validateBroker(c)
	}
	if c.Ledger != nil {
		r.validateLedger(c)
	}
	r.validateOutbox(c)
	if c.Web != nil {
		r.validateWeb(c)
	}
	r.oneOf("log.level", c.Log.Level, "trace", "debug", "info", "warn", "error")
	r.oneOf("log.format", c.Log.Format, LogAuto, LogText, LogJSON)
}

// maxSocketPath is what sockaddr_un holds on Linux, without the closing zero.
const maxSocketPath = 107

func (r *reader) validateNode(c *Config) {
	r.name("site", c.Site)
	r.name("node", c.Node)
	r.notEmpty("data_dir", c.DataDir)
	if n := len(filepath.Clean(c.DataDir)) + len("/oxyd.sock"); n > maxSocketPath {
		r.fault("data_dir", nil, "is too long: the control socket's path would have %d bytes, and Unix sockets take %d", n, maxSocketPath)
	}
	if r.stands("check_timeout") {
		within(r, "check_timeout", c.CheckTimeout, Duration(time.Second), Duration(24*time.Hour))
	}
	r.oneOf("tanks_mode", c.TanksMode, TanksOpen, TanksClosed)
	levels := strings.Split(c.TopicPrefix, "/")
	if slices.Contains(levels, "") || len(c.TopicPrefix) > MaxPrefixBytes || c.TopicPrefix[0] == '$' || !plainTopic(c.TopicPrefix) {
		r.fault("topic_prefix", nil, "must be topic levels such as oxyd or base/oxyd: no empty level, "+
			"no space, +, #, control character or leading $, at most %d bytes", MaxPrefixBytes)
	}
	if len(c.Roles()) == 0 {
		r.fault("", []string{"sensors", "ledger", "broker", "web"},
			"no role is on: one of the sections sensors, ledger, broker and web must stand")
	}
}

func plainTopic(topic string) bool {
	return !strings.ContainsFunc(topic, func(c rune) bool {
		return c == '+' || c == '#' || unicode.IsSpace(c) || !unicode.IsPrint(c)
	})
}

func (r *reader) validateTanks(c *Config) {
	if c.TanksMode == TanksClosed && len(c.Tanks) == 0 {
		r.fault("tanks_mode", []string{"tanks"}, "is closed and no tank is listed: every event would be quarantined")
	}
	first := make(map[string]int)
	for i := range c.Tanks {
		t, path := &c.Tanks[i], index("tanks", i)
		r.name(path+".id", t.ID)
		r.displayName(path+".name", t.Name)
		if j, twice := first[t.ID]; twice {
			r.fault(path+".id", nil, "%q is already the id of %s in line %d", t.ID, index("tanks", j), r.placeOf(index("tanks", j)+".id").line)
		} else {
			first[t.ID] = i
		}
		r.validateLevels(t, path)
	}
}

func (r *reader) validateLevels(t *Tank, path string) {
	capacity, initial, low, critical := path+".capacity", path+".initial", path+".low", path+".critical"
	if !r.stands(capacity) {
		for _, level := range []string{low, critical} {
			if r.stands(level) {
				r.fault(level, []string{capacity}, "is a percentage of a capacity that is not given: add capacity")
			}
		}
		return
	}
	if t.Capacity == 0 {
		r.fault(capacity, nil, "must be more than 0 g: leave it out if it is not known")
	}
	if t.Initial != nil && *t.Initial > t.Capacity {
		r.fault(initial, []string{capacity}, "%v is more than the capacity %v", *t.Initial, t.Capacity)
	}
	atMost(r, low, t.Low, 100_0000)
	atMost(r, critical, t.Critical, 100_0000)
	r.suspicious(low, t.Low)
	r.suspicious(critical, t.Critical)
	if t.Critical >= t.Low && t.Critical > 0 {
		at := critical
		if !r.stands(at) {
			at = low
		}
		r.fault(at, []string{low, critical, capacity}, "critical %v%s is not below low %v%s",
			t.Critical, r.byDefault(critical), t.Low, r.byDefault(low))
	}
}

// byDefault marks a value in a message that the file does not hold.
func (r *reader) byDefault(path string) string {
	if r.stands(path) {
		return ""
	}
	return " (the default)"
}

func (r *reader) validateMQTT(c *Config) {
	m := &c.MQTT
	if r.stands("mqtt.broker") {
		if _, err := brokerURL(m.Broker); err != nil {
			r.fault("mqtt.broker", nil, "%v", err)
		}
	}
	for _, f := range []struct{ key, value string }{{"ca_file", m.CAFile}, {"cert_file", m.CertFile}, {"key_file", m.KeyFile}} {
		if path := "mqtt." + f.key; r.stands(path) {
			r.notEmpty(path, f.value)
			if !strings.HasPrefix(m.Broker, "ssl://") {
				r.fault(path, []string{"mqtt.broker"}, "has no effect over %s: use ssl://", shorten(m.Broker))
			}
		}
	}
	r.both("mqtt.cert_file", "mqtt.key_file")
	if r.stands("mqtt.password_file") && !r.stands("mqtt.username") {
		r.fault("mqtt.password_file", []string{"mqtt.username"}, "stands without username: MQTT knows no password without one")
	}
	r.credentials("mqtt", m.Username, m.PasswordFile)
	within(r, "mqtt.keepalive", m.KeepAlive, Duration(5*time.Second), Duration(time.Hour))
	if time.Duration(m.KeepAlive)%time.Second != 0 {
		r.fault("mqtt.keepalive", nil, "%v is not whole seconds, which MQTT counts in", m.KeepAlive)
	}
	if c.Broker != nil && !c.UsesEmbeddedBroker() && !r.unclear("mqtt.broker") && !r.unclear("broker.listen") {
		r.warn("mqtt.broker", "is %s: edge and ledger of this process use that one, not the embedded broker on %s", m.Broker, c.Broker.Listen)
	}
	if c.UsesEmbeddedBroker() && c.Broker.Username != "" && m.Username != c.Broker.Username {
		r.fault("mqtt.username", []string{"broker.username"}, "%q is not broker.username %q, and that broker is the one in use",
			shorten(m.Username), shorten(c.Broker.Username))
	}
	if c.UsesEmbeddedBroker() && c.Broker.PasswordFile != "" && m.PasswordFile != c.Broker.PasswordFile {
		r.warn("mqtt.password_file", "is not broker.password_file, and that broker is the one in use: the two must hold one password")
	}
}

func (r *reader) validateBroker(c *Config) {
	b := c.Broker
	loopback := r.listen("broker.listen", b.Listen)
	within(r, "broker.max_bytes", b.MaxBytes, 16<<20, 1<<40)
	within(r, "broker.ack_wait", b.AckWait, Duration(time.Second), Duration(5*time.Minute))
	within(r, "broker.max_ack_pending", b.MaxAckPending, 1, 10000)
	r.both("broker.username", "broker.password_file")
	r.credentials("broker", b.Username, b.PasswordFile)
	if !loopback && b.Username == "" && !r.stands("broker.username") {
		r.warn("broker.listen", "%s is reachable from other machines and asks for no password: whoever reaches it can book oxygen", b.Listen)
	}
}

func (r *reader) validateLedger(c *Config) {
	l := c.Ledger
	r.name("ledger.id", l.ID)
	within(r, "ledger.redelivery_window", l.RedeliveryWindow, Duration(time.Second), MaxWindow)
	within(r, "ledger.dedup_window", l.DedupWindow, Duration(time.Second), MaxWindow)
	if l.RedeliveryWindow > l.DedupWindow {
		at := "ledger.dedup_window"
		if !r.stands(at) {
			at = "ledger.redelivery_window"
		}
		r.fault(at, []string{"ledger.dedup_window", "ledger.redelivery_window"},
			"dedup_window %v%s is shorter than redelivery_window %v%s: an event could come back after it was forgotten and count twice",
			l.DedupWindow, r.byDefault("ledger.dedup_window"), l.RedeliveryWindow, r.byDefault("ledger.redelivery_window"))
	}
	within(r, "ledger.history", l.History, Duration(time.Second), MaxWindow)
	if l.History < l.DedupWindow {
		r.fault("ledger.history", []string{"ledger.dedup_window"},
			"history %v%s is shorter than dedup_window %v%s: an event could come back after it was forgotten and count twice",
			l.History, r.byDefault("ledger.history"), l.DedupWindow, r.byDefault("ledger.dedup_window"))
	}
	within(r, "ledger.max_bytes", l.MaxBytes, 8<<20, storeBytes(64<<30))
	within(r, "ledger.quarantine_bytes", l.QuarantineBytes, 64<<10, storeBytes(64<<30))
	if l.QuarantineBytes > l.MaxBytes {
		r.fault("ledger.quarantine_bytes", []string{"ledger.max_bytes"}, "%v%s is more than the whole store, max_bytes %v%s",
			l.QuarantineBytes, r.byDefault("ledger.quarantine_bytes"), l.MaxBytes, r.byDefault("ledger.max_bytes"))
	}
	within(r, "ledger.max_tanks", l.MaxTanks, 1, MaxLimit)
	within(r, "ledger.max_sources", l.MaxSources, 1, MaxLimit)
	within(r, "ledger.max_sources_per_tank", l.MaxSourcesPerTank, 1, MaxLimit)
	within(r, "ledger.max_parked", l.MaxParked, 1, 1_000_000)
	within(r, "ledger.max_marks", l.MaxMarks, 1, 100_000_000)
	within(r, "ledger.stale_after", l.StaleAfter, Duration(time.Second), MaxStaleAfter)
	r.validateWebhook(l)
	if len(c.Tanks) > l.MaxTanks { // after the tanks: it would hide the faults inside
		r.fault("tanks", []string{"ledger.max_tanks"}, "lists %d tanks, more than ledger.max_tanks %d%s",
			len(c.Tanks), l.MaxTanks, r.byDefault("ledger.max_tanks"))
	}
}

func (r *reader) validateOutbox(c *Config) {
	o := &c.Outbox
	within(r, "outbox.max_bytes", o.MaxBytes, 2<<20, storeBytes(16<<30))
	within(r, "outbox.resend_after", o.ResendAfter, Duration(time.Second), Duration(time.Hour))
	within(r, "outbox.commit_interval", o.CommitInterval, Duration(100*time.Millisecond), Duration(time.Minute))
	atMost(r, "outbox.retention", o.Retention, MaxWindow)
	if c.Ledger != nil && o.Retention > c.Ledger.RedeliveryWindow {
		at := "outbox.retention"
		if !r.stands(at) {
			at = "ledger.redelivery_window"
		}
		r.fault(at, []string{"outbox.retention", "ledger.redelivery_window"},
			"outbox.retention %v%s is longer than ledger.redelivery_window %v%s: it can bring events back after the window",
			o.Retention, r.byDefault("outbox.retention"), c.Ledger.RedeliveryWindow, r.byDefault("ledger.redelivery_window"))
	}
	if len(o.ConfirmBy) > confirmByMax {
		r.fault("outbox.confirm_by", nil, "%d ledgers, at most %d", len(o.ConfirmBy), confirmByMax)
	}
	for i, id := range o.ConfirmBy {
		path := index("outbox.confirm_by", i)
		r.name(path, id)
		if slices.Contains(o.ConfirmBy[:i], id) {
			r.fault(path, nil, "%q stands twice", id)
		}
	}
}

// confirmByMax is the outbox's own bound.
const confirmByMax = 8

// storeBytes caps a store's bound on 32-bit boards, where bbolt maps the whole
// file into an address space of at most 3 GiB (field case FC-92).
func storeBytes(most int64) Size { return storeBytesOn(strconv.IntSize, most) }

// maxStoreBytes32 is the most that package boltfile lets a file grow to there.
const maxStoreBytes32 = 512 << 20

func storeBytesOn(bits int, most int64) Size {
	if bits == 32 {
		return Size(min(most, maxStoreBytes32))
	}
	return Size(most)
}

func (r *reader) validateWeb(c *Config) {
	if !r.listen("web.listen", c.Web.Listen) {
		r.warn("web.listen", "%s is reachable from other machines and has no log-in: put it behind a proxy or a tunnel", c.Web.Listen)
	}
	if c.Broker != nil && c.Web.Listen == c.Broker.Listen && !strings.HasSuffix(c.Web.Listen, ":0") {
		r.fault("web.listen", []string{"broker.listen"}, "%s is the address of broker.listen too", c.Web.Listen)
	}
}

// listen checks an address to listen on and reports whether only this machine
// can reach it.
func (r *reader) listen(path, address string) (loopback bool) {
	hostname, port, err := net.SplitHostPort(address)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		r.fault(path, nil, "%q is not an address such as 127.0.0.1:1883", shorten(address))
		return true
	}
	ip, err := netip.ParseAddr(hostname)
	return hostname == "localhost" || err == nil && ip.IsLoopback()
}

func (r *reader) name(path, value string) {
	if !event.ValidName(value) {
		r.fault(path, nil, "%q is not a name: 1 to %d of the characters A-Z a-z 0-9 . _ -, the first a letter or a digit",
			shorten(value), maxNameBytes)
	}
}

func (r *reader) displayName(path, value string) {
	if utf8.RuneCountInString(value) > MaxNameRunes || strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) }) {
		r.fault(path, nil, "must be at most %d printable characters", MaxNameRunes)
	}
}

func (r *reader) notEmpty(path, value string) {
	if value == "" {
		r.fault(path, nil, "must not be empty")
	}
}

// credentials checks a user name and the name of the file with the password,
// where they stand.
func (r *reader) credentials(section, username, passwordFile string) {
	if r.stands(section + ".username") {
		r.notEmpty(section+".username", username)
	}
	if r.stands(section + ".password_file") {
		r.notEmpty(section+".password_file", passwordFile)
	}
}

// both reports the one of two keys that stands without the other.
func (r *reader) both(a, b string) {
	_, aKey, _ := strings.Cut(a, ".")
	_, bKey, _ := strings.Cut(b, ".")
	switch {
	case r.stands(a) && !r.stands(b):
		r.fault(a, []string{b}, "stands without %s: both or neither", bKey)
	case r.stands(b) && !r.stands(a):
		r.fault(b, []string{a}, "stands without %s: both or neither", aKey)
	}
}

func (r *reader) oneOf(path, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	near, distance := nearest(value, allowed)
	if distance <= tolerance(value) {
		r.fault(path, nil, "%q is not one of %s; did you mean %q?", shorten(value), strings.Join(allowed, ", "), near)
		return
	}
	r.fault(path, nil, "%q is not one of %s", shorten(value), strings.Join(allowed, ", "))
}

// within reports a value outside its bounds, both included.
func within[T interface{ ~int | ~int64 }](r *reader, path string, value, least, most T) {
	if value < least || value > most {
		r.fault(path, nil, "%v is out of bounds: %v to %v", value, least, most)
	}
}

func atMost[T interface{ ~int | ~int64 }](r *reader, path string, value, most T) {
	if value > most {
		r.fault(path, nil, "%v is more than %v", value, most)
	}
}

package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Every default stands here; the doc comment of its field repeats it. Those
// that depend on other keys are filled in by complete, below.
const (
	DefaultSite        = "base"
	DefaultDataDir     = "data"
	DefaultTopicPrefix = "oxyd"
	DefaultTanksMode   = TanksOpen

	DefaultLow      = Percent(20_0000)
	DefaultCritical = Percent(10_0000)

	DefaultMQTTBroker = "tcp://127.0.0.1:1883"
	DefaultKeepAlive  = Duration(20 * time.Second)

	DefaultBrokerListen   = "127.0.0.1:1883"
	DefaultBrokerMaxBytes = Size(256 << 20)
	DefaultAckWait        = Duration(10 * time.Second)
	DefaultMaxAckPending  = 2000

	DefaultLedgerID          = "main"
	DefaultPublish           = true
	DefaultDedupWindow       = Duration(168 * time.Hour)
	DefaultHistory           = Duration(720 * time.Hour)
	DefaultRedeliveryWindow  = Duration(72 * time.Hour)
	DefaultQuarantineBytes   = Size(16 << 20)
	DefaultMaxTanks          = 256
	DefaultMaxSources        = 4096
	DefaultMaxSourcesPerTank = 16
	DefaultMaxParked         = 10_000
	DefaultMaxMarks          = 1_000_000
	DefaultLedgerStaleAfter  = Duration(15 * time.Minute)

	DefaultOutboxMaxBytes = Size(64 << 20)
	DefaultRetention      = Duration(72 * time.Hour)
	DefaultCommitInterval = Duration(5 * time.Second)
	DefaultResendAfter    = Duration(60 * time.Second)

	DefaultWebListen = "127.0.0.1:8686"

	DefaultLogLevel  = "info"
	DefaultLogFormat = LogAuto
)

// defaulter is a part of the schema that has defaults of its own. The reader
// sets them before it decodes what the file says.
type defaulter interface{ setDefaults() }

func (c *Config) setDefaults() {
	c.Site, c.DataDir, c.TopicPrefix = DefaultSite, DefaultDataDir, DefaultTopicPrefix
	c.TanksMode = DefaultTanksMode
	c.MQTT.KeepAlive = DefaultKeepAlive
	c.Telemetry.Interval = DefaultTelemetryInterval
	c.Outbox = Outbox{MaxBytes: DefaultOutboxMaxBytes, Retention: DefaultRetention, CommitInterval: DefaultCommitInterval,
		ResendAfter: DefaultResendAfter}
	c.Log = Log{Level: DefaultLogLevel, Format: DefaultLogFormat}
}

func (b *Broker) setDefaults() {
	*b = Broker{Listen: DefaultBrokerListen, MaxBytes: DefaultBrokerMaxBytes,
		AckWait: DefaultAckWait, MaxAckPending: DefaultMaxAckPending}
}

func (l *Ledger) setDefaults() {
	*l = Ledger{ID: DefaultLedgerID, Publish: DefaultPublish,
		DedupWindow: DefaultDedupWindow, History: DefaultHistory, RedeliveryWindow: DefaultRedeliveryWindow,
		MaxBytes: DefaultLedgerMaxBytes(), QuarantineBytes: DefaultQuarantineBytes,
		MaxTanks: DefaultMaxTanks, MaxSources: DefaultMaxSources, MaxSourcesPerTank: DefaultMaxSourcesPerTank,
		MaxParked: DefaultMaxParked, MaxMarks: DefaultMaxMarks, StaleAfter: DefaultLedgerStaleAfter}
}

func (w *Web) setDefaults() { w.Listen = DefaultWebListen }

// complete fills in the defaults that depend on other keys or on the host.
func (r *reader) complete(c *Config, h host) {
	if !r.stands("node") {
		c.Node, c.NodeByDefault = h.node(), true
		if h.machineID == "" {
			r.warn("node", "is %q, after the host name alone, as this machine has no id: "+
				"set it, for two boards of one name would be taken for one", c.Node)
		}
	}
	for i := range c.Tanks {
		r.completeTank(&c.Tanks[i], index("tanks", i))
	}
	for i := range c.Sensors {
		r.completeSensor(c, &c.Sensors[i], index("sensors", i))
	}
	r.completeMQTT(c)
	if l := c.Ledger; l != nil && !r.stands("ledger.history") {
		l.History = max(l.History, l.DedupWindow)
	}
}

func (r *reader) completeTank(t *Tank, path string) {
	if t.Name == "" {
		t.Name = t.ID
	}
	if !r.stands(path + ".capacity") {
		return
	}
	if !r.stands(path + ".low") {
		t.Low = DefaultLow
	}
	if !r.stands(path + ".critical") {
		t.Critical = DefaultCritical
	}
}

func (r *reader) completeMQTT(c *Config) {
	if r.stands("mqtt.broker") {
		if url, err := brokerURL(c.MQTT.Broker); err == nil {
			c.MQTT.Broker = url
		}
	} else {
		c.MQTT.Broker = DefaultMQTTBroker
		if c.Broker != nil {
			c.MQTT.Broker = "tcp://" + reachable(c.Broker.Listen)
		}
	}
	if c.UsesEmbeddedBroker() && !r.stands("mqtt.username") && !r.stands("mqtt.password_file") {
		c.MQTT.Username, c.MQTT.PasswordFile = c.Broker.Username, c.Broker.PasswordFile
	}
}

// reachable gives the address at which this machine reaches its own listener:
// a listener on every interface is reached on the loopback.
func reachable(listen string) string {
	hostname, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // refused by validate
	}
	switch hostname {
	case "", "0.0.0.0", "localhost":
		hostname = "127.0.0.1"
	case "::":
		hostname = "::1"
	}
	return net.JoinHostPort(hostname, port)
}

// UsesEmbeddedBroker reports whether edge and ledger of this process talk to
// the process's own broker. Where that listens on port 0, the address in
// MQTT.Broker is not yet the real one.
func (c *Config) UsesEmbeddedBroker() bool {
	return c.Broker != nil && reachable(strings.TrimPrefix(c.MQTT.Broker, "tcp://")) == reachable(c.Broker.Listen)
}

// Tank gives the listed tank of that id, or nil.
func (c *Config) Tank(id string) *Tank {
	if i := slices.IndexFunc(c.Tanks, func(t Tank) bool { return t.ID == id }); i >= 0 {
		return &c.Tanks[i]
	}
	return nil
}

// Roles names the roles that are on, in the order edge, ledger, broker, web.
func (c *Config) Roles() []string {
	var on []string
	for _, role := range []struct {
		name string
		on   bool
	}{{"edge", c.Sensors != nil}, {"ledger", c.Ledger != nil}, {"broker", c.Broker != nil}, {"web", c.Web != nil}} {
		if role.on {
			on = append(on, role.name)
		}
	}
	return on
}

// PublisherClientID is the MQTT client id of what this node publishes.
func (c *Config) PublisherClientID() string { return "oxyd-" + c.Site + "-" + c.Node + "-pub" }

// LedgerClientID is the MQTT client id of the ledger, "" where there is none.
func (c *Config) LedgerClientID() string {
	if c.Ledger == nil {
		return ""
	}
	return "oxyd-" + c.Site + "-" + c.Ledger.ID + "-ledger"
}

// DefaultLedgerMaxBytes is 4 GiB, some sixteen million events, or the most that a
// 32-bit board maps: 512 MiB.
func DefaultLedgerMaxBytes() Size {
	if strconv.IntSize == 32 {
		return Size(512 << 20)
	}
	return Size(4 << 30)
}

package config

import (
	"cmp"
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

	DefaultInterval          = Duration(10 * time.Second)
	DefaultStaleIntervals    = 3                          // stale_after, in intervals
	DefaultStaleAfterAtLeast = Duration(10 * time.Second) // … but never less than this
	DefaultBus               = "1"
	DefaultAddress           = 0x48
	DefaultGain              = Volts(6_144_000_000)
	DefaultRate              = 128
	DefaultVoltsMarginParts  = 20 // volts_min, volts_max: this part of the calibrated span beyond it

	DefaultSimulatedStart              = Mass(1000e9)
	DefaultSimulatedConsumptionPerHour = Mass(35e9)
	DefaultSimulatedRefillBelow        = Percent(10_0000)
	DefaultSimulatedSeed               = 1

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

func (s *Sensor) setDefaults() { s.Interval = DefaultInterval }

func (s *Simulated) setDefaults() {
	s.ConsumptionPerHour = DefaultSimulatedConsumptionPerHour
	s.RefillBelow, s.Seed = DefaultSimulatedRefillBelow, DefaultSimulatedSeed
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

func (r *reader) completeSensor(c *Config, s *Sensor, path string) {
	if !r.stands(path + ".stale_after") {
		s.StaleAfter = max(DefaultStaleIntervals*s.Interval, DefaultStaleAfterAtLeast)
	}
	switch s.Driver {
	case DriverADS1115:
		r.completeADS1115(s, path)
	case DriverSimulated:
		if s.Simulated == nil {
			s.Simulated = new(Simulated)
			s.Simulated.setDefaults()
		}
		s.Simulated.complete(c.Tank(s.Tank), r.stands(path+".simulated.start"))
	}
}

func (s *Simulated) complete(t *Tank, hasStart bool) {
	full := Mass(0)
	if t != nil {
		full = t.Capacity
	}
	if !hasStart {
		s.Start = cmp.Or(full, DefaultSimulatedStart)
	}
	s.Full = cmp.Or(full, s.Start)
}

func (r *reader) completeADS1115(s *Sensor, path string) {
	if !r.stands(path + ".bus") {
		s.Bus = DefaultBus
	}
	if bus, ok := busPath(s.Bus); ok {
		s.Bus = bus
	}
	if !r.stands(path + ".address") {
		s.Address = DefaultAddress
	}
	if !r.stands(path + ".gain") {
		s.Gain = DefaultGain
	}
	if !r.stands(path + ".rate") {
		s.Rate = DefaultRate
	}
	if len(s.Calibration) == 0 {
		return
	}
	low, high := s.Calibration[0].Volts, s.Calibration[0].Volts
	for _, p := range s.Calibration {
		low, high = min(low, p.Volts), max(high, p.Volts)
	}
	margin := (high - low) / DefaultVoltsMarginParts
	if !r.stands(path + ".volts_min") {
		s.VoltsMin = max(low-margin, low-low/2)
	}
	if !r.stands(path + ".volts_max") {
		s.VoltsMax = min(high+margin, high+(s.Gain-high)/2)
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

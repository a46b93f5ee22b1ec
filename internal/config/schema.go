package config

// Config is one process's whole configuration. A role is on when its section
// stands, even empty: "web:" alone starts the page with its defaults.
//
// The yaml tags are the schema: the reader knows no key that has no field here.
// A tag's second word "required" makes a key one that must stand; a driver tag
// ties a key to one driver.
type Config struct {
	// Site names the base. It is a level of every topic. Default "base"; the
	// name rule applies (see event.ValidName).
	Site string `yaml:"site"`

	// Node names this process among those of the site, and is the source of
	// what it publishes. Default: the host name made to match the name rule,
	// "-", and the first six hex digits of the machine id. Two boards must
	// never share one.
	Node string `yaml:"node"`

	// DataDir holds the stores and the control socket. A relative path is
	// taken from the working directory. Default "data".
	DataDir string `yaml:"data_dir"`

	// CheckTimeout bounds the look through a store that was not closed cleanly, at
	// the start, before anything is acknowledged. A store that takes longer is used
	// unverified, and /readyz says so. Default: 30s and a second for each 2 MiB of
	// the file; 1s to 24h.
	CheckTimeout Duration `yaml:"check_timeout"`

	// TopicPrefix stands before every topic. Default "oxyd"; levels by "/",
	// no wildcards, at most MaxPrefixBytes.
	TopicPrefix string `yaml:"topic_prefix"`

	// Tanks are the tanks that are known by name. At most Ledger.MaxTanks
	// where the ledger stands.
	Tanks []Tank `yaml:"tanks"`

	// TanksMode says what the ledger does with a tank that is not listed:
	// "open" (default) registers it, "closed" quarantines its events.
	TanksMode string `yaml:"tanks_mode"`

	// Sensors turn on the edge role. Nil where the section does not stand.
	Sensors []Sensor `yaml:"sensors"`

	// Telemetry is the cheap stream that may be lost.
	Telemetry Telemetry `yaml:"telemetry"`

	// MQTT is the way to the broker, used by the edge and the ledger.
	MQTT MQTT `yaml:"mqtt"`

	// Broker turns on the embedded broker.
	Broker *Broker `yaml:"broker"`

	// Ledger turns on the account.
	Ledger *Ledger `yaml:"ledger"`

	// Outbox is the edge's durable way out.
	Outbox Outbox `yaml:"outbox"`

	// Web turns on the page, the HTTP API and the metrics.
	Web *Web `yaml:"web"`

	// Log says what is logged, and how.
	Log Log `yaml:"log"`

	// NodeByDefault: Node does not stand in the file and was made of the host.
	NodeByDefault bool `yaml:"-"`

	// Warnings are allowed but worth a word in the log: sorted by line.
	Warnings Faults `yaml:"-"`
}

// TanksMode values.
const (
	TanksOpen   = "open"
	TanksClosed = "closed"
)

// Tank is one tank known by name.
type Tank struct {
	// ID is the tank's name in topics and events; the name rule applies.
	ID string `yaml:"id,required"`

	// Name is shown to people: at most MaxNameRunes printable characters.
	// Default: ID.
	Name string `yaml:"name"`

	// Capacity is the amount that counts as full, more than 0. Without it
	// (0) there is no level in percent and no level alarm.
	Capacity Mass `yaml:"capacity"`

	// Initial is the opening amount, 0 up to Capacity: what the balance
	// starts from until the first measurement. Nil: unknown, which is not
	// the same as 0. The ledger fixes it at the tank's first start.
	Initial *Mass `yaml:"initial"`

	// Low is the level of the warning, in percent of Capacity, 0 to 100 %.
	// Default 20 % where there is a Capacity; "0 %" turns it off.
	Low Percent `yaml:"low"`

	// Critical is the level of the critical alarm, below Low. Default 10 %
	// where there is a Capacity; "0 %" turns it off.
	Critical Percent `yaml:"critical"`
}

// MQTT is a client's way to a broker.
type MQTT struct {
	// Broker is tcp://host:port, ssl://host:port (mqtt://, mqtts://, tls:// and
	// a bare host:port are taken too), or unix:///path. Default: the embedded
	// broker where its section stands, else tcp://127.0.0.1:1883. After parsing
	// its scheme is tcp, ssl or unix, and all but unix have a port.
	Broker string `yaml:"broker"`

	// Username, and PasswordFile: a file whose only line is the password.
	// Default: the embedded broker's own, where that is the one in use.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`

	// CAFile holds the PEM certificates that are trusted for ssl://.
	// Default: the system's.
	CAFile string `yaml:"ca_file"`

	// CertFile and KeyFile are this client's own, both or neither.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`

	// KeepAlive is the MQTT keep-alive, in whole seconds. Default 20s, 5s to
	// 1h. Never 0: some brokers refuse it, and a dead link would not be seen.
	KeepAlive Duration `yaml:"keepalive"`
}

// Broker is the embedded broker.
type Broker struct {
	// Listen is host:port. Default 127.0.0.1:1883. Port 0 takes a free one.
	Listen string `yaml:"listen"`

	// MaxBytes bounds what it keeps on disk; at the bound it gives no PUBACK
	// and the outboxes keep their events. Default 256 MiB, 16 MiB to 1 TiB.
	MaxBytes Size `yaml:"max_bytes"`

	// AckWait is the time after which it sends an unacknowledged message
	// again. Default 10s, 1s to 5m.
	AckWait Duration `yaml:"ack_wait"`

	// MaxAckPending bounds the messages on their way to one subscription.
	// Default 2000, 1 to 10000.
	MaxAckPending int `yaml:"max_ack_pending"`

	// Username and PasswordFile are asked of every client; both or neither.
	// Default: none asked.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
}

// Ledger is the account.
type Ledger struct {
	// ID names the ledger. Default "main"; the name rule applies.
	ID string `yaml:"id"`

	// Publish makes it the one that publishes balances, alarms and
	// availability. Default true; false for a second ledger that only proves.
	Publish bool `yaml:"publish"`

	// DedupWindow is how long events without a number are recognised.
	// Default 168h, up to 87600h; never below RedeliveryWindow.
	DedupWindow Duration `yaml:"dedup_window"`

	// History is how long events stay in the account that nothing needs any more.
	// Above three quarters of MaxBytes it is cut down to DedupWindow. Default 720h,
	// or DedupWindow where that is longer; up to 87600h, never below DedupWindow.
	History Duration `yaml:"history"`

	// RedeliveryWindow is the longest time after which any outbox, broker
	// session or replay can bring an event back. Default 72h.
	RedeliveryWindow Duration `yaml:"redelivery_window"`

	// MaxBytes bounds the store; what happens there is the ledger's to say.
	// Default 4 GiB, 8 MiB to 64 GiB (512 MiB, default and most, on 32-bit boards,
	// where the store is mapped into the address space).
	MaxBytes Size `yaml:"max_bytes"`

	// QuarantineBytes bounds the quarantine; at the bound the oldest goes,
	// counted and alarmed. Default 16 MiB, 64 KiB up to MaxBytes.
	QuarantineBytes Size `yaml:"quarantine_bytes"`

	// MaxTanks, MaxSources and MaxSourcesPerTank bound what strangers can
	// register; beyond them events are quarantined as "limit". Defaults 256,
	// 4096, 16; 1 to 65536 each.
	MaxTanks          int `yaml:"max_tanks"`
	MaxSources        int `yaml:"max_sources"`
	MaxSourcesPerTank int `yaml:"max_sources_per_tank"`

	// MaxParked bounds the reversals that wait for their original. Default
	// 10000, 1 to 1000000.
	MaxParked int `yaml:"max_parked"`

	// MaxMarks bounds the accepted events that have neither a number nor a usable
	// time: their return cannot be told by anything but a mark kept for good. Beyond
	// it such events are quarantined as "limit". Default 1000000, 1 to 100000000.
	MaxMarks int `yaml:"max_marks"`

	// StaleAfter is the time without a measurement after which a tank is shown as
	// stale. Default 15m, 1s to 168h.
	StaleAfter Duration `yaml:"stale_after"`

	// Webhook tells a receiver what people should know. Nil where the section does
	// not stand.
	Webhook *Webhook `yaml:"webhook"`
}

// Outbox is the durable way out of a node.
type Outbox struct {
	// MaxBytes bounds the store. Default 64 MiB, 2 MiB to 16 GiB (512 MiB on
	// 32-bit boards).
	MaxBytes Size `yaml:"max_bytes"`

	// Retention is how long an event is kept after the broker took it, for a
	// ledger that asks again. Default 72h; never above Ledger.RedeliveryWindow.
	Retention Duration `yaml:"retention"`

	// ConfirmBy are the ids of the ledgers whose confirmation frees an event
	// when space is short, at most 8. Default: the first ledger heard.
	ConfirmBy []string `yaml:"confirm_by"`

	// CommitInterval is how long snapshots may wait to be committed together:
	// the readings that a power cut may cost. Deltas are committed at once.
	// Default 5s, 100ms to 1m.
	CommitInterval Duration `yaml:"commit_interval"`

	// ResendAfter is how long after the broker took an event a ledger may take to
	// confirm it, before it is sent again. Default 60s, 1s to 1h.
	ResendAfter Duration `yaml:"resend_after"`
}

// Web is the page, the HTTP API and the metrics.
type Web struct {
	// Listen is host:port. Default 127.0.0.1:8686. There is no log-in: what
	// can reach it may read and record. Port 0 takes a free one.
	Listen string `yaml:"listen"`
}

// Log values.
const (
	LogAuto = "auto"
	LogText = "text"
	LogJSON = "json"
)

// Log says what is logged, and how.
type Log struct {
	// Level is trace, debug, info (default), warn or error.
	Level string `yaml:"level"`

	// Format is json, text, or auto (default): text on a terminal, else json.
	Format string `yaml:"format"`
}

package checklist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"oxyd/ingest"
	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// parsed gives a config whose data_dir is below the test's own directory.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	return cfg
}

const whole = `
node: ctl-1
tanks: [{id: A, initial: 847 g}, {id: hab-1}]
sensors: [{tank: hab-1, driver: simulated}]
broker:
ledger:
`

// run gives the answers by question and wants all others than failing to be yes.
func run(t *testing.T, s Subject, failing ...string) map[string]Answer {
	t.Helper()
	answers, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Answer{}
	for _, a := range answers {
		by[a.Question] = a
		if len(a.Evidence) == 0 {
			t.Errorf("%s: no evidence", a.Question)
		}
		if want := !slices.Contains(failing, a.Question); a.OK != want {
			t.Errorf("%s: got %v, want %v\n\t%s", a.Question, a.OK, want, strings.Join(a.Evidence, "\n\t"))
		}
	}
	if len(by) != 6 {
		t.Errorf("%d questions are answered, want 6", len(by))
	}
	return by
}

func (a Answer) has(t *testing.T, part string) {
	t.Helper()
	if !slices.ContainsFunc(a.Evidence, func(line string) bool { return strings.Contains(line, part) }) {
		t.Errorf("%s: no evidence has %q\n\t%s", a.Question, part, strings.Join(a.Evidence, "\n\t"))
	}
}

// account makes the config's account and applies messages to it, each a leaf and a
// JSON text; it is closed again.
func account(t *testing.T, cfg *config.Config, messages ...[2]string) string {
	t.Helper()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := daemon.LedgerPath(cfg)
	l, err := ledger.Open(daemon.LedgerOptions(cfg, path, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		kind, _ := event.TypeOfTopic(m[0])
		var tank struct{ Tank string }
		if err := json.Unmarshal([]byte(m[1]), &tank); err != nil {
			t.Fatal(err)
		}
		d := ledger.Delivery{Topic: "t", Payload: []byte(m[1])}
		if d.Event, err = event.Decode(kind, tank.Tank, d.Payload); err != nil && !errors.As(err, &d.Form) {
			t.Fatal(err)
		}
		if _, err := l.Apply([]ledger.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Check(), l.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// spoil removes the first row of a bucket behind everybody's back.
func spoil(t *testing.T, path, bucket string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		k, _ := b.Cursor().First()
		return b.Delete(bytes.Clone(k))
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func consumed(id string) [2]string {
	return [2]string{"consumed", fmt.Sprintf(`{"event_id":%q,"tank":"A","amount":120}`, id)}
}

// A machine without any store: everything holds, and nothing is left behind.
func TestFreshMachine(t *testing.T) {
	cfg := parsed(t, whole)
	by := run(t, Subject{Config: cfg})
	by[Atomic].has(t, "there is none yet")
	by[StableKey].has(t, "ctl-1/")
	if left, err := os.ReadDir(filepath.Dir(cfg.DataDir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEdgeAlone(t *testing.T) {
	by := run(t, Subject{Config: parsed(t, "node: e\nsensors: [{tank: hab-1, driver: simulated}]\nmqtt: {broker: \"tcp://h:1\"}\n")})
	by[AckAfter].has(t, "keeps no account")
	by[Window].has(t, "72h")
}

func TestClosedStores(t *testing.T) {
	cfg := parsed(t, whole)
	path := account(t, cfg, consumed("e-1"), consumed("e-1"), consumed("e-2"),
		[2]string{"consumed", `{"tank":"A","amount":1}`}, [2]string{"measured", `{"event_id":"m","tank":"B","remaining":5}`})
	before, _ := os.ReadFile(path)
	by := run(t, Subject{Config: cfg})
	by[Atomic].has(t, "account: 4 journal rows, 3 marks and 2 effects agree")
	by[Atomic].has(t, "folded anew")
	by[StableKey].has(t, "1 messages came without an event_id")
	by[StableKey].has(t, "3 of 3 accepted events named no source")
	by[Natural].has(t, "warning: tank A: deltas alone")
	by[Natural].has(t, "tank B: its balance rests on a snapshot")
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the closed account was written to")
	}
}

// 1: a consumer that acknowledges first.
func TestAcknowledgeFirstIsSeen(t *testing.T) {
	first := func(ctx context.Context, l *ledger.Ledger, split func(string) (string, string, bool), take func(context.Context, int) ([]ingest.Message, error)) error {
		return byIngest(ctx, l, split, func(ctx context.Context, n int) ([]ingest.Message, error) {
			batch, err := take(ctx, n)
			for i := range batch {
				batch[i].Ack()
				batch[i].Ack = func() {}
			}
			return batch, err
		})
	}
	by := run(t, Subject{Config: parsed(t, whole), consume: first}, AckAfter, Atomic)
	by[AckAfter].has(t, "fails: trial: the acknowledgement came while the event was not in committed state")
	by[AckAfter].has(t, "shows 847 g instead of 727 g")
}

// found gives what is found on a fresh machine, to be changed.
func found(t *testing.T) *findings {
	t.Helper()
	f := gather(t.Context(), Subject{Config: parsed(t, whole)})
	if f.trialErr != nil || f.termsErr != nil {
		t.Fatal(f.trialErr, f.termsErr)
	}
	return f
}

func TestOptionsThatWouldLoseMessagesFail(t *testing.T) {
	for name, change := range map[string]func(*findings){
		"automatic acknowledgement": func(f *findings) { f.subscriber.AutoAck = true },
		"clean session":             func(f *findings) { f.subscriber.CleanSession = true },
		"unsynced store":            func(f *findings) { f.trial.synced = false },
		"no trial":                  func(f *findings) { f.trialErr = errors.New("disk is full") },
	} {
		f := found(t)
		if a := f.ackAfter(); !a.OK {
			t.Fatalf("before: %v", a.Evidence)
		}
		if change(f); f.ackAfter().OK {
			t.Errorf("%s passes", name)
		}
	}
	for _, qos := range []byte{0, 2} {
		f := found(t)
		if f.publisher.QoS = qos; f.atLeastOnce().OK {
			t.Errorf("publishing with QoS %d passes", qos)
		}
		f = found(t)
		if f.subscriber.QoS = qos; f.atLeastOnce().OK {
			t.Errorf("subscribing with QoS %d passes", qos)
		}
	}
}

// 2: the default name has changed while events wait under the old one.
func TestChangedNodeNameIsSeen(t *testing.T) {
	cfg := parsed(t, whole)
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	clk, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	box, err := outbox.Open(daemon.OutboxOptions(cfg, daemon.OutboxPath(cfg), clk, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Append(event.Event{Type: event.Consumed, Tank: "A", Amount: 1, Version: 1}); err != nil {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, Subject{Config: cfg})
	cfg.Node, cfg.NodeByDefault = "dhcp-17-abc123", true
	by := run(t, Subject{Config: cfg}, StableKey)
	by[StableKey].has(t, "fails: the default node name was ctl-1")
	cfg.NodeByDefault = false // by intent
	by = run(t, Subject{Config: cfg})
	by[StableKey].has(t, "warning: the outbox holds events of ctl-1")
}

func TestChangedHostNameIsSeenInTheAccount(t *testing.T) {
	cfg := parsed(t, whole)
	account(t, cfg, [2]string{"measured", `{"event_id":"x","source":"raspberry-abc123","tank":"hab-1","remaining":5}`})
	cfg.Node, cfg.NodeByDefault = "dhcp-17-abc123", true
	run(t, Subject{Config: cfg}, StableKey)[StableKey].has(t, "was raspberry-abc123")
	cfg.Node = "dhcp-17-def456"
	run(t, Subject{Config: cfg})
}

func TestKeysThatDoNotStayFail(t *testing.T) {
	for name, change := range map[string]func(*findings){
		"other bytes after a kill": func(f *findings) { f.trial.sameBytes = false },
		"another form":             func(f *findings) { f.trial.ownForm = false },
		"no name":                  func(f *findings) { f.cfg.Node = "a b" },
	} {
		f := found(t)
		if change(f); f.stableKey().OK {
			t.Errorf("%s passes", name)
		}
	}
}

// 3: a mark removed by hand, and an effect; nothing else is touched.
func TestMissingMarkOrEffectIsSeen(t *testing.T) {
	for bucket, said := range map[string]string{"entries": "no mark", "moves": "was not moved", "ids": "does not lead to its mark", "journal": "is missing"} {
		cfg := parsed(t, whole)
		spoil(t, account(t, cfg, consumed("e-1"), consumed("e-2")), bucket)
		run(t, Subject{Config: cfg}, Atomic)[Atomic].has(t, said)
	}
}

// A store that is none, a damaged one and a cut one are told, not stumbled over.
func TestDamagedStoreIsSeen(t *testing.T) {
	cfg := parsed(t, whole)
	path := account(t, cfg, consumed("e-1"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, len(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, Subject{Config: cfg}, Atomic)[Atomic].has(t, "fails: account: ")
}

// 4: a tank with a sensor whose balance rests on deltas alone.
func TestSensorThatNeverMeasuredIsSeen(t *testing.T) {
	cfg := parsed(t, whole)
	account(t, cfg, [2]string{"consumed", `{"event_id":"x","tank":"hab-1","amount":5}`})
	run(t, Subject{Config: cfg}, Natural)[Natural].has(t, "fails: tank hab-1")
	f := found(t)
	if f.trial.measured = f.trial.counted; !f.natural().OK {
		t.Error("the same balance does not pass")
	}
	opening := ledger.SumOf(full)
	if f.trial.measured = &opening; f.natural().OK {
		t.Error("a balance that an older snapshot has overwritten passes")
	}
}

// A live store of a daemon that does not answer is not touched.
func TestLiveStoreIsNotOpened(t *testing.T) {
	cfg := parsed(t, whole)
	path := account(t, cfg, consumed("e-1"))
	l, err := ledger.Open(daemon.LedgerOptions(cfg, path, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	run(t, Subject{Config: cfg})[Atomic].has(t, "account: not looked through: copy ")
}

// 6: a consumer that takes each delivery for a new event, as if the transport gave
// each one once.
func TestTrustingTheTransportIsSeen(t *testing.T) {
	n := 0
	naive := func(ctx context.Context, l *ledger.Ledger, split func(string) (string, string, bool), take func(context.Context, int) ([]ingest.Message, error)) error {
		return byIngest(ctx, l, split, func(ctx context.Context, limit int) ([]ingest.Message, error) {
			batch, err := take(ctx, limit)
			for i := range batch {
				if n++; n > 1 && n < 3 { // a key of the consumer's own
					text := string(batch[i].Payload)
					at := strings.Index(text, `"event_id":"`) + len(`"event_id":"`)
					text = text[:at] + "mine-" + text[at:]
					text = strings.Replace(text, `"seq":1`, `"seq":9`, 1)
					batch[i].Payload = []byte(text)
				}
			}
			return batch, err
		})
	}
	by := run(t, Subject{Config: parsed(t, whole), consume: naive}, AtLeastOne)
	by[AtLeastOne].has(t, "applied, applied, balance 607 g instead of 727 g")
}

func TestSettingsThatPromiseTooMuchAreNamed(t *testing.T) {
	type inner struct {
		Delivery string `yaml:"exactly_once,required"`
	}
	n, got := settings(typeOf[struct {
		MQTT  *inner  `yaml:"mqtt"`
		More  []inner `yaml:"more"`
		Plain int     `yaml:"plain"`
		Not   inner   `yaml:"-"`
	}]())
	if n != 5 || len(got) != 4 { // each for two of the words
		t.Errorf("%d keys, %v", n, got)
	}
}

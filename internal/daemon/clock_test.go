package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/clock"
	"oxyd/internal/clock/clocktest"
	"oxyd/internal/config"
	"oxyd/internal/outbox"
	"oxyd/ledger"
	"oxyd/mqtt"
	"oxyd/sensors"
)

// FC-46 in what people see: what happened before the clock was set is told by the
// clock as it stands now, and 1970 not at all.
func TestFC46NothingShows1970(t *testing.T) {
	booted := clocktest.Stepped(time.Now(), -time.Duration(time.Now().Unix()-10)*time.Second) // 1970-01-01T00:00:10
	if booted.Year() != 1970 {
		t.Fatalf("the board boots in %v", booted)
	}
	state := sensors.ChannelState{Tank: "A", Since: booted, LastGood: sensors.Reading{At: booted.Add(3 * time.Second), Remaining: physic.Gram}}

	unset := booted.Add(40 * time.Second)
	if got := shownAt(state.Since, unset); !got.IsZero() {
		t.Errorf("before the clock is set %v is shown, want nothing", got)
	}
	set := clocktest.Stepped(unset, 20_000*24*time.Hour)
	if got, want := shownAt(state.Since, set), set.Round(0).Add(-40*time.Second).Round(time.Millisecond); !got.Equal(want) {
		t.Errorf("afterwards %v is shown, want %v: 40 s ago", got, want)
	}
	if text := string(mustJSON(SensorDocument{LastGood: &LastGood{}})); strings.Contains(text, `"at"`) || strings.Contains(text, `"since"`) {
		t.Errorf("an instant that is not known is written: %s", text)
	}
	if text := string(mustJSON(sensorOf(&state))); strings.Contains(text, "1970") {
		t.Errorf("1970 in %s", text)
	}
}

// FC-51: a sensor dies at noon; the node's status, given out again and again, keeps
// when it last measured, and says stale after stale_after.
func TestFC51StatusKeepsTheMeasurementsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(noon))
		b := statusBoard(t)
		probe := &dyingProbe{until: noon}
		var err error
		b.poller, err = sensors.NewPoller([]sensors.Bus{{Name: "test", Channels: []sensors.Channel{{Tank: "A", Name: "a",
			Interval: time.Minute, StaleAfter: 180 * time.Second, Open: func(context.Context) (sensors.Probe, error) { return probe, nil }}}}},
			sensors.Options{Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.poller.Run(ctx) }()
		time.Sleep(time.Second) // the looks are between the ticks
		for seconds := 1; seconds < 600; seconds += 60 {
			synctest.Wait()
			s := b.node().Sensors[0]
			if s.LastGood == nil || !s.LastGood.At.Equal(noon) || s.LastGood.Remaining.String() != "5 g" {
				t.Errorf("after %d s: last good %+v, want 5 g at %v", seconds, s.LastGood, noon)
			}
			if fresh := s.State == sensors.StateOK; fresh != (seconds < 180) {
				t.Errorf("after %d s: %s", seconds, s.State)
			}
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// dyingProbe measures 5 g until then.
type dyingProbe struct{ until time.Time }

func (p *dyingProbe) Read(context.Context) (sensors.Reading, error) {
	if time.Now().After(p.until) {
		return sensors.Reading{}, &sensors.Fault{Reason: sensors.ReasonError, Detail: "dead"}
	}
	return sensors.Reading{Remaining: 5 * physic.Gram}, nil
}

// statusBoard is a board that can tell how it does.
func statusBoard(t *testing.T) *board {
	t.Helper()
	c, err := clock.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &board{cfg: &config.Config{Node: "ctl-3"}, clock: c, log: zerolog.Nop(), topics: mqtt.Topics{Prefix: "oxyd", Site: "base"},
		wakeStatus: make(chan struct{}, 1)}
	b.outbox, err = outbox.Open(OutboxOptions(b.cfg, filepath.Join(t.TempDir(), "outbox.bolt"), c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.outbox.Close(); err != nil {
			t.Error(err)
		}
	})
	b.publisher = mqtt.NewPublisher(mqtt.Options{Broker: "tcp://127.0.0.1:1", ClientID: "x"}, queue{b.outbox}, mqtt.Presence{}, zerolog.Nop())
	return b
}

// What happens to the clock is in the log and in the node's status at once.
func TestClockChangesAreTold(t *testing.T) {
	b := statusBoard(t)
	var log bytes.Buffer
	b.log = zerolog.New(&log)
	for _, c := range []struct {
		change clock.Change
		want   string
		level  string
	}{
		{clock.Change{Synced: true, Step: time.Hour}, "clock is synchronised", "info"},
		{clock.Change{Step: time.Hour}, "clock was set", "info"},
		{clock.Change{Was: true}, "clock is not synchronised any more", "warn"},
	} {
		log.Reset()
		b.clockChanged(c.change)
		var line struct{ Level, Message string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Message != c.want || line.Level != c.level {
			t.Errorf("%+v is logged as %s (%v)", c.change, log.String(), err)
		}
		select {
		case <-b.wakeStatus:
		default:
			t.Errorf("%+v: the status is not refreshed", c.change)
		}
	}
}

// FC-49: an alarm's delay does not follow the wall clock. The number is missing from
// the start; the clock jumps by an hour on the way, either way.
func TestFC49AlarmDelayIsMonotonic(t *testing.T) {
	lacks := []ledger.Gap{{Tank: "A", Source: "dev", Epoch: 1}}
	const tick = 100 * time.Millisecond
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		var w gapWatch
		start := time.Now()
		for after := time.Duration(0); after <= 2*gapGrace; after += tick {
			now := start.Add(after)
			if after >= gapGrace/6 {
				now = clocktest.Stepped(now, step)
			}
			if raised := len(w.lasting(lacks, now)) > 0; raised != (after >= gapGrace) {
				t.Errorf("clock set by %v: raised %t after %v, want after %v", step, raised, after, gapGrace)
			}
		}
	}
}

// A document is said at once when it changes, and otherwise once in a while, whatever
// the wall clock does.
func TestRepeatedDocument(t *testing.T) {
	r := repeated{every: time.Minute}
	start := time.Now()
	said := 0
	for second := range 600 {
		now := clocktest.Stepped(start.Add(time.Duration(second)*time.Second), time.Duration(second%7)*time.Hour)
		body := "a"
		if second == 90 {
			body = "b"
		}
		if r.due([]byte(body), now) {
			said++
		} else if second == 0 || second == 90 || second == 91 {
			t.Errorf("second %d: a change is not said", second)
		}
	}
	if want := 2 + 2 + 8; said != want { // 0, 60; 90 and 91; each minute after that
		t.Errorf("said %d times in ten minutes, want %d", said, want)
	}
}

// The alarm of FC-48 names the worst source and its offset, and ends with the skew.
func TestFC48ClockSkewAlarm(t *testing.T) {
	b := statusBoard(t)
	b.cfg.Ledger = &config.Ledger{MaxTanks: 1, MaxSources: 1, MaxParked: 1, MaxMarks: 1}
	b.judgeAccount(&ledger.Status{ClockSkew: []ledger.Skew{{Source: "dev", Ahead: 86400}, {Source: "b", Ahead: 20}}})
	list := b.ledgerAlarms.list()
	if len(list) != 1 || list[0].Kind != "clock_skew" || list[0].Severity != warning ||
		!strings.Contains(list[0].Text, `"dev"`) || !strings.Contains(list[0].Text, "24h0m0s") || !strings.Contains(list[0].Text, "1 others") {
		t.Errorf("alarms %+v, want clock_skew with dev and a day", list)
	}
	b.judgeAccount(&ledger.Status{})
	if list := b.ledgerAlarms.list(); len(list) != 0 {
		t.Errorf("alarms %+v, want none", list)
	}
}

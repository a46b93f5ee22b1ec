package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// telling is a rig that keeps notices of every kind.
func telling(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(847)})
	r.opt.Notify = Kinds()
	if change != nil {
		change(&r.opt)
	}
	r.reopen()
	return r
}

func (r *rig) waiting() []Notification {
	r.t.Helper()
	list, err := r.l.Waiting(MaxWaiting)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *rig) handOver(number uint64) Notification {
	r.t.Helper()
	list, err := r.l.HandOver([]uint64{number})
	if err != nil || len(list) != 1 {
		r.t.Fatalf("hand over %d: %v, %v", number, list, err)
	}
	return list[0]
}

func (r *rig) settle(a ...Attempt) {
	r.t.Helper()
	if err := r.l.Settle(a); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) counts() OutCounts {
	r.t.Helper()
	c, err := r.l.OutCounts()
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func poison(n int) Delivery {
	return Delivery{Topic: "oxyd/base/tank/A/consumed", Payload: fmt.Appendf(nil, "poison %d", n),
		Form: &event.FormError{Reason: event.Malformed, Detail: "no JSON"}}
}

// What is told of a change of the account is in the change's own transaction: not
// before it, not after it, and gone with it.
func TestNoticeIsInTheTransactionOfWhatItTells(t *testing.T) {
	r := telling(t, nil)
	txid := func() (id int) {
		if err := r.l.file.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := txid()
	if _, err := r.l.Apply([]Delivery{poison(1)}); err != nil {
		t.Fatal(err)
	}
	r.want("transactions", txid()-before, 1)
	r.want("waiting", len(r.waiting()), 1)

	boom := errors.New("power gone")
	d := Delivery{Topic: "t", Payload: []byte("x"), Form: &event.FormError{Reason: event.TooLarge}}
	err := r.l.update(func(b *batch) error {
		if _, err := b.apply(&d); err != nil {
			t.Fatal(err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("update: %v", err)
	}
	r.want("waiting after a batch that failed", len(r.waiting()), 1)
	r.want("told", r.counts().Notices, uint64(1))
}

// A flood of poison is one page until that was begun, and one more after it.
func TestFloodIsOneNotification(t *testing.T) {
	r := telling(t, nil)
	flood := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := r.l.Apply([]Delivery{poison(i), poison(i)}); err != nil { // the second is a repeat
				t.Fatal(err)
			}
		}
	}
	flood(0, 1000)
	list := r.waiting()
	r.want("notifications", len(list), 1)
	r.want("count", list[0].Count, uint64(1000))
	first := r.handOver(list[0].Number)
	flood(1000, 2000)
	r.reopen()
	list = r.waiting()
	r.want("notifications", len(list), 2)
	if first.Text != list[0].Text || first.Count != list[0].Count {
		t.Errorf("what was handed over changed: %+v, then %+v", first, list[0])
	}
	r.want("count of the second", list[1].Count, uint64(1000))
	r.want("quarantined", r.counts().Notices, uint64(2000))
}

func TestWhatIsTold(t *testing.T) {
	r := telling(t, func(o *Options) { o.MaxTanks, o.QuarantineBytes = 1, 700 })
	r.send("consumed", `{"event_id":"e","tank":"A","amount":1}`)
	r.send("consumed", `{"event_id":"e","tank":"A","amount":2}`)
	r.send("consumed", `{"event_id":"f","tank":"B","amount":2}`)
	r.send("consumed", `{"event_id":"f","tank":"B","amount":3}`)
	r.send("consumed", `{"event_id":"g","tank":"A","amount":3,"v":9}`)
	got := map[string]string{}
	for _, n := range r.waiting() {
		got[n.Kind+" "+n.Subject] = n.Text
		if n.Kind == KindQuarantine && !strings.Contains(string(n.Detail), `"event_id":"g"`) {
			t.Errorf("detail %s does not name the event", n.Detail)
		}
	}
	for _, want := range []string{"conflict A", "conflict ", "limit account", "quarantine unsupported_version", "eviction quarantine"} {
		if got[want] == "" {
			t.Errorf("nobody is told of %q: %v", want, got)
		}
		delete(got, want)
	}
	if len(got) != 0 {
		t.Errorf("also told: %v", got)
	}
}

func TestReplacedAccountIsToldOnce(t *testing.T) {
	r := telling(t, func(o *Options) { o.Replacement = true })
	r.reopen()
	list := r.waiting()
	r.want("notifications", len(list), 1)
	r.want("kind", list[0].Kind, KindStore)
	r.want("count", list[0].Count, uint64(1))
}

func TestNothingIsKeptForNobody(t *testing.T) {
	r := telling(t, func(o *Options) { o.Notify = []string{KindAlarm} })
	if _, err := r.l.Apply([]Delivery{poison(1)}); err != nil {
		t.Fatal(err)
	}
	if err := r.l.Notify(Notice{Kind: KindStore, Text: "x"}, Notice{Kind: KindAlarm, Subject: "A", Text: "low"}); err != nil {
		t.Fatal(err)
	}
	list := r.waiting()
	r.want("notifications", len(list), 1)
	r.want("kind", list[0].Kind, KindAlarm)
}

// The story of one notification: tried, tried again over a restart, delivered.
func TestNotificationsGoOnOverRestarts(t *testing.T) {
	r := telling(t, nil)
	if err := r.l.Notify(Notice{Kind: KindAlarm, Subject: "A/low", Text: "Tank A is low.", Detail: map[string]any{"level": 12.5}}); err != nil {
		t.Fatal(err)
	}
	n := r.handOver(1)
	r.settle(Attempt{Number: 1, At: noon, State: Waiting, Status: 500, Error: "500 Internal Server Error"})
	r.reopen()
	again := r.waiting()[0]
	if again.Number != n.Number || again.Incarnation != n.Incarnation || again.Text != n.Text || again.Attempts != 1 || again.Status != 500 {
		t.Errorf("after a restart %+v, before it %+v", again, n)
	}
	r.settle(Attempt{Number: 1, At: noon, State: Delivered, Status: 204})
	r.settle(Attempt{Number: 1, At: noon, State: Delivered, Status: 204}) // whose record came late
	r.want("waiting", len(r.waiting()), 0)
	list, counts, err := r.l.Notifications(10)
	if err != nil {
		t.Fatal(err)
	}
	r.want("listed", len(list), 1)
	r.want("state", list[0].State, Delivered)
	r.want("attempts", list[0].Attempts, uint64(2))
	r.want("counts", counts, OutCounts{Next: 2, Kept: 1, Notices: 1, Attempts: 3, Delivered: 1})
	r.reopen()
	r.want("counts after a restart", r.counts(), counts)
}

// At the bounds the oldest goes: what waits is counted and listed as dropped, an
// outcome is forgotten.
func TestNotificationsAreBounded(t *testing.T) {
	r := telling(t, nil)
	all := make([]Notice, MaxWaiting+MaxTold+100)
	for i := range all {
		all[i] = Notice{Kind: KindAlarm, Subject: fmt.Sprint(i), Text: "x"}
	}
	if err := r.l.Notify(all...); err != nil {
		t.Fatal(err)
	}
	list := r.waiting()
	r.want("waiting", len(list), MaxWaiting)
	r.want("oldest waiting", list[0].Subject, fmt.Sprint(MaxTold+100))
	c := r.counts()
	r.want("dropped", c.Dropped, uint64(MaxTold+100))
	r.want("kept", c.Kept, uint64(MaxTold))
	r.settle(Attempt{Number: 1, At: noon, State: Delivered}) // dropped meanwhile
	if got, err := r.l.HandOver([]uint64{1}); err != nil || len(got) != 0 {
		t.Errorf("hand over of a dropped one: %v, %v", got, err)
	}
}

func TestNoticesOfStrangersAreBounded(t *testing.T) {
	r := telling(t, nil)
	for _, c := range []string{"\x01", "\\", "<", "\u202e", "ü"} {
		long := strings.Repeat(c, 60_000/len(c))
		d := Delivery{Topic: long, Payload: []byte(c), Form: &event.FormError{Reason: event.Malformed}}
		d.Event.ID, d.Event.Source = long, long
		if _, err := r.l.Apply([]Delivery{d}); err != nil {
			t.Fatal(err)
		}
		n := r.waiting()[0]
		if len(n.Text) > maxTextBytes+4 || len(n.Detail) == 0 || strings.ContainsAny(n.Text, "\x01\u202e") {
			t.Errorf("of %q: %+v", c, n)
		}
	}
	if err := r.l.Notify(Notice{Kind: KindAlarm, Detail: []int{1}}); err == nil {
		t.Error("a detail that is no object is taken")
	}
	if err := r.l.Notify(Notice{Kind: KindAlarm, Detail: map[string]string{"a": strings.Repeat("x", maxDetailBytes)}}); err == nil {
		t.Error("a detail without bound is taken")
	}
}

// A row that was damaged is named by Check, and stops neither events nor others.
func TestDamagedNotificationStopsNothing(t *testing.T) {
	r := telling(t, nil)
	if _, err := r.l.Apply([]Delivery{poison(1)}); err != nil {
		t.Fatal(err)
	}
	if err := r.l.file.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("out")).Put(lsnKey(1), []byte("{"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.l.Check(); err == nil || !strings.Contains(err.Error(), "notification") {
		t.Errorf("check: %v", err)
	}
	if _, err := r.l.Apply([]Delivery{poison(2)}); err != nil {
		t.Fatal(err)
	}
	r.want("waiting", len(r.waiting()), 1)
	for i := range MaxWaiting + 1 { // until the damaged one goes at the bound
		if err := r.l.Notify(Notice{Kind: KindAlarm, Subject: fmt.Sprint(i), Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	r.want("dropped", r.counts().Dropped, uint64(3))
}

// A backup from before there were notifications is sound.
func TestCheckTakesFilesWithoutNotifications(t *testing.T) {
	r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(847)})
	path := r.opt.Path
	if err := r.l.file.Update(func(tx *bbolt.Tx) error {
		for _, name := range outBuckets {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.end()
	if _, err := Verify(path); err != nil {
		t.Errorf("verify: %v", err)
	}
	r.open()
	r.want("waiting", len(r.waiting()), 0)
}

// Check finds what does not agree: this table is what it would miss otherwise.
func TestCheckNoticesNotifications(t *testing.T) {
	for name, harm := range map[string]func(*bbolt.Tx) error{
		"a row is gone":   func(tx *bbolt.Tx) error { return tx.Bucket([]byte("out")).Delete(lsnKey(1)) },
		"open is gone":    func(tx *bbolt.Tx) error { return tx.Bucket([]byte("outopen")).Delete(openKey(KindAlarm, "A")) },
		"open leads away": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("outopen")).Put([]byte("x"), lsnKey(1)) },
		"the number moved": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("out")).Put(lsnKey(7), tx.Bucket([]byte("out")).Get(lsnKey(1)))
		},
		"an outcome waits": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("out")).Put(lsnKey(2), tx.Bucket([]byte("outlog")).Get(lsnKey(2)))
		},
		"counts are short": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("out"), []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := telling(t, nil)
			if err := r.l.Notify(Notice{Kind: KindAlarm, Subject: "A", Text: "x"}, Notice{Kind: KindAlarm, Subject: "B", Text: "x"}); err != nil {
				t.Fatal(err)
			}
			r.handOver(2)
			r.settle(Attempt{Number: 2, At: time.Unix(1, 0), State: Refused, Status: 404})
			if err := r.l.Check(); err != nil {
				t.Fatal(err)
			}
			if err := r.l.file.Update(harm); err != nil {
				t.Fatal(err)
			}
			if err := r.l.Check(); err == nil {
				t.Error("check finds nothing")
			}
			r.l.Close()
			r.l = nil
		})
	}
}

package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// newest gives the id of the newest message in quarantine.
func (r *rig) newest() string {
	r.t.Helper()
	list, err := r.l.Quarantine(1)
	if err != nil || len(list) == 0 {
		r.t.Fatalf("quarantine: %v, %v", list, err)
	}
	return list[0].ID
}

func (r *rig) kept() int {
	r.t.Helper()
	list, err := r.l.Quarantine(1000)
	if err != nil {
		r.t.Fatal(err)
	}
	s, _ := r.l.Status()
	r.want("rows counted", s.Quarantined, len(list))
	return len(list)
}

// retry wants a decision and gives it as "changed outcome/reason".
func (r *rig) retry(id string, overrule event.Reason) string {
	r.t.Helper()
	d, err := r.l.Retry(id, overrule, "as told")
	if err != nil {
		r.t.Fatalf("retry: %v", err)
	}
	text := fmt.Sprint(d.Changed, " ", d.Outcome)
	if d.Reason != "" {
		text += "/" + string(d.Reason)
	}
	return text
}

func (r *rig) noRetry(id string, overrule event.Reason, want error, says string) {
	r.t.Helper()
	before, _ := r.l.Status()
	d, err := r.l.Retry(id, overrule, "")
	if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		r.t.Errorf("retry gives %+v, %v, want %v: %s", d, err, want, says)
	}
	after, _ := r.l.Status()
	r.want("journal rows", after.Revision, before.Revision)
}

// R24: what a bound refused is accepted by an operator, once.
func TestRetryOfLimit(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)}).with(func(o *Options) { o.MaxSources = 1 })
	second := step{"consumed", `{"event_id":"b","source":"s2","epoch":1,"seq":1,"tank":"A","amount":5,"occurred_at":` + ago(60) + `}`, "quarantined/limit", false}
	r.play(step{"consumed", `{"event_id":"a","source":"s1","tank":"A","amount":5}`, "applied", false}, second, second)
	id := r.newest()
	r.want("retry", r.retry(id[:8], ""), "true applied")
	r.want("balance", r.balance("A"), "90 g")
	r.want("kept", r.kept(), 0)
	second.want = "duplicate"
	r.play(second)
	r.want("the same command", r.retry(id, ""), "false applied")
	r.reopen()
	r.want("after a restart", r.retry(id, ""), "false applied")
	r.want("balance", r.balance("A"), "90 g")
	if res, ok, err := r.l.Outcome(event.Identity{Source: "s2", ID: "b"}); !ok || err != nil || res.Outcome != Applied || res.Reason != "" {
		t.Errorf("outcome %+v %v %v", res, ok, err)
	}
	r.play(step{"consumed", `{"event_id":"c","source":"s3","tank":"A","amount":5}`, "quarantined/limit", false}) // that one alone
	s, _ := r.l.Status()
	r.want("retried", s.Retried, 1)
	r.want("deliveries that were applied", s.Outcomes[Applied], 1)

	rows, _, _, err := r.l.Journal(Query{Tank: "A", Limit: 100, After: 3})
	if err != nil {
		t.Fatal(err)
	}
	row := rows[0]
	row.Receipt = nil
	r.want("stamp", *row.Stamp, noon.Add(-time.Minute))
	row.Stamp = nil
	r.want("journal", fmt.Sprintf("%+v", row), fmt.Sprintf("%+v", Record{LSN: 4, Type: "Retried", Tank: "A", Outcome: "applied", EventID: "b", Source: "s2",
		About: 3, Kept: id, Overruled: []event.Reason{event.Limit}, Note: "as told"}))
}

// What was refused is placed by its first receipt, not by the operator's.
func TestRetryTakesTheFirstReceipt(t *testing.T) {
	for what, rest := range map[string]string{"no time": "", "an age": `,"clock":"unsynced","age":1`} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t).with(func(o *Options) { o.Closed = true })
			r.play(step{"consumed", `{"event_id":"c","tank":"A","amount":5` + rest + `}`, "quarantined/unknown_tank", false})
			r.clk.now = r.clk.now.Add(time.Minute)
			r.with(func(o *Options) { o.Tanks = []Tank{{ID: "A"}} }).play(step{"measured", `{"event_id":"m","tank":"A","remaining":100}`, "applied", false})
			r.want("retry", r.retry(r.newest(), ""), "true late")
			r.want("the measurement has it in", r.balance("A"), "100 g")
			r.want("total", r.doc("A").Totals.Consumed, "5 g")
		})
	}
	t.Run("above every stamp so far, at the time", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxTankSources = 1 })
		r.play(step{"measured", `{"event_id":"m","source":"x","tank":"A","remaining":100,"occurred_at":` + ago(-9) + `}`, "applied", false},
			step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "quarantined/limit", false})
		r.want("retry", r.retry(r.newest(), ""), "true applied")
		r.want("balance", r.balance("A"), "95 g")
	})
	t.Run("a retained snapshot without time comes before everything", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxTankSources = 1 })
		r.play(step{"measured", `{"event_id":"m","source":"x","tank":"A","remaining":100,"occurred_at":` + ago(3600) + `}`, "applied", false},
			step{"measured", `{"event_id":"old","tank":"A","remaining":7}`, "quarantined/limit", true})
		r.want("retry", r.retry(r.newest(), ""), "true stale")
		r.want("balance", r.balance("A"), "100 g")
	})
}

// A tank that the config does not list gets its account by the retry, and stays
// closed to others.
func TestRetryRegistersTheTank(t *testing.T) {
	r := newRig(t, Tank{ID: "A"}).with(func(o *Options) { o.Closed = true })
	r.play(step{"measured", `{"event_id":"m","tank":"B","remaining":70}`, "quarantined/unknown_tank", false})
	r.want("retry", r.retry(r.newest(), ""), "true applied")
	r.want("balance", r.balance("B"), "70 g")
	r.play(step{"consumed", `{"event_id":"c","tank":"B","amount":1}`, "quarantined/unknown_tank", false})
}

func TestRetryMeetsAnotherRule(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.Closed = true })
	c := step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "quarantined/unknown_tank", true}
	r.play(c)
	id := r.newest()
	r.noRetry(id, event.RetainedDelta, ErrNotRetryable, "refused for unknown_tank")
	r.want("another rule", r.retry(id, ""), "true quarantined/retained_delta")
	r.want("the same again", r.retry(id, ""), "false quarantined/retained_delta")
	r.want("kept", r.kept(), 1)
	c.want = "quarantined/retained_delta"
	r.play(c)
	k, _, _ := r.l.KeptByID(id)
	r.want("listed as", k.Reason, event.RetainedDelta)
	res, _, _ := r.l.Outcome(event.Identity{ID: "c"})
	r.want("outcome", res.Reason, event.RetainedDelta)
	r.reopen()
	r.want("that one too", r.retry(id, event.RetainedDelta), "true applied")
	c.want = "duplicate"
	r.play(c)
}

func TestRetryOfOldEvents(t *testing.T) {
	t.Run("older than the window", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.DedupWindow = time.Hour })
		r.play(step{"consumed", `{"event_id":"out","tank":"A","amount":1,"occurred_at":` + ago(7200) + `}`, "quarantined/older_than_window", false})
		r.want("retry", r.retry(r.newest(), ""), "true applied")
	})
	t.Run("older than the window, and in the account already", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.DedupWindow = time.Hour })
		c := step{"consumed", `{"event_id":"c,\"tank\":\"A\"","tank":"A","amount":1,"occurred_at":` + ago(600) + `}`, "applied", false}
		r.play(c)
		if err := r.l.file.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("ids")).Delete(idKey("", `c,"tank":"A"`)) }); err != nil {
			t.Fatal(err) // as if it were pruned
		}
		r.clk.now = noon.Add(2 * time.Hour)
		c.want = "quarantined/older_than_window"
		r.play(c)
		r.noRetry(r.newest(), "", ErrNotRetryable, "the account has it")
		r.l.Close() // this file says what no pruning leaves behind
		r.l = nil
	})
	t.Run("old epoch", func(t *testing.T) {
		old := func(seq int, want string) step {
			return step{"consumed", fmt.Sprintf(`{"event_id":"o%d","tank":"A","source":"dev","epoch":3,"seq":%d,"amount":1,"clock":"unsynced"}`, seq, seq), want, false}
		}
		r := newRig(t)
		r.play(step{"measured", measured(5, 1, 100), "applied", false}, old(2, "quarantined/old_epoch"))
		r.want("retry", r.retry(r.newest(), ""), "true late")
		r.want("balance", r.balance("A"), "100 g")
		r.play(old(1, "late"), old(3, "late")) // now the epoch is known
	})
}

func TestRetryCannotDecide(t *testing.T) {
	run := func(leaf, msg string) step {
		return step{leaf, strings.Replace(msg, `"tank"`, `"stands_for":[3,8],"tank"`, 1), "quarantined/overlap", false}
	}
	t.Run("a sum of which a part was counted", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"consumed", consumed(1, 5, 7), "applied", false}, run("consumed", consumed(1, 8, 9)))
		r.noRetry(r.newest(), "", ErrNotRetryable, "a part of the sum")
	})
	t.Run("nor when it was refused for something else first", func(t *testing.T) {
		r := newRig(t).with(func(o *Options) { o.MaxTanks = 1 })
		in := func(msg string) string { return strings.ReplaceAll(msg, `"tank":"A"`, `"tank":"Z"`) }
		r.play(step{"consumed", in(consumed(1, 5, 7)), "applied", false})
		r.with(func(o *Options) { o.MaxTankSources = 1 }).play(step{"consumed", `{"event_id":"x","tank":"B","amount":1}`, "quarantined/limit", false})
		late := run("consumed", in(consumed(1, 8, 9)))
		late.msg = strings.Replace(late.msg, `"source":"dev"`, `"source":"dev2"`, 1)
		five := strings.Replace(in(consumed(1, 5, 7)), `"source":"dev"`, `"source":"dev2"`, 1)
		late.want = "quarantined/limit"
		r.play(step{"consumed", five, "quarantined/limit", false}, late)
		r.want("retry", r.retry(r.newest(), ""), "true quarantined/overlap")
		r.noRetry(r.newest(), event.Overlap, ErrNotRetryable, "a part of the sum")
	})
	t.Run("a snapshot counts nothing twice", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", measured(1, 5, 70), "applied", false}, run("measured", measured(1, 8, 60)))
		r.want("retry", r.retry(r.newest(), ""), "true applied")
		r.want("balance", r.balance("A"), "60 g")
	})
	t.Run("what is no event, of another version, or contradicts", func(t *testing.T) {
		r := newRig(t)
		for _, c := range []struct{ leaf, msg, says string }{
			{"consumed", `{`, "malformed"},
			{"consumed", `{"event_id":"v","tank":"A","v":2}`, "version"},
			{"consumed", `{"event_id":"c","tank":"A","amount":2}`, "first content"},
		} {
			r.send("consumed", `{"event_id":"c","tank":"A","amount":1}`)
			r.send(c.leaf, c.msg)
			r.noRetry(r.newest(), "", ErrNotRetryable, c.says)
		}
		r.noRetry("00000000", "", ErrNotKept, "")
		r.noRetry("no id", "", ErrNotKept, "")
		r.noRetry("", "", ErrNotKept, "")
		if _, err := r.l.Retry(r.newest(), "", "two\nlines"); !errors.Is(err, ErrNote) {
			t.Errorf("a reason of two lines: %v", err)
		}
	})
	t.Run("a reversal without a delta", func(t *testing.T) {
		r := newRig(t)
		r.play(step{"measured", `{"event_id":"m","tank":"A","remaining":5}`, "applied", false},
			step{"reversed", `{"event_id":"x","tank":"A","reverses":"m"}`, "quarantined/not_reversible", false})
		r.noRetry(r.newest(), "", ErrNotRetryable, "no delta of tank A")
	})
}

// A reversal that waits for a refused delta takes it back when that is accepted.
func TestRetryMeetsItsReversal(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(50)}).with(func(o *Options) { o.MaxTankSources = 1 })
	r.play(step{"consumed", `{"event_id":"a","source":"s","tank":"A","amount":1}`, "applied", false},
		step{"consumed", `{"event_id":"c","tank":"A","amount":5}`, "quarantined/limit", false},
		step{"reversed", `{"event_id":"x","source":"s","tank":"A","reverses":"c","reverses_source":""}`, "parked", false})
	r.want("retry", r.retry(r.newest(), ""), "true already_done")
	s, _ := r.l.Status()
	r.want("parked", s.Parked, 0)
	r.want("balance", r.balance("A"), "49 g")
}

// Contradicted while it was in quarantine, and accepted then: two ledgers that met
// the contents otherwise agree on the facts.
func TestRetryOfWhatWasContradicted(t *testing.T) {
	for _, number := range []string{"", `"epoch":1,"seq":4,`} {
		good := step{"consumed", `{"event_id":"c","source":"s2",` + number + `"tank":"A","amount":5,"occurred_at":` + ago(60) + `}`, "quarantined/limit", false}
		other := step{"consumed", strings.Replace(good.msg, `"amount":5`, `"amount":6`, 1), "conflict", false}
		first := step{"consumed", `{"event_id":"a","source":"s1","tank":"A","amount":1,"occurred_at":` + ago(60) + `}`, "applied", false}
		r1, r2 := newRig(t).with(func(o *Options) { o.MaxTankSources = 1 }), newRig(t)
		r1.play(first, good)
		id := r1.newest()
		r1.play(other)
		r1.want("retry", r1.retry(id, ""), "true applied")
		good.want = "applied"
		r2.play(first, good, other)
		s1, _ := r1.l.Status()
		s2, _ := r2.l.Status()
		r1.want("facts", s1.Facts, s2.Facts)
		r1.want("digest", s1.Digest, s2.Digest)
	}
}

func TestDiscard(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.MaxTanks = 1 })
	r.play(step{"consumed", `{"event_id":"a","tank":"A","amount":1}`, "applied", false})
	refused := step{"consumed", `{"event_id":"b","source":"s","epoch":1,"seq":1,"tank":"B","amount":1}`, "quarantined/limit", false}
	for _, s := range []step{refused, {"consumed", `{`, "quarantined/malformed", false}, {"consumed", `{"event_id":"a","tank":"A","amount":2}`, "conflict", false}} {
		r.play(s)
		id := r.newest()
		before, _ := r.l.Status()
		d, err := r.l.Discard(id[:6], "junk")
		if err != nil || !d.Changed || d.ID != id {
			t.Errorf("discard %s: %+v, %v", s.msg, d, err)
		}
		again, err := r.l.Discard(id, "once more")
		if err != nil || again.Changed || again.LSN != d.LSN || again.Note != "junk" {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		after, _ := r.l.Status()
		r.want("journal rows", after.Revision-before.Revision, 1)
		r.want("kept", r.kept(), 0)
		r.play(s, s) // answered as before, and kept no more
		r.want("kept", r.kept(), 0)
		r.noRetry(id, "", ErrSettled, "was discarded")
	}
	s, _ := r.l.Status()
	r.want("counted", fmt.Sprint(s.Discarded, s.DiscardedAgain, s.Outcomes[Quarantined], s.Outcomes[Conflict]), "3 6 6 3")
	r.reopen()
	r.play(refused)
	r.want("kept", r.kept(), 0)

	r.with(func(o *Options) { o.MaxTanks = 0 }).play(step{"consumed", `{"event_id":"k","tank":"C","amount":1,"v":2}`, "quarantined/unsupported_version", false})
	r.with(func(o *Options) { o.Closed = true }).play(step{"consumed", `{"event_id":"c","tank":"C","amount":1}`, "quarantined/unknown_tank", false})
	id := r.newest()
	r.want("retry", r.retry(id, ""), "true applied")
	if _, err := r.l.Discard(id, ""); !errors.Is(err, ErrSettled) {
		t.Errorf("discard of what was accepted: %v", err)
	}
}

// A message that went at the bound cannot be decided about until it comes again.
func TestDecisionsAboutEvicted(t *testing.T) {
	r := newRig(t).with(func(o *Options) { o.QuarantineBytes, o.Closed = 400, true })
	c := func(n int) step {
		return step{"consumed", fmt.Sprintf(`{"event_id":"c%d","tank":"A","amount":1}`, n), "quarantined/unknown_tank", true}
	}
	r.play(c(1))
	id := r.newest()
	r.want("still refused", r.retry(id, ""), "true quarantined/retained_delta")
	r.play(c(2), c(3), c(4))
	r.noRetry(id, "", ErrNotKept, "bound")
	again := c(1)
	again.want = "quarantined/retained_delta"
	r.play(again)
	r.want("now", r.retry(id, event.RetainedDelta), "true applied")
}

func TestIDsOfTwoMessages(t *testing.T) {
	r := newRig(t)
	err := r.l.file.Update(func(tx *bbolt.Tx) error {
		kept, settled := tx.Bucket([]byte("quarantine")), tx.Bucket([]byte("settled"))
		one, two := bytes.Repeat([]byte{0xab}, 16), append(bytes.Repeat([]byte{0xab}, 15), 0xac)
		for _, err := range []error{kept.Put(one, nil), settled.Put(one, nil), settled.Put(two, nil)} {
			if err != nil {
				return err
			}
		}
		if keys, err := matching("abababa", kept, settled); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("a beginning of two: %x, %v", keys, err)
		}
		if keys, err := matching(strings.Repeat("ab", 16), kept, settled); len(keys) != 1 || err != nil {
			t.Errorf("one in both buckets: %x, %v", keys, err)
		}
		return errors.New("leave nothing behind")
	})
	if err == nil {
		t.Fatal("update swallowed the error")
	}
}

// Where every clock can be used, what was refused and is accepted by retries leaves
// the state that it would have left at once.
func TestRetriedIsLikeAccepted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := drawEvents(rt, 1, 30)
		seed := rapid.Uint64().Draw(rt, "seed")
		open := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
		tight := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)}).with(func(o *Options) { o.Closed, o.MaxTankSources, o.MaxParked = true, 1, 1 })
		deliver(rt, open, set, seed)
		deliver(rt, tight, set, seed)
		rng := rand.New(rand.NewPCG(seed, 7))
		for {
			list, err := tight.l.Quarantine(1000)
			if err != nil {
				rt.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			k := list[rng.IntN(len(list))]
			if _, err := tight.l.Retry(k.ID, k.Reason, ""); err != nil {
				rt.Fatalf("retry of %s: %v", k.Payload, err)
			}
			if err := tight.l.Check(); err != nil {
				rt.Fatalf("check: %v", err)
			}
		}
		s1, _ := open.l.Status()
		s2, _ := tight.l.Status()
		if s1.Digest != s2.Digest || s1.Parked != s2.Parked {
			rt.Fatalf("accepted at once:\n%s\nby retries:\n%s", dump(open), dump(tight))
		}
		open.end()
		tight.end()
	})
}

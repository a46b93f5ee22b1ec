package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// confirmed gives the confirmation of the source, and holds it to what a decoder of
// the wire takes.
func (r *rig) confirmed(source string) event.Confirm {
	r.t.Helper()
	c, err := r.l.Confirm(source)
	if err != nil {
		r.t.Fatalf("confirm %s: %v", source, err)
	}
	named := c
	named.Ledger = "main"
	doc, err := event.EncodeConfirm(&named)
	if err == nil {
		_, err = event.DecodeConfirm(doc)
	}
	if err != nil {
		r.t.Fatalf("confirmation of %s: %v\n%s", source, err, doc)
	}
	return c
}

func numberIn(tankID string, epoch, seq int) string {
	return fmt.Sprintf(`{"event_id":"%s-%d-%d","tank":%q,"source":"dev","epoch":%d,"seq":%d,"amount":1,"clock":"unsynced","age":1}`,
		tankID, epoch, seq, tankID, epoch, seq)
}

func (r *rig) numbers(tankID string, epoch int, seqs ...int) {
	r.t.Helper()
	var list []Delivery
	for _, n := range seqs {
		list = append(list, deliveryOf("consumed", numberIn(tankID, epoch, n), false))
	}
	if _, err := r.l.Apply(list); err != nil {
		r.t.Fatal(err)
	}
	r.clk.now = r.clk.now.Add(time.Second)
}

func everySecond(n int) (seqs []int) {
	for i := 2; i <= 2*n; i += 2 {
		seqs = append(seqs, i)
	}
	return seqs
}

func skip(epoch int, id, runs string) string {
	return fmt.Sprintf(`{"event_id":%q,"tank":"A","source":"dev","skips":%s,"skips_epoch":%d,"occurred_at":%s}`, id, runs, epoch, ago(5))
}

func TestConfirm(t *testing.T) {
	t.Run("of the contract", func(t *testing.T) {
		r := newRig(t)
		r.numbers("A", 7, 1, 2, 3, 7)
		s, _ := r.l.Status()
		want := event.Confirm{Incarnation: s.Incarnation, Source: "dev", NewestEpoch: 7,
			Streams: []event.ConfirmStream{{Epoch: 7, Tank: "A", Through: 7, Missing: []event.Range{{From: 4, To: 6}}}}}
		if diff := cmp.Diff(want, r.confirmed("dev")); diff != "" {
			t.Errorf("confirmation (-want +got):\n%s", diff)
		}
		r.numbers("A", 7, 5, 4, 6)
		r.want("healed", r.confirmed("dev").Streams, "[{7 A 7 []}]")
		r.want("nobody", len(r.confirmed("nobody").Streams), 0)
	})
	t.Run("skipped is not asked for again, and is new if it comes", func(t *testing.T) {
		r := newRig(t)
		r.numbers("A", 1, 1, 9)
		r.play(step{"skipped", skip(1, "s1", "[[1,4],[6,6]]"), "applied", false}, step{"skipped", skip(1, "s2", "[[3,3],[8,20]]"), "applied", false})
		r.want("wanted", r.confirmed("dev").Streams, "[{1 A 9 [{5 5} {7 7}]}]")
		sources, _ := r.l.Sources()
		r.want("shown", sources[0].Streams[0].Skipped, "[[2 4] [6 6] [8 8]]")
		r.play(step{"consumed", numberIn("A", 1, 4), "applied", false})
		sources, _ = r.l.Sources()
		r.want("one less", sources[0].Streams[0].Skipped, "[[2 3] [6 6] [8 8]]")
	})
	t.Run("numbers of a refused event are accounted for", func(t *testing.T) {
		r := newRig(t, Tank{ID: "A"}).with(func(o *Options) { o.Closed = true })
		r.numbers("A", 3, 1)
		r.numbers("Z", 3, 1, 2, 4)
		r.play(step{"consumed", `{"event_id":"v","tank":"A","source":"dev","epoch":9007199254740991,"seq":2,"v":2}`, "quarantined/unsupported_version", false})
		c := r.confirmed("dev")
		r.want("newest epoch", c.NewestEpoch, 3)
		r.want("streams", c.Streams, "[{9007199254740991 A 2 [{1 1}]} {3 A 1 []} {3 Z 4 [{3 3}]}]")
	})
	t.Run("fenced", func(t *testing.T) {
		r := newRig(t)
		r.numbers("A", 1, 1)
		r.numbers("A", 2, 1)
		r.want("calm", r.confirmed("dev").Fenced, "[]")
		for epoch := 1; epoch <= 2; epoch++ {
			r.send("consumed", strings.Replace(numberIn("A", epoch, 1), `"amount":1`, `"amount":2`, 1))
		}
		r.want("newest first", r.confirmed("dev").Fenced, "[2 1]")
	})
}

// An earlier epoch is named while something of it is missing, and for a while after
// it was heard: also after a repeat, for its source sends what no confirmation
// names again and again.
func TestConfirmNamesEarlierEpochs(t *testing.T) {
	r := newRig(t)
	r.numbers("A", 1, 1, 2)
	r.numbers("B", 1, 1)
	r.numbers("A", 2, 1, 3)
	r.numbers("A", 3, 1)
	r.want("just heard", r.confirmed("dev").Streams, "[{3 A 1 []} {2 A 3 [{2 2}]} {1 A 2 []} {1 B 1 []}]")
	r.clk.now = r.clk.now.Add(ConfirmRecent)
	r.want("open, and the newest of each tank", r.confirmed("dev").Streams, "[{3 A 1 []} {2 A 3 [{2 2}]} {1 B 1 []}]")
	r.play(step{"consumed", numberIn("A", 1, 2), "duplicate", false})
	r.want("after a repeat", r.confirmed("dev").Streams, "[{3 A 1 []} {2 A 3 [{2 2}]} {1 A 2 []} {1 B 1 []}]")
	r.reopen()
	r.clk.now = r.clk.now.Add(ConfirmRecent)
	r.play(step{"skipped", skip(2, "s", "[[2,2]]"), "applied", false})
	r.want("what is declared skipped is not open", r.confirmed("dev").Streams, "[{3 A 1 []} {1 B 1 []}]")
}

// What has no room among the ranges must not be taken for confirmed.
func TestConfirmBeyondItsRanges(t *testing.T) {
	r := newRig(t)
	r.numbers("A", 5, everySecond(200)...)
	c := r.confirmed("dev")
	s := c.Streams[0]
	if !c.More || len(s.Missing) != event.MaxConfirmRanges || s.Through != s.Missing[len(s.Missing)-1].To+1 {
		t.Errorf("more %v, through %d, %d ranges up to %v", c.More, s.Through, len(s.Missing), s.Missing[len(s.Missing)-1])
	}
	r.numbers("A", 6, 1, 3)
	r.numbers("B", 6, everySecond(3)...)
	c = r.confirmed("dev")
	r.want("the old gaps do not hide the new ones", c.Streams[:2], "[{6 A 3 [{2 2}]} {6 B 6 [{1 1} {3 3} {5 5}]}]")
	r.want("ranges in all", len(c.Streams[2].Missing), event.MaxConfirmRanges-4)
	for seq := 1; seq < 400; seq += 2 {
		r.numbers("A", 5, seq)
	}
	r.want("healed", r.confirmed("dev").Streams[2], "{5 A 400 []}")
	r.want("no more", r.confirmed("dev").More, false)
}

// Whatever came and was declared skipped: what a confirmation says is true, and it
// says everything where there is room.
func TestConfirmSaysWhatIsTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRigIn(t, memoryDir(t))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		type key struct {
			tank  string
			epoch int
		}
		met, skipped := map[key]map[uint64]bool{}, map[int]map[uint64]bool{1: {}, 2: {}}
		for _, k := range []key{{"A", 1}, {"A", 2}, {"B", 2}} {
			met[k] = map[uint64]bool{}
			var seqs []int
			for n := 1; n <= 20+rng.IntN(120); n++ {
				if rng.IntN(3) > 0 {
					seqs = append(seqs, n)
					met[k][uint64(n)] = true
				}
			}
			rng.Shuffle(len(seqs), func(i, j int) { seqs[i], seqs[j] = seqs[j], seqs[i] })
			r.numbers(k.tank, k.epoch, seqs...)
		}
		for i := range rng.IntN(6) {
			epoch, from := 1+rng.IntN(2), 1+rng.IntN(100)
			to := from + rng.IntN(30)
			r.send("skipped", skip(epoch, fmt.Sprint("s", i), fmt.Sprintf("[[%d,%d]]", from, to)))
			for n := from; n <= to; n++ {
				skipped[epoch][uint64(n)] = true
			}
		}
		c := r.confirmed("dev")
		for _, s := range c.Streams {
			k, most := key{s.Tank, int(s.Epoch)}, uint64(0)
			for n := range met[k] {
				most = max(most, n)
			}
			for n := uint64(1); n <= s.Through; n++ {
				asked := slices.ContainsFunc(s.Missing, func(g event.Range) bool { return g.From <= n && n <= g.To })
				want := !met[k][n] && !(s.Tank == "A" && skipped[int(s.Epoch)][n])
				if asked != want {
					rt.Fatalf("%v: %d is asked for: %v, want %v, in %+v", k, n, asked, want, c)
				}
			}
			if s.Through != most && !c.More {
				rt.Fatalf("%v: through %d of %d without more: %+v", k, s.Through, most, c)
			}
		}
		r.end()
	})
}

func TestConfirmIsBounded(t *testing.T) {
	long := strings.Repeat("n", event.MaxNameBytes)
	c := event.Confirm{Ledger: long, Incarnation: event.MaxEpoch, Source: long, NewestEpoch: event.MaxEpoch, More: true}
	for range event.MaxConfirmFenced {
		c.Fenced = append(c.Fenced, event.MaxEpoch)
	}
	for range confirmStreams {
		c.Streams = append(c.Streams, event.ConfirmStream{Epoch: event.MaxEpoch, Tank: long, Through: event.MaxSeq})
	}
	for i := range uint64(event.MaxConfirmRanges) {
		n := event.MaxSeq - 2*(event.MaxConfirmRanges-i)
		c.Streams[0].Missing = append(c.Streams[0].Missing, event.Range{From: n, To: n})
	}
	doc, err := event.EncodeConfirm(&c)
	if err == nil {
		_, err = event.DecodeConfirm(doc)
	}
	if err != nil {
		t.Errorf("the largest document has %d bytes: %v", len(doc), err)
	}

	r := newRig(t).with(func(o *Options) { o.MaxTanks = 1000 })
	var list []Delivery
	for i := range confirmStreams + 10 {
		list = append(list, deliveryOf("consumed", numberIn(fmt.Sprintf("T%d", i), 1, 2), false))
	}
	if _, err := r.l.Apply(list); err != nil {
		t.Fatal(err)
	}
	got := r.confirmed("dev")
	if len(got.Streams) != confirmStreams || !got.More {
		t.Errorf("%d streams, more %v", len(got.Streams), got.More)
	}
}

func TestTouchedSources(t *testing.T) {
	r := newRig(t)
	from := func(source, rest string) string {
		return fmt.Sprintf(`{"event_id":"e","tank":"A","source":%q,%s}`, source, rest)
	}
	r.want("at the start", r.l.TakeTouched(), "[]")
	r.play(step{"consumed", `{"event_id":"x","tank":"A","amount":1}`, "applied", false},
		step{"consumed", from("plain", `"amount":1`), "applied", false},
		step{"consumed", from("b", `"amount":1,"epoch":1,"seq":1`), "applied", false},
		step{"consumed", from("stranger", `"v":2,"epoch":1,"seq":1`), "quarantined/unsupported_version", false},
		step{"consumed", from("a", `"amount":1,"epoch":1,"seq":1`), "applied", false})
	r.want("who is numbered and known", r.l.TakeTouched(), "[a b]")
	r.want("once", r.l.TakeTouched(), "[]")
	r.play(step{"consumed", from("a", `"amount":2,"epoch":1,"seq":1`), "conflict", false})
	r.want("fenced", r.l.TakeTouched(), "[a]")
	r.play(step{"skipped", `{"event_id":"s","tank":"A","source":"b","skips":[[2,2]],"skips_epoch":1}`, "applied", false})
	r.want("skipped", r.l.TakeTouched(), "[b]")
}

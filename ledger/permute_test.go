package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// stateOf writes out every row of the account but what hangs on the receipt, for
// sets of events whose clocks were all usable. Left out are
//
//   - journal, quarantine and quarorder: they are the order of arrival
//   - of entries the outcome and the journal row: what was decided at the receipt
//     (that an event was accepted stays)
//   - of seen, sources and epochs the first and last receipt, and how often a source
//     was heard
//   - of tanks the receipt of its registration and the revision
//   - of meta all but the facts and the counts of what is there
func (b *batch) stateOf() (string, error) {
	var s strings.Builder
	line := func(bucket string, key []byte, v any) { fmt.Fprintf(&s, "%s %q %+v\n", bucket, key, v) }
	whole := func(name string, bucket *bbolt.Bucket) error {
		return bucket.ForEach(func(k, v []byte) error {
			line(name, k, fmt.Sprintf("%x", v))
			return nil
		})
	}
	fmt.Fprintf(&s, "meta facts %s tanks %d sources %d parked %d\n", b.meta.facts, b.meta.tanks, b.meta.sources, b.meta.parked)
	return s.String(), errors.Join(
		b.entries.ForEach(func(k, v []byte) error {
			n, err := decodeEntry(v)
			if n.outcome.Accepted() {
				n.outcome = Applied
			}
			n.lsn = 0
			line("entries", k, n)
			return err
		}),
		b.seenRows.ForEach(func(k, v []byte) error {
			r, err := decodeSeen(v)
			if err == nil {
				line("seen", k, []any{r.low, r.above, r.fenced, r.most})
			}
			return err
		}),
		b.sourceRows.ForEach(func(k, v []byte) error {
			r, err := decodeSource(v)
			if err == nil {
				line("sources", k, []any{r.newest, r.named, r.unsynced})
			}
			return err
		}),
		b.epochs.ForEach(func(k, _ []byte) error {
			line("epochs", k, "")
			return nil
		}),
		b.tanks.ForEach(func(k, v []byte) error {
			a, err := decodeTank(string(k), v)
			if err == nil {
				a.registered, a.revision = 0, 0
				line("tanks", k, fmt.Sprintf("%x", a.encode()))
			}
			return err
		}),
		whole("heads", b.heads), whole("moves", b.moves), whole("runs", b.runRows), whole("skipped", b.skipped),
		whole("operations", b.operations), whole("reversals", b.reversals), whole("ids", b.ids))
}

// statesInEveryOrder applies the set in every order there is, each in a transaction
// that is rolled back, and fails where two orders differ in digest or state.
func statesInEveryOrder(t fataler, r *rig, set []Delivery, wholeState bool) (orders int) {
	undo := errors.New("undone")
	first, firstOrder := "", ""
	permute(len(set), func(order []int) {
		orders++
		state := ""
		err := r.l.update(func(b *batch) error {
			for _, i := range order {
				if _, err := b.apply(&set[i]); err != nil {
					return err
				}
			}
			if err := b.flush(); err != nil {
				return err
			}
			digest, err := b.digest()
			if err != nil {
				return err
			}
			if wholeState {
				if state, err = b.stateOf(); err != nil {
					return err
				}
			}
			state = digest + "\n" + state
			if orders%97 == 1 { // as dear as all the rest
				if err := b.check(); err != nil {
					return err
				}
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatalf("order %v: %v", order, err)
		}
		if first == "" {
			first, firstOrder = state, fmt.Sprint(order)
		}
		if state != first {
			t.Fatalf("order %v gives\n%s\norder %v gives\n%s", firstOrder, first, order, state)
		}
	})
	return orders
}

type fataler interface{ Fatalf(string, ...any) }

// permute calls visit with every order of n things (Heap's algorithm).
func permute(n int, visit func([]int)) {
	order, count := make([]int, n), make([]int, n)
	for i := range order {
		order[i] = i
	}
	visit(order)
	for i := 1; i < n; {
		if count[i] == i {
			count[i] = 0
			i++
			continue
		}
		j := 0
		if i%2 == 1 {
			j = count[i]
		}
		order[i], order[j] = order[j], order[i]
		visit(order)
		count[i]++
		i = 1
	}
}

// nasty sets, each with what makes its order matter to a careless account.
var nasty = []struct {
	what string
	msgs [][2]string
}{
	{"snapshots and deltas of one stream, and a gap declared (FC-24, FC-25, FC-26)", [][2]string{
		{"measured", measured(1, 5, 110)}, {"consumed", consumed(1, 11, 3)}, {"measured", measured(1, 10, 100)},
		{"consumed", consumed(1, 7, 2)}, {"refilled", consumed(1, 12, 4)},
		{"skipped", `{"event_id":"s","tank":"A","source":"dev","skips":[[1,4],[6,6],[7,8]],"skips_epoch":1,"occurred_at":` + ago(1) + `}`}}},
	{"one operation wanted by many, its winner reversed twice", [][2]string{
		op("a", "s", 1, 9), op("b", "s", 2, 5), op("c", "s-1", 4, 9), op("z", "", 8, 9),
		{"reversed", `{"event_id":"x","tank":"A","source":"s","reverses":"z","reverses_source":"","occurred_at":` + ago(3) + `}`},
		{"reversed", `{"event_id":"y","tank":"A","reverses":"z","occurred_at":` + ago(2) + `}`},
		{"measured", `{"event_id":"m","tank":"A","remaining":50,"occurred_at":` + ago(7) + `}`}}},
	{"reversals early, late and of what never comes, across a snapshot", [][2]string{
		{"consumed", `{"event_id":"c","tank":"A","source":"dev","amount":5,"occurred_at":` + ago(10) + `}`},
		{"refilled", `{"event_id":"r","tank":"A","source":"dev","amount":7,"occurred_at":` + ago(3) + `}`},
		{"reversed", `{"event_id":"xc","tank":"A","source":"dev","reverses":"c","occurred_at":` + ago(1) + `}`},
		{"reversed", `{"event_id":"xr","tank":"A","reverses":"r","reverses_source":"dev","occurred_at":` + ago(20) + `}`},
		{"reversed", `{"event_id":"xn","tank":"A","reverses":"never","occurred_at":` + ago(2) + `}`},
		{"measured", `{"event_id":"m","tank":"A","source":"dev","remaining":50,"occurred_at":` + ago(5) + `}`},
		{"measured", `{"event_id":"n","tank":"A","source":"dev","remaining":60,"occurred_at":` + ago(15) + `}`}}},
	{"covers that come, go back and go", [][2]string{
		{"measured", `{"event_id":"p","tank":"A","remaining":100,"occurred_at":` + ago(60) + `,"covers":{"dev":[1,20]}}`},
		{"measured", `{"event_id":"q","tank":"A","remaining":90,"occurred_at":` + ago(40) + `}`},
		{"measured", `{"event_id":"r","tank":"A","remaining":80,"occurred_at":` + ago(20) + `,"covers":{"dev":[1,2],"flow":[9,9]}}`},
		meter("dev", 1, 2, 3, 10), meter("dev", 1, 3, 5, 50), meter("dev", 1, 25, 7, 30), meter("flow", 9, 10, 11, 70)}},
	{"epochs that come back", [][2]string{
		{"measured", measured(1, 900, 50)}, {"measured", measured(2, 1, 48)}, {"consumed", consumed(1, 901, 1)},
		{"consumed", consumed(2, 2, 1)}, {"consumed", consumed(3, 1, 2)}, {"measured", measured(1, 902, 49)}}},
	{"runs that stand for others, and skipped numbers that come", [][2]string{
		{"consumed", standsFor(1, 3, 10)}, {"consumed", consumed(1, 4, 2)}, {"refilled", standsFor(7, 9, 20)},
		{"skipped", `{"event_id":"s","tank":"A","source":"dev","skips":[[5,6]],"skips_epoch":1,"occurred_at":` + ago(1) + `}`},
		{"consumed", consumed(1, 5, 4)}, {"measured", measured(1, 6, 70)}, {"measured", measured(1, 12, 60)}}},
	{"everything at one instant", [][2]string{
		{"measured", `{"event_id":"a","tank":"A","remaining":1,"occurred_at":` + ago(5) + `}`},
		{"measured", `{"event_id":"b","tank":"A","remaining":2,"occurred_at":` + ago(5) + `}`},
		{"measured", `{"event_id":"a","tank":"A","source":"s","remaining":3,"occurred_at":` + ago(5) + `}`},
		{"measured", `{"event_id":"c","tank":"A","source":"s","epoch":1,"seq":1,"remaining":4,"occurred_at":` + ago(5) + `}`},
		{"consumed", `{"event_id":"d","tank":"A","source":"s","epoch":1,"seq":2,"amount":5,"occurred_at":` + ago(5) + `}`},
		{"refilled", `{"event_id":"e","tank":"A","amount":6,"occurred_at":` + ago(5) + `}`}}},
	{"a clock that goes back within one stream", [][2]string{
		meter("flow", 1, 1, 1, 10), meter("flow", 1, 2, 2, 90), meter("flow", 1, 4, 4, 50), meter("flow", 1, 9, 8, 70),
		{"measured", `{"event_id":"m","tank":"A","source":"flow","epoch":1,"seq":3,"remaining":40,"occurred_at":` + ago(20) + `}`},
		{"measured", `{"event_id":"n","tank":"A","source":"flow","epoch":1,"seq":5,"remaining":30,"occurred_at":` + ago(80) + `}`},
		{"measured", `{"event_id":"o","tank":"A","remaining":35,"occurred_at":` + ago(60) + `}`}}},
}

func op(id, source string, amount, seconds int) [2]string {
	msg := fmt.Sprintf(`{"event_id":%q,"tank":"A","source":%q,"amount":%d,"operation":"o","occurred_at":%s}`, id, source, amount, ago(seconds))
	return [2]string{"consumed", strings.Replace(msg, `"source":"",`, "", 1)}
}

func meter(source string, epoch, seq, amount, seconds int) [2]string {
	return [2]string{"consumed", fmt.Sprintf(`{"event_id":"%s-%d","tank":"A","source":%q,"epoch":%d,"seq":%d,"amount":%d,"occurred_at":%s}`,
		source, seq, source, epoch, seq, amount, ago(seconds))}
}

func standsFor(from, seq int, g float64) string {
	return strings.Replace(consumed(1, seq, g), `"amount"`, fmt.Sprintf(`"stands_for":[%d,%d],"amount"`, from, seq), 1)
}

// FC-26, every order: the rows are byte-identical.
func TestFC26EveryOrderOfNastySets(t *testing.T) {
	for _, c := range nasty {
		t.Run(c.what, func(t *testing.T) {
			r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
			t.Log(statesInEveryOrder(t, r, deliveries(t, c.msgs), true), "orders")
		})
	}
}

func deliveries(t *testing.T, msgs [][2]string) (set []Delivery) {
	for _, m := range msgs {
		d := deliveryOf(m[0], m[1], false)
		if d.Form != nil {
			t.Fatalf("%s: %v", m[1], d.Form)
		}
		set = append(set, d)
	}
	return set
}

func TestEveryOrderOfRandomSets(t *testing.T) {
	r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
	rapid.Check(t, func(rt *rapid.T) { statesInEveryOrder(rt, r, drawEvents(rt, 2, 5), true) })
}

// Reversals of what is no delta, or of another tank's, are accepted when they come
// first and refused when they come last: rows differ, the digest does not.
func TestEveryOrderOfReversalsThatGoAstray(t *testing.T) {
	reversal := func(id, tank, target string) [2]string {
		return [2]string{"reversed", fmt.Sprintf(`{"event_id":%q,"tank":%q,"reverses":%q,"occurred_at":%s}`, id, tank, target, ago(5))}
	}
	m := [2]string{"measured", `{"event_id":"m","tank":"A","remaining":50,"occurred_at":` + ago(9) + `}`}
	c := [2]string{"consumed", `{"event_id":"c","tank":"A","amount":5,"occurred_at":` + ago(7) + `}`}
	for what, msgs := range map[string][][2]string{
		"of a snapshot, and of that reversal": {m, reversal("x", "A", "m"), reversal("y", "A", "x"), reversal("z", "A", "y"), c},
		"from a tank unheard of":              {m, c, reversal("x", "B", "c"), reversal("y", "B", "m"), reversal("z", "A", "c")},
		"of what is refused": {c, reversal("x", "A", "v"), reversal("y", "A", "w"), reversal("z", "A", "x"),
			{"measured", `{"event_id":"v","tank":"A","v":2}`}, {"consumed", `{"event_id":"w","tank":"A","v":2}`}},
		"of each other": {m, c, reversal("x", "A", "y"), reversal("y", "A", "x"), reversal("z", "A", "z")},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(500)})
			statesInEveryOrder(t, r, deliveries(t, msgs), false)
		})
	}
}

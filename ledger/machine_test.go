package ledger

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"

	"oxyd/internal/event"
)

var sequences = flag.Int("sequences", 200, "sequences of the state machine (10000 in the long run, with -timeout 60m)")

// The ledger on a real file and the model get the same deliveries and must answer
// the same after every step, whatever happens on the way: redelivery, reordering,
// lost acknowledgements, crashes, restored and cloned boards, clocks that jump, a
// ledger set back to a backup.
//
//	go test ./ledger -run TestMachine -sequences 10000 -timeout 60m
//
// A failure prints the steps that led there, made as short as could be, with the
// flags that play them again: -rapid.seed=N, or -rapid.failfile=F of the file left
// in testdata/rapid.
func TestMachineAgainstTheModel(t *testing.T) {
	checks, steps := flag.Lookup("rapid.checks"), flag.Lookup("rapid.steps")
	for f, v := range map[*flag.Flag]string{checks: strconv.Itoa(*sequences), steps: "40"} {
		old := f.Value.String()
		if old == f.DefValue {
			_ = f.Value.Set(v)
			t.Cleanup(func() { _ = f.Value.Set(old) })
		}
	}
	dir, n := memoryDir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := newWorld(t, rt, fmt.Sprintf("%s/%d", dir, n))
		defer w.end()
		rt.Repeat(map[string]func(*rapid.T){
			"":                          w.agree,
			"publish":                   w.publish,
			"publish more":              w.publish,
			"publish without a number":  w.publishUnnumbered,
			"deliver":                   w.deliver,
			"deliver more":              w.deliver,
			"deliver still more":        w.deliver,
			"deliver and lose the acks": w.deliverUnacknowledged,
			"fail a transaction":        w.failTransaction,
			"redeliver":                 w.redeliver,
			"reorder":                   w.reorder,
			"mutate":                    w.mutate,
			"retain":                    w.retain,
			"garble":                    w.garble,
			"skip":                      w.skip,
			"restart the ledger":        w.restart,
			"new epoch":                 w.newEpoch,
			"take an image":             w.takeImage,
			"restore an image":          w.restoreImage,
			"clone a board":             w.clone,
			"set a board's clock":       w.setBoardClock,
			"set the ledger's clock":    w.setLedgerClock,
			"back up":                   w.backUp,
			"set back to the backup":    w.setBack,
		})
	})
}

// world is one run: the boards that publish, what is under way, the ledger that
// receives it and the model that says what the ledger must answer.
type world struct {
	r      *rig
	m      *model
	now    time.Time     // true time
	ahead  time.Duration // of the ledger's clock
	boards []*board
	ids    int               // given so far
	epochs uint64            // the newest given
	sent   []Delivery        // all that was ever published
	queue  []Delivery        // under way
	last   map[string]uint64 // revisions
	story  []string          // what reached the ledger, for the failure
	backup *backup
}

type backup struct {
	file  []byte
	model *model
}

func newWorld(t *testing.T, rt *rapid.T, dir string) *world {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		rt.Fatal(err)
	}
	w := &world{now: noon, last: map[string]uint64{},
		r: newRigIn(t, dir, Tank{ID: "A", Initial: grams(500)}, Tank{ID: "B"})}
	// The model forgets nothing: what pruning may change, and what not, is the matter
	// of TestPruningChangesNothing.
	w.r.with(func(o *Options) { o.History = 1 << 62 })
	w.m = newModel(w.r.receipt(rt), map[string]*physic.Mass{"A": grams(500), "B": nil})
	for _, source := range []string{"m1", "m2"} {
		w.epochs += 10
		w.boards = append(w.boards, newBoard(source, w.epochs))
	}
	return w
}

// receipt is the last receipt instant given.
func (r *rig) receipt(t *rapid.T) int64 {
	s, err := r.l.Status()
	if err != nil || s.LastReceipt == nil {
		t.Fatalf("status: %v", err)
	}
	return s.LastReceipt.UnixNano()
}

func (w *world) end() {
	if w.r.l != nil {
		w.r.l.Close()
		w.r.l = nil
	}
	os.RemoveAll(filepath.Dir(w.r.opt.Path))
}

// clock sets what the ledger's clock shows; true time goes on by up to three seconds.
func (w *world) tick(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
	w.r.clk.now = w.now.Add(w.ahead)
}

func (w *world) send(e event.Event) {
	d := deliveryOf(e.Type.Topic(), string(e.AppendJSON(nil)), false)
	w.sent = append(w.sent, d)
	w.queue = append(w.queue, d)
}

// batch cuts the next deliveries off the queue's front.
func (w *world) batch(t *rapid.T) []Delivery {
	if len(w.queue) == 0 {
		t.Skip("nothing under way")
	}
	return w.queue[:rapid.IntRange(1, min(len(w.queue), 8)).Draw(t, "batch")]
}

// apply gives a batch to both and compares what they decide.
func (w *world) apply(t *rapid.T, batch []Delivery) {
	w.tick(t)
	got, err := w.r.l.Apply(batch)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	for i := range batch {
		outcome, reason := w.m.apply(&batch[i], w.r.clk.now)
		w.tell("%s %s%s %s: %s/%s", w.r.clk.now.Format("01-02 15:04:05"), batch[i].Event.Type, pick(batch[i].Retained, " retained", ""),
			batch[i].Payload, outcome, reason)
		if got[i].Outcome != outcome || got[i].Reason != reason {
			w.fail(t, "the ledger says %s/%s", got[i].Outcome, got[i].Reason)
		}
	}
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// fail tells what led here.
func (w *world) fail(t *rapid.T, format string, args ...any) {
	t.Fatalf("%s\n%s", strings.Join(w.story, "\n"), fmt.Sprintf(format, args...))
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func (w *world) deliver(t *rapid.T) {
	batch := w.batch(t)
	w.apply(t, batch)
	w.queue = w.queue[len(batch):]
}

func (w *world) deliverUnacknowledged(t *rapid.T) {
	w.apply(t, w.batch(t)) // committed, but the process dies before it acknowledges
	w.restart(t)
}

func (w *world) restart(t *rapid.T) {
	w.tell("restart")
	w.r.reopen()
	w.m.receipt = w.r.receipt(t) // opening tanks takes receipt instants
}

// failTransaction lets everything be written but the commit.
func (w *world) failTransaction(t *rapid.T) {
	batch := w.batch(t)
	w.tick(t)
	boom := errors.New("power gone")
	err := w.r.l.update(func(b *transaction) error {
		for i := range batch {
			if _, err := b.apply(&batch[i]); err != nil {
				return err
			}
		}
		return errors.Join(boom, b.flush())
	})
	if !errors.Is(err, boom) {
		t.Fatalf("update: %v, want %v", err, boom)
	}
	if rapid.Bool().Draw(t, "and die") {
		w.restart(t)
	}
}

// transaction is the ledger's batch; here a batch is a slice of deliveries.
type transaction = batch

func (w *world) redeliver(t *rapid.T) {
	if len(w.sent) == 0 {
		t.Skip("nothing sent")
	}
	for range rapid.IntRange(1, 3).Draw(t, "copies") {
		w.queue = append(w.queue, rapid.SampledFrom(w.sent).Draw(t, "again"))
	}
}

func (w *world) reorder(t *rapid.T) {
	if len(w.queue) < 2 {
		t.Skip("nothing to reorder")
	}
	w.queue = rapid.Permutation(w.queue).Draw(t, "order")
}

func (w *world) takeImage(t *rapid.T) { rapid.SampledFrom(w.boards).Draw(t, "board").takeImage() }

// restoreImage: the card of an earlier day. The board repeats the numbers it has
// given since: byte for byte what it still has, then with what it measures now.
func (w *world) restoreImage(t *rapid.T) {
	b := rapid.SampledFrom(w.boards).Draw(t, "board")
	if b.image == nil {
		t.Skip("no image")
	}
	w.queue = append(w.queue, b.restore(rapid.IntRange(0, 3).Draw(t, "rows kept"))...)
}

// clone makes a second board with the first one's card, name and epoch.
func (w *world) clone(t *rapid.T) {
	if len(w.boards) > 4 {
		t.Skip("enough boards")
	}
	w.boards = append(w.boards, rapid.SampledFrom(w.boards).Draw(t, "board").copy())
}

// newEpoch: the board's store is opened anew, or is blank. Without a known time the
// epoch may come out below the newest.
func (w *world) newEpoch(t *rapid.T) {
	b := rapid.SampledFrom(w.boards).Draw(t, "board")
	if rapid.IntRange(0, 3).Draw(t, "clock unknown") == 0 {
		b.begin(w.epochs - uint64(rapid.IntRange(1, 9).Draw(t, "below")))
		return
	}
	w.epochs += 10
	b.begin(w.epochs)
}

var jumps = []time.Duration{0, 0, 0, -5 * time.Second, 9 * time.Second, 11 * time.Second, -time.Hour, 24 * time.Hour,
	-40 * 24 * time.Hour, 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour}

func (w *world) setBoardClock(t *rapid.T) {
	b := rapid.SampledFrom(w.boards).Draw(t, "board")
	b.ahead = rapid.SampledFrom(jumps).Draw(t, "ahead")
	b.clock = rapid.SampledFrom([]string{"synced", "synced", "synced", "none", "unsynced", "age"}).Draw(t, "clock")
}

func (w *world) setLedgerClock(t *rapid.T) { w.ahead = rapid.SampledFrom(jumps).Draw(t, "ahead") }

func (w *world) backUp(t *rapid.T) {
	f, err := os.CreateTemp(filepath.Dir(w.r.opt.Path), "backup")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err = w.r.l.Backup(f, func(int64) {}); err != nil {
		t.Fatalf("backup: %v", err)
	}
	file, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	w.backup = &backup{file, w.m.copy()}
}

// setBack puts the backup in the place of the ledger; then the edges send all that
// they have once more.
func (w *world) setBack(t *rapid.T) {
	if w.backup == nil {
		t.Skip("no backup")
	}
	if err := w.r.l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.r.opt.Path, w.backup.file, 0o600); err != nil {
		t.Fatal(err)
	}
	w.tell("set back to the backup")
	w.r.open()
	w.m, w.last = w.backup.model.copy(), map[string]uint64{}
	w.m.receipt = w.r.receipt(t)
	w.queue = append(w.queue, w.sent...)
	if rapid.Bool().Draw(t, "catch up at once") {
		for len(w.queue) > 0 {
			w.deliver(t)
		}
	}
}

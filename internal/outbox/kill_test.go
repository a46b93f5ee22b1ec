package outbox

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"oxyd/internal/clock"
	"oxyd/internal/event"
)

// childEnv makes the test binary a node that appends and says what it was
// promised; countEnv bounds how often.
const (
	childEnv = "OXYD_TEST_OUTBOX"
	countEnv = "OXYD_TEST_OUTBOX_COUNT"
)

var seedFlag = flag.Uint64("outbox.seed", 0, "seed of TestKilledAgainAndAgain; 0 draws one")

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
	}
	os.Exit(m.Run())
}

// child appends readings and deltas, drains now and then, and prints the ids that
// Append has acknowledged and, before their Confirm, the rows that it takes out.
func child(path string) {
	var limit int
	fmt.Sscan(os.Getenv(countEnv), &limit)
	system, err := clock.New()
	if err != nil {
		panic(err)
	}
	o := testOptions(path, system)
	b, err := Open(o)
	if err != nil {
		panic(err)
	}
	for i := 0; limit == 0 || i < limit; i++ {
		r, err := b.Append(snapshot("A", int64(i)), delta([]string{"A", "B"}[i%2], 1))
		if err != nil {
			panic(err)
		}
		fmt.Println("ack", r[0].ID)
		fmt.Println("ack", r[1].ID)
		if i%7 == 6 {
			rows, err := b.Next(0, 5)
			if err != nil {
				panic(err)
			}
			var numbers []uint64
			for _, row := range rows {
				numbers = append(numbers, row.Row)
			}
			if err := b.Confirm(numbers); err != nil {
				panic(err)
			}
		}
	}
	fmt.Println("done")
	select {} // until it is killed
}

// runChild kills the node, with the signal that nobody can catch, after it has
// printed lines of them or is done, and gives what it printed.
func runChild(t *testing.T, path string, lines, limit int) (acked []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, fmt.Sprintf("%s=%d", countEnv, limit))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	in := bufio.NewScanner(out)
	for killed := false; in.Scan(); {
		if id, ok := strings.CutPrefix(in.Text(), "ack "); ok {
			acked = append(acked, id)
		}
		if !killed && (len(acked) >= lines || in.Text() == "done") {
			cmd.Process.Kill()
			killed = true // and read on: what was printed was promised
		}
	}
	cmd.Wait()
	return acked
}

// The outbox's part of FC-04: no broker, three readings, kill -9.
func TestFC04ReadingsOfABootWithoutBrokerSurviveAKill(t *testing.T) {
	file := path(t)
	acked := runChild(t, file, 1<<30, 3)
	if len(acked) != 6 {
		t.Fatalf("acknowledged %q, want three readings and three deltas", acked)
	}
	b := open(t, testOptions(file, newClock()))
	got := map[string]bool{}
	for _, e := range drain(t, b) {
		got[e.ID] = true
	}
	for _, id := range acked {
		if !got[id] {
			t.Errorf("%s is gone", id)
		}
	}
}

// Whatever Append has acknowledged is there after a kill, numbers are contiguous
// (Check), and none is given twice over all restarts.
func TestKilledAgainAndAgain(t *testing.T) {
	const kills = 8
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed: go test -run %s -outbox.seed=%d", t.Name(), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	file := path(t)
	var acked []string
	for range kills {
		acked = append(acked, runChild(t, file, 1+random.IntN(60), 0)...)
		b := reopen(t, testOptions(file, newClock()))
		if !mustStats(t, b).Unclean {
			t.Error("clean after a kill")
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, testOptions(file, newClock()))
	seen := map[string]bool{}
	for _, id := range acked {
		if seen[id] {
			t.Errorf("%s was given twice", id)
		}
		seen[id] = true
		if _, found, err := b.Lookup(id); err != nil || !found {
			t.Errorf("%s: found %t, %v: it was acknowledged", id, found, err)
		}
	}
	dots := map[string]bool{}
	for _, e := range drain(t, b) {
		key := fmt.Sprint(e.Tank, e.Dot)
		if dots[key] || e.ID != event.NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq) {
			t.Errorf("number %s twice, or under another's id %s", key, e.ID)
		}
		dots[key] = true
	}
	t.Logf("%d acknowledged over %d kills", len(acked), kills)
}

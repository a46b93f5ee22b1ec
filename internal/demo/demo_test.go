package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/mqtttest"
	"oxyd/ledger"
)

// asConsumer makes this test binary a consumer, as the hidden command makes oxyd.
const asConsumer = "demo-consumer"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asConsumer {
		if err := Consume(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// options makes the consumers leave their process ids in a file, and Run make
// everything in a directory that is watched.
func options(t *testing.T) (o Options, temp, pids string) {
	t.Helper()
	temp, pids = t.TempDir(), filepath.Join(t.TempDir(), "pids")
	t.Setenv("TMPDIR", temp)
	t.Setenv("PIDS", pids)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each consumer ends a second later under -race
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return shell(`exec "$0" `+asConsumer+` "$1"`, program), temp, pids
}

// shell is a consumer that notes its process id and then does what script says.
func shell(script string, args ...string) Options {
	return Options{Consumer: append([]string{"sh", "-c", `echo $$ >>"$PIDS"; ` + script}, args...)}
}

// nothingLeft fails the test if Run left a file or a process behind.
func nothingLeft(t *testing.T, temp, pids string) {
	t.Helper()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	for _, pid := range readPids(t, pids) {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d still lives (%v)", pid, err)
		}
	}
}

func readPids(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// TestEachConsumerDoesAsExpected: the right ones hold 727 g, and the broken ones break
// as expected. What a slow machine may add is a redelivery; nothing else may differ.
func TestEachConsumerDoesAsExpected(t *testing.T) {
	o, temp, pids := options(t)
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, temp, pids)
	if got, want := len(readPids(t, pids)), 10; got != want {
		t.Errorf("%d processes, want %d: five consumers with two lives", got, want)
	}
	if err := res.Err(); err != nil || !res.AsExpected {
		t.Errorf("not as expected: %v", err)
	}
	want := []struct {
		name            string
		holds           string
		right           bool
		first, repeated string // outcomes of e-8842
		late            string // of e-8841
	}{
		{"naive", "", false, "applied", "applied", "ignored"}, // see below
		{"effect, then mark", "607 g", false, "applied", "", "ignored"},
		{"mark, then effect", "847 g", false, "marked", "duplicate", "ignored"},
		{"dedup bucket", "727 g", true, "applied", "duplicate", "applied"},
		{"set to absolute", "727 g", true, "applied", "duplicate", "stale"},
	}
	if len(res.Consumers) != len(want) {
		t.Fatalf("%d consumers, want %d", len(res.Consumers), len(want))
	}
	for i, w := range want {
		c := &res.Consumers[i]
		n := deliveriesOf(c.Deliveries, subject)
		if w.holds == "" {
			w.holds = fmt.Sprintf("%d g", 847-120*n)
		}
		if c.Name != w.name || c.Holds.String() != w.holds || c.Right != w.right || n < 4 {
			t.Errorf("%s holds %s (right: %v) after %d deliveries of e-8842; want %s, %s, %v, 4 or more", c.Name, c.Holds, c.Right, n, w.name, w.holds, w.right)
		}
		checkDeliveries(t, c, w.first, w.repeated, w.late)
	}
	if n := deliveriesOf(res.Consumers[0].Deliveries, subject); n == 4 {
		if got, want := res.Consumers[0].path(), "727* 607 607 487 367"; got != want {
			t.Errorf("the naive one went %s, want %s", got, want)
		}
	}
}

// checkDeliveries wants one killed delivery, the first, a flag on the one after it,
// and the outcomes; repeated may be empty where the first repeat is another than
// those after it.
func checkDeliveries(t *testing.T, c *Consumer, first, repeated, late string) {
	t.Helper()
	for i, d := range c.Deliveries {
		if d.Killed != (i == 0) {
			t.Errorf("%s: delivery %d killed: %v", c.Name, i+1, d.Killed)
		}
		if i == 1 && (!d.Dup || d.EventID != subject) {
			t.Errorf("%s: after the crash the broker delivered %s (dup: %v), want %s again", c.Name, d.EventID, d.Dup, subject)
		}
		want := repeated
		switch {
		case d.EventID == earlier:
			want = late
		case i == 0:
			want = first
		case repeated == "" && i == 1:
			want = outcomeApplied
		case repeated == "":
			want = outcomeDuplicate
		}
		if d.Outcome != want && !(d.EventID == earlier && d.Outcome == outcomeDuplicate && d.Dup) {
			t.Errorf("%s: delivery %d, %s, was %s, want %s", c.Name, i+1, d.EventID, d.Outcome, want)
		}
	}
	if last := c.Deliveries[len(c.Deliveries)-1]; last.Holds != c.Holds {
		t.Errorf("%s held %s after the last delivery, its file holds %s", c.Name, last.Holds, c.Holds)
	}
}

// TestRunThatIsInterrupted leaves neither files nor processes, whatever the
// consumers are at.
func TestRunThatIsInterrupted(t *testing.T) {
	_, temp, pids := options(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, shell("exec cat >/dev/null")) // it never subscribes
		ended <- err
	}()
	mqtttest.Eventually(t, "the consumers to live", func() bool { return len(readPids(t, pids)) == 5 })
	interrupt()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v, want %v", err, context.Canceled)
		}
	case <-time.After(mqtttest.Patience):
		t.Fatal("it does not end")
	}
	nothingLeft(t, temp, pids)
}

// TestConsumerThatFailsIsNamed: a broken environment is an error of the run, with
// what the process said, and not a verdict.
func TestConsumerThatFailsIsNamed(t *testing.T) {
	for script, want := range map[string]string{
		"echo no such thing >&2; exit 3":                             "exit status 3: no such thing",
		"echo done >&2":                                              "exit status 0: done",
		"echo nonsense; exec cat >/dev/null":                         "read its report",
		`echo '{"fault":"disk full"}'; exec cat >/dev/null`:          "disk full",
		`[ "${1#*\"role\":3}" = "$1" ] && exec cat >/dev/null`:       `consumer "dedup bucket": its process ended`,
		`[ "${1#*\"role\":2}" = "$1" ] && exec cat; kill -SEGV "$$"`: `consumer "mark, then effect": its process ended`,
	} {
		t.Run(want, func(t *testing.T) {
			_, temp, pids := options(t)
			res, err := Run(t.Context(), shell(script, "consumer"))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `consumer "`) {
				t.Errorf("got %v, want %q", err, want)
			}
			if res.AsExpected {
				t.Error("as expected all the same")
			}
			nothingLeft(t, temp, pids)
		})
	}
	if _, err := Run(t.Context(), Options{}); err == nil {
		t.Error("it runs without consumers")
	}
}

// TestConsumeEndsWithItsInput: a consumer does not outlive a demonstration that was
// killed itself.
func TestConsumeEndsWithItsInput(t *testing.T) {
	in, parent := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Consume(context.Background(), fmt.Sprintf(`{"role":3,"broker":"127.0.0.1:1","file":%q}`,
			filepath.Join(t.TempDir(), "a.bolt")), in, io.Discard)
	}()
	parent.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(mqtttest.Patience):
		t.Fatal("it lives on")
	}
	for _, bad := range []string{"", "{", `{"role":5}`, `{"role":-1}`, "null"} {
		if err := Consume(t.Context(), bad, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("assignment %q was taken", bad)
		}
	}
}

// TestJudge: a consumer that is not as expected is a fault, the broken ones that do
// not break included.
func TestJudge(t *testing.T) {
	grams := func(n int) ledger.Sum { return ledger.SumOf(physic.Mass(n) * physic.Gram) }
	// Five deliveries: the killed one, the redelivery, the late reading, two copies.
	for i, path := range [][]int{{727, 607, 607, 487, 367}, {727, 607, 607, 607, 607}, {847, 847, 847, 847, 847},
		{727, 727, 727, 727, 727}, {727, 727, 727, 727, 727}} {
		r, end := cast()[i], path[4]
		good := Consumer{Name: r.name, Killed: r.killed, Holds: grams(end)}
		for n, g := range path {
			good.Deliveries = append(good.Deliveries, Delivery{EventID: subject, Killed: n == 0, Dup: n == 1, Holds: grams(g)})
		}
		good.Deliveries[2].EventID = earlier
		if got := r.judge(&good); got != "" {
			t.Errorf("%s as expected is found at fault: %s", r.name, got)
		}
		for want, spoil := range map[string]func(*Consumer){
			"not killed":                       func(c *Consumer) { c.Killed = "" },
			"delivered 3 times":                func(c *Consumer) { c.Deliveries = slices.Delete(c.Deliveries, 3, 4) },
			"nothing again":                    func(c *Consumer) { c.Deliveries[1].Dup = false },
			"e-8841":                           func(c *Consumer) { c.Deliveries[2].EventID = subject },
			"it holds 0 g":                     func(c *Consumer) { c.Holds = grams(0) },
			"after delivery 2 it held 1 g":     func(c *Consumer) { c.Deliveries[1].Holds = grams(1) },
			fmt.Sprintf("expected: %d g", end): func(c *Consumer) { c.Holds = grams(end - 1) },
		} {
			bad := good
			bad.Deliveries = slices.Clone(good.Deliveries)
			spoil(&bad)
			if got := r.judge(&bad); !strings.Contains(got, want) {
				t.Errorf("%s: the verdict is %q, want %q in it", r.name, got, want)
			}
			bad.Fault = want
			res := Result{Consumers: []Consumer{good, bad}}
			if err := res.Err(); err == nil || !strings.Contains(err.Error(), r.name+": "+want) {
				t.Errorf("Err is %v, want it to name %s", err, r.name)
			}
		}
	}
}

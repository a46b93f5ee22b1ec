package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/web"
	"oxyd/ledger"
)

func TestMain(m *testing.M) {
	oxyd := func(args []string) int {
		return Run(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
	}
	testscript.Main(m, map[string]func(){
		"oxyd": func() { os.Exit(oxyd(os.Args[1:])) },
		"usage-code": func() { // CODE oxyd ARGS: done when the exit code is CODE
			if got := strconv.Itoa(oxyd(os.Args[3:])); got != os.Args[1] {
				fmt.Fprintf(os.Stderr, "exit code %s, want %s\n", got, os.Args[1])
				os.Exit(1)
			}
		},
	})
}

// TestScripts runs the command line black-box. Beside testscript's own there are
// the commands
//
//	daemon [MODE]          serve a real account on $WORK/data/oxyd.sock; MODE is
//	                       pending or full, by which POST /api/events answers so,
//	                       or late: a node that announces a redelivery of 2000h
//	daemon stop
//	poison TOPIC "BYTES"   quarantine a message, its bytes in Go's quotes
//	notify KIND SUBJECT "TEXT"  keep a notice for the webhook, its text in Go's quotes
//	publish TYPE TANK JSON apply an event as if it had come over MQTT
//	env-ids                set ID1, ID2 … to the ids in quarantine, oldest first
//	safe stdout            want no character in it that would steer a terminal
//	json stdout            want one JSON document in it
//	answers SOCKET         wait until a daemon there has read its channels
//
// and the condition buses, where this machine has I2C buses.
func TestScripts(t *testing.T) {
	s := &stand{running: map[string]*daemonStub{}}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer under -race
			// Within the window in which an event without a number is decided.
			at := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
			env.Setenv("HOUR_AGO", at.Format(time.RFC3339))
			env.Setenv("HOUR_AGO_EAST", at.In(time.FixedZone("", 3600)).Add(time.Second/4).Format(time.RFC3339Nano))
			env.Setenv("HOUR_AGO_FRACTION", at.Add(time.Second/4).Format(time.RFC3339Nano))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "buses" {
				return false, fmt.Errorf("there is no condition %s", name)
			}
			found, err := filepath.Glob("/dev/i2c-*")
			return len(found) > 0, err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": s.daemon, "poison": s.poison, "notify": s.notify, "publish": s.publish, "env-ids": s.ids, "safe": safe,
			"answers": answersAt, "json": isJSON,
		},
	})
}

// stand holds the daemons of the scripts that run, by their working directory.
type stand struct {
	mu      sync.Mutex
	running map[string]*daemonStub
}

// daemonStub is the part of a daemon that the commands see: an account behind the
// HTTP of package web, without the way through outbox and broker.
type daemonStub struct {
	account *ledger.Ledger
	asked   chan struct{} // one for each request, as far as there is room
	stop    func() error
}

func startDaemon(dir, mode string) (*daemonStub, error) {
	initial := 847 * physic.Gram
	account, err := ledger.Open(ledger.Options{Path: filepath.Join(dir, "ledger.bolt"), Log: zerolog.Nop(), Notify: ledger.Kinds(),
		Tanks: []ledger.Tank{{ID: "A", Name: "Reserve tank", Capacity: 1000 * physic.Gram, Initial: &initial}}})
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "oxyd.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // what a killed daemon leaves behind
	board := web.Board{Version: "test", Source: "ctl-1", Account: account, Node: func() any { return struct{}{} },
		Status: func() (any, error) {
			s, err := account.Status()
			redelivery := "72h"
			if mode == "late" {
				redelivery = "2000h"
			}
			return struct {
				ledger.Status
				Announced []map[string]string `json:"announced"`
			}{s, []map[string]string{{"node": "ctl-9", "redelivery": redelivery}}}, err
		},
		Record: func(_ context.Context, r web.Record) (web.Answer, error) {
			answer := web.Answer{EventID: r.Event.ID, Source: r.Event.Source, Tank: r.Event.Tank}
			switch mode {
			case "pending":
				answer.Pending = true
				return answer, nil
			case "full":
				return answer, web.ErrFull
			}
			results, err := account.Apply([]ledger.Delivery{{Event: r.Event, Topic: "t", Payload: []byte("p")}})
			if err != nil {
				return answer, err
			}
			doc, _, err := account.Balance(r.Event.Tank)
			answer.Outcome, answer.Reason, answer.Balance = results[0].Outcome.String(), string(results[0].Reason), &doc
			return answer, err
		}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	asked, handler := make(chan struct{}, 1024), web.New(board, zerolog.Nop())
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		handler.ServeHTTP(w, r)
	})
	go func() { ended <- web.Serve(ctx, counting, l) }()
	return &daemonStub{account: account, asked: asked, stop: func() error {
		cancel()
		return errors.Join(<-ended, account.Check(), account.Close())
	}}, nil
}

func (s *stand) daemon(ts *testscript.TestScript, neg bool, args []string) {
	work := ts.Getenv("WORK")
	mode := strings.Join(args, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode == "stop" {
		ts.Check(s.running[work].stop())
		delete(s.running, work)
		return
	}
	dir := filepath.Join(work, "data")
	ts.Check(os.MkdirAll(dir, 0o700))
	d, err := startDaemon(dir, mode)
	ts.Check(err)
	s.running[work] = d
	ts.Defer(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d := s.running[work]; d != nil {
			delete(s.running, work)
			ts.Check(d.stop())
		}
	})
}

func (s *stand) of(ts *testscript.TestScript) *daemonStub {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[ts.Getenv("WORK")]
}

func (s *stand) poison(ts *testscript.TestScript, neg bool, args []string) {
	payload, err := strconv.Unquote(args[1])
	ts.Check(err)
	_, err = s.of(ts).account.Apply([]ledger.Delivery{{Topic: args[0], Payload: []byte(payload),
		Form: &event.FormError{Reason: event.Malformed, Detail: "want a JSON object"}}})
	ts.Check(err)
}

func (s *stand) notify(ts *testscript.TestScript, neg bool, args []string) {
	text, err := strconv.Unquote(`"` + args[2] + `"`)
	ts.Check(err)
	ts.Check(s.of(ts).account.Notify(ledger.Notice{Kind: args[0], Subject: args[1], Text: text}))
}

func (s *stand) publish(ts *testscript.TestScript, neg bool, args []string) {
	kind, ok := event.TypeOfTopic(args[0])
	if !ok {
		ts.Fatalf("no type %s", args[0])
	}
	e, err := event.Decode(kind, args[1], []byte(args[2]))
	ts.Check(err)
	_, err = s.of(ts).account.Apply([]ledger.Delivery{{Event: e, Topic: "t", Payload: []byte(args[2])}})
	ts.Check(err)
}

func (s *stand) ids(ts *testscript.TestScript, neg bool, args []string) {
	list, err := s.of(ts).account.Quarantine(100)
	ts.Check(err)
	for i := range list {
		ts.Setenv(fmt.Sprintf("ID%d", len(list)-i), list[i].ID[:shownIDDigits])
	}
}

func safe(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	for _, r := range text {
		if r != '\n' && !strconv.IsPrint(r) || r == utf8.RuneError {
			ts.Fatalf("%U in %q", r, text)
		}
	}
}

// blocks hands every write to the test.
type blocks chan string

func (b blocks) Write(p []byte) (int, error) {
	b <- string(p)
	return len(p), nil
}

func (b blocks) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-b:
		return text
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was written within 10 s")
		return ""
	}
}

// TestWatchShowsChangesAndSilence: a block at once, a block after a change, none
// without one; a daemon that goes is said, and one that comes back is shown.
func TestWatchShowsChangesAndSilence(t *testing.T) {
	dir, err := os.MkdirTemp("", "oxyd-watch") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+dir+"\nledger:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := startDaemon(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	stdout, stderr, code := make(blocks, 8), make(blocks, 8), make(chan int, 1)
	go func() { code <- Run(ctx, []string{"tanks", "--watch", "-c", file}, nil, stdout, stderr) }()

	if got := stdout.next(t); !strings.HasPrefix(got, "TANK ") || !strings.Contains(got, "847 g") {
		t.Errorf("first block %q", got)
	}
	for range 3 { // the third question comes when the second one's answer has been dealt with
		select {
		case <-d.asked:
		case <-time.After(10 * time.Second):
			t.Fatal("--watch does not ask again")
		}
	}
	if len(stdout) > 0 {
		t.Errorf("a block without a change: %q", <-stdout)
	}
	e, err := event.Decode(event.Consumed, "A", []byte(`{"event_id":"e-8842","tank":"A","amount":120}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.account.Apply([]ledger.Delivery{{Event: e}}); err != nil {
		t.Fatal(err)
	}
	if got := stdout.next(t); !strings.HasPrefix(got, "\nTANK ") || !strings.Contains(got, "727 g") {
		t.Errorf("block after a change %q", got)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if got := stderr.next(t); !strings.HasPrefix(got, "oxyd: error: ") {
		t.Errorf("a daemon that went is told as %q", got)
	}
	if d, err = startDaemon(dir, ""); err != nil {
		t.Fatal(err)
	}
	if got := stdout.next(t); !strings.Contains(got, "727 g") {
		t.Errorf("block after the daemon came back %q", got)
	}
	interrupt()
	select {
	case got := <-code:
		if got != ExitDone {
			t.Errorf("exit code %d after an interrupt, want %d", got, ExitDone)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("--watch does not end on an interrupt")
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	close(stdout)
	for extra := range stdout {
		t.Errorf("a block without a change: %q", extra)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"Tank Ä 1 ≥ 2": "Tank Ä 1 ≥ 2", "": "", "\x1b[2J": `"\x1b[2J"`, "\u009b2J": `"\u009b2J"`,
		"a\u202eb": `"a\u202eb"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "a\tb": `"a\tb"`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestLoggerWritesUTCAtItsLevel(t *testing.T) {
	var b bytes.Buffer
	for _, format := range []string{"json", "text", "auto"} {
		b.Reset()
		log, err := logger(config.Log{Level: "warn", Format: format}, &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Info().Msg("low")
		log.Warn().Str("tank", "A").Msg("high")
		line := b.String()
		if strings.Contains(line, "low") || !strings.Contains(line, "high") || strings.Count(line, "\n") != 1 || strings.Contains(line, "\x1b") {
			t.Errorf("%s: %q", format, line)
		}
		if json := strings.HasPrefix(line, "{"); json != (format != "text") {
			t.Errorf("%s: %q", format, line)
		}
		if !strings.Contains(line, "Z") {
			t.Errorf("%s: no UTC in %q", format, line)
		}
	}
	if _, err := logger(config.Log{Level: "loud", Format: "json"}, &b); err == nil {
		t.Error("log level loud is taken")
	}
}

// Package e2e runs the built program as its users do: real processes, real
// brokers, a stranger's MQTT client, kill -9. It has no code of its own.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"oxyd/internal/mqtttest"
)

var kills = flag.Int("kills", 6, "how many times the torture test kills each process")

var (
	program    string // the built binary
	buildFlags []string
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "oxyd-e2e-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "oxyd")
	build := exec.Command("go", slices.Concat([]string{"build", "-o", program}, buildFlags, []string{"oxyd"})...)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Println("build the program:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// node is one oxyd with a directory and ports of its own, over all its starts.
type node struct {
	t      *testing.T
	dir    string
	config string
	broker string // host:port of the embedded broker, whether or not it stands

	cmd  *exec.Cmd
	done chan struct{}
	log  *lockedBuffer
}

// newNode makes a node of a config text, in which BROKER and WEB stand for free
// addresses and OUTSIDE for the given broker.
func newNode(t *testing.T, text, outside string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), broker: freeAddress(t), log: &lockedBuffer{}}
	text = strings.NewReplacer("BROKER", n.broker, "WEB", freeAddress(t), "OUTSIDE", outside,
		"DIR", filepath.Join(n.dir, "data")).Replace(text)
	n.config = filepath.Join(n.dir, "config.yaml")
	if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		if strings.Contains(n.log.String(), "WARNING: DATA RACE") {
			t.Error("the race detector found something")
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", n.dir, n.log)
		}
	})
	return n
}

func (n *node) start() {
	n.t.Helper()
	n.cmd = exec.Command(program, "run", "-c", n.config)
	n.cmd.Dir = n.dir
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, done := n.cmd, make(chan struct{})
	n.done = done
	go func() { _ = cmd.Wait(); close(done) }()
	n.until("the API to answer", func() bool { return n.get("/healthz", nil) == http.StatusOK })
}

func (n *node) startReady() {
	n.t.Helper()
	n.start()
	n.until("the node to be ready", func() bool { return n.get("/readyz", nil) == http.StatusOK })
}

// settled waits until the broker has every retained value of the node. A
// subscriber that comes in the same moment as a value can be passed over by the
// embedded broker.
func (n *node) settled() {
	n.t.Helper()
	n.until("the broker to have all retained values", func() bool {
		return strings.Contains(n.metrics(), "\noxyd_publisher_retained_undelivered 0\n")
	})
}

func (n *node) metrics() string {
	var text string
	n.call(http.MethodGet, "/metrics", "", "", &text)
	return text
}

func (n *node) until(what string, ok func() bool) {
	n.t.Helper()
	mqtttest.Eventually(n.t, what, func() bool {
		select {
		case <-n.done:
			n.t.Fatalf("oxyd ended: %v\n%s", n.cmd.ProcessState, n.log)
		default:
		}
		return ok()
	})
}

// kill is kill -9.
func (n *node) kill() { n.end(syscall.SIGKILL) }

// stop is what systemd does: SIGTERM.
func (n *node) stop() { n.end(syscall.SIGTERM) }

func (n *node) end(s syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(s)
	select {
	case <-n.done:
	case <-time.After(20 * time.Second):
		_ = n.cmd.Process.Kill()
		<-n.done
		n.t.Errorf("oxyd did not end within 20 s of %v\n%s", s, n.log)
	}
	n.cmd = nil
}

// get asks the node's control socket and gives the status; 0 when nobody answers.
func (n *node) get(path string, into any) int { return n.call(http.MethodGet, path, "", "", into) }

func (n *node) call(method, path, key, body string, into any) int {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(n.dir, "data", "oxyd.sock"))
		}}}
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if text, ok := into.(*string); ok {
		*text = string(raw)
	} else if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			n.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return resp.StatusCode
}

// command runs a command of the program beside the running node.
func (n *node) command(args ...string) (string, error) {
	n.t.Helper()
	cmd := exec.Command(program, append(args, "-c", n.config)...)
	cmd.Dir = n.dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String() + errs.String(), err
}

type balanceDoc struct {
	Tank    string      `json:"tank"`
	Balance json.Number `json:"balance"`
	Totals  struct {
		Consumed json.Number `json:"consumed"`
	} `json:"totals"`
	Complete       bool `json:"complete"`
	TotalsComplete bool `json:"totals_complete"`
}

func (n *node) tank(id string) (doc balanceDoc) {
	n.get("/api/tanks/"+id, &doc)
	return doc
}

type statusDoc struct {
	Outcomes map[string]int `json:"outcomes"`
	Digest   string         `json:"digest"`
}

func (n *node) status() (doc statusDoc) {
	n.get("/api/status", &doc)
	return doc
}

type nodeDoc struct {
	Outbox struct {
		Pending  int `json:"pending"`
		Retained int `json:"retained"`
	} `json:"outbox"`
}

func (n *node) outbox() (doc nodeDoc) {
	n.get("/api/node", &doc)
	return doc
}

// stranger is a control room's own MQTT client: it knows the topics and nothing
// else of oxyd.
type stranger struct {
	t      *testing.T
	client paho.Client

	mu   sync.Mutex
	last map[string]string   // topic → newest payload
	all  map[string][]string // topic → payloads in order
}

func newStranger(t *testing.T, broker string) *stranger {
	t.Helper()
	s := &stranger{t: t, last: map[string]string{}, all: map[string][]string{}}
	o := paho.NewClientOptions().AddBroker("tcp://" + broker).SetClientID(fmt.Sprintf("stranger-%d", time.Now().UnixNano())).
		SetAutoReconnect(false).SetConnectTimeout(5 * time.Second)
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[m.Topic()] = string(m.Payload())
		s.all[m.Topic()] = append(s.all[m.Topic()], string(m.Payload()))
	})
	s.client = paho.NewClient(o)
	s.wait(s.client.Connect())
	s.wait(s.client.Subscribe("oxyd/#", 1, nil))
	t.Cleanup(func() { s.client.Disconnect(50) })
	return s
}

func (s *stranger) wait(token paho.Token) {
	s.t.Helper()
	if !token.WaitTimeout(10*time.Second) || token.Error() != nil {
		s.t.Fatalf("stranger's client: %v", token.Error())
	}
}

func (s *stranger) publish(topic, payload string) {
	s.t.Helper()
	s.wait(s.client.Publish(topic, 1, false, payload))
}

func (s *stranger) newest(topic string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[topic]
}

func (s *stranger) received(topic string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.all[topic]...)
}

// nextPort is where freeAddress goes on: below the ports that the kernel gives to
// clients, and at another place in each process.
var nextPort atomic.Uint32

// freeAddress gives an address that nobody listens on, each only once.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count = 12_000, 18_000
	for range count {
		port := first + (uint32(os.Getpid())*97+nextPort.Add(1))%count
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// lockedBuffer takes a process's output while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

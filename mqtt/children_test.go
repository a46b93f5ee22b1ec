package mqtt

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

// The test binary is its own child process where something must be killed.
const childVar = "OXYD_MQTT_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "":
		os.Exit(m.Run())
	case "broker":
		childBroker(os.Args[1], os.Args[2])
	case "publisher":
		childPublisher(os.Args[1])
	}
}

// childBroker serves until killed, or until its standard input ends.
func childBroker(dir, listen string) {
	b, err := StartBroker(BrokerOptions{Listen: listen, Dir: dir, AckWait: time.Second}, zerolog.Nop())
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(b.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	b.Close()
}

// childPublisher publishes its birth, and the goodbye when its input ends.
func childPublisher(url string) {
	ctx, stop := context.WithCancel(context.Background())
	pub := NewPublisher(calm(url, "node-pub"), newMemQueue(), presence("node/status"), zerolog.Nop())
	go func() {
		fmt.Println("running")
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := pub.Run(ctx); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	line  string // the first it said
	done  chan struct{}
}

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVar+"="+role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin, done: make(chan struct{})}
	t.Cleanup(c.kill)
	said := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		said <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, r)
		_ = cmd.Wait()
		close(c.done)
	}()
	select {
	case c.line = <-said:
	case <-time.After(mqtttest.Patience):
		t.Fatalf("child %s said nothing", role)
	}
	if c.line == "" || strings.HasPrefix(c.line, "error:") {
		t.Fatalf("child %s: %q", role, c.line)
	}
	return c
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop lets it end as on SIGTERM.
func (c *child) stop() {
	_ = c.stdin.Close()
	<-c.done
}

// anyBroker is a broker under test, started by its name.
type anyBroker struct {
	url     string
	restart func() // kill -9 and start again, with its files
}

// eachBroker runs a test against mosquitto and against the embedded broker.
func eachBroker(t *testing.T, mosquitto []string, test func(t *testing.T, b anyBroker)) {
	t.Run("mosquitto", func(t *testing.T) {
		m := mqtttest.StartMosquitto(t, mosquitto...)
		test(t, anyBroker{url: m.URL(), restart: func() { m.Kill(); m.Start(t) }})
	})
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		c := startChild(t, "broker", dir, "127.0.0.1:0")
		addr := c.line
		test(t, anyBroker{url: "tcp://" + addr, restart: func() {
			c.kill()
			c = startChild(t, "broker", dir, addr)
		}})
	})
}

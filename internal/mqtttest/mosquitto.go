package mqtttest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// portTries is how often another port is tried when the one found was taken.
const portTries = 5

// Mosquitto is a real mosquitto process.
type Mosquitto struct {
	addr string
	path string
	conf string
	log  string
	runs int // starts so far
	cmd  *exec.Cmd
	done chan struct{}
}

// StartMosquitto starts a mosquitto on a free port, with the given lines in its
// configuration file, and stops it when the test ends. Without a line on
// allow_anonymous or password_file it lets everybody in. The test is skipped
// where mosquitto is not installed.
func StartMosquitto(t testing.TB, lines ...string) *Mosquitto {
	t.Helper()
	path, dir := mosquittoPath(t), t.TempDir()
	m := &Mosquitto{path: path, conf: filepath.Join(dir, "mosquitto.conf"), log: filepath.Join(dir, "mosquitto.log")}
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Logf("mosquitto log ends:\n%s", m.logEnd())
		}
	})
	for try := 1; ; try++ {
		m.addr = freeAddr(t)
		m.configure(t, dir, lines)
		if m.run(t) {
			return m
		}
		if try == portTries {
			t.Fatalf("mosquitto ended at its start, %d times:\n%s", try, m.logEnd())
		}
	}
}

func (m *Mosquitto) configure(t testing.TB, dir string, lines []string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(m.addr)
	conf := []string{"listener " + port + " 127.0.0.1", "persistence_location " + dir + "/"}
	if !strings.Contains(strings.Join(lines, "\n"), "password_file") {
		conf = append(conf, "allow_anonymous true")
	}
	if os.Geteuid() == 0 {
		conf = append(conf, "user root") // else it drops its rights and cannot use dir
	}
	text := strings.Join(append(conf, lines...), "\n") + "\n"
	if err := os.WriteFile(m.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Start starts the process again after Kill or Stop, on the same port and files.
func (m *Mosquitto) Start(t testing.TB) {
	t.Helper()
	if !m.run(t) {
		t.Fatalf("mosquitto ended at its start:\n%s", m.logEnd())
	}
}

// run starts the process and reports whether it runs or has ended at once.
func (m *Mosquitto) run(t testing.TB) (running bool) {
	t.Helper()
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(m.path, "-c", m.conf)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start mosquitto: %v", err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	m.cmd, m.done = cmd, done
	Eventually(t, "mosquitto to run", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		b, _ := os.ReadFile(m.log)
		running = bytes.Count(b, []byte(" running\n")) > m.runs
		return running
	})
	if running {
		m.runs++
	}
	return running
}

// Kill ends the process with SIGKILL and waits for its end.
func (m *Mosquitto) Kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	<-m.done
}

// Stop ends the process with SIGTERM and waits for its end.
func (m *Mosquitto) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	<-m.done
}

// Addr returns host:port.
func (m *Mosquitto) Addr() string { return m.addr }

// URL returns the address for the client's options.
func (m *Mosquitto) URL() string { return "tcp://" + m.addr }

func mosquittoPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED, NOT TESTED: mosquitto is not installed (Debian: apt-get install mosquitto)")
	return ""
}

// freeAddr finds a port that is free now. Another process may take it first;
// mosquitto cannot choose one itself.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (m *Mosquitto) logEnd() string {
	const most = 4000
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

// Eventually waits until what holds, or fails the test after Patience.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	EventuallyWithin(t, Patience, what, holds)
}

// EventuallyWithin is Eventually with a patience of its own.
func EventuallyWithin(t testing.TB, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

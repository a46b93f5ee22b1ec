package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"oxyd/internal/mqtttest"
)

// TestDemoEndsOnInterrupt: Ctrl-C in the middle of the demonstration ends it and
// its consumers and leaves nothing behind.
func TestDemoEndsOnInterrupt(t *testing.T) {
	temp := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	mqtttest.Eventually(t, "the consumers to have their files, and to live: some are between two lives", func() bool {
		files, err := filepath.Glob(filepath.Join(temp, "oxyd-demo-*", "consumer-*.bolt"))
		return err == nil && len(files) == 5 && len(demoConsumers(t, temp)) > 0
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	exit, ok := errors.AsType[*exec.ExitError](<-ended)
	if !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", exit)
	}
	if got, want := stderr.String(), "oxyd: error: interrupted\n"; got != want || stdout.Len() > 0 {
		t.Errorf("it said %q and %q, want nothing and %q", stdout.String(), got, want)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if lives := demoConsumers(t, temp); len(lives) > 0 {
		t.Errorf("consumers live on: %v", lives)
	}
}

// demoConsumers finds the processes whose command line names a file below temp.
func demoConsumers(t *testing.T, temp string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), temp) { // else it has ended meanwhile
			found = append(found, line)
		}
	}
	return found
}

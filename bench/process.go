package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settle is how long the process idles before its memory is read.
const settle = 20 * time.Second

// process builds the program, starts it as an all-in-one board with three
// simulated tanks, and prints how long the first reading took and what it holds
// in memory when it idles.
func process(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "oxyd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(processConfig(dir)), 0o600); err != nil {
		return err
	}
	for round := range *rounds {
		if err := processRound(ctx, program, config, round); err != nil {
			return err
		}
	}
	return nil
}

// build builds the program that is in the current directory.
func build(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "oxyd")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
}

func processConfig(dir string) string {
	return fmt.Sprintf(`
site: bench
node: bench
data_dir: %s
tanks: [{id: t1, capacity: 10 kg}, {id: t2, capacity: 10 kg}, {id: t3, capacity: 10 kg}]
sensors:
  - {tank: t1, driver: simulated, interval: 1s}
  - {tank: t2, driver: simulated, interval: 1s}
  - {tank: t3, driver: simulated, interval: 1s}
broker: {listen: "127.0.0.1:%d"}
ledger:
web: {listen: "127.0.0.1:0"}
log: {format: json}
`, filepath.Join(dir, "data"), *port)
}

// processRound runs the program once. The first round begins on an empty
// directory, the others on what the round before left.
func processRound(ctx context.Context, program, config string, round int) error {
	cmd := exec.CommandContext(ctx, program, "run", "-c", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
	first := time.Duration(0)
	lines := bufio.NewScanner(log)
	for first == 0 && lines.Scan() {
		var line struct{ Message string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "first reading" {
			first = time.Since(begun)
		}
	}
	if first == 0 {
		return errors.New("the program ended before its first reading")
	}
	go func() {
		for lines.Scan() {
		}
	}()
	fmt.Printf("round %d  start to first reading %v\n", round+1, first.Round(time.Millisecond))
	if round > 0 {
		return nil
	}
	time.Sleep(settle)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", *port)) // the broker is part of what is measured
	if err != nil {
		return err
	}
	c.Close()
	return printMemory(cmd.Process.Pid)
}

func printMemory(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		if err == nil && (name == "VmRSS" || name == "VmHWM" || name == "RssAnon" || name == "RssFile") {
			fmt.Printf("         %-8s %5.1f MB after %v\n", name, float64(kb)/1000, settle)
		}
	}
	return nil
}

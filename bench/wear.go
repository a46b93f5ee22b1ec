package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"oxyd/internal/daemon"
)

var (
	wearFor      = flag.Duration("wear.for", 10*time.Minute, "wear: how long to measure")
	wearWarm     = flag.Duration("wear.warm", 3*time.Minute, "wear: how long to run before; at least wear.retention, so that pruning is part of it")
	wearKeep     = flag.String("wear.retention", "2m", "wear: outbox.retention of the measured process")
	wearChannels = flag.Int("wear.channels", 10, "wear: simulated channels")
	wearEvery    = flag.Duration("wear.interval", time.Second, "wear: time between two readings of a channel")
	wearNoise    = flag.String("wear.noise", "0.2 g", "wear: noise of the simulated sensors")
	wearSensor   = flag.String("wear.sensor", "report: {deadband: 10 g, heartbeat: 5m}",
		"wear: a further key of each sensor; the default is what a chip's sensor has by itself; empty: every reading is an event")
	wearOutbox = flag.String("wear.outbox", "", "wear: more keys of the section outbox, as in: commit_interval: 10s")
	wearAll    = flag.Bool("wear.all", false, "wear: an all-in-one board (broker, account, page) instead of an edge alone")
	wearDir    = flag.String("wear.dir", "", "wear: where the stores are; a real disk, for tmpfs counts no writes")
)

// Targets of a steady edge-only board with 10 channels at 1 Hz.
const (
	wearBytesMax = 100 << 20 // a day
	wearCoreMax  = 0.01
)

// wear runs the real program with simulated channels at 1 Hz and prints what a day
// of it costs: processor time, and bytes written by the process as the kernel
// accounts them (write_bytes in /proc/PID/io, proc_pid_io(5): pages made dirty that
// go to a block device). The file system's own journal comes on top; where the
// directory's device is known, what reached it is printed too, which counts every
// other process of the machine as well.
func wear(ctx context.Context) error {
	dir, err := os.MkdirTemp(*wearDir, "oxyd-wear-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if !*wearAll {
		stop, err := startMosquitto(dir)
		if err != nil {
			return err
		}
		defer stop()
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(wearConfig(dir)), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, program, "run", "-c", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
	return wearSpan(ctx, cmd.Process.Pid, dir)
}

// wearSpan reads the counters at both ends of the span and prints the difference.
func wearSpan(ctx context.Context, pid int, dir string) error {
	if err := pause(ctx, *wearWarm); err != nil {
		return err
	}
	before, err := readCost(pid, dir)
	if err != nil {
		return err
	}
	if err := pause(ctx, *wearFor); err != nil {
		return err
	}
	after, err := readCost(pid, dir)
	if err != nil {
		return err
	}
	after.minus(before).print()
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func wearConfig(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "site: bench\nnode: bench\ndata_dir: %s\nlog: {format: json, level: info}\n", filepath.Join(dir, "data"))
	fmt.Fprintf(&b, "outbox:\n  retention: %s\n", *wearKeep)
	if *wearOutbox != "" {
		fmt.Fprintf(&b, "  %s\n", *wearOutbox)
	}
	b.WriteString("tanks:\n")
	for i := range *wearChannels {
		fmt.Fprintf(&b, "  - {id: t%d, capacity: 10 kg}\n", i)
	}
	b.WriteString("sensors:\n")
	for i := range *wearChannels {
		fmt.Fprintf(&b, "  - tank: t%d\n    driver: simulated\n    interval: %v\n    simulated: {noise: %s}\n", i, *wearEvery, *wearNoise)
		if *wearSensor != "" {
			fmt.Fprintf(&b, "    %s\n", *wearSensor)
		}
	}
	if *wearAll {
		fmt.Fprintf(&b, "broker: {listen: \"127.0.0.1:%d\"}\nledger:\nweb: {listen: \"127.0.0.1:0\"}\n", *port)
	} else {
		fmt.Fprintf(&b, "mqtt: {broker: \"tcp://127.0.0.1:%d\"}\n", *port)
	}
	return b.String()
}

// cost is what the process has used up to an instant.
type cost struct {
	at      time.Time
	span    time.Duration // of a difference
	cpu     time.Duration
	written int64 // bytes, by the kernel's account of the process
	calls   int64 // write system calls
	device  int64 // bytes that reached the disk of the directory; -1: not known
	events  float64
}

func readCost(pid int, dir string) (c cost, err error) {
	c.at = time.Now()
	if c.cpu, err = cpuTime(pid); err != nil {
		return c, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		switch name {
		case "write_bytes":
			c.written += n
		case "cancelled_write_bytes":
			c.written -= n
		case "syscw":
			c.calls = n
		}
	}
	c.device = deviceBytes(dir)
	c.events, err = metric(dir, "oxyd_outbox_appended_total")
	return c, err
}

// userHz is what the kernel counts processor time of a process in, on every Linux
// that Go runs on (proc_pid_stat(5)).
const userHz = 100

func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, from field 3
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("stat of the process has too few fields")
	}
	user, uerr := strconv.ParseInt(fields[11], 10, 64)
	system, serr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / userHz, errors.Join(uerr, serr)
}

// deviceBytes gives the bytes written so far to the block device that holds dir
// (sectors of 512 bytes, Documentation/block/stat.rst).
func deviceBytes(dir string) int64 {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return -1
	}
	major, minor := uint64(st.Dev)>>8&0xfff, uint64(st.Dev)&0xff
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return -1
	}
	return sectors * 512
}

// metric reads one figure of the running process from its control socket.
func metric(dir, name string) (float64, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "data", daemon.SocketFile))
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := client.Get("http://oxyd/metrics")
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("metrics have no %s", name))
}

func (c cost) minus(b cost) cost {
	c.span, c.cpu, c.written, c.calls, c.events = c.at.Sub(b.at), c.cpu-b.cpu, c.written-b.written, c.calls-b.calls, c.events-b.events
	if c.device >= 0 {
		c.device -= b.device
	}
	return c
}

// print gives the span's figures and what a day of it would be.
func (c cost) print() {
	const mib = 1 << 20
	day := float64(24*time.Hour) / float64(c.span)
	core := c.cpu.Seconds() / c.span.Seconds()
	written := float64(c.written) * day
	fmt.Printf("measured for %v: %d channels, each read every %v, %.0f events kept\n",
		c.span.Round(time.Second), *wearChannels, *wearEvery, c.events)
	fmt.Printf("processor    %8.2f s      %6.2f %% of one core\n", c.cpu.Seconds(), core*100)
	fmt.Printf("written      %8.2f MiB    %6.0f MiB a day by the process (write_bytes), in %d calls\n", float64(c.written)/mib, written/mib, c.calls)
	if c.device >= 0 {
		fmt.Printf("the device   %8.2f MiB    %6.0f MiB a day, with the file system's journal and everybody else's writes\n",
			float64(c.device)/mib, float64(c.device)*day/mib)
	}
	if *wearAll {
		return // for this one no target is set
	}
	fmt.Printf("target       under %.0f %% of one core: %t; under %d MiB a day: %t\n",
		wearCoreMax*100, core < wearCoreMax, wearBytesMax/mib, written < wearBytesMax)
}

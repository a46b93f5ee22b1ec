// Package qemurig runs the real binary on the boards that it is made for: Debian's
// own kernels for arm64 and armhf, in an emulator that needs no help of this
// machine's processor (no KVM), with an I2C bus of chip models behind the kernel's real
// system calls. It has no code of its own.
//
// What happens on the board, and what is demanded of oxyd, is in
// sensors/internal/guest, which is the board's first process. Here is what starts
// it: the kernel and two of its modules (.ci/guest-kernels fetches them), an
// initial RAM disk made of the guest and oxyd as built from this tree, the emulator,
// and a limit on its time. The test ends with the guest's last line.
//
//	go test ./internal/qemurig -qemu                 run, skip what cannot run, and say why
//	go test ./internal/qemurig -qemu -qemu.required  fail instead of skipping
//	go test ./internal/qemurig -qemu -v              with the board's console
//
// What it does not show: the controllers of real boards and their errors, timing on
// a wire, and anything electrical.
package qemurig

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	runFlag      = flag.Bool("qemu", false, "run the boards in the emulator (a minute; needs qemu-system-arm and Debian's archive)")
	requiredFlag = flag.Bool("qemu.required", false, "fail where the boards cannot run instead of skipping")
	cacheFlag    = flag.String("qemu.cache", "", "where kernels are kept (default: oxyd-boards in the user's cache directory)")
)

// limit bounds a board's time, from the emulator's start to the last line. On a
// machine that has nothing else to do it takes a tenth of that.
const limit = 5 * time.Minute

// The guest's last line (sensors/internal/guest).
const (
	passed = "RIG PASSED"
	failed = "RIG FAILED"
)

// machine is a board.
type machine struct {
	arch     string   // Debian's name
	goarch   []string // how Go builds for it
	emulator string
	flags    []string
}

var machines = []machine{
	{"arm64", []string{"GOARCH=arm64"}, "qemu-system-aarch64", []string{"-M", "virt", "-cpu", "cortex-a53"}},
	{"armhf", []string{"GOARCH=arm", "GOARM=7"}, "qemu-system-arm", []string{"-M", "virt", "-cpu", "cortex-a15"}},
}

func TestBoards(t *testing.T) {
	if !*runFlag {
		t.Skip("only with -qemu: it runs two emulated boards")
	}
	for _, m := range machines {
		t.Run(m.arch, func(t *testing.T) {
			t.Parallel() // a board takes one processor
			kernel, err := m.ready()
			if err != nil {
				unable(t, err)
			}
			m.run(t, kernel)
		})
	}
}

// unable ends the test where a board cannot run, loudly.
func unable(t *testing.T, err error) {
	t.Helper()
	if *requiredFlag {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "\n*** NOT TESTED: oxyd on an emulated board: %v ***\n\n", err)
	t.Skip(err)
}

// ready sees that there are an emulator and a kernel, which it fetches once. Who
// wants a newer one removes the old one's directory.
func (m machine) ready() (kernel string, err error) {
	if _, err := exec.LookPath(m.emulator); err != nil {
		return "", fmt.Errorf("%w (apt-get install qemu-system-arm)", err)
	}
	cache := *cacheFlag
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		cache = filepath.Join(dir, "oxyd-boards")
	}
	kernel = filepath.Join(cache, m.arch)
	if _, err := os.Stat(filepath.Join(kernel, "release")); err == nil {
		return kernel, nil
	}
	if out, err := exec.Command("../../.ci/guest-kernels", cache, m.arch).CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch the kernel for %s: %w\n%s", m.arch, err, out)
	}
	return kernel, nil
}

// run builds and runs the board and judges its last line.
func (m machine) run(t *testing.T, kernel string) {
	began := time.Now()
	initrd := m.initrd(t, kernel)
	built := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	// The board's time is counted in its instructions, four nanoseconds each, and
	// leaps where it has nothing to do. So what this machine is busy with does not
	// make a reading old, and waiting costs nothing. It has one processor: of two, the
	// emulator would run one after the other, and some kernels stand still then.
	args := append(slices.Clone(m.flags), "-accel", "tcg", "-icount", "shift=2,sleep=off", "-rtc", "clock=vm", "-smp", "1", "-m", "512",
		"-kernel", filepath.Join(kernel, "vmlinuz"), "-initrd", initrd,
		"-append", "console=ttyAMA0 panic=-1 quiet", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-nic", "none", "-no-reboot")
	cmd := exec.CommandContext(ctx, m.emulator, args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive the test
	console, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	complaints := new(strings.Builder)
	cmd.Stderr = complaints
	if err := cmd.Start(); err != nil {
		unable(t, err)
	}
	last, lines := follow(t, bufio.NewScanner(console))
	cancel() // the last line has been said: the board need not power off
	waitErr := cmd.Wait()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%s: built in %.1f s, ran for %.1f s, with %.1f s of processor", m.arch,
		built.Sub(began).Seconds(), time.Since(built).Seconds(), cpu.Seconds())
	switch {
	case strings.HasPrefix(last, passed):
	case strings.HasPrefix(last, failed):
		t.Errorf("%s: %s\n%s", m.arch, last, strings.Join(lines, "\n"))
	default:
		t.Errorf("%s: no last line within %s (%v) %s\n%s", m.arch, limit, waitErr,
			complaints, strings.Join(lines, "\n"))
	}
}

// follow reads the console up to the guest's last line.
func follow(t *testing.T, console *bufio.Scanner) (last string, lines []string) {
	for console.Scan() {
		line := strings.TrimRight(console.Text(), "\r")
		lines = append(lines, line)
		if testing.Verbose() {
			t.Log(line)
		}
		if strings.HasPrefix(line, passed) || strings.HasPrefix(line, failed) {
			return line, lines
		}
	}
	return "", lines
}

package clock

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unitPath is the unit that is shipped.
const unitPath = "../../systemd/oxyd.service"

// values gives every value of a key of a unit, in order.
func values(unit, key string) (list []string) {
	for line := range strings.Lines(unit) {
		if v, found := strings.CutPrefix(strings.TrimSpace(line), key+"="); found {
			list = append(list, v)
		}
	}
	return list
}

// groups are systemd's groups of system calls, as far as they were asked for.
type groups map[string][]string

// calls gives the system calls of a group, or the one named.
func (g groups) calls(t *testing.T, name string) []string {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	if known, ok := g[name]; ok {
		return known
	}
	out, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
	if err != nil {
		t.Fatalf("systemd-analyze syscall-filter %s: %v", name, err)
	}
	for line := range strings.Lines(string(out)) {
		if word := strings.TrimSpace(line); word != name && word != "" && !strings.HasPrefix(word, "#") {
			g[name] = append(g[name], g.calls(t, word)...)
		}
	}
	return g[name]
}

// The shipped unit lets adjtimex through, for reading alone; and where it would not,
// these tests would say so. What its groups of system calls hold is told by systemd's
// own tables.
func TestUnitLetsTheClockBeRead(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the unit's groups of system calls cannot be resolved")
	}
	text, err := os.ReadFile(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	known := groups{}
	for _, c := range []struct{ name, old, new, fault string }{
		{"as shipped", "", "", ""},
		{"with ProtectClock", "[Service]\n", "[Service]\nProtectClock=yes\n", "ProtectClock"},
		{"without its exception", "\nSystemCallFilter=adjtimex clock_adjtime clock_adjtime64\n", "\n", "adjtimex"},
		{"killing instead of refusing", "SystemCallErrorNumber=EPERM\n", "", "SystemCallErrorNumber"},
		{"allowing the clock to be set", "\nSystemCallFilter=adjtimex ", "\nSystemCallFilter=clock_settime adjtimex ", "clock_settime"},
		{"with the right to set the clock", "CapabilityBoundingSet=\n", "CapabilityBoundingSet=CAP_SYS_TIME\n", "CapabilityBoundingSet"},
	} {
		unit := strings.Replace(string(text), c.old, c.new, 1)
		if c.old != "" && unit == string(text) {
			t.Errorf("%s: the unit does not hold %q", c.name, c.old)
		}
		got := strings.Join(unitFaults(t, unit, known), "; ")
		if (got == "") != (c.fault == "") || !strings.Contains(got, c.fault) {
			t.Errorf("%s: faults %q, want %q", c.name, got, c.fault)
		}
	}
}

// unitFaults says what keeps a unit from reading the clock, or lets it do more.
func unitFaults(t *testing.T, unit string, known groups) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if v := values(unit, "ProtectClock"); slices.Contains(v, "yes") || slices.Contains(v, "true") {
		fault("ProtectClock forbids adjtimex, also for reading")
	}
	if v := values(unit, "SystemCallErrorNumber"); !slices.Equal(v, []string{"EPERM"}) {
		fault("SystemCallErrorNumber=%v, want EPERM: without it a forbidden call kills the process", v)
	}
	if v := values(unit, "CapabilityBoundingSet"); !slices.Equal(v, []string{""}) {
		fault("CapabilityBoundingSet=%v, want none: without CAP_SYS_TIME adjtimex only reads", v)
	}
	allowed := map[string]bool{}
	for _, line := range values(unit, "SystemCallFilter") { // the first one is an allow list (systemd.exec(5))
		names, deny := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(names) {
			for _, call := range known.calls(t, name) {
				allowed[call] = !deny
			}
		}
	}
	for _, call := range []string{"adjtimex", "clock_gettime", "fdatasync", "mmap", "epoll_wait"} {
		if !allowed[call] {
			fault("%s is forbidden", call)
		}
	}
	for _, call := range []string{"clock_settime", "settimeofday", "mount", "reboot"} {
		if allowed[call] {
			fault("%s is allowed", call)
		}
	}
	return faults
}

// asChild names the variable by which this test binary is its own child.
const asChild = "OXYD_CLOCK_SANDBOX"

// A filter as ProtectClock= installs it: adjtimex is answered with EPERM. The clock
// falls back to what timesyncd says and the process lives.
func TestSyncedInASandbox(t *testing.T) {
	if path := os.Getenv(asChild); path != "" {
		sandboxed(t, path)
		return
	}
	there := filepath.Join(t.TempDir(), "synchronized")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{there: "synced=true", there + "-not": "synced=false"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSyncedInASandbox$", "-test.v")
		cmd.Env = append(os.Environ(), asChild+"="+path)
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("no seccomp")) {
			t.Skipf("this kernel, or emulator, has no seccomp filters: %s", out)
		}
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("with %s: %v, want %s:\n%s", filepath.Base(path), err, want, out)
		}
	}
}

// sandboxed forbids adjtimex to this process, for good, and asks the clock.
func sandboxed(t *testing.T, path string) {
	if err := forbid(unix.SYS_ADJTIMEX); err != nil {
		t.Skipf("no seccomp: %v", err)
	}
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.adjtimex(new(unix.Timex)); err != unix.EPERM {
		t.Fatalf("adjtimex gives %v, want EPERM: the filter is not in force", err)
	}
	s.syncedPath = path
	t.Logf("synced=%t", s.Synced())
}

// forbid makes a system call fail with EPERM on all threads (seccomp(2)).
func forbid(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

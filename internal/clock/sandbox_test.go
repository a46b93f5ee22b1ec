package clock

import (
	"bytes"
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

// What the unit's options make of adjtimex is told by systemd's own tables where
// they are installed. A list of options that forbids it, on the other hand, has to
// leave the program with the file of timesyncd, and alive.
const unitPath = "../../systemd/oxyd.service"

// unitValues gives every value of a key of the unit, in order.
func unitValues(t *testing.T, key string) (values []string) {
	t.Helper()
	text, err := os.ReadFile(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, found := strings.CutPrefix(strings.TrimSpace(line), key+"="); found {
			values = append(values, v)
		}
	}
	return values
}

// group gives the system calls of a group of systemd's, or the one named.
func group(t *testing.T, name string) (calls []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	out, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
	if err != nil {
		t.Fatalf("systemd-analyze syscall-filter %s: %v", name, err)
	}
	for line := range strings.Lines(string(out)) {
		if word := strings.TrimSpace(line); word != name && word != "" && !strings.HasPrefix(word, "#") {
			calls = append(calls, group(t, word)...)
		}
	}
	return calls
}

func TestUnitLetsTheClockBeRead(t *testing.T) {
	if v := unitValues(t, "ProtectClock"); slices.Contains(v, "yes") || slices.Contains(v, "true") {
		t.Errorf("ProtectClock=%v: forbids adjtimex, also for reading", v)
	}
	if v := unitValues(t, "SystemCallErrorNumber"); len(v) != 1 || v[0] != "EPERM" {
		t.Errorf("SystemCallErrorNumber=%v, want EPERM: without it a forbidden call kills the process", v)
	}
	if v := unitValues(t, "CapabilityBoundingSet"); len(v) != 1 || v[0] != "" {
		t.Errorf("CapabilityBoundingSet=%v, want none: without CAP_SYS_TIME adjtimex only reads", v)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the unit's groups of system calls cannot be resolved")
	}
	allowed := map[string]bool{}
	for _, line := range unitValues(t, "SystemCallFilter") { // the first one is an allow list (systemd.exec(5))
		names, deny := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(names) {
			for _, call := range group(t, name) {
				allowed[call] = !deny
			}
		}
	}
	for call, want := range map[string]bool{"adjtimex": true, "clock_gettime": true, "timerfd_create": true, "fdatasync": true,
		"mmap": true, "clock_settime": false, "settimeofday": false, "mount": false, "reboot": false} {
		if allowed[call] != want {
			t.Errorf("the unit allows %s: %t, want %t", call, allowed[call], want)
		}
	}
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

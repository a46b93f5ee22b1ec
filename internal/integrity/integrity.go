// Package integrity looks through a store that may be damaged, in a process of its
// own. A page that was lost or spoiled can end whoever reads it (a fault in the
// mapping cannot be caught where bbolt checks, in a goroutine of its own) or keep
// it busy for ever; so a child reads, and the parent learns from it, or from its
// death, whether the file can be trusted.
//
// The invariant it keeps: the parent does not touch a file before the child has
// said what it is, and a verdict of damage rests on something found. A child that
// was too slow, was killed by somebody else or could not be started has found
// nothing: the store is then not verified, which is not the same as damaged.
//
// The child holds the file's lock shared while it looks, so that it is refused
// while a daemon has the file, and no daemon opens it meanwhile. The lock is not
// handed over: between the child's end and the parent's Open another process could
// take the file, change it and die. The parent's Open is refused while that one
// lives; of two that start at once one wins and both have checked the same bytes.
//
// It repairs nothing, sets nothing aside, and decides nothing about a store.
package integrity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// Kinds of stores.
const (
	Ledger = "ledger"
	Outbox = "outbox"
)

// State is what is known of a store.
type State int

// The states.
const (
	Unverified State = iota // nobody could look through it; Reason says why
	Trusted                 // it was looked through, was closed cleanly, or does not exist yet
	Damaged                 // something was found, or its reader died of it
	Held                    // a process has it
)

// Verdict is what came of a look.
type Verdict struct {
	State  State
	Reason string        // of Unverified and Damaged
	Looked bool          // the whole file was read
	Took   time.Duration // the child's life

	Ledger *ledger.Inspection // what a child that read a ledger has found
	Outbox *outbox.Inspection
}

// The time that a look may take where none is configured. On a server it goes
// through some 40 MB a second, of which half is waiting; a board may be twenty times
// slower.
const (
	timeoutBase        = 30 * time.Second
	timeoutBytesSecond = 2 << 20
)

// Timeout gives the time that the look through a store may take.
func Timeout(configured time.Duration, path string) time.Duration {
	if configured > 0 {
		return configured
	}
	st, err := os.Stat(path)
	if err != nil {
		return timeoutBase
	}
	return timeoutBase + time.Duration(st.Size()/timeoutBytesSecond)*time.Second
}

// Program makes the command that runs the child with arguments; it ends with ctx.
type Program func(ctx context.Context, args ...string) *exec.Cmd

// Command is the argument by which this program knows that it is the child; see
// Main for those that follow.
const Command = "check-store"

// always makes the child look through a store that was closed cleanly too.
const always = "--always"

// Self is this very program, also where its file has been replaced meanwhile.
func Self(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	return cmd
}

const (
	// deathPatience bounds the wait for the pipes of a child that was killed.
	deathPatience = 5 * time.Second
	// keptOutput bounds what is kept of what a child says.
	keptOutput = 1 << 20
)

// Check looks through the store of that kind at path unless it was closed cleanly,
// in which case there is no need to. It takes as long as timeout.
func Check(ctx context.Context, program Program, kind, path string, timeout time.Duration) Verdict {
	return look(ctx, program, timeout, path, Command, kind, path)
}

// Look looks through the store in any case.
func Look(ctx context.Context, program Program, kind, path string, timeout time.Duration) Verdict {
	return look(ctx, program, timeout, path, Command, always, kind, path)
}

func look(ctx context.Context, program Program, timeout time.Duration, path string, args ...string) Verdict {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return Verdict{State: Trusted}
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The child dies with the thread that made it, and so with this process: none is
	// left behind that holds the lock against the next start.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := program(limited, args...)
	var said, cried kept
	cmd.Stdout, cmd.Stderr = &said, &cried
	cmd.WaitDelay = deathPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	err := cmd.Run()
	v := Verdict{State: Unverified}
	switch {
	case ctx.Err() != nil:
		v.Reason = "the check was broken off"
	case limited.Err() != nil:
		v.Reason = fmt.Sprintf("the check took longer than %v", timeout)
	default:
		v = judge(err, said.Bytes(), cried.String())
	}
	v.Took = time.Since(began)
	return v
}

// report is what the child writes to its standard output.
type report struct {
	Clean  bool               `json:"clean,omitempty"` // closed cleanly and not looked through
	Held   bool               `json:"held,omitempty"`
	Fault  string             `json:"fault,omitempty"`
	Ledger *ledger.Inspection `json:"ledger,omitempty"`
	Outbox *outbox.Inspection `json:"outbox,omitempty"`
}

// judge tells from a child's end what it has found. err is that of Wait.
func judge(err error, said []byte, cried string) Verdict {
	var r report
	readable := json.Unmarshal(said, &r) == nil
	v := Verdict{State: Unverified, Ledger: r.Ledger, Outbox: r.Outbox}
	var exit *exec.ExitError
	switch {
	case readable && r.Held:
		v.State, v.Reason = Held, "a process has it"
	case err == nil && readable:
		v.State, v.Looked = Trusted, !r.Clean
	case errors.As(err, &exit) && readable && r.Fault != "":
		v.State, v.Looked, v.Reason = Damaged, true, r.Fault
	case errors.As(err, &exit) && diedOfIt(exit, cried):
		v.State, v.Looked, v.Reason = Damaged, true, "reading it ended the reader: "+firstLine(cried)
	case err == nil:
		v.Reason = "the check said nothing that can be understood"
	default:
		v.Reason = fmt.Sprintf("the check ended without a result: %v: %s", err, firstLine(cried))
	}
	return v
}

// diedOfIt reports whether the child met its end in what it read. Want of memory
// and a signal from outside, such as that of the kernel when memory is short, say
// nothing about the file.
func diedOfIt(exit *exec.ExitError, cried string) bool {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		switch status.Signal() {
		case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGILL, syscall.SIGFPE:
			return true
		}
		return false
	}
	for _, own := range []string{"out of memory", "cannot allocate memory", "failed to create new OS thread"} {
		if strings.Contains(cried, own) {
			return false
		}
	}
	for _, fatal := range []string{"fatal error: ", "panic: ", "unexpected fault address"} {
		if strings.Contains(cried, fatal) {
			return true
		}
	}
	return false
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// kept keeps the beginning of what is written.
type kept struct{ bytes.Buffer }

func (k *kept) Write(p []byte) (int, error) {
	k.Buffer.Write(p[:min(len(p), max(0, keptOutput-k.Len()))])
	return len(p), nil
}

// Package clock reads the clocks of a board that may have none: wall time, time
// since boot, which boot this is, and whether the wall clock can be believed.
//
// It only reads. It never sets a clock, and it does not take a plausible date for
// a synchronised one: boards without a battery start at the date of their image
// or of their last clean shutdown.
package clock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxErrorSynced is systemd's own test for NTPSynchronized: the kernel's bound
	// on the clock's error, 16 s from boot until something disciplines it, after
	// which it grows by 500 µs a second. STA_UNSYNC is not looked at, as there.
	maxErrorSynced = 16 * time.Second
	// freeRun is how long after a last update the clock passes for synchronised:
	// until the kernel's bound has grown to maxErrorSynced, 8.9 hours.
	freeRun = maxErrorSynced * 1_000_000 / 500

	bootIDPath = "/proc/sys/kernel/random/boot_id" // random(4)
	// syncedPath is touched by systemd-timesyncd at each update (its manual page,
	// FILES); /run is empty after a boot. It stands in where a sandbox forbids
	// adjtimex, and knows of no other time daemon.
	syncedPath = "/run/systemd/timesync/synchronized"
)

// System is the machine's own clock. It may be used from many goroutines.
type System struct {
	bootID string

	// What a sandbox may refuse, and what a test has other ideas of.
	adjtimex   func(*unix.Timex) (int, error)
	syncedPath string
	now        func() time.Time
}

// New reads the boot's identity. Where /proc does not give it, each process
// counts as a boot of its own, so that no time since boot is carried over.
func New() (*System, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return nil, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return &System{bootID: readBootID(bootIDPath), adjtimex: unix.Adjtimex, syncedPath: syncedPath, now: time.Now}, nil
}

func readBootID(path string) string {
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); err == nil && id != "" {
		return id
	}
	return "process-" + rand.Text()
}

// Now gives the wall clock's time, whatever it is worth, with Go's monotonic reading:
// the difference of two is right although the clock was set in between. (UTC would
// take the reading away.)
func (s *System) Now() time.Time { return s.now() }

// Mono gives the time since boot, suspension included. It never goes back within
// one BootID.
func (s *System) Mono() time.Duration {
	var ts unix.Timespec
	// New has seen it work, and the kernel knows no later failure (clock_gettime(2)).
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// BootID names the boot that Mono counts from.
func (s *System) BootID() string { return s.bootID }

// Synced reports whether something disciplines the wall clock: the kernel's own
// bound on its error is below maxErrorSynced. A date, however plausible, is no
// proof, and a daemon that steps the clock with settimeofday alone, as gokrazy's
// does, is not seen.
func (s *System) Synced() bool {
	var tx unix.Timex // Modes 0: read only
	_, err := s.adjtimex(&tx)
	switch {
	case err == nil:
		return time.Duration(tx.Maxerror)*time.Microsecond < maxErrorSynced
	case forbidden(err):
		return s.syncedByTimesyncd()
	}
	return false
}

// forbidden reports whether a sandbox may have said so: seccomp filters answer
// with EPERM (systemd's ProtectClock=, containers), or with what their owner chose,
// which is EACCES or ENOSYS where it is not EPERM.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// syncedByTimesyncd reports whether timesyncd has set the clock of late, for as long
// as the kernel would believe it. The file's time is that of the clock which was
// right then: where now lies before it, somebody has set the clock back since.
func (s *System) syncedByTimesyncd() bool {
	info, err := os.Stat(s.syncedPath)
	if err != nil {
		return false
	}
	age := s.Now().Sub(info.ModTime())
	return age > -maxErrorSynced && age < freeRun
}

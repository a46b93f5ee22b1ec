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
	// After a last update the clock passes for synchronised for 8.9 hours more.
	maxErrorSynced = 16 * time.Second

	bootIDPath = "/proc/sys/kernel/random/boot_id" // random(4)
	// syncedPath is made by systemd-timesyncd after its first update. It stands in
	// where a sandbox forbids adjtimex.
	syncedPath = "/run/systemd/timesync/synchronized"
)

// System is the machine's own clock. It may be used from many goroutines.
type System struct {
	bootID string

	// The two things that a sandbox may refuse; tests put others in their place.
	adjtimex   func(*unix.Timex) (int, error)
	syncedPath string
}

// New reads the boot's identity. Where /proc does not give it, each process
// counts as a boot of its own, so that no time since boot is carried over.
func New() (*System, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return nil, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return &System{bootID: readBootID(bootIDPath), adjtimex: unix.Adjtimex, syncedPath: syncedPath}, nil
}

func readBootID(path string) string {
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); err == nil && id != "" {
		return id
	}
	return "process-" + rand.Text()
}

// Now gives the wall clock's time in UTC, whatever it is worth.
func (s *System) Now() time.Time { return time.Now().UTC() }

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

// Synced reports whether something disciplines the wall clock. A daemon that
// steps the clock with settimeofday alone, as gokrazy's does, is not seen.
func (s *System) Synced() bool {
	var tx unix.Timex // Modes 0: read only
	_, err := s.adjtimex(&tx)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		_, err = os.Stat(s.syncedPath)
		return err == nil
	}
	return err == nil && time.Duration(tx.Maxerror)*time.Microsecond < maxErrorSynced
}

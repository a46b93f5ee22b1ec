// Package clocktest makes instants as a board reads them whose wall clock was set in
// between: what no test may do to the machine that it runs on.
//
// It knows the inside of time.Time (wall, ext and hasMonotonic in the package's
// sources), and checks each result by what the time package documents of it.
package clocktest

import (
	"fmt"
	"time"
	"unsafe"
)

// An instant with a monotonic reading has in wall a flag, 33 bits of seconds since
// 1885 and 30 bits of nanoseconds, and in ext the monotonic reading.
type instant struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	nsecBits     = 30
)

// Stepped gives the same instant by the monotonic clock, read from a wall clock that
// is ahead by whole seconds. t is one of time.Now, or of Stepped. A wall clock
// outside of 1885 to 2157 cannot be had, since Go drops the monotonic reading there.
func Stepped(t time.Time, by time.Duration) time.Time {
	if by%time.Second != 0 {
		panic(fmt.Sprintf("step of %v: not whole seconds", by))
	}
	s := t
	inside := (*instant)(unsafe.Pointer(&s))
	if unsafe.Sizeof(s) != unsafe.Sizeof(*inside) || inside.wall&hasMonotonic == 0 {
		panic("an instant without a monotonic reading, or another time package")
	}
	inside.wall += uint64(int64(by/time.Second)) << nsecBits
	if s.Sub(t) != 0 || s.Round(0).Sub(t.Round(0)) != by {
		panic(fmt.Sprintf("%v stepped by %v gives %v: another time package", t, by, s))
	}
	return s
}

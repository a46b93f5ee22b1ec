package clock

import (
	"context"
	"time"
)

const (
	// lookEvery is how often Watch looks: two clocks and one system call.
	lookEvery = time.Second
	// stepMin is what the wall clock must have moved by, apart from passing, between
	// two looks to have been set. Disciplining moves it by 0.5 ms a second, by 100 at
	// the very most (adjtimex(2): tick).
	stepMin = 500 * time.Millisecond
)

// A Change is what Watch has seen.
type Change struct {
	Synced bool          // as it is now
	Was    bool          // as it was before
	Step   time.Duration // by how much the wall clock was set; 0: it was not
}

// Watch calls changed when the wall clock is set, or begins or ceases to be
// synchronised, within about a second, until ctx ends. It returns nil.
func (s *System) Watch(ctx context.Context, changed func(Change)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	w := s.watching()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if c, news := w.look(); news {
			changed(c)
		}
	}
}

// watch compares one look with the one before.
type watch struct {
	clock  *System
	synced bool
	offset time.Duration // of the wall clock against the time since boot
}

func (s *System) watching() *watch {
	return &watch{clock: s, synced: s.Synced(), offset: s.offset()}
}

func (w *watch) look() (c Change, news bool) {
	c = Change{Synced: w.clock.Synced(), Was: w.synced}
	offset := w.clock.offset()
	if step := offset - w.offset; step.Abs() >= stepMin {
		c.Step = step
	}
	w.synced, w.offset = c.Synced, offset
	return c, c.Synced != c.Was || c.Step != 0
}

// offset is where the wall clock stands at boot: it changes only when it is set.
func (s *System) offset() time.Duration {
	return time.Duration(s.Now().UnixNano()) - s.Mono()
}

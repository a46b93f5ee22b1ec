package sensors

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Bounds of a bus's loop.
const (
	// hangGrace is how long after its time is up a read may still end by itself
	// and say why. Then it is given up: the bus hangs.
	hangGrace = 50 * time.Millisecond
	// stopWait is how long Run waits for a hanging read when it is stopped.
	stopWait = 2 * time.Second
	// holdLimit is how long a read may take and fail and still be taken for a quick
	// failure. What takes longer holds the bus up for its neighbours.
	holdLimit = 100 * time.Millisecond
	// secondChance is the least pause after the first such read; after the next
	// ones it is holdShare times what the read took, at most RetryMax. So a chip
	// that hangs each time costs its neighbours one part in ten of their bus as
	// long as a read ends within RetryMax/holdShare, and ReadTimeout and a transfer
	// more are less than that.
	secondChance = 2 * time.Second
	holdShare    = 9
	// pulseEvery is the longest time between two turns of an idle bus's loop.
	pulseEvery = 5 * time.Second
)

// busLoop is the loop of one bus. Its goroutine owns it and its lines.
type busLoop struct {
	poller *Poller
	index  int
	name   string
	close  func() error
	wire   *lateBus // the reading goroutine's own
	lines  []*line

	reading  *line     // whose read is under way; nil while the bus is free
	began    time.Time // when it began
	deadline time.Time // when that read is given up
	hung     bool      // it was given up
}

// line is a channel within its loop.
type line struct {
	index    int // in Poller.states
	interval time.Duration
	timeout  time.Duration
	next     time.Time // the next tick
	holds    int       // reads in a row that failed and held the bus up
	status   status
	reader   reader // the reading goroutine's own
}

func newLine(c Channel, bus string, index int, now time.Time) *line {
	return &line{
		index:    index,
		interval: c.Interval,
		timeout:  c.Timeout,
		reader:   reader{channel: c},
		status: status{
			started:    now,
			staleAfter: c.StaleAfter,
			faultAfter: c.FaultAfter,
			ChannelState: ChannelState{Tank: c.Tank, Name: c.Name, Quantity: c.Quantity, Bus: bus, Optional: c.Optional,
				State: StateStale, Reason: ReasonStarting, Since: now},
		},
	}
}

// result is how a read ended.
type result struct {
	reading Reading
	err     error
}

// run is the loop: it starts the read that has waited longest, takes results,
// gives up what hangs, and lets time pass over the states.
func (b *busLoop) run(ctx context.Context) error {
	requests := make(chan *reader, 1) // one read at a time: neither side ever waits
	results := make(chan result, 1)
	closed := make(chan error, 1)
	go func() { closed <- b.read(ctx, requests, results) }()

	start := time.Now()
	for _, l := range b.lines {
		l.next, l.status.started = start, start
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		b.pulse(now)
		b.expire(now)
		if l := b.due(now); l != nil {
			b.reading, b.began, b.deadline = l, now, now.Add(l.timeout+hangGrace)
			requests <- &l.reader
		}
		timer.Reset(b.wake(now).Sub(now))
		select {
		case r := <-results:
			if ctx.Err() == nil {
				b.finish(r, time.Now())
			}
		case <-timer.C:
		case <-ctx.Done():
			close(requests)
			b.rest()
			return b.stop(closed)
		}
	}
}

// read is the reading goroutine: it owns the bus, and closes it in the end.
func (b *busLoop) read(ctx context.Context, requests <-chan *reader, results chan<- result) error {
	for r := range requests {
		if b.wire != nil {
			b.wire.begin(time.Now().Add(r.channel.Timeout))
		}
		reading, err := r.read(ctx)
		results <- result{reading, err}
	}
	if b.close == nil {
		return nil
	}
	if err := b.close(); err != nil {
		return fmt.Errorf("close bus %s: %w", b.name, err)
	}
	return nil
}

// pulse notes that the loop turns.
func (b *busLoop) pulse(now time.Time) {
	b.poller.mu.Lock()
	defer b.poller.mu.Unlock()
	b.poller.pulses[b.index] = now
}

// expire gives up a read whose time is long over, and looks for stale channels.
func (b *busLoop) expire(now time.Time) {
	if b.reading != nil && !b.hung && !now.Before(b.deadline) {
		b.hang(true)
		l := b.reading
		l.status.Late++
		f := &Fault{Reason: ReasonTimeout, Detail: fmt.Sprintf("read did not end within %s: the bus hangs", l.timeout)}
		b.tell(l, l.status.failed(f, Reading{}, now))
	}
	for _, l := range b.lines {
		if l.status.expire(now) {
			b.tell(l, true)
		}
	}
}

// hang notes that the read under way is given up, or has ended at last.
func (b *busLoop) hang(on bool) {
	b.hung = on
	b.poller.mu.Lock()
	defer b.poller.mu.Unlock()
	s := &b.poller.seen[b.index]
	s.Hanging = on
	if on {
		s.Hung++
	}
}

// due is the line whose tick is longest past, if the bus is free.
func (b *busLoop) due(now time.Time) *line {
	if b.reading != nil || len(b.lines) == 0 {
		return nil
	}
	l := slices.MinFunc(b.lines, func(a, b *line) int { return a.next.Compare(b.next) })
	if l.next.After(now) {
		return nil
	}
	return l
}

// wake is when the loop has something to do even if no read ends.
func (b *busLoop) wake(now time.Time) time.Time {
	at := now.Add(pulseEvery)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if b.reading != nil && !b.hung {
		sooner(b.deadline)
	}
	for _, l := range b.lines {
		if b.reading == nil {
			sooner(l.next)
		}
		if t, ok := l.status.staleAt(); ok {
			sooner(t)
		}
	}
	return at
}

// finish takes the result of the read under way and plans the line's next.
func (b *busLoop) finish(r result, now time.Time) {
	l, late := b.reading, b.hung
	b.reading = nil
	if m := l.reader.channel.Booking; m != nil {
		m.Lock()
		defer m.Unlock()
	}
	if late {
		b.hang(false)
	}
	if !late && r.err == nil && l.reader.channel.Refine != nil {
		r.err = l.reader.channel.Refine(&r.reading)
	}
	var changed bool
	switch {
	case late: // counted when it was given up; a value that old is none
	case r.err != nil:
		changed = l.status.failed(asFault(r.err), r.reading, now)
	default:
		changed = l.status.good(r.reading)
	}
	l.schedule(now, now.Sub(b.began))
	b.tell(l, changed)
	if !late && r.err == nil {
		b.poller.o.OnReading(r.reading)
	}
}

// rest hands over what the channels' refiners still keep.
func (b *busLoop) rest() {
	for _, l := range b.lines {
		if l.reader.channel.Rest != nil {
			b.handOver(&l.reader.channel)
		}
	}
}

// handOver is rest of one channel. Other buses may still be at their last readings.
func (b *busLoop) handOver(c *Channel) {
	if c.Booking != nil {
		c.Booking.Lock()
		defer c.Booking.Unlock()
	}
	if r, ok := c.Rest(time.Now()); ok {
		r.Tank, r.Name = c.Tank, c.Name
		b.poller.o.OnReading(r)
	}
}

// schedule plans the next tick on the grid of the interval, after a read that held
// the bus for a while. Ticks that are past already are skipped and counted, never
// made up for: a late read does not move the grid. A chip that fails may have to
// pause instead.
func (l *line) schedule(now time.Time, held time.Duration) {
	l.next = l.next.Add(l.interval)
	if behind := now.Sub(l.next); behind >= 0 {
		n := int64(behind/l.interval) + 1
		l.status.Missed += uint64(n)
		l.next = l.next.Add(time.Duration(n) * l.interval)
	}
	if after := now.Add(l.pause(held)); after.After(l.next) {
		l.next = after
	}
}

// pause is how long a chip that cannot be reached is left alone after a read that
// held the bus for a while, at least; 0 is until its next tick. Quick failures are given
// FaultsBeforeState, then the pause grows. One that held the bus up pauses at once.
func (l *line) pause(held time.Duration) (pause time.Duration) {
	s := &l.status
	failed := s.InRow > 0 && (unreachable(s.last) || s.last == ReasonBus || s.last == ReasonTimeout)
	if !failed || held < holdLimit {
		l.holds = 0
	} else {
		l.holds++
	}
	if failed && s.InRow >= FaultsBeforeState {
		pause = retryPause(l.interval, s.InRow-FaultsBeforeState)
	}
	if l.holds > 0 {
		pause = max(pause, restOf(l.holds, held))
	}
	return pause
}

// restOf is how long what held its bus up for a while is left alone, after so many
// times in a row.
func restOf(inRow int, held time.Duration) time.Duration {
	if inRow == 1 {
		return secondChance
	}
	return max(secondChance, min(holdShare*held, RetryMax))
}

// retryPause is the interval doubled n times, at most RetryMax or the interval.
func retryPause(interval time.Duration, n int) time.Duration {
	pause := interval
	for ; n > 0 && pause < RetryMax; n-- {
		pause *= 2
	}
	return max(interval, min(pause, RetryMax))
}

// tell publishes the line's state for States, and a change to OnState and the log.
func (b *busLoop) tell(l *line, changed bool) {
	s := l.status.ChannelState
	b.poller.mu.Lock()
	b.poller.states[l.index] = s
	b.poller.mu.Unlock()
	if !changed {
		return
	}
	if l.reader.channel.Faulted != nil && s.State != StateOK && s.State != StateSuspect {
		l.reader.channel.Faulted()
	}
	b.poller.log(s)
	b.poller.o.OnState(s)
}

// stop waits for the reader to end and close the bus.
func (b *busLoop) stop(closed <-chan error) error {
	t := time.NewTimer(stopWait)
	defer t.Stop()
	select {
	case err := <-closed:
		return err
	case <-t.C:
		return fmt.Errorf("stop bus %s: a read still hangs after %s", b.name, stopWait)
	}
}

// reader is what the reading goroutine keeps of a channel.
type reader struct {
	channel Channel
	probe   Probe // nil until opened, and after the chip was gone or reset
}

// read opens the probe if need be and measures once, within the channel's time.
func (r *reader) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, r.channel.Timeout)
	defer cancel()
	if r.probe == nil {
		probe, err := r.channel.Open(ctx)
		if err != nil {
			return Reading{}, err
		}
		r.probe = probe
	}
	reading, err := r.probe.Read(ctx)
	reading.Quantity = r.channel.Quantity
	reading.Tank, reading.Name, reading.At, reading.Report = r.channel.Tank, r.channel.Name, time.Now(), true
	if err != nil {
		if f := asFault(err); unreachable(f.Reason) || f.Reason == ReasonReset || f.Reason == ReasonReadback {
			r.probe = nil // what the chip was told at the start it may have lost
		}
		return reading, err
	}
	if reading.Remaining < 0 || reading.Remaining > maxRemaining {
		return Reading{}, &Fault{Reason: ReasonError, Detail: fmt.Sprintf("driver measured %d ng", int64(reading.Remaining))}
	}
	return reading, nil
}

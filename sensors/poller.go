package sensors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bus is one bus with everything on it. Its channels share the wire, so they are
// read one at a time.
type Bus struct {
	Name     string
	Channels []Channel
	Close    func() error // may be nil; called when the last read has ended

	wire *lateBus // nil where there is no such bus
}

// BusState is what a bus has been through since the start, as metrics show it.
type BusState struct {
	Name     string
	Failures uint64 // transfers that failed by trouble of the bus: lines, arbitration, time, short ones
	Nacks    uint64 // transfers that nobody acknowledged, each repetition for itself
	Reopens  uint64 // how often the device was opened anew after it had gone
	Hung     uint64 // reads that were given up because they did not end
	Hanging  bool   // the read under way is one of these
}

// Options say whom the poller tells. Both functions are called from the loop of
// the bus concerned: with several buses concurrently, for one channel in order.
// While one runs, its bus is not read; ticks that pass meanwhile are skipped and
// counted. Either may be nil.
type Options struct {
	// OnReading takes every good reading. What it does with it (deadband, event,
	// outbox) is not the poller's affair.
	OnReading func(Reading)
	// OnState takes every change of a channel's state or reason.
	OnState func(ChannelState)
	Log     zerolog.Logger
}

// Poller reads the channels of all buses, each at its own interval.
//
// Each bus has a loop, which owns the states of its channels, and a reader, which
// owns the bus and does nothing but read. A transfer cannot be cancelled, so a
// chip that hangs holds its reader; the loop goes on, gives up the read, and
// lets the channels go stale. Other buses do not notice.
type Poller struct {
	buses []*busLoop
	o     Options

	mu     sync.Mutex // guards what follows
	states []ChannelState
	pulses []time.Time // of each loop's latest turn
	seen   []BusState  // of each loop, what it saw itself
}

// NewPoller makes a poller. It touches no hardware. The error lists all that is
// wrong with the channels.
func NewPoller(buses []Bus, o Options) (*Poller, error) {
	p := &Poller{o: o}
	if p.o.OnReading == nil {
		p.o.OnReading = func(Reading) {}
	}
	if p.o.OnState == nil {
		p.o.OnState = func(ChannelState) {}
	}
	now := time.Now()
	var errs []error
	for i, b := range buses {
		loop := &busLoop{poller: p, index: i, name: b.Name, close: b.Close, wire: b.wire}
		for _, c := range b.Channels {
			if err := c.complete(); err != nil {
				errs = append(errs, fmt.Errorf("channel %s of tank %s: %w", c.Name, c.Tank, err))
			}
			line := newLine(c, b.Name, len(p.states), now)
			loop.lines = append(loop.lines, line)
			p.states = append(p.states, line.status.ChannelState)
		}
		p.buses = append(p.buses, loop)
		p.pulses = append(p.pulses, now)
		p.seen = append(p.seen, BusState{Name: b.Name})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Run reads all channels at once and then at their intervals, until ctx ends. It
// closes the buses. The error is nil unless a bus did not close, or a read still
// hangs stopWait after the end; it is then left behind, and its bus with it. Run
// runs once.
func (p *Poller) Run(ctx context.Context) error {
	if len(p.buses) == 0 {
		<-ctx.Done()
	}
	errs := make([]error, len(p.buses))
	var wg sync.WaitGroup
	for i, b := range p.buses {
		wg.Go(func() { errs[i] = b.run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// States gives all channels as they stand, in the order of the buses and their
// channels.
func (p *Poller) States() []ChannelState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.states)
}

// Buses gives all buses as they stand, in their order.
func (p *Poller) Buses() []BusState {
	p.mu.Lock()
	states := slices.Clone(p.seen)
	p.mu.Unlock()
	for i, b := range p.buses {
		if b.wire != nil {
			b.wire.count(&states[i])
		}
	}
	return states
}

// Pulse is when the slowest bus's loop last turned: for a watchdog. An idle loop
// turns every few seconds, and it turns while its bus hangs; it stands still only
// while OnReading or OnState does.
func (p *Poller) Pulse() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.MinFunc(append([]time.Time{time.Now()}, p.pulses...), time.Time.Compare)
}

// log writes a change of state: an error where a human must act.
func (p *Poller) log(s ChannelState) {
	level := zerolog.WarnLevel
	switch {
	case s.State == StateOK, s.State == StateMissing && s.Optional:
		level = zerolog.InfoLevel
	case s.State == StateFault, s.State == StateMissing:
		level = zerolog.ErrorLevel
	}
	p.o.Log.WithLevel(level).Str("tank", s.Tank).Str("channel", s.Name).Str("bus", s.Bus).
		Str("state", string(s.State)).Str("reason", string(s.Reason)).Str("detail", s.Detail).
		Int("faults_in_row", s.InRow).Msg("sensor state changed")
}

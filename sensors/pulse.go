package sensors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// pulseBatch is how many events are taken from the kernel at a time.
	pulseBatch = 256
	// pulseEventsMax is how many events one read takes, at most; what is left waits
	// for the next one. It is more than the kernel keeps, so it bounds only a read
	// under a line that oscillates.
	pulseEventsMax = 4 * lineEvents
	// pulseStill is how long after the last pulse the rate is 0.
	pulseStill = time.Minute
)

// EventLine is a line whose edges are counted; *Line is one. ReadEvents moves what
// waits into dst and does not wait.
type EventLine interface {
	ReadEvents(dst []LineEvent) (int, error)
	Close() error
}

// Pulses is what a pulse meter has counted.
type Pulses struct {
	// Total is every pulse since the meter's start, on top of what it began with.
	// It is exact over lost events, whose number the kernel tells.
	Total uint64
	// Lost is how many of Total had no event any more when they were read: counted,
	// but not seen. NewlyLost is those that no earlier reading told of: this one is
	// suspect then, by ReasonLost, since the meter is read too seldom or its line
	// oscillates.
	Lost, NewlyLost uint64

	// Rate is pulses a second by the kernel's clock, between the newest event and
	// the newest one of an earlier read; 0 before there are two such. While no pulse
	// comes it is at most what one pulse now would make it.
	Rate float64

	// Session counts how often the line was opened, from 1, Since is when the last
	// time was. Pulses between two sessions, and those that waited when the line
	// vanished, are in no number; so the first reading of a session deserves a look.
	Session int
	Since   time.Time
}

// PulseMeter counts the pulses of a flow meter on a GPIO line. It keeps the total
// and the kernel's last event number; one goroutine owns it. The kernel keeps 1024
// events: a meter read every second may give a thousand pulses a second.
type PulseMeter struct {
	open  func() (EventLine, error)
	clock Clock

	line    EventLine // nil while there is none
	lastSeq uint32    // of this session; 0 before its first event
	count   Pulses
	told    uint64 // of count.Lost, what a reading has said
	events  [pulseBatch]LineEvent

	newest pulseMark // the newest event read
	seen   time.Time // when it was read, so after it happened
}

// pulseMark is a place in the stream of pulses: the total at an event, and its
// time.
type pulseMark struct {
	total uint64
	at    time.Duration
	known bool
}

// NewPulseMeter opens the line and counts on from start, which is 0 or what was
// kept of an earlier total. The line that open gives is the meter's, which closes
// it, and opens it anew after it vanished. An error is open's, as a *Fault. A nil
// clock is the system's.
func NewPulseMeter(open func() (EventLine, error), start uint64, clock Clock) (*PulseMeter, error) {
	if start > math.MaxInt64 {
		return nil, fmt.Errorf("pulse meter cannot begin at %d: at most %d", start, int64(math.MaxInt64))
	}
	if clock == nil {
		clock = systemClock{}
	}
	m := &PulseMeter{open: open, clock: clock, count: Pulses{Total: start}}
	if err := m.begin(); err != nil {
		return nil, err
	}
	return m, nil
}

// OpenPulseMeter counts the edges of a GPIO line, which must be an input with an
// edge to count.
func OpenPulseMeter(c LineConfig, start uint64, clock Clock) (*PulseMeter, error) {
	if c.Output || c.Edge == "" {
		return nil, errors.New("a pulse meter's line is an input with an edge to count")
	}
	return NewPulseMeter(func() (EventLine, error) {
		line, err := OpenLine(c)
		if err != nil {
			return nil, err // not a nil *Line in an interface
		}
		return line, nil
	}, start, clock)
}

// begin opens the line if there is none. The kernel numbers events anew then, so
// a new session begins; its total continues the old one's.
func (m *PulseMeter) begin() error {
	if m.line != nil {
		return nil
	}
	line, err := m.open()
	if err != nil {
		return lineFault("open line", err)
	}
	m.line, m.lastSeq, m.newest = line, 0, pulseMark{}
	m.count.Session++
	m.count.Since = m.clock.Now()
	return nil
}

// Measure implements Input: the total, as it is. Pulses that were lost are in it;
// who wants to know of them calls Count.
func (m *PulseMeter) Measure(ctx context.Context) (Measured, error) {
	p, err := m.Count(ctx)
	if err != nil {
		return Measured{}, err
	}
	return Measured{Raw: int64(p.Total), Value: float64(p.Total)}, nil
}

// Count takes the events that wait, and does not wait for any. A line that is gone
// is a *Fault no_bus, and is opened anew by the next call; the pulses counted so
// far are kept.
func (m *PulseMeter) Count(ctx context.Context) (Pulses, error) {
	if err := ctx.Err(); err != nil {
		return Pulses{}, waitFault(err)
	}
	if err := m.begin(); err != nil {
		return Pulses{}, err
	}
	earlier := m.newest
	for taken := 0; taken < pulseEventsMax; taken += pulseBatch {
		n, err := m.line.ReadEvents(m.events[:])
		for _, e := range m.events[:n] { // before an error too: they are read
			if err := m.add(e); err != nil {
				return Pulses{}, m.end(err)
			}
		}
		if err != nil {
			return Pulses{}, m.end(err)
		}
		if n < pulseBatch {
			break
		}
	}
	m.rate(earlier)
	p := m.count
	p.NewlyLost = p.Lost - m.told
	m.told = p.Lost
	return p, nil
}

// add counts an event, and the ones before it that nobody read. What the kernel's
// number counts is said at LineEvent.
func (m *PulseMeter) add(e LineEvent) error {
	step := e.LineSeq - m.lastSeq // wraps as the number does
	if step == 0 || step > math.MaxUint32/2 {
		return &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("event %d after event %d: the numbers of a line only grow", e.LineSeq, m.lastSeq)}
	}
	m.lastSeq = e.LineSeq
	m.count.Total += uint64(step)
	m.count.Lost += uint64(step - 1)
	m.newest = pulseMark{total: m.count.Total, at: e.At, known: true}
	m.seen = m.clock.Now()
	return nil
}

// end closes the line after an error.
func (m *PulseMeter) end(err error) error {
	closeErr := m.line.Close()
	m.line = nil
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return lineFault("read events", errors.Join(err, closeErr))
}

// rate brings the rate up to date; earlier is the newest event before this read.
func (m *PulseMeter) rate(earlier pulseMark) {
	if took := m.newest.at - earlier.at; earlier.known && m.newest.total > earlier.total && took > 0 {
		m.count.Rate = float64(m.newest.total-earlier.total) / took.Seconds()
		return
	}
	switch quiet := m.clock.Now().Sub(m.seen); {
	case !m.newest.known, quiet >= pulseStill:
		m.count.Rate = 0
	case quiet > 0:
		m.count.Rate = min(m.count.Rate, 1/quiet.Seconds())
	}
}

// Close gives the line back, if there is one.
func (m *PulseMeter) Close() error {
	if m.line == nil {
		return nil
	}
	err := m.line.Close()
	m.line = nil
	return err
}

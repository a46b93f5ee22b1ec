package sensors

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"periph.io/x/conn/v3/physic"
)

const (
	// simulatedTurns bounds how often the rates of a simulated tank change until
	// its script repeats itself as a whole. A script that needs more is refused.
	simulatedTurns = 4096
	// simulatedLaps bounds the repeats until nothing new happens any more. Five do.
	simulatedLaps = 8
	// forever is a count that no repeat reaches.
	forever = math.MaxInt64
)

// SimulatedTruth is what a simulated tank really holds, and what has become of
// the rest since its start, in kilograms. Content is the start less Consumed and
// Leaked, and Refilled added. What the sensor makes of it is another matter.
type SimulatedTruth struct {
	Content  float64 // >= 0, at most the capacity
	Consumed float64 // by the crew
	Leaked   float64 // by leaks and bursts
	Refilled float64 // by the script or the refill rule

	Removed bool // the cylinder is off
}

// Truth is the state at a time after the start, whatever was read of it: what an
// account fed from this tank is to be compared with. It is exact between the
// steps, too.
func (s *Simulated) Truth(elapsed time.Duration) SimulatedTruth {
	const kilogram = float64(physic.KiloGram)
	elapsed = max(0, elapsed)
	at := s.course.at(elapsed)
	return SimulatedTruth{at.content / kilogram, at.consumed / kilogram, at.leaked / kilogram, at.refilled / kilogram,
		s.course.removed(elapsed)}
}

// simulatedState is a simulated tank's content and totals, in nanograms.
type simulatedState struct{ content, consumed, leaked, refilled float64 }

// plus is s with n times gain.
func (s simulatedState) plus(n int64, gain simulatedState) simulatedState {
	f := float64(n)
	return simulatedState{s.content + f*gain.content, s.consumed + f*gain.consumed,
		s.leaked + f*gain.leaked, s.refilled + f*gain.refilled}
}

// simulatedCourse is the content of a simulated tank over all time. It never
// changes after it was made.
//
// Between two turns (instants at which an event or the crew's sleep begins or
// ends) all rates are constant, so the state at a turn gives the state at any
// instant up to the next. At settled the last event has begun, and those without
// a repeat are over. From then on the rates repeat themselves after a period: a
// lap. What a lap does to the content x is the same for all x above top, the
// highest level that a repeated refill fills to: it takes something away. Once x
// is below top, the refill to top fixes the content within the lap, whatever it
// was. So there are a few different laps, and all others repeat them.
type simulatedCourse struct {
	o       SimulatedOptions // complete
	events  []SimulatedEvent // those that change the content
	sleep   *SimulatedEvent  // the crew's; nil where it never sleeps
	settled time.Duration
	period  time.Duration

	before []simulatedTurn // [0, settled)
	laps   []simulatedLap  // from settled on, in their order
}

// simulatedTurn is the state at an instant at which the rates change.
type simulatedTurn struct {
	at    time.Duration
	state simulatedState
}

// simulatedLap is a period that stands count times in a row. The turns are those
// of the first, with totals of this lap alone: small sums keep small leaks. Each of
// the next begins with gain more.
type simulatedLap struct {
	count int64
	turns []simulatedTurn
	total simulatedState // before the first; no content
	gain  simulatedState
}

// newSimulatedCourse works out the course of a tank of complete, right options.
func newSimulatedCourse(o SimulatedOptions) (*simulatedCourse, error) {
	c := &simulatedCourse{o: o}
	var repeats []time.Duration
	for _, e := range o.Events {
		if f, _ := e.Do.form(); !f.truth && e.Do != SimulatedRemove {
			continue
		}
		c.events = append(c.events, e)
		c.settled = max(c.settled, e.At)
		if e.Every > 0 {
			repeats = append(repeats, e.Every)
		} else {
			c.settled = max(c.settled, e.At+max(e.For, 1)) // an instant is over when the next one comes
		}
	}
	if o.AsleepFor > 0 {
		c.sleep = &SimulatedEvent{At: o.AsleepAfter, For: o.AsleepFor, Every: o.Day}
		c.settled = max(c.settled, o.AsleepAfter)
		repeats = append(repeats, o.Day)
	}
	var ok bool
	if c.period, ok = commonPeriod(repeats); !ok {
		return nil, c.tooLong()
	}
	return c, c.run()
}

// commonPeriod is the least common multiple of the repeats; a day where there are
// none. ok is false where it is absurd.
func commonPeriod(repeats []time.Duration) (period time.Duration, ok bool) {
	if len(repeats) == 0 {
		return simulatedDay, true
	}
	period = 1
	for _, d := range repeats {
		a, b := period, d
		for b != 0 {
			a, b = b, a%b
		}
		if d/a > simulatedLongest/period {
			return 0, false
		}
		period *= d / a
	}
	return period, true
}

func (c *simulatedCourse) tooLong() error {
	return fmt.Errorf("simulated script takes more than %d turns before it repeats itself: "+
		"let fewer events repeat, or after times that divide one another", simulatedTurns)
}

// run works out the time before settled and the laps that differ.
func (c *simulatedCourse) run() error {
	var ok bool
	s := simulatedState{content: float64(c.o.Start)}
	if c.before, s, ok = c.walk(0, c.settled, s); !ok {
		return c.tooLong()
	}
	top := 0.0
	for _, e := range c.events {
		if e.Do == SimulatedRefill && e.Every > 0 {
			top = max(top, float64(e.To))
		}
	}
	for len(c.laps) < simulatedLaps {
		lap := simulatedLap{count: 1, total: s}
		lap.total.content = 0
		var end simulatedState
		lap.turns, end, ok = c.walk(c.settled, c.settled+c.period, simulatedState{content: s.content})
		if !ok || len(c.before)+len(lap.turns) > simulatedTurns {
			return c.tooLong()
		}
		lap.gain = end.plus(-1, simulatedState{content: s.content})
		switch loss := end.consumed + end.leaked; {
		case !c.o.NoRefill, loss == 0 && end.refilled == 0:
			lap.count = forever
		case end.content > top: // nothing but losses, and so the next ones, down to top
			lap.gain.content = -loss // not rounded as the content is
			lap.count = max(1, int64(min((s.content-top)/loss, forever/2)))
		case end.content == s.content:
			lap.gain.refilled = loss // as above
			lap.count = forever
		}
		c.laps = append(c.laps, lap)
		if lap.count == forever {
			return nil
		}
		s = c.ruled(s.plus(lap.count, lap.gain))
	}
	return fmt.Errorf("simulated script does not settle within %d repeats", simulatedLaps)
}

// walk goes from turn to turn over [from, to). ok is false where they are too many.
func (c *simulatedCourse) walk(from, to time.Duration, s simulatedState) (turns []simulatedTurn, end simulatedState, ok bool) {
	for now := from; now < to; {
		if len(turns) == simulatedTurns {
			return nil, s, false
		}
		s = c.strike(now, s)
		turns = append(turns, simulatedTurn{now, s})
		next := min(to, c.turn(now))
		s = c.pass(now, next, s)
		now = next
	}
	return turns, s, true
}

// turn is the next turn after now.
func (c *simulatedCourse) turn(now time.Duration) time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, e := range c.events {
		if at, ok := e.turn(now); ok {
			next = min(next, at)
		}
	}
	if c.sleep != nil {
		at, _ := c.sleep.turn(now)
		next = min(next, at)
	}
	return next
}

// strike does what happens at once at this instant: first what is lost, then what
// is filled up.
func (c *simulatedCourse) strike(now time.Duration, s simulatedState) simulatedState {
	removed := c.removed(now)
	for _, e := range c.events {
		if since, ok := e.began(now); ok && since == 0 && e.Do == SimulatedBurst && e.For == 0 && !removed {
			s = c.lose(s, 0, float64(e.By))
		}
	}
	for _, e := range c.events {
		if since, ok := e.began(now); ok && since == 0 && e.Do == SimulatedRefill && e.For == 0 && s.content < float64(e.To) {
			s.refilled += float64(e.To) - s.content
			s.content = float64(e.To)
		}
	}
	return s
}

// removed reports whether the cylinder is off.
func (c *simulatedCourse) removed(now time.Duration) bool {
	return slices.ContainsFunc(c.events, func(e SimulatedEvent) bool {
		_, on := e.on(now)
		return on && e.Do == SimulatedRemove
	})
}

// pass takes the state from a turn to an instant at most at the next turn.
func (c *simulatedCourse) pass(from, to time.Duration, s simulatedState) simulatedState {
	consumed, leaked := c.rates(from)
	hours := (to - from).Hours()
	level, left := c.filling(from)
	if left == 0 {
		return c.lose(s, consumed*hours, leaked*hours)
	}
	if s.content > level { // first down to it
		falls := math.Inf(1)
		if consumed+leaked > 0 {
			falls = (s.content - level) / (consumed + leaked)
		}
		if falls >= hours {
			return c.lose(s, consumed*hours, leaked*hours)
		}
		s = c.lose(s, consumed*falls, leaked*falls)
		s.content, hours = level, hours-falls
	}
	end := level
	if to-from < left {
		end = s.content + (level-s.content)*float64(to-from)/float64(left)
	}
	s.refilled += end - s.content + (consumed+leaked)*hours
	s.consumed += consumed * hours
	s.leaked += leaked * hours
	s.content = end
	return s
}

// rates gives what the tank loses an hour, from a turn to the next.
func (c *simulatedCourse) rates(now time.Duration) (consumed, leaked float64) {
	if c.removed(now) {
		return 0, 0
	}
	consumed = float64(c.o.PerHour)
	if c.sleep != nil {
		if _, asleep := c.sleep.on(now); asleep {
			consumed = float64(c.o.AsleepPerHour)
		}
	}
	for _, e := range c.events {
		_, on := e.on(now)
		switch {
		case !on:
		case e.Do == SimulatedLeak:
			leaked += float64(e.Rate)
		case e.Do == SimulatedBurst && e.For > 0:
			leaked += float64(e.By) / e.For.Hours()
		}
	}
	return consumed, leaked
}

// filling is the level that the tank is being filled to, and the time until it is
// there; 0 where nobody fills. Of two to the same level the quicker one counts.
func (c *simulatedCourse) filling(now time.Duration) (level float64, left time.Duration) {
	for _, e := range c.events {
		since, on := e.on(now)
		if !on || e.Do != SimulatedRefill || e.For == 0 {
			continue
		}
		if to, rest := float64(e.To), e.For-since; left == 0 || to > level || to == level && rest < left {
			level, left = to, rest
		}
	}
	return level, left
}

// lose takes both amounts away, as far as there is something or the rule refills.
func (c *simulatedCourse) lose(s simulatedState, consumed, leaked float64) simulatedState {
	if all := consumed + leaked; c.o.NoRefill && all > s.content {
		part := s.content / all
		consumed, leaked = consumed*part, leaked*part
		s.content = 0
	} else {
		s.content -= all
	}
	s.consumed += consumed
	s.leaked += leaked
	return c.ruled(s)
}

// ruled is the state with the content that the refill rule makes of the losses so
// far: first down from the start, then a sawtooth. Where the rule is off the
// content stands already.
func (c *simulatedCourse) ruled(s simulatedState) simulatedState {
	if c.o.NoRefill {
		s.content = max(0, s.content)
		return s
	}
	used, first := s.consumed+s.leaked, float64(c.o.Start-c.o.RefillAt)
	s.content = float64(c.o.Start) - used
	if used >= first {
		s.content = float64(c.o.RefillTo) - math.Mod(used-first, float64(c.o.RefillTo-c.o.RefillAt))
	}
	s.refilled = s.content - float64(c.o.Start) + used
	return s
}

// at is the state at any time.
func (c *simulatedCourse) at(elapsed time.Duration) simulatedState {
	if elapsed < c.settled {
		return c.within(simulatedLap{turns: c.before}, 0, elapsed)
	}
	n := int64((elapsed - c.settled) / c.period)
	elapsed = c.settled + (elapsed-c.settled)%c.period
	i := 0
	for ; n >= c.laps[i].count; i++ { // the last one stands for ever
		n -= c.laps[i].count
	}
	return c.within(c.laps[i], n, elapsed)
}

// within is the state at an instant of a lap that had n like it before it.
func (c *simulatedCourse) within(lap simulatedLap, n int64, elapsed time.Duration) simulatedState {
	i := sort.Search(len(lap.turns), func(i int) bool { return lap.turns[i].at > elapsed }) - 1
	s := lap.turns[i].state.plus(1, lap.total).plus(n, lap.gain)
	return c.pass(lap.turns[i].at, elapsed, c.ruled(s))
}

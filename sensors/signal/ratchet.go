package signal

import (
	"fmt"
	"time"
)

// Defaults and bounds of a Ratchet.
const (
	DefaultRatchetTau    = 2 * time.Minute
	DefaultRatchetSettle = 3 * time.Minute
	ratchetPatience      = 10 // times Settle: a level that does not settle is booked as it is then
)

// RatchetOptions describe how consumption is derived from a tank's mass. Masses
// are in one unit, the kilogram by custom.
type RatchetOptions struct {
	// Deadband is the fall that is booked, > 0: some three standard deviations of
	// what the mass does by itself, noise and changes of temperature included.
	Deadband float64

	// RefillAbove is the least rise above the booked level that is a refill, at
	// least Deadband. It must exceed what the reading recovers when the gas warms
	// up again after a draw-down, or that recovery is taken for a refill.
	RefillAbove float64

	// MaxRate is the fastest plausible consumption, in units a second. A larger
	// fall than it explains is not consumption: the cylinder was taken off, or
	// something burst. 0 means that every fall is consumption.
	MaxRate float64

	Tau    time.Duration // of the exponential mean behind the median, > 0; 0 means two minutes
	Settle time.Duration // how long a new level must stand still, > 0; 0 means three minutes
	Gap    time.Duration // > 0: a longer time without samples is a gap; 0 means DefaultGap
}

// Kind is what a change of the mass means.
type Kind string

// The kinds.
const (
	KindNone     Kind = ""
	KindConsumed Kind = "consumed"
	KindRefilled Kind = "refilled"
	KindRemoved  Kind = "removed" // mass went that nobody can have consumed in the time
)

// Change is one booking. The zero Change is none.
type Change struct {
	Kind     Kind
	Amount   float64 // > 0: the difference of From and To
	From, To float64 // the booked level before and after
	Gap      bool    // happened while the tank was not measured: when is not known
}

// RatchetState is what a restart must not forget. It is kept together with the
// change that led to it: an older one books that change again, a newer one loses it.
type RatchetState struct {
	Known  bool    `json:"known"`
	Booked float64 `json:"booked"` // the level up to which all is booked
}

// Ratchet derives consumption and refills from a tank's mass.
//
// The mass is filtered by a median of up to five samples of the last Tau/2 and an
// exponential mean of time constant Tau. Consumption is booked when the filtered
// level has fallen by more than Deadband below the booked level, which then
// follows. A rise is noise, and so is what falls after it down to the booked level:
// gas that cools when it is drawn and warms up again is booked once.
//
// The filter stands still while the mass is RefillAbove or more above the booked
// level, or further below the filtered one than MaxRate explains. If the mass
// comes back, nothing was. If it settles, within Deadband for Settle, the rise is
// one refill or the fall one removal. If it has not settled after ten times
// Settle, what there is by then is booked and the rest follows.
//
// After a gap or a restart the level must settle too. What is missing then is
// consumption where MaxRate explains it over the time away, or where that time is
// not known, and removed otherwise; what came is a refill from RefillAbove. Both
// say that they happened in a gap. A difference smaller than these bounds is kept
// and counts on.
//
// At every moment consumed + removed − refilled is the first booked level less
// the present one. The filtered level lies at most Deadband below that, and less
// than RefillAbove above.
type Ratchet struct {
	o     RatchetOptions
	pace  pace
	state RatchetState

	recent  recent
	level   float64       // the filtered mass
	at      time.Duration // of the last sample that went into level
	blind   bool          // level is not known: a gap
	unknown bool          // for how long it was is not known either
	away    time.Duration // before the first sample, if known
	pending plateau

	impatient uint64
}

// NewRatchet makes a ratchet that knows no level; its first sample becomes it. The
// error says all that is wrong with o.
func NewRatchet(o RatchetOptions) (*Ratchet, error) {
	o.Tau = orElse(o.Tau, DefaultRatchetTau)
	o.Settle = orElse(o.Settle, DefaultRatchetSettle)
	o.Gap = orElse(o.Gap, DefaultGap)
	var f faults
	f.unless(o.Deadband > 0 && finite(o.Deadband), "consumption deadband %g is not above zero", o.Deadband)
	f.unless(o.RefillAbove >= o.Deadband && finite(o.RefillAbove),
		"consumption refill_above %g is not at least the deadband %g", o.RefillAbove, o.Deadband)
	f.unless(o.MaxRate >= 0 && finite(o.MaxRate), "consumption max_rate %g is not zero or above", o.MaxRate)
	f.unless(o.Tau > 0, "consumption tau %s is not above zero", o.Tau)
	f.unless(o.Settle > 0 && o.Settle <= 24*time.Hour, "consumption settle %s is not above zero and at most a day", o.Settle)
	f.unless(o.Gap > 0, "consumption gap %s is not above zero", o.Gap)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Ratchet{o: o, pace: pace{gap: o.Gap}, recent: recent{span: o.Tau / 2}}, nil
}

// State is what to keep.
func (r *Ratchet) State() RatchetState { return r.state }

// Restore takes up where a State was kept, away ago; 0 where that is not known. It
// is called before the first sample.
func (r *Ratchet) Restore(s RatchetState, away time.Duration) error {
	if !finite(s.Booked) || away < 0 {
		return fmt.Errorf("restore booked level %g from %s ago: not a number or not in the past", s.Booked, away)
	}
	if r.pace.any {
		return fmt.Errorf("restore booked level %g: samples came before it", s.Booked)
	}
	r.state, r.away, r.unknown = s, away, away == 0
	return nil
}

// Level is the filtered mass; false while none is known, and while a new one settles.
func (r *Ratchet) Level() (float64, bool) {
	return r.level, r.state.Known && r.pace.any && !r.pending.on
}

// Impatient counts the levels that were booked although they had not settled.
func (r *Ratchet) Impatient() uint64 { return r.impatient }

// Take takes one mass, and gives what is to be booked because of it. v is what the
// steps before have found: what is rejected or unconfirmed is left alone. The
// verdict is v, or why the ratchet itself refuses the sample.
func (r *Ratchet) Take(mass float64, v Verdict, at time.Duration) (Change, Verdict) {
	if !v.settled() {
		return Change{}, v
	}
	dt, fresh, why := r.pace.step(mass, at)
	if why != "" {
		return Change{}, rejected(why)
	}
	if fresh {
		r.recent.n = 0
	}
	m := r.recent.add(mass, at)
	if !r.state.Known {
		r.state = RatchetState{Known: true, Booked: m}
		r.level, r.at = m, at
		return Change{}, v
	}
	if fresh && !r.blind {
		r.blind, r.pending.on = true, false
		if dt == 0 { // the first since Restore
			r.at = at - r.away
		}
	}
	return r.move(m, dt, at), v
}

// move follows the level, or waits for a new one to settle.
func (r *Ratchet) move(m float64, dt, at time.Duration) Change {
	if !r.blind && !r.departs(m, dt) {
		r.pending.on = false
		return r.follow(m, dt, at)
	}
	if rising := m > r.level; !r.pending.on || !r.blind && rising != r.pending.rising {
		r.pending = plateau{on: true, rising: rising, level: m, low: m, high: m, since: at, began: at}
	} else {
		r.pending.add(m, blend(dt, r.o.Settle/8), r.o.Deadband, at)
	}
	settled := at-r.pending.since >= r.o.Settle
	if !settled && at-r.pending.began < ratchetPatience*r.o.Settle {
		return Change{}
	}
	if !settled {
		r.impatient++
	}
	return r.resolve(at)
}

// departs reports whether m is more than consumption and noise explain.
func (r *Ratchet) departs(m float64, dt time.Duration) bool {
	return m-r.state.Booked >= r.o.RefillAbove || r.o.MaxRate > 0 && r.level-m > r.explained(dt)
}

// explained is how far the mass can be below the filtered level, or below the
// booked one after a gap, by consumption over a time: the filter lags a ramp by
// its time constant, its median by no more than what it spans.
func (r *Ratchet) explained(dt time.Duration) float64 {
	return r.o.MaxRate*(dt+r.o.Tau+r.recent.span).Seconds() + r.o.Deadband
}

// follow moves the filtered level towards m and books its fall.
func (r *Ratchet) follow(m float64, dt, at time.Duration) Change {
	r.level += blend(dt, r.o.Tau) * (m - r.level)
	r.at = at
	if r.state.Booked-r.level <= r.o.Deadband {
		return Change{}
	}
	return r.book(KindConsumed, r.level, false)
}

// resolve makes the level that has settled the filtered one, and books the
// difference.
func (r *Ratchet) resolve(at time.Duration) Change {
	level, gap, away := r.pending.level, r.blind, at-r.at
	fall := r.state.Booked - level
	jumped := !gap || r.o.MaxRate > 0 && !r.unknown && fall > r.explained(away)
	r.level, r.at = level, at
	r.pending.on, r.blind, r.unknown = false, false, false
	switch {
	case -fall >= r.o.RefillAbove:
		return r.book(KindRefilled, level, gap)
	case fall <= r.o.Deadband:
		return Change{}
	case jumped:
		return r.book(KindRemoved, level, gap)
	}
	return r.book(KindConsumed, level, gap)
}

// book makes a change of the booked level.
func (r *Ratchet) book(k Kind, to float64, gap bool) Change {
	from := r.state.Booked
	r.state.Booked = to
	return Change{Kind: k, Amount: max(from-to, to-from), From: from, To: to, Gap: gap}
}

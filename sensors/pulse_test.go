package sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fifo is a line as the kernel keeps it (drivers/gpio/gpiolib-cdev.c): it numbers
// the events from 1 and holds 1024; one more pushes out the oldest.
type fifo struct {
	events []LineEvent
	seq    uint32
	err    error // of the next reads
	closed int
}

func (k *fifo) pulse(at time.Duration) {
	k.seq++
	k.events = append(k.events, LineEvent{At: at, Rising: true, Seq: k.seq, LineSeq: k.seq})
	if len(k.events) > lineEvents {
		k.events = k.events[1:]
	}
}

func (k *fifo) ReadEvents(dst []LineEvent) (int, error) {
	if k.err != nil {
		return 0, k.err
	}
	n := copy(dst, k.events)
	k.events = k.events[n:]
	return n, nil
}

func (k *fifo) Close() error { k.closed++; return nil }

// meterRig is a meter on lines that a test hands out.
type meterRig struct {
	clock *virtual
	line  *fifo // the next to open
	err   error // of the next openings
	opens int
}

func (r *meterRig) open() (EventLine, error) {
	r.opens++
	if r.err != nil {
		return nil, r.err
	}
	return r.line, nil
}

func newMeter(t testing.TB, start uint64) (*PulseMeter, *meterRig) {
	t.Helper()
	r := &meterRig{clock: newVirtual(), line: &fifo{}}
	m, err := NewPulseMeter(r.open, start, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func mustCount(t testing.TB, m *PulseMeter) Pulses {
	t.Helper()
	p, err := m.Count(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFC61LostPulsesAreCountedAndSaid: the kernel's buffer overflows; the total is
// right all the same, and the reading says what nobody saw. Never 0, never less.
func TestFC61LostPulsesAreCountedAndSaid(t *testing.T) {
	m, r := newMeter(t, 0)
	for i := range 3000 {
		r.line.pulse(time.Duration(i) * time.Millisecond)
	}
	p := mustCount(t, m)
	if p.Total != 3000 || p.Lost != 3000-1024 || p.NewlyLost != p.Lost {
		t.Errorf("got %+v, want 3000 with 1976 lost", p)
	}
	r.line.pulse(3000 * time.Millisecond)
	p = mustCount(t, m)
	if p.Total != 3001 || p.Lost != 1976 || p.NewlyLost != 0 {
		t.Errorf("got %+v, want 3001 and nothing newly lost", p)
	}
	got, err := m.Measure(t.Context())
	if want := (Measured{Raw: 3001, Value: 3001}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestPulseTotalIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &meterRig{clock: newVirtual(), line: &fifo{seq: rapid.SampledFrom([]uint32{0, math.MaxUint32 - 1500}).Draw(t, "seq")}}
		m, err := NewPulseMeter(r.open, 7, r.clock)
		if err != nil {
			t.Fatal(err)
		}
		m.lastSeq = r.line.seq // as after that many events
		var made, dropped, told uint64
		for range rapid.IntRange(1, 8).Draw(t, "reads") {
			burst := rapid.IntRange(0, 2500).Draw(t, "pulses")
			for range burst {
				r.line.pulse(time.Duration(made) * time.Millisecond)
				made++
			}
			dropped += uint64(max(0, burst-lineEvents))
			p, err := m.Count(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			told += p.NewlyLost
			if p.Total != 7+made || p.Lost != dropped || told != dropped {
				t.Fatalf("made %d, dropped %d, told of %d: got %+v", made, dropped, told, p)
			}
		}
	})
}

// TestFC39CounterResetBooksOnlyNewPulses: the kernel's numbers begin anew with the
// line; 5000 pulses and ten after that are 5010. A new meter that is seeded with
// 5010 books nothing for it.
func TestFC39CounterResetBooksOnlyNewPulses(t *testing.T) {
	m, r := newMeter(t, 0)
	for i := range 5000 {
		r.line.pulse(time.Duration(i) * time.Millisecond)
		if i%1000 == 999 {
			mustCount(t, m)
		}
	}
	before := mustCount(t, m)
	r.line.err = syscall.ENODEV
	if _, err := m.Count(t.Context()); reasonOf(err) != ReasonNoBus {
		t.Fatalf("got %v", err)
	}
	r.line = &fifo{}
	r.clock.advance(time.Minute)
	for i := range 10 {
		r.line.pulse(time.Duration(i) * time.Millisecond) // times too begin anew after a reboot
	}
	p := mustCount(t, m)
	if p.Total-before.Total != 10 || p.Lost != 0 || p.Session != 2 || !p.Since.Equal(r.clock.Now()) {
		t.Errorf("after %+v got %+v, want 10 more in session 2", before, p)
	}
	seeded, _ := newMeter(t, 5010)
	if p := mustCount(t, seeded); p.Total != 5010 || p.Lost != 0 || p.Session != 1 {
		t.Errorf("seeded: got %+v", p)
	}
	if _, err := NewPulseMeter(r.open, math.MaxUint64, nil); err == nil {
		t.Error("a start beyond the range of a reading is taken")
	}
}

// TestFC70VanishedLineComesBack: what was counted stays, the line is opened anew
// until it is there, and the fault says that it is gone.
func TestFC70VanishedLineComesBack(t *testing.T) {
	m, r := newMeter(t, 0)
	first := r.line
	first.pulse(0)
	mustCount(t, m)
	first.err = fmt.Errorf("read events: %w", syscall.ENODEV)
	r.err = &LineError{Chip: "gpiochip0", Err: fs.ErrNotExist}
	for range 4 {
		if p, err := m.Count(t.Context()); reasonOf(err) != ReasonNoBus || p != (Pulses{}) {
			t.Fatalf("got %+v, %v, want no_bus and no number", p, err)
		}
	}
	if first.closed != 1 || r.opens != 1+3 {
		t.Errorf("closed %d times, opened %d times", first.closed, r.opens)
	}
	r.err, r.line = nil, &fifo{}
	r.line.pulse(0)
	if p := mustCount(t, m); p.Total != 2 || p.Session != 2 {
		t.Errorf("got %+v", p)
	}
	if err := m.Close(); err != nil || r.line.closed != 1 {
		t.Errorf("%v, closed %d times", err, r.line.closed)
	}
}

func TestPulseNumbersOnlyGrow(t *testing.T) {
	for _, next := range []uint32{8, 7, 0} {
		m, r := newMeter(t, 0)
		line := r.line
		line.seq = 4
		line.pulse(0)
		mustCount(t, m) // 5
		line.events = []LineEvent{{LineSeq: 8}, {LineSeq: next}}
		if _, err := m.Count(t.Context()); reasonOf(err) != ReasonImplausible {
			t.Errorf("event %d after 8: got %v", next, err)
		}
		r.line = &fifo{}
		// What was lost before the fault is told by the next reading.
		if p := mustCount(t, m); line.closed != 1 || p.Total != 8 || p.NewlyLost != 2 || p.Session != 2 {
			t.Errorf("closed %d times, then %+v", line.closed, p)
		}
	}
}

func TestPulseRate(t *testing.T) {
	m, r := newMeter(t, 0)
	rate := func(want float64) {
		t.Helper()
		if got := mustCount(t, m).Rate; math.Abs(got-want) > 1e-9 {
			t.Errorf("got %g a second, want %g", got, want)
		}
	}
	rate(0)
	r.line.pulse(10 * time.Second)
	rate(0) // one pulse has no rate
	r.line.pulse(10500 * time.Millisecond)
	r.line.pulse(11 * time.Second)
	rate(2)
	for i := range 2048 { // half of them lost: counted all the same
		r.line.pulse(11*time.Second + time.Duration(i+1)*time.Millisecond)
	}
	rate(1000)
	r.clock.advance(2 * time.Second)
	rate(0.5) // at most: the next pulse has not come
	r.clock.advance(8 * time.Second)
	rate(0.1)
	r.clock.advance(time.Minute)
	rate(0)
	r.line.pulse(83048 * time.Millisecond)
	rate(1 / 70.0)
}

// TestPulseMeterOnARealHandle counts records that come through a file descriptor,
// as from the kernel.
func TestPulseMeterOnARealHandle(t *testing.T) {
	l, write, hangUp := pipeLine(t)
	m, err := NewPulseMeter(func() (EventLine, error) { return l, nil }, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if p := mustCount(t, m); p.Total != 0 {
		t.Errorf("got %+v", p)
	}
	for _, seq := range []uint32{1, 2, 5} {
		write(record(LineEvent{At: time.Duration(seq) * time.Second, Rising: true, Line: 4, Seq: seq, LineSeq: seq}))
	}
	if p := mustCount(t, m); p.Total != 5 || p.Lost != 2 {
		t.Errorf("got %+v, want 5 with 2 lost", p)
	}
	hangUp()
	if _, err := m.Count(t.Context()); reasonOf(err) != ReasonNoBus {
		t.Errorf("hung up: got %v", err)
	}
}

func TestPulseRefusals(t *testing.T) {
	for _, c := range []LineConfig{{Edge: ""}, {Edge: EdgeRising, Output: true}} {
		if _, err := OpenPulseMeter(c, 0, nil); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := OpenPulseMeter(LineConfig{Chip: "gpiochip9977", Edge: EdgeRising}, 0, nil); reasonOf(err) != ReasonNoBus {
		t.Errorf("no such chip: got %v", err)
	} else if _, ok := errors.AsType[*LineError](err); !ok {
		t.Errorf("no such chip: the advice is lost: %v", err)
	}
	m, _ := newMeter(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

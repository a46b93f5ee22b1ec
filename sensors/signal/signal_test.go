package signal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// must gives what a constructor made.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

var (
	good        = Verdict{}
	unconfirmed = Verdict{Suspect, WhyUnconfirmed}
	spike       = Verdict{Rejected, WhySpike}
	tooFast     = Verdict{Rejected, WhyRate}
	persisted   = Verdict{Suspect, WhyRate}
)

// filter is the composition that the package comment prescribes.
type filter struct {
	hampel *Hampel
	rate   *Rate
}

func (f filter) check(x float64, at time.Duration) Verdict {
	return Worse(f.hampel.Check(x, at), f.rate.Check(x, at))
}

func newFilter(floor, rate, slack float64) filter {
	return filter{
		must(NewHampel(HampelOptions{Floor: floor})),
		must(NewRate(RateOptions{Max: rate, Slack: slack})),
	}
}

func TestWorse(t *testing.T) {
	for _, c := range []struct{ a, b, want Verdict }{
		{good, good, good},
		{good, unconfirmed, unconfirmed},
		{spike, unconfirmed, spike},
		{spike, tooFast, spike},
		{tooFast, spike, tooFast},
	} {
		if got := Worse(c.a, c.b); got != c.want {
			t.Errorf("worse of %v and %v: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// FC-55: glitches of a converter that lost clock edges.
func TestFC55Glitches(t *testing.T) {
	f := newFilter(20, 100, 60)
	want := []Verdict{unconfirmed, good, tooFast, tooFast, tooFast, tooFast, good}
	for i, x := range []float64{171000, 171020, 8388607, 4194303, 2097151, 0, 171010} {
		got := f.check(x, time.Duration(i)*time.Second)
		if got.Grade != want[i].Grade {
			t.Errorf("%g: got %v, want %v", x, got, want[i])
		}
	}
	if got := f.rate.Rejected(); got != 4 {
		t.Errorf("rejected: got %d, want 4", got)
	}
}

// FC-57: one absurd value among good ones, by the filter as a whole.
func TestFC57SingleOutlier(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want []Grade
	}{
		{[]float64{170.8, 170.9, -143.4, 171.0}, []Grade{Suspect, Good, Rejected, Good}},
		{[]float64{25.6, 9999999, 25.6}, []Grade{Suspect, Rejected, Good}},
		{[]float64{9999999, 25.6, 25.6, 25.7}, []Grade{Suspect, Rejected, Good, Good}}, // the first is the absurd one
	} {
		f := newFilter(0.1, 0.5, 0.3)
		ratchet := must(NewRatchet(RatchetOptions{Deadband: 1, RefillAbove: 2}))
		for i, x := range c.in {
			at := time.Duration(i) * time.Minute
			v := f.check(x, at)
			if v.Grade != c.want[i] {
				t.Errorf("%v: %g: got %v, want grade %d", c.in, x, v, c.want[i])
			}
			if got, _ := ratchet.Take(x, v, at); got != (Change{}) {
				t.Errorf("%v: %g: booked %+v, want nothing", c.in, x, got)
			}
		}
		if got, _ := ratchet.Take(c.in[len(c.in)-1], good, time.Hour); got != (Change{}) {
			t.Errorf("%v: booked %+v an hour later, want nothing", c.in, got)
		}
		if f.hampel.Rejected() != 1 {
			t.Errorf("%v: got %d spikes, want 1", c.in, f.hampel.Rejected())
		}
	}
}

// FC-62: what is no number is refused by name and leaves no trace: a sequence
// strewn with it gives what the same sequence gives without.
func TestFC62NotFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clean, dirty := newSet(), newSet()
		at, level := time.Duration(0), 1000.0
		for range rapid.IntRange(1, 80).Draw(t, "samples") {
			level += rapid.SampledFrom([]float64{0, 0, 0.5, -1, -8, -60, 300, 1e6, -1e6}).Draw(t, "step")
			at += time.Duration(rapid.Int64Range(1, int64(3*time.Minute)).Draw(t, "dt"))
			if rapid.Bool().Draw(t, "dirt") {
				x := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e101}).Draw(t, "not finite")
				for i, v := range dirty.take(x, at-1).verdicts() {
					if v != (Verdict{Rejected, WhyNotFinite}) {
						t.Fatalf("step %d: got %v of %g, want rejected, not_finite", i, v, x)
					}
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				for i, v := range dirty.take(level, clean.last).verdicts() {
					if clean.any && v != (Verdict{Rejected, WhyOutOfOrder}) && i > 0 {
						t.Fatalf("step %d: got %v of a repeated time, want rejected, out_of_order", i, v)
					}
				}
				if !clean.any {
					clean.take(level, clean.last)
				}
			}
			got, want := dirty.take(level, at), clean.take(level, at)
			if got != want {
				t.Fatalf("got %+v, want %+v as without what is not finite", got, want)
			}
			for _, x := range []float64{got.change.Amount, got.change.To, got.counted.Delta, got.rate.PerSecond, got.rate.Baseline} {
				if !finite(x) {
					t.Fatalf("%+v holds what is not finite", got)
				}
			}
		}
	})
}

// set is one of everything, each on its own so that it refuses by itself.
type set struct {
	hampel  *Hampel
	bound   *Rate
	report  *Report
	ratchet *Ratchet
	trend   *Trend
	counter *Counter[float64]
	clamp   Clamp
	last    time.Duration
	any     bool
}

func newSet() *set {
	return &set{
		hampel:  must(NewHampel(HampelOptions{Floor: 1})),
		bound:   must(NewRate(RateOptions{Max: 1})),
		report:  must(NewReport(ReportOptions{Deadband: 5})),
		ratchet: must(NewRatchet(RatchetOptions{Deadband: 20, RefillAbove: 100, MaxRate: 1})),
		trend:   must(NewTrend(TrendOptions{Least: 0.1})),
		counter: must(NewCounter(CounterOptions[float64]{MaxRate: 100, Confirm: 3})),
		clamp:   must(NewClamp(-1e9, 1e9, 0)),
	}
}

// taken is what the set says of one sample.
type taken struct {
	clamped, spike, rate_, reported, booked, drawn, total Verdict
	cause                                                 Cause
	change                                                Change
	rate                                                  FallRate
	counted                                               Counted[float64]
}

func (k taken) verdicts() []Verdict {
	return []Verdict{k.clamped, k.spike, k.rate_, k.reported, k.booked, k.drawn, k.total}
}

func (s *set) take(x float64, at time.Duration) (k taken) {
	if finite(x) {
		s.last, s.any = max(s.last, at), true
	}
	_, k.clamped = s.clamp.Apply(x)
	k.spike = s.hampel.Check(x, at)
	k.rate_ = s.bound.Check(x, at)
	k.cause, k.reported = s.report.Take(x, good, at)
	k.change, k.booked = s.ratchet.Take(x, good, at)
	k.rate, k.drawn = s.trend.Take(x, good, at)
	k.counted, k.total = s.counter.Take(math.Abs(x), "", at)
	return k
}

func TestNoAllocations(t *testing.T) {
	s, stuck := newSet(), must(NewStuck(StuckOptions{}))
	debounce := must(NewDebounce(time.Second, time.Second))
	at := time.Duration(0)
	if got := testing.AllocsPerRun(2000, func() {
		at += time.Second
		s.take(1000-at.Seconds()+20*math.Sin(at.Seconds()), at)
		stuck.Check(int64(at), FlowUnknown, at)
		debounce.Take(True, at)
	}); got != 0 {
		t.Errorf("got %g allocations a sample, want 0", got)
	}
}

// The package has no clock: times come with the samples, so that no step of the
// wall clock can matter.
func TestNoClock(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"Duration", "Nanosecond", "Millisecond", "Second", "Minute", "Hour"}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if id, isName := ident(sel, ok); isName && id == "time" {
				if seen++; !slices.Contains(allowed, sel.Sel.Name) {
					t.Errorf("%s uses time.%s", f.Name(), sel.Sel.Name)
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no use of package time was found at all")
	}
}

func ident(sel *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	id, isName := sel.X.(*ast.Ident)
	if !isName {
		return "", false
	}
	return id.Name, true
}

// options that are wrong name all that is wrong with them.
func TestConstructorsListAllFaults(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name string
		err  error
		want []string
	}{
		{"hampel", second(NewHampel(HampelOptions{Window: 4, Sigmas: nan, Floor: 0, Gap: -1})), []string{"window 4", "sigmas NaN", "floor 0", "gap -1ns"}},
		{"hampel too wide", second(NewHampel(HampelOptions{Window: 33, Floor: 1})), []string{"window 33"}},
		{"hampel too narrow", second(NewHampel(HampelOptions{Window: 3, Floor: 1})), []string{"window 3"}},
		{"rate", second(NewRate(RateOptions{Max: nan, Slack: -1, Persist: 1, PersistFor: -1, Gap: -1})), []string{"maximum NaN", "slack -1", "persist 1", "persist time -1ns", "gap -1ns"}},
		{"stuck", second(NewStuck(StuckOptions{After: -1, Gap: -1})), []string{"stuck time -1ns", "gap -1ns"}},
		{"clamp", second(NewClamp(2, 1, nan)), []string{"from 2 to 1", "slack NaN"}},
		{"clamp of nothing", second(NewClamp(nan, nan, 0)), []string{"from NaN to NaN"}},
		{"report", second(NewReport(ReportOptions{Deadband: math.Inf(1), Heartbeat: -1})), []string{"deadband +Inf", "heartbeat -1ns"}},
		{"ratchet", second(NewRatchet(RatchetOptions{RefillAbove: -1, MaxRate: nan, Tau: -1, Settle: -1, Gap: -1})),
			[]string{"deadband 0", "refill_above -1", "max_rate NaN", "tau -1ns", "settle -1ns", "gap -1ns"}},
		{"ratchet whose refill is noise", second(NewRatchet(RatchetOptions{Deadband: 50, RefillAbove: 40})), []string{"refill_above 40"}},
		{"counter", second(NewCounter(CounterOptions[float64]{Wrap: nan, Confirm: 1, ConfirmFor: -1})), []string{"max_rate 0", "wrap NaN", "confirm 1", "confirm time -1ns"}},
		{"trend", second(NewTrend(TrendOptions{Factor: 0.5, Most: -1, Clear: 2, Window: 1, Baseline: -1, Learn: -1, Gap: -1})),
			[]string{"least rate 0", "factor 0.5", "most rate -1", "clear 2", "window 1ns", "baseline -1ns", "learning time -1ns", "gap -1ns"}},
		{"debounce", second(NewDebounce(-1, -2)), []string{"on-delay -1ns", "off-delay -2ns"}},
	} {
		if c.err == nil {
			t.Errorf("%s: got no error", c.name)
			continue
		}
		if got := strings.Count(c.err.Error(), "\n") + 1; got != len(c.want) {
			t.Errorf("%s: got %d faults, want %d:\n%v", c.name, got, len(c.want), c.err)
		}
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%s: got %q, want it to name %q", c.name, c.err, w)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func BenchmarkFilterAndReport(b *testing.B) {
	f := newFilter(1, 10, 3)
	report := must(NewReport(ReportOptions{Deadband: 5}))
	noise := [8]float64{0, 1, -1, 0.5, 2, -0.25, 0.75, -1.5}
	at := time.Duration(0)
	b.ReportAllocs()
	for i := range b.N {
		at += time.Second
		x := 14000 + noise[i&7]
		report.Take(x, f.check(x, at), at)
	}
}

func BenchmarkRatchet(b *testing.B) {
	r := must(NewRatchet(RatchetOptions{Deadband: 50, RefillAbove: 200, MaxRate: 8}))
	at := time.Duration(0)
	b.ReportAllocs()
	for i := range b.N {
		at += time.Second
		r.Take(14000-float64(i&7), good, at)
	}
}

func BenchmarkTrend(b *testing.B) {
	r := must(NewTrend(TrendOptions{Least: 0.1}))
	at := time.Duration(0)
	b.ReportAllocs()
	for i := range b.N {
		at += time.Second
		r.Take(14000-float64(i&7), good, at)
	}
}

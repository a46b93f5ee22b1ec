package config

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantities(t *testing.T) {
	var (
		mass     Mass
		duration Duration
		percent  Percent
		size     Size
		volts    Volts
	)
	for _, tc := range []struct {
		into encoding.TextUnmarshaler
		text string
		want int64 // in the smallest step
		err  string
	}{
		{&mass, "850 g", 850e9, ""},
		{&mass, "14.3 kg", 14_300e9, ""},
		{&mass, "14.3kg", 14_300e9, ""},
		{&mass, "0 g", 0, ""},
		{&mass, "0.000000001 g", 1, ""},
		{&mass, "0.0000000001 g", 0, "finer than a nanogram"},
		{&mass, "1000 t", 1e18, ""},
		{&mass, "1000000.000000000001 kg", 0, "more than 1000000 kg"},
		{&mass, "9999999999 t", 0, "too large"},
		{&mass, "850", 0, "needs a unit such as g or kg"},
		{&mass, "-1 g", 0, "must not be negative"},
		{&mass, "14,3 kg", 0, "with a point"},
		{&mass, "1e3 g", 0, "no unit that is known here: use mg, g, kg, t"},
		{&mass, "1 KG", 0, "use mg, g, kg, t"},
		{&mass, "1 lb", 0, "use mg, g, kg, t"},
		{&mass, "g", 0, "not a number"},
		{&mass, "", 0, "not a number"},
		{&mass, "1. g", 0, "not a number"},
		{&mass, ".5 g", 0, "not a number"},
		{&mass, "1.2.3 g", 0, "not a number"},
		{&mass, strings.Repeat("0", 50) + "1 g", 0, "not a number"},
		{&mass, ".inf", 0, "not a number"},
		{&duration, "168h", int64(168 * time.Hour), ""},
		{&duration, "1h 30m", int64(90 * time.Minute), ""},
		{&duration, "0s", 0, ""},
		{&duration, "5", 0, "needs a unit such as s, m or h"},
		{&duration, "0", 0, "needs a unit such as s, m or h"},
		{&duration, "7d", 0, "write days as hours"},
		{&duration, "-5s", 0, "must not be negative"},
		{&duration, "soon", 0, "not a duration"},
		{&duration, "9999999h", 0, "not a duration"},
		{&percent, "20 %", 200_000, ""},
		{&percent, "20%", 200_000, ""},
		{&percent, "0.0001 %", 1, ""},
		{&percent, "0.00001 %", 0, "finer than"},
		{&percent, "0.2", 0, "needs a unit such as %"},
		{&size, "64 MiB", 64 << 20, ""},
		{&size, "512KiB", 512 << 10, ""},
		{&size, "1.5 GiB", 3 << 29, ""},
		{&size, "1 MB", 1e6, ""},
		{&size, "0.5 B", 0, "finer than a byte"},
		{&size, "64", 0, "needs a unit such as KiB or MiB"},
		{&size, "64 Mb", 0, "use B, KiB, MiB, GiB, kB, MB, GB"},
		{&volts, "0.5 V", 5e8, ""},
		{&volts, "500 mV", 5e8, ""},
		{&volts, "7.8125 uV", 7812, "finer than a nanovolt"},
		{&volts, "0.5", 0, "needs a unit such as mV or V"},
	} {
		err := tc.into.UnmarshalText([]byte(tc.text))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%T %q: got error %v, want one with %q", tc.into, tc.text, err, tc.err)
			}
			continue
		}
		if got := steps(tc.into); err != nil || got != tc.want {
			t.Errorf("%T %q: got %d, %v, want %d", tc.into, tc.text, got, err, tc.want)
		}
	}
}

func steps(q encoding.TextUnmarshaler) int64 {
	switch q := q.(type) {
	case *Mass:
		return int64(*q)
	case *Duration:
		return int64(*q)
	case *Percent:
		return int64(*q)
	case *Size:
		return int64(*q)
	case *Volts:
		return int64(*q)
	}
	return -1
}

// Whatever a quantity prints as, it parses to the same quantity: a message
// shows values that could be put into the file.
func TestQuantityRoundTrip(t *testing.T) {
	same := func(t *rapid.T, in fmt.Stringer, want int64, out encoding.TextUnmarshaler) {
		if err := out.UnmarshalText([]byte(in.String())); err != nil || steps(out) != want {
			t.Fatalf("%T %d prints as %q and parses to %d, %v", in, want, in, steps(out), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Min(0), rapid.Int64Range(0, 1e12)).Draw(t, "n")
		same(t, Duration(n), n, new(Duration))
		same(t, Percent(n), n, new(Percent))
		same(t, Size(n), n, new(Size))
		same(t, Volts(n), n, new(Volts))
		if Mass(n) <= MaxMass {
			same(t, Mass(n), n, new(Mass))
		}
		// Whole seconds, minutes and hours, which lose their empty parts.
		whole := n % 1e6 * int64(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "unit"))
		same(t, Duration(whole), whole, new(Duration))
	})
}

func TestQuantityStrings(t *testing.T) {
	for want, q := range map[string]fmt.Stringer{
		"168h": Duration(168 * time.Hour), "1h30m": Duration(90 * time.Minute), "0s": Duration(0), "10s": Duration(10 * time.Second),
		"1h0m5s": Duration(time.Hour + 5*time.Second), "847 g": Mass(847e9), "0.5 g": Mass(5e8), "0 g": Mass(0),
		"12.5 %": Percent(125_000), "64 MiB": Size(64 << 20), "1000 B": Size(1000), "0 B": Size(0), "0.512 V": Volts(512e6),
	} {
		if got := q.String(); got != want {
			t.Errorf("%T prints as %q, want %q", q, got, want)
		}
	}
}

func TestPercentOf(t *testing.T) {
	for _, tc := range []struct {
		p    Percent
		m    Mass
		want Mass
	}{{20_0000, 1000e9, 200e9}, {100_0000, MaxMass, MaxMass}, {1, MaxMass, 1e12}, {33_3333, 3, 0}, {0, MaxMass, 0}} {
		if got := tc.p.Of(tc.m); got != tc.want {
			t.Errorf("%v of %v is %v, want %v", tc.p, tc.m, got, tc.want)
		}
	}
}

package event

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkDecode holds Decode to what must be true of any payload.
func checkDecode(t interface {
	Helper()
	Fatalf(string, ...any)
}, typ Type, tank string, payload []byte) {
	t.Helper()
	e, err := Decode(typ, tank, payload)
	if err != nil {
		if !reasonOf(err).Form() || len(err.Error()) > 512 {
			t.Fatalf("Decode(%q): got error %v, want a short form error", payload, err)
		}
		if !cmp.Equal(e, Event{}) {
			t.Fatalf("Decode(%q): got %+v with the error, want the zero event", payload, e)
		}
		return
	}
	if !json.Valid(payload) {
		t.Fatalf("Decode(%q): got %+v of what is no JSON", payload, e)
	}
	message := e.AppendJSON(nil)
	again, err := Decode(typ, tank, message)
	if diff := cmp.Diff(e, again); err != nil || diff != "" {
		t.Fatalf("Decode(%q), then of %q: got error %v, -first +second\n%s", payload, message, err, diff)
	}
	if again.Hash() != e.Hash() {
		t.Fatalf("Decode(%q), then of %q: got another hash", payload, message)
	}
	checkCanonical(t, &e)
}

// TestDecodeHoldsUnderDamage damages good messages, which a fuzzer without a
// corpus takes hours to find.
func TestDecodeHoldsUnderDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		message := respell(t, &e)
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			at := rapid.IntRange(0, len(message)-1).Draw(t, "at")
			with := rapid.SampledFrom([]string{"", "0", "9", "-", ".", "e", `"`, `\`, "{", "}", "[", "]", ",", ":", " ", "null", "\x00", "\xff", "/"}).Draw(t, "with")
			cut := rapid.IntRange(0, min(2, len(message)-at)).Draw(t, "cut")
			message = append(append(append([]byte(nil), message[:at]...), with...), message[at+cut:]...)
			if len(message) == 0 {
				break
			}
		}
		checkDecode(t, e.Type, e.Tank, message)
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(byte(s.t), s.tank, s.payload)
	}
	for typ := Measured; typ <= Skipped; typ++ {
		f.Add(byte(typ), "A", []byte(member(typ, "", "")))
	}
	f.Fuzz(func(t *testing.T, typ byte, tank string, payload []byte) {
		checkDecode(t, Type(typ), tank, payload)
	})
}

func FuzzDecodeCanonical(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.payload)
		if e, err := Decode(s.t, s.tank, s.payload); err == nil {
			f.Add(e.AppendCanonical(nil))
		}
	}
	f.Fuzz(func(t *testing.T, canonical []byte) {
		e, err := DecodeCanonical(canonical)
		if err != nil {
			if !reasonOf(err).Form() || !cmp.Equal(e, Event{}) {
				t.Fatalf("DecodeCanonical(%q): got %+v, %v, want the zero event and a form error", canonical, e, err)
			}
			return
		}
		if got := e.AppendCanonical(nil); string(got) != string(canonical) {
			t.Fatalf("DecodeCanonical(%q): made again %q", canonical, got)
		}
		checkCanonical(t, &e)
		checkDecode(t, e.Type, e.Tank, e.AppendJSON(nil))
	})
}

package event

import (
	"strings"
	"testing"
)

func TestReasonForm(t *testing.T) {
	for r, want := range map[Reason]bool{
		Malformed: true, TooLarge: true, MissingEventID: true, TankMismatch: true, TypeMismatch: true, BadUnit: true, OutOfRange: true,
		UnsupportedVersion: false, UnknownTank: false, Limit: false, RetainedDelta: false, OlderThanWindow: false, OldEpoch: false,
		Overlap: false, NotReversible: false, Conflict: false, "": false,
	} {
		if got := r.Form(); got != want {
			t.Errorf("%s: got %v, want %v", r, got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"A": true, "9": true, "a.b_c-D": true, strings.Repeat("x", 64): true,
		"": false, ".a": false, "-a": false, "_a": false, "a b": false, "a/b": false, "a+": false, "#": false, "ä": false,
		"a\x00": false, "a\n": false, strings.Repeat("x", 65): false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q): got %v, want %v", name, got, want)
		}
	}
}

// TestHostileSizes: what is as large as a message may be costs no more than its
// length, and the error says little.
func TestHostileSizes(t *testing.T) {
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, (MaxBytes-len(head)-len(tail))/len(unit)) + tail
	}
	good := `{"event_id":"e","tank":"A","amount":1,"x":`
	depth := 5000
	for _, c := range []struct {
		name, payload string
		want          Reason
	}{
		{"open arrays", fill("", "[", ""), Malformed},
		{"open arrays in a field", fill(good, "[", ""), Malformed},
		{"open objects", fill(good, `{"":`, ""), Malformed},
		{"deep and whole", good + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}", ""},
		{"deep covers", `{"covers":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}", Malformed},
		{"deep names", fill(good, `{"`+strings.Repeat("n", 50)+`":`, ""), Malformed},
		{"long text", fill(good+`"`, "x", `"}`), ""},
		{"long id", fill(`{"event_id":"`, "\u00e9", `"}`), Malformed},
		{"long unit", fill(`{"event_id":"e","tank":"A","amount":1,"unit":"`, "\u2028", `"}`), BadUnit},
		{"long type", fill(`{"event_id":"e","tank":"A","amount":1,"type":"`, "x", `"}`), TypeMismatch},
		{"long whole number", fill(`{"event_id":"e","tank":"A","amount":`, "9", `}`), OutOfRange},
		{"long fraction", fill(`{"event_id":"e","tank":"A","amount":0.`, "0", `1}`), OutOfRange},
		{"long exponent", fill(`{"event_id":"e","tank":"A","amount":1e`, "9", `}`), Malformed},
		{"long seq", fill(`{"event_id":"e","tank":"A","amount":1,"source":"s","epoch":1,"seq":`, "9", `}`), Malformed},
		{"many skips", fill(`{"skips":[[1,2]`, ",[1,2]", `]}`), Malformed},
		{"white", fill(`{"event_id":"e","tank":"A","amount":1`, " ", `}`), ""},
		{"one byte too many", strings.Repeat(" ", MaxBytes) + "{", TooLarge},
	} {
		_, err := Decode(Consumed, "A", []byte(c.payload))
		if c.want == "" && err != nil || c.want != "" && reasonOf(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil && len(err.Error()) > 512 {
			t.Errorf("%s: got an error of %d bytes, want at most 512", c.name, len(err.Error()))
		}
	}
}

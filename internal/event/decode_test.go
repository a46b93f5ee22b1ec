package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestExampleOfRecord: the smallest legal messages, as the contract prints them.
func TestExampleOfRecord(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    Event
	}{
		{`{"event_id":"e-8842","tank":"A","amount":120}`, Event{Type: Consumed, ID: "e-8842", Tank: "A", Amount: 120e9, Version: 1}},
		{`{"event_id":"e-8842","tank":"A","remaining":727}`, Event{Type: Measured, ID: "e-8842", Tank: "A", Amount: 727e9, Version: 1}},
	} {
		got, err := Decode(c.want.Type, "A", []byte(c.payload))
		if err != nil {
			t.Errorf("Decode(%s): %v", c.payload, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Decode(%s): -want +got\n%s", c.payload, diff)
		}
	}
}

// TestFC31PoisonHasAReason holds the parts of the field case that are form. That
// nothing loops and the next message is applied is the business of ingest.
func TestFC31PoisonHasAReason(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    Reason
	}{
		{`{`, Malformed},
		{`{"amt":NaN}`, Malformed},
		{`{"event_id":"p","tank":"A","amount":-5}`, OutOfRange},
		{`{"event_id":"p","tank":"B","amount":5}`, TankMismatch},
	} {
		e, err := Decode(Consumed, "A", []byte(c.payload))
		if got := reasonOf(err); got != c.want {
			t.Errorf("Decode(%s): got %s, want %s", c.payload, got, c.want)
		}
		if diff := cmp.Diff(Event{}, e); diff != "" {
			t.Errorf("Decode(%s): want the zero event with the error: %s", c.payload, diff)
		}
	}
	// The version is not a matter of form: the ledger must learn whose numbers
	// these are before it puts the event away.
	got, err := Decode(Consumed, "A", []byte(`{"v":99,"event_id":"p","tank":"A","source":"s","epoch":2,"seq":7,"amount":"five","occurred_at":0}`))
	want := Event{Type: Consumed, ID: "p", Tank: "A", Source: "s", Dot: Dot{2, 7}, Version: 99}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("version 99: got error %v, -want +got\n%s", err, diff)
	}
}

// member puts text in the place of the field's value in a message that is
// otherwise good and has every field of its type.
func member(t Type, field, text string) string {
	fields := [][2]string{
		{"v", `1`}, {"type", `"` + t.String() + `"`}, {"event_id", `"e"`}, {"tank", `"A"`}, {"source", `"s"`},
		{"epoch", `3`}, {"seq", `9`}, {"occurred_at", `"2026-08-19T10:11:12Z"`}, {"clock", `"unsynced"`}, {"age", `1.5`},
	}
	switch t {
	case Measured:
		fields = append(fields, [2]string{"remaining", `1`}, [2]string{"covers", `{"f":[1,2]}`})
	case Consumed, Refilled:
		fields = append(fields, [2]string{"amount", `1`}, [2]string{"operation", `"o"`})
	case Reversed:
		fields = append(fields, [2]string{"reverses", `"r"`}, [2]string{"reverses_source", `""`})
	case Skipped:
		fields = append(fields, [2]string{"skips", `[[1,2]]`}, [2]string{"skips_epoch", `2`}, [2]string{"reason", `"lost"`})
	}
	if t == Measured || t.Delta() {
		fields = append(fields, [2]string{"unit", `"g"`}, [2]string{"stands_for", `[8,9]`}, [2]string{"quality", `"suspect"`})
	}
	var members []string
	for _, f := range fields {
		if f[0] == field {
			f[1] = text
		}
		if f[1] != "" {
			members = append(members, `"`+f[0]+`":`+f[1])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestFieldByField changes one field of a good message. An empty text leaves the
// field out, an empty reason means that it is accepted.
func TestFieldByField(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, c := range []struct {
		t           Type
		field, text string
		want        Reason
	}{
		{Measured, "", "", ""}, {Consumed, "", "", ""}, {Refilled, "", "", ""}, {Reversed, "", "", ""}, {Skipped, "", "", ""},

		{Consumed, "v", ``, ""}, {Consumed, "v", `2`, ""}, {Consumed, "v", `2147483647`, ""},
		{Consumed, "v", `2147483648`, Malformed}, {Consumed, "v", `1.0`, Malformed}, {Consumed, "v", `1e0`, Malformed},
		{Consumed, "v", `"1"`, Malformed}, {Consumed, "v", `-1`, Malformed}, {Consumed, "v", `0`, Malformed},
		{Consumed, "v", `null`, Malformed}, {Consumed, "v", `18446744073709551617`, Malformed},

		{Consumed, "event_id", ``, MissingEventID}, {Consumed, "event_id", `""`, MissingEventID},
		{Consumed, "event_id", long(192), ""}, {Consumed, "event_id", long(193), Malformed},
		{Consumed, "event_id", `7`, Malformed}, {Consumed, "event_id", `null`, Malformed}, {Consumed, "event_id", `["e"]`, Malformed},
		{Consumed, "event_id", `" "`, ""}, {Consumed, "event_id", `"\t"`, Malformed}, {Consumed, "event_id", `"\u0000"`, Malformed},
		{Consumed, "event_id", `"\u007f"`, Malformed}, {Consumed, "event_id", `"\u0085"`, Malformed}, {Consumed, "event_id", `"\u200b"`, Malformed},
		{Consumed, "event_id", `"\u2028"`, Malformed}, {Consumed, "event_id", `"\ufeff"`, Malformed}, {Consumed, "event_id", `"\ufffe"`, Malformed},
		{Consumed, "event_id", `"ß日本🚀"`, ""}, {Consumed, "event_id", `"` + strings.Repeat("日", 64) + `"`, ""},
		{Consumed, "event_id", `"` + strings.Repeat("日", 64) + `x"`, Malformed},

		{Consumed, "tank", ``, Malformed}, {Consumed, "tank", `""`, Malformed}, {Consumed, "tank", `"B"`, TankMismatch},
		{Consumed, "tank", `"a"`, TankMismatch}, {Consumed, "tank", `"A "`, Malformed}, {Consumed, "tank", `1`, Malformed},
		{Consumed, "tank", `"\u0041"`, ""}, {Consumed, "tank", long(64), TankMismatch}, {Consumed, "tank", long(65), Malformed},

		{Consumed, "type", ``, ""}, {Consumed, "type", `""`, TypeMismatch}, {Consumed, "type", `"consumed"`, TypeMismatch},
		{Consumed, "type", `"OxygenRefilled"`, TypeMismatch}, {Consumed, "type", `null`, Malformed}, {Consumed, "type", `2`, Malformed},

		{Consumed, "source", ``, Malformed}, {Consumed, "source", `""`, Malformed}, {Consumed, "source", `"s/t"`, Malformed},
		{Consumed, "source", `".s"`, Malformed}, {Consumed, "source", `"sü"`, Malformed}, {Consumed, "source", `"S.t_u-9"`, ""},
		{Consumed, "source", long(64), ""}, {Consumed, "source", long(65), Malformed}, {Consumed, "source", `null`, Malformed},

		{Consumed, "epoch", ``, Malformed}, {Consumed, "epoch", `0`, Malformed}, {Consumed, "epoch", `-1`, Malformed},
		{Consumed, "epoch", `9007199254740991`, ""}, {Consumed, "epoch", `9007199254740992`, Malformed},
		{Consumed, "epoch", `3.0`, Malformed}, {Consumed, "epoch", `3e0`, Malformed}, {Consumed, "epoch", `"3"`, Malformed},
		{Consumed, "epoch", `18446744073709551619`, Malformed}, {Consumed, "epoch", `null`, Malformed},
		{Consumed, "seq", ``, Malformed}, {Consumed, "seq", `0`, Malformed}, {Consumed, "seq", `9007199254740992`, Malformed},

		{Consumed, "amount", ``, Malformed}, {Consumed, "amount", `null`, Malformed}, {Consumed, "amount", `"1"`, Malformed},
		{Consumed, "amount", `[1]`, Malformed}, {Consumed, "amount", `true`, Malformed}, {Consumed, "amount", `{}`, Malformed},
		{Consumed, "amount", `0`, OutOfRange}, {Consumed, "amount", `-0.0`, OutOfRange}, {Consumed, "amount", `1e9`, ""},
		{Consumed, "amount", `1000000000.000000001`, OutOfRange}, {Consumed, "amount", `1e-9`, ""}, {Consumed, "amount", `1e-10`, OutOfRange},
		{Consumed, "amount", `1e309`, Malformed}, {Refilled, "amount", `0`, OutOfRange},
		{Measured, "remaining", ``, Malformed}, {Measured, "remaining", `0`, ""}, {Measured, "remaining", `-0`, ""},
		{Measured, "remaining", `-1`, OutOfRange}, {Measured, "remaining", `"1"`, Malformed},

		{Consumed, "unit", ``, ""}, {Consumed, "unit", `"kg"`, ""}, {Consumed, "unit", `"mg"`, ""}, {Consumed, "unit", `""`, BadUnit},
		{Consumed, "unit", `"KG"`, BadUnit}, {Measured, "unit", `"l"`, BadUnit}, {Consumed, "unit", `null`, Malformed}, {Consumed, "unit", `1`, Malformed},

		{Consumed, "stands_for", ``, ""}, {Consumed, "stands_for", `[9,9]`, ""}, {Consumed, "stands_for", `[1,9]`, ""}, {Consumed, "stands_for", `[0,9]`, Malformed},
		{Consumed, "stands_for", `[8,8]`, Malformed}, {Consumed, "stands_for", `[8,10]`, Malformed}, {Consumed, "stands_for", `[10,9]`, Malformed},
		{Consumed, "stands_for", `[9]`, Malformed}, {Consumed, "stands_for", `[8,9,9]`, Malformed}, {Consumed, "stands_for", `[]`, Malformed},
		{Consumed, "stands_for", `9`, Malformed}, {Consumed, "stands_for", `null`, Malformed}, {Consumed, "stands_for", `{"8":9}`, Malformed},
		{Consumed, "stands_for", `[8.0,9]`, Malformed}, {Consumed, "stands_for", `[[8],9]`, Malformed}, {Measured, "stands_for", `[1,2]`, Malformed},

		{Consumed, "occurred_at", ``, ""}, {Consumed, "occurred_at", `""`, Malformed}, {Consumed, "occurred_at", `1755598272`, Malformed},
		{Consumed, "occurred_at", `"2026-08-19 10:11:12Z"`, Malformed}, {Consumed, "occurred_at", `null`, Malformed},
		{Consumed, "occurred_at", `"0001-01-01T00:00:00Z"`, ""},
		{Consumed, "clock", ``, ""}, {Consumed, "clock", `"synced"`, ""}, {Consumed, "clock", `"Synced"`, Malformed},
		{Consumed, "clock", `""`, Malformed}, {Consumed, "clock", `true`, Malformed},
		{Consumed, "age", ``, ""}, {Consumed, "age", `0`, ""}, {Consumed, "age", `-0.0`, ""}, {Consumed, "age", `-1`, Malformed}, {Consumed, "age", `"1"`, Malformed},
		{Consumed, "age", `315360000`, ""}, {Consumed, "age", `315360000.000000001`, Malformed}, {Consumed, "age", `1e308`, Malformed},
		{Consumed, "age", `1e309`, Malformed}, {Consumed, "age", `null`, Malformed}, {Consumed, "age", `1e-300`, ""}, {Consumed, "age", `18446744073.709551616`, Malformed},

		{Consumed, "quality", ``, ""}, {Consumed, "quality", `"good"`, ""}, {Consumed, "quality", `"bad"`, Malformed}, {Measured, "quality", `1`, Malformed},
		{Consumed, "operation", ``, ""}, {Consumed, "operation", `""`, ""}, {Consumed, "operation", `1`, Malformed},
		{Consumed, "operation", long(193), Malformed}, {Consumed, "operation", `"a\nb"`, Malformed},

		{Measured, "covers", ``, ""}, {Measured, "covers", `{}`, ""}, {Measured, "covers", `null`, Malformed}, {Measured, "covers", `[]`, Malformed},
		{Measured, "covers", `{"":[1,1]}`, Malformed}, {Measured, "covers", `{"f":[1]}`, Malformed}, {Measured, "covers", `{"f":[1,0]}`, Malformed},
		{Measured, "covers", `{"f":[1,1,1]}`, Malformed}, {Measured, "covers", `{"f":7}`, Malformed}, {Measured, "covers", `{"f":[1,1],"f":[1,2]}`, Malformed},
		{Measured, "covers", `{"f":["1",1]}`, Malformed}, {Measured, "covers", covers(16), ""}, {Measured, "covers", covers(17), Malformed},

		{Reversed, "reverses", ``, Malformed}, {Reversed, "reverses", `""`, Malformed}, {Reversed, "reverses", `7`, Malformed},
		{Reversed, "reverses", long(192), ""}, {Reversed, "reverses", long(193), Malformed}, {Reversed, "reverses", `"\r"`, Malformed},
		{Reversed, "reverses_source", ``, ""}, {Reversed, "reverses_source", `"other"`, ""}, {Reversed, "reverses_source", `"o/p"`, Malformed},
		{Reversed, "reverses_source", `null`, Malformed},

		{Skipped, "skips", ``, Malformed}, {Skipped, "skips", `[]`, Malformed}, {Skipped, "skips", `null`, Malformed}, {Skipped, "skips", `{}`, Malformed},
		{Skipped, "skips", `[1,2]`, Malformed}, {Skipped, "skips", `[[2,1]]`, Malformed}, {Skipped, "skips", `[[0,1]]`, Malformed},
		{Skipped, "skips", `[[1,2],[3]]`, Malformed}, {Skipped, "skips", `[[1,9007199254740992]]`, Malformed},
		{Skipped, "skips", skips(64), ""}, {Skipped, "skips", skips(65), Malformed},
		{Skipped, "skips_epoch", ``, ""}, {Skipped, "skips_epoch", `0`, Malformed}, {Skipped, "skips_epoch", `"2"`, Malformed},
		{Skipped, "reason", ``, ""}, {Skipped, "reason", `""`, ""}, {Skipped, "reason", long(256), ""}, {Skipped, "reason", long(257), Malformed},
		{Skipped, "reason", `"\u001b[31m"`, Malformed}, {Skipped, "reason", `[]`, Malformed},
	} {
		message := member(c.t, c.field, c.text)
		e, err := Decode(c.t, "A", []byte(message))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v %s=%.60s: got %v, want it accepted", c.t, c.field, c.text, err)
		case c.want != "" && reasonOf(err) != c.want:
			t.Errorf("%v %s=%.60s: got %v, want %s", c.t, c.field, c.text, err, c.want)
		case c.want != "" && !cmp.Equal(e, Event{}):
			t.Errorf("%v %s=%.60s: got %+v with the error, want the zero event", c.t, c.field, c.text, e)
		case err != nil && !strings.HasPrefix(err.Error(), string(c.want)+": "):
			t.Errorf("error text: got %q, want the reason in front", err)
		}
	}
}

func covers(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"f%d":[1,%d]`, i, i+1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func skips(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("[1,2],", n), ",") + "]"
}

// TestValues looks at what the accepted fields become.
func TestValues(t *testing.T) {
	at := time.Date(2026, 8, 19, 10, 11, 12, 0, time.UTC)
	base := func(t Type) Event {
		return Event{Type: t, ID: "e", Tank: "A", Source: "s", Dot: Dot{3, 9}, OccurredAt: at, Unsynced: true,
			Age: 1500 * time.Millisecond, HasAge: true, Version: 1}
	}
	for _, c := range []struct {
		t           Type
		field, text string
		alter       func(*Event)
	}{
		{Measured, "", "", func(*Event) {}},
		{Measured, "remaining", "0.5", func(e *Event) { e.Amount = 5e8 }},
		{Measured, "stands_for", "[9,9]", func(e *Event) { e.StandsFor = Range{} }},
		{Measured, "covers", "{}", func(e *Event) { e.Covers = nil }},
		{Measured, "clock", `"synced"`, func(e *Event) { e.Unsynced, e.Age, e.HasAge = false, 0, false }},
		{Measured, "age", "", func(e *Event) { e.Age, e.HasAge = 0, false }},
		{Measured, "age", "0", func(e *Event) { e.Age = 0 }},
		{Measured, "age", "1.9999999999999", func(e *Event) { e.Age = 1999999999 }},
		{Measured, "age", "315360000", func(e *Event) { e.Age = MaxAge }},
		{Measured, "occurred_at", `"0001-01-01T00:00:00Z"`, func(e *Event) { e.OccurredAt = time.Time{} }},
		{Consumed, "unit", `"kg"`, func(e *Event) { e.Amount = 1e12 }},
		{Consumed, "operation", `""`, func(e *Event) { e.Operation = "" }},
		{Consumed, "quality", `"good"`, func(e *Event) { e.Suspect = false }},
		{Refilled, "unit", `"mg"`, func(e *Event) { e.Amount = 1e6 }},
		{Reversed, "", "", func(e *Event) { e.ReversesSource = "" }},
		{Reversed, "reverses_source", "", func(e *Event) { e.ReversesSource = "s" }},
		{Skipped, "", "", func(*Event) {}},
		{Skipped, "skips_epoch", "", func(e *Event) { e.SkipsEpoch = 3 }},
	} {
		want := base(c.t)
		switch c.t {
		case Measured:
			want.Amount, want.Covers, want.StandsFor, want.Suspect = 1e9, map[string]Dot{"f": {1, 2}}, Range{8, 9}, true
		case Consumed, Refilled:
			want.Amount, want.Operation, want.StandsFor, want.Suspect = 1e9, "o", Range{8, 9}, true
		case Reversed:
			want.Reverses = "r"
		case Skipped:
			want.Skips, want.SkipsEpoch, want.Reason = []Range{{1, 2}}, 2, "lost"
		}
		c.alter(&want)
		got, err := Decode(c.t, "A", []byte(member(c.t, c.field, c.text)))
		if err != nil {
			t.Errorf("%v %s=%s: %v", c.t, c.field, c.text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v %s=%s: -want +got\n%s", c.t, c.field, c.text, diff)
		}
	}
}

// TestWholeMessages holds the rules that join fields.
func TestWholeMessages(t *testing.T) {
	for _, c := range []struct {
		t       Type
		payload string
		want    Reason
	}{
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"seq":1}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"epoch":1,"seq":1}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"stands_for":[1,1]}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"source":"s"}`, ""},
		{Skipped, `{"event_id":"e","tank":"A","skips":[[1,2]],"skips_epoch":1}`, Malformed},
		{Skipped, `{"event_id":"e","tank":"A","source":"s","skips":[[1,2]]}`, Malformed},
		{Skipped, `{"event_id":"e","tank":"A","source":"s","skips":[[1,2]],"skips_epoch":1}`, ""},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"clock":"synced","age":"old"}`, ""},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"age":null}`, ""},
		// of another type, or of nobody
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"remaining":-1,"covers":3,"reverses":null,"reverses_source":[],"skips":0,"skips_epoch":{},"reason":7}`, ""},
		{Measured, `{"event_id":"e","tank":"A","remaining":1,"amount":-1,"operation":9}`, ""},
		{Reversed, `{"event_id":"e","tank":"A","reverses":"r","amount":null,"unit":"lb","stands_for":0,"quality":"bad","operation":1}`, ""},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"Tank":"B","x":{"tank":"B"},"":0}`, ""},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"":0,"":0}`, Malformed},
		// a foreign version keeps the rules of identity
		{Consumed, `{"v":2,"tank":"A"}`, MissingEventID},
		{Consumed, `{"v":2,"event_id":"e","tank":"B"}`, TankMismatch},
		{Consumed, `{"v":2,"event_id":"e","tank":"A","type":"OxygenRefilled"}`, TypeMismatch},
		{Consumed, `{"v":2,"event_id":"e","tank":"A","source":"s","seq":1}`, Malformed},
		{Consumed, `{"amount":"?","event_id":"e","tank":"A","v":2}`, ""},
		// of several faults the first of the list, whatever the order of the fields
		{Consumed, `{"amount":-1,"unit":"lb","type":"x","tank":"B","event_id":"","clock":"?"}`, Malformed},
		{Consumed, `{"amount":-1,"unit":"lb","type":"x","tank":"B","event_id":""}`, MissingEventID},
		{Consumed, `{"amount":-1,"unit":"lb","type":"x","tank":"B","event_id":"e"}`, TankMismatch},
		{Consumed, `{"amount":-1,"unit":"lb","type":"x","tank":"A","event_id":"e"}`, TypeMismatch},
		{Consumed, `{"amount":-1,"unit":"lb","tank":"A","event_id":"e"}`, BadUnit},
		{Consumed, `{"amount":1e400,"unit":"lb","tank":"A","event_id":"e"}`, Malformed},
		{Consumed, `{"amount":-1,"tank":"A","event_id":"e"}`, OutOfRange},
		// JSON
		{Consumed, ``, Malformed}, {Consumed, ` `, Malformed}, {Consumed, `null`, Malformed}, {Consumed, `{}`, Malformed},
		{Consumed, `[]`, Malformed}, {Consumed, `"{}"`, Malformed}, {Consumed, `{"event_id":"e","tank":"A","amount":1,}`, Malformed},
		{Consumed, `{"event_id":"e" "tank":"A","amount":1}`, Malformed}, {Consumed, `{'event_id':"e","tank":"A","amount":1}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1} x`, Malformed}, {Consumed, `{"event_id":"e","tank":"A","amount":1}null`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1}` + " \r\n\t", ""}, {Consumed, `{1:2}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1}` + "\x00", Malformed}, {Consumed, `{"event_id":"e","tank":"A","amount":+1}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":01}`, Malformed}, {Consumed, `{"event_id":"e","tank":"A","amount":Infinity}`, Malformed},
		{Consumed, `{"event_id":"e","tank":"A","amount":1,"x":"\ud83d"}`, Malformed}, {Consumed, `{"event_id":"e","tank":"A","amount":1,"x":"` + "\xc3\x28" + `"}`, Malformed},
	} {
		_, err := Decode(c.t, "A", []byte(c.payload))
		if c.want == "" && err != nil || c.want != "" && reasonOf(err) != c.want {
			t.Errorf("Decode(%v, %q): got %v, want %q", c.t, c.payload, err, c.want)
		}
	}
	if _, err := Decode(0, "A", []byte(`{"event_id":"e","tank":"A","amount":1}`)); reasonOf(err) != TypeMismatch {
		t.Errorf("no type: got %v, want type_mismatch", err)
	}
}

// TestDecodeKeepsNothingOfThePayload: the subscriber's buffer is used again.
func TestDecodeKeepsNothingOfThePayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		payload := e.AppendJSON(nil)
		got, err := Decode(e.Type, e.Tank, payload)
		for i := range payload {
			payload[i] = '#'
		}
		if diff := cmp.Diff(e, got); err != nil || diff != "" {
			t.Fatalf("got error %v, -want +got\n%s", err, diff)
		}
	})
}

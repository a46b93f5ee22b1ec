package event

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAppendJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genEvent().Draw(t, "event")
		message := want.AppendJSON([]byte("before "))[len("before "):]
		if len(message) > MaxBytes {
			t.Fatalf("got a message of %d bytes, want at most %d", len(message), MaxBytes)
		}
		got, err := Decode(want.Type, want.Tank, message)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("Decode(%s): got error %v, -want +got\n%s", message, err, diff)
		}
		if got.Hash() != want.Hash() {
			t.Fatalf("%s: got another hash", message)
		}
	})
}

// TestAppendJSONIsShort shows the message of a node as the docs do.
func TestAppendJSONIsShort(t *testing.T) {
	for _, want := range []string{
		usualDelta,
		`{"event_id":"e","type":"OxygenMeasured","tank":"A","remaining":0.5,"source":"s","epoch":3,"seq":9,"stands_for":[8,9],` +
			`"occurred_at":"2026-08-19T10:11:12.5Z","clock":"unsynced","age":1.5,"covers":{"F":[1,2],"f":[1,2]},"quality":"suspect"}`,
		`{"event_id":"e","type":"OxygenRefilled","tank":"A","amount":1000000000,"operation":"o"}`,
		`{"event_id":"e","type":"OxygenReversed","tank":"A","source":"s","reverses":"r","reverses_source":""}`,
		`{"event_id":"e","type":"SequenceSkipped","tank":"A","source":"s","skips":[[1,2],[4,4]],"skips_epoch":2,"reason":"lost"}`,
		`{"event_id":"e","type":"OxygenConsumed","tank":"A","source":"s","epoch":3,"seq":9,"v":2}`,
	} {
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(want), &head); err != nil {
			t.Fatal(err)
		}
		e, err := Decode(typeOf([]byte(head.Type)), "A", []byte(want))
		if err != nil {
			t.Fatalf("Decode(%s): %v", want, err)
		}
		if got := string(e.AppendJSON(nil)); got != want {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
	}
}

// TestAppendJSONOfMadeEvents: what a program may leave open gets its default.
func TestAppendJSONOfMadeEvents(t *testing.T) {
	made := Event{Type: Skipped, ID: "e", Tank: "A", Source: "s", Dot: Dot{3, 9}, Skips: []Range{{1, 2}}}
	want := made
	want.Version, want.SkipsEpoch = 1, 3
	got, err := Decode(Skipped, "A", made.AppendJSON(nil))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got error %v, -want +got\n%s", err, diff)
	}
	if made.Hash() != want.Hash() {
		t.Errorf("got another hash for %s, want that of %s", made.AppendCanonical(nil), want.AppendCanonical(nil))
	}
	single := Event{Type: Consumed, ID: "e", Tank: "A", Source: "s", Dot: Dot{3, 9}, Amount: 1, StandsFor: Range{9, 9}}
	plain := single
	plain.StandsFor = Range{}
	if single.Hash() != plain.Hash() {
		t.Errorf("got another hash for %s, want that of %s", single.AppendCanonical(nil), plain.AppendCanonical(nil))
	}
}

package event

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A Decoder leaves nothing of one message in the next: it answers as a fresh one
// does, whatever it has read before.
func TestDecoderForgets(t *testing.T) {
	messages := []string{usualDelta, usualSnapshot, `{`, `{"amt":NaN}`, `{"event_id":"e","tank":"A","amount":1,"covers":{"x":[1,2]}}`,
		`{"event_id":"e","tank":"A","remaining":0,"v":2}`, ``, `[]`, `{"event_id":"e","event_id":"f"}`}
	rapid.Check(t, func(rt *rapid.T) {
		var d Decoder
		for range rapid.IntRange(1, 12).Draw(rt, "messages") {
			message := []byte(rapid.SampledFrom(messages).Draw(rt, "message"))
			kind := rapid.SampledFrom([]Type{Measured, Consumed}).Draw(rt, "type")
			got, gotErr := d.Decode(kind, "A", message)
			want, wantErr := Decode(kind, "A", message)
			if diff := cmp.Diff(want, got); diff != "" || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
				rt.Fatalf("%s: %v, %v, want %v, %v", message, got, gotErr, want, wantErr)
			}
		}
	})
}

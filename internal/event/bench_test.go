package event

import (
	"testing"
)

// The usual messages of a node: a delta of about 220 bytes, and a snapshot that
// covers a flow meter.
const (
	usualDelta = `{"event_id":"ctl-3/1850222837760000/A/000000001042","type":"OxygenConsumed","tank":"A","amount":0.125,` +
		`"source":"ctl-3","epoch":1850222837760000,"seq":1042,"occurred_at":"2026-08-19T10:11:12.123456789Z"}`
	usualSnapshot = `{"event_id":"ctl-3/1850222837760000/A/000000001043","type":"OxygenMeasured","tank":"A","remaining":726.875,` +
		`"source":"ctl-3","epoch":1850222837760000,"seq":1043,"stands_for":[1041,1043],` +
		`"occurred_at":"2026-08-19T10:11:13.123456789Z","covers":{"flow-2":[1850222837760000,1042]}}`
)

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name, payload string
		t             Type
	}{{"delta", usualDelta, Consumed}, {"snapshot", usualSnapshot, Measured}, {"poison", `{"amt":NaN}`, Consumed}} {
		b.Run(c.name, func(b *testing.B) {
			payload := []byte(c.payload)
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			var d Decoder
			for b.Loop() {
				_, _ = d.Decode(c.t, "A", payload)
			}
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e, err := Decode(Consumed, "A", []byte(usualDelta))
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = e.AppendJSON(dst[:0])
	}
}

func BenchmarkHash(b *testing.B) {
	for _, c := range []struct {
		name, payload string
		t             Type
	}{{"delta", usualDelta, Consumed}, {"snapshot", usualSnapshot, Measured}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := Decode(c.t, "A", []byte(c.payload))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = e.Hash()
			}
		})
	}
}

func BenchmarkDecodeCanonical(b *testing.B) {
	e, err := Decode(Consumed, "A", []byte(usualDelta))
	if err != nil {
		b.Fatal(err)
	}
	canonical := e.AppendCanonical(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeCanonical(canonical); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHasNodeID(b *testing.B) {
	e, err := Decode(Consumed, "A", []byte(usualDelta))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !e.HasNodeID() {
			b.Fatal("not its own id")
		}
	}
}

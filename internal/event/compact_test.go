package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkCompact holds the compact form of a legal event to what it is for: the
// canonical form comes back to the byte.
func checkCompact(t interface {
	Helper()
	Fatalf(string, ...any)
}, e *Event, stamp int64) {
	t.Helper()
	want := e.AppendCanonical(nil)
	compact := e.AppendCompact(nil, stamp)
	again, err := DecodeCompact(compact, stamp)
	if err != nil {
		t.Fatalf("DecodeCompact(%x, %d) of %s: %v", compact, stamp, want, err)
	}
	if got := again.AppendCanonical(nil); !bytes.Equal(got, want) {
		t.Fatalf("compact form %x gives %s, want %s", compact, got, want)
	}
}

func TestCompactKeepsTheContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		stamp := rapid.OneOf(rapid.SampledFrom([]int64{0, e.OccurredAt.UnixNano(), math.MinInt64, math.MaxInt64}), rapid.Int64()).Draw(t, "stamp")
		checkCompact(t, &e, stamp)
	})
}

// Every golden sample, too, and what they come to in bytes stands for ever: an
// account that was written in this form must be read.
func TestCompactGolden(t *testing.T) {
	const (
		count = 55
		want  = "7ce4ecd4c37ce98fba18263b09339acec46774dcdd2765de7ae3a2e2348476fa"
	)
	sum := sha256.New()
	stamp := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, s := range samples(t)[:count] {
		e, err := Decode(s.t, s.tank, s.payload)
		if err != nil {
			continue
		}
		checkCompact(t, &e, stamp)
		sum.Write(e.AppendCompact(nil, stamp))
		sum.Write(e.AppendCompact(nil, e.OccurredAt.UnixNano()))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A node's own event in its few bytes, written out.
func TestCompactVector(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 5, time.UTC)
	e := Event{Type: Consumed, Tank: "A", Source: "ctl-3", Dot: Dot{7, 300}, Amount: 2, OccurredAt: at, Version: WireVersion,
		StandsFor: Range{298, 300}, Operation: "o"}
	e.ID = NodeID("ctl-3", 7, "A", 300)
	const want = "063a" + "0141" + "0563746c2d33" + "07" + "ac02" + "02" + "02" + "016f"
	if got := hex.EncodeToString(e.AppendCompact(nil, at.UnixNano())); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzDecodeCompact(f *testing.F) {
	for _, s := range samples(f) {
		if e, err := Decode(s.t, s.tank, s.payload); err == nil {
			f.Add(e.AppendCompact(nil, 1), int64(1))
			f.Add(e.AppendCompact(nil, e.OccurredAt.UnixNano()), e.OccurredAt.UnixNano())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, stamp int64) {
		e, err := DecodeCompact(b, stamp)
		if err != nil {
			return
		}
		if got := e.AppendCompact(nil, stamp); !bytes.Equal(got, b) {
			t.Fatalf("%x reads back as %x", b, got)
		}
		if legal, err := DecodeCanonical(e.AppendCanonical(nil)); err == nil {
			checkCompact(t, &legal, stamp)
		}
	})
}

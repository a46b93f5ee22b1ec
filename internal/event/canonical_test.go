package event

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestGoldenHash pins the content hash for ever: accounts compare what they meet
// with what they hashed years ago. The hashes were made from the canonical text
// by another program.
func TestGoldenHash(t *testing.T) {
	for _, c := range []struct {
		name, canonical, hash string
		e                     Event
	}{{
		name: "rich measurement",
		e: Event{
			Type: Measured, ID: "ctl-3/1850222837760000/A/000000001042", Tank: "A", Amount: 726875e6, Source: "ctl-3",
			Dot: Dot{1850222837760000, 1042}, StandsFor: Range{1040, 1042},
			OccurredAt: time.Date(2026, 8, 19, 12, 11, 13, 5e8, time.FixedZone("", 7200)), Unsynced: true, Age: 12e9, HasAge: true,
			Covers: map[string]Dot{"flow-2": {1850222837760000, 77}, "Flow-2": {3, 1}}, Suspect: true, Version: 1,
		},
		canonical: `{"clock":"unsynced","covers":{"Flow-2":[3,1],"flow-2":[1850222837760000,77]},"epoch":1850222837760000,` +
			`"event_id":"ctl-3/1850222837760000/A/000000001042","occurred_at":"2026-08-19T10:11:13.500000000Z","quality":"suspect",` +
			`"remaining":"726.875","seq":1042,"source":"ctl-3","stands_for":[1040,1042],"tank":"A","type":"OxygenMeasured"}`,
		hash: "fccdab238cbadcee75a16163043d8923cda6e6fd371f673cf4cd575cc7cc099b",
	}, {
		name:      "delta of the example of record",
		e:         Event{Type: Consumed, ID: "e-8842", Tank: "A", Amount: 120e9},
		canonical: `{"amount":"120","event_id":"e-8842","tank":"A","type":"OxygenConsumed"}`,
		hash:      "69700f7f7ece0df0243aa3001b461e3074dcd654452ca3b3101b3e7c9b47360c",
	}, {
		name:      "reversal of an anonymous delta",
		e:         Event{Type: Reversed, ID: "undo-1", Tank: "A", Source: "desk", Reverses: "e-8842", Version: 1},
		canonical: `{"event_id":"undo-1","reverses":"e-8842","reverses_source":"","source":"desk","tank":"A","type":"OxygenReversed"}`,
		hash:      "292b430ffd18c508b5e86a84af755352d7ec92cf6d52792f6ce982629bb1c245",
	}, {
		name: "skipped numbers of another epoch",
		e: Event{Type: Skipped, ID: "s-1", Tank: "A", Source: "ctl-3", Skips: []Range{{1, MaxSeq}}, SkipsEpoch: MaxEpoch,
			Version: 1},
		canonical: `{"event_id":"s-1","skips":[[1,9007199254740991]],"skips_epoch":9007199254740991,"source":"ctl-3","tank":"A","type":"SequenceSkipped"}`,
		hash:      "32fb42d4e605beac03b5ee8d3b347f2e1dc6c1c6258392e0db495fa2573775a9",
	}, {
		name:      "refill with an operation in quotes",
		e:         Event{Type: Refilled, ID: "r/1", Tank: "A", Amount: 12e7, Operation: `resv-7 "fill"`, Version: 1},
		canonical: `{"amount":"0.12","event_id":"r/1","operation":"resv-7 \"fill\"","tank":"A","type":"OxygenRefilled"}`,
		hash:      "adf31d7f20586ef09df7eeefdc4f719b430fed9217c3fe86b290e0accd20cf5d",
	}, {
		name:      "foreign version",
		e:         Event{Type: Consumed, ID: "future", Tank: "A", Source: "x", Version: 99},
		canonical: `{"event_id":"future","source":"x","tank":"A","type":"OxygenConsumed","v":99}`,
		hash:      "732af4f8cc0daf20e60d97fe63f08168a23dbee1209d228d1f0c1cd41acf82a5",
	}} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(c.e.AppendCanonical(nil)); got != c.canonical {
				t.Errorf("canonical form: got\n%s, want\n%s", got, c.canonical)
			}
			hash := c.e.Hash()
			if got := hex.EncodeToString(hash[:]); got != c.hash {
				t.Errorf("hash: got %s, want %s", got, c.hash)
			}
		})
	}
}

// checkCanonical holds the canonical form of e to RFC 8785 and to its way back.
func checkCanonical(t interface {
	Helper()
	Fatalf(string, ...any)
}, e *Event) {
	t.Helper()
	canonical := e.AppendCanonical(nil)
	reference := jsontext.Value(canonical).Clone()
	if err := reference.Canonicalize(); err != nil {
		t.Fatalf("canonicalize %s: %v", canonical, err)
	}
	if string(reference) != string(canonical) {
		t.Fatalf("canonical form: got\n%s, RFC 8785 wants\n%s", canonical, reference)
	}
	if got, want := e.Hash(), Hash(sha256.Sum256(canonical)); got != want {
		t.Fatalf("hash: got %x, want %x, the SHA-256 of the canonical form", got, want)
	}
	want := *e
	want.Age, want.HasAge = 0, false
	got, err := DecodeCanonical(canonical)
	if err != nil {
		t.Fatalf("DecodeCanonical(%s): %v", canonical, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("DecodeCanonical(%s): -want +got\n%s", canonical, diff)
	}
}

func TestCanonicalFormIsRFC8785(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		checkCanonical(t, &e)
	})
}

func TestDecodeCanonicalTakesNothingElse(t *testing.T) {
	const good = `{"amount":"120","event_id":"e","tank":"A","type":"OxygenConsumed"}`
	if _, err := DecodeCanonical([]byte(good)); err != nil {
		t.Fatalf("DecodeCanonical(%s): %v", good, err)
	}
	for text, want := range map[string]Reason{
		``:   Malformed,
		`{}`: Malformed,
		`{"amount":120,"event_id":"e","tank":"A","type":"OxygenConsumed"}`:                              Malformed,
		`{"amount":"120.0","event_id":"e","tank":"A","type":"OxygenConsumed"}`:                          Malformed,
		`{"amount":"120","event_id":"e","tank":"A"}`:                                                    Malformed,
		`{"amount":"120","event_id":"e","tank":"A","type":"Oxygen"}`:                                    TypeMismatch,
		`{"amount":"120","event_id":"e","tank":"A","type":1}`:                                           Malformed,
		`{"amount":"120","event_id":"e","type":"OxygenConsumed"}`:                                       Malformed,
		`{"event_id":"e","amount":"120","tank":"A","type":"OxygenConsumed"}`:                            Malformed,
		`{"amount":"120","event_id":"e","tank":"A","type":"OxygenConsumed"} `:                           Malformed,
		`{"amount":"120","event_id":"\u0065","tank":"A","type":"OxygenConsumed"}`:                       Malformed,
		`{"amount":"120","event_id":"e","tank":"A","type":"OxygenConsumed","unit":"g"}`:                 Malformed,
		`{"amount":"120","event_id":"e","tank":"A","type":"OxygenConsumed","v":1}`:                      Malformed,
		`{"amount":"120","event_id":"e","tank":"A","type":"OxygenConsumed","x":1}`:                      Malformed,
		`{"amount":"120","clock":"synced","event_id":"e","tank":"A","type":"OxygenConsumed"}`:           Malformed,
		`{"age":1,"amount":"120","clock":"unsynced","event_id":"e","tank":"A","type":"OxygenConsumed"}`: Malformed,
		`{"amount":"-1","event_id":"e","tank":"A","type":"OxygenConsumed"}`:                             OutOfRange,
	} {
		if e, err := DecodeCanonical([]byte(text)); err == nil || reasonOf(err) != want {
			t.Errorf("DecodeCanonical(%s): got %v, %v, want %s", text, e, err, want)
		}
	}
	if _, err := DecodeCanonical(make([]byte, MaxBytes+1)); reasonOf(err) != TooLarge {
		t.Errorf("too long: got %v, want too_large", err)
	}
}

func TestSameMeaningSameHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genEvent().Draw(t, "event")
		message := respell(t, &want)
		got, err := Decode(want.Type, want.Tank, message)
		if err != nil {
			t.Fatalf("Decode(%s): %v", message, err)
		}
		if got.Hash() != want.Hash() {
			t.Fatalf("%s: got canonical form\n%s, want\n%s", message, got.AppendCanonical(nil), want.AppendCanonical(nil))
		}
		got.Age, got.HasAge, want.Age, want.HasAge = 0, false, 0, false
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Decode(%s): -want +got\n%s", message, diff)
		}
	})
}

// change makes one field of an event mean something else. It reports false
// where events of that kind do not carry the field.
type change func(e *Event) bool

// changes names every field of Event; nil stands for what is no content.
func changes() map[string]change {
	own := func(e *Event) bool { return e.Version == WireVersion }
	return map[string]change{
		"Type": func(e *Event) bool {
			swap := map[Type]Type{Consumed: Refilled, Refilled: Consumed}
			e.Type = swap[e.Type]
			return e.Type != 0
		},
		"ID":     func(e *Event) bool { e.ID += "x"; return true },
		"Tank":   func(e *Event) bool { e.Tank += "x"; return true },
		"Amount": func(e *Event) bool { e.Amount++; return own(e) && e.carriesAmount() },
		"Source": func(e *Event) bool { e.Source += "x"; return true },
		"Dot": func(e *Event) bool {
			e.Dot.Epoch ^= 1
			return e.Numbered() && e.SkipsEpoch == 0
		},
		"StandsFor": func(e *Event) bool {
			if e.StandsFor.From--; e.StandsFor.From == 0 {
				e.StandsFor = Range{} // no more than the own number
			}
			return own(e) && e.StandsFor.To != 0
		},
		"OccurredAt": func(e *Event) bool { e.OccurredAt = e.OccurredAt.Add(1); return own(e) },
		"Unsynced":   func(e *Event) bool { e.Unsynced = !e.Unsynced; return own(e) },
		"Age":        nil,
		"HasAge":     nil,
		"Covers": func(e *Event) bool {
			for source, dot := range e.Covers {
				e.Covers = map[string]Dot{source: {dot.Epoch, dot.Seq + 1}}
			}
			return len(e.Covers) > 0
		},
		"Reverses":       func(e *Event) bool { e.Reverses += "x"; return own(e) && e.Type == Reversed },
		"ReversesSource": func(e *Event) bool { e.ReversesSource += "x"; return own(e) && e.Type == Reversed },
		"Skips":          func(e *Event) bool { e.Skips = append(e.Skips, Range{1, 1}); return own(e) && e.Type == Skipped },
		"SkipsEpoch":     func(e *Event) bool { e.SkipsEpoch++; return own(e) && e.Type == Skipped },
		"Reason":         func(e *Event) bool { e.Reason += "x"; return own(e) && e.Type == Skipped },
		"Operation":      func(e *Event) bool { e.Operation += "x"; return own(e) && e.Type.Delta() },
		"Suspect":        func(e *Event) bool { e.Suspect = !e.Suspect; return own(e) && e.carriesAmount() },
		"Version":        func(e *Event) bool { e.Version++; return true },
	}
}

// TestAnyOtherContentOtherHash also fails when Event grows a field that nobody
// has decided about.
func TestAnyOtherContentOtherHash(t *testing.T) {
	all := changes()
	for i := range reflect.TypeFor[Event]().NumField() {
		if _, ok := all[reflect.TypeFor[Event]().Field(i).Name]; !ok {
			t.Fatalf("field %s of Event: say in changes how it is content, or that it is not", reflect.TypeFor[Event]().Field(i).Name)
		}
	}
	for name, alter := range all {
		if alter == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				e := genEvent().Draw(t, "event")
				before, hash := string(e.AppendCanonical(nil)), e.Hash()
				if !alter(&e) {
					return
				}
				applied++
				if e.Hash() == hash {
					t.Fatalf("%s changed, hash did not: %s, then %s", name, before, e.AppendCanonical(nil))
				}
			})
			if applied == 0 {
				t.Errorf("no event drawn carries %s", name)
			}
		})
	}
}

// TestForeignFieldsNeverMatter: age is no content, and what the type does not
// carry does not enter either.
func TestForeignFieldsNeverMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		hash := e.Hash()
		e.Age, e.HasAge = time.Duration(rapid.Int64().Draw(t, "age")), rapid.Bool().Draw(t, "has age")
		if e.Version == WireVersion {
			strange(&e)
		}
		if e.Hash() != hash {
			t.Fatalf("hash changed: %s", e.AppendCanonical(nil))
		}
	})
}

// strange fills the fields that the event's type does not carry.
func strange(e *Event) {
	if !e.carriesAmount() {
		e.Amount, e.Suspect, e.StandsFor = 1, true, Range{1, 2}
	}
	if e.Type != Measured {
		e.Covers = map[string]Dot{"x": {1, 1}}
	}
	if !e.Type.Delta() {
		e.Operation = "x"
	}
	if e.Type != Reversed {
		e.Reverses, e.ReversesSource = "x", "y"
	}
	if e.Type != Skipped {
		e.Skips, e.SkipsEpoch, e.Reason = []Range{{1, 1}}, 9, "x"
	}
}

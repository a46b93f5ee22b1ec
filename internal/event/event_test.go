package event

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestTypeOfTopic(t *testing.T) {
	for _, want := range []Type{Measured, Consumed, Refilled, Reversed, Skipped} {
		if got, ok := TypeOfTopic(want.Topic()); !ok || got != want {
			t.Errorf("TypeOfTopic(%q): got %v, %v, want %v", want.Topic(), got, ok, want)
		}
		if got := typeOf([]byte(want.String())); got != want {
			t.Errorf("typeOf(%q): got %v, want %v", want, got, want)
		}
	}
	for _, level := range []string{"", "Measured", "balance", "alarm"} {
		if got, ok := TypeOfTopic(level); ok {
			t.Errorf("TypeOfTopic(%q): got %v, want none", level, got)
		}
	}
	for _, none := range []Type{0, Skipped + 1, 255} {
		if got := none.Topic(); got != "" {
			t.Errorf("topic of %v: got %q, want none", none, got)
		}
		_ = none.String() // no panic
	}
}

// TestFieldsAreInOrder: the search for a name and the canonical form rest on it.
func TestFieldsAreInOrder(t *testing.T) {
	for f := fAge; f < fieldCount; f++ {
		if f > fAge && fieldNames[f-1] >= fieldNames[f] {
			t.Errorf("got %q before %q, want the order of RFC 8785", fieldNames[f-1], fieldNames[f])
		}
		if got := fieldOf([]byte(fieldNames[f])); got != f {
			t.Errorf("fieldOf(%q): got %d, want %d", fieldNames[f], got, f)
		}
	}
	for _, name := range []string{"", "A", "a", "agee", "u", "vv", "zz", "Amount", "amoun"} {
		if got := fieldOf([]byte(name)); got != 0 {
			t.Errorf("fieldOf(%q): got %s, want none", name, fieldNames[got])
		}
	}
}

func TestNodeID(t *testing.T) {
	if got, want := NodeID("ctl-3", 1850222837760000, "A", 1042), "ctl-3/1850222837760000/A/000000001042"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		epoch, seq := genNumber().Draw(t, "epoch"), genNumber().Draw(t, "seq")
		got := NodeID("n", epoch, "T", seq)
		if want := fmt.Sprintf("n/%d/T/%012d", epoch, seq); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestHasNodeID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		want := e.Numbered() && e.ID == NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
		if got := e.HasNodeID(); got != want {
			t.Fatalf("%q: got %v, want %v", e.ID, got, want)
		}
	})
	e := Event{ID: NodeID("s", 1, "A", 2), Source: "s", Dot: Dot{1, 2}, Tank: "A"}
	if !e.HasNodeID() {
		t.Errorf("%q: got false, want true", e.ID)
	}
	if got := testing.AllocsPerRun(100, func() { e.HasNodeID() }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
	e = Event{ID: NodeID("", 0, "A", 0), Tank: "A"}
	if e.HasNodeID() {
		t.Errorf("unnumbered %q: got true, want false", e.ID)
	}
}

func TestDotCompare(t *testing.T) {
	ordered := []Dot{{}, {1, 1}, {1, 2}, {2, 1}, {MaxEpoch, MaxSeq}}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%v.Compare(%v): got %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	e, err := Decode(Measured, "A", []byte(usualSnapshot))
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(100, func() { e.Hash() }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func TestParseNodeIDIsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, tank := genName().Draw(t, "source"), genName().Draw(t, "tank")
		want := Dot{genNumber().Draw(t, "epoch"), genNumber().Draw(t, "seq")}
		id := NodeID(source, want.Epoch, tank, want.Seq)
		gotTank, got, ok := ParseNodeID(source, id)
		if !ok || gotTank != tank || got != want {
			t.Fatalf("ParseNodeID(%q): got %q, %v, %v, want %q, %v", id, gotTank, got, ok, tank, want)
		}
		damaged := []byte(id)
		damaged[rapid.IntRange(0, len(id)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0/+9 x")).Draw(t, "byte")
		gotTank, got, ok = ParseNodeID(source, string(damaged))
		if ok && NodeID(source, got.Epoch, gotTank, got.Seq) != string(damaged) {
			t.Fatalf("ParseNodeID(%q): got %q, %v, which NodeID writes otherwise", damaged, gotTank, got)
		}
	})
	for _, id := range []string{"", "s", "s/", "s/1/A", "s/1/A/1", "s/1/A/0000000000001", "s/01/A/000000000001", "s/0/A/000000000001",
		"s/1/A/000000000000", "s/1//000000000001", "s/1/A/B/000000000001", "s/1/A/9007199254740992", "t/1/A/000000000001", "s/+1/A/000000000001"} {
		if tank, d, ok := ParseNodeID("s", id); ok {
			t.Errorf("ParseNodeID(%q): got %q, %v, want none", id, tank, d)
		}
	}
}

// TestRunAndIdentity: a number accounts for itself, or for all it stands for.
func TestRunAndIdentity(t *testing.T) {
	e := Event{ID: "e", Source: "s", Dot: Dot{3, 9}}
	if got, want := e.Run(), (Range{9, 9}); got != want {
		t.Errorf("run: got %v, want %v", got, want)
	}
	e.StandsFor = Range{7, 9}
	if got, want := e.Run(), (Range{7, 9}); got != want {
		t.Errorf("run of a merged event: got %v, want %v", got, want)
	}
	if got, want := e.Identity(), (Identity{"s", "e"}); got != want {
		t.Errorf("identity: got %v, want %v", got, want)
	}
	if !(Dot{}).IsZero() || e.Dot.IsZero() {
		t.Errorf("IsZero: got %v and %v, want true and false", Dot{}.IsZero(), e.Dot.IsZero())
	}
}

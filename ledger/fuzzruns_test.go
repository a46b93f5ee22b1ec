package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// FuzzRuns holds the set of accounted numbers against a plain one. Every two bytes
// are a run: where it begins and how many numbers it has.
func FuzzRuns(f *testing.F) {
	f.Add([]byte{1, 0, 3, 0, 2, 0})
	f.Add([]byte{9, 3, 20, 1, 1, 30, 50, 7, 40, 9, 255, 7, 249, 7})
	for n := range 8 {
		f.Add(bytes.Repeat([]byte{byte(7 * n), byte(n), byte(250 - 9*n), 1}, n+1))
	}
	l, err := Open(Options{Path: filepath.Join(f.TempDir(), "ledger.bolt"), Log: zerolog.Nop()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	undo := errors.New("undone")
	f.Fuzz(func(t *testing.T, steps []byte) {
		err := l.file.Update(func(tx *bbolt.Tx) error {
			set := runs{row: &seen{}, bucket: tx.Bucket([]byte("runs")), prefix: seenKey("T", "s", 1)}
			var plain plainSet
			// Neighbours that the set must not take for its own.
			for _, epoch := range []uint64{0, 2} {
				other := runs{row: &seen{}, bucket: set.bucket, prefix: seenKey("T", "s", epoch)}
				if err := other.add(event.Range{From: 4, To: 300}); err != nil {
					return err
				}
			}
			for ; len(steps) >= 2 && len(plain.adds) < 64; steps = steps[2:] {
				run := event.Range{From: 1 + uint64(steps[0]), To: 1 + uint64(steps[0]) + uint64(steps[1]&31)}
				some, all := set.covered(run)
				if wantSome, wantAll := plain.covered(run); some != wantSome || all != wantAll {
					t.Fatalf("%v: covered(%v) = %v, %v, want %v, %v", plain.adds, run, some, all, wantSome, wantAll)
				}
				if err := set.add(run); err != nil {
					return err
				}
				plain.add(run)
				plain.compare(t, set)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
	})
}

// plainSet has a flag for every number.
type plainSet struct {
	has  [300]bool
	most uint64
	adds []event.Range
}

func (p *plainSet) covered(run event.Range) (some, all bool) {
	all = true
	for n := run.From; n <= run.To; n++ {
		some, all = some || p.has[n], all && p.has[n]
	}
	return some, all
}

func (p *plainSet) add(run event.Range) {
	for n := run.From; n <= run.To; n++ {
		p.has[n] = true
	}
	p.most = max(p.most, run.To)
	p.adds = append(p.adds, run)
}

// gaps lists what lacks in the run, lowest first.
func (p *plainSet) gaps(run event.Range) (list []event.Range) {
	for n := run.From; n <= run.To; n++ {
		if k := len(list); p.has[n] {
			continue
		} else if k > 0 && list[k-1].To == n-1 {
			list[k-1].To = n
		} else {
			list = append(list, event.Range{From: n, To: n})
		}
	}
	return list
}

// compare asks the set for everything. Its runs must be sorted, not touch each
// other and stand above low (checkRuns asks for the same).
func (p *plainSet) compare(t *testing.T, set runs) {
	var got []event.Range
	set.gaps(func(gap event.Range) bool {
		got = append(got, gap)
		return true
	})
	if want := p.gaps(event.Range{From: 1, To: p.most}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v: gaps %v, want %v", p.adds, got, want)
	}
	for _, run := range []event.Range{{From: 1, To: p.most}, {From: 1, To: 299}, {From: p.most / 2, To: p.most/2 + 40}} {
		run.From = max(run.From, 1)
		want := p.gaps(event.Range{From: run.From, To: min(run.To, 299)})
		set.lacking(event.Range{From: run.From, To: min(run.To, 299)}, func(gap event.Range) bool {
			if k := len(want); k == 0 || want[k-1] != gap {
				t.Fatalf("%v: lacking in %v gives %v, want the last of %v", p.adds, run, gap, want)
			}
			want = want[:len(want)-1]
			return true
		})
		if len(want) > 0 {
			t.Fatalf("%v: lacking in %v leaves %v out", p.adds, run, want)
		}
	}
	c, ok := checker{}, set.row.most == p.most
	c.batch = &batch{runRows: set.bucket}
	var want []event.Range
	for n, here := range p.has {
		if here {
			want = append(want, event.Range{From: uint64(n), To: uint64(n)})
		}
	}
	want = union(want)
	if err := c.checkRuns(set.prefix, set.row, want); err != nil || !ok {
		t.Fatalf("%v: greatest %d, want %d, %v", p.adds, set.row.most, p.most, err)
	}
}

// FuzzKeys gives what reads keys, and values that belong to one, any bytes.
func FuzzKeys(f *testing.F) {
	d := &delta{typ: event.Consumed, amount: 5}
	st := stream{"A", "dev", numbered}
	f.Add(moveKey(st.at(event.Dot{Epoch: 1, Seq: 2}), 7), d.appendMove(nil))
	f.Add(moveKey(stream{"A", "", unnumbered}.atStamp(3, "e"), 7), d.appendMove(nil))
	f.Add(append(seenKey("A", "dev", 1), 0, 0, 0, 0, 0, 0, 0, 9), []byte{0, 0, 0, 0, 0, 0, 0, 12})
	f.Add([]byte("A\x00"), []byte{})
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if n := bytes.IndexByte(key, 0) + 1; n > 0 {
			if d, err := decodeMove(key, value, n); err == nil && !bytes.Equal(moveKey(d.key, d.stamp), key) {
				t.Errorf("move %x reads back as %x", key, moveKey(d.key, d.stamp))
			}
		}
		prefix := seenKey("A", "dev", 1)
		if run, ok := (runs{prefix: prefix}).parse(key, value); ok && run.From == 0 && !bytes.HasPrefix(key, prefix) {
			t.Errorf("%x is no run of %x", key, prefix)
		}
		if st, epoch, ok := parseSeenKey(key); ok { // of a longer key it reads the beginning and the end
			if again := seenKey(st.tank, st.source, epoch); len(again) == len(key) && st.kind == numbered && !bytes.Equal(again, key) {
				t.Errorf("watermark key %x reads back as %x", key, again)
			}
		}
		_ = dotOfKey(key)
	})
}

// FuzzSum: what a sum is read from is what it writes, to the last nanogram.
func FuzzSum(f *testing.F) {
	for _, text := range []string{"0", "727", "-0.000000001", "1e30", "1e999999999", "0x10", "1/3", "170141183460469231731687303715.884105727", "", "-"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, back Sum
		if s.UnmarshalJSON(text) != nil {
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &back); err != nil || back != s {
			t.Errorf("%s is written as %s and reads back as %v, %v", text, written, back, err)
		}
		var o Outcome
		if o.UnmarshalText(text) == nil && o.String() != string(text) {
			t.Errorf("outcome %s reads back as %s", text, o)
		}
	})
}

package ledger

import (
	"bytes"
	"testing"

	"oxyd/internal/event"
)

// FuzzRows gives every row decoder any bytes: a damaged page must be an error and
// nothing else, and what decodes must come back the same once it was written.
func FuzzRows(f *testing.F) {
	s := &snapshot{id: "e", dot: event.Dot{Epoch: 1, Seq: 2}, covers: map[string]event.Dot{"flow": {Epoch: 1, Seq: 9}}}
	opening := Sum{lo: 847}
	seeds := [][]byte{nil, {0xff}, bytes.Repeat([]byte{0xff}, 400)}
	seeds = append(seeds, (&entry{outcome: Applied, typ: event.Consumed, lsn: 7}).encode(),
		(&head{last: s, prev: s}).encode(), (&head{}).encode(), (&seen{low: 4, above: 1}).encode(), (&source{events: 3}).encode(),
		(&epoch{why: epochFirst, began: noInstant}).encode(),
		(&tank{opening: &opening, baseline: &stream{tank: "A", source: "dev", kind: numbered}}).encode(), (&meta{lsn: 9}).encode(), (&OutCounts{Next: 3}).encode(), []byte(`{"number":1,"state":"waiting"}`))
	e := event.Event{Type: event.Consumed, ID: "e", Tank: "A", Amount: 1, Version: event.WireVersion}
	one, _ := (&record{kind: recordEvent, outcome: Applied, written: &e}).encode(nil, [chainBytes]byte{}, 1)
	open, _ := (&record{kind: recordOpening, opened: "A"}).encode(nil, [chainBytes]byte{}, 1)
	retry, _ := (&record{kind: recordRetry, outcome: Late, decision: decision{overruled: []event.Reason{"limit"}, note: "n", tank: "A"}}).encode(nil, [chainBytes]byte{}, 1)
	for _, row := range append(seeds, one, open, retry) {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		if n, err := decodeEntry(row); err == nil {
			same(t, n.encode(), func(b []byte) ([]byte, error) { n, err := decodeEntry(b); return n.encode(), err })
		}
		if h, err := decodeHead(row); err == nil {
			same(t, h.encode(), func(b []byte) ([]byte, error) { h, err := decodeHead(b); return h.encode(), err })
		}
		if s, err := decodeSeen(row); err == nil {
			same(t, s.encode(), func(b []byte) ([]byte, error) { s, err := decodeSeen(b); return s.encode(), err })
		}
		if s, err := decodeSource(row); err == nil {
			same(t, s.encode(), func(b []byte) ([]byte, error) { s, err := decodeSource(b); return s.encode(), err })
		}
		if x, err := decodeEpoch(row); err == nil {
			same(t, x.encode(), func(b []byte) ([]byte, error) { x, err := decodeEpoch(b); return x.encode(), err })
		}
		if a, err := decodeTank("A", row); err == nil {
			same(t, a.encode(), func(b []byte) ([]byte, error) { a, err := decodeTank("A", b); return a.encode(), err })
		}
		if m, err := decodeMeta(row); err == nil {
			same(t, m.encode(), func(b []byte) ([]byte, error) { m, err := decodeMeta(b); return m.encode(), err })
		}
		if c, err := decodeOutCounts(row); err == nil {
			same(t, c.encode(), func(b []byte) ([]byte, error) { c, err := decodeOutCounts(b); return c.encode(), err })
		}
		_, _ = readNotification(row)
		if r, err := parseRecord(row); err == nil {
			_, _ = r.event()
		}
		_, _, _ = decodeRecord(row, [chainBytes]byte{}, 1)
		_, _ = parseStream(row)
		_, _, _ = parseSeenKey(row)
	})
}

func same(t *testing.T, once []byte, again func([]byte) ([]byte, error)) {
	t.Helper()
	if twice, err := again(once); err != nil || !bytes.Equal(once, twice) {
		t.Errorf("%x reads back as %x, %v", once, twice, err)
	}
}

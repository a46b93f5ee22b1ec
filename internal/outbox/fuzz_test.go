package outbox

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"oxyd/internal/event"
)

// What a decoder accepts it gives again, whatever the bytes on the card are.

func FuzzRow(f *testing.F) {
	r := row{kind: event.Consumed, unsynced: true, boot: 3, mono: time.Hour, wall: time.Unix(1, 2).UTC(), payload: []byte(`{}`)}
	f.Add(r.encode(7), uint64(7))
	f.Add(r.encode(7), uint64(8))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		if len(b) >= 4 { // else no input would ever have the right sum
			sum := rowSum(n, b[:len(b)-4])
			b = binary.BigEndian.AppendUint32(bytes.Clone(b[:len(b)-4]), sum)
		}
		got, err := decodeRow(n, b)
		if err != nil {
			return
		}
		if again, err := decodeRow(n, got.encode(n)); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v, then %+v, %v", got, again, err)
		}
		if _, err := decodeRow(n+1, b); err == nil {
			t.Error("accepted under another's number")
		}
	})
}

func FuzzRecords(f *testing.F) {
	r := ref{kind: event.Measured, ownID: true, epoch: 5, seq: 9, from: 7, tank: "A"}
	at := instant{boot: 1, mono: time.Minute, wall: time.Unix(5, 6).UTC(), synced: true}
	a := answer{"main", 3, streamID{5, "A"}, []event.Range{{From: 1, To: 2}, {From: 4, To: 4}}}
	s := stream{1, 2, 3}
	f.Add(r.encode(nil))
	f.Add(r.encode(at.encode(nil)))
	f.Add(a.encode())
	f.Add(s.encode())
	f.Add([]byte{0, 3, 'b', 'a', 'd', 0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := decodeRef(b); ok {
			if again, ok := decodeRef(got.encode(nil)); !ok || got != again {
				t.Errorf("reference %+v, then %+v", got, again)
			}
		}
		if at, got, ok := decodeKept(b); ok {
			if at2, again, ok := decodeKept(got.encode(at.encode(nil))); !ok || got != again || at != at2 {
				t.Errorf("kept %+v %+v, then %+v %+v", at, got, at2, again)
			}
		}
		if got, ok := decodeAnswer(b); ok && !bytes.Equal(got.encode(), b) {
			t.Errorf("answer %+v gives %x, was %x", got, got.encode(), b)
		}
		if got, ok := decodeStream(b); ok && !bytes.Equal(got.encode(), b) {
			t.Errorf("stream %+v gives %x, was %x", got, got.encode(), b)
		}
		if d, _, ok := decodeDamaged(make([]byte, 8), b); ok && len(d.Reason)+len(d.Bytes) > len(b) {
			t.Errorf("damaged row %+v of %d bytes", d, len(b))
		}
		if _, _, err := decodeID("x", b); err == nil && len(b) != idBytes {
			t.Errorf("an id of %d bytes", len(b))
		}
	})
}

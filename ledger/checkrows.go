package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"

	"oxyd/internal/event"
)

// checkRows verifies what decides about events to come and shows in no balance yet:
// whose turn an operation is, what is taken back, what a source cannot deliver, and
// what is known of each source.
func (c *checker) checkRows() error {
	operations, reversals := 0, map[string]bool{}
	for _, f := range c.accepted {
		var fault error
		switch {
		case f.Type.Delta() && f.Operation != "":
			operations++
			fault = c.leads(c.operations.Get(operationKey(operationPrefix(&f.Event), f.stamp, f.Identity())), f)
		case f.Type == event.Reversed:
			key := reversalKey(&f.Event)
			row := c.reversals.Get(key)
			reversals[string(key)] = true
			if row != nil || f.parked || c.gone.rows == 0 {
				fault = c.leads(row, f)
			}
		case f.Type == event.Skipped:
			fault = c.declares(f)
		}
		if fault != nil {
			return fault
		}
	}
	if n := c.operations.Inspect().KeyN; n != operations {
		return fmt.Errorf("there are %d operations, the journal gives %d", n, operations)
	}
	if err := c.reversals.ForEach(func(key, _ []byte) error {
		if !reversals[string(key)] {
			return fmt.Errorf("reversal %q is not in the journal", key)
		}
		return nil
	}); err != nil {
		return err
	}
	return c.sourceRows.ForEach(c.checkSource)
}

// leads verifies that a row gives the entry of the event.
func (c *checker) leads(row []byte, f *fact) error {
	if !bytes.Equal(row, entryKey(&f.Event, f.stamp)) {
		return fmt.Errorf("%s %q of tank %s: its row leads to %q", f.Type, f.ID, f.Tank, row)
	}
	return nil
}

// declares verifies that what the source said it cannot deliver is noted.
func (c *checker) declares(f *fact) error {
	for _, r := range f.Skips {
		key := binary.BigEndian.AppendUint64(seenKey(f.Tank, f.Source, f.SkipsEpoch), r.From)
		if to := c.skipped.Get(key); len(to) != 8 || binary.BigEndian.Uint64(to) < r.To {
			return fmt.Errorf("tank %s source %q: the skip of %d..%d is not noted", f.Tank, f.Source, r.From, r.To)
		}
	}
	return nil
}

// checkSource verifies by which epoch a source is judged, and whether its ids are
// looked for.
func (c *checker) checkSource(key, row []byte) error {
	s, err := decodeSource(row)
	if err != nil {
		return err
	}
	name := string(bytes.TrimSuffix(key, []byte{0}))
	newest := uint64(0)
	if k, _ := lastOf(c.epochs.Cursor(), key); k != nil {
		newest = binary.BigEndian.Uint64(k[len(key):])
	}
	if s.newest != newest {
		return fmt.Errorf("source %q: its newest epoch is %d, known is %d", name, s.newest, newest)
	}
	if has := c.anyID(name) > 0; has != (s.named > 0) {
		return fmt.Errorf("source %q: %d ids are counted, and there are some: %v", name, s.named, has)
	}
	return nil
}

// snapshot gives the fact as a head keeps it.
func (f *fact) snapshot() *snapshot {
	return &snapshot{id: f.ID, dot: f.Dot, stamp: f.stamp, byReceipt: f.byReceipt, suspect: f.Suspect, remaining: int64(f.Amount),
		occurredAt: instant(f.OccurredAt), covers: f.Covers}
}

// is reports whether a head's snapshot is that of the fact.
func (s *snapshot) is(f *fact) bool { return reflect.DeepEqual(s, f.snapshot()) }

package powercut

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"oxyd/internal/event"
	"oxyd/internal/outbox"
)

// promises is what clients of the outbox have said.
type promises struct {
	acked     map[int]outbox.Receipt // by draft
	left      map[uint64]left        // by row
	confirm   map[uint64]bool        // rows that may be confirmed
	confirmed map[uint64]bool        // rows that are
}

// left is a row that has been handed over.
type left struct {
	draft int
	dot   event.Dot
	sum   string // of its bytes
}

func promisesOf(lines []string) promises {
	p := promises{map[int]outbox.Receipt{}, map[uint64]left{}, map[uint64]bool{}, map[uint64]bool{}}
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		var r outbox.Receipt
		var l left
		switch word {
		case saysAck:
			fmt.Sscanf(rest, "%d %s %d %d %d", &l.draft, &r.ID, &r.Dot.Epoch, &r.Dot.Seq, &r.Row)
			p.acked[l.draft] = r
		case saysLeft:
			fmt.Sscanf(rest, "%d %d %d %d %s", &r.Row, &l.draft, &l.dot.Epoch, &l.dot.Seq, &l.sum)
			p.left[r.Row] = l
		case saysConfirm:
			fmt.Sscanf(rest, "%d", &r.Row)
			p.confirm[r.Row] = true
		case saysConfirmed:
			fmt.Sscanf(rest, "%d", &r.Row)
			p.confirmed[r.Row] = true
		}
	}
	return p
}

// outboxJudge holds what a cut has left against what was promised.
func outboxJudge(j job, dir string) error {
	path := filepath.Join(dir, outboxFile)
	if _, err := os.Stat(path); err != nil && len(j.Lines) > 0 && j.Lines[0] == saysReady {
		return fmt.Errorf("the outbox is gone: %w", err)
	}
	o, err := openOutbox(path, boardClock{time.Hour, true})
	if err != nil {
		return err
	}
	defer o.Close()
	if err := onlyFile(dir, outboxFile); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	p := promisesOf(j.Lines)
	for d, r := range p.acked {
		got, found, err := o.Lookup(r.ID)
		if got.Again = false; err != nil || !found || got != r {
			return fmt.Errorf("LOST: draft %d was acknowledged as %+v, found is %+v (%t, %v)", d, r, got, found, err)
		}
	}
	pending, err := drainAll(o)
	if err != nil {
		return err
	}
	if err := p.pending(j.Seed, pending); err != nil {
		return err
	}
	if err := p.goOn(o, j.Seed); err != nil {
		return err
	}
	return o.Check()
}

// drainAll hands everything over, and notices when that does not get on.
func drainAll(o *outbox.Outbox) (rows []outbox.Row, err error) {
	for after := uint64(0); ; {
		window, err := o.Next(after, 50)
		if err != nil || len(window) == 0 {
			return rows, err
		}
		if window[0].Row <= after {
			return nil, fmt.Errorf("row %d goes out again and again", window[0].Row)
		}
		rows = append(rows, window...)
		after = rows[len(rows)-1].Row
	}
}

// pending: what was acknowledged and not confirmed goes out, with the bytes that it
// left with before, or with those that it was made of; what was confirmed does not;
// and no stream's numbers have a hole.
func (p promises) pending(seed uint64, rows []outbox.Row) error {
	present := map[string][]uint64{} // by stream
	add := func(draft int, dot event.Dot) {
		stream := streamOf(seed, draft, dot)
		present[stream] = append(present[stream], dot.Seq)
	}
	for _, r := range rows {
		e, err := eventOf(r)
		if err != nil {
			return fmt.Errorf("row %d: %w", r.Row, err)
		}
		if p.confirmed[r.Row] {
			return fmt.Errorf("row %d was confirmed and goes out again", r.Row)
		}
		if l, before := p.left[r.Row]; before && l.sum != sum(r.Payload) {
			return fmt.Errorf("row %d goes out with other bytes than before the cut: %s", r.Row, r.Payload)
		}
		if err := sameAsDraft(seed, r, e); err != nil {
			return err
		}
		if !p.confirm[r.Row] {
			add(numberOf(e), e.Dot)
		}
	}
	for row := range p.confirm {
		add(p.left[row].draft, p.left[row].dot)
	}
	for d, r := range p.acked {
		if !slices.Contains(present[streamOf(seed, d, r.Dot)], r.Dot.Seq) {
			return fmt.Errorf("LOST: draft %d, acknowledged as row %d, does not go out and was never confirmed", d, r.Row)
		}
	}
	for stream, numbers := range present {
		slices.Sort(numbers)
		for i, n := range numbers {
			if n != uint64(i)+1 {
				return fmt.Errorf("stream %s: number %d stands at place %d", stream, n, i+1)
			}
		}
	}
	return nil
}

func streamOf(seed uint64, draft int, dot event.Dot) string {
	return fmt.Sprint(draftOf(seed, draft, false).Tank, " ", dot.Epoch)
}

// sameAsDraft: a row is what some draft became. Where the clock was synchronised
// all the time, it is so to the byte.
func sameAsDraft(seed uint64, r outbox.Row, got event.Event) error {
	want := draftOf(seed, numberOf(got), strings.HasPrefix(got.ID, "job-"))
	if got.Type != want.Type || got.Tank != want.Tank || got.Amount != want.Amount {
		return fmt.Errorf("row %d (%s) was never appended", r.Row, r.Payload)
	}
	want.Source, want.Dot = "ctl-3", got.Dot
	if want.ID == "" {
		want.ID = event.NodeID(want.Source, want.Dot.Epoch, want.Tank, want.Dot.Seq)
	}
	if bytes := string(want.AppendJSON(nil)); clientSynced(seed) && bytes != string(r.Payload) {
		return fmt.Errorf("row %d goes out as %s, appended was %s", r.Row, r.Payload, bytes)
	}
	return nil
}

// goOn appends after the cut: no number that has left or was acknowledged is given
// to another event, and all that is pending can be confirmed.
func (p promises) goOn(o *outbox.Outbox, seed uint64) error {
	given := map[string]bool{}
	for d, r := range p.acked {
		given[streamOf(seed, d, r.Dot)+fmt.Sprint(r.Dot.Seq)] = true
	}
	for _, l := range p.left {
		given[streamOf(seed, l.draft, l.dot)+fmt.Sprint(l.dot.Seq)] = true
	}
	const drafts = 20
	var fresh []event.Event
	for n := range drafts {
		fresh = append(fresh, draftOf(seed, 100*outboxDrafts+n, false))
	}
	receipts, err := o.Append(fresh...)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		if given[streamOf(seed, numberOf(fresh[i]), r.Dot)+fmt.Sprint(r.Dot.Seq)] {
			return fmt.Errorf("number %v is given a second time", r.Dot)
		}
	}
	rows, err := drainAll(o)
	if err != nil {
		return err
	}
	var numbers []uint64
	for _, r := range rows {
		numbers = append(numbers, r.Row)
	}
	if err := o.Confirm(numbers); err != nil {
		return err
	}
	if rows, err = drainAll(o); err == nil && len(rows) > 0 {
		err = fmt.Errorf("%d rows are pending after their confirmation", len(rows))
	}
	return err
}

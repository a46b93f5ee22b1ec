package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oxyd/internal/event"
)

// modelRow is what the model knows of an appended event.
type modelRow struct {
	receipt Receipt
	draft   event.Event
	topic   string
	sent    string // its bytes, once they have left
	gone    bool   // confirmed, or set aside as damaged
	damaged bool
	aside   bool // the outbox has found the damage
	skips   bool // a skipped event of the outbox's own
}

// machine runs an Outbox beside a model that is a list.
type machine struct {
	b     *Outbox
	clock *fakeClock
	boots int

	rows    []*modelRow // in the order of appending
	nextRow uint64      // the row that the next one gets
	said    *event.Confirm
	online  bool
	told    uint64 // the row of the last answer looked at
	staged  []event.Event
	ids     map[string]*modelRow
	last    map[string]uint64 // last number by epoch and tank
	sent    uint64            // every row up to it was handed over since Open
	soon    []*modelRow       // confirmed soon, perhaps not on disk yet
	epochs  map[uint64]bool
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "outbox")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		clock := newClock()
		m := &machine{
			b: reopen(t, testOptions(filepath.Join(dir, "o"), clock)), clock: clock,
			ids: map[string]*modelRow{}, nextRow: 1, last: map[string]uint64{}, epochs: map[uint64]bool{},
		}
		m.newEpoch(t)
		defer func() { m.b.f.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"stage":   m.stage,
			"flush":   m.flush,
			"next":    m.next,
			"confirm": m.confirm,
			"crash":   m.crash,
			"restart": m.restart,
			"raise":   m.raise,
			"time":    m.time,
			"damage":  m.damage,
			"lookup":  m.lookup,
			"heard":   m.heard,
			"status":  m.status,
			"":        m.check,
		})
		m.drainAll(t)
	})
}

func (m *machine) draw(t *rapid.T, snapshotsOnly bool) event.Event {
	tank := rapid.SampledFrom([]string{"A", "A.1", "B"}).Draw(t, "tank")
	grams := rapid.Int64Range(1, 9).Draw(t, "grams")
	if snapshotsOnly || rapid.Bool().Draw(t, "snapshot") {
		return snapshot(tank, grams)
	}
	return delta(tank, grams)
}

func (m *machine) append(t *rapid.T) {
	var drafts []event.Event
	for range rapid.IntRange(1, 4).Draw(t, "count") {
		e := m.draw(t, false)
		if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
			e.ID = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "id")
		}
		drafts = append(drafts, e)
	}
	got, err := m.b.Append(drafts...)
	if m.conflicting(drafts) {
		if !errors.Is(err, ErrIDReused) {
			t.Fatalf("Append = %v, want ErrIDReused", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	if m.allKnown(drafts) { // answered without a commit: staged ones stay staged
		for i := range drafts {
			m.same(t, got[i], m.ids[drafts[i].ID].receipt, true)
		}
		return
	}
	m.commitStaged()
	for _, snapshots := range []bool{false, true} {
		for i, e := range drafts {
			if (e.Type == event.Measured) != snapshots {
				continue
			}
			if known := m.ids[e.ID]; e.ID != "" && known != nil {
				m.same(t, got[i], known.receipt, true)
				continue
			}
			m.same(t, got[i], m.add(e).receipt, false)
		}
	}
}

func (m *machine) same(t *rapid.T, got, want Receipt, again bool) {
	t.Helper()
	want.Again = again
	if got != want {
		t.Fatalf("receipt %+v, want %+v", got, want)
	}
}

// conflicting reports whether one of the drafts reuses an id, be it of a draft
// beside it.
func (m *machine) conflicting(drafts []event.Event) bool {
	content := map[string]event.Event{}
	for id, r := range m.ids {
		content[id] = r.draft
	}
	for _, e := range drafts {
		if e.ID == "" {
			continue
		}
		first, known := content[e.ID]
		if known && (first.Type != e.Type || first.Tank != e.Tank || first.Amount != e.Amount) {
			return true
		}
		content[e.ID] = e
	}
	return false
}

func (m *machine) allKnown(drafts []event.Event) bool {
	for _, e := range drafts {
		if e.ID == "" || m.ids[e.ID] == nil {
			return false
		}
	}
	return true
}

// add is the model of put.
func (m *machine) add(e event.Event) *modelRow {
	stream := fmt.Sprint(m.b.epoch, e.Tank)
	m.last[stream]++
	r := &modelRow{draft: e, topic: topic(e.Type, e.Tank)}
	r.receipt = Receipt{Row: m.nextRow, ID: e.ID, Dot: event.Dot{Epoch: m.b.epoch, Seq: m.last[stream]}}
	if e.ID == "" {
		r.receipt.ID = event.NodeID("ctl-3", m.b.epoch, e.Tank, m.last[stream])
	} else {
		m.ids[e.ID] = r
	}
	m.nextRow++
	m.rows = append(m.rows, r)
	return r
}

func (m *machine) byRow(n uint64) *modelRow {
	for _, r := range m.rows {
		if r.receipt.Row == n {
			return r
		}
	}
	return nil
}

func (m *machine) commitStaged() {
	for _, e := range m.staged {
		m.add(e)
	}
	m.staged = nil
}

func (m *machine) stage(t *rapid.T) {
	e := m.draw(t, true)
	if err := m.b.Stage(e); err != nil {
		t.Fatalf("Stage: %v", err)
	}
	m.staged = append(m.staged, e)
}

func (m *machine) flush(t *rapid.T) {
	if err := m.b.Flush(); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	m.commitStaged()
}

func (m *machine) next(t *rapid.T) {
	after := rapid.Uint64Range(0, m.nextRow+1).Draw(t, "after")
	limit := rapid.IntRange(1, 6).Draw(t, "limit")
	m.handOver(t, after, limit)
}

func (m *machine) handOver(t *rapid.T, after uint64, limit int) []Row {
	got := mustNext(t, m.b, after, limit)
	want := m.window(min(after, m.sent), limit)
	if len(want) == 0 {
		m.sentAgain(t, got)
		m.answered(t)
		return nil
	}
	if len(got) != len(want) {
		t.Fatalf("Next gives %d rows, want %d", len(got), len(want))
	}
	for i, r := range want {
		if got[i].Row != r.receipt.Row || got[i].Topic != r.topic {
			t.Fatalf("Next gives row %d on %s, want %+v", got[i].Row, got[i].Topic, r)
		}
		e := decode(t, got[i])
		if e.ID != r.receipt.ID || e.Dot != r.receipt.Dot || e.Amount != r.draft.Amount || e.Source != "ctl-3" {
			t.Fatalf("row %d holds %+v, want %+v", got[i].Row, e, r)
		}
		if r.sent == "" {
			r.sent = string(got[i].Payload)
		}
		if r.sent != string(got[i].Payload) {
			t.Fatalf("row %d left as %s, now %s", got[i].Row, r.sent, got[i].Payload)
		}
	}
	return got
}

// window is the model of Next: damaged rows fall out, each full window of them
// makes it look further.
func (m *machine) window(after uint64, limit int) (good []*modelRow) {
	for len(good) == 0 {
		looked := 0
		for _, r := range m.rows {
			if r.gone || r.receipt.Row <= after {
				continue
			}
			if looked++; looked > limit {
				break
			}
			m.sent = max(m.sent, r.receipt.Row)
			if r.gone = r.damaged; !r.damaged {
				good = append(good, r)
			}
		}
		if looked == 0 {
			return nil
		}
	}
	return good
}

func (m *machine) confirm(t *rapid.T) {
	var numbers []uint64
	for range rapid.IntRange(0, 5).Draw(t, "count") {
		n := rapid.Uint64Range(1, m.nextRow+2).Draw(t, "row")
		numbers = append(numbers, n)
		if r := m.byRow(n); r != nil && n <= m.sent && !r.gone { // not handed over, or unknown: ignored
			r.gone = true
			m.soon = append(m.soon, r)
		}
	}
	confirm := m.b.Confirm
	if rapid.Bool().Draw(t, "soon") {
		confirm = m.b.ConfirmSoon
	}
	if err := confirm(numbers); err != nil {
		t.Fatalf("Confirm: %v", err)
	}
	if len(m.b.noted) == 0 {
		m.soon = nil
	}
}

func (m *machine) crash(t *rapid.T) {
	m.maybeReboot(t)
	waiting := m.b.noted
	m.b = crash(t, m.b)
	m.staged = nil
	for _, r := range m.soon {
		waited := slices.ContainsFunc(waiting, func(n noted) bool { return n.row == r.receipt.Row })
		r.gone = !waited // it goes out once more
	}
	m.reopened(t)
}

func (m *machine) restart(t *rapid.T) {
	m.commitStaged()
	if err := m.b.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	m.maybeReboot(t)
	m.b = reopen(t, m.b.o)
	m.reopened(t)
}

// reopened takes stock: what ledgers said is forgotten, and so may be the row
// numbers that were used for sending again.
func (m *machine) reopened(t *rapid.T) {
	t.Helper()
	m.said, m.online, m.sent, m.soon = nil, false, 0, nil
	if n := len(m.rows); m.b.st.nextRow > m.nextRow || n > 0 && m.b.st.nextRow <= m.rows[n-1].receipt.Row {
		t.Fatalf("the next row is %d, want above the last and up to %d", m.b.st.nextRow, m.nextRow)
	}
	m.nextRow = m.b.st.nextRow
	m.newEpoch(t)
}

func (m *machine) status(t *rapid.T) {
	m.online = rapid.Bool().Draw(t, "online")
	m.b.LedgerStatus("main", 1, m.online)
}

// heard makes up a confirmation of some streams.
func (m *machine) heard(t *rapid.T) {
	c := event.Confirm{Ledger: "main", Incarnation: 1, Source: "ctl-3", NewestEpoch: m.b.epoch, More: rapid.IntRange(0, 4).Draw(t, "more") == 0}
	seen := map[streamID]bool{}
	for _, r := range m.rows {
		id := streamID{r.receipt.Dot.Epoch, r.draft.Tank}
		if seen[id] || rapid.IntRange(0, 3).Draw(t, "unnamed") == 0 {
			continue
		}
		seen[id] = true
		s := event.ConfirmStream{Epoch: id.epoch, Tank: id.tank}
		s.Through = rapid.Uint64Range(0, m.last[fmt.Sprint(id.epoch, id.tank)]).Draw(t, "through")
		for n := uint64(1); n <= s.Through && len(s.Missing) < 3; n++ {
			if rapid.IntRange(0, 2).Draw(t, "missing") == 0 {
				s.Missing = append(s.Missing, event.Range{From: n, To: n})
			}
		}
		c.Streams = append(c.Streams, s)
	}
	if err := m.b.Heard(c); err != nil {
		t.Fatalf("Heard: %v", err)
	}
	m.said = &c
}

// sentAgain judges a window that came where nothing was pending: retained rows
// that an online ledger lacks, as they left.
func (m *machine) sentAgain(t *rapid.T, got []Row) {
	t.Helper()
	for _, row := range got {
		if row.Row != m.nextRow {
			t.Fatalf("sent again as row %d, want %d", row.Row, m.nextRow)
		}
		m.nextRow++
		e := decode(t, row)
		var r *modelRow
		for _, x := range m.rows {
			if x.receipt.Dot == e.Dot && x.draft.Tank == e.Tank {
				r = x
			}
		}
		if r == nil || !r.gone || r.damaged || r.sent != string(row.Payload) || r.topic != row.Topic {
			t.Fatalf("sent again %s on %s, want the bytes of %+v", row.Payload, row.Topic, r)
		}
		if !m.online || !m.lacks(e.Tank, e.Dot) {
			t.Fatalf("sent again %v of %s, which nobody lacks: %+v", e.Dot, e.Tank, m.said)
		}
	}
}

func (m *machine) lacks(tank string, dot event.Dot) bool {
	if m.said == nil {
		return true
	}
	for _, s := range m.said.Streams {
		if s.Epoch == dot.Epoch && s.Tank == tank {
			ends := !m.said.More || len(m.said.Streams) <= event.MaxConfirmRanges && len(s.Missing) == 0
			return dot.Seq > s.Through && ends || slices.ContainsFunc(s.Missing, func(r event.Range) bool { return r.From == dot.Seq })
		}
	}
	return !m.said.More
}

// answered takes the outbox's own skipped events in: they may tell only of what
// is gone.
func (m *machine) answered(t *rapid.T) {
	t.Helper()
	for _, a := range m.b.answers {
		if a.row <= m.told {
			continue
		}
		m.told = a.row
		m.commitStaged()
		skips := m.add(event.Event{Type: event.Skipped, Tank: a.id.tank})
		if skips.skips = true; skips.receipt.Row != a.row {
			t.Fatalf("skipped event in row %d, want %d", a.row, skips.receipt.Row)
		}
		for _, r := range m.rows {
			for _, told := range a.ranges {
				if r.receipt.Dot.Epoch == a.id.epoch && r.draft.Tank == a.id.tank && told.From <= r.receipt.Dot.Seq && r.receipt.Dot.Seq <= told.To && !(r.gone && r.damaged) {
					t.Fatalf("said to be gone, and is here: %+v", r)
				}
			}
		}
	}
}

func (m *machine) maybeReboot(t *rapid.T) {
	if rapid.Bool().Draw(t, "reboot") {
		m.boots++
		m.clock.reboot(fmt.Sprint("boot-", m.boots+1))
	}
}

func (m *machine) newEpoch(t *rapid.T) {
	t.Helper()
	if m.epochs[m.b.epoch] {
		t.Fatalf("epoch %d twice", m.b.epoch)
	}
	for e := range m.epochs {
		if m.b.epoch <= e && m.last[fmt.Sprint(e, "A")]+m.last[fmt.Sprint(e, "A.1")]+m.last[fmt.Sprint(e, "B")] > 0 {
			t.Fatalf("epoch %d after %d", m.b.epoch, e)
		}
	}
	m.epochs[m.b.epoch] = true
}

func (m *machine) raise(t *rapid.T) {
	if _, err := m.b.RaiseEpoch(m.b.epoch); err != nil {
		t.Fatalf("RaiseEpoch: %v", err)
	}
	m.newEpoch(t)
}

func (m *machine) time(t *rapid.T) {
	m.clock.advance(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
	m.clock.step(time.Duration(rapid.IntRange(-60, 60).Draw(t, "step")) * time.Minute)
	m.clock.sync(rapid.Bool().Draw(t, "synced"))
}

func (m *machine) damage(t *rapid.T) {
	if len(m.rows) == 0 {
		t.Skip("no rows")
	}
	r := m.rows[rapid.IntRange(0, len(m.rows)-1).Draw(t, "row")]
	if r.damaged {
		t.Skip("damaged before")
	}
	damage(t, m.b, r.receipt.Row)
	r.damaged = true
}

func (m *machine) lookup(t *rapid.T) {
	if len(m.rows) == 0 {
		t.Skip("no rows")
	}
	r := m.rows[rapid.IntRange(0, len(m.rows)-1).Draw(t, "row")]
	got, found, err := m.b.Lookup(r.receipt.ID)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	if r.draft.ID == "" && r.gone && r.damaged {
		return // its number is gone with it
	}
	if !found || got != r.receipt {
		t.Fatalf("Lookup(%s) = %+v, %t, want %+v", r.receipt.ID, got, found, r.receipt)
	}
}

func (m *machine) check(t *rapid.T) {
	list, err := m.b.Damaged(damagedMax)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		m.byRow(d.Row).aside = true
	}
	damaged, pending := false, uint64(0)
	for _, r := range m.rows {
		damaged = damaged || r.damaged && !r.aside
		if !r.gone {
			pending++
		}
	}
	if err := m.b.Check(); (err != nil) != damaged {
		t.Fatalf("Check = %v with damaged rows pending: %t", err, damaged)
	}
	if s := mustStats(t, m.b); s.Pending != pending || s.Staged != len(m.staged) {
		t.Fatalf("pending %d, staged %d, want %d, %d", s.Pending, s.Staged, pending, len(m.staged))
	}
}

// drainAll ends each run: every row that was acknowledged and not confirmed
// comes out, in order.
func (m *machine) drainAll(t *rapid.T) {
	m.flush(t)
	for {
		rows := m.handOver(t, 0, 7)
		if len(rows) == 0 && mustStats(t, m.b).Pending == 0 {
			break // else it has sent some again, and answered for others
		}
		mustConfirm(t, m.b, rows)
		for _, r := range rows {
			m.byRow(r.Row).gone = true
		}
	}
	m.check(t)
	for _, r := range m.rows {
		if !r.gone {
			t.Fatalf("row %+v never came out", r)
		}
	}
}

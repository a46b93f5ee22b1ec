package ledger

import (
	"bytes"
	"time"

	"oxyd/internal/event"
)

// Status is the state of the account as a whole.
type Status struct {
	Incarnation     uint64             `json:"incarnation"`
	Revision        uint64             `json:"revision"` // journal rows so far
	Digest          string             `json:"digest"`
	Facts           string             `json:"facts"`
	Replacement     bool               `json:"replacement"` // begun after a damaged store was set aside: no opening amounts
	Tanks           uint64             `json:"tanks"`
	Sources         uint64             `json:"sources"`
	TwoBoards       []string           `json:"two_boards"` // sources that look like two boards under one name
	ClockSkew       []Skew             `json:"clock_skew"` // sources whose clock is ahead of this one, worst first
	Outcomes        map[Outcome]uint64 `json:"outcomes"`
	Unverified      uint64             `json:"duplicates_unverified"` // of the duplicates: content could not be compared
	Parked          uint64             `json:"parked"`
	Quarantined     uint64             `json:"quarantine_rows"`
	QuarantineBytes uint64             `json:"quarantine_bytes"`
	Evicted         uint64             `json:"quarantine_evicted"` // went at the bound
	Retried         uint64             `json:"quarantine_retried"` // decisions of operators, journalled
	Discarded       uint64             `json:"quarantine_discarded"`
	DiscardedAgain  uint64             `json:"quarantine_discarded_again"` // repeats of what was discarded: not kept
	Pruned          uint64             `json:"pruned_rows"`                // events that went
	Waiting         uint64             `json:"old_rows"`                   // events that are old and still needed
	KeptForGood     uint64             `json:"kept_rows"`                  // rows that never go
	Marks           uint64             `json:"marks"`                      // of them, events with neither number nor usable time
	MarksRefused    uint64             `json:"marks_refused"`              // such events refused at the bound
	Floor           *time.Time         `json:"floor"`                      // no event from before it is told from a repeat but by its number; null: nothing went
	Inexact         uint64             `json:"inexact"`                    // tanks whose balance rests on more than is left to see
	LastReceipt     *time.Time         `json:"last_receipt"`
	FileBytes       int64              `json:"file_bytes"`
	FileLimitBytes  int64              `json:"file_limit_bytes"` // 0: none
	Full            bool               `json:"full"`             // the last batch found no room; nothing is acknowledged
}

// Status reads counters and digest from one committed state.
func (l *Ledger) Status() (Status, error) {
	var s Status
	err := l.view(func(b *batch) error {
		digest, err := b.digest()
		if err != nil {
			return err
		}
		m := &b.meta
		s = Status{Incarnation: m.incarnation, Revision: m.lsn, Digest: digest, Facts: m.facts.String(),
			Tanks: m.tanks, Sources: m.sources, Outcomes: map[Outcome]uint64{}, Unverified: m.unverified,
			Parked: m.parked, Quarantined: m.quarRows, QuarantineBytes: m.quarBytes, Evicted: m.evicted,
			Retried: m.retried, Discarded: m.discarded, DiscardedAgain: m.discardedAgain,
			TwoBoards: l.twoBoards(b.now()), ClockSkew: l.Skews(), LastReceipt: timeOf(m.receipt), Full: l.full.Load(), Replacement: m.replacement}
		for _, o := range Outcomes() {
			s.Outcomes[o] = m.outcomes[o]
		}
		g := &b.gone
		s.Pruned, s.Waiting, s.KeptForGood, s.Marks, s.MarksRefused, s.Floor = g.rows, g.waiting, g.kept, g.marks, g.refused, timeOf(g.floor)
		for _, a := range b.accounts { // all of them, since the digest has read them
			if a.inexact() {
				s.Inexact++
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	used, err := l.file.Usage()
	s.FileBytes, s.FileLimitBytes = used.File, used.Limit
	return s, err
}

// Source is what the account knows of one producer.
type Source struct {
	Source      string         `json:"source"` // "" is the anonymous source
	NewestEpoch uint64         `json:"newest_epoch"`
	First       *time.Time     `json:"first_heard"`
	Last        *time.Time     `json:"last_heard"`
	Deliveries  uint64         `json:"deliveries"`
	Clock       string         `json:"clock"`
	Boards      int            `json:"boards"` // 2: it looks like two boards under one name
	Epochs      []SourceEpoch  `json:"epochs"` // newest first, at most 64
	MoreEpochs  bool           `json:"more_epochs,omitempty"`
	Streams     []SourceStream `json:"streams"`
}

// SourceStream is one numbered stream of a source: what of it is accounted for.
type SourceStream struct {
	Tank    string      `json:"tank"`
	Epoch   uint64      `json:"epoch"`
	Through uint64      `json:"through"` // every number up to it is accounted for but those missing or skipped
	Missing [][2]uint64 `json:"missing"` // lowest first, at most 64
	Skipped [][2]uint64 `json:"skipped"` // declared by the source as not coming, and not come; likewise
	More    bool        `json:"more"`    // there are more missing than shown, beyond through
	Fenced  bool        `json:"fenced"`
	Last    *time.Time  `json:"last_heard"`
}

// maxGaps bounds how many gaps of one stream a reader is shown (section 7).
const maxGaps = 64

// Sources lists all producers with the state of their numbered streams.
func (l *Ledger) Sources() ([]Source, error) {
	list := []Source{}
	err := l.view(func(b *batch) error {
		at := map[string]int{}
		if err := b.sourceRows.ForEach(func(key, row []byte) error {
			s, err := decodeSource(row)
			if err != nil {
				return err
			}
			name := string(bytes.TrimSuffix(key, []byte{0}))
			at[name] = len(list)
			clock := "synced"
			if s.unsynced {
				clock = "unsynced"
			}
			list = append(list, Source{Source: name, NewestEpoch: s.newest, First: timeOf(s.first),
				Last: timeOf(s.last), Deliveries: s.events, Clock: clock, Boards: 1, Epochs: []SourceEpoch{}, Streams: []SourceStream{}})
			if s.twins != 0 && b.now()-s.twins <= TwoBoardsFor.Nanoseconds() {
				list[at[name]].Boards = 2
			}
			return nil
		}); err != nil {
			return err
		}
		if err := b.seenRows.ForEach(func(key, row []byte) error {
			st, epoch, ok := parseSeenKey(key)
			if !ok {
				return errRow
			}
			r, err := b.see(st.tank, st.source, epoch)
			if err != nil {
				return err
			}
			if i, ok := at[st.source]; ok {
				list[i].Streams = append(list[i].Streams, b.sourceStream(r, st.tank, epoch))
			}
			return nil
		}); err != nil {
			return err
		}
		for i := range list {
			if err := b.addEpochs(&list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func (b *batch) sourceStream(r runs, tankID string, epoch uint64) SourceStream {
	lack := b.lacking(r, maxGaps)
	return SourceStream{Tank: tankID, Epoch: epoch, Through: lack.through, Missing: pairs(lack.missing), Skipped: pairs(lack.skipped),
		More: lack.more, Fenced: r.row.fenced, Last: timeOf(r.row.last)}
}

// pairs writes ranges as the wire does.
func pairs(list []event.Range) [][2]uint64 {
	out := make([][2]uint64, 0, len(list))
	for _, g := range list {
		out = append(out, [2]uint64{g.From, g.To})
	}
	return out
}

// Outcome tells what became of an identity: its first outcome, and its journal
// row. ok is false when it is not known.
func (l *Ledger) Outcome(id event.Identity) (res Result, ok bool, err error) {
	err = l.view(func(b *batch) error {
		k, err := b.find(id)
		if k == nil || err != nil {
			return err
		}
		ok = true
		reason, err := b.reasonOf(&k.entry)
		res = Result{Outcome: k.outcome, Reason: reason, LSN: k.lsn}
		return err
	})
	return res, ok, err
}

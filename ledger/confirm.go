package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

// Bounds of a confirmation (contract section 7), within those of package event.
const (
	// ConfirmRecent is how long after its last event an earlier epoch is still
	// named, by the receipt clock, so that its source learns what became of it.
	ConfirmRecent = 10 * time.Minute
	// confirmStreams named at most, the newest epoch of each tank before all others.
	// A stream takes 142 bytes with the longest names, all ranges 2.3 KiB and the
	// fenced epochs 1.1 KiB: below event.MaxConfirmBytes in any case.
	confirmStreams = 320
	// confirmEpochs of a tank are looked at for being fenced or just heard, newest
	// first. One that is open is found however old it is.
	confirmEpochs = 1024
)

// Confirm gives the end-to-end confirmation of one source from committed state:
// which of its numbers are accounted for. The name of the ledger is the caller's
// to fill in. Of a source that the account does not know it names no stream.
//
// A stream whose missing numbers do not all find room says no more than is true
// of what it lists: Through then ends before the first one that is not listed.
// Every stream that has gaps gets its share of the ranges, so that the gaps of an
// epoch that nobody can fill any more do not hide those of the newest.
func (l *Ledger) Confirm(source string) (event.Confirm, error) {
	c := event.Confirm{Source: source}
	err := l.view(func(b *batch) error {
		c.Incarnation = b.meta.incarnation
		src, err := b.source(source)
		if src == nil || err != nil {
			return err
		}
		c.NewestEpoch = src.newest
		list := confirming{batch: b, newest: src.newest, since: b.now() - ConfirmRecent.Nanoseconds(),
			fenced: map[uint64]bool{}}
		if err := b.forStreams(source, list.look); err != nil {
			return err
		}
		list.write(&c)
		return nil
	})
	return c, err
}

// TakeTouched gives the sources whose confirmation may have changed by commits of
// this process since the last call, sorted. They are bounded by MaxSources.
func (l *Ledger) TakeTouched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.touched))
	clear(l.touched)
	return names
}

// touch notes that the confirmation of a source may change by this transaction.
// The anonymous source numbers nothing and is not confirmed, nor is one of which
// nothing was ever accepted.
func (b *batch) touch(source string) error {
	if source == "" || b.touched[source] {
		return nil
	}
	if src, err := b.source(source); src == nil || err != nil {
		return err
	}
	if b.touched == nil {
		b.touched = map[string]bool{}
	}
	b.touched[strings.Clone(source)] = true
	return nil
}

// forStreams calls fn for every numbered stream of the source: one for each tank
// that it has sent numbers for, refused ones included.
func (b *batch) forStreams(source string, fn func(st stream) error) error {
	c := b.seenRows.Cursor()
	for k, _ := c.First(); k != nil; {
		name, _, _ := bytes.Cut(k, []byte{0})
		st := stream{string(name), source, numbered}
		prefix := st.prefix()
		if k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix) {
			if err := fn(st); err != nil {
				return err
			}
		}
		k, _ = c.Seek(append([]byte(st.tank), 1)) // the next tank
	}
	return nil
}

// confirming gathers what a confirmation names.
type confirming struct {
	*batch
	newest  uint64 // epoch of the source, over all tanks
	since   int64  // receipt instant from which an epoch counts as just heard
	fenced  map[uint64]bool
	streams []confirmStream
}

type confirmStream struct {
	tank   string
	epoch  uint64
	runs   runs
	living bool // the newest of its tank
	recent bool
	lack   lack
}

// look takes from one tank the newest epoch, and earlier ones that are open or
// just heard.
func (c *confirming) look(st stream) error {
	met := map[uint64]bool{}
	note := func(r runs, epoch uint64, living bool) {
		s := confirmStream{tank: st.tank, epoch: epoch, runs: r, living: living, recent: r.row.last >= c.since}
		if !met[epoch] && (living || s.recent || r.row.above > 0) {
			met[epoch] = true
			c.streams = append(c.streams, s)
		}
	}
	cur := c.seenRows.Cursor()
	met1, met2 := false, false // the greatest epoch, and the greatest one that was accepted
	k, _ := lastOf(cur, st.prefix())
	for n := 0; n < confirmEpochs && bytes.HasPrefix(k, st.prefix()); n++ {
		epoch := binary.BigEndian.Uint64(k[len(k)-8:])
		r, err := c.see(st.tank, st.source, epoch)
		if err != nil {
			return err
		}
		if r.row.fenced {
			c.fenced[epoch] = true
		}
		accepted := epoch <= c.newest
		note(r, epoch, !met1 || accepted && !met2)
		met1, met2 = true, met2 || accepted
		k, _ = cur.Prev()
	}
	return c.forOpen(st.prefix(), func(r runs, _ stream, epoch uint64) error {
		note(r, epoch, false)
		return nil
	})
}

// write names the streams, newest epoch first, and their missing ranges.
func (c *confirming) write(doc *event.Confirm) {
	fenced := slices.Sorted(maps.Keys(c.fenced))
	slices.Reverse(fenced)
	doc.Fenced = fenced[:min(len(fenced), event.MaxConfirmFenced)]

	slices.SortFunc(c.streams, func(x, y confirmStream) int {
		if x.living != y.living {
			return cmp.Compare(rank(x.living), rank(y.living))
		}
		return cmp.Or(cmp.Compare(y.epoch, x.epoch), cmp.Compare(x.tank, y.tank))
	})
	if len(c.streams) > confirmStreams {
		c.streams, doc.More = c.streams[:confirmStreams], true
	}
	open := make([]*confirmStream, 0, len(c.streams))
	for i := range c.streams {
		s := &c.streams[i]
		s.lack = c.lacking(s.runs, event.MaxConfirmRanges)
		if s.living || s.recent || len(s.lack.missing) > 0 { // else all that is open has been declared skipped
			open = append(open, s)
		}
	}
	share(open, event.MaxConfirmRanges)
	for _, s := range open {
		doc.More = doc.More || s.lack.more
		doc.Streams = append(doc.Streams, event.ConfirmStream{Epoch: s.epoch, Tank: s.tank, Through: s.lack.through, Missing: s.lack.missing})
	}
	slices.SortFunc(doc.Streams, func(x, y event.ConfirmStream) int {
		return cmp.Or(cmp.Compare(y.Epoch, x.Epoch), cmp.Compare(x.Tank, y.Tank))
	})
}

func rank(living bool) int {
	if living {
		return 0
	}
	return 1
}

// share deals the ranges out: whoever needs few gets them all, the others the same
// number each. The less important come first, so that the rest of a division falls
// to the others.
func share(streams []*confirmStream, left int) {
	order := slices.Clone(streams)
	slices.Reverse(order)
	slices.SortStableFunc(order, func(x, y *confirmStream) int {
		return cmp.Compare(len(x.lack.missing), len(y.lack.missing))
	})
	for i, s := range order {
		s.lack.trim(left / (len(order) - i))
		left -= len(s.lack.missing)
	}
}

// lack is what is not accounted for below the greatest number of a watermark.
type lack struct {
	missing []event.Range // wanted: ascending, disjoint
	skipped []event.Range // declared by the source as not coming, and not come
	more    bool          // there are other missing ones, all beyond through
	through uint64        // every number up to it is accounted for, missing or skipped
}

// trim leaves the first ranges. What is beyond them is not said to be there.
func (l *lack) trim(limit int) {
	if len(l.missing) > limit {
		l.more, l.through = true, l.missing[limit].From-1
		l.missing = l.missing[:limit]
	}
}

// lacking lists the missing runs, lowest first, and at most limit of them. What the
// source has declared skipped is not missing: nobody asks for it again.
func (b *batch) lacking(r runs, limit int) lack {
	out := lack{through: r.row.most}
	if r.row.above == 0 {
		return out
	}
	declared := skips{c: b.skipped.Cursor(), prefix: r.prefix}
	declared.read(declared.c.Seek(r.prefix))
	r.gaps(func(gap event.Range) bool {
		declared.cut(gap, func(piece event.Range, skipped bool) {
			switch {
			case !skipped:
				out.missing = append(out.missing, piece)
			case len(out.skipped) < limit:
				out.skipped = append(out.skipped, piece)
			}
		})
		return len(out.missing) <= limit
	})
	out.trim(limit)
	return out
}

// skips walks the declared skips of one watermark by their beginnings.
type skips struct {
	c      *bbolt.Cursor
	prefix []byte
	run    event.Range
	ok     bool
}

func (s *skips) read(k, v []byte) {
	if s.ok = len(k) == len(s.prefix)+8 && bytes.HasPrefix(k, s.prefix); s.ok {
		s.run = event.Range{From: binary.BigEndian.Uint64(k[len(s.prefix):]), To: binary.BigEndian.Uint64(v)}
	}
}

// cut gives the pieces of a gap, ascending, each wholly skipped or wholly not.
// Gaps have to come in ascending order.
func (s *skips) cut(gap event.Range, visit func(piece event.Range, skipped bool)) {
	for pos := gap.From; pos <= gap.To; {
		for s.ok && s.run.To < pos {
			s.read(s.c.Next())
		}
		end, skipped := gap.To, false
		switch {
		case !s.ok || s.run.From > gap.To:
		case s.run.From > pos:
			end = s.run.From - 1
		default:
			end, skipped = min(s.run.To, gap.To), true
		}
		visit(event.Range{From: pos, To: end}, skipped)
		pos = end + 1
	}
}

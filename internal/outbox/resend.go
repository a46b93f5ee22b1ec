package outbox

import (
	"bytes"
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

const (
	// reviewInterval is how often it is looked at what ledgers want while none
	// says anything: a lost tail is in no list.
	reviewInterval = 5 * time.Second

	// jobsMax bounds what one review lines up; the next takes the rest.
	jobsMax = 1_024

	// probesMax is how often only the first row of a stream is sent to a ledger that
	// does not name it. Any ledger names a stream that it has just heard of, and so
	// tells by one row whether it lacks the others, or has simply nothing to say of
	// an old stream any more. Were all sent at once, each restart of a node would
	// repeat its whole retention.
	probesMax = 2
)

// A pursuit is what is known of one stream for one ledger's incarnation beside
// its word: what has been sent again, and when.
type pursuit struct {
	tries   tries
	settled uint64 // the ledger had all up to it when it stopped naming the stream
	wanted  uint64 // numbers, at the last review

	probes int // of a stream that the ledger does not name
	probe  time.Duration

	nothing time.Duration // since when the ledger is known to have nothing of it; 0: is not
}

func (f *follower) pursue(id streamID) *pursuit {
	p := f.pursuits[id]
	if p == nil {
		p = &pursuit{}
		f.pursuits[id] = p
	}
	return p
}

// A job is a range of one stream that a ledger wants and that is due.
type job struct {
	f  *follower
	id streamID
	event.Range
	tail  bool // not in a list: only rows that had time to arrive
	probe bool // one row
	gone  bool // what is not here any more is to be answered
}

// review lines up what online ledgers want and is due. It needs mu. It costs a walk
// through the records of the streams, no rows.
func (o *Outbox) review() error {
	o.jobs = o.jobs[:0]
	now := o.o.Clock.Mono()
	o.reviewed = now
	var active []*follower
	for _, f := range o.ledgers {
		if f.online {
			active = append(active, f)
		}
	}
	if len(active) == 0 {
		return nil
	}
	seen := map[streamID]bool{}
	return o.f.View(func(tx *bbolt.Tx) error {
		cur := tx.Bucket([]byte(bStreams)).Cursor()
		for k, v := cur.First(); k != nil; k, v = cur.Next() {
			s, ok := decodeStream(v)
			if !ok || len(k) <= 8 {
				continue // Check tells
			}
			id := streamID{streamKeyEpoch(k), string(k[8:])}
			seen[id] = true
			for _, f := range active {
				o.reviewStream(f, id, s, now)
			}
		}
		for _, f := range active {
			for id := range f.pursuits {
				if !seen[id] {
					delete(f.pursuits, id)
				}
			}
		}
		return nil
	})
}

// reviewStream lines up what one ledger wants of one stream.
func (o *Outbox) reviewStream(f *follower, id streamID, s stream, now time.Duration) {
	p := f.pursuits[id]
	var listed, tail []event.Range
	n, isNamed := named{}, false
	if f.word != nil {
		n, isNamed = f.word.streams[id]
		listed = upTo(n.missing, s.handed)
	}
	nothing := !isNamed && f.word.hasNothing(id)
	switch {
	case isNamed:
	case s.rows == 0 && !nothing:
		// Nothing of it is here. Whether the ledger has had it all, or knows nothing
		// of it, cannot be told: nothing is said either.
		delete(f.pursuits, id)
		return
	case p != nil:
		n.through = p.settled
	}
	if beyond := (event.Range{From: n.through + 1, To: s.handed}); beyond.From <= beyond.To &&
		(f.word == nil || !f.word.more || isNamed && f.word.few && len(n.missing) == 0) {
		tail = []event.Range{beyond}
	}
	if p == nil && len(listed)+len(tail) == 0 {
		return
	}
	p = f.pursue(id)
	p.wanted = numbers(listed) + numbers(tail)
	p.tries = p.tries.trim(append(listed[:len(listed):len(listed)], tail...))
	if isNamed {
		p.probes = 0
	}
	switch {
	case !nothing:
		p.nothing = 0
	case p.nothing == 0:
		p.nothing = now
	}
	ripe := isNamed && now-n.since >= o.o.TailPatience || nothing && now-p.nothing >= o.o.TailPatience
	for _, r := range listed {
		o.lineUp(job{f: f, id: id, Range: r, gone: true}, p, now)
	}
	for _, r := range tail {
		j := job{f: f, id: id, Range: r, tail: true, gone: ripe}
		if !isNamed {
			if p.probes > 0 && now < p.probe {
				continue
			}
			// A ledger that has never confirmed anything may be none that does.
			j.probe = s.rows > 0 && (f.word == nil || p.probes < probesMax)
		}
		o.lineUp(j, p, now)
	}
}

func (o *Outbox) lineUp(j job, p *pursuit, now time.Duration) {
	if _, ok := p.tries.firstDue(j.Range, now); (ok || j.probe) && len(o.jobs) < jobsMax {
		o.jobs = append(o.jobs, j)
	}
}

// again gives at most one window of retained rows that ledgers want, with the
// bytes that they left with. Each gets a row number of its own, above those given
// so far: numbers of rows only rise for whoever hands them over, and Confirm of
// such a one has nothing to do. It needs mu.
func (o *Outbox) again(limit int) ([]Row, error) {
	if now := o.o.Clock.Mono(); now-o.reviewed >= reviewInterval && len(o.ledgers) > 0 {
		if err := o.review(); err != nil {
			return nil, err
		}
	}
	if len(o.jobs) > 0 { // what waits to be confirmed may be wanted too
		if err := o.confirmNoted(); err != nil {
			return nil, err
		}
	}
	w := resend{o: o, limit: limit, now: o.now()}
	err := o.f.View(func(tx *bbolt.Tx) error {
		w.tx = tx
		for len(o.jobs) > 0 && w.room() {
			if w.do(o.jobs[0]) {
				o.jobs = o.jobs[1:]
			}
		}
		return nil
	})
	if err == nil {
		err = w.clearDamaged()
	}
	if err == nil {
		err = o.answer(w.gone)
	}
	if err != nil {
		return nil, err
	}
	o.counters.SentAgain += uint64(len(w.rows))
	return w.rows, nil
}

// resend is one window on its way.
type resend struct {
	o       *Outbox
	tx      *bbolt.Tx
	limit   int
	size    int
	now     instant
	rows    []Row
	gone    []goneRange
	damaged []pendingRow
}

func (w *resend) room() bool {
	return len(w.rows) < w.limit && w.size < windowBytesMax && len(w.gone) < goneMax
}

// do takes up the first part of the job that is due, and reports whether the job
// is done with.
func (w *resend) do(j job) (done bool) {
	p := j.f.pursue(j.id)
	part, ok := p.tries.firstDue(j.Range, w.now.mono)
	if j.probe {
		part, ok = j.Range, p.probes == 0 || p.probe <= w.now.mono
	}
	if !ok {
		return true
	}
	before := len(w.rows) + len(w.damaged)
	reached, young := w.walk(part, j)
	if j.probe {
		if len(w.rows)+len(w.damaged) > before {
			p.probes++
			p.probe = w.now.mono + pause(p.probes)
		}
		return true
	}
	if reached >= part.From {
		sent := event.Range{From: part.From, To: reached}
		for _, f := range w.o.ledgers {
			if f == j.f || f.online && f.pursuits[j.id] != nil {
				q := f.pursuits[j.id]
				q.tries = q.tries.add(sent, w.now.mono)
			}
		}
	}
	return young || reached >= j.To
}

// walk collects the rows of a part, and the numbers that are not here any more,
// as far as there is room. reached is the last number dealt with; young: the rest
// has not had time to arrive.
func (w *resend) walk(part event.Range, j job) (reached uint64, young bool) {
	prefix := indexPrefix(j.id.epoch, j.id.tank)
	rows, kept := w.tx.Bucket([]byte(bRows)), w.tx.Bucket([]byte(bKept))
	next := part.From // the first number not accounted for
	cur := w.tx.Bucket([]byte(bIndex)).Cursor()
	k, v := cur.Seek(indexKey(j.id.epoch, j.id.tank, part.From))
	for ; len(k) == len(prefix)+8 && bytes.HasPrefix(k, prefix); k, v = cur.Next() {
		seq := binary.BigEndian.Uint64(k[len(prefix):])
		value := kept.Get(v)
		at, r, ok := decodeKept(value)
		if value == nil { // pending: it goes out on its own
			if j.tail {
				return next - 1, true
			}
			if r, ok = decodeRef(w.tx.Bucket([]byte(bPending)).Get(v)); !ok {
				r.from = seq
			}
		} else if !ok {
			r.from = seq
		}
		if r.from > part.To || !w.room() {
			break
		}
		if value != nil && j.tail && ok && w.now.since(at) < w.o.o.TailPatience {
			return next - 1, true
		}
		if r.from > next {
			w.note(j, event.Range{From: next, To: r.from - 1})
		}
		next = seq + 1
		if value == nil {
			continue
		}
		w.take(rows, v, r, ok)
		if j.probe {
			return next - 1, false
		}
	}
	if !w.room() && len(k) > 0 && bytes.HasPrefix(k, prefix) {
		return next - 1, false
	}
	if next <= part.To {
		w.note(j, event.Range{From: next, To: part.To})
	}
	return max(next-1, part.To), false
}

// take adds a retained row to the window, or to the damaged ones.
func (w *resend) take(rows *bbolt.Bucket, key []byte, r ref, readable bool) {
	p := pendingRow{n: binary.BigEndian.Uint64(key), ref: r, bytes: bytes.Clone(rows.Get(key)), fault: errRowForm}
	if readable {
		p.row, p.fault = decodeRow(p.n, p.bytes)
	}
	if p.fault != nil {
		w.damaged = append(w.damaged, p)
		return
	}
	n := w.o.st.nextRow
	w.o.st.nextRow++
	w.size += len(p.bytes)
	w.rows = append(w.rows, Row{Row: n, Topic: w.o.o.Topic(p.row.kind, r.tank), Payload: p.row.payload})
}

func (w *resend) note(j job, gone event.Range) {
	if j.gone && !j.probe {
		w.gone = append(w.gone, goneRange{j.f, j.id, gone})
	}
}

// clearDamaged sets rows aside whose bytes cannot be sent; the next review finds
// them gone.
func (w *resend) clearDamaged() error {
	if len(w.damaged) == 0 {
		return nil
	}
	return w.o.evicting(w.o.updateTight, func(c *change) error {
		for _, p := range w.damaged {
			if c.bucket(bKept).Get(rowKey(p.n)) == nil {
				continue
			}
			if err := c.setAside(bKept, p.n, p.ref, p.fault); err != nil {
				return err
			}
		}
		return nil
	})
}

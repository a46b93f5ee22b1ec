package ledger

import (
	"bytes"
	"encoding/binary"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
)

// Keys join names with a zero byte, which no name contains, so that a prefix
// scan finds exactly one tank's, one source's or one stream's rows, in order.

// Kinds of streams: a source's numbered events of a tank are one stream, its
// unnumbered ones another (contract section 5, rule 2).
const (
	numbered   byte = 1
	unnumbered byte = 2
)

// stream names one source's numbered or unnumbered events of one tank.
type stream struct {
	tank, source string
	kind         byte
}

func streamOf(e *event.Event) stream {
	if e.Numbered() {
		return stream{e.Tank, e.Source, numbered}
	}
	return stream{e.Tank, e.Source, unnumbered}
}

// prefix is what the keys of all the stream's entries begin with; it is also the
// key of the stream's head row.
func (s stream) prefix() []byte {
	k := make([]byte, 0, len(s.tank)+len(s.source)+3+event.MaxIDBytes/4)
	k = append(k, s.tank...)
	k = append(k, 0)
	k = append(k, s.source...)
	return append(k, 0, s.kind)
}

func parseStream(key []byte) (stream, bool) {
	tank, rest, ok1 := bytes.Cut(key, []byte{0})
	source, rest, ok2 := bytes.Cut(rest, []byte{0})
	if !ok1 || !ok2 || len(rest) == 0 {
		return stream{}, false
	}
	return stream{string(tank), string(source), rest[0]}, true
}

// at gives the key of the numbered entry with the given dot.
func (s stream) at(d event.Dot) []byte {
	k := binary.BigEndian.AppendUint64(s.prefix(), d.Epoch)
	return binary.BigEndian.AppendUint64(k, d.Seq)
}

// atStamp gives the key of the unnumbered entry with the given stamp and id. The
// sign bit is flipped so that the order of bytes is the order of instants.
func (s stream) atStamp(stamp int64, id string) []byte {
	k := binary.BigEndian.AppendUint64(s.prefix(), uint64(stamp)^(1<<63))
	return append(k, id...)
}

// entryKey is where the event stands in its stream: numbered events by their
// dot, the others by stamp and then by id.
func entryKey(e *event.Event, stamp int64) []byte {
	if e.Numbered() {
		return streamOf(e).at(e.Dot)
	}
	return streamOf(e).atStamp(stamp, e.ID)
}

func dotOfKey(key []byte) event.Dot {
	n := len(key)
	if n < 16 {
		return event.Dot{} // a damaged key
	}
	return event.Dot{
		Epoch: binary.BigEndian.Uint64(key[n-16:]),
		Seq:   binary.BigEndian.Uint64(key[n-8:]),
	}
}

func epochKey(source string, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(source), 0), epoch)
}

func idKey(source, id string) []byte {
	k := make([]byte, 0, len(source)+1+len(id))
	k = append(k, source...)
	k = append(k, 0)
	return append(k, id...)
}

// entry is the ledger's memory of one identity: what it was decided to be and
// what the fold needs of it. Its content stands in the journal under lsn.
type entry struct {
	outcome Outcome
	typ     event.Type
	flags   uint8
	lsn     uint64
	stamp   int64
	amount  int64    // nanograms
	hash    [16]byte // the first half of the content hash
}

const (
	flagReversed   uint8 = 1 << iota // a reversal took the delta back
	flagOutdone                      // another delta is the one of its operation
	flagConflicted                   // its identity or number came again with other content
	flagByReceipt                    // stamped by its receipt
	flagSuspect                      // quality "suspect"
	flagExcluded                     // a reversal whose target is no delta of its tank: not in the facts
	flagOwnID                        // its event_id is not its NodeID and stands in the ids bucket
)

func (n *entry) has(flag uint8) bool { return n.flags&flag != 0 }

// effective reports whether the entry is a delta that counts: accepted, not
// reversed, and the one of its operation (contract section 5, rule 5).
func (n *entry) effective() bool {
	return n.typ.Delta() && n.outcome.Accepted() && !n.has(flagReversed) && !n.has(flagOutdone)
}

// entryBytes is the most that an entry takes.
const entryBytes = 1 + 1 + 8 + 16 + 2*binary.MaxVarintLen64

func (n *entry) encode() []byte { return n.append(make(encoder, 0, entryBytes)) }

func (n *entry) append(e encoder) []byte {
	e.u8(uint8(n.typ)<<4 | uint8(n.outcome))
	e.u8(n.flags)
	e.i64(n.stamp)
	e = append(e, n.hash[:]...)
	e.uvarint(n.lsn)
	e.uvarint(uint64(n.amount))
	return e
}

func decodeEntry(row []byte) (entry, error) {
	d := decoder{b: row}
	kind := d.u8()
	n := entry{outcome: Outcome(kind & 0xf), typ: event.Type(kind >> 4), flags: d.u8(), stamp: d.i64()}
	copy(n.hash[:], d.take(16))
	n.lsn, n.amount = d.uvarint(), int64(d.uvarint())
	return n, d.done()
}

// snapshot is what the fold needs of one accepted measurement.
type snapshot struct {
	id         string
	dot        event.Dot
	stamp      int64
	byReceipt  bool
	suspect    bool
	remaining  int64 // nanograms
	occurredAt int64 // nanoseconds since 1970; noInstant when the event gave none
	covers     map[string]event.Dot
}

// tally is what the effective deltas after one snapshot add up to.
type tally struct {
	consumed, refilled          Sum
	events, byReceipt, suspects uint64
}

// head is the row of one stream: its last snapshot, the one before it, and what
// the tank's effective deltas add up to after the last one, and between the two.
// With them an event in order touches no history (contract section 5).
type head struct {
	last, prev *snapshot
	after      tally     // after last
	between    tally     // after prev and not after last
	newest     event.Dot // greatest dot of any entry of this stream
	gone       carry
}

func (e *encoder) snapshot(s *snapshot) {
	e.bool(s != nil)
	if s == nil {
		return
	}
	e.text(s.id)
	e.dot(s.dot)
	e.i64(s.stamp)
	e.bool(s.byReceipt)
	e.bool(s.suspect)
	e.i64(s.remaining)
	e.i64(s.occurredAt)
	e.covers(s.covers)
}

func (d *decoder) snapshot() *snapshot {
	if !d.bool() {
		return nil
	}
	return &snapshot{id: d.text(), dot: d.dot(), stamp: d.i64(), byReceipt: d.bool(), suspect: d.bool(),
		remaining: d.i64(), occurredAt: d.i64(), covers: d.covers()}
}

func (e *encoder) tally(t *tally) {
	e.sum(t.consumed)
	e.sum(t.refilled)
	e.u64(t.events)
	e.u64(t.byReceipt)
	e.u64(t.suspects)
}

func (d *decoder) tally() tally {
	return tally{d.sum(), d.sum(), d.u64(), d.u64(), d.u64()}
}

func (h *head) encode() []byte {
	e := make(encoder, 0, 320)
	e.snapshot(h.last)
	e.snapshot(h.prev)
	e.tally(&h.after)
	e.tally(&h.between)
	e.dot(h.newest)
	e.carry(&h.gone)
	return e
}

func decodeHead(row []byte) (*head, error) {
	d := decoder{b: row}
	h := &head{last: d.snapshot(), prev: d.snapshot(), after: d.tally(), between: d.tally(), newest: d.dot(), gone: d.carry()}
	return h, d.done()
}

// tank is the row of one account.
type tank struct {
	registered int64   // receipt instant of the first mention
	opening    *Sum    // before everything; fixed once journalled
	all        tally   // over all effective deltas: the totals
	gone       tally   // over those of them that were pruned
	latest     int64   // greatest stamp so far, of any event
	baseline   *stream // whose last snapshot is the one in force
	doubt      int64   // greatest stamp of an event that a conflict is about; a baseline from then on repairs it
	revision   uint64
}

func (t *tank) encode() []byte {
	e := make(encoder, 0, 160)
	e.i64(t.registered)
	e.bool(t.opening != nil)
	if t.opening != nil {
		e.sum(*t.opening)
	}
	e.tally(&t.all)
	e.tally(&t.gone)
	e.i64(t.latest)
	e.bool(t.baseline != nil)
	if t.baseline != nil {
		e.text(t.baseline.source)
		e.u8(t.baseline.kind)
	}
	e.i64(t.doubt)
	e.u64(t.revision)
	return e
}

func decodeTank(id string, row []byte) (*tank, error) {
	d := decoder{b: row}
	t := &tank{registered: d.i64()}
	if d.bool() {
		s := d.sum()
		t.opening = &s
	}
	t.all, t.gone, t.latest = d.tally(), d.tally(), d.i64()
	if d.bool() {
		t.baseline = &stream{tank: id, source: d.text(), kind: d.u8()}
	}
	t.doubt, t.revision = d.i64(), d.u64()
	return t, d.done()
}

// inDoubt reports whether a conflict is open that no newer baseline has repaired.
func (t *tank) inDoubt() bool { return t.doubt != beforeAll }

func amountOf(s *snapshot) physic.Mass { return physic.Mass(s.remaining) }

package ledger

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"periph.io/x/conn/v3/physic"
)

// account is one tank's row with the heads of all its streams, at most two for
// each of MaxTankSources.
type account struct {
	id string
	tank
	heads   map[stream]*head
	order   []stream // keys of heads, sorted, so that nothing hangs on map order
	changed bool     // since it was written
}

// rowState holds decoded state rows. The writer keeps it from one transaction to
// the next, so that in a steady stream no row is decoded twice; after a failed
// transaction it is dropped.
type rowState struct {
	accounts map[string]*account
	seen     map[seenID]*seen
	sources  map[string]*source
}

func newRowState() rowState {
	return rowState{map[string]*account{}, map[seenID]*seen{}, map[string]*source{}}
}

// keptWatermarks bounds how many watermarks stay decoded between transactions;
// accounts and sources have bounds of their own.
const keptWatermarks = 4096

// batch is the working set of one transaction. State rows are decoded once,
// changed in memory and written once, by flush; per-event rows go straight into
// their buckets. If the transaction fails the batch is forgotten with it.
type batch struct {
	rowState
	l    *Ledger
	meta meta
	gone pruned

	journal, entries, ids, seenRows, runRows, skipped, tanks, heads  *bbolt.Bucket
	operations, reversals, sourceRows, epochs, quarantine, quarorder *bbolt.Bucket
	moves, settled, old                                              *bbolt.Bucket
	metaRow                                                          *bbolt.Bucket

	canonical []byte // of the event at hand, reused
	scratch   []byte // for what is hashed, reused
	arena     []byte // for the values of this transaction's rows

	touched map[string]bool  // sources whose confirmation may change
	twins   map[string]twins // sources that look like two boards

	measured string // tank whose snapshot a retry has put in force
}

// Values are kept by bolt until the commit; one piece of memory for hundreds of
// them costs less than hundreds. A transaction begins with arenaBytesMin and takes
// twice as much each time, up to arenaBytesMax.
const (
	arenaBytesMin = 2 << 10
	arenaBytesMax = 64 << 10
)

// room gives an empty encoder with room for n bytes that stay valid until the end
// of the transaction. What is appended beyond them moves away by itself.
func (b *batch) room(n int) encoder {
	if cap(b.arena)-len(b.arena) < n {
		b.arena = make([]byte, 0, max(min(2*cap(b.arena), arenaBytesMax), arenaBytesMin, n))
	}
	start := len(b.arena)
	b.arena = b.arena[:start+n]
	return encoder(b.arena[start:start:len(b.arena)])
}

// journalFill packs the journal's pages: its keys only rise, so that a page that
// was split is never written again. entryFill leaves little for the same reason,
// since every stream appends at its own end.
const (
	journalFill = 0.97
	entryFill   = 0.9
)

func (l *Ledger) begin(tx *bbolt.Tx) (*batch, error) {
	b := &batch{l: l, rowState: l.warm, canonical: l.canonical[:0], scratch: l.scratch[:0]}
	l.warm = rowState{} // until this transaction has succeeded
	if b.accounts == nil || len(b.seen) > keptWatermarks {
		b.rowState = newRowState()
	}
	b.attach(tx)
	b.journal.FillPercent = journalFill
	b.entries.FillPercent = entryFill
	b.moves.FillPercent = entryFill
	b.old.FillPercent = journalFill
	row := b.metaRow.Get([]byte("state"))
	if row == nil {
		b.meta = meta{incarnation: newIncarnation(l.opt.Now())}
		b.gone.floor = beforeAll
		return b, nil
	}
	var err error
	if b.meta, err = decodeMeta(row); err == nil {
		b.gone, err = decodePruned(b.metaRow.Get([]byte("pruned")))
	}
	return b, err
}

func (b *batch) attach(tx *bbolt.Tx) {
	at := func(name string) *bbolt.Bucket { return tx.Bucket([]byte(name)) }
	b.metaRow, b.journal, b.entries, b.ids = at("meta"), at("journal"), at("entries"), at("ids")
	b.seenRows, b.runRows, b.skipped, b.moves = at("seen"), at("runs"), at("skipped"), at("moves")
	b.tanks, b.heads, b.operations, b.reversals = at("tanks"), at("heads"), at("operations"), at("reversals")
	b.sourceRows, b.epochs = at("sources"), at("epochs")
	b.quarantine, b.quarorder, b.settled = at("quarantine"), at("quarorder"), at("settled")
	b.old = at("old")
}

// view opens a read-only working set over committed state.
func (l *Ledger) view(fn func(*batch) error) error {
	return l.file.View(func(tx *bbolt.Tx) error {
		b := &batch{l: l, rowState: newRowState()}
		b.attach(tx)
		var err error
		if b.meta, err = decodeMeta(b.metaRow.Get([]byte("state"))); err != nil {
			return err
		}
		if b.gone, err = decodePruned(b.metaRow.Get([]byte("pruned"))); err != nil {
			return err
		}
		return fn(b)
	})
}

// flush writes every state row that the batch changed.
func (b *batch) flush() error {
	for _, a := range b.accounts {
		if !a.changed {
			continue
		}
		a.changed = false
		if err := b.tanks.Put([]byte(a.id), a.tank.encode()); err != nil {
			return err
		}
		for st, h := range a.heads {
			if err := b.heads.Put(st.prefix(), h.encode()); err != nil {
				return err
			}
		}
	}
	for _, s := range b.seen {
		if !s.changed {
			continue
		}
		s.changed = false
		if err := b.seenRows.Put(s.key, s.encode()); err != nil {
			return err
		}
		if st, ok := parseStream(s.key); ok {
			if err := b.touch(st.source); err != nil {
				return err
			}
		}
	}
	for name, s := range b.sources {
		if !s.changed {
			continue
		}
		s.changed = false
		if err := b.sourceRows.Put([]byte(name+"\x00"), s.encode()); err != nil {
			return err
		}
	}
	if b.gone.changed {
		if err := b.metaRow.Put([]byte("pruned"), b.gone.encode()); err != nil {
			return err
		}
	}
	return b.metaRow.Put([]byte("state"), b.meta.encode())
}

// receipt gives a delivery its instant: the wall clock, but never the same twice
// and never back, restarts included, since the last one is committed with the
// batch that it was given in. wall is the clock alone.
func (b *batch) receipt() (wall, at int64) {
	wall = b.l.opt.Now().UnixNano()
	b.meta.receipt = max(wall, b.meta.receipt+1)
	return wall, b.meta.receipt
}

// account gives the tank's account, or nil when the tank is not registered.
func (b *batch) account(id string) (*account, error) {
	if a, ok := b.accounts[id]; ok {
		return a, nil
	}
	row := b.tanks.Get([]byte(id))
	if row == nil {
		return nil, nil
	}
	t, err := decodeTank(id, row)
	if err != nil {
		return nil, err
	}
	a := &account{id: id, tank: *t, heads: map[stream]*head{}}
	prefix := append([]byte(id), 0)
	c := b.heads.Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		st, ok := parseStream(k)
		h, err := decodeHead(v)
		if !ok || err != nil {
			return nil, errRow
		}
		a.heads[st] = h
		a.order = append(a.order, st)
	}
	b.accounts[id] = a
	return a, nil
}

// register makes the account of a tank that is heard of for the first time.
func (b *batch) register(id string, at int64) *account {
	a := &account{id: id, tank: tank{registered: at, latest: beforeAll, doubt: beforeAll},
		heads: map[stream]*head{}, changed: true}
	b.accounts[id] = a
	b.meta.tanks++
	return a
}

// headOf gives the head of the account's stream, made on first use. Entries may
// be older than their head: refused ones leave none.
func (b *batch) headOf(a *account, st stream) *head {
	h, ok := a.heads[st]
	if ok {
		return h
	}
	h = &head{}
	if st.kind == numbered {
		if k, _ := lastOf(b.entries.Cursor(), st.prefix()); k != nil {
			h.newest = dotOfKey(k)
		}
	}
	a.heads[st] = h
	a.order = append(a.order, st)
	slices.SortFunc(a.order, func(x, y stream) int {
		return bytes.Compare(x.prefix(), y.prefix())
	})
	return h
}

// speaks reports whether the source has a stream in the account, and how many
// sources have.
func (a *account) speaks(source string) (known bool, sources int) {
	last := ""
	for i, st := range a.order {
		if i == 0 || st.source != last {
			sources++
		}
		last = st.source
		known = known || st.source == source
	}
	return known, sources
}

// openTanks registers the configured tanks and journals an opening amount the
// first time that the config gives one. From then on it is fixed: changing the
// config does not move a balance.
func (b *batch) openTanks(tanks []Tank) error {
	for _, t := range tanks {
		a, err := b.account(t.ID)
		if err != nil {
			return err
		}
		_, at := b.receipt()
		if a == nil {
			a = b.register(t.ID, at)
		}
		if t.Initial == nil || b.meta.replacement {
			continue
		}
		opening := SumOf(*t.Initial)
		if a.opening != nil {
			if *a.opening != opening {
				b.l.opt.Log.Warn().Str("tank", t.ID).Stringer("journalled", *a.opening).Stringer("configured", opening).
					Msg("opening amount was fixed at the tank's first start, the configured one is ignored")
			}
			continue
		}
		a.opening = &opening
		a.revision++
		a.changed = true
		if _, err := b.writeJournal(record{kind: recordOpening, receipt: at, opened: t.ID, opening: *t.Initial}); err != nil {
			return err
		}
	}
	return nil
}

// source is what the ledger knows of one producer, over all tanks.
type source struct {
	newest   uint64 // greatest epoch
	first    int64  // receipt instants
	last     int64
	events   uint64 // deliveries with an identity, repeats included
	named    uint64 // rows in the ids bucket
	unsynced bool   // the last one said that its clock was not synchronised
	twins    int64  // receipt instant of the last sign that it is two boards; 0: none
	changed  bool   // since it was written

	// Not in the row, learned anew by each process:
	begun bool   // the beginning of the newest epoch is known
	grown uint64 // the epoch that had a new number last
}

func (s *source) encode() []byte {
	e := make(encoder, 0, 49)
	e.u64(s.newest)
	e.i64(s.first)
	e.i64(s.last)
	e.u64(s.events)
	e.u64(s.named)
	e.bool(s.unsynced)
	e.i64(s.twins)
	return e
}

func decodeSource(row []byte) (*source, error) {
	d := decoder{b: row}
	s := &source{newest: d.u64(), first: d.i64(), last: d.i64(), events: d.u64(), named: d.u64(), unsynced: d.bool(), twins: d.i64()}
	return s, d.done()
}

// source gives the row of a producer, or nil when it was never heard. The key
// carries a closing zero, for the anonymous source has no name.
func (b *batch) source(name string) (*source, error) {
	if s, ok := b.sources[name]; ok {
		return s, nil
	}
	row := b.sourceRows.Get([]byte(name + "\x00"))
	if row == nil {
		return nil, nil
	}
	s, err := decodeSource(row)
	if err == nil {
		b.sources[strings.Clone(name)] = s
	}
	return s, err
}

// see gives the watermark of one (tank, source, epoch).
func (b *batch) see(tankID, source string, epoch uint64) (runs, error) {
	id := seenID{tankID, source, epoch}
	s, ok := b.seen[id]
	if !ok {
		key := seenKey(tankID, source, epoch)
		s = &seen{}
		if row := b.seenRows.Get(key); row != nil {
			var err error
			if s, err = decodeSeen(row); err != nil {
				return runs{}, err
			}
		}
		s.key = key
		b.seen[id] = s
	}
	return runs{row: s, bucket: b.runRows, prefix: s.key}, nil
}

// configured gives what the config says beside the account.
func (l *Ledger) configured(id string) (name string, capacity physic.Mass) {
	t := l.cfg[id]
	return t.Name, t.Capacity
}

// instant gives nanoseconds since 1970, or noInstant where there is none or where
// it lies outside of what 64 bits hold: 1678 to 2262.
func instant(t time.Time) int64 {
	if t.Year() < 1678 || t.Year() >= 2262 {
		return noInstant
	}
	return t.UnixNano()
}

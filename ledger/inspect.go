package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
)

// Inspection is what a closed account file says of itself, sound or not.
type Inspection struct {
	// Fault is the first thing that does not hold; "": all that was looked at does.
	Fault string `json:"fault,omitempty"`
	// Folded: every row was set against a new fold of the journal, as Check does;
	// else marks, journal and effects alone against each other.
	Folded bool `json:"folded"`

	Rows      uint64     `json:"journal_rows"`
	Marks     uint64     `json:"marks"`     // events that are recognised
	Moves     uint64     `json:"moves"`     // deltas that count
	Anonymous uint64     `json:"anonymous"` // accepted events without a source
	Oldest    *time.Time `json:"oldest_mark"`
	Pruned    uint64     `json:"pruned_rows"`
	Floor     *time.Time `json:"floor"` // every pruned event's stamp is below it; null: nothing was pruned
	Bytes     int64      `json:"file_bytes"`

	Replacement bool               `json:"replacement"`
	Sources     []string           `json:"sources"` // heard with an accepted event; "" is the anonymous source
	Outcomes    map[Outcome]uint64 `json:"outcomes"`
	NoID        uint64             `json:"missing_event_id"` // messages in quarantine that had no event_id
	Tanks       []Feed             `json:"tanks"`
}

// Feed is what a tank's balance rests on.
type Feed struct {
	Tank     string `json:"tank"`
	Baseline bool   `json:"baseline"` // a snapshot is in force
	Opening  bool   `json:"opening"`  // it has an opening amount
	Deltas   uint64 `json:"deltas"`   // effective ones
}

// FoldBytes is the size of file up to which Inspect folds the journal anew, which
// takes several times as much memory as the file has bytes.
const FoldBytes = 16 << 20

// Inspect reads the closed file at path and writes nothing to it. A file that is
// damaged, or in which something does not hold, gives an Inspection with its Fault;
// the error is boltfile.ErrLocked while a process holds the file, ErrNoAccount, or
// that of the file system. A page that cannot be read may end the process.
func Inspect(path string) (Inspection, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect account: %w", err)
	}
	i := Inspection{Bytes: info.Size(), Outcomes: map[Outcome]uint64{}, Sources: []string{}, Tanks: []Feed{}}
	err = boltfile.ViewPath(path, func(tx *bbolt.Tx) error {
		b, err := attached(tx)
		if err != nil || b.meta.incarnation == 0 {
			return err
		}
		return b.inspect(&i)
	})
	switch {
	case errors.Is(err, boltfile.ErrLocked), errors.Is(err, ErrNoAccount), errors.Is(err, boltfile.ErrSchema),
		errors.Is(err, os.ErrPermission):
		return i, fmt.Errorf("inspect account: %w", err)
	case errors.Is(err, boltfile.ErrDamaged), errors.Is(err, errUnsound):
		i.Fault = err.Error()
		return i, nil
	}
	return i, err
}

// errUnsound: the file is a whole one and its rows contradict each other.
var errUnsound = errors.New("account is not sound")

// attached opens a working set over a file of which nothing is known. That of a
// file whose first transaction never came has no incarnation.
func attached(tx *bbolt.Tx) (*batch, error) {
	for _, name := range buckets {
		if tx.Bucket([]byte(name)) == nil {
			return nil, ErrNoAccount
		}
	}
	if schema := boltfile.SchemaOf(tx); schema != Schema {
		return nil, fmt.Errorf("%w: its schema is %d, known is %d", boltfile.ErrSchema, schema, Schema)
	}
	b := &batch{rowState: newRowState()}
	b.attach(tx)
	row := b.metaRow.Get([]byte("state"))
	if k, _ := b.journal.Cursor().First(); row == nil && k == nil {
		return b, nil
	}
	var err error
	if b.meta, err = decodeMeta(row); err != nil {
		return b, fmt.Errorf("%w: its own row cannot be read", errUnsound)
	}
	if b.gone, err = decodePruned(b.metaRow.Get([]byte("pruned"))); err != nil {
		return b, fmt.Errorf("%w: what was pruned cannot be read", errUnsound)
	}
	return b, nil
}

func (b *batch) inspect(i *Inspection) error {
	e := effects{batch: b, moved: map[string]*tally{}}
	if err := e.all(); err != nil {
		return fmt.Errorf("%w: %w", errUnsound, err)
	}
	i.Rows, i.Marks, i.Moves, i.Anonymous = b.meta.lsn, e.marks, e.moves, e.strange
	i.Pruned, i.Floor = b.gone.rows, timeOf(b.gone.floor)
	if e.oldest != 0 {
		i.Oldest = timeOf(e.oldest)
	}
	i.Replacement = b.meta.replacement
	for _, o := range Outcomes() {
		i.Outcomes[o] = b.meta.outcomes[o]
	}
	if i.Bytes <= FoldBytes {
		if err := b.check(); err != nil {
			return fmt.Errorf("%w: %w", errUnsound, err)
		}
		i.Folded = true
	}
	if err := b.sourceRows.ForEach(func(key, _ []byte) error {
		i.Sources = append(i.Sources, string(key[:len(key)-1]))
		return nil
	}); err != nil {
		return err
	}
	if err := b.quarantine.ForEach(func(_, row []byte) error {
		var k Kept
		if err := json.Unmarshal(row, &k); err != nil {
			return fmt.Errorf("%w: quarantine: %w", errUnsound, err)
		}
		if k.Reason == event.MissingEventID {
			i.NoID += k.Count
		}
		return nil
	}); err != nil {
		return err
	}
	return b.tanks.ForEach(func(id, row []byte) error {
		t, err := decodeTank(string(id), row)
		if err != nil {
			return err
		}
		i.Tanks = append(i.Tanks, Feed{Tank: string(id), Baseline: t.baseline != nil, Opening: t.opening != nil, Deltas: t.all.events})
		return nil
	})
}

// Synced reports whether every commit of the file is synced (boltfile.File.Synced).
func (l *Ledger) Synced() bool { return l.file.Synced() }

package outbox

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
)

// Inspection is what a closed outbox file says of itself, sound or not.
type Inspection struct {
	// Fault is what does not hold; "": everything does. A row whose own bytes are
	// damaged is none: the outbox moves it out of the way and goes on.
	Fault       string            `json:"fault,omitempty"`
	Pending     uint64            `json:"pending"`
	Kept        uint64            `json:"kept"`
	DamagedRows int               `json:"damaged_rows"` // found now, at most 20
	Sources     map[string]uint64 `json:"sources"`      // pending and kept rows by who made them
	Bytes       int64             `json:"file_bytes"`
}

// Inspect reads the closed file at path and writes nothing to it. A file that is
// damaged, or in which something does not hold, gives an Inspection with its Fault;
// the error is boltfile.ErrLocked while a process holds the file, boltfile.ErrSchema
// or that of the file system. A page that cannot be read may end the process.
func Inspect(path string) (Inspection, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect outbox: %w", err)
	}
	i := Inspection{Bytes: info.Size(), Sources: map[string]uint64{}}
	err = boltfile.ViewPath(path, func(tx *bbolt.Tx) error {
		for _, name := range bucketNames {
			if tx.Bucket([]byte(name)) == nil && name != bAnswers { // files are older than that one
				return fmt.Errorf("%w: no outbox of oxyd", boltfile.ErrSchema)
			}
		}
		c, err := checkAll(tx)
		i.Pending, i.Kept, i.Sources, i.DamagedRows = c.st.pendingRows, c.st.keptRows, c.sources, len(c.damagedRows)
		if err := errors.Join(append(c.faults, err)...); err != nil {
			return fmt.Errorf("%w: %w", boltfile.ErrDamaged, err)
		}
		return nil
	})
	if errors.Is(err, boltfile.ErrDamaged) {
		i.Fault = err.Error()
		return i, nil
	}
	if err != nil {
		return i, fmt.Errorf("inspect outbox: %w", err)
	}
	return i, nil
}

// Synced reports whether every commit of the file is synced (boltfile.File.Synced).
func (o *Outbox) Synced() bool { return o.f.Synced() }

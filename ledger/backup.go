package ledger

import (
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"oxyd/internal/boltfile"
)

// Backup writes the account as it is committed now, a whole bolt file, while
// events go on being applied. size is called first with the number of bytes to
// come. A copy is restored by putting it in the place of ledger.bolt while no
// process runs: it is then as if the account had missed what came since.
func (l *Ledger) Backup(w io.Writer, size func(int64)) error {
	return l.file.View(func(tx *bbolt.Tx) error {
		size(tx.Size())
		if _, err := tx.WriteTo(w); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
		return nil
	})
}

// Verified is what Verify found in a sound file.
type Verified struct {
	Incarnation uint64 `json:"incarnation"`
	Rows        uint64 `json:"journal_rows"` // written so far; pruned ones are not there any more
	Tanks       uint64 `json:"tanks"`
	Digest      string `json:"digest"`
	Facts       string `json:"facts"`
}

// ErrNoAccount: the file is a bolt file of something else.
var ErrNoAccount = errors.New("no account of oxyd")

// Verify does what Check does with a file that no process holds, such as a backup,
// and writes nothing to it. For one that is in use it gives boltfile.ErrLocked.
func Verify(path string) (v Verified, err error) {
	err = boltfile.ViewPath(path, func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if tx.Bucket([]byte(name)) == nil {
				return fmt.Errorf("verify %s: %w", path, ErrNoAccount)
			}
		}
		if schema := boltfile.SchemaOf(tx); schema != Schema {
			return fmt.Errorf("verify %s: its schema is %d, known is %d: %w", path, schema, Schema, boltfile.ErrSchema)
		}
		b := &batch{rowState: newRowState()}
		b.attach(tx)
		if b.meta, err = decodeMeta(b.metaRow.Get([]byte("state"))); err != nil {
			return err
		}
		if b.gone, err = decodePruned(b.metaRow.Get([]byte("pruned"))); err != nil {
			return err
		}
		if err := b.check(); err != nil {
			return fmt.Errorf("verify %s: %w", path, err)
		}
		v = Verified{Incarnation: b.meta.incarnation, Rows: b.meta.lsn, Tanks: b.meta.tanks, Facts: b.meta.facts.String()}
		v.Digest, err = b.digest()
		return err
	})
	return v, err
}

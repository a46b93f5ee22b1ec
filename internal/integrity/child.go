package integrity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"oxyd/internal/boltfile"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// maxStack bounds a recursion through pages that lead in a circle, far below what
// would use up a small board.
const maxStack = 64 << 20

// Main is the child: it looks through the store at path and writes a report. sound
// is false where it found something; the error says why it could not look. Unless
// asked to look always, it only says so of a store that was closed cleanly.
func Main(kind, path string, lookAlways bool, w io.Writer) (sound bool, err error) {
	debug.SetMaxStack(maxStack)
	r, err := find(kind, path, lookAlways)
	if errors.Is(err, boltfile.ErrLocked) {
		r, err = report{Held: true}, nil
	}
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return r.Fault == "" && !r.Held, err
}

func find(kind, path string, lookAlways bool) (r report, err error) {
	if !lookAlways {
		unclean, err := boltfile.UncleanPath(path)
		switch {
		case err == nil && !unclean:
			return report{Clean: true}, nil
		case errors.Is(err, boltfile.ErrLocked):
			return r, err
		}
		// What hinders the reading of two pages is met again, and told, below.
	}
	switch kind {
	case Ledger:
		i, err := ledger.Inspect(path)
		return report{Fault: i.Fault, Ledger: &i}, err
	case Outbox:
		i, err := outbox.Inspect(path)
		return report{Fault: i.Fault, Outbox: &i}, err
	}
	return r, fmt.Errorf("there is no store of kind %q", kind)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oxyd/internal/checklist"
	"oxyd/internal/integrity"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// checkStoreCmd is the child of package integrity. It is not for people: its name
// and its output belong to this version of the program.
type checkStoreCmd struct {
	Always bool   `help:"Look through it although it was closed cleanly."`
	Kind   string `arg:"" enum:"ledger,outbox"`
	File   string `arg:""`
}

// Run looks through one store that no process holds.
func (c *checkStoreCmd) Run(s *terminal) error {
	sound, err := integrity.Main(c.Kind, c.File, c.Always, s.stdout)
	if err == nil && !sound {
		err = errors.New("the store is damaged, or a process has it")
	}
	return err
}

// lookPatience bounds the look through a copy of a store; those that are copied in
// passing are not large.
const lookPatience = 5 * time.Minute

// lookThrough gives the checklist the means to read a store that may be damaged.
func lookThrough(s *checklist.Subject) {
	s.Ledger = func(ctx context.Context, path string) (ledger.Inspection, error) {
		v := integrity.Look(ctx, integrity.Self, integrity.Ledger, path, lookPatience)
		if v.Ledger == nil || v.State != integrity.Trusted {
			return ledger.Inspection{Fault: v.Reason}, untold(&v)
		}
		return *v.Ledger, nil
	}
	s.Outbox = func(ctx context.Context, path string) (outbox.Inspection, error) {
		v := integrity.Look(ctx, integrity.Self, integrity.Outbox, path, lookPatience)
		if v.Outbox == nil || v.State != integrity.Trusted {
			return outbox.Inspection{Fault: v.Reason}, untold(&v)
		}
		return *v.Outbox, nil
	}
}

func untold(v *integrity.Verdict) error {
	if v.State == integrity.Damaged {
		return nil
	}
	return fmt.Errorf("look through the store: %s", v.Reason)
}

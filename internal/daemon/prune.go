package daemon

import (
	"context"
	"time"
)

const (
	// pruneEvery is how often an account is pruned beside what each batch prunes: one
	// that receives nothing grows old too.
	pruneEvery = time.Minute
	// pruneRows bounds one transaction of it.
	pruneRows = 1000
)

// pruneAccount lets go what the account needs no more. Where there is no room it is
// tried again; a store whose state is not known ends the process.
func (b *board) pruneAccount(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch went, err := b.ledger.Prune(pruneRows); {
		case storeFailed(err):
			return err
		case err != nil:
			b.log.Warn().Err(err).Msg("account not pruned")
		case went > 0:
			b.log.Debug().Int("events", went).Msg("account pruned")
		}
	}
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oxyd/internal/boltfile"
	"oxyd/internal/integrity"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// opening is how a store is opened: in the place of a damaged one, or although
// nobody could look through it.
type opening struct {
	replaced, unverified bool
}

func (b *board) openOutbox(ctx context.Context) error {
	return b.openStore(ctx, integrity.Outbox, OutboxPath(b.cfg), func(path string, how opening) (err error) {
		o := OutboxOptions(b.cfg, path, b.clock, b.log.With().Str("part", "outbox").Logger())
		o.Unverified = how.unverified
		b.outbox, err = outbox.Open(o)
		return err
	})
}

func (b *board) openLedger(ctx context.Context) error {
	if b.cfg.Ledger == nil || b.ledger != nil {
		return nil
	}
	if err := b.openStore(ctx, integrity.Ledger, LedgerPath(b.cfg), func(path string, how opening) (err error) {
		o := LedgerOptions(b.cfg, path, b.log.With().Str("part", "ledger").Logger())
		o.Replacement, o.Unverified, o.Synced = how.replaced, how.unverified, b.clock.Synced
		b.ledger, err = ledger.Open(o)
		return err
	}); err != nil {
		return err
	}
	for _, a := range b.storeAlarms {
		b.tellAlarm(a.Kind, a.Severity, a.Text)
	}
	return nil
}

// recallEpoch lets an outbox that has sent nothing begin above every epoch that the
// account beside it knows of this node. A store in the place of a lost one goes by the
// clock, and epochs may be ahead of that: each start takes one of a later second, and
// several can fall into one, or the clock went back. What such a node measures would be
// old_epoch. Only then does the account come before the first reading.
func (b *board) recallEpoch(ctx context.Context) error {
	if b.cfg.Ledger == nil || !b.outbox.Fresh() {
		return nil
	}
	if err := b.openLedger(ctx); err != nil {
		return err
	}
	known, err := b.ledger.Confirm(b.cfg.Node)
	if err != nil {
		return fmt.Errorf("read the node's own epochs: %w", err)
	}
	if _, err := b.outbox.RaiseEpoch(known.NewestEpoch); err != nil {
		b.log.Warn().Err(err).Msg("epoch stays: what is measured may be old_epoch to the account")
	}
	return nil
}

// openStore opens a store, once a child has looked through one that was not closed
// cleanly. A damaged one is set aside, named in the log and kept; a new one takes
// its place, for a board that measures and says that it lost its memory is worth
// more than one that does not start. One that nobody could look through, in the time
// there is, is used and said to be unverified: slow is not damaged.
func (b *board) openStore(ctx context.Context, kind, path string, open func(path string, how opening) error) error {
	v := b.lookThrough(ctx, integrity.Check, kind, path)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case v.State == integrity.Held:
		return fmt.Errorf("open %s: %w", path, boltfile.ErrLocked)
	case v.State != integrity.Damaged:
		err := open(path, opening{unverified: v.State == integrity.Unverified})
		switch {
		case err == nil && v.State == integrity.Unverified:
			b.unverified(kind, path, v.Reason)
			return nil
		case err == nil, errors.Is(err, boltfile.ErrLocked), errors.Is(err, boltfile.ErrSchema), boltfile.IsFull(err):
			return err
		case errors.Is(err, boltfile.ErrDamaged):
			v.Reason = err.Error()
		default: // whatever it is, it would be so at each start if it lies in the file
			if v = b.lookThrough(ctx, integrity.Look, kind, path); v.State != integrity.Damaged {
				return err
			}
		}
	}
	aside, err := boltfile.SetAside(path)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", v.Reason, boltfile.ErrDamaged, err)
	}
	b.log.Error().Str("reason", v.Reason).Str("path", path).Str("set_aside_as", aside).
		Msg("store is damaged: it was set aside and a new one is begun")
	b.storeAlarm("storage_reset", critical, fmt.Sprintf("the %s was damaged (%s): it is kept as %s, and a new one was begun", kind, v.Reason, aside))
	return open(path, opening{replaced: true})
}

// checkNotice is what the service manager is told in addition to the time that a
// look may take.
const checkNotice = 30 * time.Second

// lookThrough asks a child, and tells the service manager how long that may take.
func (b *board) lookThrough(ctx context.Context, look func(context.Context, integrity.Program, string, string, time.Duration) integrity.Verdict,
	kind, path string) integrity.Verdict {
	timeout := integrity.Timeout(time.Duration(b.cfg.CheckTimeout), path)
	notify(b.log, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (timeout+checkNotice).Microseconds()))
	v := look(ctx, b.child, kind, path, timeout)
	if v.State == integrity.Trusted && v.Looked {
		b.log.Info().Str("path", path).Dur("took_ms", v.Took).Msg("store was not closed cleanly: looked through, nothing is wrong")
	}
	return v
}

// storeAlarm raises an alarm that is told, to whoever is to be told, once there is an
// account to keep that in.
func (b *board) storeAlarm(kind, severity, text string) {
	b.nodeAlarms.set(kind, severity, text)
	b.storeAlarms = append(b.storeAlarms, alarmDocument{Kind: kind, Severity: severity, Text: text})
}

// unverified says that a store is in use which nobody could look through. It stays
// marked, so that the next start looks again.
func (b *board) unverified(kind, path, reason string) {
	b.log.Error().Str("path", path).Str("reason", reason).
		Msg("store was not closed cleanly and NOT VERIFIED: it is used as it is; see check_timeout, oxyd backup and oxyd verify")
	b.storeAlarm("storage_unverified", warning, fmt.Sprintf("the %s was not closed cleanly and could not be looked through: %s", kind, reason))
	b.notVerified = append(b.notVerified, fmt.Sprintf("%s is not verified after an unclean stop: %s", kind, reason))
}

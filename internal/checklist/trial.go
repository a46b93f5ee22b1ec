package checklist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/ingest"
	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/internal/event"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// The tanks of the trial. They exist in its own stores alone.
const (
	countedTank  = "oxyd-check-counted"
	measuredTank = "oxyd-check-measured"
)

// The amounts of the example of record (R7).
const (
	full  = 847 * physic.Gram
	taken = 120 * physic.Gram
	left  = full - taken
)

// trial is what the real outbox, ingest and ledger did with three events, in stores
// with the configured options on the configured disk.
type trial struct {
	id        string // of the first event
	ownForm   bool   // it is source/epoch/tank/number
	sameBytes bool   // the outbox of a killed process hands over the same bytes
	synced    bool   // both stores sync every commit

	before   ledger.Inspection // the file before the first event was applied
	atAck    ledger.Inspection // … in the moment of its acknowledgement, from a copy
	seen     bool              // in that moment a reader saw the event
	reopened *ledger.Sum       // the balance that a process opening that copy shows

	delta     []string    // what became of it, delivered twice
	snapshots []string    // … of the newer one, the older one, the newer one again
	counted   *ledger.Sum // the balances at the end
	measured  *ledger.Sum
}

// consumer takes batches and acknowledges them; what ends it is take's error.
type consumer func(ctx context.Context, account *ledger.Ledger, split func(string) (string, string, bool),
	take func(context.Context, int) ([]ingest.Message, error)) error

// byIngest is the receiving side as the daemon wires it.
func byIngest(ctx context.Context, account *ledger.Ledger, split func(string) (string, string, bool),
	take func(context.Context, int) ([]ingest.Message, error)) error {
	return (&ingest.Ingest{Split: split, Apply: account.Apply, Log: zerolog.Nop()}).Run(ctx, take)
}

// errEnough ends the consumer.
var errEnough = errors.New("no further delivery")

func tryOut(ctx context.Context, cfg *config.Config, dir string, consume consumer) (t trial, err error) {
	rows, err := t.tryOutbox(cfg, dir)
	if err != nil {
		return t, fmt.Errorf("try the outbox: %w", err)
	}
	if err := t.tryLedger(ctx, cfg, dir, rows, consume); err != nil {
		return t, fmt.Errorf("try the account: %w", err)
	}
	return t, nil
}

// tryOutbox makes a delta and two snapshots, as a sensor or an operator would, and
// hands them over twice: once, and once more as after a kill.
func (t *trial) tryOutbox(cfg *config.Config, dir string) (rows []outbox.Row, err error) {
	clk, err := clock.New()
	if err != nil {
		return nil, err
	}
	o := daemon.OutboxOptions(cfg, filepath.Join(dir, "trial-outbox.bolt"), clk, zerolog.Nop())
	box, err := outbox.Open(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	t.synced = box.Synced()
	receipts, err := box.Append(event.Event{Type: event.Consumed, Tank: countedTank, Amount: taken, Version: event.WireVersion},
		event.Event{Type: event.Measured, Tank: measuredTank, Amount: full, Version: event.WireVersion},
		event.Event{Type: event.Measured, Tank: measuredTank, Amount: left, Version: event.WireVersion})
	if err != nil {
		return nil, err
	}
	t.id = receipts[0].ID
	_, _, t.ownForm = event.ParseNodeID(cfg.Node, t.id)
	if rows, err = box.Next(0, 10); err != nil {
		return nil, err
	}
	// A killed process leaves the file as it stands.
	if err := copyFile(o.Path, o.Path+".killed"); err != nil {
		return nil, err
	}
	o.Path += ".killed"
	again, err := outbox.Open(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, again.Close()) }()
	twice, err := again.Next(0, 10)
	if err != nil {
		return nil, err
	}
	t.sameBytes = len(rows) == len(receipts) && len(twice) == len(rows)
	for i := 0; t.sameBytes && i < len(rows); i++ {
		t.sameBytes = rows[i].Topic == twice[i].Topic && bytes.Equal(rows[i].Payload, twice[i].Payload)
	}
	return rows, nil
}

// tryLedger delivers, one a batch, the delta twice, then the newer snapshot, the
// older one after it, and the newer one again. It looks closely at the first
// acknowledgement.
func (t *trial) tryLedger(ctx context.Context, cfg *config.Config, dir string, rows []outbox.Row, consume consumer) (err error) {
	if len(rows) != 3 {
		return fmt.Errorf("the outbox hands over %d of 3 events", len(rows))
	}
	path := filepath.Join(dir, "trial-ledger.bolt")
	account, err := ledger.Open(trialOptions(cfg, path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.Close()) }()
	t.synced = t.synced && account.Synced()
	if t.before, err = inspectCopy(path, path+".before"); err != nil {
		return err
	}
	plan := []outbox.Row{rows[0], rows[0], rows[2], rows[1], rows[2]}
	var outcomes []string
	counted := map[ledger.Outcome]uint64{}
	acked, lookErr := 0, error(nil)
	take := func(context.Context, int) ([]ingest.Message, error) {
		if acked > 0 { // what the delivery before has come to
			o, err := newest(account, counted)
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, o)
		}
		if acked == len(plan) {
			return nil, errEnough
		}
		return []ingest.Message{{Topic: plan[acked].Topic, Payload: plan[acked].Payload, Ack: func() {
			if acked++; acked == 1 {
				lookErr = t.lookAtAck(account, cfg, path)
			}
		}}}, nil
	}
	if err := consume(ctx, account, daemon.Topics(cfg).ParseTank, take); !errors.Is(err, errEnough) {
		return fmt.Errorf("deliver: %w", err)
	}
	if lookErr != nil {
		return fmt.Errorf("look at the file in the moment of the acknowledgement: %w", lookErr)
	}
	t.delta, t.snapshots = outcomes[:2], outcomes[2:]
	if t.counted, err = balanceOf(account, countedTank); err != nil {
		return err
	}
	t.measured, err = balanceOf(account, measuredTank)
	return err
}

// trialOptions are the configured ones with the tanks of the trial.
func trialOptions(cfg *config.Config, path string) ledger.Options {
	o := ledger.Options{Path: path, Log: zerolog.Nop()}
	if cfg.Ledger != nil {
		o = daemon.LedgerOptions(cfg, path, zerolog.Nop())
	}
	opening := full
	o.Tanks = append(o.Tanks, ledger.Tank{ID: countedTank, Initial: &opening}, ledger.Tank{ID: measuredTank})
	return o
}

// lookAtAck runs while the acknowledgement is being given. A reader sees committed
// state alone; the copy is what a kill in this moment would leave.
func (t *trial) lookAtAck(account *ledger.Ledger, cfg *config.Config, path string) (err error) {
	if _, t.seen, err = account.Outcome(event.Identity{Source: cfg.Node, ID: t.id}); err != nil {
		return err
	}
	killed := path + ".killed"
	if t.atAck, err = inspectCopy(path, killed); err != nil || t.atAck.Fault != "" {
		return err
	}
	o := trialOptions(cfg, killed)
	again, err := ledger.Open(o)
	if err != nil {
		return err
	}
	t.reopened, err = balanceOf(again, countedTank)
	return errors.Join(err, again.Close())
}

// newest gives the outcome by which the counters have grown, and takes note of it.
func newest(account *ledger.Ledger, counted map[ledger.Outcome]uint64) (string, error) {
	s, err := account.Status()
	if err != nil {
		return "", err
	}
	for o, n := range s.Outcomes {
		if n > counted[o] {
			counted[o] = n
			return o.String(), nil
		}
	}
	return "nothing", nil
}

func balanceOf(account *ledger.Ledger, tank string) (*ledger.Sum, error) {
	doc, _, err := account.Balance(tank)
	return doc.Balance, err
}

func inspectCopy(from, to string) (ledger.Inspection, error) {
	if err := copyFile(from, to); err != nil {
		return ledger.Inspection{}, err
	}
	return ledger.Inspect(to)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// Package checklist answers, for one configuration, the six questions of an
// idempotent consumer: is a message acknowledged only after it was processed, does
// the key come from the source, are effect and mark one transaction, is it naturally
// idempotent where that is possible, is the dedup window at least as long as
// redelivery, and does nothing rely on exactly-once delivery (R26).
//
// The invariant it keeps: an answer is what was inspected, printed beside it, and
// never a claim. Inspected are the options that the stations get, the stores (a copy
// of a closed one, a backup of a live one), what the running daemon says, and a
// trial of the real outbox, ingest and ledger on the real disk. What could not be
// looked at is said, and does not count as good.
//
// It opens no live store, writes to none, talks to no broker and no bus, and leaves
// nothing behind. It decides nothing about events.
package checklist

import (
	"context"
	"fmt"
	"io"

	"oxyd/internal/config"
	"oxyd/internal/outbox"
	"oxyd/ledger"
)

// The questions, in their order.
const (
	AckAfter   = "acknowledged only after processing"
	StableKey  = "a stable key from the source"
	Atomic     = "effect and mark in one transaction"
	Natural    = "naturally idempotent where possible"
	Window     = "dedup window at least as long as redelivery"
	AtLeastOne = "no reliance on exactly-once delivery"
)

// Answer is the answer to one question with what it rests on. A line of evidence
// that begins with "fails: " is why OK is false; one with "warning: " is worth a look.
type Answer struct {
	Question string   `json:"question"`
	OK       bool     `json:"ok"`
	Evidence []string `json:"evidence"`
}

func answer(question string) *Answer {
	return &Answer{Question: question, OK: true, Evidence: []string{}}
}

func (a *Answer) shows(format string, args ...any) {
	a.Evidence = append(a.Evidence, fmt.Sprintf(format, args...))
}

func (a *Answer) warns(format string, args ...any) { a.shows("warning: "+format, args...) }

func (a *Answer) fails(format string, args ...any) {
	a.OK = false
	a.shows("fails: "+format, args...)
}

// expects shows what holds, or fails with what does not.
func (a *Answer) expects(holds bool, yes, no string) {
	if holds {
		a.shows("%s", yes)
	} else {
		a.fails("%s", no)
	}
}

// Daemon is the running process of the configuration.
type Daemon interface {
	// Get asks for a document of the API.
	Get(ctx context.Context, path string, doc any) error
	// Backup copies the account as it is committed now.
	Backup(ctx context.Context, w io.Writer) error
}

// Subject is what is looked at.
type Subject struct {
	Config *config.Config
	// Daemon is nil where none runs.
	Daemon Daemon
	// Ledger and Outbox read the copy of a store that may be damaged: in a process of
	// their own where that is to be survived. Nil: ledger.Inspect, outbox.Inspect.
	Ledger func(ctx context.Context, path string) (ledger.Inspection, error)
	Outbox func(ctx context.Context, path string) (outbox.Inspection, error)

	consume consumer // of the trial; nil: package ingest
}

// Run looks and answers, all six in their order. The error is only that of ctx:
// what goes wrong while looking is evidence.
func Run(ctx context.Context, s Subject) ([]Answer, error) {
	f := gather(ctx, s)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return []Answer{f.ackAfter(), f.stableKey(), f.atomic(), f.natural(), f.window(), f.atLeastOnce()}, nil
}

package demo

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/boltfile"
	"oxyd/internal/event"
	"oxyd/ledger"
)

// bookMaxBytes bounds the file of one consumer, which holds a handful of events.
const bookMaxBytes = 16 << 20

// book is the file of one consumer and what a delivery does to it.
type book interface {
	// apply decides one delivery and calls crash at the point where the consumer is
	// to be killed at its first delivery of the subject. The delivery is
	// acknowledged after it has returned nil.
	apply(d *ledger.Delivery, crash func(outcome string) error) (outcome string, err error)
	// holds reads the balance from committed state.
	holds() (ledger.Sum, error)
	// check verifies the file.
	check() error
	Close() error
}

// account is the real one.
type account struct{ *ledger.Ledger }

func openAccount(path string) (book, error) {
	opening := before
	l, err := ledger.Open(ledger.Options{Path: path, MaxBytes: bookMaxBytes, Log: zerolog.Nop(), Now: clockOfTheScript,
		Tanks: []ledger.Tank{{ID: tankID, Initial: &opening}}})
	if err != nil {
		return nil, err
	}
	return account{l}, nil
}

func (a account) apply(d *ledger.Delivery, crash func(string) error) (string, error) {
	results, err := a.Apply([]ledger.Delivery{*d})
	if err != nil {
		return "", err
	}
	outcome := results[0].Outcome.String()
	return outcome, crash(outcome) // there is no moment between effect and mark: this is the next one
}

func (a account) holds() (ledger.Sum, error) {
	doc, ok, err := a.Balance(tankID)
	switch {
	case err != nil:
		return ledger.Sum{}, err
	case !ok || doc.Balance == nil:
		return ledger.Sum{}, fmt.Errorf("the account has no balance of tank %s", tankID)
	}
	return *doc.Balance, nil
}

func (a account) check() error { return a.Check() }

// order says in which order a hand-made consumer does what it does.
type order int

const (
	naive order = iota // the effect, and no mark
	effectThenMark
	markThenEffect
)

// handmade is a consumer as it is often written: a balance, a set of the ids seen,
// a transaction for each. It knows deltas out; a reading is nothing to it.
type handmade struct {
	*boltfile.File
	order order
}

var (
	bucketBalance = []byte("balance")
	bucketMarks   = []byte("marks") // event_id → 1
	keyOfTank     = []byte(tankID)  // → nanograms, big-endian
)

// The outcomes of hand-made consumers; those of the account are the contract's.
const (
	outcomeApplied   = "applied"
	outcomeDuplicate = "duplicate"
	outcomeIgnored   = "ignored"
	outcomeMarked    = "marked"
)

func openHandmade(o order) func(path string) (book, error) {
	return func(path string) (book, error) {
		f, err := boltfile.Open(path, boltfile.Options{Kind: "demo", Schema: 1, MaxBytes: bookMaxBytes, Log: zerolog.Nop(),
			Buckets: []string{string(bucketBalance), string(bucketMarks)}})
		if err != nil {
			return nil, err
		}
		h := &handmade{f, o}
		if err := f.Update(h.begin); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return h, nil
	}
}

// begin enters what the tank held before anything came.
func (h *handmade) begin(tx *bbolt.Tx) error {
	b := tx.Bucket(bucketBalance)
	if b.Get(keyOfTank) != nil {
		return nil
	}
	return b.Put(keyOfTank, binary.BigEndian.AppendUint64(nil, uint64(before)))
}

func (h *handmade) apply(d *ledger.Delivery, crash func(string) error) (string, error) {
	e := &d.Event
	if d.Form != nil || e.Type != event.Consumed {
		return outcomeIgnored, nil
	}
	effect := func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketBalance)
		now := physic.Mass(binary.BigEndian.Uint64(b.Get(keyOfTank)))
		return b.Put(keyOfTank, binary.BigEndian.AppendUint64(nil, uint64(now-e.Amount)))
	}
	mark := func(tx *bbolt.Tx) error { return tx.Bucket(bucketMarks).Put([]byte(e.ID), []byte{1}) }
	if h.order == naive {
		if err := h.Update(effect); err != nil {
			return "", err
		}
		return outcomeApplied, crash(outcomeApplied)
	}
	if marked, err := h.marked(e.ID); err != nil || marked {
		return outcomeDuplicate, err
	}
	first, second, half := effect, mark, outcomeApplied
	if h.order == markThenEffect {
		first, second, half = mark, effect, outcomeMarked
	}
	if err := h.Update(first); err != nil {
		return "", err
	}
	if err := crash(half); err != nil {
		return "", err
	}
	return outcomeApplied, h.Update(second)
}

func (h *handmade) marked(id string) (found bool, err error) {
	err = h.View(func(tx *bbolt.Tx) error {
		found = tx.Bucket(bucketMarks).Get([]byte(id)) != nil
		return nil
	})
	return found, err
}

func (h *handmade) holds() (sum ledger.Sum, err error) {
	err = h.View(func(tx *bbolt.Tx) error {
		sum = ledger.SumOf(physic.Mass(binary.BigEndian.Uint64(tx.Bucket(bucketBalance).Get(keyOfTank))))
		return nil
	})
	return sum, err
}

func (h *handmade) check() error { return h.Check() }

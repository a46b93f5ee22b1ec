// Package webhook tells a receiver of the operator's, by HTTP POST, what the
// account has kept to be told: quarantine, conflicts, bounds, alarms (R14).
//
// The invariant it keeps: everything it sends is committed state, every repeat of
// a notification carries the same Idempotency-Key and the same bytes, restarts
// included, and what became of a delivery is journalled in the account. A receiver
// that remembers the key therefore pages once, however often it was called.
//
// Delivery is at least once. A notification is fixed on disk before its first
// attempt, so a crash at any moment leads to a repeat and never to another
// document under the same key. Notifications of one kind and subject are delivered
// in their order; those of others do not wait for them.
//
// It never holds the account's write transaction while it talks to the receiver,
// writes two transactions a round at most, and decides nothing about events. It
// does not make notices (package ledger does).
package webhook

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ledger"
)

// The pace. Options may change what a test cannot wait for.
const (
	// RetryMin and RetryMax bound the pause before the next attempt on one
	// notification: it doubles from the first to the second and stays there. After
	// any failed attempt the receiver has RetryMin of rest.
	RetryMin = time.Second
	RetryMax = 10 * time.Minute
	// Gather is the least time between two notifications of one kind and subject.
	// What happens meanwhile is joined into the second. Alarms do not wait: they
	// have a delay of their own.
	Gather = time.Minute
	// Look is the least time between two looks at the account, whatever its pace.
	Look = 250 * time.Millisecond
	// roundMax is how many deliveries share their two transactions.
	roundMax = 16
	// accountRest is the pause after the account could not be read or written.
	accountRest = 10 * time.Second
)

// Account is what this package needs of the ledger.
type Account interface {
	Changed() <-chan struct{}
	Waiting(limit int) ([]ledger.Notification, error)
	HandOver(numbers []uint64) ([]ledger.Notification, error)
	Settle(attempts []ledger.Attempt) error
}

// Options say whom to tell, and how.
type Options struct {
	URL       string        // http or https, without a user
	TokenFile string        // its one line is sent as bearer token; read at each attempt; "": none
	CAFile    string        // PEM that is trusted for https, read at each attempt; "": the system's
	Timeout   time.Duration // of one attempt, from the connect to the answer's end

	Site, Ledger string // who tells; Ledger is the first part of every key
	Version      string // for User-Agent

	// Fatal reports whether an error of the account ends the process; every other
	// one is logged and tried again.
	Fatal func(error) bool
	Log   zerolog.Logger

	RetryMin, RetryMax, Gather, Look time.Duration // 0: the constants above
}

// Webhook delivers the notifications of one account. Run is its only user.
type Webhook struct {
	o       Options
	account Account
	client  *http.Client

	retry     map[uint64]time.Time // when a notification may be tried again, by the monotonic clock
	told      map[subject]time.Time
	rest      time.Time        // no attempt before it
	unsettled []ledger.Attempt // outcomes that the account has not taken yet
	failing   bool             // the last attempt failed; logged on change
}

// subject is what notifications are joined and kept in order by.
type subject struct{ kind, subject string }

func subjectOf(n *ledger.Notification) subject { return subject{n.Kind, n.Subject} }

// New makes a Webhook. It reads no file and opens no connection.
func New(account Account, o Options) *Webhook {
	set := func(v *time.Duration, to time.Duration) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.RetryMin, RetryMin)
	set(&o.RetryMax, RetryMax)
	set(&o.Gather, Gather)
	set(&o.Look, Look)
	return &Webhook{o: o, account: account, client: newClient(&o, nil), retry: map[uint64]time.Time{}, told: map[subject]time.Time{}}
}

// Run delivers until ctx ends, which gives nil, or until the account fails for
// good. A delivery that is cut off by the end counts as none.
func (w *Webhook) Run(ctx context.Context) error {
	defer w.client.CloseIdleConnections()
	troubled := false
	for {
		changed := w.account.Changed() // before reading, so that no notice is missed
		next, err := w.round(ctx)
		if err != nil {
			if w.o.Fatal != nil && w.o.Fatal(err) {
				return err
			}
			if !troubled {
				w.o.Log.Warn().Err(err).Msg("webhook cannot read or write the account, it is tried again")
			}
			next = accountRest
		}
		troubled = err != nil
		if !w.pause(ctx, changed, next) {
			return nil
		}
	}
}

// pause waits for a change of the account or for next, and reports whether to go
// on. After an error next is all that counts.
func (w *Webhook) pause(ctx context.Context, changed <-chan struct{}, next time.Duration) bool {
	timer := time.NewTimer(max(next, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-changed:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(w.o.Look):
		return true
	}
}

// round delivers what is due and journals what became of it. next is when the
// first of the others is due.
func (w *Webhook) round(ctx context.Context) (next time.Duration, err error) {
	if err := w.settle(); err != nil {
		return 0, err
	}
	waiting, err := w.account.Waiting(ledger.MaxWaiting)
	if err != nil {
		return 0, err
	}
	w.forget(waiting)
	due, next := w.due(waiting, time.Now())
	if len(due) == 0 {
		return next, nil
	}
	if due, err = w.handOver(due); err != nil {
		return 0, err
	}
	for i := range due {
		a := w.attempt(ctx, &due[i])
		if a.State == ledger.Waiting && ctx.Err() != nil {
			break // cut off by our own end: nobody knows, the next start repeats it
		}
		w.unsettled = append(w.unsettled, a)
		if a.State == ledger.Waiting {
			break
		}
	}
	return 0, w.settle()
}

// due chooses what to deliver now: what was never tried first, for it may matter
// more than what the receiver would not take, then by age.
func (w *Webhook) due(waiting []ledger.Notification, now time.Time) (due []ledger.Notification, next time.Duration) {
	wait := func(until time.Time) bool {
		if left := until.Sub(now); left > 0 {
			next = min(next, left)
			return true
		}
		return false
	}
	next = time.Hour
	before := map[subject]bool{}
	for i := range waiting {
		n := &waiting[i]
		s := subjectOf(n)
		if before[s] {
			continue // an older one of its like is on its way still
		}
		before[s] = true
		if n.HandedOver && wait(w.retry[n.Number]) || !n.HandedOver && n.Kind != ledger.KindAlarm && wait(w.told[s]) {
			continue
		}
		due = append(due, *n)
	}
	if len(due) == 0 || wait(w.rest) {
		return nil, next
	}
	slices.SortStableFunc(due, func(a, b ledger.Notification) int {
		return int(min(a.Attempts, 1)) - int(min(b.Attempts, 1))
	})
	return due[:min(len(due), roundMax)], 0
}

// handOver fixes what the new ones say before anybody is told.
func (w *Webhook) handOver(due []ledger.Notification) ([]ledger.Notification, error) {
	var fresh []uint64
	for i := range due {
		if !due[i].HandedOver {
			fresh = append(fresh, due[i].Number)
		}
	}
	if len(fresh) == 0 {
		return due, nil
	}
	fixed, err := w.account.HandOver(fresh)
	if err != nil {
		return nil, err
	}
	for i := range fixed {
		w.told[subjectOf(&fixed[i])] = time.Now().Add(w.o.Gather)
	}
	for i := range due {
		if due[i].HandedOver {
			fixed = append(fixed, due[i])
		}
	}
	return fixed, nil
}

// settle journals outcomes. Those that the account has no room for wait here; the
// notifications are not tried again meanwhile, for round settles first.
func (w *Webhook) settle() error {
	if len(w.unsettled) == 0 {
		return nil
	}
	if err := w.account.Settle(w.unsettled); err != nil {
		return err
	}
	w.unsettled = nil
	return nil
}

// forget drops what is remembered of notifications that have gone and of subjects
// whose pause is over.
func (w *Webhook) forget(waiting []ledger.Notification) {
	if len(w.retry) > 0 {
		still := make(map[uint64]time.Time, len(w.retry))
		for i := range waiting {
			if at, ok := w.retry[waiting[i].Number]; ok {
				still[waiting[i].Number] = at
			}
		}
		w.retry = still
	}
	now := time.Now()
	for s, until := range w.told {
		if now.After(until) {
			delete(w.told, s)
		}
	}
}

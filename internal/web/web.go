// Package web is what a node shows and takes over HTTP: the page, the API and
// the metrics of contract section 9, on TCP and on the control socket alike.
//
// The invariant it keeps: it answers from committed state and holds none of its
// own. A document is read from the account in one short view and rendered after
// it; a recorded event is answered by what Board.Record says of it, and this
// package never claims that an event counts.
//
// It does not log anybody in: who reaches the address may read, record, and decide
// about what was refused, who may open the socket file likewise. It refuses what a browser could be tricked
// into sending (see guard.go), bounds every request, and writes no character to
// an answer that would steer a terminal. It publishes nothing and opens no store.
package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/rs/zerolog"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// Board is what the wiring lets the page and the API see. A nil field means that
// the role is off: its routes answer 404 and say so.
type Board struct {
	Version string

	// Source is the name under which recorded events are made: this node's. It
	// stands in every Record.Event, and is what a question about an event_id
	// means where it names no source.
	Source string

	// Account is the ledger's committed state, and takes what an operator decides about
	// a refused message.
	Account *ledger.Ledger

	// Status gives the document of GET /api/status, Node that of GET /api/node:
	// the node's status document of contract section 3.
	Status func() (any, error)
	Node   func() any

	// Record takes an event durably and waits a while for the ledger's word. Its
	// context ends with the client's connection, which is no reason to take the
	// event back. Its errors are told to the client; those below choose the HTTP
	// status, any other one is 500. An error with a method Hint() string gives
	// the hint.
	Record func(ctx context.Context, r Record) (Answer, error)

	// Taken reports whether an event of this node is on disk on its way to the
	// account, or was. It answers the question about an event that the account does
	// not know, or that another node's account will know.
	Taken func(eventID string) (bool, error)

	// Metrics gives what GET /metrics shows beside the account's own figures.
	Metrics func() []Metric

	// Ready is nil when the stores are verified and the broker is reached; its
	// error becomes a 503 of GET /readyz.
	Ready func() error
}

// What Board.Record may answer, to be wrapped with the particulars.
var (
	ErrInvalid     = errors.New("event is not acceptable")                // 400
	ErrUnknownTank = errors.New("tank is unknown here")                   // 404
	ErrBusy        = errors.New("the same event_id is being recorded")    // 409
	ErrKeyReused   = errors.New("event_id was used with another content") // 422
	ErrUnavailable = errors.New("nothing can be recorded at the moment")  // 503
	ErrFull        = errors.New("no room on disk: nothing was recorded")  // 507
)

// Record is one event that a caller wants recorded. It is well-formed, of version
// 1, and has Board.Source as its source and no number.
type Record struct {
	Event event.Event
	Key   string // the Idempotency-Key, which is Event.ID
}

// Answer tells what became of a recorded event.
type Answer struct {
	EventID string          `json:"event_id"`
	Source  string          `json:"source"`
	Tank    string          `json:"tank,omitempty"`
	Outcome string          `json:"outcome,omitempty"` // the ledger's; empty while pending
	Reason  string          `json:"reason,omitempty"`
	LSN     uint64          `json:"lsn,omitempty"` // its row in the journal
	Balance *ledger.Balance `json:"balance,omitempty"`

	// Pending: the event is on disk and on its way, but the ledger has not
	// answered yet. StatusURL is where to ask; this package fills it in where it
	// is empty.
	Pending   bool   `json:"pending"`
	StatusURL string `json:"status_url,omitempty"`
	// Elsewhere: this node keeps no account; the ledger's node knows the outcome.
	Elsewhere bool `json:"decided_elsewhere,omitempty"`
}

// api is the handler's state: nothing but what it was made with.
type api struct {
	board Board
	log   zerolog.Logger
}

// New makes the handler of one board. It is safe for concurrent use.
func New(b Board, log zerolog.Logger) http.Handler {
	a := &api{board: b, log: log}
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.Handle(r.path, methods{get: r.get, post: r.post})
	}
	mux.Handle("/{$}", methods{get: newPage().serve})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, &fault{status: http.StatusNotFound, text: "there is nothing at this address",
			hint: "the API is below /api/: status, node, tanks, sources, quarantine, events, journal, webhook, backup"})
	})
	return a.guard(mux)
}

type route struct {
	path      string
	get, post http.HandlerFunc
}

func (a *api) routes() []route {
	return []route{
		{path: "/api/status", get: a.json(a.status)},
		{path: "/api/node", get: a.json(a.node)},
		{path: "/api/tanks", get: a.json(a.tanks)},
		{path: "/api/tanks/{tank}", get: a.json(a.tank)},
		{path: "/api/tanks/{tank}/events", get: a.json(a.tankEvents)},
		{path: "/api/sources", get: a.json(a.sources)},
		{path: "/api/quarantine", get: a.json(a.quarantine)},
		{path: "/api/quarantine/{id}", get: a.json(a.kept)},
		{path: "/api/quarantine/{id}/retry", post: a.retry},
		{path: "/api/quarantine/{id}/discard", post: a.discard},
		{path: "/api/events", get: a.outcome, post: a.record},
		{path: "/api/webhook", get: a.json(a.webhook)},
		{path: "/api/journal", get: a.json(a.journal)},
		{path: "/api/backup", get: a.backup},
		{path: "/metrics", get: a.metrics},
		{path: "/healthz", get: a.json(a.healthy)},
		{path: "/readyz", get: a.json(a.ready)},
	}
}

// methods answers the methods of one path; HEAD is GET without its body, which
// net/http leaves out.
type methods struct {
	get, post http.HandlerFunc
}

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case m.get != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		m.get(w, r)
	case m.post != nil && r.Method == http.MethodPost:
		m.post(w, r)
	default:
		allow := "GET, HEAD"
		switch {
		case m.get == nil:
			allow = "POST"
		case m.post != nil:
			allow += ", POST"
		}
		w.Header().Set("Allow", allow)
		writeFault(w, &fault{status: http.StatusMethodNotAllowed,
			text: "this address does not take " + shorten(r.Method), hint: "it takes " + allow})
	}
}

func (a *api) status(*http.Request) (any, error) {
	if a.board.Status == nil {
		return nil, roleOff("status")
	}
	return a.board.Status()
}

func (a *api) node(*http.Request) (any, error) {
	if a.board.Node == nil {
		return nil, roleOff("node status")
	}
	return a.board.Node(), nil
}

// healthy says that the process works, and no more: whoever restarts it by this
// must not do so because a broker is away.
func (a *api) healthy(*http.Request) (any, error) {
	return map[string]string{"status": "ok", "version": a.board.Version}, nil
}

func (a *api) ready(*http.Request) (any, error) {
	if a.board.Ready != nil {
		if err := a.board.Ready(); err != nil {
			return nil, &fault{status: http.StatusServiceUnavailable, text: "not ready: " + err.Error(), hint: hintOf(err)}
		}
	}
	return map[string]string{"status": "ready"}, nil
}

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// call is one request as the receiver had it.
type call struct {
	key, body, token, agent string
	doc                     Document
}

// receiver is a pager's HTTP side. answer says what it does with the n-th request,
// from 0; nil answers 204.
type receiver struct {
	*httptest.Server
	calls chan call
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := receiverFor(t, answer)
	r.Start()
	return r
}

func receiverFor(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	rc := &receiver{calls: make(chan call, 1000)}
	var mu sync.Mutex
	n := 0
	rc.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := call{key: r.Header.Get("Idempotency-Key"), body: string(body), token: r.Header.Get("Authorization"), agent: r.Header.Get("User-Agent")}
		if err := json.Unmarshal(body, &c.doc); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %q: %v", r.Method, r.Header, body, err)
		}
		mu.Lock()
		i := n
		n++
		mu.Unlock()
		rc.calls <- c
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(i, w, r)
	}))
	rc.Config.ErrorLog = nil
	t.Cleanup(rc.Close)
	return rc
}

func (r *receiver) next(t *testing.T) call {
	t.Helper()
	select {
	case c := <-r.calls:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("the receiver is not called")
		panic("unreachable")
	}
}

// statuses answers with one after the other, then with 204.
func statuses(list ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < len(list) {
			w.WriteHeader(list[n])
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// stand is an account with a webhook that can be stopped and started.
type stand struct {
	t    *testing.T
	path string
	l    *ledger.Ledger
	o    Options
	stop func()
	log  strings.Builder
}

func newStand(t *testing.T, o Options) *stand {
	t.Helper()
	s := &stand{t: t, path: filepath.Join(t.TempDir(), "ledger.bolt"), o: o}
	s.o.Site, s.o.Ledger, s.o.Version = "base", "main", "v1"
	s.o.Log = zerolog.New(&s.log)
	for v, to := range map[*time.Duration]time.Duration{&s.o.Timeout: 5 * time.Second, &s.o.RetryMin: 5 * time.Millisecond,
		&s.o.RetryMax: 20 * time.Millisecond, &s.o.Gather: 10 * time.Millisecond, &s.o.Look: 2 * time.Millisecond} {
		if *v == 0 {
			*v = to
		}
	}
	s.open()
	t.Cleanup(func() {
		s.close()
	})
	return s
}

func (s *stand) open() {
	s.t.Helper()
	var err error
	if s.l, err = ledger.Open(ledger.Options{Path: s.path, Notify: ledger.Kinds(), Log: zerolog.Nop()}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) close() {
	s.t.Helper()
	s.halt()
	if err := s.l.Check(); err != nil {
		s.t.Errorf("check at the end: %v", err)
	}
	s.l.Close()
}

func (s *stand) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w := New(s.l, s.o)
	go func() { ended <- w.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("run: %v", err)
		}
	}
}

func (s *stand) halt() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

func (s *stand) poison(n int) {
	s.t.Helper()
	if _, err := s.l.Apply([]ledger.Delivery{{Topic: "t", Payload: fmt.Appendf(nil, "poison %d", n),
		Form: &event.FormError{Reason: event.Malformed}}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) alarm(subject, text string) {
	s.t.Helper()
	if err := s.l.Notify(ledger.Notice{Kind: ledger.KindAlarm, Subject: subject, Text: text}); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until the notification of that number has the state.
func (s *stand) settled(number uint64, state string) ledger.Notification {
	s.t.Helper()
	var last []ledger.Notification
	for deadline := time.After(20 * time.Second); ; {
		changed := s.l.Changed()
		list, _, err := s.l.Notifications(ledger.MaxTold)
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range list {
			if list[i].Number == number && list[i].State == state {
				return list[i]
			}
		}
		last = list
		select {
		case <-changed:
		case <-deadline:
			s.t.Fatalf("notification %d is not %s: %+v", number, state, last)
		}
	}
}

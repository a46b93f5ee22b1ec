package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		&s.o.RetryMax: 20 * time.Millisecond, &s.o.Gather: 10 * time.Millisecond} {
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

func TestDocument(t *testing.T) {
	rc := newReceiver(t, nil)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStand(t, Options{URL: rc.URL + "/page?x=1", TokenFile: token})
	s.run()
	if err := s.l.Notify(ledger.Notice{Kind: ledger.KindAlarm, Subject: "A/low", Text: "Tank A is low.", Detail: map[string]int{"limit": 20}}); err != nil {
		t.Fatal(err)
	}
	c := rc.next(t)
	n := s.settled(1, ledger.Delivered)
	want := Document{Version: 1, ID: fmt.Sprintf("main-%d-1", n.Incarnation), Site: "base", Ledger: "main", Incarnation: n.Incarnation, Number: 1,
		Kind: "alarm", Subject: "A/low", Text: "Tank A is low.", Detail: []byte(`{"limit":20}`), Count: 1, First: n.First, Last: n.Last}
	if diff := cmp.Diff(want, c.doc); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if c.key != want.ID || c.token != "Bearer s3cret" || c.agent != "oxyd/v1" {
		t.Errorf("call %+v", c)
	}
	if n.Attempts != 1 || n.Status != http.StatusNoContent || n.Error != "" || n.Decided == nil {
		t.Errorf("outcome %+v", n)
	}
}

// A failed attempt is repeated with the same key and bytes until one succeeds,
// whatever the failure: an answer, none at all, or one that was lost after the
// receiver had acted on the body.
func TestRetriesCarryTheSameKey(t *testing.T) {
	lost := func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 2 {
			panic(http.ErrAbortHandler) // the body was read; the connection drops
		}
		w.WriteHeader(http.StatusOK)
	}
	for name, c := range map[string]struct {
		answer func(int, http.ResponseWriter, *http.Request)
		calls  int
		word   string
	}{
		"500, then 200":            {statuses(500), 2, "500"},
		"each that may get better": {statuses(408, 425, 429, 301, 307, 503, 599), 8, "599"},
		"dropped after the body":   {lost, 3, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newReceiver(t, c.answer)
			s := newStand(t, Options{URL: rc.URL})
			s.run()
			s.poison(1)
			first := rc.next(t)
			for i := 1; i < c.calls; i++ {
				if again := rc.next(t); again.key != first.key || again.body != first.body {
					t.Errorf("attempt %d is %s %s, the first was %s %s", i, again.key, again.body, first.key, first.body)
				}
			}
			n := s.settled(1, ledger.Delivered)
			if n.Attempts != uint64(c.calls) {
				t.Errorf("%d attempts are journalled, want %d", n.Attempts, c.calls)
			}
			if log := s.log.String(); strings.Count(log, "takes no notifications") != 1 || strings.Count(log, "takes notifications again") != 1 {
				t.Errorf("log is not on change:\n%s", log)
			}
		})
	}
}

// A hanging receiver costs an attempt, and never delays the account.
func TestHangingReceiver(t *testing.T) {
	hang := make(chan struct{})
	rc := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			<-hang
		}
	})
	t.Cleanup(func() {
		select {
		case <-hang:
		default:
			close(hang)
		}
	})
	s := newStand(t, Options{URL: rc.URL, Timeout: 100 * time.Millisecond})
	s.run()
	s.poison(1)
	first := rc.next(t)
	for i := range 50 { // while the request hangs, each in a transaction of its own
		s.poison(100 + i)
	}
	again := rc.next(t)
	close(hang)
	if first.key != again.key || first.body != again.body {
		t.Errorf("the repeat is %s, the first was %s", again.body, first.body)
	}
	n := s.settled(1, ledger.Delivered)
	if n.Attempts != 2 {
		t.Errorf("%+v", n)
	}
}

// The key is that of the notification, over a restart of the daemon between two
// attempts; a notification that was cut off by the stop is repeated.
func TestKeyIsStableOverRestarts(t *testing.T) {
	hanging := make(chan struct{})
	rc := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			close(hanging)
			<-r.Context().Done()
		}
	})
	s := newStand(t, Options{URL: rc.URL})
	s.run()
	s.poison(1)
	calls := []call{rc.next(t), rc.next(t)}
	<-hanging
	s.halt()
	s.poison(2) // must not change what was sent
	s.close()
	s.open()
	s.run()
	calls = append(calls, rc.next(t))
	for _, c := range calls {
		if c.key != calls[0].key || c.body != calls[0].body || c.doc.Count != 1 {
			t.Errorf("%s %s, the first was %s %s", c.key, c.body, calls[0].key, calls[0].body)
		}
	}
	if n := s.settled(1, ledger.Delivered); n.Attempts != 2 {
		t.Errorf("%d attempts are journalled, want 2: the one that was cut off is nobody's", n.Attempts)
	}
	if c := rc.next(t); c.key == calls[0].key {
		t.Error("another notification has the same key")
	}
}

// Thousands of poison messages are a few pages, which together tell of all.
func TestPoisonFloodIsFewPages(t *testing.T) {
	const flood = 2000
	rc := newReceiver(t, nil)
	s := newStand(t, Options{URL: rc.URL, Gather: time.Hour})
	s.run()
	s.poison(0)
	if c := rc.next(t); c.doc.Count != 1 {
		t.Errorf("the first page stands for %d", c.doc.Count)
	}
	s.settled(1, ledger.Delivered)
	for i := 1; i < flood; i++ {
		s.poison(i)
	}
	s.halt()
	s.run() // another process, in which the pause begins anew
	if c := rc.next(t); c.doc.Count != flood-1 {
		t.Errorf("the second page stands for %d, want %d", c.doc.Count, flood-1)
	}
	s.settled(2, ledger.Delivered)
	select {
	case c := <-rc.calls:
		t.Errorf("a third page: %+v", c)
	default:
	}
}

// What the receiver will never take is journalled as refused and not repeated; the
// next one is sent all the same. A redirect is not followed.
func TestRefusedIsFinal(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 422} {
		rc := newReceiver(t, statuses(status))
		s := newStand(t, Options{URL: rc.URL})
		s.run()
		s.alarm("A", "one")
		first := rc.next(t)
		n := s.settled(1, ledger.Refused)
		if n.Status != status || n.Attempts != 1 || n.Error == "" {
			t.Errorf("%d: %+v", status, n)
		}
		s.alarm("A", "two")
		if c := rc.next(t); c.key == first.key || c.doc.Text != "two" {
			t.Errorf("%d: after the refusal came %+v", status, c)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere := make(chan string, 10)
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere <- r.Method }))
		defer other.Close()
		rc := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				http.Redirect(w, r, other.URL, status)
			}
		})
		s := newStand(t, Options{URL: rc.URL})
		s.run()
		s.alarm("A", "low")
		first := rc.next(t)
		if again := rc.next(t); again.key != first.key {
			t.Errorf("%d: repeated as %s, was %s", status, again.key, first.key)
		}
		s.settled(1, ledger.Delivered)
		select {
		case method := <-elsewhere:
			t.Errorf("%d was followed by %s", status, method)
		default:
		}
	}
}

// One notification that its receiver cannot digest does not hold up the others; of
// one subject the order stays.
func TestOneBadNotificationHoldsUpItsLikeOnly(t *testing.T) {
	var mu sync.Mutex
	bad := true
	var rc *receiver
	rc = newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if bad && strings.HasSuffix(r.Header.Get("Idempotency-Key"), "-1") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := newStand(t, Options{URL: rc.URL})
	s.run()
	s.alarm("A", "raised")
	rc.next(t)
	s.alarm("A", "cleared") // 2
	s.alarm("B", "raised")  // 3
	s.settled(3, ledger.Delivered)
	list, err := s.l.Waiting(10)
	if err != nil || len(list) != 2 || list[1].HandedOver {
		t.Fatalf("waiting: %+v, %v", list, err)
	}
	mu.Lock()
	bad = false
	mu.Unlock()
	s.settled(2, ledger.Delivered)
	var order []uint64
	for len(order) == 0 || order[len(order)-1] != 2 {
		c := rc.next(t)
		if c.doc.Number != 3 {
			order = append(order, c.doc.Number)
		}
	}
	for _, n := range order[:len(order)-1] {
		if n != 1 {
			t.Errorf("order of A is %v", order)
		}
	}
}

func TestReceiverMayAskForAPause(t *testing.T) {
	rc := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	s := newStand(t, Options{URL: rc.URL, RetryMax: 300 * time.Millisecond})
	s.run()
	s.alarm("A", "low")
	began := time.Now()
	rc.next(t)
	rc.next(t)
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("repeated after %v, want retry_max, which is less than the hour asked for", took)
	}
}

func TestBackoff(t *testing.T) {
	w := New(nil, Options{})
	for attempts, want := range map[uint64]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 10: 10 * time.Minute,
		29: 10 * time.Minute, 63: 10 * time.Minute, 1 << 40: 10 * time.Minute} {
		if got := w.backoff(attempts); got > want || got < want*9/10 {
			t.Errorf("after %d more: %v, want %v less at most a tenth", attempts, got, want)
		}
	}
}

// Secrets stay in their files: the log and the journal hold neither token nor URL.
func TestSecretsAreNotTold(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("to ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rc := newReceiver(t, nil)
	url := rc.URL
	rc.Close()
	for name, o := range map[string]Options{
		"no receiver":   {URL: url + "/path-secret"},
		"bad token":     {URL: url + "/path-secret", TokenFile: token},
		"no token file": {URL: url + "/path-secret", TokenFile: filepath.Join(dir, "none")},
		"no CA file":    {URL: "https://127.0.0.1:1/path-secret", CAFile: filepath.Join(dir, "none")},
		"no PEM":        {URL: "https://127.0.0.1:1/path-secret", CAFile: token},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, o)
			s.run()
			s.alarm("A", "low")
			var n ledger.Notification
			for n.Attempts == 0 {
				changed := s.l.Changed()
				list, err := s.l.Waiting(1)
				if err != nil || len(list) != 1 {
					t.Fatal(list, err)
				}
				if n = list[0]; n.Attempts == 0 {
					<-changed
				}
			}
			s.halt()
			if text := n.Error + s.log.String(); n.Error == "" || strings.Contains(text, "path-secret") || strings.Contains(text, "to ken") {
				t.Errorf("told: %s", text)
			}
		})
	}
}

// https wants a certificate that the CA file vouches for, and for this name.
func TestTrust(t *testing.T) {
	rc := receiverFor(t, nil)
	rc.StartTLS()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rc.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStand(t, Options{URL: rc.URL, CAFile: ca})
	s.run()
	s.alarm("A", "low")
	rc.next(t)
	s.settled(1, ledger.Delivered)

	for name, o := range map[string]Options{
		"the system's roots": {URL: rc.URL},
		"another name":       {URL: strings.Replace(rc.URL, "127.0.0.1", "127.0.0.2", 1), CAFile: ca},
	} {
		o.Timeout = 5 * time.Second
		w := New(nil, o)
		if _, _, err := w.post(context.Background(), &ledger.Notification{}); err == nil || !strings.Contains(err.Error(), "certificate") && !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken is an account that fails.
type broken struct {
	Account
	err  error
	asks chan struct{}
}

func (b *broken) Changed() <-chan struct{} { return nil }
func (b *broken) Waiting(int) ([]ledger.Notification, error) {
	select {
	case b.asks <- struct{}{}:
	default:
	}
	return nil, b.err
}

func TestAccountThatFails(t *testing.T) {
	gone := errors.New("gone")
	b := &broken{err: gone, asks: make(chan struct{}, 1)}
	w := New(b, Options{Fatal: func(err error) bool { return errors.Is(err, gone) }})
	if err := w.Run(context.Background()); !errors.Is(err, gone) {
		t.Errorf("run: %v", err)
	}
	w = New(b, Options{Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	<-b.asks
	go func() { ended <- w.Run(ctx) }()
	<-b.asks
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

// noRoom is an account that has no room for outcomes at first.
type noRoom struct {
	*ledger.Ledger
	mu    sync.Mutex
	fails int
	asked chan struct{}
}

func (n *noRoom) Settle(a []ledger.Attempt) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails > 0 {
		n.fails--
		n.asked <- struct{}{}
		return errors.New("no room")
	}
	return n.Ledger.Settle(a)
}

// An outcome that the account has no room for is kept and not asked for again.
func TestOutcomeWaitsForRoom(t *testing.T) {
	rc := newReceiver(t, nil)
	s := newStand(t, Options{URL: rc.URL})
	s.alarm("A", "low")
	w := New(&noRoom{Ledger: s.l, fails: 2, asked: make(chan struct{}, 2)}, s.o)
	for range 2 {
		if _, err := w.round(context.Background()); err == nil {
			t.Error("round hides that the outcome is not journalled")
		}
	}
	if _, err := w.round(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.settled(1, ledger.Delivered)
	rc.next(t)
	select {
	case c := <-rc.calls:
		t.Errorf("called again: %+v", c)
	default:
	}
}

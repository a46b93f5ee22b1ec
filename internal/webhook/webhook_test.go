package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/ledger"
)

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
	rc := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
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

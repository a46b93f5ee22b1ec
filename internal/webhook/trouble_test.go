package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ledger"
)

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

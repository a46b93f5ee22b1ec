package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestServeOnTCPAndSocketUntilTheContextEnds(t *testing.T) {
	s := newStation(t, nil)
	socket := filepath.Join(t.TempDir(), "s")
	tcp, unix := listen(t, "tcp", "127.0.0.1:0"), listen(t, "unix", socket)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, s.handler, tcp, unix) }()

	overSocket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for client, url := range map[*http.Client]string{
		http.DefaultClient: "http://" + tcp.Addr().String() + "/healthz", overSocket: "http://oxyd/healthz"} {
		r, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Errorf("%s gives %d", url, r.StatusCode)
		}
	}
	stop()
	if err := within(t, ended); err != nil {
		t.Errorf("Serve gives %v, want nil", err)
	}
	if _, err := net.Dial("tcp", tcp.Addr().String()); err == nil {
		t.Error("the address still listens")
	}
}

func TestServeEndsWhenAListenerFails(t *testing.T) {
	s := newStation(t, nil)
	good, bad := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	bad.Close()
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), s.handler, good, bad) }()
	if err := within(t, ended); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve gives %v, want %v", err, net.ErrClosed)
	}
}

func TestServeTellsRunningRequestsThatItEnds(t *testing.T) {
	begun := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		w.WriteHeader(http.StatusAccepted)
	})
	l := listen(t, "tcp", "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	ended, status := make(chan error, 1), make(chan int, 1)
	go func() { ended <- Serve(ctx, h, l) }()
	go func() {
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		r.Body.Close()
		status <- r.StatusCode
	}()
	within(t, begun)
	stop()
	if got := within(t, status); got != http.StatusAccepted {
		t.Errorf("the running request got %d, want its answer", got)
	}
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
}

// TestConnectionsAreBounded: the listener takes no connection beyond its bound
// until one has closed, and gives up waiting when it is closed itself.
func TestConnectionsAreBounded(t *testing.T) {
	inner := listen(t, "tcp", "127.0.0.1:0")
	l := &limitListener{Listener: inner, room: make(chan struct{}, 1), done: make(chan struct{})}
	accepted := make(chan net.Conn)
	failed := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := within(t, accepted)
	if len(l.room) != 1 {
		t.Fatalf("%d places taken, want 1", len(l.room))
	}
	select {
	case <-accepted:
		t.Fatal("a second connection was taken beyond the bound")
	case <-time.After(50 * time.Millisecond): // long enough for the other one, which waits in the backlog
	}
	first.Close()
	first.Close() // gives its place back once
	second := within(t, accepted)
	l.Close()
	if err := within(t, failed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close gives %v, want %v", err, net.ErrClosed)
	}
	second.Close()
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came within 10 s")
		panic("unreachable")
	}
}

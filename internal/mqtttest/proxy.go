package mqtttest

import (
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy in front of a broker. Its links can be cut (reset), or
// frozen: nothing passes and nothing is closed, as when a radio link is gone.
type Proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	refuse bool
	links  map[net.Conn]net.Conn
	count  int
}

// NewProxy starts a proxy to target (host:port) that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{listener: l, target: target, links: map[net.Conn]net.Conn{}}
	p.thawed = sync.NewCond(&p.mu)
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Refuse(true)
		p.Thaw()
		p.Cut()
	})
	return p
}

// Addr returns the host:port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the address for the client's options.
func (p *Proxy) URL() string { return "tcp://" + p.Addr() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.join(client)
	}
}

func (p *Proxy) join(client net.Conn) {
	p.mu.Lock()
	refuse, target := p.refuse, p.target
	p.mu.Unlock()
	if refuse {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.links[client] = server
	p.count++
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { p.copy(client, server) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, client)
	p.mu.Unlock()
}

// copy passes bytes one way, and ends both ways when this one ends.
func (p *Proxy) copy(to, from net.Conn) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.awaitThaw()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) awaitThaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen {
		p.thawed.Wait()
	}
}

// Freeze lets nothing pass, on present and new links, until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	p.frozen = true
	p.mu.Unlock()
}

// Thaw ends Freeze. What was under way when it froze arrives now.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	p.frozen = false
	p.mu.Unlock()
	p.thawed.Broadcast()
}

// Refuse closes new links at once while on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
}

// Target changes where new links go: a broker that came back on another port.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	p.target = addr
	p.mu.Unlock()
}

// Cut resets all links and returns how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for client, server := range p.links {
		for _, c := range []net.Conn{client, server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
	}
	return n
}

// Links returns how many links have been made.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The bounds of serving. At MaxConns a further caller waits in the kernel's
// backlog until one of the others has gone; each listener counts for itself, so
// that a crowd on TCP does not lock the control socket.
const (
	MaxConns        = 64               // open connections of one listener
	maxHeaderBytes  = 16 << 10         // beyond it: 431
	headerTimeout   = 5 * time.Second  // to the end of the headers
	readTimeout     = 15 * time.Second // to the end of the body
	writeTimeout    = 30 * time.Second // to the end of the answer; Record waits 5 s
	idleTimeout     = 60 * time.Second // between two requests
	shutdownTimeout = 5 * time.Second  // for what is being answered at a stop
)

// Serve answers requests on all listeners until ctx ends, which gives nil, or
// until one of them fails. It closes them. What is being answered when ctx ends
// sees its own context end and has shutdownTimeout left.
func Serve(ctx context.Context, h http.Handler, listeners ...net.Listener) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	g, stopped := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error {
			err := server.Serve(&limitListener{Listener: l, room: make(chan struct{}, MaxConns), done: make(chan struct{})})
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
		})
	}
	g.Go(func() error {
		<-stopped.Done()
		// Not a child of ctx, which has ended.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			return server.Close() // who has not finished by now is cut off
		}
		return nil
	})
	return g.Wait()
}

// limitListener accepts no more than cap(room) connections at a time.
type limitListener struct {
	net.Listener
	room chan struct{}

	close sync.Once
	done  chan struct{} // closed with the listener
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitConn{Conn: c, release: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limitListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type limitConn struct {
	net.Conn
	release func()
}

func (c *limitConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

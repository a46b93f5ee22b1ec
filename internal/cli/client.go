package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
)

const (
	// requestTimeout bounds one question; the daemon itself waits 5 s for the
	// ledger's word on a recorded event.
	requestTimeout = 30 * time.Second

	// maxAnswerBytes bounds what is read of an answer: thrice the sources of the
	// greatest allowed base.
	maxAnswerBytes = 64 << 20
)

// client asks the running daemon over its control socket.
type client struct {
	socket string
	http   *http.Client
}

// dial makes the client of the daemon that the config describes. Nothing is sent
// yet.
func (f *configFlag) dial() (*client, error) {
	cfg, _, err := f.load()
	if err != nil {
		return nil, err
	}
	return clientOf(cfg), nil
}

func clientOf(cfg *config.Config) *client {
	socket := filepath.Join(cfg.DataDir, daemon.SocketFile)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	return &client{socket, &http.Client{Transport: transport, Timeout: requestTimeout}}
}

// refusal is an answer that says no.
type refusal struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
	Advice  string `json:"hint"`
}

func (r *refusal) Error() string { return r.Message }
func (r *refusal) Hint() string  { return r.Advice }

// unreached says that the daemon was not reached, so that nothing has happened.
type unreached struct {
	text, hint string
	nobody     bool // no daemon runs there; else one may, and cannot be asked
}

func (u *unreached) Error() string { return u.text }
func (u *unreached) Hint() string  { return u.hint }

// noDaemon reports whether the error says that no daemon runs, so that nobody else
// reads the chips.
func noDaemon(err error) bool {
	u, ok := errors.AsType[*unreached](err)
	return ok && u.nobody
}

// get asks for a document and gives its text, and in doc what it says.
func (c *client) get(ctx context.Context, path string, doc any) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, nil, doc)
}

func (c *client) post(ctx context.Context, path string, body []byte, doc any) ([]byte, error) {
	return c.do(ctx, http.MethodPost, path, body, doc)
}

func (c *client) do(ctx context.Context, method, path string, body []byte, doc any) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://oxyd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.whyNot(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	if len(text) > maxAnswerBytes {
		return nil, fmt.Errorf("the daemon's answer has more than %d bytes", maxAnswerBytes)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		no := &refusal{Status: answer.StatusCode}
		if err := json.Unmarshal(text, no); err != nil || no.Message == "" {
			no.Message = "the daemon answered " + answer.Status
		}
		return nil, no
	}
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return text, nil
}

// whyNot tells why there is no answer, and what to do.
func (c *client) whyNot(err error) error {
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || dial.Op != "dial" {
		return fmt.Errorf("ask the daemon at %s: %w", c.socket, err)
	}
	u := &unreached{text: fmt.Sprintf("reach the daemon at %s: %v", c.socket, dial.Err)}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		u.text, u.nobody = "no daemon runs at "+c.socket, true
		u.hint = "start it with: oxyd run (with the same config; a relative data_dir counts from the working directory)"
	case errors.Is(err, fs.ErrPermission):
		u.hint = "the socket file's rights decide who may ask: use the daemon's user or group, or root"
	case errors.Is(err, syscall.EINVAL):
		u.hint = "the path of a socket has at most 107 bytes: use a shorter data_dir"
	}
	return u
}

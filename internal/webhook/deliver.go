package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"oxyd/ledger"
)

const (
	maxAnswerBytes = 4 << 10 // read of an answer, so that the connection can be used again
	maxHeaderBytes = 64 << 10
	maxTokenBytes  = 4 << 10
	maxCABytes     = 1 << 20
)

// Document is the body of a delivery. Its receiver needs no more than `text`.
type Document struct {
	Version     int             `json:"v"`  // 1
	ID          string          `json:"id"` // the Idempotency-Key
	Site        string          `json:"site"`
	Ledger      string          `json:"ledger"`
	Incarnation uint64          `json:"incarnation"`
	Number      uint64          `json:"number"`
	Kind        string          `json:"kind"`    // ledger.Kinds
	Subject     string          `json:"subject"` // what it is about: a tank, a reason
	Text        string          `json:"text"`    // one sentence for a person
	Detail      json.RawMessage `json:"detail,omitempty"`
	Count       uint64          `json:"count"` // how many of its like it stands for
	First       time.Time       `json:"first"`
	Last        time.Time       `json:"last"`
}

// key is what a receiver recognises a repeat by: {ledger}-{incarnation}-{number}.
func (w *Webhook) key(n *ledger.Notification) string {
	return w.o.Ledger + "-" + strconv.FormatUint(n.Incarnation, 10) + "-" + strconv.FormatUint(n.Number, 10)
}

// attempt delivers one notification once and says what became of it. It is left
// waiting whenever a later attempt could do better.
func (w *Webhook) attempt(ctx context.Context, n *ledger.Notification) ledger.Attempt {
	status, after, err := w.post(ctx, n)
	a := ledger.Attempt{Number: n.Number, At: time.Now(), State: stateOf(status), Status: status}
	if err != nil {
		a.State, a.Error = ledger.Waiting, err.Error()
	} else if a.State != ledger.Delivered {
		a.Error = strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	}
	if ctx.Err() == nil {
		w.note(n, &a, after)
	}
	return a
}

// stateOf says what an answer means. What the receiver calls the caller's fault
// will not get better by repeating it, but for a timeout, a too early and a too
// many (RFC 9110 section 15.5, RFC 8470, RFC 6585). A redirect is not followed: the
// token is not for whoever it names.
func stateOf(status int) string {
	switch {
	case status >= 200 && status < 300:
		return ledger.Delivered
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests:
		return ledger.Waiting
	case status >= 400 && status < 500:
		return ledger.Refused
	}
	return ledger.Waiting
}

// note sets the pauses that follow, and tells the log what has changed.
func (w *Webhook) note(n *ledger.Notification, a *ledger.Attempt, after time.Duration) {
	delete(w.retry, n.Number)
	if a.State == ledger.Refused {
		w.o.Log.Warn().Str("id", w.key(n)).Str("kind", n.Kind).Str("error", a.Error).Msg("webhook's receiver refuses a notification, it is not sent again")
		return
	}
	if a.State == ledger.Delivered {
		if w.failing {
			w.failing = false
			w.o.Log.Info().Msg("webhook's receiver takes notifications again")
		}
		return
	}
	now := time.Now()
	w.rest = now.Add(w.o.RetryMin)
	w.retry[n.Number] = now.Add(max(w.backoff(n.Attempts), min(after, w.o.RetryMax)))
	if !w.failing {
		w.failing = true
		w.o.Log.Warn().Str("error", a.Error).Msg("webhook's receiver takes no notifications, they wait")
	}
}

// backoff is the pause after the attempt that follows so many: it doubles from
// RetryMin to RetryMax, and a tenth of it is chance.
func (w *Webhook) backoff(attempts uint64) time.Duration {
	pause := w.o.RetryMax
	if attempts < 30 {
		pause = min(w.o.RetryMin<<attempts, w.o.RetryMax)
	}
	return pause - time.Duration(rand.Int64N(int64(pause)/10+1))
}

// post makes one request. after is what the receiver asks to wait for. Its error
// never holds the URL, in which some receivers want a secret.
func (w *Webhook) post(ctx context.Context, n *ledger.Notification) (status int, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	key := w.key(n)
	body, err := json.Marshal(Document{Version: 1, ID: key, Site: w.o.Site, Ledger: w.o.Ledger, Incarnation: n.Incarnation,
		Number: n.Number, Kind: n.Kind, Subject: n.Subject, Text: n.Text, Detail: n.Detail, Count: n.Count, First: n.First, Last: n.Last})
	if err != nil {
		return 0, 0, fmt.Errorf("write document: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, 0, errors.New("the URL is not one")
	}
	// Not one that the transport repeats by itself on a lost connection: the
	// attempts are counted here.
	r.GetBody = nil
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("User-Agent", "oxyd/"+w.o.Version)
	if w.o.TokenFile != "" {
		token, err := readToken(w.o.TokenFile)
		if err != nil {
			return 0, 0, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client, err := w.trusting()
	if err != nil {
		return 0, 0, err
	}
	answer, err := client.Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, 0, fmt.Errorf("no answer within %v", w.o.Timeout)
	}
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswerBytes) // the status is the answer
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16); err == nil {
		after = time.Duration(seconds) * time.Second
	}
	return answer.StatusCode, after, nil
}

// readToken reads the one line of a token file.
func readToken(path string) (string, error) {
	text, err := readBounded(path, maxTokenBytes)
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("read token file: %s does not hold one line of printable ASCII", path)
	}
	return token, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// newClient makes the client of one receiver: no redirects, one connection, a proxy
// where the environment names one. Without roots the system's are trusted.
func newClient(o *Options, roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1, MaxIdleConns: 1,
			IdleConnTimeout: 30 * time.Second, DisableKeepAlives: roots != nil, MaxResponseHeaderBytes: maxHeaderBytes,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// trusting gives the client of one attempt. A CA file is read each time, so that an
// exchanged one is taken up and a missing one costs a delivery and not the start.
func (w *Webhook) trusting() (*http.Client, error) {
	if w.o.CAFile == "" {
		return w.client, nil
	}
	text, err := readBounded(w.o.CAFile, maxCABytes)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read CA file: %s holds no PEM certificate", w.o.CAFile)
	}
	return newClient(&w.o, roots), nil
}

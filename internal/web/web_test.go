package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/event"
	"oxyd/ledger"
)

// station is a handler on a real account, whose way from Record to ledger is one
// call: what lies between is not this package's.
type station struct {
	t       *testing.T
	account *ledger.Ledger
	board   Board
	handler http.Handler
	log     *lockedLog
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newStation(t *testing.T, set func(*station)) *station {
	t.Helper()
	initial := 847 * physic.Gram
	account, err := ledger.Open(ledger.Options{Path: filepath.Join(t.TempDir(), "ledger.bolt"), Log: zerolog.Nop(),
		Tanks: []ledger.Tank{{ID: "A", Name: "Reserve tank", Capacity: 1000 * physic.Gram, Initial: &initial}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := account.Check(); err != nil {
			t.Errorf("check at the end: %v", err)
		}
		account.Close()
	})
	s := &station{t: t, account: account, log: &lockedLog{}}
	s.board = Board{Version: "v1.2.3", Source: "ctl-1", Account: account, Record: s.record,
		Status: func() (any, error) { return account.Status() },
		Node:   func() any { return map[string]string{"status": "online", "node": "ctl-1"} }}
	if set != nil {
		set(s)
	}
	s.handler = New(s.board, zerolog.New(s.log))
	return s
}

func (s *station) record(_ context.Context, r Record) (Answer, error) {
	results, err := s.account.Apply([]ledger.Delivery{{Event: r.Event, Topic: "t", Payload: []byte("p")}})
	if err != nil {
		return Answer{}, err
	}
	doc, _, err := s.account.Balance(r.Event.Tank)
	return Answer{EventID: r.Event.ID, Source: r.Event.Source, Tank: r.Event.Tank, Outcome: results[0].Outcome.String(),
		Reason: string(results[0].Reason), Balance: &doc}, err
}

// poison puts a message that is no event into quarantine.
func (s *station) poison(topic string, payload []byte) {
	s.t.Helper()
	_, err := s.account.Apply([]ledger.Delivery{{Topic: topic, Payload: payload,
		Form: &event.FormError{Reason: event.Malformed, Detail: "want a JSON object"}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *station) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8686"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func (s *station) get(target string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.do("GET", target, "")
}

func (s *station) post(body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.do("POST", "/api/events", body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// decode reads a document and wants it to be JSON with its status.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var doc T
	if w.Code != status {
		t.Fatalf("status %d, want %d; body %s", w.Code, status, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q, want application/json", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	return doc
}

const exampleOfRecord = `{"type":"OxygenConsumed","event_id":"e-8842","tank":"A","amount":120}`

func TestDocuments(t *testing.T) {
	s := newStation(t, nil)
	decode[Answer](t, s.post(exampleOfRecord), 200)

	tanks := decode[[]ledger.Balance](t, s.get("/api/tanks"), 200)
	if len(tanks) != 1 || tanks[0].Tank != "A" || tanks[0].Balance.String() != "727 g" {
		t.Errorf("tanks %+v, want A with 727 g", tanks)
	}
	one := decode[ledger.Balance](t, s.get("/api/tanks/A"), 200)
	if diff := cmp.Diff(tanks[0], one, cmp.Comparer(func(a, b ledger.Sum) bool { return a == b })); diff != "" {
		t.Errorf("the tank alone differs from the list (-list +alone):\n%s", diff)
	}
	events := decode[[]ledger.Record](t, s.get("/api/tanks/A/events"), 200)
	if len(events) != 1 || events[0].EventID != "e-8842" || events[0].Outcome != ledger.Applied.String() {
		t.Errorf("events %+v, want e-8842, applied", events)
	}
	sources := decode[[]ledger.Source](t, s.get("/api/sources"), 200)
	if len(sources) != 1 || sources[0].Source != "ctl-1" {
		t.Errorf("sources %+v, want ctl-1", sources)
	}
	status := decode[ledger.Status](t, s.get("/api/status"), 200)
	if status.Outcomes[ledger.Applied] != 1 || status.Digest == "" {
		t.Errorf("status %+v, want one applied and a digest", status)
	}
	if node := decode[map[string]string](t, s.get("/api/node"), 200); node["node"] != "ctl-1" {
		t.Errorf("node %v, want ctl-1", node)
	}
	if got := decode[[]Kept](t, s.get("/api/quarantine"), 200); len(got) != 0 {
		t.Errorf("quarantine %v, want none", got)
	}
}

func TestListsAreNeverNull(t *testing.T) {
	s := newStation(t, nil)
	for _, path := range []string{"/api/sources", "/api/quarantine", "/api/tanks/A/events"} {
		if got := strings.TrimSpace(s.get(path).Body.String()); got != "[]" {
			t.Errorf("GET %s gives %s, want []", path, got)
		}
	}
}

func TestUnknownAndWrongRequests(t *testing.T) {
	s := newStation(t, nil)
	for _, c := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{"GET", "/api/tanks/B", 404, ""},
		{"GET", "/api/tanks/B/events", 404, ""},
		{"GET", "/api/nothing", 404, ""},
		{"GET", "/favicon.ico", 404, ""},
		{"GET", "/api/tanks/A/events?limit=0", 400, ""},
		{"GET", "/api/tanks/A/events?limit=1001", 400, ""},
		{"GET", "/api/quarantine?limit=x", 400, ""},
		{"GET", "/api/quarantine/abc", 400, ""},
		{"GET", "/api/quarantine/zzzzzzzz", 400, ""},
		{"GET", "/api/quarantine/abcdef01", 404, ""},
		{"GET", "/api/events", 400, ""},
		{"GET", "/api/events?event_id=never", 404, ""},
		{"DELETE", "/api/tanks", 405, "GET, HEAD"},
		{"PUT", "/api/events", 405, "GET, HEAD, POST"},
		{"POST", "/", 405, "GET, HEAD"},
	} {
		w := s.do(c.method, c.target, "")
		doc := decode[failure](t, w, c.status)
		if doc.Error == "" {
			t.Errorf("%s %s: no error in %s", c.method, c.target, w.Body)
		}
		if got := w.Header().Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.target, got, c.allow)
		}
	}
	if w := s.do("HEAD", "/api/tanks", ""); w.Code != 200 {
		t.Errorf("HEAD /api/tanks gives %d, want 200", w.Code)
	}
}

func TestRolesThatAreOffSaySo(t *testing.T) {
	s := newStation(t, func(s *station) { s.board = Board{Version: "v1"} })
	for _, path := range []string{"/api/status", "/api/node", "/api/tanks", "/api/tanks/A", "/api/tanks/A/events",
		"/api/sources", "/api/quarantine", "/api/quarantine/abcdef", "/api/events?event_id=x"} {
		doc := decode[failure](t, s.get(path), 404)
		if !strings.HasPrefix(doc.Error, "this node has no ") || doc.Hint == "" {
			t.Errorf("GET %s: %+v, want that this node has none, and a hint", path, doc)
		}
	}
	if doc := decode[failure](t, s.get("/api/tanks"), 404); doc.Error != "this node has no ledger" {
		t.Errorf("tanks without a ledger: %q", doc.Error)
	}
	decode[failure](t, s.post(exampleOfRecord), 404)
	if w := s.get("/metrics"); w.Code != 200 || !strings.Contains(w.Body.String(), "oxyd_build_info") {
		t.Errorf("metrics without a ledger: %d %s", w.Code, w.Body)
	}
}

func TestHealthAndReadiness(t *testing.T) {
	var ready error
	s := newStation(t, func(s *station) { s.board.Ready = func() error { return ready } })
	decode[map[string]string](t, s.get("/readyz"), 200)
	ready = errors.New("broker tcp://127.0.0.1:1883 is not reached")
	doc := decode[failure](t, s.get("/readyz"), 503)
	if !strings.Contains(doc.Error, ready.Error()) {
		t.Errorf("readyz %q, want the reason", doc.Error)
	}
	decode[map[string]string](t, s.get("/healthz"), 200)
}

func TestOwnErrorsAreLoggedAndAnswered(t *testing.T) {
	s := newStation(t, func(s *station) {
		s.board.Status = func() (any, error) { return nil, errors.New("disk on fire") }
		s.board.Node = func() any { panic("no node") }
	})
	decode[failure](t, s.get("/api/status"), 500)
	decode[failure](t, s.get("/api/node"), 500)
	for _, want := range []string{"disk on fire", "no node"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("log %q lacks %q", s.log, want)
		}
	}
}

// TestQuarantineShowsHostileBytesSafely: a stranger's message may hold anything.
func TestQuarantineShowsHostileBytesSafely(t *testing.T) {
	s := newStation(t, nil)
	payloads := []string{"\x1b]0;owned\a\x9b31m", "</script><script>alert(1)</script>", "\u009b2J\u202egnp.exe\x7f", "😀\U000e0001", "\xff\xfe\x00"}
	for _, p := range payloads {
		s.poison("oxyd/base/tank/A/\u202econsumed", []byte(p))
	}
	list := decode[[]Kept](t, s.get("/api/quarantine"), 200)
	if len(list) != len(payloads) {
		t.Fatalf("%d kept, want %d", len(list), len(payloads))
	}
	for i, k := range list {
		if k.Payload != "" || k.Text != "" || k.Bytes == 0 {
			t.Errorf("listing %+v, want the size of the payload alone", k)
		}
		w := s.get("/api/quarantine/" + k.ID[:8])
		want := payloads[len(payloads)-1-i] // newest first
		one := decode[struct {
			Kept
			Payload []byte `json:"payload"`
		}](t, w, 200)
		if string(one.Payload) != want {
			t.Errorf("payload %q, want %q", one.Payload, want)
		}
		if wantText := strings.ToValidUTF8(want, ""); wantText == want && one.Text != want || wantText != want && one.Text != "" {
			t.Errorf("text %q of payload %q", one.Text, want)
		}
		for _, r := range w.Body.String() {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\U000e0001' || r == '<') {
				t.Errorf("raw %U in the answer %q", r, w.Body)
			}
		}
	}
}

func TestGuardAgainstBrowsers(t *testing.T) {
	s := newStation(t, nil)
	for host, status := range map[string]int{
		"127.0.0.1:8686": 200, "localhost:8686": 200, "[::1]:8686": 200, "10.0.0.7": 200, "oxyd": 200, "LocalHost": 200,
		"habitat.local:8686": 200, "board.internal": 200, "base.home.arpa.": 200, "x.localhost": 200,
		"evil.example:8686": 421, "127.0.0.1.nip.io": 421, "local": 200, "evillocal.com": 421, "": 421, "a.local.evil.com": 421,
	} {
		if got := s.do("GET", "/api/tanks", "", "Host", host).Code; got != status {
			t.Errorf("Host %q: %d, want %d", host, got, status)
		}
	}
	for _, c := range []struct {
		name    string
		status  int
		headers []string
	}{
		{"a form of another site", 403, []string{"Origin", "https://evil.example"}},
		{"another site by fetch metadata", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"the own page", 200, []string{"Origin", "http://127.0.0.1:8686", "Sec-Fetch-Site", "same-origin"}},
		{"a program", 200, nil},
	} {
		if w := s.post(exampleOfRecord, c.headers...); w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
	}
	if got := s.get("/api/tanks").Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q", got)
	}
}

func TestLargestBodyAndOneMore(t *testing.T) {
	s := newStation(t, nil)
	head := `{"type":"consumed","event_id":"big","tank":"A","amount":1,"note":"`
	fill := func(n int) string { return head + strings.Repeat("x", n-len(head)-2) + `"}` }
	if w := s.post(fill(event.MaxBytes - 64)); w.Code != 200 {
		t.Errorf("just below the bound: %d %s", w.Code, w.Body)
	}
	decode[failure](t, s.post(fill(event.MaxBytes)), 413) // the type and the source do not fit any more
	decode[failure](t, s.post(fill(event.MaxBytes+1)), 413)

	endless := &endlessBody{}
	r := httptest.NewRequest("POST", "/api/events", endless)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	decode[failure](t, w, 413)
	if endless.read > 4*event.MaxBytes {
		t.Errorf("%d bytes were read of a body that is too large", endless.read)
	}
}

// endlessBody gives up at 64 MiB, which is far beyond any bound.
type endlessBody struct{ read int }

func (b *endlessBody) Read(p []byte) (int, error) {
	if b.read > 64<<20 {
		return 0, io.EOF
	}
	b.read += len(p)
	return copy(p, strings.Repeat(" ", len(p))), nil
}

// TestEscapeKeepsMeaning: whatever text goes in, the same comes out of a JSON
// reader, and nothing in between is unprintable.
func TestEscapeKeepsMeaning(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x30000; r += 7 {
		all.WriteRune(r)
	}
	all.WriteString("\u0085\u009b\u2028\ufeff\U000e0001\U0010ffff")
	text, err := json.Marshal(all.String())
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(escape(text), &got); err != nil || got != all.String() {
		t.Errorf("text changed on its way (%v)", err)
	}
	for _, r := range string(escape(text)) {
		if !unicode.IsPrint(r) {
			t.Fatalf("%U is left", r)
		}
	}
}

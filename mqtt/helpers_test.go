package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

// memQueue is a Queue in memory. What it holds outlives a Publisher, as a file
// outlives a process. It checks how it is called.
type memQueue struct {
	mu       sync.Mutex
	rows     []Outgoing // pending, ascending
	last     uint64
	handed   map[uint64]bool // marked as handed over
	times    map[uint64]int  // how often each row was confirmed
	broken   []string        // rules that its caller broke
	failNext func() error
	onCommit func(rows []uint64) error // before Confirm takes effect
	wake     chan struct{}
}

func newMemQueue() *memQueue {
	return &memQueue{handed: map[uint64]bool{}, times: map[uint64]int{}, wake: make(chan struct{}, 1)}
}

func (q *memQueue) add(topic string, n int) {
	q.mu.Lock()
	for range n {
		q.last++
		q.rows = append(q.rows, Outgoing{Row: q.last, Topic: topic, Payload: fmt.Appendf(nil, "%d", q.last)})
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *memQueue) Next(after uint64, max int) ([]Outgoing, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failNext != nil {
		if err := q.failNext(); err != nil {
			return nil, err
		}
	}
	from := sort.Search(len(q.rows), func(i int) bool { return q.rows[i].Row > after })
	out := slices.Clone(q.rows[from:min(len(q.rows), from+max)])
	for _, m := range out {
		q.handed[m.Row] = true
	}
	return out, nil
}

func (q *memQueue) Confirm(rows []uint64) error {
	q.mu.Lock()
	commit := q.onCommit
	q.mu.Unlock()
	if commit != nil {
		if err := commit(rows); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.IsSorted(rows) || len(rows) == 0 || len(rows) > confirmMax {
		q.broken = append(q.broken, fmt.Sprintf("Confirm(%d rows, sorted %v)", len(rows), slices.IsSorted(rows)))
	}
	for _, row := range rows {
		if !q.handed[row] {
			q.broken = append(q.broken, fmt.Sprintf("row %d confirmed and never handed over", row))
		}
		q.times[row]++
	}
	for i, row := range rows { // always the first ones: nothing is confirmed out of turn
		if i >= len(q.rows) || q.rows[i].Row != row {
			q.broken = append(q.broken, fmt.Sprintf("row %d confirmed out of turn", row))
			return nil
		}
	}
	q.rows = q.rows[len(rows):]
	return nil
}

func (q *memQueue) Wake() <-chan struct{} { return q.wake }

func (q *memQueue) pending() []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var rows []uint64
	for _, m := range q.rows {
		rows = append(rows, m.Row)
	}
	return rows
}

func (q *memQueue) commits(commit func([]uint64) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onCommit = commit
}

// check fails the test if a rule of Queue was broken.
func (q *memQueue) check(t *testing.T) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.broken {
		t.Errorf("queue misused: %s", b)
	}
	for row, n := range q.times {
		if n != 1 {
			t.Errorf("row %d confirmed %d times, want once", row, n)
		}
	}
}

// calm is options with a keepalive that the embedded broker can stand: of 1 s it
// makes a deadline of 1 s, not 1.5 (it truncates before it multiplies).
func calm(url, id string) Options {
	o := options(url, id)
	o.KeepAlive = 2 * time.Second
	return o
}

// options are fast ones for a broker at url.
func options(url, id string) Options {
	return Options{
		Broker: url, ClientID: id,
		KeepAlive: time.Second, ConnectTimeout: 5 * time.Second, WriteTimeout: time.Second, AckTimeout: 5 * time.Second,
		BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	}
}

func presence(topic string) Presence {
	return Presence{
		Topic:   topic,
		Birth:   func() []byte { return []byte("online") },
		Will:    func() []byte { return []byte("offline will") },
		Goodbye: func() []byte { return []byte("offline shutdown") },
	}
}

// logTo writes a client's log into the test's, which shows it on failure.
func logTo(t *testing.T) zerolog.Logger {
	var w io.Writer = &testWriter{t: t}
	t.Cleanup(func() { w.(*testWriter).stop() })
	return zerolog.New(w).Level(zerolog.DebugLevel)
}

type testWriter struct {
	mu sync.Mutex
	t  *testing.T
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (w *testWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}

// running is a Publisher or Subscriber at work.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, run func(context.Context) error) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop ends it as SIGTERM does, and waits.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		r.done <- err
		if err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	case <-time.After(mqtttest.Patience):
		t.Errorf("Run has not returned %v after the stop", mqtttest.Patience)
	}
}

func startPublisher(t *testing.T, o Options, q Queue, p Presence) (*Publisher, *running) {
	t.Helper()
	pub := NewPublisher(o, q, p, logTo(t))
	return pub, start(t, pub.Run)
}

// recorder is a handler that notes what it gets and acknowledges it.
type recorder struct {
	mu       sync.Mutex
	all      []Delivery
	first    []string // payloads in the order of their first delivery
	seen     map[string]bool
	beforeOK func() // before the acknowledgements of a batch
}

func newRecorder() *recorder { return &recorder{seen: map[string]bool{}} }

func (r *recorder) handle(ctx context.Context, box *Mailbox) error {
	for {
		batch, err := box.Take(ctx, 500)
		if err != nil {
			return err
		}
		r.mu.Lock()
		before := r.beforeOK
		for _, d := range batch {
			r.all = append(r.all, d)
			if p := string(d.Payload); !r.seen[p] {
				r.seen[p] = true
				r.first = append(r.first, p)
			}
		}
		r.mu.Unlock()
		if before != nil {
			before()
		}
		for i := range batch {
			batch[i].Ack()
		}
	}
}

func (r *recorder) firsts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.first)
}

func (r *recorder) deliveries() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func numbers(from, to int) []string {
	var s []string
	for i := from; i <= to; i++ {
		s = append(s, fmt.Sprint(i))
	}
	return s
}

func startSubscriber(t *testing.T, o Options, filter string, handle func(context.Context, *Mailbox) error) (*Subscriber, *running) {
	t.Helper()
	sub := NewSubscriber(o, []string{filter}, nil, handle, logTo(t))
	return sub, start(t, sub.Run)
}

// watch subscribes with a client of its own and returns what it receives.
func watch(t *testing.T, url, filter string) *recorder {
	t.Helper()
	r := newRecorder()
	sub, _ := startSubscriber(t, calm(url, fmt.Sprintf("watch-%d", time.Now().UnixNano())), filter, r.handle)
	mqtttest.Eventually(t, "the watcher's subscription", func() bool { return sub.Status().Subscribed })
	return r
}

// awaitRetained asks as a late subscriber until the topic's value is want.
func awaitRetained(t *testing.T, url, topic, want string) {
	t.Helper()
	deadline := time.Now().Add(mqtttest.Patience)
	var got string
	for time.Now().Before(deadline) {
		got = retainedNow(t, url, topic)
		if got == want {
			return
		}
	}
	t.Errorf("retained %s is %q, want %q", topic, got, want)
}

// retainedNow returns what a late subscriber gets for a topic.
func retainedNow(t *testing.T, url, topic string) string {
	t.Helper()
	got := make(chan string, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	sub := NewSubscriber(calm(url, fmt.Sprintf("late-%d", time.Now().UnixNano())), []string{topic}, nil,
		func(ctx context.Context, box *Mailbox) error {
			batch, err := box.Take(ctx, 1)
			if err != nil {
				return err
			}
			batch[0].Ack()
			if batch[0].Retained { // else it is news: not late enough
				got <- string(batch[0].Payload)
			}
			cancel()
			return nil
		}, zerolog.Nop())
	if err := sub.Run(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-got:
		return s
	default:
		return ""
	}
}

// payloads reads n publishes of rows without answering.
func payloads(t *testing.T, peer *mqtttest.Peer, n int) (ids []uint16, got []string) {
	t.Helper()
	for range n {
		m := peer.NextPublish(t)
		ids, got = append(ids, m.MessageID), append(got, string(m.Payload))
	}
	return ids, got
}

func quiet(t *testing.T, peer *mqtttest.Peer, d time.Duration) {
	t.Helper()
	if p := peer.TryPacket(d); p != nil {
		t.Fatalf("got packet %v, want none", p)
	}
}

var errDisk = errors.New("no space left on device")

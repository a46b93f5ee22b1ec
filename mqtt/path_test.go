package mqtt

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"oxyd/internal/mqtttest"
)

var cutSeed = flag.Uint64("cuts.seed", 0, "seed of TestRandomCuts; 0 draws one")

// The node is another process, so that kill -9 is one.
func TestFC81WillAndBirthOnOneTopic(t *testing.T) {
	t.Parallel()
	eachBroker(t, nil, func(t *testing.T, b anyBroker) {
		node := startChild(t, "publisher", b.url)
		awaitRetained(t, b.url, "node/status", "online")
		killed := time.Now()
		node.kill()
		awaitRetained(t, b.url, "node/status", "offline will")
		if took, most := time.Since(killed), 3*time.Second; took > most {
			t.Errorf("the will came after %v, want at most %v: 1.5 × keepalive", took, most)
		}
		startChild(t, "publisher", b.url)
		awaitRetained(t, b.url, "node/status", "online")
	})
}

// A link that is silently gone tells the same, by the broker's keepalive.
func TestFC81SilentLoss(t *testing.T) {
	t.Parallel()
	broker := mqtttest.StartMosquitto(t)
	proxy := mqtttest.NewProxy(t, broker.Addr())
	startPublisher(t, options(proxy.URL(), "node-pub"), newMemQueue(), presence("node/status"))
	awaitRetained(t, broker.URL(), "node/status", "online")
	proxy.Freeze()
	awaitRetained(t, broker.URL(), "node/status", "offline will")
	proxy.Thaw()
	awaitRetained(t, broker.URL(), "node/status", "online")
}

func TestFC82CleanStopSaysOffline(t *testing.T) {
	t.Parallel()
	eachBroker(t, nil, func(t *testing.T, b anyBroker) {
		node := startChild(t, "publisher", b.url)
		awaitRetained(t, b.url, "node/status", "online")
		node.stop()
		if got, want := retainedNow(t, b.url, "node/status"), "offline shutdown"; got != want {
			t.Errorf("right after the end the status is %q, want %q", got, want)
		}
		p := presence("ledger/status")
		sub := NewSubscriber(calm(b.url, "base-ledger"), []string{"a"}, &p, newRecorder().handle, logTo(t))
		r := start(t, sub.Run)
		awaitRetained(t, b.url, "ledger/status", "online")
		r.stop(t)
		if got, want := retainedNow(t, b.url, "ledger/status"), "offline shutdown"; got != want {
			t.Errorf("right after the stop the ledger's status is %q, want %q", got, want)
		}
	})
}

// Publisher, broker and subscriber, each behind a link that is cut at random:
// every row arrives; through mosquitto also in order, seen by first deliveries.
func TestRandomCuts(t *testing.T) {
	t.Parallel()
	seed := *cutSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	mosquitto := []string{"max_inflight_messages 1000", "max_queued_messages 100000"}
	eachBroker(t, mosquitto, func(t *testing.T, b anyBroker) {
		t.Logf("repeat with -cuts.seed=%d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		addr := strings.TrimPrefix(b.url, "tcp://")
		up, down := mqtttest.NewProxy(t, addr), mqtttest.NewProxy(t, addr)
		rows := 5000
		if strings.HasSuffix(t.Name(), "embedded") {
			rows = 1000 // one fsync each
		}
		got := newRecorder()
		sub, _ := startSubscriber(t, calm(down.URL(), "base-ledger"), "a", got.handle)
		mqtttest.Eventually(t, "the subscription", func() bool { return sub.Status().Subscribed })
		q := newMemQueue()
		pub, _ := startPublisher(t, calm(up.URL(), "n-pub"), q, presence("s"))
		q.add("a", rows)

		ctx, stop := context.WithCancel(context.Background())
		var cutting sync.WaitGroup
		cutting.Go(func() { cutAtRandom(ctx, rng, up, down) })
		mqtttest.Eventually(t, "some cuts", func() bool { return pub.Status().Connects > 3 && sub.Status().Connects > 3 })
		stop()
		cutting.Wait()
		mqtttest.Eventually(t, "all rows at the subscriber", func() bool { return len(got.firsts()) == rows })
		mqtttest.Eventually(t, "all rows to be confirmed", func() bool { return len(q.pending()) == 0 })
		q.check(t)
		t.Logf("%d and %d connects, %d rows, %d resent, %d deliveries",
			pub.Status().Connects, sub.Status().Connects, rows, pub.Counts().Resent, len(got.deliveries()))
		if strings.HasSuffix(t.Name(), "mosquitto") {
			if diff := cmp.Diff(numbers(1, rows), got.firsts()); diff != "" {
				t.Errorf("seed %d: first deliveries (-want +got):\n%s", seed, diff)
			}
		}
	})
}

func cutAtRandom(ctx context.Context, rng *rand.Rand, links ...*mqtttest.Proxy) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(1+rng.IntN(60)) * time.Millisecond):
			links[rng.IntN(len(links))].Cut()
		}
	}
}

package mqtt

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"oxyd/internal/mqtttest"
)

func TestFetchReadsWhatIsRetained(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"mosquitto": mqtttest.StartMosquitto(t).URL(),
		"embedded":  "tcp://" + startBroker(t, BrokerOptions{}).Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub, running := startPublisher(t, calm(url, "n-pub"), newMemQueue(), Presence{})
			for _, topic := range []string{"l/main/status", "l/main/confirm/a", "l/main/confirm/b", "l/other/status"} {
				if err := pub.SetRetained(topic, []byte(topic)); err != nil {
					t.Fatal(err)
				}
			}
			mqtttest.Eventually(t, "the documents to be taken", func() bool { return pub.Counts().RetainedUndelivered == 0 })
			running.stop(t)
			got, err := Fetch(context.Background(), calm(url, "n-pub"), []string{"l/main/status", "l/main/confirm/+"}, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]byte{}
			for _, topic := range []string{"l/main/status", "l/main/confirm/a", "l/main/confirm/b"} {
				want[topic] = []byte(topic)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fetched (-want +got):\n%s", diff)
			}
			got, err = Fetch(context.Background(), calm(url, "n-pub"), []string{"nothing/+"}, zerolog.Nop())
			if err != nil || len(got) != 0 {
				t.Errorf("fetched %v, %v, want nothing", got, err)
			}
		})
	}
}

func TestFetchTellsARefusalFromANotReached(t *testing.T) {
	t.Parallel()
	fake := mqtttest.Listen(t)
	failed := make(chan error, 1)
	go func() {
		_, err := Fetch(context.Background(), options(fake.URL(), "x"), []string{"a"}, zerolog.Nop())
		failed <- err
	}()
	peer := fake.Accept(t, false)
	peer.Suback(peer.NextSubscribe(t), 0x80)
	if err := <-failed; !errors.Is(err, ErrSubscriptionRefused) {
		t.Errorf("refused: got %v, want ErrSubscriptionRefused", err)
	}
	o := options("tcp://127.0.0.1:1", "x")
	if _, err := Fetch(context.Background(), o, []string{"a"}, zerolog.Nop()); err == nil || errors.Is(err, ErrSubscriptionRefused) {
		t.Errorf("no broker: got %v, want another error", err)
	}
}

// Command bench measures what oxyd costs on this machine, everything it compares
// in the same run:
//
//	go run ./bench delivery   events/s through a real mosquitto: the subscriber that
//	                          commits to the account before it acknowledges, against
//	                          the same subscriber that acknowledges at once
//	go run ./bench process    start to first reading, and resident memory of an idle
//	                          all-in-one process, from a built program
//	go run ./bench wear       processor time and bytes written of a built program with
//	                          simulated channels at 1 Hz, and what a day of it is
//
// The figures are printed as they are, with ratios; nothing is judged here. The
// benchmarks of single packages are Go benchmarks beside their tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/rs/zerolog"
	"periph.io/x/conn/v3/physic"

	"oxyd/ingest"
	"oxyd/internal/daemon"
	"oxyd/internal/event"
	"oxyd/ledger"
	"oxyd/mqtt"
)

var (
	events = flag.Int("events", 40_000, "events of one round")
	rounds = flag.Int("rounds", 5, "rounds of each kind, taken in turn")
	port   = flag.Int("port", 18830, "port for the broker")
	window = flag.Int("window", 500, "unacknowledged messages of the sender")
)

func main() {
	flag.Parse()
	daemon.TuneMemory() // as the program that is measured
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := map[string]func(context.Context) error{"delivery": delivery, "process": process, "wear": wear}[flag.Arg(0)]
	if run == nil {
		fmt.Fprintln(os.Stderr, "usage: bench [flags] delivery|process|wear")
		os.Exit(2)
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// delivery alternates the two subscribers and prints both medians and their
// ratio. Sender, broker and subscriber share the machine's cores, as on a board.
func delivery(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "oxyd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stop, err := startMosquitto(dir)
	if err != nil {
		return err
	}
	defer stop()
	rates := map[string][]float64{}
	for round := range *rounds {
		for _, kind := range []string{"nothing", "account"} {
			rate, err := oneRound(ctx, filepath.Join(dir, fmt.Sprintf("%s-%d.bolt", kind, round)), kind, round)
			if err != nil {
				return err
			}
			rates[kind] = append(rates[kind], rate)
			fmt.Printf("round %d  %-8s %8.0f events/s\n", round+1, kind, rate)
		}
	}
	nothing, account := median(rates["nothing"]), median(rates["account"])
	fmt.Printf("median   acknowledge at once, do nothing:  %8.0f events/s\n", nothing)
	fmt.Printf("median   commit to the account, then ack:  %8.0f events/s\n", account)
	fmt.Printf("ratio    %.0f %%\n", account/nothing*100)
	return nil
}

func startMosquitto(dir string) (stop func(), err error) {
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if path = "/usr/sbin/mosquitto"; !isFile(path) {
			return nil, errors.New("mosquitto is not installed (Debian: apt install mosquitto)")
		}
	}
	conf := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 1000\nmax_queued_messages 1000000\n", *port)
	if os.Geteuid() == 0 {
		conf += "user root\n"
	}
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "-c", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// oneRound sends the events and measures from the first sent to the last decided.
func oneRound(ctx context.Context, path, kind string, round int) (float64, error) {
	account, err := ledger.Open(ledger.Options{Path: path, Log: zerolog.Nop()})
	if err != nil {
		return 0, err
	}
	defer account.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	decided := 0
	done := make(chan struct{})
	topics := mqtt.Topics{Prefix: "oxyd", Site: "bench"}
	in := &ingest.Ingest{Split: topics.ParseTank, Log: zerolog.Nop(), Apply: account.Apply}
	handle := func(ctx context.Context, box *mqtt.Mailbox) error {
		if kind == "account" {
			return in.Run(ctx, counting(box, &decided, done))
		}
		return acknowledge(ctx, box, &decided, done)
	}
	o := mqtt.Options{Broker: fmt.Sprintf("tcp://127.0.0.1:%d", *port), ClientID: fmt.Sprintf("bench-%s-%d", kind, round)}
	sub := mqtt.NewSubscriber(o, topics.EventFilters(), nil, handle, zerolog.Nop())
	ended := make(chan error, 1)
	go func() { ended <- sub.Run(ctx) }()
	for !sub.Status().Subscribed {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no subscription: %s", sub.Status().LastError)
		}
		time.Sleep(5 * time.Millisecond)
	}
	begun := time.Now()
	if err := send(ctx, topics, round); err != nil {
		return 0, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d events came", decided, *events)
	}
	rate := float64(*events) / time.Since(begun).Seconds()
	cancel()
	return rate, <-ended
}

// acknowledge is the subscriber that does nothing.
func acknowledge(ctx context.Context, box *mqtt.Mailbox, decided *int, done chan struct{}) error {
	for {
		batch, err := box.Take(ctx, ingest.MaxBatch)
		if err != nil {
			return nil
		}
		for i := range batch {
			batch[i].Ack()
		}
		if *decided += len(batch); *decided >= *events {
			close(done)
			<-ctx.Done()
			return nil
		}
	}
}

// counting shows the mailbox to ingest and closes done once all are decided: Run
// asks for more only after it has committed and acknowledged what it took.
func counting(box *mqtt.Mailbox, decided *int, done chan struct{}) func(context.Context, int) ([]ingest.Message, error) {
	return func(ctx context.Context, limit int) ([]ingest.Message, error) {
		if *decided >= *events {
			close(done)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		got, err := box.Take(ctx, limit)
		batch := make([]ingest.Message, len(got))
		for i := range got {
			d := &got[i]
			batch[i] = ingest.Message{Topic: d.Topic, Payload: d.Payload, Retained: d.Retained, Ack: d.Ack}
		}
		*decided += len(got)
		return batch, err
	}
}

// send publishes events of 16 tanks as their nodes would.
func send(ctx context.Context, topics mqtt.Topics, round int) error {
	o := paho.NewClientOptions().AddBroker(fmt.Sprintf("tcp://127.0.0.1:%d", *port)).
		SetClientID("bench-sender").SetAutoReconnect(false).SetWriteTimeout(10 * time.Second)
	client := paho.NewClient(o)
	if token := client.Connect(); token.Wait() && token.Error() != nil {
		return token.Error()
	}
	defer client.Disconnect(100)
	tokens := make(chan paho.Token, *window)
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for token := range tokens {
			if token.Wait(); token.Error() != nil {
				failed <- token.Error()
				return
			}
		}
	}()
	start := time.Now()
	for n := range *events {
		e := event.Event{Type: event.Consumed, Tank: fmt.Sprintf("tank-%02d", n%16), Source: fmt.Sprintf("ctl-%02d", n%16),
			Dot: event.Dot{Epoch: uint64(start.Unix()) << 20, Seq: uint64(n/16 + 1)}, Amount: 25 * physic.Gram,
			OccurredAt: start.Add(time.Duration(n) * time.Microsecond).UTC(), Version: event.WireVersion}
		e.ID = event.NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
		select {
		case tokens <- client.Publish(topics.Tank(e.Tank, e.Type.Topic()), 1, false, e.AppendJSON(nil)):
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	close(tokens)
	return <-failed
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Package demo shows what redelivery and a crash do to five consumers of one
// stream (R25). It owns the script, the hand-made consumers that are meant to go
// wrong, and the judgement whether each did what is expected of it. Two of the five
// are the real account: package ledger, fed by package ingest.
//
// What makes it a demonstration and not a picture of one: the broker is the
// embedded one, each consumer is a process of its own with a bolt file of its own,
// a crash is SIGKILL, and what is delivered again after it is delivered by the
// broker, because no PUBACK ever came. All five take the same way from socket to
// PUBACK and differ in one function, which says what a delivery does to the file.
//
// The invariant it keeps: Result is AsExpected only when every consumer held, after
// each delivery and in the end, exactly what is expected of it; one that should go
// wrong and did not is a fault as much as the other way round. Everything it made
// is gone when Run returns.
//
// It reads no config, touches no running daemon and does not print (Print does).
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"oxyd/ledger"
	"oxyd/mqtt"
)

const (
	// patience bounds the whole demonstration, which takes about two seconds: five
	// processes start twice, and once the broker waits for ackWait.
	patience = time.Minute
	// ackWait is when the broker delivers again what was not acknowledged.
	ackWait = time.Second
)

// Options say how to run it.
type Options struct {
	// Consumer is the command line, program first, of a process that calls Consume
	// with the argument appended to it, its standard input and its standard output.
	Consumer []string
}

// Result is what came of one run. Amounts are in grams.
type Result struct {
	Tank       string     `json:"tank"`
	Unit       string     `json:"unit"`
	Before     ledger.Sum `json:"before"` // what the tank held at first
	Right      ledger.Sum `json:"right"`  // what is right in the end
	Steps      []Step     `json:"steps"`
	Consumers  []Consumer `json:"consumers"`
	AsExpected bool       `json:"as_expected"` // each consumer behaved as expected
}

// Step is one thing that happened to all consumers.
type Step struct {
	Does string    `json:"does"` // send, kill, redeliver
	What string    `json:"what"`
	Sent []Message `json:"sent,omitempty"`
}

// Message is one event as it is sent.
type Message struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
}

// Consumer is what became of one consumer.
type Consumer struct {
	Name       string     `json:"name"`
	Does       string     `json:"does"`   // with a delivery
	Gets       string     `json:"gets"`   // the type that e-8842 has for it
	Killed     string     `json:"killed"` // where SIGKILL met it; empty: it did not
	Deliveries []Delivery `json:"deliveries"`
	Holds      ledger.Sum `json:"holds"`    // in the end, read from its file
	Expected   ledger.Sum `json:"expected"` // what it is expected to hold
	Right      bool       `json:"right"`    // it holds what the tank holds
	Why        string     `json:"why"`
	Fault      string     `json:"fault,omitempty"` // what is not as expected
}

// Delivery is one message in the hands of one consumer.
type Delivery struct {
	EventID string `json:"event_id"`
	// Dup: the broker says that it may have delivered the message before.
	Dup bool `json:"dup"`
	// Outcome is what it came to: the account's word for it, or that of a hand-made
	// consumer.
	Outcome string     `json:"outcome"`
	Holds   ledger.Sum `json:"holds"` // what the file held then
	Killed  bool       `json:"killed,omitempty"`
}

// Err names what was not as expected, a line for each consumer; nil when all was.
func (r *Result) Err() error {
	var errs []error
	for i := range r.Consumers {
		if c := &r.Consumers[i]; c.Fault != "" {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Fault))
		}
	}
	return errors.Join(errs...)
}

// Run plays the script once. An error means that it could not be played to the
// end, ctx having ended included; what the consumers did is for Result to say.
func Run(ctx context.Context, o Options) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not done within %v", patience))
	defer cancel()
	dir, err := os.MkdirTemp("", "oxyd-demo-")
	if err != nil {
		return Result{}, fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	res, err := runIn(ctx, o, dir)
	if gone := os.RemoveAll(dir); gone != nil {
		err = errors.Join(err, fmt.Errorf("remove what the demonstration made: %w", gone))
	}
	return res, err
}

func runIn(ctx context.Context, o Options, dir string) (Result, error) {
	broker, err := mqtt.StartBroker(mqtt.BrokerOptions{Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "broker"),
		MaxBytes: mqtt.MinBrokerMaxBytes, AckWait: ackWait}, zerolog.Nop())
	if err != nil {
		return Result{}, err
	}
	defer broker.Close()
	s := newStage(o, dir, broker.Addr())
	defer s.close()
	sender, err := connectSender(ctx, broker.Addr())
	if err != nil {
		return Result{}, err
	}
	defer sender.close()
	if err := s.play(ctx, sender); err != nil {
		return Result{}, err
	}
	return s.result()
}

// Package daemon is the wiring: it opens what the config asks for, joins the
// stations with function values, and runs them in one group. Read it once to know
// the flow of the whole.
//
// Outward: sensors.Poller → edge.reading → outbox.Stage → mqtt.Publisher →
// broker. Inward: broker → mqtt.Subscriber → ingest → ledger.Apply → commit →
// acknowledgement; then balances from committed state → mqtt.Publisher.
//
// The invariant it keeps is the order of a stop: what makes facts stops first,
// then the outbox commits what is staged, then the publisher hands over what it
// can and says goodbye, then the stores close. It decides nothing about events.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"oxyd/ingest"
	"oxyd/internal/boltfile"
	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/integrity"
	"oxyd/internal/outbox"
	"oxyd/internal/web"
	"oxyd/ledger"
	"oxyd/mqtt"
	"oxyd/sensors"
)

// Names below data_dir.
const (
	outboxFile = "outbox.bolt"
	ledgerFile = "ledger.bolt"
	brokerDir  = "broker"
	// SocketFile is the control socket: HTTP for the commands of this machine.
	SocketFile = "oxyd.sock"
)

// board is one running process: every station that its config turns on.
type board struct {
	cfg     *config.Config
	version string
	log     zerolog.Logger
	started time.Time

	clock  *clock.System
	topics mqtt.Topics

	broker     *mqtt.Broker
	outbox     *outbox.Outbox
	ledger     *ledger.Ledger
	poller     *sensors.Poller
	publisher  *mqtt.Publisher
	subscriber *mqtt.Subscriber
	listeners  []net.Listener

	wakeStatus chan struct{} // the node's status changed; capacity 1
	failed     chan error    // the ledger's store must be opened again; capacity 1
	entries    entries       // by hand, that wait for their answer
	ingest     *ingest.Ingest
	measured   measuredTanks
	owed       owed
	removed    removals

	announced    announcements
	ledgerAlarms alarmBoard
	recalling    atomic.Pointer[error] // why the broker was not reached at the start
	nodeAlarms   alarmBoard
	child        integrity.Program
	storeAlarms  []alarmDocument // raised while the stores were opened
	notVerified  []string        // stores that nobody could look through; set while they are opened

	brokerRestarts atomic.Uint64
	first          firstReading
}

// Run runs the process until ctx ends, which gives nil, or until a part of it
// cannot go on. It blocks; every store is closed when it returns.
func Run(ctx context.Context, cfg *config.Config, version string, log zerolog.Logger) error {
	b := &board{cfg: cfg, version: version, log: log, started: time.Now(),
		topics: Topics(cfg), child: integrity.Self,
		wakeStatus: make(chan struct{}, 1), failed: make(chan error, 1)}
	defer b.close()
	TuneMemory()
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	if err := b.open(running, g); err != nil {
		stop()
		if errors.Is(err, context.Canceled) {
			err = nil // it was told to stop, or the group says why
		}
		return errors.Join(err, g.Wait())
	}
	b.announce()
	return b.run(running, g)
}

// open opens the outbox first, which decides whether this process may run here at
// all and needs nothing else to keep what is measured: so the sensors are read from
// then on, however long it takes to look through an account. Then comes what talks
// to the world.
func (b *board) open(ctx context.Context, g *errgroup.Group) error {
	for _, w := range b.cfg.Warnings {
		b.log.Warn().Msg(w.String())
	}
	if err := boltfile.MakeDir(b.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	var err error
	if b.clock, err = clock.New(); err != nil {
		return err
	}
	if err := b.openOutbox(ctx); err != nil {
		return err
	}
	if err := b.recallEpoch(ctx); err != nil {
		return err
	}
	if err := b.openSensors(); err != nil {
		return err
	}
	g.Go(func() error { return b.outbox.Run(ctx) })
	if b.poller != nil {
		g.Go(func() error { return b.poller.Run(ctx) })
	}
	if err := b.openLedger(ctx); err != nil { // nothing is left to do where recallEpoch did it
		return err
	}
	for _, step := range []func() error{b.openBroker, b.openConnections, b.listen} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *board) path(name string) string { return filepath.Join(b.cfg.DataDir, name) }

// listen takes the addresses of the API: the control socket always, TCP where the
// web role is on. The stores are locked by now, so a socket file that lies there
// belongs to no living process.
func (b *board) listen() error {
	path := b.path(SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen on control socket: %w", err)
	}
	b.listeners = append(b.listeners, l)
	if err := os.Chmod(path, 0o660); err != nil {
		return fmt.Errorf("set rights of control socket: %w", err)
	}
	if b.cfg.Web == nil {
		return nil
	}
	if l, err = net.Listen("tcp", b.cfg.Web.Listen); err != nil {
		return fmt.Errorf("listen for the page and API (web.listen): %w", err)
	}
	b.listeners = append(b.listeners, l)
	return nil
}

// run starts every other station. The publisher stops last: it carries what the others
// leave behind.
func (b *board) run(ctx context.Context, g *errgroup.Group) error {
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	published := make(chan error, 1)
	recalled := make(chan struct{})
	go func() {
		b.recallPast(ctx)
		close(recalled)
		b.awaitSubscription(ctx)
		published <- b.publisher.Run(publishing)
	}()

	g.Go(func() error { return b.fatal(ctx, published) })
	g.Go(func() error { return b.keepStatus(ctx) })
	g.Go(func() error { return b.sendTelemetry(ctx, thermalZones) })
	g.Go(func() error { return b.watchClock(ctx) })
	g.Go(func() error { return web.Serve(ctx, b.handler(), b.listeners...) })
	g.Go(func() error { return b.watchdog(ctx) })
	if b.broker != nil {
		g.Go(func() error { return b.superviseBroker(ctx) })
	}
	if b.ledger != nil {
		g.Go(func() error {
			<-recalled
			return b.subscriber.Run(ctx)
		})
		g.Go(func() error { return b.publishAccount(ctx) })
		g.Go(func() error { return b.pruneAccount(ctx) })
		if notifies(b.cfg) != nil {
			g.Go(func() error { return b.webhook().Run(ctx) })
		}
	}
	g.Go(func() error {
		<-ctx.Done()
		notify(b.log, notifyStopping)
		b.log.Info().Msg("oxyd stops")
		return nil
	})
	notify(b.log, notifyReady)
	err := g.Wait()
	if flushErr := b.outbox.Flush(); flushErr != nil && err == nil {
		err = flushErr
	}
	b.sayOffline()
	b.handOverRest()
	stopPublishing()
	err = errors.Join(err, <-published)
	b.log.Info().Err(err).Msg("oxyd has stopped")
	return err
}

// handOverPatience bounds the wait, at a stop, for the broker to take what is
// left. What it does not take goes out at the next start.
const handOverPatience = 2 * time.Second

// handOverRest waits until the publisher has handed over what the other stations
// left behind.
func (b *board) handOverRest() {
	deadline := time.NewTimer(handOverPatience)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for b.publisher.Status().Connected {
		s, err := b.outbox.Stats()
		c := b.publisher.Counts()
		if err != nil || s.Pending == 0 && c.RetainedUndelivered == 0 && c.InFlight == 0 {
			return
		}
		select {
		case <-look.C:
		case <-deadline.C:
			return
		}
	}
}

// fatal ends the group when a part outside of it cannot go on.
func (b *board) fatal(ctx context.Context, published chan error) error {
	select {
	case err := <-b.failed:
		return err
	case err := <-published: // only options that can never work end it early
		published <- nil
		return err
	case <-ctx.Done():
		return nil
	}
}

func (b *board) close() {
	for _, l := range b.listeners {
		l.Close()
	}
	if b.broker != nil {
		b.broker.Close()
	}
	if b.ledger != nil {
		if err := b.ledger.Close(); err != nil {
			b.log.Error().Err(err).Msg("close ledger")
		}
	}
	if b.outbox != nil {
		if err := b.outbox.Close(); err != nil {
			b.log.Error().Err(err).Msg("close outbox")
		}
	}
}

// announce says what runs, where its files are and what bounds it.
func (b *board) announce() {
	c := b.cfg
	b.log.Info().Str("version", b.version).Str("site", c.Site).Str("node", c.Node).Strs("roles", c.Roles()).
		Str("mqtt", b.brokerAddress()).Bool("clock_synced", b.clock.Synced()).Msg("oxyd runs")
	if s, err := b.outbox.Stats(); err == nil {
		b.log.Info().Str("file", b.path(outboxFile)).Stringer("max_bytes", c.Outbox.MaxBytes).
			Stringer("retention", c.Outbox.Retention).Stringer("commit_interval", c.Outbox.CommitInterval).
			Uint64("pending", s.Pending).Uint64("epoch", s.Epoch).Msg("outbox: keeps every event until the broker has it")
	}
	if l := c.Ledger; l != nil {
		b.log.Info().Str("file", b.path(ledgerFile)).Str("id", l.ID).Stringer("max_bytes", l.MaxBytes).
			Stringer("dedup_window", l.DedupWindow).Stringer("redelivery_window", l.RedeliveryWindow).
			Int("tanks_max", l.MaxTanks).Int("sources_max", l.MaxSources).Stringer("quarantine_max", l.QuarantineBytes).
			Msg("ledger: acknowledges after the commit")
	}
	if b.broker != nil {
		b.log.Info().Str("listen", b.broker.Addr()).Str("dir", b.path(brokerDir)).Stringer("max_bytes", c.Broker.MaxBytes).
			Stringer("ack_wait", c.Broker.AckWait).Int("max_ack_pending", c.Broker.MaxAckPending).
			Msg("broker: MQTT 3.1.1, every acknowledged message is on disk")
	}
	for _, l := range b.listeners {
		b.log.Info().Str("address", l.Addr().Network()+"://"+l.Addr().String()).Msg("API listens")
	}
}

package checklist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"oxyd/internal/boltfile"
	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/internal/outbox"
	"oxyd/ledger"
	"oxyd/mqtt"
)

const (
	// copyBytesMax bounds the store that is copied and looked through in passing; a
	// larger one is for oxyd backup and oxyd verify.
	copyBytesMax = 512 << 20
	// spareBytes stay free on the disk beside a copy.
	spareBytes = 64 << 20
)

// findings is everything that was looked at; the answers are made of it alone.
type findings struct {
	cfg *config.Config

	subscriber, publisher mqtt.Terms
	termsErr              error
	session               time.Duration // of the embedded broker

	scratch    string // where the trial ran
	elsewhere  error  // why it ran on another disk than that of data_dir
	medium     medium
	trial      trial
	trialErr   error
	status     *statusDocument // of the running daemon
	statusErr  error
	tanks      []tankDocument // likewise
	account    *ledger.Inspection
	accountWhy string // why it was not looked through
	queue      *outbox.Inspection
	queueWhy   string
}

// statusDocument is what is read of GET /api/status.
type statusDocument struct {
	DedupWindow      string            `json:"dedup_window"`
	RedeliveryWindow string            `json:"redelivery_window"`
	Outcomes         map[string]uint64 `json:"outcomes"`
	FileBytes        int64             `json:"file_bytes"`
	Announced        []struct {
		Node       string `json:"node"`
		Redelivery string `json:"redelivery"`
	} `json:"announced"`
}

// tankDocument is what is read of a balance document.
type tankDocument struct {
	Tank     string `json:"tank"`
	Revision uint64 `json:"revision"`
	Balance  any    `json:"balance"`
	Baseline any    `json:"baseline"`
}

func gather(ctx context.Context, s Subject) *findings {
	f := &findings{cfg: s.Config, session: daemon.SessionExpiry(s.Config)}
	f.readTerms()
	dir, err := f.makeScratch()
	if err != nil {
		f.trialErr = err
		f.accountWhy, f.queueWhy = "there is no place for a copy", "there is no place for a copy"
		return f
	}
	defer os.RemoveAll(dir)
	f.medium = mediumOf(f.cfg.DataDir)
	consume := s.consume
	if consume == nil {
		consume = byIngest
	}
	f.trial, f.trialErr = tryOut(ctx, f.cfg, dir, consume)
	f.askDaemon(ctx, s.Daemon)
	f.readAccount(ctx, s, dir)
	f.readOutbox(ctx, s, dir)
	return f
}

// readTerms makes both clients as the daemon makes them, and reads their options.
func (f *findings) readTerms() {
	c, none := f.cfg, mqtt.Presence{}
	var err error
	pub := mqtt.NewPublisher(daemon.Connection(c, c.MQTT.Broker, c.PublisherClientID()), nil, none, zerolog.Nop())
	if f.publisher, err = pub.Terms(); err != nil {
		f.termsErr = err
	}
	if c.Ledger == nil {
		return
	}
	sub := mqtt.NewSubscriber(daemon.Connection(c, c.MQTT.Broker, c.LedgerClientID()), daemon.Topics(c).EventFilters(), &none, nil, zerolog.Nop())
	if f.subscriber, err = sub.Terms(); err != nil {
		f.termsErr = err
	}
}

// makeScratch makes a directory on the disk of data_dir, which need not exist yet,
// or elsewhere where this user may not write.
func (f *findings) makeScratch() (dir string, err error) {
	place := existing(f.cfg.DataDir)
	dir, err = os.MkdirTemp(place, ".oxyd-check-*")
	if err != nil {
		f.elsewhere = err
		place = os.TempDir()
		if dir, err = os.MkdirTemp("", "oxyd-check-*"); err != nil {
			return "", fmt.Errorf("make a directory for the trial: %w", err)
		}
	}
	f.scratch = place
	return dir, nil
}

// existing gives the path, or the nearest directory above it that exists.
func existing(path string) string {
	for {
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return path
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}

func (f *findings) askDaemon(ctx context.Context, d Daemon) {
	if d == nil {
		return
	}
	var s statusDocument
	if f.statusErr = d.Get(ctx, "/api/status", &s); f.statusErr != nil {
		return
	}
	f.status = &s
	if f.cfg.Ledger != nil {
		f.statusErr = d.Get(ctx, "/api/tanks", &f.tanks)
	}
}

// readAccount looks through a copy of the account, or says why not.
func (f *findings) readAccount(ctx context.Context, s Subject, dir string) {
	path, to := daemon.LedgerPath(f.cfg), filepath.Join(dir, "account-copy.bolt")
	var err error
	switch {
	case f.cfg.Ledger == nil:
		f.accountWhy = "this node keeps no account"
		return
	case f.status != nil && f.status.FileBytes > copyBytesMax:
		err = tooLarge(f.status.FileBytes)
	case f.status != nil:
		err = backUp(ctx, s.Daemon, to, f.status.FileBytes)
	default:
		err = copyClosed(path, to)
	}
	if err != nil {
		f.accountWhy = f.whyNot(path, err)
		return
	}
	defer os.Remove(to)
	inspect := s.Ledger
	if inspect == nil {
		inspect = func(_ context.Context, path string) (ledger.Inspection, error) { return ledger.Inspect(path) }
	}
	i, err := inspect(ctx, to)
	if err != nil {
		f.accountWhy = err.Error()
		return
	}
	f.account = &i
}

// readOutbox does the same for the outbox, which only a closed file shows.
func (f *findings) readOutbox(ctx context.Context, s Subject, dir string) {
	path, to := daemon.OutboxPath(f.cfg), filepath.Join(dir, "outbox-copy.bolt")
	if f.status != nil {
		f.queueWhy = "the running daemon holds it"
		return
	}
	if err := copyClosed(path, to); err != nil {
		f.queueWhy = f.whyNot(path, err)
		return
	}
	defer os.Remove(to)
	inspect := s.Outbox
	if inspect == nil {
		inspect = func(_ context.Context, path string) (outbox.Inspection, error) { return outbox.Inspect(path) }
	}
	i, err := inspect(ctx, to)
	if err != nil {
		f.queueWhy = err.Error()
		return
	}
	f.queue = &i
}

func (f *findings) whyNot(path string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is none yet at " + path
	case errors.Is(err, boltfile.ErrLocked) && f.statusErr != nil:
		return fmt.Sprintf("a daemon holds it and does not answer: %v", f.statusErr)
	}
	return err.Error()
}

func tooLarge(size int64) error {
	return fmt.Errorf("it has %d MiB, more than is looked through in passing: oxyd backup FILE verifies it", size>>20)
}

// copyClosed copies the store at from while it keeps every process from opening it
// for writing. It never opens a live one: that gives boltfile.ErrLocked.
func copyClosed(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = boltfile.ErrLocked
		}
		return fmt.Errorf("copy %s: %w", from, err)
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return write(to, st.Size(), func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

func backUp(ctx context.Context, d Daemon, to string, size int64) error {
	return write(to, size, func(w io.Writer) error { return d.Backup(ctx, w) })
}

// write makes the copy, if it is small enough and there is room.
func write(to string, size int64, fill func(io.Writer) error) error {
	if size > copyBytesMax {
		return tooLarge(size)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(to), &st); err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < size+spareBytes {
		return fmt.Errorf("there is no room for a copy of %d MiB", size>>20)
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fill(w), w.Close())
}

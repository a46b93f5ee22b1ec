package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"oxyd/internal/clock"
	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/integrity"
	"oxyd/mqtt"
)

// A store that is damaged at boot is kept under another name, a new one with a new
// epoch takes its place, and the node's status says so. With one of its two meta
// pages left it is whole.
func TestFC88CorruptedStoreAtBoot(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func([]byte) []byte
		whole bool
	}{
		"all zeros":           {func(b []byte) []byte { return make([]byte, len(b)) }, false},
		"cut to half":         {func(b []byte) []byte { return b[:len(b)/2] }, false},
		"first meta page":     {func(b []byte) []byte { clear(b[16:200]); return b }, true},
		"both meta pages":     {func(b []byte) []byte { clear(b[16:200]); clear(b[4096+16 : 4096+200]); return b }, false},
		"no file but a start": {func([]byte) []byte { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			board := func() *board {
				cfg := &config.Config{Node: "ctl-3", DataDir: t.TempDir()}
				cfg.Outbox.MaxBytes = config.Size(8 << 20)
				system, err := clock.New()
				if err != nil {
					t.Fatal(err)
				}
				return &board{cfg: cfg, log: zerolog.Nop(), clock: system, child: integrity.Self, topics: mqtt.Topics{Prefix: "oxyd", Site: "base"}}
			}
			b := board()
			if err := b.openOutbox(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := b.outbox.Append(event.Event{Type: event.Consumed, Tank: "A", Amount: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.outbox.Close(); err != nil {
				t.Fatal(err)
			}
			path := b.path(outboxFile)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.spoil(content), 0o600); err != nil {
				t.Fatal(err)
			}
			data := b.cfg.DataDir
			b = board()
			b.cfg.DataDir = data
			if err := b.openOutbox(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer b.outbox.Close()
			doc := b.node()
			aside, _ := filepath.Glob(path + ".corrupt-*")
			if c.whole {
				if len(aside) != 0 || doc.Outbox.Pending != 1 || len(doc.Alarms) != 0 {
					t.Errorf("set aside %v, pending %d, alarms %v, want none, 1, none", aside, doc.Outbox.Pending, doc.Alarms)
				}
				return
			}
			if len(aside) != 1 || doc.Outbox.Pending != 0 || len(doc.Alarms) != 1 || doc.Alarms[0].Kind != "storage_reset" {
				t.Errorf("set aside %v, pending %d, alarms %+v, want one, 0, storage_reset", aside, doc.Outbox.Pending, doc.Alarms)
			}
			if doc.Epoch == r[0].Dot.Epoch {
				t.Errorf("epoch %d again", doc.Epoch)
			}
		})
	}
}

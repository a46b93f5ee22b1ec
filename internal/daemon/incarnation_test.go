package daemon

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/ledger"
	"oxyd/mqtt"
)

// What a stranger has left among a ledger's retained documents neither passes for a
// further state of its store nor hides that one was set back.
func TestAbsurdIncarnationsHinderNothing(t *testing.T) {
	l, err := ledger.Open(ledger.Options{Path: filepath.Join(t.TempDir(), "ledger.bolt"), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &board{cfg: &config.Config{Ledger: &config.Ledger{ID: "main"}}, ledger: l, log: zerolog.Nop(),
		topics: mqtt.Topics{Prefix: "oxyd", Site: "base"}}
	incarnation := func() uint64 {
		t.Helper()
		s, err := l.Status()
		if err != nil {
			t.Fatal(err)
		}
		return s.Incarnation
	}
	confirm := func(incarnation uint64) []byte {
		t.Helper()
		doc, err := event.EncodeConfirm(&event.Confirm{Ledger: "main", Incarnation: incarnation, Source: "ghost"})
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	first := incarnation()
	docs := map[string][]byte{
		b.topics.Confirm("main", "ghost"): confirm(event.MaxEpoch),
		b.topics.LedgerStatus("main"):     mustJSON(ledgerDocument{Incarnation: 1<<64 - 1}),
	}
	b.compare(docs)
	if got := incarnation(); got != first {
		t.Errorf("incarnation %d, want still %d", got, first)
	}
	docs[b.topics.Confirm("main", "dev")] = confirm(first + 7) // our own, of a later store
	b.compare(docs)
	if got := incarnation(); got <= first+7 || got > recallMax {
		t.Errorf("incarnation %d, want one above %d", got, first+7)
	}
}

package e2e

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const pageBytes = 4096

// damaged ends a node, spoils one of its stores, starts it, and tells whether the
// store was set aside. The node measures on in any case.
func damaged(t *testing.T, store string, end func(*node), spoil func(text []byte) []byte) (aside bool) {
	t.Helper()
	n := newNode(t, allInOne, "")
	n.startReady()
	n.until("readings applied", func() bool { return n.status().Outcomes["applied"] >= 3 })
	end(n)
	path := filepath.Join(n.dir, "data", store)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = spoil(text)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// Epochs are drawn by time, in seconds, and the new store of a test comes sooner
	// than any service manager starts a process again.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	n.startReady()
	applied := n.status().Outcomes["applied"]
	n.until("new readings in the account", func() bool { return n.status().Outcomes["applied"] > applied })
	kept, err := os.ReadFile(path + ".corrupt-1")
	if err == nil {
		aside = true
		if !bytes.Equal(kept, text) {
			t.Error("what was set aside is not the damaged file as it was found")
		}
		if !strings.Contains(n.log.String(), store+".corrupt-1") {
			t.Error("the log does not name it")
		}
		var doc struct{ Alarms []struct{ Kind string } }
		n.get("/api/node", &doc)
		if len(doc.Alarms) != 1 || doc.Alarms[0].Kind != "storage_reset" {
			t.Errorf("alarms %+v", doc.Alarms)
		}
	}
	if out := n.log.String(); strings.Contains(out, "fatal error: ") || strings.Contains(out, "goroutine ") {
		t.Errorf("a process died of it:\n%s", out)
	}
	n.stop()
	return aside
}

func eachStore(t *testing.T, test func(t *testing.T, store string)) {
	for _, store := range []string{"ledger.bolt", "outbox.bolt"} {
		t.Run(store, func(t *testing.T) { test(t, store) })
	}
}

func TestFC88aStoreOfZeros(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		if !damaged(t, store, (*node).kill, func(text []byte) []byte { return make([]byte, len(text)) }) {
			t.Error("not set aside")
		}
	})
}

func TestFC88bHalfAStore(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		if !damaged(t, store, (*node).kill, func(text []byte) []byte { return text[:len(bytes.TrimRight(text, "\x00"))/2] }) {
			t.Error("not set aside")
		}
	})
}

// A kill inside a commit leaves the tree of the older meta page half overwritten, so
// that the other one is no way out then: this is after a stop.
func TestFC88cFirstMetaPage(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		if damaged(t, store, (*node).stop, func(text []byte) []byte { return inverted(text, 0) }) {
			t.Error("set aside although the other meta page is whole")
		}
	})
}

// A page of the tree: a branch or a leaf that the newest meta page leads to.
func TestFC88dPageFlippedAtRandom(t *testing.T) {
	eachStore(t, func(t *testing.T, store string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		if !damaged(t, store, (*node).kill, func(text []byte) []byte { return inverted(text, rootPage(text, rand.New(rand.NewPCG(seed, 0)))) }) {
			t.Error("not set aside")
		}
	})
}

func inverted(text []byte, n int) []byte {
	out := bytes.Clone(text)
	for i := n * pageBytes; i < (n+1)*pageBytes; i++ {
		out[i] = ^out[i]
	}
	return out
}

// rootPage gives the root of the newest tree or a page that a branch there leads to
// (bbolt's internal/common: a meta page has the root at 32 and the transaction at 64
// after its header of 16 bytes; a branch's elements are 16 bytes, the page last).
func rootPage(text []byte, random *rand.Rand) int {
	le := binary.LittleEndian
	newest := 0
	if le.Uint64(text[pageBytes+64:]) > le.Uint64(text[64:]) {
		newest = 1
	}
	n := int(le.Uint64(text[newest*pageBytes+32:]))
	if le.Uint16(text[n*pageBytes+8:]) == 1 {
		count := int(le.Uint16(text[n*pageBytes+10:]))
		n = int(le.Uint64(text[n*pageBytes+16+16*random.IntN(count)+8:]))
	}
	return n
}

package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"oxyd/internal/boltfile"
)

// A backup that was taken while events were applied is a sound account, and one
// that was restored goes on where it was taken.
func TestBackupIsAWholeAccount(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	r.send("consumed", `{"event_id":"before","tank":"A","amount":10}`)
	var copied bytes.Buffer
	var size int64
	if err := r.l.Backup(&copied, func(n int64) {
		size = n
		r.send("consumed", `{"event_id":"meanwhile","tank":"A","amount":1}`) // is not in the copy
	}); err != nil || int64(copied.Len()) != size {
		t.Fatalf("backup: %v, %d of %d bytes", err, copied.Len(), size)
	}
	path := filepath.Join(t.TempDir(), "copy.bolt")
	if err := os.WriteFile(path, copied.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(path)
	if err != nil || v.Rows != 2 || v.Tanks != 1 {
		t.Fatalf("verify: %+v, %v", v, err)
	}
	l, err := Open(Options{Path: path, Now: r.clk.Now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	restored := &rig{t: t, l: l, clk: r.clk, opt: r.opt}
	defer restored.end()
	restored.want("balance", restored.balance("A"), "90 g")
	restored.want("what it missed", restored.send("consumed", `{"event_id":"meanwhile","tank":"A","amount":1}`).Outcome, Applied)
	restored.want("what it had", restored.send("consumed", `{"event_id":"before","tank":"A","amount":10}`).Outcome, Duplicate)
	a, _ := r.l.Status()
	b, _ := restored.l.Status()
	r.want("digest", b.Digest, a.Digest)
}

func TestVerifyRefuses(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	if _, err := Verify(r.opt.Path); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("a live file: %v", err)
	}
	dir := t.TempDir()
	if _, err := Verify(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	f, err := boltfile.Open(filepath.Join(dir, "outbox.bolt"), boltfile.Options{Kind: "outbox", Schema: 1, Buckets: []string{"rows"}})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Verify(filepath.Join(dir, "outbox.bolt")); !errors.Is(err, ErrNoAccount) {
		t.Errorf("another store: %v", err)
	}
	var copied bytes.Buffer
	if err := r.l.Backup(&copied, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	// One byte of the opening amount in the journal's page.
	spoiled := bytes.Clone(copied.Bytes())
	amount := []byte{0, 0, 0, 0x17, 0x48, 0x76, 0xe8, 0x00} // 100 g in nanograms
	i := bytes.LastIndex(spoiled, amount)
	if i < 0 {
		t.Fatal("the amount is not found")
	}
	spoiled[i+4] ^= 1
	path := filepath.Join(dir, "spoiled.bolt")
	if err := os.WriteFile(path, spoiled, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(path); err == nil {
		t.Error("a spoiled amount passes")
	}
}

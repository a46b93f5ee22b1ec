package powercut

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// The notebook is the smallest consumer there is, in plain bolt: a mark for each
// event and how many there were. It is here to be wrong in one way at a time, so
// that each run of the tests shows that the rig finds what it is there to find.
const (
	notebookSound     = "sound"
	notebookNoSync    = "nosync"     // bolt does not sync
	notebookAckFirst  = "ackfirst"   // acknowledges before the commit
	notebookTwoTx     = "twotx"      // effect and mark in two transactions
	notebookNoBarrier = "nobarrier"  // believes what it reads at open
	notebookUnsynced  = "unsynced"   // commits upon what it reads at open
	notebookNoName    = "noname"     // does not sync the directory after creating
	notebookInPlace   = "inplace"    // creates under the final name
	notebookEvents    = 60           // how many it takes
	notebookFile      = "notes.bolt" // under this name
)

var (
	notebookMarks = []byte("marks")
	notebookCount = []byte("count")
)

func notebook(fault string) subject {
	return subject{
		work:  func(j job, say func(string, ...any)) error { return notebookWork(fault, j, say) },
		judge: func(j job, dir string) error { return notebookJudge(fault, j, dir) },
	}
}

func notebookWork(fault string, j job, say func(string, ...any)) error {
	db, err := notebookOpen(fault, j.Dir)
	if err != nil {
		return err
	}
	say(saysReady)
	for n := lastAck(j.Lines) + 1; n <= notebookEvents; n++ {
		key := binary.BigEndian.AppendUint64(nil, uint64(n))
		seen := false
		if err := db.View(func(tx *bbolt.Tx) error { seen = tx.Bucket(notebookMarks).Get(key) != nil; return nil }); err != nil {
			return err
		}
		if seen {
			say("%s %d", saysAgain, n)
			say("%s %d", saysAck, n)
			continue
		}
		if fault == notebookAckFirst {
			say("%s %d", saysAck, n)
		}
		mark := func(tx *bbolt.Tx) error { return tx.Bucket(notebookMarks).Put(key, make([]byte, 100)) }
		effect := func(tx *bbolt.Tx) error {
			b := tx.Bucket(notebookCount)
			return b.Put(notebookCount, binary.BigEndian.AppendUint64(nil, notebookRead(b)+1))
		}
		if fault == notebookTwoTx {
			err = db.Update(effect)
			effect = func(*bbolt.Tx) error { return nil }
		}
		if err == nil {
			err = db.Update(func(tx *bbolt.Tx) error {
				if err := effect(tx); err != nil {
					return err
				}
				return mark(tx)
			})
		}
		if err != nil {
			return err
		}
		if fault != notebookAckFirst {
			say("%s %d", saysAck, n)
		}
	}
	return nil
}

// notebookOpen makes the file under another name first, syncs what it finds, and
// ends in a commit, like the product.
func notebookOpen(fault, dir string) (*bbolt.DB, error) {
	path := filepath.Join(dir, notebookFile)
	options := &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoSync: fault == notebookNoSync}
	if _, err := os.Stat(path); err != nil {
		temp := path + ".new"
		if fault == notebookInPlace {
			temp = path
		}
		db, err := bbolt.Open(temp, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
		if err != nil {
			return nil, err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			if _, err := tx.CreateBucket(notebookMarks); err != nil {
				return err
			}
			_, err := tx.CreateBucket(notebookCount)
			return err
		})
		if err != nil {
			return nil, err
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
		if err := os.Rename(temp, path); err != nil {
			return nil, err
		}
		if fault != notebookNoName {
			d, err := os.Open(dir)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			if err := d.Sync(); err != nil {
				return nil, err
			}
		}
	}
	db, err := bbolt.Open(path, 0o600, options)
	if err != nil || fault == notebookNoBarrier {
		return db, err
	}
	if fault != notebookUnsynced {
		if err := db.Sync(); err != nil {
			return nil, err
		}
	}
	return db, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(notebookCount).Put([]byte("open"), []byte{1}) })
}

func notebookRead(b *bbolt.Bucket) uint64 {
	if v := b.Get(notebookCount); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func notebookJudge(fault string, j job, dir string) error {
	path := filepath.Join(dir, notebookFile)
	if _, err := os.Stat(path); err != nil {
		if len(j.Lines) > 0 {
			return fmt.Errorf("the file is gone: %w", err)
		}
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		var fault error
		for err := range tx.Check() {
			fault = err
		}
		if fault != nil {
			return fmt.Errorf("check: %w", fault)
		}
		marks, count := tx.Bucket(notebookMarks), tx.Bucket(notebookCount)
		for n := 1; n <= lastAck(j.Lines); n++ {
			if marks.Get(binary.BigEndian.AppendUint64(nil, uint64(n))) == nil {
				return fmt.Errorf("acknowledged %d is lost", n)
			}
		}
		if got, want := notebookRead(count), uint64(marks.Inspect().KeyN); got != want {
			return fmt.Errorf("%d effects, %d marks", got, want)
		}
		return nil
	})
}

// lastAck gives the number of the last acknowledgement, 0 where there is none.
func lastAck(lines []string) (n int) {
	for _, line := range lines {
		fmt.Sscanf(line, saysAck+" %d", &n)
	}
	return n
}

// The rig finds each fault, and none where there is none. Otherwise what it says
// of the product is worth nothing.
func TestControls(t *testing.T) {
	r := newRig(t)
	random := draw(t)
	anywhere := func() []stint {
		return []stint{{At: Point{Total: -1, Syncs: 2 + random.IntN(80), Ops: random.IntN(8)}}}
	}
	creating := func() []stint { return []stint{{At: Point{Total: random.IntN(12)}}} }
	// Killed in a sync, of the meta page every other time; then the repeat is
	// acknowledged and the power goes.
	repeat := func() []stint { return []stint{{At: atSync(10 + random.IntN(60))}, {At: never, Acks: 1}} }
	// Killed in a sync; then the power goes while the file is opened.
	reopen := func() []stint { return []stint{{At: atSync(10 + random.IntN(60))}, {At: Point{Total: random.IntN(5)}}} }
	for _, c := range []struct {
		fault  string
		stints func() []stint
		bad    bool
	}{
		{notebookSound, anywhere, false},
		{notebookSound, creating, false},
		{notebookSound, repeat, false},
		{notebookSound, reopen, false},
		{notebookNoSync, anywhere, true},
		{notebookAckFirst, anywhere, true},
		{notebookTwoTx, anywhere, true},
		{notebookNoName, anywhere, true},
		{notebookInPlace, creating, true},
		{notebookNoBarrier, repeat, true},
		{notebookUnsynced, reopen, true},
	} {
		cycles, timeout := 300, judgeTimeoutBad
		if !c.bad {
			cycles, timeout = 8, judgeTimeout
		}
		sum, err := r.runAll(func() (plan, bool) {
			cycles--
			return plan{"notebook-" + c.fault, random.Uint64(), c.stints(), 8, timeout}, cycles >= 0
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-10s %v", c.fault, sum)
		switch {
		case c.bad && sum.bad == 0:
			t.Errorf("notebook-%s: nothing wrong found in %v", c.fault, sum)
		case !c.bad && len(sum.findings) > 0:
			t.Errorf("notebook-%s: %v", c.fault, sum.findings)
		case c.bad:
			t.Logf("           such as %.150s", sum.findings[0])
		}
	}
}

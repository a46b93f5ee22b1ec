package powercut

import (
	"math/rand/v2"
	"testing"
)

// imagesPerCut is how many images are made of one cut: the first two are the
// durable state and all of the volatile one.
const imagesPerCut = 20

// TestPowerCut cuts the power under the account and the outbox. No image may be
// one that cannot be opened, or lack what was acknowledged, or hold what was never
// sent, or come to other sums once everything is delivered again.
func TestPowerCut(t *testing.T) {
	r := newRig(t)
	var total tally
	for _, c := range []struct {
		name string
		run  func(*testing.T, *rig) *tally
	}{
		{"ledger", func(t *testing.T, r *rig) *tally { return anywhere(t, r, "ledger", 30) }},
		{"outbox", func(t *testing.T, r *rig) *tally { return anywhere(t, r, "outbox", 30) }},
		{"ledger-repeat", func(t *testing.T, r *rig) *tally { return repeat(t, r, "ledger", 10) }},
		{"outbox-repeat", func(t *testing.T, r *rig) *tally { return repeat(t, r, "outbox-ids", 10) }},
		{"ledger-reopened", func(t *testing.T, r *rig) *tally { return reopened(t, r, "ledger", 10) }},
		{"outbox-reopened", func(t *testing.T, r *rig) *tally { return reopened(t, r, "outbox", 10) }},
		{"ledger-creation", func(t *testing.T, r *rig) *tally { return creation(t, r, "ledger", 10) }},
		{"outbox-creation", func(t *testing.T, r *rig) *tally { return creation(t, r, "outbox", 10) }},
		{"ledger-killed-at-birth", func(t *testing.T, r *rig) *tally { return killedAtBirth(t, r, "ledger") }},
		{"outbox-killed-at-birth", func(t *testing.T, r *rig) *tally { return killedAtBirth(t, r, "outbox") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum := c.run(t, r)
			sum.report(t)
			total.add(sum)
		})
	}
	t.Logf("in all: %v", &total)
}

// killedAtBirth kills the process at each operation by which it makes its file, and cuts the power under the
// next one, which finds the file: what the first had not synced is the second's to sync.
func killedAtBirth(t *testing.T, r *rig, subject string) *tally {
	random := draw(t)
	at := -slowdown
	return r.mustRun(t, func() (plan, bool) {
		at += slowdown
		return plan{subject: subject, seed: random.Uint64(), images: 3, stints: []stint{
			{At: Point{Total: at}},
			{At: Point{Total: -1, Syncs: 10 + random.IntN(60), Ops: random.IntN(16)}}}}, at <= birth
	})
}

// birth is more operations than a store needs until it has its name.
const birth = 40

// anywhere cuts at any operation, now and then after crashes of the process alone,
// which the page cache survives, and after other cuts: what comes up from one must
// survive the next, also one within its own recovery.
func anywhere(t *testing.T, r *rig, subject string, percent int) *tally {
	random := draw(t)
	const syncs = 140 // about what a whole workload takes
	somewhere := func() Point {
		if random.IntN(8) == 0 {
			return Point{Total: random.IntN(30)} // while it opens
		}
		return Point{Total: -1, Syncs: random.IntN(syncs), Ops: random.IntN(16)}
	}
	return r.mustRun(t, planned(percent, imagesPerCut, func() plan {
		p := plan{subject: subject, seed: random.Uint64()}
		for random.IntN(3) == 0 && len(p.stints) < 3 {
			p.stints = append(p.stints, stint{At: somewhere(), Cut: random.IntN(2) == 0})
		}
		p.stints = append(p.stints, stint{At: somewhere()})
		return p
	}))
}

// repeat is the hole of the acknowledged duplicate. The process is killed inside a
// sync: of the meta page every other time, so that the transaction shows in the
// page cache and is on no disk. It is started again, what was not acknowledged is
// delivered again, and as soon as that is acknowledged the power goes.
func repeat(t *testing.T, r *rig, subject string, percent int) *tally {
	random := draw(t)
	const images = 4 // of what is left then there is little to draw
	sum := r.mustRun(t, planned(percent, images, func() plan {
		return plan{subject: subject, seed: random.Uint64(), stints: []stint{
			{At: atSync(12 + random.IntN(50))}, {At: never, Acks: 1 + random.IntN(2)}}}
	}))
	t.Logf("%d repeats were acknowledged after a crash", sum.again)
	if len(sum.findings) == 0 && sum.cuts >= 20 && sum.again < 2 {
		t.Errorf("of %d crashes %d left a transaction that the disk did not have: the test shows nothing", sum.cuts, sum.again)
	}
	return sum
}

// reopened cuts inside of the first commit after a crash. It builds on a
// transaction that shows in the page cache and may be on no disk: what it writes
// over must not be what the disk still needs.
func reopened(t *testing.T, r *rig, subject string, percent int) *tally {
	random := draw(t)
	const images = 5
	return r.mustRun(t, planned(percent, images, func() plan {
		return plan{subject: subject, seed: random.Uint64(), stints: []stint{
			{At: atSync(12 + random.IntN(50))}, {At: Point{Total: 1 + random.IntN(5)}}}}
	}))
}

// creation cuts before each operation from the first on until something has been
// acknowledged.
func creation(t *testing.T, r *rig, subject string, percent int) *tally {
	random := draw(t)
	seed := random.Uint64()
	steps, err := r.disks[0].operations(job{Subject: subject, Seed: seed, Dir: r.disks[0].dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations to the first acknowledgement", steps)
	if steps < 20 {
		t.Fatal("that is too few to be true")
	}
	images := max(*imagesFlag*percent/100/steps, 4)
	at := -slowdown
	return r.mustRun(t, func() (plan, bool) {
		at += slowdown
		return plan{subject: subject, seed: random.Uint64(), stints: []stint{{At: Point{Total: at}}}, images: images}, at <= steps
	})
}

// operations tells how many operations a subject needs for its first
// acknowledgement.
func (d *diskProcess) operations(j job) (int, error) {
	if err := d.format(); err != nil {
		return 0, err
	}
	if _, err := d.run(stint{At: never, Acks: 1}, j); err != nil {
		return 0, err
	}
	n := 0
	return n, d.rpc.Call("Disk.Operations", None{}, &n)
}

// planned gives plans until the share of the images asked for is made.
func planned(percent, images int, draw func() plan) func() (plan, bool) {
	left := *imagesFlag * percent / 100 / slowdown
	return func() (plan, bool) {
		if left <= 0 {
			return plan{}, false
		}
		left -= images
		p := draw()
		p.images = images
		return p, true
	}
}

func (r *rig) mustRun(t *testing.T, next func() (plan, bool)) *tally {
	t.Helper()
	sum, err := r.runAll(next)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// The disk's model, without FUSE: what may be left, and nothing else.
func TestDisk(t *testing.T) {
	d := newDisk()
	f, _ := d.create("new")
	d.edit(f, edit{0, fill('a', 3*sector)})
	d.sync(f)
	d.edit(f, edit{sector, fill('b', 2*sector)})
	d.edit(f, edit{off: sector / 2}) // truncate
	d.edit(f, edit{2*sector - 1, fill('c', 2)})
	random := rand.New(rand.NewPCG(1, 1))
	if got := d.image(0, random); len(got) != 0 {
		t.Errorf("a name that was never synced is durable: %q", got)
	}
	d.syncDir()
	if got := string(d.image(0, random)["new"]); got != string(fill('a', 3*sector)) {
		t.Errorf("durable is %q", got)
	}
	if got := d.image(1, random)["new"]; len(got) != 2*sector+1 || got[0] != 'a' || got[sector/2] != 0 || got[2*sector] != 'c' {
		t.Errorf("volatile is %q", got)
	}
	d.rename("new", "final", true)
	d.unlink("final")
	seen := map[string]bool{}
	for n := 2; n < 400; n++ {
		got := d.image(n, random)
		for name, b := range got {
			seen[name] = true
			if len(b) < sector/2 || len(b) > 3*sector {
				t.Fatalf("image %d has %d bytes", n, len(b))
			}
			for i, c := range b {
				if c != 0 && c != 'a' && (c != 'b' || i < sector) && (c != 'c' || i != 2*sector-1 && i != 2*sector) {
					t.Fatalf("image %d has %c at %d", n, c, i)
				}
			}
			seen[string(b)] = true
		}
		if len(got) == 0 {
			seen["nothing"] = true
		}
	}
	if !seen["new"] || !seen["final"] || !seen["nothing"] || len(seen) < 15 {
		t.Errorf("only %d different images", len(seen))
	}
}

// The points at which it stops, and what passes once the client is dead.
func TestDiskStops(t *testing.T) {
	for _, c := range []struct {
		at    Point
		edits int // before and after one sync that get through
		syncs int
	}{
		{never, 6, 2},
		{Point{Total: 0}, 0, 0},
		{Point{Total: 4}, 3, 1},
		{Point{Total: -1, Syncs: 1, Ops: 2}, 5, 1},
		{Point{Total: -1, Syncs: 0, Ops: 9}, 3, 0},
		{atSync(1), 6, 1},
	} {
		d := newDisk()
		f, _ := d.create("file")
		d.syncDir()
		d.arm(c.at)
		close(d.halt.released)
		edits, syncs := 0, 0
		for range 2 {
			for range 3 {
				if d.edit(f, edit{0, []byte("x")}) == 0 {
					edits++
				}
			}
			if d.sync(f) == 0 {
				syncs++
			}
		}
		if edits != c.edits || syncs != c.syncs {
			t.Errorf("%+v: %d edits and %d syncs passed, want %d and %d", c.at, edits, syncs, c.edits, c.syncs)
		}
	}
}

func fill(c byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = c
	}
	return b
}

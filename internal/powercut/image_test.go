package powercut

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// image is what the platter may hold when the power comes back: the durable names
// and a prefix of the moves that were not; of each file the durable bytes and a
// part of the edits that were not. Image 0 has none of what was not synced, image
// 1 all of it, the others a random part.
func (d *disk) image(n int, random *rand.Rand) map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := keeper(n, random)
	moves := len(d.moves)
	switch n {
	case 0:
		moves = 0
	case 1:
	default:
		moves = random.IntN(len(d.moves) + 1)
	}
	names := maps.Clone(d.durable)
	for _, m := range d.moves[:moves] {
		m.apply(names)
	}
	out := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in an order that the seed fixes
		out[name] = names[name].survive(keep)
	}
	return out
}

// keeper decides of each sector whether it has arrived; whole says that a new edit
// begins.
func keeper(n int, random *rand.Rand) func(whole bool) bool {
	p := random.Float64()
	switch {
	case n == 0:
		return func(bool) bool { return false }
	case n == 1:
		return func(bool) bool { return true }
	case n%4 == 2: // whole writes arrive, or none of them does
		kept := false
		return func(whole bool) bool {
			if whole {
				kept = random.Float64() < p
			}
			return kept
		}
	case n%4 == 3: // little is missing, or little is there
		p *= p * p
		if random.IntN(2) == 0 {
			p = 1 - p
		}
	}
	return func(bool) bool { return random.Float64() < p }
}

// survive gives the file's bytes after the cut.
func (f *file) survive(keep func(whole bool) bool) []byte {
	b := slices.Clone(f.platter)
	for _, e := range f.pending {
		if e.data == nil {
			if keep(true) {
				b = e.apply(b)
			}
			continue
		}
		for start := int64(0); start < int64(len(e.data)); {
			end := min(start+sector-(e.off+start)%sector, int64(len(e.data)))
			if keep(start == 0) {
				b = edit{e.off + start, e.data[start:end]}.apply(b)
			}
			start = end
		}
	}
	return b
}

// restore makes an image the whole disk: the power has come back.
func (d *disk) restore(files map[string][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names, d.durable, d.moves = map[string]*file{}, map[string]*file{}, nil
	for _, name := range slices.Sorted(maps.Keys(files)) {
		d.lastIno++
		f := &file{ino: d.lastIno + 1, volatile: files[name], platter: slices.Clone(files[name])}
		d.names[name], d.durable[name] = f, f
	}
}

// writeImage puts an image into a directory.
func writeImage(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

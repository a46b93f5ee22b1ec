package powercut

import (
	"sync"
	"syscall"
)

// disk is one flat directory of files, twice: as the page cache shows it and as
// it is durable. It follows ext4 in its default mode where that promises
// something, and the weaker promise of POSIX where a program must not lean on
// ext4:
//
//   - A write or truncate is volatile until fsync or fdatasync of its file has
//     returned; the sync takes all that came before it. Until then any part of it
//     may be on the platter, sector by sector, in any order.
//   - A file's size goes with its data: a sector that arrives beyond the durable
//     end grows the file, with zeros between.
//   - Creating, renaming and unlinking a name is atomic, and ordered with other
//     such operations by the journal: of those that are not durable a prefix
//     survives. They are durable once fsync of the directory has returned. That
//     fsync of a new file makes its name durable as well is ext4's habit and not
//     relied upon: here it does not.
//   - A file whose name is durable and whose data is not has what data arrived; it
//     may be empty.
//
// Everything that changes the disk goes through gate, which is where the cut falls.
type disk struct {
	mu      sync.Mutex
	names   map[string]*file // what the page cache shows
	durable map[string]*file // what is in the journal on the platter
	moves   []move           // from durable to names, in order
	lastIno uint64

	at    Point
	halt  *halt // of the present stint
	total int   // operations since it was armed
	syncs int   // of them syncs that have returned
	since int   // operations since the last of those
}

// file is one inode.
type file struct {
	ino      uint64
	volatile []byte
	platter  []byte
	pending  []edit // from platter to volatile, in order
}

// edit is one write, or a truncate where data is nil.
type edit struct {
	off  int64 // or the new size
	data []byte
}

// move is one change of the directory.
type move struct {
	name string
	to   string // rename; "" for the others
	file *file  // create; nil for the others
}

// Point says before which operation of a stint the disk stops.
type Point struct {
	// Total: before the operation of that number, from 0. Used where it is not
	// negative; then Syncs and Ops are not.
	Total int
	// Syncs and Ops: that many operations after that many syncs, or at the next
	// sync, before it has moved anything, whichever is first.
	Syncs, Ops int
}

// never is a point that is not reached.
var never = Point{Total: 1 << 30}

// atSync stops the sync of that number, from 0, before it has moved anything.
func atSync(n int) Point { return Point{Total: -1, Syncs: n, Ops: 1 << 30} }

// halt is how a stint of a client ends.
type halt struct {
	reached  chan struct{} // closed when the disk has stopped
	released chan struct{} // closed when the client is dead
	stopped  bool
}

func newDisk() *disk {
	return &disk{names: map[string]*file{}, durable: map[string]*file{}, at: never, halt: newHalt()}
}

func newHalt() *halt { return &halt{reached: make(chan struct{}), released: make(chan struct{})} }

// arm sets the disk going for the next client, which sees what the last one left
// in the page cache.
func (d *disk) arm(at Point) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.halt, d.total, d.syncs, d.since = at, newHalt(), 0, 0, 0
}

// freeze stops the disk now, if it has not stopped.
func (d *disk) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
}

func (d *disk) stop() {
	if !d.halt.stopped {
		d.halt.stopped = true
		close(d.halt.reached)
	}
}

// ending is the halt of the present stint.
func (d *disk) ending() *halt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halt
}

// gate lets an operation pass, or holds it until the client is dead. It needs mu,
// and gives it up while it waits.
func (d *disk) gate(sync bool) bool {
	if d.due(sync) {
		d.stop()
	}
	if d.halt.stopped {
		h := d.halt
		d.mu.Unlock()
		<-h.released
		d.mu.Lock()
		return false
	}
	d.total++
	d.since++
	if sync {
		d.syncs++
		d.since = 0
	}
	return true
}

func (d *disk) due(sync bool) bool {
	if d.at.Total >= 0 {
		return d.total >= d.at.Total
	}
	return d.syncs == d.at.Syncs && (sync || d.since >= d.at.Ops) || d.syncs > d.at.Syncs
}

func (d *disk) lookup(name string) *file {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name]
}

func (d *disk) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.names {
		names = append(names, name)
	}
	return names
}

func (d *disk) create(name string) (*file, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.gate(false) {
		return nil, syscall.EIO
	}
	if d.names[name] != nil {
		return nil, syscall.EEXIST
	}
	d.lastIno++
	f := &file{ino: d.lastIno + 1} // the directory is 1
	d.change(move{name: name, file: f})
	return f, 0
}

func (d *disk) rename(from, to string, noReplace bool) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.gate(false):
		return syscall.EIO
	case d.names[from] == nil:
		return syscall.ENOENT
	case noReplace && d.names[to] != nil:
		return syscall.EEXIST
	}
	d.change(move{name: from, to: to})
	return 0
}

func (d *disk) unlink(name string) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.gate(false):
		return syscall.EIO
	case d.names[name] == nil:
		return syscall.ENOENT
	}
	d.change(move{name: name})
	return 0
}

func (d *disk) change(m move) {
	m.apply(d.names)
	d.moves = append(d.moves, m)
}

func (m move) apply(names map[string]*file) {
	switch {
	case m.file != nil:
		names[m.name] = m.file
	case m.to != "":
		names[m.to] = names[m.name]
		delete(names, m.name)
	default:
		delete(names, m.name)
	}
}

func (d *disk) syncDir() syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.gate(true) {
		return syscall.EIO
	}
	for _, m := range d.moves {
		m.apply(d.durable)
	}
	d.moves = nil
	return 0
}

func (d *disk) size(f *file) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(f.volatile))
}

func (d *disk) read(f *file, dst []byte, off int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off >= int64(len(f.volatile)) {
		return 0
	}
	return copy(dst, f.volatile[off:])
}

// edit writes or truncates. It keeps e.
func (d *disk) edit(f *file, e edit) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.gate(false) {
		return syscall.EIO
	}
	f.volatile = e.apply(f.volatile)
	f.pending = append(f.pending, e)
	return 0
}

func (d *disk) sync(f *file) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.gate(true) {
		return syscall.EIO
	}
	for _, e := range f.pending {
		f.platter = e.apply(f.platter)
	}
	f.pending = nil
	return 0
}

func (e edit) apply(b []byte) []byte {
	if e.data == nil {
		return resize(b, e.off)
	}
	if end := e.off + int64(len(e.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[e.off:], e.data)
	return b
}

// resize never shows again what was cut off.
func resize(b []byte, size int64) []byte {
	if old := int64(len(b)); size <= old {
		clear(b[size:])
		return b[:size]
	}
	if size <= int64(cap(b)) {
		return b[:size]
	}
	grown := make([]byte, size, size+size/2)
	copy(grown, b)
	return grown
}

package chip

import (
	"sync"
	"syscall"
	"time"
)

// Trouble is what happens to transfers. The zero value is none.
type Trouble struct {
	Do    func()        // is done to the chip first: its BrownOut, say
	Hang  time.Duration // the lines are held for so long, then the rest follows
	Errno syscall.Errno // the transfer fails, and the chip does not see it
	Short bool          // the transfer ends with ErrNothingMoved, unseen by the chip
	Flip  byte          // bits that are turned in each byte that is read
	Times int           // for so many transfers; 0 is for all
}

// Troubled is a chip that troubles come to. It implements Device.
type Troubled struct {
	Device

	mu       sync.Mutex
	script   []Trouble
	affected int
}

// Script sets what happens from the next transfer on: each trouble for its Times,
// then the next one, and none in the end.
func (d *Troubled) Script(troubles ...Trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script, d.affected = troubles, 0
}

// Affected is how many transfers the script had a line for since it was set.
func (d *Troubled) Affected() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.affected
}

// next is the trouble of one transfer.
func (d *Troubled) next() Trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.script) == 0 {
		return Trouble{}
	}
	d.affected++
	t := d.script[0]
	if t.Times == 1 {
		d.script = d.script[1:]
	} else if t.Times > 1 {
		d.script[0].Times--
	}
	return t
}

// Transfer implements Device.
func (d *Troubled) Transfer(w, r []byte) error {
	t := d.next()
	if t.Do != nil {
		t.Do()
	}
	if t.Hang > 0 {
		time.Sleep(t.Hang)
	}
	switch {
	case t.Errno != 0:
		return Errno(t.Errno)
	case t.Short:
		return ErrNothingMoved
	}
	err := d.Device.Transfer(w, r)
	for i := range r {
		r[i] ^= t.Flip
	}
	return err
}

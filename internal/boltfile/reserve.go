package boltfile

import (
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"
)

// The reserve is a bucket of padding. Bolt changes nothing in place: even a
// deletion writes new pages first, and on a full disk a file whose free pages are
// used up could never be emptied again. Giving the reserve back costs three pages
// and yields all of it, in pages that the disk has already allocated.
const (
	reserveBucket = "_reserve"
	// reservePad makes two records fill one page.
	reservePad = pageSize/2 - 64
	// reserveRetry is the pause before a reserve that could not be made in full is
	// tried again.
	reserveRetry = time.Minute
)

var keyReserve = []byte("reserve") // u32, pages of padding in the file

// UpdateTight is Update for changes that make room, or that have to go on while
// there is none. Where the disk or the file is full, it gives the reserve back
// (Options.ReserveBytes), makes the change, and builds the reserve up again as far
// as there is room. fn may run twice.
func (f *File) UpdateTight(fn func(*bbolt.Tx) error) error {
	err := f.Update(fn)
	if f.reserveWant == 0 || err != nil && !IsFull(err) {
		return err
	}
	f.reserving.Lock()
	defer f.reserving.Unlock()
	released := false
	if err != nil && f.reserved > 0 {
		if rerr := f.setReserve(0); rerr != nil {
			return err
		}
		released = true
		err = f.Update(fn)
	}
	if f.reserved < f.reserveWant && (released || time.Since(f.reserveTried) > reserveRetry) {
		f.rebuildReserve()
	}
	return err
}

// rebuildReserve makes the reserve as large as there is room for.
func (f *File) rebuildReserve() {
	f.reserveTried = time.Now()
	for pages := f.reserveWant; pages > f.reserved; pages /= 2 {
		if err := f.setReserve(pages); !IsFull(err) {
			return // done, or the File has failed and says so to the next writer
		}
	}
}

// setReserve replaces the padding by that many pages of it.
func (f *File) setReserve(pages int) error {
	err := f.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(reserveBucket)) != nil {
			if err := tx.DeleteBucket([]byte(reserveBucket)); err != nil {
				return err
			}
		}
		own := tx.Bucket([]byte(ownBucket))
		if err := own.Put(keyReserve, binary.BigEndian.AppendUint32(nil, uint32(pages))); err != nil || pages == 0 {
			return err
		}
		b, err := tx.CreateBucket([]byte(reserveBucket))
		if err != nil {
			return err
		}
		b.FillPercent = 1
		padding := make([]byte, reservePad)
		for i := range 2 * pages {
			if err := b.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), padding); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.reserved = pages
	}
	return err
}

// openReserve takes stock at open, and makes up for what is missing. A full disk
// is no reason not to open.
func (f *File) openReserve(o Options) error {
	f.reserveWant = int(o.ReserveBytes / pageSize)
	if f.reserveWant == 0 {
		return nil
	}
	err := f.View(func(tx *bbolt.Tx) error {
		if v := tx.Bucket([]byte(ownBucket)).Get(keyReserve); len(v) == 4 {
			f.reserved = int(binary.BigEndian.Uint32(v))
		}
		return nil
	})
	if err == nil {
		f.rebuildReserve()
		err = f.Err()
	}
	return err
}

package chip

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestTroubled: each trouble comes for its times, in order, and then none.
func TestTroubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Troubled{Device: NewADS1115(time.Now)}
		read := func() (value uint16, took time.Duration, err error) {
			began, r := time.Now(), make([]byte, 2)
			err = d.Transfer([]byte{1}, r)
			return uint16(r[0])<<8 | uint16(r[1]), time.Since(began), err
		}
		done := 0
		d.Script(
			Trouble{Do: func() { done++ }, Times: 1},
			Trouble{Errno: syscall.EIO, Times: 2},
			Trouble{Hang: time.Second, Times: 1},
			Trouble{Flip: 0x0f, Times: 1},
			Trouble{Short: true, Times: 1},
		)
		const powerOn = 0x8583
		for i, want := range []struct {
			value uint16
			err   error
			took  time.Duration
		}{
			{powerOn, nil, 0}, {0, syscall.EIO, 0}, {0, syscall.EIO, 0}, {powerOn, nil, time.Second}, {powerOn ^ 0x0f0f, nil, 0},
			{0, ErrNothingMoved, 0}, {powerOn, nil, 0}, {powerOn, nil, 0},
		} {
			value, took, err := read()
			if value != want.value || !errors.Is(err, want.err) || took != want.took {
				t.Errorf("transfer %d: got %#x, %v in %s, want %+v", i, value, err, took, want)
			}
		}
		if got := d.Affected(); got != 6 || done != 1 {
			t.Errorf("got %d transfers affected and %d things done, want 6 and 1", got, done)
		}
		d.Script(Trouble{Short: true})
		for range 5 {
			if _, _, err := read(); err == nil {
				t.Error("a trouble without a number ended")
			}
		}
	})
}

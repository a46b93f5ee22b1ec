package mqtt

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ticket is a token in the state that a test wants.
type ticket struct {
	done chan struct{}
	err  error
}

func (k ticket) Done() <-chan struct{}          { return k.done }
func (k ticket) Error() error                   { return k.err }
func (k ticket) Wait() bool                     { <-k.done; return true }
func (k ticket) WaitTimeout(time.Duration) bool { return k.Wait() }

func acknowledged() ticket {
	k := open()
	close(k.done)
	return k
}

func failed() ticket {
	k := acknowledged()
	k.err = errors.New("connection lost before Publish completed")
	return k
}

func open() ticket { return ticket{done: make(chan struct{})} }

// Only an unbroken run of PUBACKs is confirmed; a token that is done with an
// error, or done out of turn, ends it.
func TestConfirmedPrefix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind []ticket
		done   int // with the head
		rest   int
	}{
		"nothing behind":   {nil, 1, 0},
		"all acknowledged": {[]ticket{acknowledged(), acknowledged()}, 3, 0},
		"a gap":            {[]ticket{acknowledged(), open(), acknowledged()}, 2, 1},
		"a lost link":      {[]ticket{acknowledged(), failed(), failed()}, 2, 1},
	} {
		w := newWindow()
		for i, k := range c.behind {
			w.sent <- sent{token: k, row: uint64(i + 2)}
		}
		done, rest := w.doneBehind([]sent{{token: acknowledged(), row: 1}})
		if len(done) != c.done || len(rest) != c.rest {
			t.Errorf("%s: %d done and %d held, want %d and %d", name, len(done), len(rest), c.done, c.rest)
		}
		var rows, want []uint64
		for i, s := range append(done, rest...) {
			rows, want = append(rows, s.row), append(want, uint64(i+1))
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s: order (-want +got):\n%s", name, diff)
		}
	}
}

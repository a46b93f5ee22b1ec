package chip

import (
	"sync"
	"time"

	"periph.io/x/conn/v3/gpio"
)

const (
	hx711Off      = 60 * time.Microsecond // PD_SCK high for so long switches the chip off
	hx711Settling = 4                     // periods
)

// HX711 models the load cell converter (Avia HX711) on its two lines: conversions
// that end by themselves and replace an unread one even while it is shifted out,
// the number of clocks that selects the next input, power-down by a clock that
// stays high, and settling after power-up and after a change of input. Its Out and
// Level are the lines PD_SCK and DOUT.
type HX711 struct {
	Now    func() time.Time
	Period time.Duration
	// Word is the n-th conversion, from 0, of the input that so many clocks select:
	// 25 A128, 26 B32, 27 A64. Only the low 24 bits count.
	Word func(clocks, n int) int32

	mu      sync.Mutex
	high    bool
	rose    time.Time
	off     bool
	next    time.Time // when the running conversion ends
	settles time.Time // until when no conversion is given out
	clocks  int       // that select the input
	given   int       // clocks since the word became ready
	ready   bool      // a word is ready or being read
	word    uint32
	n       int
	resets  int
	stuck   *gpio.Level
}

// NewHX711 is a chip after power-on.
func NewHX711(now func() time.Time, period time.Duration) *HX711 {
	c := &HX711{Now: now, Period: period, Word: func(int, int) int32 { return 171000 }}
	c.powerUp(now())
	return c
}

// Stick holds DOUT at a level, as a wire does that is off or shorted; nil ends it.
func (c *HX711) Stick(level *gpio.Level) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = level
}

// PowerUps is how often the chip powered up, and how many conversions it made.
func (c *HX711) PowerUps() (resets, conversions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets, c.n
}

// Out sets PD_SCK.
func (c *HX711) Out(level gpio.Level) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	c.advance(now)
	switch {
	case bool(level) == c.high:
	case bool(level):
		c.high, c.rose = true, now
		if c.ready || c.given > 24 {
			c.given++
		}
		if c.given > 24 {
			c.ready = false
		}
	default:
		c.high = false
		if c.off {
			c.powerUp(now)
		}
	}
	return nil
}

// Level reads DOUT.
func (c *HX711) Level() (gpio.Level, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(c.Now())
	switch {
	case c.stuck != nil:
		return *c.stuck, nil
	case c.off, !c.ready:
		return gpio.High, nil
	case c.given == 0:
		return gpio.Low, nil
	}
	return c.word>>(24-c.given)&1 != 0, nil
}

// powerUp begins anew with input A128.
func (c *HX711) powerUp(now time.Time) {
	c.off, c.ready, c.given, c.clocks = false, false, 0, 25
	c.settles = now.Add(hx711Settling * c.Period)
	c.next = c.settles
	c.resets++
}

// advance brings the chip to the time.
func (c *HX711) advance(now time.Time) {
	if c.high && now.Sub(c.rose) >= hx711Off {
		c.off = true
	}
	for !c.off && !now.Before(c.next) {
		c.convert()
	}
}

// convert ends a conversion. If the last word was read with another number of
// clocks, the input changes and settles first.
func (c *HX711) convert() {
	end := c.next
	c.next = end.Add(c.Period)
	if c.given > 24 {
		if c.given != c.clocks {
			c.clocks = c.given
			c.settles = end.Add(hx711Settling * c.Period)
		}
		c.given = 0
	}
	if end.Before(c.settles) {
		return
	}
	// A word that is being read is replaced in its place.
	c.word, c.ready = uint32(c.Word(c.clocks, c.n))&0xffffff, true
	c.n++
}

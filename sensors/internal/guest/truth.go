package main

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// What is in the tanks, in grams. A stands still but for one use in the end; B is
// used up all the time, so that a reading of it that is old shows; out of C flows what
// its meter says.
const (
	firstA = 500
	lastA  = 300
	startB = 750
	useB   = 2.5 // a second
	startC = 5000
	flowC  = 200                 // litres a minute, of 20 °C and 1013.25 hPa
	useC   = flowC * 1.3312 / 60 // a second; a litre of such oxygen has 1.3312 g

	tolerance = 0.2 // a step of the converter is 0.05 g
)

// truth is what was in the tanks.
type truth struct {
	mu    sync.Mutex
	began time.Time
	a     []float64
	b     float64
}

// c is what is in tank C.
func (t *truth) c() float64 { return startC - useC*time.Since(t.began).Seconds() }

// judge refuses a balance that never was.
func (t *truth) judge(tank string, balance float64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch tank {
	case "A":
		for _, grams := range t.a {
			if math.Abs(balance-grams) <= tolerance {
				return nil
			}
		}
		return fmt.Errorf("the account says %g g of tank A, which held %v", balance, t.a)
	case "B":
		if balance >= t.b-tolerance && balance <= startB+tolerance {
			return nil
		}
		return fmt.Errorf("the account says %g g of tank B, which holds %g", balance, t.b)
	case "C": // what flowed while the meter could not be read is not booked
		if c := t.c(); balance < c-tolerance || balance > startC {
			return fmt.Errorf("the account says %g g of tank C, which holds %g", balance, c)
		}
		return nil
	}
	return fmt.Errorf("the account has a tank %q", tank)
}

// use takes from tank B until stop is closed.
func (t *truth) use(b *board, stop <-chan struct{}) {
	const step = 50 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		t.mu.Lock()
		t.b = startB - useB*time.Since(t.began).Seconds()
		b.fill("B", t.b)
		t.mu.Unlock()
	}
}

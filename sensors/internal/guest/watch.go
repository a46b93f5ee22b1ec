package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// sampleEvery is how often the watch asks oxyd.
const sampleEvery = 200 * time.Millisecond

// sensor is a channel as oxyd's node status shows it.
type sensor struct {
	Tank     string `json:"tank"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Detail   string `json:"detail"`
	Faults   uint64 `json:"faults"`
	LastGood *struct {
		Remaining float64   `json:"remaining"`
		At        time.Time `json:"at"`
	} `json:"last_good"`
}

func (s sensor) word() string { return s.State + ":" + s.Reason }

// view is what oxyd said at one time.
type view struct {
	at       time.Time
	epoch    uint64
	sensors  map[string]sensor
	balances map[string]*float64
}

// watch asks oxyd again and again and judges each answer: a balance must be one
// that is or was true.
type watch struct {
	board *board
	judge func(tank string, balance float64) error

	mu     sync.Mutex
	latest view
	oldest map[string]time.Duration // greatest age of a tank's last good reading
	worst  error                    // the first wrong balance
	asked  int
	stop   chan struct{}
}

func newWatch(b *board, judge func(string, float64) error) *watch {
	w := &watch{board: b, judge: judge, oldest: map[string]time.Duration{}, stop: make(chan struct{})}
	go w.run()
	return w
}

func (w *watch) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		v, err := w.look()
		if err != nil {
			continue // not up yet; the story's deadlines tell if it never is
		}
		w.note(v)
	}
}

func (w *watch) look() (view, error) {
	var node struct {
		Epoch   uint64   `json:"epoch"`
		Sensors []sensor `json:"sensors"`
	}
	var tanks []struct {
		Tank    string       `json:"tank"`
		Balance *json.Number `json:"balance"`
	}
	if err := errors.Join(w.board.get("/api/node", &node), w.board.get("/api/tanks", &tanks)); err != nil {
		return view{}, err
	}
	v := view{at: time.Now(), epoch: node.Epoch, sensors: map[string]sensor{}, balances: map[string]*float64{}}
	for _, s := range node.Sensors {
		v.sensors[s.Tank] = s
	}
	for _, t := range tanks {
		if t.Balance == nil {
			continue
		}
		grams, err := t.Balance.Float64()
		if err != nil {
			return view{}, err
		}
		v.balances[t.Tank] = &grams
	}
	return v, nil
}

func (w *watch) note(v view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = v
	w.asked++
	for tank, s := range v.sensors {
		if s.LastGood != nil {
			w.oldest[tank] = max(w.oldest[tank], v.at.Sub(s.LastGood.At))
		}
	}
	for tank, grams := range v.balances {
		if err := w.judge(tank, *grams); err != nil && w.worst == nil {
			w.worst = err
		}
	}
}

// until waits until what oxyd says is so.
func (w *watch) until(limit time.Duration, so func(view) bool) error {
	deadline := time.Now().Add(limit)
	for {
		w.mu.Lock()
		v, worst := w.latest, w.worst
		w.mu.Unlock()
		switch {
		case worst != nil:
			return worst
		case !v.at.IsZero() && so(v):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("not within %s; oxyd says %s", limit, v)
		}
		select {
		case err := <-w.board.oxyd.ended:
			return fmt.Errorf("oxyd ended: %v", err)
		case <-time.After(sampleEvery / 2):
		}
	}
}

// age is the greatest age of a tank's last good reading since the last call.
func (w *watch) age(tank string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := w.oldest[tank]
	clear(w.oldest)
	return age
}

// said is what oxyd last said.
func (w *watch) said() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// result is how many answers were judged and whether one was wrong.
func (w *watch) result() (asked int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.worst
}

// String is a view for a human.
func (v view) String() string {
	s := ""
	for _, tank := range []string{"A", "B", "C"} {
		s += fmt.Sprintf("%s %s (%s)", tank, v.sensors[tank].word(), v.sensors[tank].Detail)
		if b := v.balances[tank]; b != nil {
			s += fmt.Sprintf(" balance %g", *b)
		}
		s += " "
	}
	return s
}

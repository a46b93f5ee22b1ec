package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"oxyd/sensors/internal/chip"
)

// What is in the tanks, in grams. A stands still but for one use in the end; B is
// used up all the time, so that a reading of it that is old shows.
const (
	firstA = 500
	lastA  = 300
	startB = 750
	useB   = 2.5 // a second

	tolerance = 0.2 // a step of the converter is 0.05 g
)

// Bounds that oxyd has to keep.
const (
	startLimit  = 30 * time.Second // on an emulated processor
	reasonLimit = 8 * time.Second  // until a fault shows: three reads, and a busy emulator
	healLimit   = 12 * time.Second // the pause between two tries, which grew meanwhile
	freshLimit  = 2 * time.Second  // age of a neighbour's reading
)

// truth is what was in the tanks.
type truth struct {
	mu sync.Mutex
	a  []float64
	b  float64
}

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
	}
	return fmt.Errorf("the account has a tank %q", tank)
}

// use takes from tank B until stop is closed.
func (t *truth) use(b *board, stop <-chan struct{}) {
	const step = 50 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		t.mu.Lock()
		t.b = startB - useB*time.Since(began).Seconds()
		b.fill("B", t.b)
		t.mu.Unlock()
	}
}

// teller tells the story: it does things to the board and waits for what oxyd says.
type teller struct {
	board *board
	truth *truth
	watch *watch
}

// tell tells the story and gives the first thing that is not as it should be.
func tell(b *board) error {
	t := &teller{board: b, truth: &truth{a: []float64{firstA}, b: startB}}
	stop := make(chan struct{})
	defer close(stop)
	go t.truth.use(b, stop)
	t.watch = newWatch(b, t.truth.judge)
	defer close(t.watch.stop)
	chapters := []struct {
		name string
		do   func() error
	}{
		{"both tanks are read", t.opening},
		{"nobody acknowledges", t.errno(syscall.EREMOTEIO, "missing:nack")},
		{"arbitration is lost", t.errno(syscall.EAGAIN, "fault:bus")},
		{"i/o errors", t.errno(syscall.EIO, "fault:bus")},
		{"the handle is dead", t.errno(syscall.ENODEV, "missing:no_bus")},
		{"busy twice, which nobody sees", t.busy},
		{"transfers fall short", t.trouble(chip.Trouble{Short: true}, "fault:bus")},
		{"bits are turned", t.trouble(chip.Trouble{Flip: 0x20}, "fault:config_readback")},
		{"brown-out", t.brownOut},
		{"the chip hangs", t.hang},
		{"the bus is pulled and put back", t.vanish},
		{"oxygen is used", t.used},
		{"every event is true", t.events},
		{"oxyd stops cleanly", b.stopOxyd},
	}
	for _, c := range chapters {
		began := time.Now()
		if err := c.do(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("ok %5.1fs  %s\n", time.Since(began).Seconds(), c.name)
	}
	return nil
}

// healthy reports whether both channels are ok and the account says what is so.
func (t *teller) healthy(v view) bool {
	a, b := v.balances["A"], v.balances["B"]
	t.truth.mu.Lock()
	defer t.truth.mu.Unlock()
	return v.sensors["A"].State == "ok" && v.sensors["B"].State == "ok" && a != nil && b != nil &&
		math.Abs(*a-t.truth.a[len(t.truth.a)-1]) <= tolerance && *b-t.truth.b <= 3*useB
}

func (t *teller) opening() error {
	if err := t.watch.until(startLimit, t.healthy); err != nil {
		return err
	}
	t.watch.age("B")
	if got := t.board.bus.Timeout(); got != 250*time.Millisecond {
		return fmt.Errorf("oxyd set the adapter's timeout to %s, want 250ms", got)
	}
	return nil
}

// errno fails every transfer of A's chip.
func (t *teller) errno(errno syscall.Errno, want string) func() error {
	return t.trouble(chip.Trouble{Errno: errno}, want)
}

// trouble comes to every transfer of A's chip until oxyd says so, and leaves: A
// must heal, B must not have noticed.
func (t *teller) trouble(trouble chip.Trouble, want string) func() error {
	return func() error {
		t.board.chips["A"].Script(trouble)
		err := t.watch.until(reasonLimit, func(v view) bool { return v.sensors["A"].word() == want })
		t.board.chips["A"].Script()
		if err != nil {
			return err
		}
		return t.healed()
	}
}

// healed waits until all is well, and demands that B was fresh meanwhile.
func (t *teller) healed() error {
	if err := t.watch.until(healLimit, t.healthy); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	if age := t.watch.age("B"); age > freshLimit {
		return fmt.Errorf("the neighbour's reading was %s old", age)
	}
	return nil
}

// busy has A's chip not acknowledge twice, as one does that is busy for a moment.
func (t *teller) busy() error {
	a := t.board.chips["A"]
	a.Script(chip.Trouble{Errno: syscall.ENXIO, Times: 2})
	if err := t.watch.until(reasonLimit, func(view) bool { return a.Affected() == 2 }); err != nil {
		return err
	}
	return t.healed()
}

// brownOut resets A's chip again and again, each time elsewhere in a read.
func (t *teller) brownOut() error {
	a := t.board.chips["A"]
	var script []chip.Trouble
	total := 0
	for pause := 3; pause <= 14; pause++ {
		script = append(script, chip.Trouble{Times: pause}, chip.Trouble{Do: t.board.adc("A").BrownOut, Times: 1})
		total += pause + 1
	}
	a.Script(script...)
	if err := t.watch.until(startLimit, func(view) bool { return a.Affected() == total }); err != nil {
		return err
	}
	return t.healed()
}

// hang holds up every transfer of A's chip for longer than a tick.
func (t *teller) hang() error {
	a := t.board.chips["A"]
	a.Script(chip.Trouble{Hang: 1200 * time.Millisecond, Errno: syscall.ETIMEDOUT})
	err := t.watch.until(reasonLimit, func(v view) bool { return v.sensors["A"].Reason == "bus" })
	if err == nil { // and it lasts: a second try
		err = t.watch.until(reasonLimit, func(v view) bool { return a.Affected() >= 2 && v.sensors["A"].State != "ok" })
	}
	a.Script()
	if err != nil {
		return err
	}
	if age := t.watch.age("B"); age > freshLimit {
		return fmt.Errorf("the neighbour's reading was %s old", age)
	}
	// The next try is 9 × 1.2 s after the last.
	return t.watch.until(healLimit+11*time.Second, t.healthy)
}

// vanish pulls the adapter under oxyd and puts it back.
func (t *teller) vanish() error {
	before := t.watch.epoch()
	if err := t.board.unplug(); err != nil {
		return err
	}
	err := t.watch.until(reasonLimit, func(v view) bool {
		return v.sensors["A"].word() == "missing:no_bus" && v.sensors["B"].word() == "missing:no_bus"
	})
	if err != nil {
		return err
	}
	if err := t.board.plug(); err != nil {
		return err
	}
	if err := t.watch.until(healLimit, t.healthy); err != nil {
		return err
	}
	t.watch.age("B")
	if after := t.watch.epoch(); after != before {
		return fmt.Errorf("oxyd began epoch %d after %d: it was restarted", after, before)
	}
	return nil
}

// used takes oxygen from tank A.
func (t *teller) used() error {
	t.truth.mu.Lock()
	t.truth.a = append(t.truth.a, lastA)
	t.truth.mu.Unlock()
	t.board.fill("A", lastA)
	if err := t.healed(); err != nil {
		return err
	}
	shown, err := exec.Command("/bin/oxyd", "tanks", "--json", "-c", configFile).Output()
	if err != nil {
		return fmt.Errorf("oxyd tanks: %w", err)
	}
	var tanks []struct {
		Tank    string  `json:"tank"`
		Balance float64 `json:"balance"`
	}
	if err := json.Unmarshal(shown, &tanks); err != nil || len(tanks) != 2 || tanks[0].Tank != "A" || math.Abs(tanks[0].Balance-lastA) > tolerance {
		return fmt.Errorf("oxyd tanks says %s (%v)", shown, err)
	}
	return nil
}

// events looks at every event that the account has booked.
func (t *teller) events() error {
	asked, err := t.watch.result()
	if err != nil {
		return err
	}
	booked := 0
	for _, tank := range []string{"A", "B"} {
		n, err := t.eventsOf(tank)
		if err != nil {
			return err
		}
		booked += n
	}
	if asked < 100 || booked < 50 {
		return fmt.Errorf("judged %d answers and %d events: too few to say anything", asked, booked)
	}
	fmt.Printf("judged %d answers of the account and %d events\n", asked, booked)
	return nil
}

// row is an event in the account's history.
type row struct {
	Type   string   `json:"type"`
	Amount *float64 `json:"amount"`
	Seq    uint64   `json:"seq"`
}

// eventsOf judges the events of a tank. What is used up never comes back.
func (t *teller) eventsOf(tank string) (n int, err error) {
	var rows []row
	if err := t.board.get("/api/tanks/"+tank+"/events?limit=1000", &rows); err != nil {
		return 0, err
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.Seq, b.Seq) })
	last := math.Inf(1)
	for _, r := range rows {
		if r.Amount == nil || r.Type != "OxygenMeasured" {
			return 0, fmt.Errorf("tank %s has a row that is no measurement: %+v", tank, r)
		}
		if err := t.truth.judge(tank, *r.Amount); err != nil {
			return 0, err
		}
		if *r.Amount > last+tolerance {
			return 0, fmt.Errorf("tank %s rose from %g g to %g g", tank, last, *r.Amount)
		}
		last = *r.Amount
	}
	return len(rows), nil
}

// stopOxyd stops oxyd and the bus.
func (b *board) stopOxyd() error {
	if err := b.oxyd.stop(); err != nil {
		return err
	}
	if n := b.bus.Opens(); n != 0 {
		return fmt.Errorf("oxyd left %d handles of the bus open", n)
	}
	return b.bus.Close()
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"oxyd/sensors/internal/chip"
)

// Bounds that oxyd has to keep.
const (
	startLimit  = 30 * time.Second // on an emulated processor
	reasonLimit = 8 * time.Second  // until a fault shows: three reads, and a busy emulator
	healLimit   = 12 * time.Second // the pause between two tries, which grew meanwhile
	freshLimit  = 2 * time.Second  // age of a neighbour's reading
)

// teller tells the story: it does things to the board and waits for what oxyd says.
type teller struct {
	board *board
	truth *truth
	watch *watch
}

// tell tells the story and gives the first thing that is not as it should be.
func tell(b *board) error {
	t := &teller{board: b, truth: &truth{began: time.Now(), a: []float64{firstA}, b: startB}}
	stop := make(chan struct{})
	defer close(stop)
	go t.truth.use(b, stop)
	t.watch = newWatch(b, t.truth.judge)
	defer close(t.watch.stop)
	chapters := []struct {
		name string
		do   func() error
	}{
		{"all chips are read", t.opening},
		{"nobody acknowledges", t.trouble("A", chip.Trouble{Errno: syscall.EREMOTEIO}, "missing:nack")},
		{"arbitration is lost", t.trouble("A", chip.Trouble{Errno: syscall.EAGAIN}, "fault:bus")},
		{"i/o errors", t.trouble("A", chip.Trouble{Errno: syscall.EIO}, "fault:bus")},
		{"the handle is dead", t.trouble("A", chip.Trouble{Errno: syscall.ENODEV}, "missing:no_bus")},
		{"busy twice, which nobody sees", t.busy},
		{"transfers fall short", t.trouble("A", chip.Trouble{Short: true}, "fault:bus")},
		{"bits are turned", t.trouble("A", chip.Trouble{Flip: 0x20}, "fault:config_readback")},
		{"brown-out", t.brownOut},
		{"the meter's bits are turned", t.trouble("C", chip.Trouble{Flip: 0x20}, "fault:crc")},
		{"the meter is reset", t.reset},
		{"the chip hangs", t.hang},
		{"the bus is pulled and put back", t.vanish},
		{"oxygen is used", t.used},
		{"what flows is booked", t.flows},
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
	return v.sensors["A"].State == "ok" && v.sensors["B"].State == "ok" && v.sensors["C"].State == "ok" && a != nil && b != nil &&
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

// trouble comes to every transfer of a tank's chip until oxyd says so, and leaves: the
// channel must heal, and the neighbours must not have noticed.
func (t *teller) trouble(tank string, trouble chip.Trouble, want string) func() error {
	return func() error {
		t.board.chips[tank].Script(trouble)
		err := t.watch.until(reasonLimit, func(v view) bool { return v.sensors[tank].word() == want })
		t.board.chips[tank].Script()
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
	before := t.watch.said().sensors["A"].Faults
	a.Script(chip.Trouble{Errno: syscall.ENXIO, Times: 2})
	if err := t.watch.until(reasonLimit, func(view) bool { return a.Affected() == 2 }); err != nil {
		return err
	}
	time.Sleep(time.Second) // two reads of A's own rhythm
	if err := t.healed(); err != nil {
		return err
	}
	if after := t.watch.said().sensors["A"].Faults; after != before {
		return fmt.Errorf("%d reads failed", after-before)
	}
	return nil
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

// reset resets the meter, which then has to be started anew.
func (t *teller) reset() error {
	before := t.board.meter().Starts()
	t.board.meter().BrownOut()
	if err := t.watch.until(reasonLimit, func(view) bool { return t.board.meter().Starts() > before }); err != nil {
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
	if err == nil {
		time.Sleep(8 * time.Second) // its rest is longer
		if n := a.Affected(); n != 2 {
			err = fmt.Errorf("the chip was asked %d times, want twice until it has rested", n)
		}
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
	before := t.watch.said().epoch
	if err := t.board.unplug(); err != nil {
		return err
	}
	err := t.watch.until(reasonLimit, func(v view) bool {
		for _, s := range v.sensors {
			if s.word() != "missing:no_bus" {
				return false
			}
		}
		return true
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
	if after := t.watch.said().epoch; after != before {
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
	if err := json.Unmarshal(shown, &tanks); err != nil || len(tanks) != 3 || tanks[0].Tank != "A" || math.Abs(tanks[0].Balance-lastA) > tolerance {
		return fmt.Errorf("oxyd tanks says %s (%v)", shown, err)
	}
	return nil
}

// flows looks at what was booked of what flowed out of C: never more (see judge), and
// less by what flowed while the meter could not be read, and by the event to come.
func (t *teller) flows() error {
	const (
		unread = 15 * time.Second // at most, in this story
		event  = 50               // grams
	)
	flowed, booked := startC-t.truth.c(), startC-*t.watch.said().balances["C"]
	if booked < flowed-event-useC*unread.Seconds() || booked < flowed/2 {
		return fmt.Errorf("%.1f g were booked while %.1f g flowed", booked, flowed)
	}
	fmt.Printf("booked %.1f g of the %.1f g that flowed\n", booked, flowed)
	return nil
}

// events looks at every event that the account has booked.
func (t *teller) events() error {
	asked, err := t.watch.result()
	if err != nil {
		return err
	}
	booked := 0
	for _, tank := range []string{"A", "B"} { // C's are amounts; their sum is its balance
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

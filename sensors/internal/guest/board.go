package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"periph.io/x/conn/v3/physic"

	"oxyd/internal/cusei2c"
	"oxyd/sensors/internal/chip"
)

const (
	busNumber  = 7 // of the board's /dev/i2c-N
	configFile = "/data/config.yaml"
	logFile    = "/tmp/oxyd.log"
)

// The board's config, with a sensor for each tank to follow. Of A and B, 0.5 V is an
// empty tank and 4.5 V is 1000 g; what flows out of C goes through a meter.
const (
	configHead = `
site: rig
node: board
data_dir: /data
tanks:
  - {id: A, capacity: 1000 g}
  - {id: B, capacity: 1000 g}
  - {id: C, capacity: 10 kg, initial: %d g}
broker: {listen: 127.0.0.1:1883}
ledger: {id: main}
outbox: {commit_interval: 200ms}
log: {level: info, format: text}
sensors:
`
	configADC = `
  - tank: %s
    driver: ads1115
    interval: 500ms
    stale_after: 3s
    bus: %d
    address: %#x
    input: 0
    gain: 6.144 V
    rate: 128
    calibration:
      - {volts: 0.5 V, remaining: 0 g}
      - {volts: 4.5 V, remaining: 1000 g}
    volts_min: 0.3 V
    volts_max: 4.7 V
`
	configSFM = `
  - tank: %s
    driver: sfm
    interval: 250ms
    stale_after: 3s
    bus: %d
    address: %#x
    part: SFM3019
    gas: oxygen
    flow_unit: slm
`
)

// volts is what a sensor gives for a tank's grams.
func volts(grams float64) physic.ElectricPotential {
	return physic.ElectricPotential((0.5 + 4*grams/1000) * float64(physic.Volt))
}

// board is the board: chips on a bus, and oxyd.
type board struct {
	wires  *chip.Bus
	chips  map[string]*chip.Troubled // by tank
	bus    *cusei2c.Device           // nil while it is unplugged
	oxyd   *daemon
	client *http.Client
}

// chipTable is which chip measures which tank. A chip of another kind is one more
// line here, a driver's section above, and its part in the story.
var chipTable = []struct {
	tank    string
	address uint16
	config  string
	model   func() chip.Device
}{
	{"A", 0x48, configADC, func() chip.Device { return chip.NewADS1115(time.Now) }},
	{"B", 0x49, configADC, func() chip.Device { return chip.NewADS1115(time.Now) }},
	{"C", 0x2e, configSFM, func() chip.Device { return chip.NewSFM3019(time.Now) }},
}

// newBoard puts the chips on the bus and makes the bus a device.
func newBoard() (*board, error) {
	b := &board{wires: &chip.Bus{Name: "wires"}, chips: map[string]*chip.Troubled{}}
	for _, c := range chipTable {
		b.chips[c.tank] = &chip.Troubled{Device: c.model()}
		b.wires.Plug(c.address, b.chips[c.tank])
	}
	b.wires.Plug(0, b.meter().GeneralCall())
	b.meter().Set(flowC, 25)
	b.fill("A", firstA)
	b.fill("B", startB)
	b.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", "/data/oxyd.sock")
		}}}
	return b, b.plug()
}

func (b *board) adc(tank string) *chip.ADS1115 { return b.chips[tank].Device.(*chip.ADS1115) }

func (b *board) meter() *chip.SFM { return b.chips["C"].Device.(*chip.SFM) }

// fill puts grams into a tank.
func (b *board) fill(tank string, grams float64) { b.adc(tank).Set(0, volts(grams)) }

// plug makes the bus a device of the kernel.
func (b *board) plug() (err error) {
	b.bus, err = cusei2c.Open(busNumber, messages{b.wires})
	return err
}

// unplug takes it away under whoever uses it.
func (b *board) unplug() error {
	err := b.bus.Close()
	b.bus = nil
	return err
}

// messages does the messages of a transfer on chips, which know writes followed by
// reads.
type messages struct{ wires *chip.Bus }

// Transfer implements cusei2c.Bus.
func (m messages) Transfer(list []cusei2c.Message) (done int, err error) {
	for done < len(list) {
		var w, r []byte
		first, n := list[done], 1
		if r = first.Data; !first.Read {
			w, r = first.Data, nil
			if next := done + 1; next < len(list) && list[next].Read && list[next].Addr == first.Addr {
				r, n = list[next].Data, 2
			}
		}
		err := m.wires.Tx(first.Addr, w, r)
		if errors.Is(err, chip.ErrNothingMoved) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// start starts oxyd.
func (b *board) start() (err error) {
	var config strings.Builder
	fmt.Fprintf(&config, configHead, startC)
	for _, c := range chipTable {
		fmt.Fprintf(&config, c.config, c.tank, busNumber, c.address)
	}
	if err := os.WriteFile(configFile, []byte(config.String()), 0o600); err != nil {
		return err
	}
	b.oxyd, err = startOxyd(configFile, logFile)
	return err
}

// get asks oxyd over its control socket.
func (b *board) get(path string, into any) error {
	answer, err := b.client.Get("http://oxyd" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// showLog prints the end of oxyd's log.
func (b *board) showLog() {
	log, err := os.ReadFile(logFile)
	if err != nil {
		fmt.Println("no log:", err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	for _, l := range lines[max(0, len(lines)-60):] {
		fmt.Println("oxyd |", l)
	}
}

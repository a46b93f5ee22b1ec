package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/daemon"
	"oxyd/sensors"
)

// answersAt waits until a daemon answers at a socket.
func answersAt(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c := clientOf(&config.Config{DataDir: filepath.Dir(path)})
		list, err := (&running{c}).channels(context.Background())
		waiting := err != nil
		for i := range list {
			waiting = waiting || list[i].Reads == 0
		}
		if !waiting {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no daemon that has read its channels answers at %s: %v", path, err)
		}
	}
}

// isJSON wants one JSON document.
func isJSON(ts *testscript.TestScript, _ bool, args []string) {
	if text := ts.ReadFile(args[0]); !json.Valid([]byte(text)) {
		ts.Fatalf("no JSON: %q", text)
	}
}

// adc is an ADS1115 on a bus of its own, as far as its driver looks: a conversion of what
// volts gives, at the chip's own rate.
type adc struct {
	volts func() float64
	mu    sync.Mutex
	point byte
	regs  [4]uint16
	done  time.Time
}

// conversion is how long one takes at 128 a second, and the chip's waking up.
const conversion = time.Second/128 + 50*time.Microsecond

func (a *adc) Tx(addr uint16, w, r []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr != 0x48 {
		return errors.New("nobody there")
	}
	if len(w) > 0 {
		a.point = w[0] & 3
	}
	if len(w) == 3 {
		a.regs[a.point] = uint16(w[1])<<8 | uint16(w[2])
		if a.point == 1 {
			a.regs[0], a.done = uint16(min(a.volts()/6.144*32768, 32767)), time.Now().Add(conversion)
		}
	}
	if len(r) == 2 {
		v := a.regs[a.point]
		if v &= 0x7fff; a.point == 1 && !time.Now().Before(a.done) { // no reading here is below 0 V
			v |= 0x8000
		}
		r[0], r[1] = byte(v>>8), byte(v)
	}
	return nil
}

func (a *adc) String() string                  { return "adc" }
func (a *adc) SetSpeed(physic.Frequency) error { return nil }
func (a *adc) Close() error                    { return nil }

// commissioning is a person with a config, an ADC and a keyboard.
type commissioning struct {
	t      *testing.T
	cfg    string
	dir    string
	volts  float64
	err    error           // of every transfer
	stdout strings.Builder // and stderr
}

const gaugeConfig = `
data_dir: DIR
mqtt: {broker: "tcp://127.0.0.1:1"}
tanks: [{id: dock-1, capacity: 18 kg}]
sensors:
  - {tank: dock-1, name: dock-1-gauge, driver: ads1115, input: 0, calibration_file: DIR/calibration/dock-1-gauge.json,
     model: gas, volume: 50 L, pressure: gauge, temperature: 20 °C}
`

func commission(t *testing.T) *commissioning {
	dir, err := os.MkdirTemp("", "oxyd-cal") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &commissioning{t: t, dir: dir, cfg: filepath.Join(dir, "config.yaml"), volts: 0.5}
	text := strings.ReplaceAll(gaugeConfig, "DIR", dir)
	if err := os.WriteFile(c.cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// person types a line at each prompt, "VOLTS LINE", when the sensor stands there.
type person struct {
	c        *commissioning
	lines    []string
	keyboard *io.PipeWriter
}

func (p *person) Write(text []byte) (int, error) {
	if strings.HasPrefix(string(text), "point ") {
		if len(p.lines) == 0 {
			p.keyboard.Close()
			return p.c.stdout.Write(text)
		}
		volts, said, _ := strings.Cut(p.lines[0], " ")
		p.lines = p.lines[1:]
		if _, err := fmt.Sscan(volts, &p.c.volts); err != nil {
			return 0, err
		}
		go func() { _, _ = io.WriteString(p.keyboard, said+"\n") }() // until it is read, or the test has ended
	}
	return p.c.stdout.Write(text)
}

// calibrate runs the command on what is typed.
func (c *commissioning) calibrate(ctx context.Context, typed ...string) error {
	c.t.Helper()
	in, keyboard := io.Pipe()
	defer in.Close()
	chip := &adc{volts: func() float64 { return c.volts }}
	s := &terminal{ctx: ctx, stdin: in, stdout: &person{c, typed, keyboard}, stderr: &c.stdout,
		openBus: func(string) (i2c.BusCloser, error) { return chip, c.err }}
	cmd := &sensorsCalibrateCmd{configFlag: configFlag{Config: c.cfg}, Name: "dock-1", Reads: 3, By: "crew"}
	return cmd.Run(s)
}

func (c *commissioning) record() string {
	return filepath.Join(c.dir, "calibration", "dock-1-gauge.json")
}

func (c *commissioning) mustBeUnwritten() {
	c.t.Helper()
	if _, err := os.Stat(c.record()); !errors.Is(err, os.ErrNotExist) {
		c.t.Errorf("a record stands there: %v", err)
	}
}

// What calibrate writes is what the daemon reads with, and it is only of that channel.
func TestCalibrateWritesWhatTheDaemonTakes(t *testing.T) {
	c := commission(t)
	err := c.calibrate(t.Context(), "0.5 0 bar", "0.5 lots", "2.5 12 kg", "2.5 125 bar", "2.5 130 bar", "4.5 25 MPa", "4.5 ", "4.5 300 bar")
	shown := c.stdout.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	for _, want := range []string{"dock-1-gauge at /dev/i2c-1 0x48 AIN0. Bring it to a known pressure", `oxyd: error: `, `"12 kg" is no pressure`,
		"this point is not taken: two calibration points", "is written", "calibration_file: " + c.record()} {
		if !strings.Contains(shown, want) {
			t.Errorf("nothing says %q:\n%s", want, shown)
		}
	}
	r, err := sensors.LoadRecord(c.record())
	if err != nil {
		t.Fatal(err)
	}
	if r.Channel != "dock-1-gauge" || r.By != "crew" || r.Unit != "Pa" || r.Over != "V" || time.Since(r.MadeAt) > time.Minute || len(r.Points) != 3 {
		t.Errorf("got %+v", r)
	}
	if p := r.Points[1]; p.Said != "125 bar" || p.Is != 1.25e7 || p.Raw != 13333 || p.Reads != 3 {
		t.Errorf("second point is %+v", p)
	}
	cfg, err := config.Load(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	specs, err := daemon.SensorSpecs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := specs[0].Scale
	for i := range got {
		got[i].At = float64(int(got[i].At*1e3+0.5)) / 1e3
	}
	if diff := cmp.Diff([]sensors.ScalePoint{{At: 0.5, Is: 0}, {At: 2.5, Is: 1.25e7}, {At: 4.5, Is: 2.5e7}}, got); diff != "" {
		t.Error(diff)
	}

	// The same record in the hands of a tank that is weighed, or of another signal.
	for name, change := range map[string]func(*sensors.Record){
		"another unit":   func(r *sensors.Record) { r.Unit = "kg" },
		"another signal": func(r *sensors.Record) { r.Signal = sensors.SignalLoop },
		"another driver": func(r *sensors.Record) { r.Driver = sensors.DriverMCP3208 },
	} {
		other := *r
		change(&other)
		if err := other.Save(c.record()); err != nil {
			t.Fatal(err)
		}
		_, err := daemon.SensorSpecs(cfg)
		if err == nil || !strings.Contains(err.Error(), "the sensor is ads1115 by voltage in Pa") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever keeps a calibration from being whole leaves the one before.
func TestCalibrateWritesNothing(t *testing.T) {
	for name, w := range map[string]struct {
		typed []string
		says  string
	}{
		"nothing typed":   {nil, "point 1"},
		"an empty line":   {[]string{"0.5 "}, "point 1"},
		"one point":       {[]string{"0.5 0 bar"}, "raw 2666"},
		"no units":        {[]string{"0.5 0", "4.5 250"}, "unit"},
		"other units":     {[]string{"0.5 0 %", "4.5 20 °C"}, "no pressure"},
		"twice one place": {[]string{"0.5 0 bar", "0.5 100 bar"}, "two calibration points"},
		"at its end":      {[]string{"6.1441 0 bar", "6.1441 100 bar"}, "saturated"},
		"a wire is off":   {[]string{"0 0 bar", "0.001 100 bar"}, "the sensor does not read"},
	} {
		t.Run(name, func(t *testing.T) {
			c := commission(t)
			err := c.calibrate(t.Context(), w.typed...)
			if err == nil || !strings.Contains(err.Error(), "fewer than two points: nothing is written") {
				t.Errorf("got %v\n%s", err, c.stdout.String())
			}
			if !strings.Contains(c.stdout.String(), w.says) {
				t.Errorf("nothing says %q:\n%s", w.says, c.stdout.String())
			}
			c.mustBeUnwritten()
		})
	}
	c := commission(t)
	c.err = errors.New("wire is off")
	if err := c.calibrate(t.Context(), "0.5 0 bar", "4.5 250 bar"); err == nil || !strings.Contains(err.Error(), "wire is off") {
		t.Errorf("got %v", err)
	}
	c.mustBeUnwritten()
}

// Nobody has to press return for an interrupt to be heard.
func TestCalibrateEndsOnAnInterrupt(t *testing.T) {
	c := commission(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, keyboard := io.Pipe()
	defer in.Close()
	defer keyboard.Close()
	prompts := make(blocks, 64)
	chip := &adc{volts: func() float64 { return 0.5 }}
	s := &terminal{ctx: ctx, stdin: in, stdout: prompts, stderr: io.Discard, openBus: func(string) (i2c.BusCloser, error) { return chip, nil }}
	ended := make(chan error, 1)
	go func() {
		ended <- (&sensorsCalibrateCmd{configFlag: configFlag{Config: c.cfg}, Name: "dock-1", Reads: 3}).Run(s)
	}()
	for !strings.HasPrefix(prompts.next(t), "point 1") {
	}
	interrupt()
	select {
	case err := <-ended:
		if !errors.Is(err, errInterrupted) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("an interrupt is not heard while nobody types")
	}
	c.mustBeUnwritten()
}

// Without a daemon too --watch shows the channels again and again, and an interrupt is
// how it ends.
func TestSensorsWatchEndsOnAnInterrupt(t *testing.T) {
	dir, err := os.MkdirTemp("", "oxyd-watch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "config.yaml")
	text := "data_dir: " + dir + "\nsensors:\n  - {tank: A, driver: simulated, interval: 100ms, simulated: {start: 850 g, no_refill: true, consumption_per_hour: 0 g, events: [{at: 1s, do: fault, reason: open}]}}\n"
	if err := os.WriteFile(file, []byte(text+"mqtt: {broker: \"tcp://127.0.0.1:1\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	stdout, stderr, code := make(blocks, 64), make(blocks, 64), make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"sensors", "read", "--watch", "--json", "-c", file}, nil, stdout, stderr)
	}()
	var first, now []daemon.SensorDocument
	if err := json.Unmarshal([]byte(stdout.next(t)), &first); err != nil || len(first) != 1 || first[0].State != sensors.StateOK {
		t.Fatalf("first block: %v, %+v", err, first)
	}
	for len(now) == 0 || now[0].State != sensors.StateFault {
		now = nil
		if err := json.Unmarshal([]byte(stdout.next(t)), &now); err != nil || len(now) != 1 {
			t.Fatalf("block: %v, %+v", err, now)
		}
	}
	// The last good value stays, with its time: it is not taken for a new one.
	if good := now[0].LastGood; now[0].Reason != sensors.ReasonOpen || now[0].Faults < sensors.FaultsBeforeState || good == nil ||
		good.Remaining == nil || good.Remaining.String() != "850 g" || good.Quality != "good" || good.At.After(now[0].Since) {
		t.Errorf("got %+v with last good %+v", now[0], good)
	}
	interrupt()
	select {
	case got := <-code:
		if got != ExitDone {
			t.Errorf("exit code %d after an interrupt, want %d", got, ExitDone)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("--watch does not end on an interrupt")
	}
	if len(stderr) > 0 {
		t.Errorf("stderr: %s", <-stderr)
	}
}

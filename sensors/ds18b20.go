package sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DefaultW1Root is where the kernel lists what hangs on its 1-wire buses.
const DefaultW1Root = "/sys/bus/w1/devices"

// w1Interrupted is how soon a read ends that did not convert: the chip is off, or
// a signal ended the kernel's wait. A conversion of 9 bits takes 94 ms.
const w1Interrupted = 90 * time.Millisecond

// Places and values of the scratchpad (Maxim 19-7487, figure 9).
const (
	padBytes    = 9
	padConfig   = 4
	padReserved = 6    // 0x0c after power-on, then 0x10 less the code's low four bits
	padTen      = 7    // always 0x10
	padPowerOn  = 0x0c // at padReserved
	padCode85   = 0x0550
	padCodeWeak = 0x07ff // 127.94 °C: the supply broke down while it converted
	padCodeMin  = -55 * 16
	padCodeMax  = 125 * 16
)

// w1KernelSlack is how far the kernel's own figure, in m°C, may lie from ours: it
// leaves in the low bits that a coarse resolution does not define.
const w1KernelSlack = 500

// Its ids, as the kernel names a DS18B20 (family 28), and what it says of one
// (drivers/w1/slaves/w1_therm.c).
var (
	ds18b20ID = regexp.MustCompile(`^28-[0-9a-f]{12}$`)
	w1First   = regexp.MustCompile(`^((?:[0-9a-f]{2} ){9}): crc=([0-9a-f]{2}) (YES|NO)$`)
	w1Second  = regexp.MustCompile(`^((?:[0-9a-f]{2} ){9})t=(-?[0-9]{1,7})$`)
)

// DS18B20 is a thermometer on a 1-wire bus that the kernel's w1_therm drives. A
// read blocks for the conversion, up to 0.75 s and half as long again on some
// copies of the chip, and cannot be interrupted: the buses of 1-wire are one bus
// of their own for whoever polls.
//
// Datasheet: Maxim 19-7487.
type DS18B20 struct {
	root, id string
	clock    Clock
	read     func(path string) (string, error)
}

// NewDS18B20 looks whether the kernel has found the chip with that id, such as
// 28-0316a2793bff, below root; "" means DefaultW1Root. The error is a *Fault if it
// has not. The chip is not read: that takes as long as a measurement, and the
// kernel has read its id. A nil clock is the system's.
func NewDS18B20(root, id string, clock Clock) (*DS18B20, error) {
	if !ds18b20ID.MatchString(id) {
		return nil, fmt.Errorf("%q is no id of a DS18B20: it is 28- and twelve of 0-9 and a-f", id)
	}
	if root == "" {
		root = DefaultW1Root
	}
	if clock == nil {
		clock = systemClock{}
	}
	d := &DS18B20{root: root, id: id, clock: clock, read: readAttr}
	if _, err := os.Stat(d.path()); err != nil {
		return nil, d.missing(err)
	}
	return d, nil
}

// String names the chip.
func (d *DS18B20) String() string { return "ds18b20 " + d.id }

func (d *DS18B20) path() string { return filepath.Join(d.root, d.id, "w1_slave") }

// Measure has the chip convert, and gives its code in sixteenths of a degree and
// the temperature in kelvins, or a *Fault; when ctx is cancelled before, ctx's
// error.
//
// An empty file is how the kernel says that the chip did not answer, that three
// check sums in a row were wrong, or that a signal ended its wait. The last two
// cannot be told apart from the first but by the time: an early one is asked once
// more, at once.
func (d *DS18B20) Measure(ctx context.Context) (Measured, error) {
	if err := ctx.Err(); err != nil {
		return Measured{}, waitFault(err)
	}
	started := d.clock.Now()
	text, err := d.read(d.path())
	if err == nil && text == "" && d.clock.Now().Sub(started) < w1Interrupted {
		text, err = d.read(d.path())
	}
	if err != nil {
		return Measured{}, d.missing(err)
	}
	if text == "" {
		return Measured{}, &Fault{Reason: ReasonNack, Detail: "the kernel has no answer from the chip: wire off, or noise on it"}
	}
	code, err := parseW1Slave(text)
	if err != nil {
		return Measured{}, err
	}
	return Measured{Raw: int64(code), Value: float64(code)/16 + zeroCelsius}, nil
}

// missing makes a Fault of a file that cannot be read. Where the bus is there but
// the chip is not, it is the chip that does not answer.
func (d *DS18B20) missing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return attrFault("read scratchpad", err)
	}
	if err := w1Present(d.root); err != nil {
		return busFault("find "+d.id, err)
	}
	if _, err := os.Stat(filepath.Join(d.root, d.id)); err == nil {
		return &Fault{Reason: ReasonNoBus, Detail: d.id + " is there, but nothing drives it: load the module w1-therm"}
	}
	ids, _ := FindDS18B20(d.root)
	return &Fault{Reason: ReasonNack, Detail: fmt.Sprintf("no %s on the 1-wire bus, which has %v", d.id, ids)}
}

// w1Present gives a *BusError where no 1-wire bus is.
func w1Present(root string) error {
	masters, _ := filepath.Glob(filepath.Join(root, "w1_bus_master*")) // the pattern is well formed
	if len(masters) > 0 {
		return nil
	}
	return &BusError{Bus: root, Err: fs.ErrNotExist, Advice: "enable 1-wire: on a Raspberry Pi add dtoverlay=w1-gpio to config.txt and reboot; " +
		"elsewhere load the modules w1-gpio and w1-therm and describe the pin in the device tree"}
}

// FindDS18B20 lists the ids of the DS18B20 that the kernel has found below root; ""
// means DefaultW1Root. Where no 1-wire bus is, the error is a *BusError.
func FindDS18B20(root string) ([]string, error) {
	if root == "" {
		root = DefaultW1Root
	}
	if err := w1Present(root); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root) // sorted
	if err != nil {
		return nil, fmt.Errorf("list 1-wire devices: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if ds18b20ID.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// parseW1Slave judges what the kernel says of a read and gives the chip's code in
// sixteenths of a degree. The nine bytes stand there twice; the second time they
// are those of an earlier read if these are bad.
func parseW1Slave(text string) (code int, err error) {
	malformed := func(what string) (int, error) {
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%s: %.120q", what, text)}
	}
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || lines[2] != "" {
		return malformed("not two lines")
	}
	first, second := w1First.FindStringSubmatch(lines[0]), w1Second.FindStringSubmatch(lines[1])
	if first == nil || second == nil {
		return malformed("not the lines of a thermometer")
	}
	pad := scratchpad(first[1])
	code, err = pad.code()
	switch {
	case err != nil:
		return 0, err
	case first[3] != "YES":
		return 0, &Fault{Reason: ReasonCRC, Detail: "the kernel says NO: " + lines[0]}
	case first[1] != second[1] || first[2] != fmt.Sprintf("%02x", pad[padBytes-1]):
		return malformed("the lines differ")
	}
	kernel, err := strconv.Atoi(second[2])
	if off := kernel - code*1000/16; err != nil || off > w1KernelSlack || off < -w1KernelSlack {
		return malformed("the kernel's temperature is not that of the bytes")
	}
	return code, nil
}

// ds18b20Pad is a DS18B20's scratchpad.
type ds18b20Pad [padBytes]byte

// scratchpad reads nine bytes of two hexadecimal digits with spaces between.
func scratchpad(text string) (p ds18b20Pad) {
	for i, field := range strings.Fields(text) {
		b, _ := strconv.ParseUint(field, 16, 8) // the pattern has seen to it
		p[i] = byte(b)
	}
	return p
}

// code judges a scratchpad and gives its code in sixteenths of a degree.
//
// All zeros have a right check sum. 85 °C is what the chip holds after power-on,
// and a temperature like any other: only the reserved byte tells (as w1_therm
// does, where it is told to look).
func (p ds18b20Pad) code() (int, error) {
	var all byte
	ones := byte(0xff)
	for _, b := range p {
		all |= b
		ones &= b
	}
	code := int(int16(uint16(p[1])<<8 | uint16(p[0])))
	implausible := func(format string, a ...any) (int, error) {
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("% x: ", p[:]) + fmt.Sprintf(format, a...)}
	}
	switch {
	case all == 0:
		return implausible("all zeros: the data line is shorted to ground")
	case ones == 0xff:
		return implausible("all ones: nobody answered")
	case crc8Maxim(p[:padBytes-1]) != p[padBytes-1]:
		return 0, &Fault{Reason: ReasonCRC, Detail: fmt.Sprintf("% x: the check sum is %02x", p[:], crc8Maxim(p[:padBytes-1]))}
	case p[padTen] != 0x10 || p[padConfig]&^0x60 != 0x1f:
		return implausible("not the fixed bits of a DS18B20: another chip, or a copy")
	case code == padCode85 && p[padReserved] == padPowerOn:
		return 0, &Fault{Reason: ReasonPowerOn, Detail: "85 °C since power-on: the supply dips, or the conversion was cut short"}
	case code == padCodeWeak:
		return 0, &Fault{Reason: ReasonPower, Detail: "127.94 °C: the supply is too weak to convert (parasite power?)"}
	case code < padCodeMin || code > padCodeMax:
		return implausible("%.2f °C is beyond what the chip can measure", float64(code)/16)
	}
	undefined := 3 - int(p[padConfig]>>5) // low bits, at 9 to 12 bits
	return code &^ (1<<undefined - 1), nil
}

// crc8Maxim is the check sum of 1-wire: x⁸+x⁵+x⁴+1, low bit first (Maxim
// application note 27).
func crc8Maxim(data []byte) (crc byte) {
	for _, b := range data {
		crc ^= b
		for range 8 {
			low := crc & 1
			crc >>= 1
			if low != 0 {
				crc ^= 0x8c
			}
		}
	}
	return crc
}

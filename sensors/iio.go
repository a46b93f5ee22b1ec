package sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// DefaultIIORoot is where the kernel lists the converters that it drives itself.
const DefaultIIORoot = "/sys/bus/iio/devices"

// A channel as the kernel names it, with kind, number, partner and modifiers; the
// directory of a device; a decimal number; how a channel's codes are stored
// (Documentation/ABI/testing/sysfs-bus-iio).
var (
	iioChannel = regexp.MustCompile(`^in_(voltage|current|temp|pressure|resistance|distance)([0-9]*)(-[a-z]+[0-9]+)?(_ambient|_object|_supply)?$`)
	iioDir     = regexp.MustCompile(`^iio:device[0-9]+$`)
	iioNumber  = regexp.MustCompile(`^-?[0-9]{1,19}(\.[0-9]{1,12})?$`)
	iioStored  = regexp.MustCompile(`^[bl]e:([su])([0-9]{1,2})/`)
)

// iioUnit turns the kernel's unit into ours: the value times factor, plus zero.
type iioUnit struct{ factor, zero float64 }

// iioUnitOf is the unit of a kind of channel (sysfs-bus-iio: "Units after
// application of scale and offset").
func iioUnitOf(kind string) iioUnit {
	switch kind {
	case "voltage", "current": // mV, mA
		return iioUnit{factor: 1e-3}
	case "temp": // m°C
		return iioUnit{factor: 1e-3, zero: zeroCelsius}
	case "pressure": // kPa
		return iioUnit{factor: 1e3}
	}
	return iioUnit{factor: 1} // Ohm, m
}

// Bounds of the codes of the kernel's hx711, whose words it stores with the top
// bit turned, so that 0 V reads 8388608, and for which it names no offset
// (drivers/iio/adc/hx711.c).
const (
	hx711Driver = "hx711"
	hx711Zero   = 1 << 23
)

// IIO is one channel of a device that a kernel driver of the industrial I/O
// subsystem measures with: a converter, a thermometer, a pressure sensor. Its
// bus and its timing are the kernel's. A read blocks as long as the driver does.
type IIO struct {
	root, device string // as configured: a directory's name, or the device's
	channel      string
	kind         string // of the channel: voltage, temp
	read         func(path string) (string, error)
	dir, name    string // where it was last seen, and what it is
}

// NewIIO finds a device below root ("" means DefaultIIORoot) and looks that it has
// the channel, such as in_voltage0, with all that it takes to know its unit. device
// is the name or the label that the kernel gives, such as ads1015, or a directory,
// such as iio:device0. The number of a directory may change at every boot, so a
// name is better; two devices of one name need a label in the device tree.
//
// A device or a bus that is not there is a *Fault. Nothing is measured yet.
func NewIIO(root, device, channel string) (*IIO, error) {
	m := iioChannel.FindStringSubmatch(channel)
	if m == nil {
		return nil, fmt.Errorf("%q is no channel of the kernel's that has a unit here: write in_voltage0, in_temp, in_pressure and the like, without _raw", channel)
	}
	if device == "" || strings.ContainsAny(device, "/\n") {
		return nil, fmt.Errorf("%q names no IIO device: write its name or iio:device0", device)
	}
	if root == "" {
		root = DefaultIIORoot
	}
	d := &IIO{root: root, device: device, channel: channel, kind: m[1], read: readAttr}
	if err := d.locate(); err != nil {
		return nil, err
	}
	if err := d.complete(); err != nil {
		return nil, err
	}
	return d, nil
}

// complete says what the channel lacks.
func (d *IIO) complete() error {
	if d.name == "max31865" && d.kind == "temp" {
		return errors.New("the kernel's max31865 gives no offset, so that 0 °C reads 256 °C: take the chip from it and use the driver max31865")
	}
	processed := d.there(d.channel + "_input")
	switch {
	case !processed && !d.there(d.channel+"_raw"):
		return fmt.Errorf("%s has no channel %s: it has %v", d.name, d.channel, d.channels(d.dir))
	case !processed && d.shared("_scale") == "":
		return fmt.Errorf("%s has no scale for %s: what its code means is not known", d.name, d.channel)
	case d.name == hx711Driver && d.shared("_offset") != "":
		return errors.New("this kernel's hx711 gives an offset: how its words are stored is not known")
	}
	return nil
}

// String names the channel.
func (d *IIO) String() string { return fmt.Sprintf("iio %s %s", d.device, d.channel) }

// Measure reads the channel once and gives its code and its value in V, A, K, Pa,
// Ohm or m, or a *Fault; when ctx is cancelled before, ctx's error. Where the driver
// gives no code but a finished value, Raw is that in millionths of the kernel's
// unit. The code of hx711 is the chip's own, with its sign.
func (d *IIO) Measure(ctx context.Context) (Measured, error) {
	if err := ctx.Err(); err != nil {
		return Measured{}, waitFault(err)
	}
	if err := d.locate(); err != nil {
		return Measured{}, err
	}
	raw, value, err := d.measure()
	if err != nil {
		return Measured{}, err
	}
	unit := iioUnitOf(d.kind)
	value = value*unit.factor + unit.zero
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return Measured{}, &Fault{Reason: ReasonNotFinite, Detail: fmt.Sprintf("code %d", raw)}
	case d.kind == "temp" && value <= 0:
		return Measured{}, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%g K", value)}
	}
	return Measured{Raw: raw, Value: value}, nil
}

// measure gives the code, and the value in the kernel's unit.
func (d *IIO) measure() (raw int64, value float64, err error) {
	if text, err := d.attr("_input"); err == nil {
		value, err := iioDecimal(text)
		return int64(math.Round(value * 1e6)), value, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, attrFault("read "+d.channel+"_input", err)
	}
	text, err := d.attr("_raw")
	if err != nil {
		return 0, 0, attrFault("read "+d.channel+"_raw", err)
	}
	if raw, err = iioInteger(text); err != nil {
		return 0, 0, err
	}
	if raw, err = d.judge(raw); err != nil {
		return 0, 0, err
	}
	// Scale and offset after the code: a driver may change its gain to read it.
	offset, err := d.optional("_offset", 0)
	if err != nil {
		return 0, 0, err
	}
	scale, err := d.optional("_scale", math.NaN())
	if err != nil {
		return 0, 0, err
	}
	return raw, (float64(raw) + offset) * scale, nil
}

// judge refuses a code that no working chip gives, and takes hx711's zero off.
func (d *IIO) judge(raw int64) (int64, error) {
	if d.name == hx711Driver && d.kind == "voltage" {
		return judgeIIOHX711(raw - hx711Zero)
	}
	if d.kind != "voltage" && d.kind != "current" {
		return raw, nil
	}
	text, err := d.read(filepath.Join(d.dir, "scan_elements", d.channel+"_type"))
	if err != nil {
		return raw, nil // a driver without buffers does not say
	}
	low, high := iioRails(text)
	if raw == high || raw == low {
		return 0, &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("code %d is the converter's rail", raw)}
	}
	return raw, nil
}

// judgeIIOHX711 refuses the words that a bit-banged HX711 gives when something goes
// wrong on its way: all zeros, all ones, ones from some bit on, and the rails.
func judgeIIOHX711(code int64) (int64, error) {
	switch {
	case code <= -hx711Zero || code >= hx711Zero-1:
		return 0, &Fault{Reason: ReasonSaturated, Detail: fmt.Sprintf("code %d: the bridge is off or overloaded", code)}
	case code == 0, code&(1<<hx711GlitchOnes-1) == 1<<hx711GlitchOnes-1:
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("code %d: all zeros, or it ends in ones as where the chip was off for part of the word", code)}
	}
	return code, nil
}

// optional reads the channel's scale or offset, wherever it is; a channel without
// one has the given value.
func (d *IIO) optional(suffix string, without float64) (float64, error) {
	file := d.shared(suffix)
	if file == "" {
		return without, nil
	}
	text, err := d.read(filepath.Join(d.dir, file))
	if err != nil {
		return 0, attrFault("read "+file, err)
	}
	v, err := iioDecimal(text)
	if err == nil && v == 0 && suffix == "_scale" {
		return 0, &Fault{Reason: ReasonImplausible, Detail: file + " is 0"}
	}
	return v, err
}

// shared is the file of a property of the channel: its own, or the one that it
// shares with its kind or with all (iio core: shared by type, by direction, by
// all); "" if there is none.
func (d *IIO) shared(suffix string) string {
	m := iioChannel.FindStringSubmatch(d.channel)
	partner := strings.TrimRight(m[3], "0123456789")
	for _, name := range []string{d.channel, "in_" + m[1] + partner + m[4], "in_" + m[1] + partner, "in_" + m[1], "in"} {
		if _, err := os.Stat(filepath.Join(d.dir, name+suffix)); err == nil {
			return name + suffix
		}
	}
	if all := strings.TrimPrefix(suffix, "_"); d.there(all) {
		return all
	}
	return ""
}

func (d *IIO) there(file string) bool {
	_, err := os.Stat(filepath.Join(d.dir, file))
	return err == nil
}

// attr reads a file of the channel.
func (d *IIO) attr(suffix string) (string, error) {
	return d.read(filepath.Join(d.dir, d.channel+suffix))
}

// iioDecimal reads a decimal number as the kernel prints it: no exponent, no list,
// no unit behind it.
func iioDecimal(text string) (float64, error) {
	text = strings.TrimSuffix(text, "\n")
	if !iioNumber.MatchString(text) {
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%.60q is not a number", text)}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, &Fault{Reason: ReasonImplausible, Err: err}
	}
	return v, nil
}

// iioInteger reads a code.
func iioInteger(text string) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 10, 64)
	if err != nil || v > 1<<53 || v < -1<<53 { // what a float64 holds exactly
		return 0, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%.60q is not a code", text)}
	}
	return v, nil
}

// iioRails are the lowest and highest code that a channel's storage format has
// room for, such as le:u12/16>>0. 0 is no rail of an unsigned one: it is 0 V. For
// a format that is not understood both are codes that do not occur.
func iioRails(text string) (low, high int64) {
	m := iioStored.FindStringSubmatch(text)
	if m == nil {
		return math.MinInt64, math.MaxInt64
	}
	bits, _ := strconv.Atoi(m[2]) // the pattern has seen to it
	if bits < 2 || bits > 53 {
		return math.MinInt64, math.MaxInt64
	}
	if m[1] == "u" {
		return math.MinInt64, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

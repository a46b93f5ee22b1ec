package sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IIODevice is a device of the kernel's industrial I/O subsystem.
type IIODevice struct {
	Dir      string   // iio:device0
	Name     string   // as its driver calls it: usually the chip
	Label    string   // as the device tree calls it; "" without
	Channels []string // that can be measured: in_voltage0, in_temp
}

// FindIIO lists the devices below root ("" means DefaultIIORoot) by directory. On a
// kernel without the subsystem, or with no device, the error is a *BusError.
func FindIIO(root string) ([]IIODevice, error) {
	if root == "" {
		root = DefaultIIORoot
	}
	return (&IIO{root: root, read: readAttr}).devices()
}

// devices lists what is there.
func (d *IIO) devices() ([]IIODevice, error) {
	entries, err := os.ReadDir(d.root) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list IIO devices: %w", err)
	}
	var found []IIODevice
	for _, e := range entries {
		if !iioDir.MatchString(e.Name()) {
			continue // a trigger
		}
		dir := filepath.Join(d.root, e.Name())
		found = append(found, IIODevice{Dir: e.Name(), Name: d.line(dir, "name"), Label: d.line(dir, "label"), Channels: d.channels(dir)})
	}
	if len(found) == 0 {
		return nil, &BusError{Bus: d.root, Err: fs.ErrNotExist, Advice: "load the kernel's driver of the converter and describe the chip in the device tree (dtoverlay); " +
			"or let oxyd drive it"}
	}
	return found, nil
}

// channels lists the channels of a device that we know the unit of.
func (d *IIO) channels(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "in_*")) // the pattern is well formed
	var channels []string
	for _, f := range files {
		name, raw := strings.CutSuffix(filepath.Base(f), "_raw")
		if !raw {
			var ok bool
			if name, ok = strings.CutSuffix(name, "_input"); !ok {
				continue
			}
		}
		if iioChannel.MatchString(name) && !slices.Contains(channels, name) {
			channels = append(channels, name)
		}
	}
	return channels
}

// line is an attribute of one line, "" if it cannot be read.
func (d *IIO) line(dir, file string) string {
	text, err := d.read(filepath.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(text, "\n")
}

// locate sets dir and name: it looks whether the device is where it was, and
// searches for it if not. A directory that now is another chip's is a fault.
func (d *IIO) locate() error {
	if d.dir != "" && d.is(filepath.Base(d.dir)) {
		return nil
	}
	devices, err := d.devices()
	if err != nil {
		return busFault("find "+d.device, err)
	}
	byDir := iioDir.MatchString(d.device)
	var found []IIODevice
	for _, f := range devices {
		if byDir && f.Dir == d.device || !byDir && (f.Name == d.device || f.Label == d.device) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 0:
		return &Fault{Reason: ReasonNack, Detail: fmt.Sprintf("no IIO device %s: there are %s", d.device, iioNames(devices))}
	case len(found) > 1:
		return fmt.Errorf("%d IIO devices are called %s: %s; give them labels in the device tree, or write the directory", len(found), d.device, iioNames(found))
	case d.name != "" && d.name != found[0].Name:
		return &Fault{Reason: ReasonNack, Detail: fmt.Sprintf("%s was %s and is %s now: write the name instead", d.device, d.name, found[0].Name)}
	}
	d.dir, d.name = filepath.Join(d.root, found[0].Dir), found[0].Name
	return nil
}

// is reports whether a directory is still the device.
func (d *IIO) is(dir string) bool {
	path := filepath.Join(d.root, dir)
	if d.line(path, "name") != d.name {
		return false
	}
	return iioDir.MatchString(d.device) || d.name == d.device || d.line(path, "label") == d.device
}

// iioNames lists devices for a human.
func iioNames(devices []IIODevice) string {
	var all []string
	for _, f := range devices {
		s := f.Dir + " (" + f.Name
		if f.Label != "" {
			s += ", labelled " + f.Label
		}
		all = append(all, s+")")
	}
	return strings.Join(all, ", ")
}

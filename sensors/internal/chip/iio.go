package chip

import (
	"fmt"
	"os"
	"path/filepath"
)

// IIO is the kernel's tree of industrial I/O devices, as files.
type IIO struct {
	// Root is what /sys/bus/iio/devices is.
	Root string
	next int
}

// NewIIO makes a tree without devices below dir.
func NewIIO(dir string) (*IIO, error) {
	t := &IIO{Root: filepath.Join(dir, "bus", "iio", "devices")}
	return t, os.MkdirAll(t.Root, 0o700)
}

// Add makes the device of that number, with its files by name.
func (t *IIO) Add(number int, files map[string]string) error {
	t.next++
	dir := filepath.Join(filepath.Dir(t.Root), fmt.Sprintf("platform-%d", t.next))
	if err := os.MkdirAll(filepath.Join(dir, "scan_elements"), 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Symlink(dir, t.link(number))
}

// Write changes a file of a device.
func (t *IIO) Write(number int, name, text string) error {
	return os.WriteFile(filepath.Join(t.link(number), name), []byte(text), 0o600)
}

// Remove takes a device away.
func (t *IIO) Remove(number int) error { return os.Remove(t.link(number)) }

// Renumber gives a device another number, as a reboot may.
func (t *IIO) Renumber(from, to int) error { return os.Rename(t.link(from), t.link(to)) }

func (t *IIO) link(number int) string {
	return filepath.Join(t.Root, fmt.Sprintf("iio:device%d", number))
}

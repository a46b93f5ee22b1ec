package chip

import (
	"fmt"
	"os"
	"path/filepath"

	"periph.io/x/conn/v3/onewire"
)

// DS18B20 models what a thermometer (Maxim 19-7487) holds in its scratchpad after
// it converted.
type DS18B20 struct {
	Celsius float64
	Bits    int  // 9 to 12
	PowerOn bool // it lost its supply since: the code is that of 85 °C
}

// Scratchpad is the nine bytes, the check sum last.
func (c DS18B20) Scratchpad() [9]byte {
	code := int16(c.Celsius * 16)
	code &^= 1<<(12-c.Bits) - 1
	pad := [9]byte{byte(code), byte(code >> 8), 0x4b, 0x46, byte(c.Bits-9)<<5 | 0x1f, 0xff, 0x10 - byte(code&0xf), 0x10}
	if c.PowerOn {
		pad[0], pad[1], pad[6] = 0x50, 0x05, 0x0c
	}
	pad[8] = onewire.CalcCRC(pad[:8])
	return pad
}

// W1Text is what the kernel's w1_therm prints for a scratchpad.
func W1Text(pad [9]byte) string {
	var bytes string
	for _, b := range pad {
		bytes += fmt.Sprintf("%02x ", b)
	}
	crc, verdict := onewire.CalcCRC(pad[:8]), "NO"
	if crc == pad[8] {
		verdict = "YES"
	}
	code := int(int16(uint16(pad[1])<<8 | uint16(pad[0])))
	return fmt.Sprintf("%s: crc=%02x %s\n%st=%d\n", bytes, crc, verdict, bytes, code*1000/16)
}

// W1 is the kernel's tree of one 1-wire bus, as files.
type W1 struct {
	// Root is what /sys/bus/w1/devices is.
	Root    string
	devices string
}

// NewW1 makes the tree of a bus without chips below dir.
func NewW1(dir string) (*W1, error) {
	w := &W1{Root: filepath.Join(dir, "bus", "w1", "devices"), devices: filepath.Join(dir, "devices", "w1_bus_master1")}
	for _, d := range []string{w.Root, w.devices} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	return w, os.Symlink(w.devices, filepath.Join(w.Root, "w1_bus_master1"))
}

// Plug puts a chip on the bus, or changes what its file holds.
func (w *W1) Plug(id, text string) error {
	dir := filepath.Join(w.devices, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Symlink(dir, filepath.Join(w.Root, id)); err != nil && !os.IsExist(err) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "w1_slave"), []byte(text), 0o600)
}

// Unplug takes it away, once the kernel has noticed.
func (w *W1) Unplug(id string) error {
	if err := os.Remove(filepath.Join(w.Root, id)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(w.devices, id))
}

package config

import (
	"regexp"
	"strconv"
	"strings"
)

// spiPath gives the device of an SPI chip select that is written as "0.0", as
// periph's name (SPI0.0) or as the device itself.
func spiPath(spi string) (path string, ok bool) {
	place := strings.TrimPrefix(strings.TrimPrefix(spi, "/dev/spidev"), "SPI")
	bus, selected, _ := strings.Cut(place, ".")
	if !plainNatural(bus) || !plainNatural(selected) {
		return "", false
	}
	return "/dev/spidev" + place, true
}

// gpioPath gives the device of a GPIO chip that is written as a number, by its name
// or as the device itself; a label, such as pinctrl-bcm2711, stays one.
func gpioPath(chip string) (path string, ok bool) {
	number := strings.TrimPrefix(strings.TrimPrefix(chip, "/dev/"), "gpiochip")
	if plainNatural(number) {
		return "/dev/gpiochip" + number, true
	}
	return chip, gpioLabel.MatchString(chip) && !strings.HasPrefix(chip, "gpiochip")
}

// gpioLabel is what the kernel's drivers call their chips; at most 31 bytes
// (linux/gpio.h, GPIO_MAX_NAME_SIZE).
var gpioLabel = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._:@-]{0,30}$`)

// plainNatural reports whether s is a number of 0 to 65535 without leading zeros.
func plainNatural(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// w1ID reports whether the id is a DS18B20's on the 1-Wire bus: family 28.
func w1ID(id string) bool {
	digits, ok := strings.CutPrefix(id, "28-")
	return ok && len(digits) == 12 && strings.Trim(digits, "0123456789abcdef") == ""
}

// sfmAddresses are the I2C addresses of each flow meter of Sensirion's that the
// driver knows, by the part's datasheet; the first is what most boards have.
func sfmAddresses() map[string][]uint16 {
	return map[string][]uint16{
		"SFM3019": {0x2e}, "SFM3119": {0x29}, "SFM3003": {0x28, 0x2d}, "SFM3013": {0x2f},
		"SFM4300": {0x2a, 0x2b, 0x2c, 0x2d}, "SFM3000": {0x40}, "SFM3300": {0x40},
	}
}

// sfmParts are the keys of sfmAddresses in order.
func sfmParts() []string {
	return []string{"SFM3019", "SFM3119", "SFM3003", "SFM3013", "SFM4300", "SFM3000", "SFM3300"}
}

// The kernel's names (Documentation/ABI/testing/sysfs-bus-iio): a device by its
// directory or by what its file "name" says, a channel by the first part of its
// attributes.
const (
	iioDevicePattern  = `^[A-Za-z0-9][A-Za-z0-9:_.,-]{0,63}$`
	iioChannelPattern = `^in_(voltage|temp|pressure)[0-9]*(-voltage[0-9]+)?(_ambient|_object|_supply)?$`
)

// iioKind is what a kernel's channel measures, "" for one that is of no use here.
func iioKind(channel string) Kind {
	match := regexp.MustCompile(iioChannelPattern).FindStringSubmatch(channel)
	if match == nil {
		return ""
	}
	switch match[1] {
	case "voltage":
		return KindVoltage
	case "temp":
		return KindTemperature
	}
	return KindPressure
}

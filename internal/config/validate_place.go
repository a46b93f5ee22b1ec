package config

import "fmt"

// places are where the sensors are that were looked at: no two measure the same
// thing, and no two drivers talk to one chip.
type places struct {
	at    map[string]int // what is measured → the sensor
	chips map[string]int // an SPI chip select → its first sensor
}

// validatePlaces checks that no other sensor is in the same place. Last of a
// sensor's checks, for it marks all of it.
func (r *reader) validatePlaces(c *Config, i int, taken places) {
	s, path := &c.Sensors[i], index("sensors", i)
	for _, key := range []string{"bus", "address", "input", "spi", "gpio_chip", "clock_line", "data_line", "line", "id", "device", "channel"} {
		if r.unclear(path + "." + key) {
			return
		}
	}
	if s.SPI != "" {
		j, known := taken.chips[s.SPI]
		switch first := &c.Sensors[j]; {
		case !known:
			taken.chips[s.SPI] = i
		case first.Driver != s.Driver:
			r.fault(path+".spi", nil, "%s is a %s for %s in line %d", s.SPI, first.Driver, index("sensors", j), r.lineOf("sensors", j))
			return
		case first.VRef != s.VRef:
			r.fault(path+".vref", []string{index("sensors", j) + ".vref"}, "%v%s is not the %v of %s in line %d, which is the same chip",
				s.VRef, r.byDefault(path+".vref"), first.VRef, index("sensors", j), r.lineOf("sensors", j))
		}
	}
	for _, place := range placesOf(s) {
		j, twice := taken.at[place]
		if !twice {
			taken.at[place] = i
			continue
		}
		if j != i { // clock and data on one line have a message of their own
			r.fault(path, nil, "is on %s, as %s in line %d is already", place, index("sensors", j), r.lineOf("sensors", j))
		}
		return
	}
}

// placesOf says in words where the sensor measures: what no second one may.
func placesOf(s *Sensor) []string {
	switch s.Driver {
	case DriverADS1115:
		return []string{fmt.Sprintf("%s, address 0x%02x, input %v", s.Bus, s.Address, s.Input)}
	case DriverMCP3208, DriverMCP3008:
		return []string{fmt.Sprintf("%s, input %v", s.SPI, s.Input)}
	case DriverMAX31865:
		return []string{s.SPI}
	case DriverSFM:
		return []string{fmt.Sprintf("%s, address 0x%02x", s.Bus, s.Address)}
	case DriverHX711:
		return []string{fmt.Sprintf("%s, line %d", s.GPIOChip, s.ClockLine), fmt.Sprintf("%s, line %d", s.GPIOChip, s.DataLine)}
	case DriverPulse:
		return []string{fmt.Sprintf("%s, line %d", s.GPIOChip, s.Line)}
	case DriverDS18B20:
		return []string{"1-Wire id " + s.ID}
	case DriverIIO:
		return []string{s.Device + ", channel " + s.Channel}
	}
	return nil
}

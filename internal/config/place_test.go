package config

import "testing"

func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{"0.0": "/dev/spidev0.0", "SPI1.2": "/dev/spidev1.2", "/dev/spidev10.0": "/dev/spidev10.0",
		"0": "", "0.": "", ".0": "", "0.0.0": "", "00.0": "", "-1.0": "", "": "", "/dev/i2c-1": ""} {
		if got, ok := spiPath(text); ok != (want != "") || ok && got != want {
			t.Errorf("SPI %q is %q, %v, want %q", text, got, ok, want)
		}
	}
	for text, want := range map[string]string{"0": "/dev/gpiochip0", "gpiochip4": "/dev/gpiochip4", "/dev/gpiochip4": "/dev/gpiochip4",
		"": "", "gpiochip": "", "04": "", "/dev/gpio4": "", "65536": ""} {
		if got, ok := gpioPath(text); ok != (want != "") || ok && got != want {
			t.Errorf("GPIO %q is %q, %v, want %q", text, got, ok, want)
		}
	}
	for text, want := range map[string]bool{"28-0316a2793bff": true, "28-0316a2793bf": false, "10-0316a2793bff": false, "28-0316a2793bfg": false, "": false, "28-0316A2793BFF": false} {
		if got := w1ID(text); got != want {
			t.Errorf("1-Wire %q: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]Kind{"in_voltage0": KindVoltage, "in_voltage0-voltage1": KindVoltage, "in_temp": KindTemperature, "in_temp_ambient": KindTemperature, "in_pressure": KindPressure,
		"in_voltage0_raw": "", "in_current0": "", "out_voltage0": "", "in_voltage0/../x": "", "": ""} {
		if got := iioKind(text); got != want {
			t.Errorf("channel %q: %q, want %q", text, got, want)
		}
	}
	for part, of := range sfmAddresses() {
		if len(of) == 0 {
			t.Errorf("%s has no address", part)
		}
	}
	if len(sfmParts()) != len(sfmAddresses()) {
		t.Errorf("parts %v, addresses of %d", sfmParts(), len(sfmAddresses()))
	}
}

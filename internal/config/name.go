package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"oxyd/internal/event"
)

// maxNameBytes bounds a name (contract section 2).
const maxNameBytes = 64

// machineIDDigits of the machine id go into the default node name: enough to
// tell the boards of a base apart, and not the id itself, which is to be kept
// private (machine-id(5)).
const machineIDDigits = 6

// host is what the default node name is made of.
type host struct {
	name      string
	machineID string // 32 hex digits, or "" where the machine has none
}

func thisHost() host {
	var h host
	h.name, _ = os.Hostname() // none: the node is called after its machine id
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		text, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(text)); err == nil && validMachineID(id) {
			h.machineID = id
			break
		}
	}
	return h
}

// validMachineID refuses what an image has before its first boot: nothing, or
// the word uninitialized (machine-id(5)).
func validMachineID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// node gives the default node name.
func (h host) node() string {
	name := []byte(h.name)
	for i, c := range name {
		if !event.ValidName("x" + string(c)) { // as any byte but the first
			name[i] = '-'
		}
	}
	base := strings.Trim(string(name), "._-")
	base = strings.TrimRight(base[:min(len(base), maxNameBytes-machineIDDigits-1)], "._-")
	if base == "" {
		base = "node"
	}
	if h.machineID == "" {
		return base
	}
	return base + "-" + h.machineID[:machineIDDigits]
}

// busPath gives the device of an I2C bus that is written as a number, as
// periph's alias (I2C1) or as the device itself.
func busPath(bus string) (path string, ok bool) {
	number := strings.TrimPrefix(strings.TrimPrefix(bus, "/dev/i2c-"), "I2C")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != number {
		return "", false
	}
	return "/dev/i2c-" + number, true
}

// brokerURL gives the broker's address in the form that MQTT.Broker promises.
// Its errors never hold the address, in which there may be a password.
func brokerURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "tcp://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("is not an address such as tcp://127.0.0.1:1883")
	}
	defaultPort := map[string]string{"tcp": "1883", "ssl": "8883", "unix": ""}
	switch u.Scheme {
	case "mqtt":
		u.Scheme = "tcp"
	case "mqtts", "tls":
		u.Scheme = "ssl"
	}
	port, known := defaultPort[u.Scheme]
	switch {
	case !known:
		return "", fmt.Errorf("has the scheme %q: use tcp, ssl or unix", shorten(u.Scheme))
	case u.User != nil:
		return "", errors.New("carries a user: use mqtt.username and mqtt.password_file")
	case u.RawQuery != "" || u.Fragment != "" || u.Scheme != "unix" && strings.Trim(u.Path, "/") != "":
		return "", errors.New("has more than a scheme, a host and a port")
	case u.Scheme == "unix" && (u.Host != "" || u.Path == ""):
		return "", errors.New("is not a socket such as unix:///run/mosquitto.sock")
	case u.Scheme == "unix":
		return "unix://" + u.Path, nil
	case u.Hostname() == "":
		return "", errors.New("names no host: write it as tcp://127.0.0.1:1883")
	}
	port = cmp.Or(u.Port(), port)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("has the port %s: use 1 to 65535", shorten(port))
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port), nil
}

package mqtt

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// Defaults of Options, in force where a duration is zero.
const (
	DefaultKeepAlive      = 15 * time.Second
	DefaultConnectTimeout = 10 * time.Second
	DefaultWriteTimeout   = 5 * time.Second
	DefaultAckTimeout     = 20 * time.Second
	DefaultBackoffMin     = 250 * time.Millisecond
	DefaultBackoffMax     = 30 * time.Second
)

// maxKeepAlive is the bound of MQTT 3.1.2.10: 16 bits of seconds.
const maxKeepAlive = 65535 * time.Second

// maxSecretBytes bounds a password file; a longer one is a mistaken path.
const maxSecretBytes = 4096

// pingPatience is how long a PINGRESP may take, unless the keepalive is shorter.
const pingPatience = 5 * time.Second

// Options say how to reach the broker. The files are read again at each connect,
// so that a renewed certificate or password needs no restart. The certificate of
// the broker is always verified, at the date that the clock shows: where that is wrong,
// the connection waits for it (CertificateTimeError).
type Options struct {
	// Broker is a URL: mqtt:// or tcp:// (plain), mqtts:// or tls:// or ssl://
	// (TLS), unix:// (a socket's path).
	Broker   string
	ClientID string

	Username     string
	PasswordFile string // one line; the line end does not count

	CAFile   string // PEM; empty: the system's roots
	CertFile string // PEM, with KeyFile: the client's own certificate
	KeyFile  string

	KeepAlive      time.Duration // whole seconds; the embedded broker needs 2 s or more
	ConnectTimeout time.Duration // dial, TLS and CONNACK together
	WriteTimeout   time.Duration // of each packet written
	AckTimeout     time.Duration // without any PUBACK while one is owed; also for SUBACK
	BackoffMin     time.Duration // first ceiling of the jittered pause between connects
	BackoffMax     time.Duration // last one

	Clock Clock // that certificates are judged by; nil: time.Now, taken for synchronised
}

// A Clock tells the date and whether it can be believed.
type Clock interface {
	Now() time.Time
	Synced() bool
}

// Validate reports everything in o that can never work.
func (o Options) Validate() error {
	var errs []error
	if u, err := o.brokerURL(); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, checkURL(u, o))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("client id is empty"))
	}
	if o.PasswordFile != "" && o.Username == "" {
		errs = append(errs, errors.New("password file without a username (MQTT-3.1.2-22)"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("certificate file and key file go together"))
	}
	if o.KeepAlive < 0 || o.KeepAlive > maxKeepAlive || o.KeepAlive%time.Second != 0 {
		errs = append(errs, fmt.Errorf("keepalive %v is not a whole number of seconds from 1s to %v", o.KeepAlive, maxKeepAlive))
	}
	return errors.Join(errs...)
}

func checkURL(u *url.URL, o Options) error {
	var secure bool
	switch u.Scheme {
	case "mqtt", "tcp":
	case "mqtts", "tls", "ssl":
		secure = true
	case "unix":
		if u.Path == "" {
			return errors.New("broker address unix:// needs a path, as in unix:///run/broker.sock")
		}
	default:
		return fmt.Errorf("broker address has scheme %q; known are mqtt, tcp, mqtts, tls, ssl, unix", u.Scheme)
	}
	if u.Scheme != "unix" && u.Hostname() == "" {
		return errors.New("broker address names no host")
	}
	if _, given := u.User.Password(); given {
		return errors.New("broker address contains a password; put it into a file")
	}
	if !secure && (o.CAFile != "" || o.CertFile != "") {
		return fmt.Errorf("certificates are given, but %s:// does not use TLS; use mqtts://", u.Scheme)
	}
	return nil
}

// brokerURL parses Broker. Its error quotes nothing: what cannot be parsed may
// contain a password.
func (o Options) brokerURL() (*url.URL, error) {
	u, err := url.Parse(o.Broker)
	if err != nil {
		return nil, errors.New("broker address is not a URL like mqtt://host:1883")
	}
	return u, nil
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.KeepAlive, DefaultKeepAlive)
	set(&o.ConnectTimeout, DefaultConnectTimeout)
	set(&o.WriteTimeout, DefaultWriteTimeout)
	set(&o.AckTimeout, DefaultAckTimeout)
	set(&o.BackoffMin, DefaultBackoffMin)
	set(&o.BackoffMax, DefaultBackoffMax)
	o.BackoffMax = max(o.BackoffMax, o.BackoffMin)
	return o
}

// client makes the paho options for one connection.
func (o Options) client() (*paho.ClientOptions, error) {
	broker, err := o.brokerURL()
	if err != nil {
		return nil, err
	}
	password, err := o.password()
	if err != nil {
		return nil, err
	}
	c := paho.NewClientOptions()
	c.Servers = []*url.URL{broker}
	c.SetClientID(o.ClientID)
	c.SetUsername(o.Username).SetPassword(password)
	// An explicit version keeps paho from trying MQTT 3.1 after any failure.
	c.SetProtocolVersion(4)
	c.SetAutoReconnect(false).SetConnectRetry(false)
	c.SetOrderMatters(true)
	c.SetKeepAlive(o.KeepAlive).SetPingTimeout(min(pingPatience, o.KeepAlive))
	c.SetConnectTimeout(o.ConnectTimeout)
	// Bounds how long paho.Publish may block when the link is lost under it.
	c.SetWriteTimeout(o.WriteTimeout)
	return c, nil
}

func (o Options) password() (string, error) {
	if o.PasswordFile == "" {
		return "", nil
	}
	return readSecret(o.PasswordFile)
}

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open password file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("read password file: %w", err)
	}
	b = bytes.TrimRight(b, "\r\n")
	switch {
	case len(b) == 0:
		return "", fmt.Errorf("password file %s is empty", path)
	case len(b) > maxSecretBytes:
		return "", fmt.Errorf("password file %s is longer than %d bytes", path, maxSecretBytes)
	case bytes.ContainsAny(b, "\r\n"):
		return "", fmt.Errorf("password file %s has more than one line", path)
	}
	return string(b), nil
}

// tlsConfig reads the certificate files anew.
func (o Options) tlsConfig(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, Time: o.now}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA file %s contains no PEM certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

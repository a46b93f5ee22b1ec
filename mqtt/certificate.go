package mqtt

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// A CertificateTimeError says that the broker's certificate does not hold at the date
// which this machine's clock shows, and whether that clock can be believed. The
// connection was not made: what a wrong date hides may as well be a stolen, expired
// certificate. As soon as the clock is set it is tried again (ClockSet).
type CertificateTimeError struct {
	NotYet              bool // the date is before NotBefore; otherwise after NotAfter
	Synced              bool // the clock is synchronised, so that the certificate is at fault
	NotBefore, NotAfter time.Time
	Err                 error
}

// Error names neither the date nor anything else that differs at each attempt, so
// that the trouble is logged once.
func (e *CertificateTimeError) Error() string {
	what := "certificate has expired"
	if e.NotYet {
		what = "certificate not yet valid"
	}
	if !e.Synced {
		what = "clock not synchronised, " + what
	}
	return fmt.Sprintf("%s: it holds from %s to %s", what,
		e.NotBefore.UTC().Format(time.RFC3339), e.NotAfter.UTC().Format(time.RFC3339))
}

// Unwrap gives the error of the verification.
func (e *CertificateTimeError) Unwrap() error { return e.Err }

// datedError names the clock where it may be what is wrong with a certificate.
func (o Options) datedError(err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err
	}
	e := &CertificateTimeError{Synced: o.Clock == nil || o.Clock.Synced(), Err: err,
		NotBefore: invalid.Cert.NotBefore, NotAfter: invalid.Cert.NotAfter}
	e.NotYet = o.now().Before(e.NotBefore)
	return e
}

func (o Options) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}
	return o.Clock.Now()
}

// ClockSet says that the wall clock was set, or has become synchronised. A connection
// that waits because a certificate did not hold at the date before is tried at once;
// every other pause goes on.
func (p *Publisher) ClockSet() { p.conn.clockWasSet() }

// ClockSet is that of the Publisher.
func (s *Subscriber) ClockSet() { s.conn.clockWasSet() }

func (c *connector) clockWasSet() {
	select {
	case c.clockSet <- struct{}{}:
	default: // one word is enough
	}
}

// cureFor gives what may end the pause after err before its time.
func (c *connector) cureFor(err error) <-chan struct{} {
	if dated := (*CertificateTimeError)(nil); errors.As(err, &dated) {
		return c.clockSet
	}
	return nil
}

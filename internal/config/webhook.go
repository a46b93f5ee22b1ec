package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Webhook is a receiver that the publishing ledger tells, by HTTP POST, what
// people should know at once.
type Webhook struct {
	// URL is where to post: https://…, or http://… to this machine. Its path may
	// be a secret; where it is, keep this file from other eyes.
	URL string `yaml:"url,required"`

	// AllowHTTP: true lets http:// go to another machine, where whoever is on the
	// way reads what is told, and the token. Default false.
	AllowHTTP bool `yaml:"allow_http"`

	// TokenFile is a file whose only line is sent as bearer token. It is read at
	// each delivery. Default: none is sent.
	TokenFile string `yaml:"token_file"`

	// CAFile holds the PEM certificates that are trusted for https://. It is read
	// at each delivery. Default: the system's.
	CAFile string `yaml:"ca_file"`

	// Timeout bounds one delivery. Default 10s, 1s to 1m.
	Timeout Duration `yaml:"timeout"`

	// Events are the kinds of notifications that are kept and sent: alarm,
	// conflict, eviction, limit, quarantine, store. Default: all of them.
	Events []string `yaml:"events"`
}

// DefaultWebhookTimeout bounds one delivery.
const DefaultWebhookTimeout = Duration(10 * time.Second)

// webhookEvents are the kinds that the ledger knows; a test of the wiring keeps
// the two lists equal.
func webhookEvents() []string {
	return []string{"alarm", "conflict", "eviction", "limit", "quarantine", "store"}
}

func (w *Webhook) setDefaults() {
	*w = Webhook{Timeout: DefaultWebhookTimeout, Events: webhookEvents()}
}

func (r *reader) validateWebhook(l *Ledger) {
	w := l.Webhook
	if w == nil {
		return
	}
	const path = "ledger.webhook"
	u, err := receiverURL(w.URL)
	switch {
	case !r.stands(path + ".url"): // said already
	case err != nil:
		r.fault(path+".url", nil, "%v", err)
	case u.Scheme == "http" && !loopbackHost(u.Hostname()) && !w.AllowHTTP:
		r.fault(path+".url", []string{path + ".allow_http"}, "goes over plain http to another machine: use https, or say allow_http: true")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		r.warn(path+".url", "goes over plain http to another machine: whoever is on the way reads what is told, and the token")
	}
	for _, f := range []struct{ key, value string }{{"token_file", w.TokenFile}, {"ca_file", w.CAFile}} {
		if r.stands(path + "." + f.key) {
			r.notEmpty(path+"."+f.key, f.value)
		}
	}
	if r.stands(path+".ca_file") && err == nil && u.Scheme == "http" {
		r.fault(path+".ca_file", []string{path + ".url"}, "has no effect over http: use https")
	}
	within(r, path+".timeout", w.Timeout, Duration(time.Second), Duration(time.Minute))
	if len(w.Events) == 0 {
		r.fault(path+".events", nil, "names nothing to tell: leave it out for everything, or the section")
	}
	for i, name := range w.Events {
		at := index(path+".events", i)
		r.oneOf(at, name, webhookEvents()...)
		if slices.Contains(w.Events[:i], name) {
			r.fault(at, nil, "%q stands twice", name)
		}
	}
	if !l.Publish {
		r.warn(path, "has no effect while ledger.publish is false: of two ledgers the publishing one tells")
	}
}

// receiverURL reads the address to post to. Its errors never hold it.
func receiverURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not an address such as https://pager.example/oxyd")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("has the scheme %q: use https or http", shorten(u.Scheme))
	case u.User != nil:
		return nil, errors.New("carries a user: use token_file")
	case u.Fragment != "":
		return nil, errors.New("has a fragment, which no server sees")
	case u.Hostname() == "":
		return nil, errors.New("names no host: write it as https://pager.example/oxyd")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("has the port %s: use 1 to 65535", shorten(port))
		}
	}
	return u, nil
}

func loopbackHost(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWebhookDefaults(t *testing.T) {
	c, err := parse("c.yaml", []byte("ledger:\n  webhook: {url: 'https://pager.example/x'}"), testHost)
	if err != nil {
		t.Fatal(err)
	}
	want := &Webhook{URL: "https://pager.example/x", Timeout: DefaultWebhookTimeout, Events: webhookEvents()}
	if diff := cmp.Diff(want, c.Ledger.Webhook); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c, err = parse("c.yaml", []byte("ledger:\n"), testHost); err != nil || c.Ledger.Webhook != nil {
		t.Errorf("without the section: %v, %v", c.Ledger.Webhook, err)
	}
}

func TestWebhookFaults(t *testing.T) {
	for _, c := range []struct{ webhook, want string }{
		{"{}", "ledger.webhook.url: is missing"},
		{"{url: 'ftp://a/b'}", `ledger.webhook.url: has the scheme "ftp": use https or http`},
		{"{url: 'pager.example'}", `ledger.webhook.url: has the scheme "": use https or http`},
		{"{url: 'https:///x'}", "ledger.webhook.url: names no host: write it as https://pager.example/oxyd"},
		{"{url: 'https://a:0/x'}", "ledger.webhook.url: has the port 0: use 1 to 65535"},
		{"{url: 'https://u:secret@a/x'}", "ledger.webhook.url: carries a user: use token_file"},
		{"{url: 'https://a/x#y'}", "ledger.webhook.url: has a fragment, which no server sees"},
		{"{url: 'http://pager.example/x'}", "ledger.webhook.url: goes over plain http to another machine: use https, or say allow_http: true"},
		{"{url: 'http://127.0.0.1/x', ca_file: ca.pem}", "ledger.webhook.ca_file: has no effect over http: use https"},
		{"{url: 'https://a', token_file: ''}", "ledger.webhook.token_file: must not be empty"},
		{"{url: 'https://a', timeout: 100ms}", "ledger.webhook.timeout: 100ms is out of bounds: 1s to 1m"},
		{"{url: 'https://a', events: []}", "ledger.webhook.events: names nothing to tell: leave it out for everything, or the section"},
		{"{url: 'https://a', events: [alarms]}", `ledger.webhook.events[0]: "alarms" is not one of alarm, conflict, eviction, limit, quarantine, store; did you mean "alarm"?`},
		{"{url: 'https://a', events: [alarm, alarm]}", `ledger.webhook.events[1]: "alarm" stands twice`},
	} {
		got := faultsOf(t, "ledger:\n  webhook: "+c.webhook)
		if len(got) != 1 || !strings.HasSuffix(got[0], c.want) || strings.Contains(got[0], "secret") {
			t.Errorf("%s gives %q, want %q alone", c.webhook, got, c.want)
		}
	}
}

func TestWebhookOverHTTP(t *testing.T) {
	for text, warned := range map[string]bool{
		"{url: 'http://localhost:8080/x'}":                 false,
		"{url: 'http://127.0.0.1/x'}":                      false,
		"{url: 'http://[::1]:80/x'}":                       false,
		"{url: 'http://10.0.0.7/x', allow_http: true}":     true,
		"{url: 'https://10.0.0.7/x'}":                      false,
		"{url: 'https://10.0.0.7/x'}\n  publish: false\n#": true,
	} {
		c, err := parse("c.yaml", []byte("ledger:\n  webhook: "+text), testHost)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := slices.ContainsFunc(c.Warnings, func(f Fault) bool { return strings.HasPrefix(f.Key, "ledger.webhook") })
		if got != warned {
			t.Errorf("%s: warnings %v", text, c.Warnings)
		}
	}
}

package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFC96UnknownKeysAreErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a slip in a list", "ledger:\ntanks:\n  - id: A\n    capacity: 1 kg\n    low_precent: 10 %",
			`5: tanks[0].low_precent: unknown key, did you mean "low"?`},
		{"a section that is not there", "web:\nalarm:\n  low_precent: 10",
			`2: alarm: unknown key, the nearest is "log"; valid here are broker, check_timeout, data_dir, ledger, log, mqtt, node, outbox, ` +
				"sensors, site, tanks, tanks_mode, telemetry, topic_prefix, web"},
		{"a key of another section", "ledger:\nretention: 72h",
			`2: retention: unknown key here, it belongs to outbox (the nearest key here is "data_dir")`},
		{"a key of several sections", "web:\nmax_bytes: 1 GiB",
			`2: max_bytes: unknown key here, it belongs to broker or ledger or outbox (the nearest key here is "mqtt")`},
		{"another way to write it", "web:\ndata-Dir: x", `2: data-Dir: unknown key, did you mean "data_dir"?`},
		{"a password in the open", "broker: {username: u, passwd: x}",
			`1: broker.passwd: unknown key: secrets stand in files of their own, did you mean "password_file"?`},
		{"the slip of a required key is reported once", "sensors:\n- {tank: a, drivr: simulated}",
			`2: sensors[0].drivr: unknown key, did you mean "driver"?`},
		{"the slip of a role is reported once", "sensor:\n- tank: a", `1: sensor: unknown key, did you mean "sensors"?`},
		{"a key that is not text", "web:\n2: x", `2: 2: unknown key, the nearest is "log"; valid here are broker, check_timeout, data_dir, ` +
			"ledger, log, mqtt, node, outbox, sensors, site, tanks, tanks_mode, telemetry, topic_prefix, web"},
		{"control characters stay out of the message", "web:\n\"a\\e\\nb\": x", `2: a\x1b\nb: unknown key, the nearest is "web"; ` +
			"valid here are broker, check_timeout, data_dir, ledger, log, mqtt, node, outbox, sensors, site, tanks, tanks_mode, telemetry, topic_prefix, web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := faultsOf(t, tc.text); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// structs gives every struct of the schema.
func structs(t reflect.Type) []reflect.Type {
	all := []reflect.Type{t}
	for _, f := range fieldsOf(t) {
		inner := f.typ
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if isSection(inner) {
			all = append(all, structs(inner)...)
		}
	}
	return all
}

// One slip in any key of the schema leads back to that key, or to one that is
// as near.
func TestSuggestionOfOneSlip(t *testing.T) {
	all := structs(reflect.TypeFor[Config]())
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SampledFrom(all).Draw(t, "struct")
		keys := keysOf(in)
		key := rapid.SampledFrom(keys).Draw(t, "key")
		slip := []byte(key)
		at := rapid.IntRange(0, len(key)-1).Draw(t, "at")
		letter := byte(rapid.IntRange('a', 'z').Draw(t, "letter"))
		switch rapid.SampledFrom([]string{"drop", "add", "change", "swap"}).Draw(t, "slip") {
		case "drop":
			slip = slices.Delete(slip, at, at+1)
		case "add":
			slip = slices.Insert(slip, at, letter)
		case "change":
			slip[at] = letter
		case "swap":
			if at > 0 {
				slip[at], slip[at-1] = slip[at-1], slip[at]
			}
		}
		if slices.Contains(keys, string(slip)) {
			t.Skip("still a key")
		}
		message, meant := unknownKey(string(slip), in)
		if isSecret(string(slip)) {
			return
		}
		if meant != key && editDistance(string(slip), meant) > 1 && !sharesWord(string(slip), meant) {
			t.Fatalf("%q for %q suggests %q: %s", slip, key, meant, message)
		}
		if !strings.Contains(message, meant) {
			t.Fatalf("message %q does not name %q", message, meant)
		}
	})
}

func TestEditDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"intervall", "interval", 1}, {"tnak", "tank", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3}, {"größe", "grosse", 3}, {strings.Repeat("a", 65), "a", 65},
	} {
		if got := editDistance(tc.a, tc.b); got != tc.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := editDistance(tc.b, tc.a); got != tc.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}

// Every field of the schema has a key of its own, and every struct that has a
// password file can hint at it.
func TestSchemaTags(t *testing.T) {
	for _, in := range structs(reflect.TypeFor[Config]()) {
		for i := range in.NumField() {
			key, option, _ := strings.Cut(in.Field(i).Tag.Get("yaml"), ",")
			if key == "" || option != "" && option != "required" {
				t.Errorf("%v.%s has the tag %q", in, in.Field(i).Name, in.Field(i).Tag)
			}
		}
	}
}

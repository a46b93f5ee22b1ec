package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// What YAML can hold and a config cannot, each with its line.
func TestForms(t *testing.T) {
	deep := strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1)
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", " the file is empty: copy config.example.yaml and edit it"},
		{"comments only", "# a\n# b\n", " the file is empty: copy config.example.yaml and edit it"},
		{"a list", "- web\n", "1: must be a mapping of keys to values, is a list"},
		{"a word", "# c\nweb\n", `2: must be a mapping of keys to values, is "web"`},
		{"two documents", "web:\n---\nweb:\n", "3: holds a second YAML document: one is allowed"},
		{"directive", "%YAML 1.2\n---\nweb:\n", "1: YAML directives are not used here: remove the line"},
		{"open bracket", "web:\nsite: [\n", "2: syntax: sequence end token ']' not found"},
		{"tab", "web:\n\tlisten: x\n", "2: syntax: found character '\\t' that cannot start any token"},
		{"not UTF-8", "web:\n# \xff\n", "2: is not UTF-8 text"},
		{"UTF-16", "\xff\xfew\x00e\x00b\x00", "1: is not UTF-8 text"},
		{"NUL", "web:\nsite: a\x00b\n", "2: is not UTF-8 text"},
		{"deep", "web:\nsite: " + deep + "\n", "2: syntax: nested too deep"},
		{"deep dashes", strings.Repeat("- ", maxNesting+1) + "\n", "1: syntax: nested too deep"},
		{"many", "web:\n" + strings.Repeat("a: b\n", maxTokens/3+1), " syntax: more than 65536 YAML tokens"},
		{"duplicate key", "web:\nsite: a\nsite: b\n", "3: site: stands twice, first in line 2"},
		{"duplicate section", "web:\nlog: {level: info}\nlog: {level: warn}\n", "3: log: stands twice, first in line 2"},
		{"anchor", "web:\nsite: &s a\n", "2: site: anchors and aliases are not used here: write the value out"},
		{"merge key", "web:\nlog: {<<: {level: info}}\n", "2: log: a key must be plain text: merge keys, aliases and complex keys are not used here"},
		{"tag", "web:\nsite: !!str a\n", "2: site: YAML tags are not used here: write the value without !!str"},
		{"null text", "web:\nsite:\n", "2: site: must be text, is empty"},
		{"null quantity", "web:\noutbox: {retention: ~}\n", "2: outbox.retention: must be a quantity with its unit, is empty"},
		{"bool for text", "web:\nsite: true\n", "2: site: must be text, is true or false: put it in quotes if it is meant"},
		{"text for bool", "ledger: {publish: yes}\n", `1: ledger.publish: must be true or false, is "yes"`},
		{"octal", "broker: {max_ack_pending: 010}\n", `1: broker.max_ack_pending: must be a whole number, is "010"`},
		{"huge number", "broker: {max_ack_pending: 99999999999999999999}\n", `1: broker.max_ack_pending: must be a whole number, is "99999999999999999999"`},
		{"negative", "broker: {max_ack_pending: -1}\n", `1: broker.max_ack_pending: must be a whole number, is "-1"`},
		{"wide address", "sensors: [{tank: a, driver: ads1115, input: 0, address: 0x10048, calibration: [{volts: 1 V, remaining: 0 g}, {volts: 2 V, remaining: 1 g}]}]",
			"1: sensors[0].address: 0x10048 is too large"},
		{"section for list", "sensors: {a: b}\n", "1: sensors: must be a list, is a section of keys"},
		{"list for section", "web: [a]\n", "1: web: must be a section of keys, is a list"},
		{"list for item", "web:\ntanks: [[a]]\n", "2: tanks[0]: must be a section of keys, is a list"},
		{"after CRLF", "web:\r\n\r\nsite: a b\r\n", `3: site: "a b" is not a name: 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter or a digit`},
		{"after a block", "web:\nsite: |\n  a\nnod: b\n", `4: nod: unknown key, did you mean "node"?`},
		{"after a byte order mark", "\ufeffweb:\nnod: b\n", `2: nod: unknown key, did you mean "node"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := faultsOf(t, tc.text); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A tank may be called 7, 01 or 1e3: a name is text as it stands.
func TestNumbersAsNames(t *testing.T) {
	c := mustParse(t, "ledger:\ntanks: [{id: 7}, {id: 01}, {id: 1e3}, {id: 0x1F}, {id: '5'}]\n")
	for i, want := range []string{"7", "01", "1e3", "0x1F", "5"} {
		if got := c.Tanks[i].ID; got != want {
			t.Errorf("tank %d is %q, want %q", i, got, want)
		}
	}
}

// FuzzParse: whatever the file holds, Parse says what is wrong or gives a
// config that keeps its promises, and does not panic.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/broken.yaml", examplePath} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, seed := range []string{"", "web:", "web: &a\nx: *a", "? - a\n: b", "<<: {}\nweb:", "sensors:\n- {}\n- []\n-", "- - - a", "{a: [b, {c: !!x d}]}",
		"web: |\n  a\n", "%YAML 1.2\n---\nweb:\n...\n", "tanks:\n- id: a\n  initial: 1 g\nledger:\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse("c.yaml", text, testHost)
		if err == nil {
			if len(c.Roles()) == 0 || c.MQTT.Broker == "" || c.Outbox.Retention < 0 {
				t.Fatalf("accepted %q as %+v", text, c)
			}
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("got error %v (%T), want Faults", err, err)
		}
		lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + 1
		for _, fault := range faults {
			if s := fault.String(); strings.ContainsAny(s, "\n\r") || fault.Line < 0 || fault.Line > lines {
				t.Fatalf("fault %q, line %d of %d", s, fault.Line, lines)
			}
		}
	})
}

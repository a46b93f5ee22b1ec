package event

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseInstant(t *testing.T) {
	for text, want := range map[string]string{
		"2026-08-19T10:11:12Z":                "2026-08-19T10:11:12.000000000Z",
		"2026-08-19T10:11:12.5Z":              "2026-08-19T10:11:12.500000000Z",
		"2026-08-19T10:11:12.123456789Z":      "2026-08-19T10:11:12.123456789Z",
		"2026-08-19T10:11:12.000000001+05:45": "2026-08-19T04:26:12.000000001Z",
		"2026-08-19T10:11:12-23:59":           "2026-08-20T10:10:12.000000000Z",
		"2026-08-19T10:11:12+00:00":           "2026-08-19T10:11:12.000000000Z",
		"2026-08-19T10:11:12-00:00":           "2026-08-19T10:11:12.000000000Z",
		"2024-02-29T23:59:59Z":                "2024-02-29T23:59:59.000000000Z",
		"0000-12-31T23:30:00-01:00":           "0001-01-01T00:30:00.000000000Z",
		"9999-12-31T23:59:59.999999999Z":      "9999-12-31T23:59:59.999999999Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00.000000000Z",

		"":                                "",
		"2026-08-19":                      "",
		"2026-08-19T10:11:12":             "",
		"2026-08-19T10:11:12.Z":           "",
		"2026-08-19T10:11:12.1234567890Z": "",
		"2026-08-19T10:11:12,5Z":          "",
		"2026-08-19t10:11:12Z":            "",
		"2026-08-19T10:11:12z":            "",
		"2026-08-19 10:11:12Z":            "",
		"2026-08-19T1:11:12Z0":            "",
		"2026-08-19T10:11:60Z":            "",
		"2026-08-19T10:60:12Z":            "",
		"2026-08-19T24:00:00Z":            "",
		"2026-08-32T10:11:12Z":            "",
		"2026-08-00T10:11:12Z":            "",
		"2026-00-19T10:11:12Z":            "",
		"2026-13-19T10:11:12Z":            "",
		"2026-02-29T10:11:12Z":            "",
		"1900-02-29T10:11:12Z":            "",
		"2026-04-31T10:11:12Z":            "",
		"2026-08-19T10:11:12+24:00":       "",
		"2026-08-19T10:11:12+01:60":       "",
		"2026-08-19T10:11:12+0100":        "",
		"2026-08-19T10:11:12+01":          "",
		"2026-08-19T10:11:12Z ":           "",
		"2026-08-19T10:11:12ZZ":           "",
		"2026-8-19T10:11:12.0Z":           "",
		"+026-08-19T10:11:12Z":            "",
		"0001-01-01T00:00:00+00:01":       "",
		"9999-12-31T23:59:59-00:01":       "",
		"0000-06-01T00:00:00Z":            "",
	} {
		got, ok := parseInstant([]byte(text))
		if ok != (want != "") {
			t.Errorf("parseInstant(%q): got %v, %v, want ok %v", text, got, ok, want != "")
			continue
		}
		if ok && got.Format(canonicalLayout) != want {
			t.Errorf("parseInstant(%q): got %s, want %s", text, got.Format(canonicalLayout), want)
		}
		if ok && got.Location() != time.UTC {
			t.Errorf("parseInstant(%q): got location %v, want UTC", text, got.Location())
		}
	}
}

// TestParseInstantAgainstTime: whatever time.Time writes it reads as the same
// instant, and it never accepts what time.Parse refuses or reads otherwise.
func TestParseInstantAgainstTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genInstant().Draw(t, "instant")
		zone := time.FixedZone("", 60*rapid.IntRange(-1439, 1439).Draw(t, "zone"))
		text := want.In(zone).Format(time.RFC3339Nano)
		if y := want.In(zone).Year(); y < 0 || y > 9999 {
			t.Skip("no RFC 3339 text in that zone")
		}
		if got, ok := parseInstant([]byte(text)); !ok || !got.Equal(want) {
			t.Fatalf("%q: got %v, %v, want %v", text, got, ok, want)
		}
		mutated := []byte(text)
		i := rapid.IntRange(0, len(mutated)-1).Draw(t, "at")
		mutated[i] = rapid.SampledFrom([]byte("0123456789+-:.TZtz ,")).Draw(t, "byte")
		got, ok := parseInstant(mutated)
		std, err := time.Parse(time.RFC3339Nano, string(mutated))
		if ok && (err != nil || !got.Equal(std)) {
			t.Fatalf("%q: got %v, time.Parse gives %v, %v", mutated, got, std, err)
		}
	})
}

package event

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is one golden message of testdata/v1. Its line of index.txt tells the
// topic's type and tank, and what Decode must make of it: the content hash, or
// the form reason. Samples are added at the end and never altered: an account
// that was written under them must be read for ever.
type sample struct {
	name, tank, want string
	t                Type
	payload          []byte
}

func samples(t testing.TB) []sample {
	t.Helper()
	index, err := os.ReadFile("testdata/v1/index.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	lines := bufio.NewScanner(bytes.NewReader(index))
	for lines.Scan() {
		word := strings.Fields(lines.Text())
		if len(word) != 4 {
			t.Fatalf("index.txt: got %d words in %q, want 4", len(word), lines.Text())
		}
		typ, ok := TypeOfTopic(word[1])
		if !ok {
			t.Fatalf("index.txt: unknown topic %q", word[1])
		}
		payload, err := os.ReadFile("testdata/v1/" + word[0] + ".json")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sample{word[0], word[2], word[3], typ, payload})
	}
	return all
}

func TestGoldenSamples(t *testing.T) {
	all := samples(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			e, err := Decode(s.t, s.tank, s.payload)
			if got := outcome(e, err); got != s.want {
				t.Errorf("got %s, want %s (error %v)", got, s.want, err)
			}
			if err != nil {
				return
			}
			again, err := Decode(s.t, s.tank, e.AppendJSON(nil))
			if got := outcome(again, err); got != s.want {
				t.Errorf("after AppendJSON: got %s, want %s (error %v)", got, s.want, err)
			}
		})
	}
	files, err := filepath.Glob("testdata/v1/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(files), len(all); got != want {
		t.Errorf("got %d sample files, want one for each of the %d lines of index.txt", got, want)
	}
}

// outcome gives the hash of an accepted message, or the reason of its refusal.
func outcome(e Event, err error) string {
	if err != nil {
		return string(reasonOf(err))
	}
	h := e.Hash()
	return hex.EncodeToString(h[:])
}

// TestGoldenSamplesStand holds the first samples and what is expected of them
// to the byte. Who adds samples raises both figures; a test that fails although
// none of the old ones was meant to change has found a broken promise.
func TestGoldenSamplesStand(t *testing.T) {
	const (
		count = 55
		want  = "158a0d0d18d5055949ce82d7d884fb1e92b3c318c8c124214ae8a62781e84824"
	)
	all := samples(t)
	if len(all) < count {
		t.Fatalf("got %d samples, want at least %d: they are append-only", len(all), count)
	}
	sum := sha256.New()
	for _, s := range all[:count] {
		fmt.Fprintf(sum, "%s %s %s %s %d\n", s.name, s.t.Topic(), s.tank, s.want, len(s.payload))
		sum.Write(s.payload)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

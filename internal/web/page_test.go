package web

import (
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPageHoldsItselfAndNothingElse(t *testing.T) {
	s := newStation(t, nil)
	w := s.get("/")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %s", w.Code, w.Header())
	}
	text := w.Body.String()
	for _, unwanted := range []string{"http://", "https://", "src=", "href=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick="} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the page contains %q", unwanted)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	for _, tag := range []string{"script", "style"} {
		m := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(text, -1)
		if len(m) != 1 {
			t.Fatalf("%d elements %s, want 1", len(m), tag)
		}
		sum := sha256.Sum256([]byte(m[0][1]))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
}

// TestPageSpeaksUp runs the page's script against a board that answers, falls
// silent and comes back, in testdata/page.js.
func TestPageSpeaksUp(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: the page's script is tested only where there is node (Debian: nodejs)")
	}
	_, rest, _ := strings.Cut(pageText, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	file := filepath.Join(t.TempDir(), "script.js")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, "testdata/page.js", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

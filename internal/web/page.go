package web

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page/index.html
var pageText string

// page is the status page: one document without anything from elsewhere, so that
// it works where there is no internet. Its script asks the API of this board.
type page struct {
	text   []byte
	policy string
}

// newPage makes the content security policy of the page's own text: what it holds
// runs, whatever found its way into it does not.
func newPage() page {
	policy := "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; script-src " + hashOf("script") + "; style-src " + hashOf("style")
	return page{text: []byte(pageText), policy: policy}
}

// hashOf names the one inline element of the tag (CSP level 3 section 2.3.1).
func hashOf(tag string) string {
	_, rest, _ := strings.Cut(pageText, "<"+tag+">")
	inside, _, _ := strings.Cut(rest, "</"+tag+">")
	sum := sha256.Sum256([]byte(inside))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p page) serve(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-cache") // a newer binary has a newer page
	w.Write(p.text)                    // an error here is the client's going away
}

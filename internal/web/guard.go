package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
)

// guard stands before every route. Without a log-in, a page that an operator
// opens elsewhere must not be able to read or record through the operator's
// browser, so a request is refused whose Host is a name of the public DNS (by DNS
// rebinding such a name can be made to mean this machine) and one that the
// browser says another site has made. A program that is no browser sends neither
// Origin nor Sec-Fetch-Site and passes.
func (a *api) guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer a.rescue(w, r)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if !localHost(r.Host) {
			writeFault(w, &fault{status: http.StatusMisdirectedRequest,
				text: "this board is not known as " + shorten(r.Host),
				hint: "use its address, a name without a dot or one below .local, .internal or .home.arpa; a proxy has to send such a Host"})
			return
		}
		if err := foreign.Check(r); err != nil {
			writeFault(w, &fault{status: http.StatusForbidden, text: "a page of another site made this request",
				hint: "record from this board's own page, or with a program that sends no Origin"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// rescue turns a panic of a handler into a 500 and a line in the log: a defect in
// a page must not stop a board that measures.
func (a *api) rescue(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	a.log.Error().Str("path", r.URL.Path).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("request handler panicked")
	writeFault(w, &fault{status: http.StatusInternalServerError, text: "the request met a defect of this program", hint: "its log has the particulars"})
}

// localHost reports whether a Host header can only have been meant for a machine
// of this network: an IP address, a name without a dot, or a name below a domain
// that the public DNS never answers for (RFC 6761, 6762, 8375, and ICANN's
// reservation of .internal in 2024).
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "" || !strings.Contains(host, ".") {
		return host != "" // HTTP/1.1 has a Host always, RFC 9112 section 3.2
	}
	for _, domain := range []string{".localhost", ".local", ".internal", ".home.arpa"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

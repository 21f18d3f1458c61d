package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// checkHost refuses requests that name this node by anything but a loopback name. It is the protection against DNS
// rebinding, where a page's own host name resolves to 127.0.0.1: to the browser the page and the node are then of one
// origin, and only the Host header tells the difference.
func checkHost(hostport string) *host.Error {
	name := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Unmap().IsLoopback() {
			return nil
		}
	} else {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if name == "localhost" || strings.HasSuffix(name, ".localhost") {
			return nil
		}
	}
	return host.Errorf(host.PermissionDenied,
		"the node listens on loopback without a token and serves only the hosts localhost, 127.0.0.1 and [::1], not %q", hostport)
}

// checkOrigin refuses requests of web pages of other origins that are not allowed, and sets the headers that let those
// of allowed origins read the response.
//
// The Host check comes first; without it "same origin" could be the attacker's. Safe methods without an Origin header,
// such as following a link, pass: the page that caused them cannot read the answer.
func (x *exchange) checkOrigin() *host.Error {
	h := x.r.Header
	origins, sites := h["Origin"], h["Sec-Fetch-Site"]
	if len(origins) == 0 && len(sites) == 0 {
		return nil // not a browser, or an old one that sends no Origin to its own host
	}
	site := ""
	if len(sites) > 0 {
		site = sites[0]
	}
	if len(origins) == 0 {
		safe := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead || x.r.Method == http.MethodOptions
		if safe || site == "same-origin" || site == "none" {
			return nil
		}
		return host.Errorf(host.PermissionDenied, "a request of another site must carry an Origin that this node allows")
	}
	origin := origins[0]
	if x.g.anyOrigin || x.g.origins[origin] {
		out := x.w.Header()
		if x.g.anyOrigin {
			out.Set("Access-Control-Allow-Origin", "*")
		} else {
			out.Set("Access-Control-Allow-Origin", origin)
			out.Add("Vary", "Origin")
		}
		out.Set("Access-Control-Expose-Headers", "Cairn-Version, Idempotency-Replayed, Location, Retry-After")
		return nil
	}
	switch site {
	case "same-origin", "none":
		return nil
	case "":
		if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, x.r.Host) {
			return nil
		}
	}
	return host.Errorf(host.PermissionDenied, "pages of the origin %q may not use this node", origin)
}

// checkSite refuses GET requests that a page of another site caused without an Origin, for routes on which a GET does
// something: an image that points to the node must not connect to an actor or lock a message.
func (x *exchange) checkSite() *host.Error {
	h := x.r.Header
	sites := h["Sec-Fetch-Site"]
	if len(h["Origin"]) > 0 || len(sites) == 0 || sites[0] == "same-origin" || sites[0] == "none" {
		return nil
	}
	return host.Errorf(host.PermissionDenied, "a request of another site must carry an Origin that this node allows")
}

// preflight reports whether the request is a CORS preflight, which carries no credentials and is therefore not authorized.
func (x *exchange) preflight() bool {
	h := x.r.Header
	return x.r.Method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != ""
}

// options answers OPTIONS: a CORS preflight, or the question which methods a path has.
func (x *exchange) options(allow string) {
	h := x.w.Header()
	if x.preflight() && h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers",
			"Authorization, Cairn-Connection, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Traceparent")
		h.Set("Access-Control-Max-Age", "600")
		if x.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	h.Set("Allow", allow)
	x.began = true
	x.w.WriteHeader(http.StatusNoContent)
}

package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// A Door decides which requests may reach a node at all: by the node's token, the Host header and
// the origin of web pages. The hook Authorize decides what a caller may do with an actor.
type Door struct {
	guarded  bool // there is a token
	token    [sha256.Size]byte
	loopback bool // only loopback names may name the node
	any      bool // pages of any origin may use the node
	origins  map[string]bool
}

// NewDoor makes a door. An empty token admits every request. loopbackOnly means that the node
// listens only on loopback. The pages of origins may use the node; "*" means all.
func NewDoor(token string, loopbackOnly bool, origins []string) *Door {
	d := &Door{
		guarded: token != "", token: sha256.Sum256([]byte(token)), loopback: loopbackOnly && token == "",
		any: slices.Contains(origins, "*"), origins: make(map[string]bool, len(origins)),
	}
	for _, origin := range origins {
		d.origins[origin] = true
	}
	return d
}

// CheckToken refuses a request without the node's token, if the node has one. It compares digests,
// so its time reveals nothing about the token, not even the length.
func (d *Door) CheckToken(h http.Header) *host.Error {
	if !d.guarded {
		return nil
	}
	const scheme = "bearer "
	header := h.Get("Authorization")
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return host.Errorf(host.Unauthenticated, "a bearer token is required")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(header[len(scheme):])))
	if subtle.ConstantTimeCompare(sum[:], d.token[:]) != 1 {
		return host.Errorf(host.Unauthenticated, "the bearer token is not valid")
	}
	return nil
}

// CheckHost refuses requests whose Host is not a loopback name. It protects against DNS rebinding,
// where a page's own host name resolves to 127.0.0.1: for the browser the page and the node then
// have the same origin, and only the Host header differs. With a token it is not needed.
func (d *Door) CheckHost(hostport string) *host.Error {
	if !d.loopback {
		return nil
	}
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

// CheckOrigin refuses requests of web pages of origins that are not allowed. For allowed origins it
// sets the headers that make the response readable, with the headers in exposed.
//
// The Host check must come first; without it "same origin" could be the attacker's. Safe methods
// without an Origin header pass, for example if a user follows a link: the page cannot read the
// answer.
func (d *Door) CheckOrigin(w http.ResponseWriter, r *http.Request, exposed string) *host.Error {
	h := r.Header
	origins, sites := h["Origin"], h["Sec-Fetch-Site"]
	if len(origins) == 0 && len(sites) == 0 {
		return nil // no browser, or an old one that sends no Origin to its own host
	}
	site := ""
	if len(sites) > 0 {
		site = sites[0]
	}
	if len(origins) == 0 {
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		if safe || site == "same-origin" || site == "none" {
			return nil
		}
		return host.Errorf(host.PermissionDenied,
			"a request of another site must carry an Origin that this node allows")
	}
	origin := origins[0]
	if d.any || d.origins[origin] {
		out := w.Header()
		if d.any {
			out.Set("Access-Control-Allow-Origin", "*")
		} else {
			out.Set("Access-Control-Allow-Origin", origin)
			out.Add("Vary", "Origin")
		}
		out.Set("Access-Control-Expose-Headers", exposed)
		return nil
	}
	switch site {
	case "same-origin", "none":
		return nil
	case "":
		if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
			return nil
		}
	}
	return host.Errorf(host.PermissionDenied, "pages of the origin %q may not use this node", origin)
}

// CheckSite refuses GET requests without an Origin that a page of another site caused. It is for
// routes on which a GET has effects: an image that points to the node must not connect to an actor
// or lock a message.
func CheckSite(r *http.Request) *host.Error {
	h := r.Header
	sites := h["Sec-Fetch-Site"]
	if len(h["Origin"]) > 0 || len(sites) == 0 || sites[0] == "same-origin" || sites[0] == "none" {
		return nil
	}
	return host.Errorf(host.PermissionDenied, "a request of another site must carry an Origin that this node allows")
}

// Preflight reports whether the request is a CORS preflight, which carries no credentials and is
// therefore not authorized.
func Preflight(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != ""
}

package gateway

import (
	"net/http"
	"testing"
)

// TestTheDashboard checks which requests reach the pages below /dashboard/, which have no data in them: all that name the node by a host
// that it serves, with a token or without.
func TestTheDashboard(t *testing.T) {
	const reached = http.StatusTeapot
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(reached) })
	guarded, local, off := newGateway(t, setup{Token: "secret"}), newGateway(t, setup{LoopbackOnly: true}), newGateway(t, setup{Token: "secret"})
	guarded.opts.Dashboard, local.opts.Dashboard = pages, pages
	for _, test := range []struct {
		name         string
		g            *Gateway
		method, path string
		header       string
		want         int
	}{
		{"no token", guarded, "GET", "/dashboard/", "X: y", reached},
		{"HEAD", guarded, "HEAD", "/dashboard/main.js", "X: y", reached},
		{"without the slash", guarded, "GET", "/dashboard", "X: y", reached},
		{"a link of another site", guarded, "GET", "/dashboard/", "Sec-Fetch-Site: cross-site", reached},
		{"fetch of another site", guarded, "GET", "/dashboard/", "Origin: https://evil.example", 403},
		{"another method", guarded, "POST", "/dashboard/", "X: y", 401},
		{"another method, with the token", guarded, "POST", "/dashboard/", "Authorization: Bearer secret", 405},
		{"a path beside it", guarded, "GET", "/dashboards", "X: y", 401},
		{"the data", guarded, "GET", "/actors", "X: y", 401},
		{"loopback", local, "GET", "/dashboard/", "Host: localhost:6420", reached},
		{"a rebound name", local, "GET", "/dashboard/", "Host: evil.example:6420", 403},
		{"a rebound name, a file", local, "GET", "/dashboard/main.js", "Host: evil.example", 403},
		{"switched off", off, "GET", "/dashboard/", "X: y", 401},
		{"switched off, with the token", off, "GET", "/dashboard/", "Authorization: Bearer secret", 404},
	} {
		if w := ask(test.g, test.method, test.path, "", test.header); w.Code != test.want {
			t.Errorf("%s: %d; want %d: %s", test.name, w.Code, test.want, w.Body)
		}
	}
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// Options configure a Front. None is required.
type Options struct {
	// Behaviors are the actor types of the node. They name the types and methods that appear in
	// metrics (all others are counted as "unknown"), the creation that a PUT with a body means, and
	// the types whose callers may use SQL. Nil names none.
	Behaviors []*host.Behavior
	// Authorize is asked about every request except CORS preflights, after the token. An
	// *host.Error is passed on to the client, any other error becomes permission_denied without
	// details. Nil allows all.
	Authorize func(context.Context, AuthRequest) error
	// Token, if not "", is demanded of every request except GET /healthz and the pages of the
	// dashboard, as "Authorization: Bearer <token>". A gateway may take other tokens in its place
	// for what these allow.
	Token string
	// AllowedOrigins are the web origins, such as "https://app.example.com", whose pages may use
	// the gateway from a browser, besides pages that the gateway's own host serves. "*" stands for
	// all and demands a Token or Authorize.
	AllowedOrigins []string
	// LoopbackOnly says that the node listens on loopback only. Without a Token, requests are then
	// accepted only if their Host header is a loopback address or localhost, so that a web page
	// cannot reach the node by pointing a name of its own at 127.0.0.1. Authorize does not replace
	// that check: such a page looks to it like a program on this machine.
	LoopbackOnly bool
	Limits       Limits
	// Gatherer is what GET /metrics shows, Registerer is where the gateway registers its own
	// metrics. With both nil the gateway shows its own. A Registerer that is also a Gatherer, such
	// as a *prometheus.Registry, needs no Gatherer.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	// Logger takes panics and errors without a code. Nil discards them.
	Logger *slog.Logger
}

// ensureDefaults returns o with its zero fields replaced by the defaults.
func (o Options) ensureDefaults() Options {
	o.Limits.ensureDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gatherer == nil {
		if o.Registerer == nil {
			o.Registerer = prometheus.NewRegistry()
		}
		if g, ok := o.Registerer.(prometheus.Gatherer); ok {
			o.Gatherer = g
		}
	}
	return o
}

// validate reports every fault of o at once, or nil. It expects the result of ensureDefaults.
func (o Options) validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("gateway: "+format, args...))
		}
	}
	o.Limits.check(fault)
	fault(o.Gatherer == nil,
		"Registerer is set and cannot be gathered from, and Gatherer is nil: /metrics would be empty")
	for i := range len(o.Token) {
		if c := o.Token[i]; c <= ' ' || c > '~' {
			fault(true, "Token has a byte at position %d that is not printable ASCII", i)
			break
		}
	}
	for _, origin := range o.AllowedOrigins {
		if origin == "*" {
			fault(o.Token == "" && o.Authorize == nil, `AllowedOrigins "*" demands a Token or Authorize`)
			continue
		}
		u, err := url.Parse(origin)
		fault(err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin,
			"AllowedOrigins: %q is not an origin like https://app.example.com", origin)
	}
	for i, b := range o.Behaviors {
		fault(b == nil, "Behaviors[%d] is nil", i)
	}
	return errors.Join(faults...)
}

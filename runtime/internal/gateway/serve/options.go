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
	// Behaviors are the actor types of the node. They determine the types and methods in metrics
	// (all others are counted as "unknown"), the creation of a PUT with a body, and the types whose
	// callers may use SQL. Nil means none.
	Behaviors []*host.Behavior
	// Authorize checks every request except CORS preflights, after the token. An *host.Error is
	// passed on to the client, any other error becomes permission_denied without details. Nil
	// allows all.
	Authorize func(context.Context, AuthRequest) error
	// Token, if not "", is required of every request as "Authorization: Bearer <token>", except GET
	// /healthz and the pages of the dashboard. A gateway may accept other tokens instead, for what
	// they allow.
	Token string
	// AllowedOrigins are the web origins, such as "https://app.example.com", whose pages may use
	// the gateway from a browser, in addition to pages of the gateway's own host. "*" means all and
	// requires a Token or Authorize.
	AllowedOrigins []string
	// LoopbackOnly means that the node listens only on loopback. Without a Token, requests are then
	// accepted only if their Host header is a loopback address or localhost, so a web page cannot
	// reach the node by pointing its own name at 127.0.0.1. Authorize does not replace that check:
	// it cannot distinguish such a page from a program on this machine.
	LoopbackOnly bool
	Limits       Limits
	// Gatherer has the metrics of GET /metrics. The gateway registers its own metrics in
	// Registerer. If both are nil, the gateway shows its own. A Registerer that is also a Gatherer,
	// such as a *prometheus.Registry, needs no Gatherer.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	// Logger receives panics and errors without a code. Nil discards them.
	Logger *slog.Logger
}

// ensureDefaults returns o with its zero fields replaced with the defaults.
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

// validate returns every fault of o in one error, or nil. Call ensureDefaults before.
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
